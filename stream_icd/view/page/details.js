// What is selected: a community, or the past of a node.

import { colour } from "./colours.js";
import { community } from "./events.js";
import { el, fill, number, shown, time } from "./dom.js";
import { called } from "./names.js";

/** Show the selection; nothing if nothing is selected. */
export function drawDetails(into, { chosen, past, flow, composition, explained, held, onCommunity, onWindow, onClear }) {
  into.hidden = chosen === null && past === null;
  if (into.hidden) return;
  const close = el("button", { class: "close", type: "button", onclick: onClear, title: "clear (Esc)" }, "×");
  fill(into, close, past === null ? null : node(past, onCommunity, onWindow), explained?.node === past?.node ? why(explained, onCommunity) : null, chosen === null ? null : about(chosen, flow), held?.community === chosen ? together(held) : null, composition?.community === chosen ? parts(composition) : null);
}

/** Why a node is where it is: words first, then the edges that say most. */
function why(found, onCommunity) {
  if (!found) return null;
  const rows = found.edges.map((edge) => el("tr", {},
    el("td", {}, shown(edge.to, 40)), el("td", {}, community(edge.community, onCommunity)),
    el("td", { class: "number" }, number(edge.weight, 2)), el("td", { class: "number" }, number(edge.bits, 1))));
  return el("div", { class: "composition", id: "why" },
    words(found),
    rows.length === 0 ? null : el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["edge to", "speaks for", "weight", "bits"].map((name) => el("th", {}, name)))),
      el("tbody", {}, rows))));
}

/** What holds a community together: words first, then the edges that say most for it and against. */
function together(found) {
  const rows = found.links.map((link) => el("tr", {},
    el("td", {}, shown(link.one, 40)), el("td", {}, shown(link.other, 40)),
    el("td", { class: "number" }, number(link.weight, 2)), el("td", { class: "number" }, number(link.bits, 1))));
  return el("div", { class: "composition", id: "held" }, words(found),
    rows.length === 0 ? null : el("details", {}, el("summary", {}, "The edges that say most"), el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["edge", "and", "weight", "bits"].map((name) => el("th", {}, name)))),
      el("tbody", {}, rows)))));
}

const words = (found) => el("p", {}, found.sentences.join(" ").replace(/(\d)-(?=\d)/g, "$1\u2011")); // dates stay in one line

/** What a community is made of: a table for each attribute. */
function parts({ attributes }) {
  return Object.entries(attributes).map(([attribute, values]) => el("div", { class: "composition" },
    el("table", {},
      el("thead", {}, el("tr", {}, el("th", {}, shown(attribute)), el("th", { class: "number" }, "members"), el("th", { class: "number" }, "in the window"))),
      el("tbody", {}, values.map((part) => el("tr", {},
        el("td", { class: part.names ? "over" : "" }, part.value === null ? "not known" : shown(part.value, 60)),
        el("td", { class: "number" }, number(part.members)), el("td", { class: "number" }, number(part.total)))))),
    el("p", { class: "note" }, "Bold: more than by chance.")));
}

function about(id, flow) {
  const columns = flow?.columns ?? [];
  const sizes = columns.flatMap((column) => column.sizes.filter(([one]) => one === id).map(([, size]) => ({ column, size })));
  const swatch = el("span", { class: "swatch" });
  swatch.style.background = colour(id);
  if (sizes.length === 0) return el("h2", {}, swatch, `${called(id)}: not in these windows`);
  const [first, last] = [sizes[0], sizes.at(-1)];
  const there = last.column === columns.at(-1) ? "in the newest window" : `last seen ${time(last.column.end)}`;
  return el("div", {}, el("h2", {}, swatch, called(id)),
    el("p", { class: "note" }, `${number(last.size)} members ${there}; ${number(first.size)} at ${time(first.column.end)}. In ${sizes.length} of ${columns.length} columns.`));
}

function node(past, onCommunity, onWindow) {
  if (past.spans.length === 0) return el("h2", {}, `node ${shown(past.node)}: not in these ${past.of} windows`);
  const rows = past.spans.slice(-100).reverse().map((span) => el("tr", {},
    el("td", {}, el("button", { type: "button", onclick: () => onWindow(span.from) }, time(span.start))),
    el("td", { class: "kind" }, time(span.end)),
    el("td", {}, span.id === null ? "missing" : community(span.id, onCommunity)),
    el("td", { class: "number" }, number(span.to - span.from + 1))));
  const changes = past.spans.length - 1;
  return el("div", {},
    el("h2", {}, `node ${shown(past.node)}`),
    el("p", { class: "note" }, `In ${number(past.seen)} of ${number(past.of)} windows; ${number(changes)} ${changes === 1 ? "change" : "changes"}.`),
    el("div", { class: "scroll" }, el("table", { id: "past" },
      el("thead", {}, el("tr", {}, ["from", "until", "community", "windows"].map((name) => el("th", {}, name)))),
      el("tbody", {}, rows))));
}
