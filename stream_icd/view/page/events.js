// What happened to the communities, as a list that filters; dead letters; decisions about models.

import { colour } from "./colours.js";
import { el, fill, number, shown, time } from "./dom.js";
import { briefly, called } from "./names.js";

const KINDS = ["born", "merged", "split", "died", "grown", "shrunk", "continued"];
export const USUAL = "born,merged,split,died";
export const CONFIRMED = 3; // windows for which a confirmed event has lasted
const STRENGTHS = [0, 10, 50, 100];

/** Draw the list into an element. */
export function drawEvents(into, found, overview, life, { kinds, community, sure, bits, onKinds, onSure, onBits, onCommunity, onWindow }) {
  const chosen = new Set((kinds || USUAL).split(","));
  const boxes = KINDS.map((kind) => el("label", {}, el("input", {
    type: "checkbox", checked: chosen.has(kind), onchange: (event) => {
      if (event.target.checked) chosen.add(kind); else chosen.delete(kind);
      onKinds(KINDS.filter((one) => chosen.has(one)).join(",") || USUAL);
    },
  }), ` ${kind}`));
  const confirmed = el("label", {}, el("input", { type: "checkbox", checked: sure, onchange: (event) => onSure(event.target.checked) }), ` lasted ${CONFIRMED} windows`);
  const strength = el("label", {}, "strength ", el("select", { onchange: (event) => onBits(event.target.value) },
    STRENGTHS.map((least) => el("option", { value: least, selected: least === bits }, least === 0 ? "any" : `from ${least} bits`))));
  const only = community === null ? "all communities" : `community ${community}`;
  fill(into,
    el("div", { class: "bar" }, boxes, confirmed, strength, el("span", { class: "note" }, only)),
    el("p", { class: "note", id: "hidden-events" }, found.hidden > 0 ? `${number(found.hidden)} events are hidden: they were undone, are too new to tell, or are too weak.` : ""),
    el("div", { class: "scroll" }, table(found.events, onCommunity, onWindow)),
    el("p", { class: "note" }, found.events.length === 0 ? "No such event." : found.until === null ? "" : "Older events are left out: choose fewer kinds, or one community."),
    models(life, onWindow), letters(overview), decisions(overview));
}

function table(events, onCommunity, onWindow) {
  const rows = events.map((event) => el("tr", {},
    el("td", {}, el("button", { type: "button", onclick: () => onWindow(event.number), title: shown(event.snapshot) }, time(event.end))),
    el("td", { class: "kind" }, event.kind),
    el("td", {}, community(event.id, onCommunity)),
    el("td", { class: "number" }, `${number(event.size_before)} → ${number(event.size)}`),
    el("td", {}, [...event.parents, ...event.children].slice(0, 12).map((id) => community(id, onCommunity))),
    el("td", { class: "number" }, event.bits === null ? "–" : number(event.bits)),
    el("td", { class: "number" }, lasted(event))));
  return el("table", { id: "event-table" },
    el("thead", {}, el("tr", {}, ["window ends", "event", "community", "members", "from or into", "bits", "lasted"].map((name) => el("th", {}, name)))),
    el("tbody", {}, rows));
}

/** For how many windows an event has lasted. */
function lasted({ lasted: windows, undone }) {
  return undone ? `${windows}, undone` : windows < CONFIRMED ? `${windows} so far` : `${windows}+`;
}

/** A button for a community. */
export function community(id, onCommunity) {
  const swatch = el("span", { class: "swatch" });
  swatch.style.background = colour(id);
  const name = briefly(id);
  return el("button", { type: "button", class: "community", title: called(id), onclick: () => onCommunity(id) }, swatch, name === null ? String(id) : `${shown(name, 30)} · ${id}`);
}

function letters(overview) {
  if (!overview || overview.dead_letters === 0) return null;
  const rows = overview.dead_letter_list.map((one) => el("tr", {},
    el("td", {}, time(one.at)), el("td", {}, shown(one.graph)), el("td", {}, shown(one.stage)),
    el("td", {}, `${shown(one.exception)}: ${shown(one.message, 300)}`), el("td", {}, shown(one.place))));
  return titled(`Dead letters: ${number(overview.dead_letters)}`, "letters", ["at", "graph", "stage", "reason", "place"], rows);
}

/** Which model detected which windows, newest first; nothing if it was always the same. */
function models(life, onWindow) {
  const columns = life?.columns;
  const starts = (columns?.model ?? []).flatMap((model, at) => (at === 0 || model !== columns.model[at - 1] ? [at] : []));
  if (starts.length < 2) return null;
  const rows = starts.map((at, nth) => el("tr", {},
    el("td", {}, shown(columns.model[at])),
    el("td", {}, el("button", { type: "button", onclick: () => onWindow(columns.number[at]) }, time(columns.end[at]))),
    el("td", { class: "number" }, number((starts[nth + 1] ?? columns.model.length) - at))));
  return titled("Models", "models", ["model", "first window ends", "windows"], rows.reverse());
}

function decisions(overview) {
  if (!overview || overview.announcements.length === 0) return null;
  const rows = overview.announcements.map((one) => el("tr", {},
    el("td", {}, time(one.at)), el("td", {}, one.kind), el("td", {}, one.version === null ? "–" : shown(one.version)),
    el("td", {}, shown(one.reason, 500)), el("td", {}, shown(one.by))));
  return titled("Decisions about models", "decisions", ["at", "decision", "version", "reason", "by"], rows);
}

function titled(title, id, columns, rows) {
  return el("div", { id }, el("h2", {}, title), el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, columns.map((name) => el("th", {}, name)))),
    el("tbody", {}, rows))));
}
