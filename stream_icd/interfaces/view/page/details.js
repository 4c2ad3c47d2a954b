// What is selected: a community, or the past of a node.

import { cell, el, figure, fill, note, number, scroll, shown, table, time } from "./dom.js";
import { community, swatch } from "./events.js";
import { called } from "./names.js";

/** Show the selection; nothing if nothing is selected. */
export function drawDetails(into, { chosen, past, flow, composition, explained, held, csv, onCommunity, onWindow, onClear }) {
  into.hidden = chosen === null && past === null;
  if (into.hidden) return;
  fill(into,
    el("button", { class: "close", type: "button", onclick: onClear, "aria-label": "clear", title: "clear (Esc)" }, "×"),
    past === null ? null : node(past, onCommunity, onWindow),
    explained && explained.node === past?.node ? why(explained, onCommunity) : null,
    chosen === null ? null : about(chosen, flow),
    chosen === null || csv === null ? null : el("button", { type: "button", id: "csv", onclick: csv }, "members as CSV"),
    held && held.community === chosen ? together(held) : null,
    composition && composition.community === chosen ? parts(composition) : null);
}

/** Why a node is where it is: the communities that it may be in, the edges for its own, those for others, and words. */
function why(explained, onCommunity) {
  const choices = explained.choices.map((choice) => [
    cell(community(choice.community, onCommunity)), figure(choice.probability, 3), figure(choice.edges, 1)]);
  const edges = (own) => explained.edges.filter((edge) => (edge.community === explained.now) === own).map((edge) => [
    cell(shown(edge.to, 40)), cell(community(edge.community, onCommunity)), figure(edge.weight, 2), figure(edge.bits, 1)]);
  const listed = (name, rows) => (rows.length === 0 ? null : table([name, "in", ["weight", "number"], ["bits", "number"]], rows));
  const [first, ...others] = explained.sentences;
  return el("div", { class: "composition", id: "why" }, el("p", {}, unbroken(first)),
    choices.length === 0 ? null : table(["community", ["probability", "number"], ["weight of edges to it", "number"]], choices, "choices"),
    scroll(listed("edges for its community", edges(true)), listed("edges for others", edges(false))),
    el("p", {}, unbroken(others.join(" "))));
}

/** What holds a community together: words first, then the edges that say most for it and against. */
function together(held) {
  const rows = held.links.map((link) => [
    cell(shown(link.one, 40)), cell(shown(link.other, 40)), figure(link.weight, 2), figure(link.bits, 1)]);
  return el("div", { class: "composition", id: "held" }, words(held),
    rows.length === 0 ? null : el("details", {}, el("summary", {}, "The edges that say most"), scroll(table(["edge", "and", ["weight", "number"], ["bits", "number"]], rows))));
}

const unbroken = (text) => text.replace(/(\d)-(?=\d)/g, "$1\u2011"); // dates stay in one line
const words = ({ sentences }) => el("p", {}, unbroken(sentences.join(" ")));

/** What a community is made of: a table for each attribute. */
function parts({ attributes }) {
  const row = ({ value, names, members, total }) => [
    cell(value === null ? "not known" : shown(value, 60), names ? "over" : null), figure(members), figure(total)];
  return Object.entries(attributes).map(([attribute, values]) => el("div", { class: "composition" },
    table([shown(attribute), ["members", "number"], ["in the window", "number"]], values.map(row)),
    note("Bold: more than by chance.")));
}

function about(id, flow) {
  if (flow === null) return el("h2", {}, swatch(id), called(id));
  const columns = flow.columns;
  const sizes = columns.flatMap((column) => column.sizes.filter(([shownId]) => shownId === id).map(([, size]) => ({ column, size })));
  if (sizes.length === 0) return el("h2", {}, swatch(id), `${called(id)}: no band in these ${columns.length} columns`);
  const [first, last] = [sizes[0], sizes.at(-1)];
  const there = last.column === columns.at(-1) ? `in ${time(last.column.start)}` : `last seen ${time(last.column.start)}`;
  return el("div", {}, el("h2", {}, swatch(id), called(id)),
    note(`${number(last.size)} members ${there}; ${number(first.size)} in ${time(first.column.start)}. In ${sizes.length} of ${columns.length} columns.`));
}

function node(past, onCommunity, onWindow) {
  if (past.spans.length === 0) return el("h2", {}, `node ${shown(past.node)}: not in these ${past.of} windows`);
  const rows = past.spans.slice(-100).reverse().map((span) => [
    cell(el("button", { type: "button", onclick: () => onWindow(span.from) }, time(span.start))),
    cell(time(span.last), "kind"),
    cell(span.id === null ? "missing" : community(span.id, onCommunity)),
    figure(span.to - span.from + 1)]);
  const changes = past.spans.length - 1;
  return el("div", {},
    el("h2", {}, `node ${shown(past.node)}`),
    note(`In ${number(past.seen)} of ${number(past.of)} windows; ${number(changes)} ${changes === 1 ? "change" : "changes"}.`),
    scroll(table(["first window", "last window", "community", ["windows", "number"]], rows, "past")));
}
