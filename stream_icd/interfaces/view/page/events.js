// What happened to the communities, as a list that filters; dead letters; decisions about models.

import { colour } from "./colours.js";
import { cell, el, figure, fill, note, number, refill, scroll, shown, table, time } from "./dom.js";
import { briefly, called } from "./names.js";
import { kept } from "./source.js";

const KINDS = ["born", "merged", "split", "died", "returned", "grown", "shrunk", ...(kept === null ? ["continued"] : [])]; // too many for a report
const USUAL = "born,merged,split,died";
export const CONFIRMED = 3; // windows for which a confirmed event has lasted
export const MOST_TOLD = 100; // events among which those of the headlines are
const HEADLINES = 4;
const STRENGTHS = [["0", "not against the edges"], ["10", "from 10 bits"], ["50", "from 50 bits"], ["100", "from 100 bits"], ["any", "any"]];

/** Draw the list into an element. */
export function drawEvents(into, listed, overview, life, { kinds, community: chosen, sure, bits, onKinds, onSure, onBits, onCommunity, onWindow }) {
  if (into.querySelector(".bar") === null) fill(into, el("div", { class: "bar" }), el("div"));
  const [bar, below] = into.children;
  refill(bar, [kinds, chosen, sure, bits], () => choices({ kinds, chosen, sure, bits, onKinds, onSure, onBits }));
  fill(below,
    el("p", { class: "note", id: "hidden-events" }, listed.hidden > 0 ? `${hidden(listed.hidden)}: undone, too new to tell, too weak, or the edges of the window speak against it.` : ""),
    scroll(events(listed.events, onCommunity, onWindow)),
    note(listed.events.length === 0 ? "No such event. " : listed.until === null ? "" : "Older events are left out: choose fewer kinds, or one community. ",
      listed.of_newest ? `These are events of the newest ${number(listed.of_newest)} windows; older ones are not looked at.` : ""),
    models(life, onWindow), letters(overview), decisions(overview));
}

const hidden = (count) => (count === 1 ? "1 event is hidden" : `${number(count)} events are hidden`);

/** What chooses the events. */
function choices({ kinds, chosen, sure, bits, onKinds, onSure, onBits }) {
  const wanted = new Set((kinds || USUAL).split(","));
  const box = (name, checked, onChange) => el("label", {}, el("input", { type: "checkbox", checked, onchange: (event) => onChange(event.target.checked) }), ` ${name}`);
  const boxes = KINDS.map((kind) => box(kind, wanted.has(kind), (checked) => {
    if (checked) wanted.add(kind); else wanted.delete(kind);
    onKinds(KINDS.filter((name) => wanted.has(name)).join(",") || USUAL);
  }));
  const strength = el("label", {}, "strength ", el("select", { onchange: (event) => onBits(event.target.value) },
    STRENGTHS.map(([least, name]) => el("option", { value: least, selected: least === bits }, name))));
  const only = el("span", { class: "note" }, chosen === null ? "all communities" : `community ${chosen}`);
  return [...boxes, box(`lasted ${CONFIRMED} windows`, sure, onSure), strength, only];
}

function events(happened, onCommunity, onWindow) {
  const rows = happened.map((event) => [
    cell(el("button", { type: "button", onclick: () => onWindow(event.number), title: shown(event.snapshot) }, time(event.start))),
    cell(event.kind, "kind"),
    cell(shown(event.sentence, 300)),
    cell(event.sure === "" ? "new" : event.sure),
    cell([...new Set([event.id, ...event.parents, ...event.children])].slice(0, 12).map((id) => community(id, onCommunity)))]);
  return table(["window", "event", "what happened", "how sure", "communities"], rows, "event-table");
}

/** The colour of a community. */
export function swatch(id) {
  const square = el("span", { class: "swatch" });
  square.style.background = colour(id);
  return square;
}

/** A button for a community. */
export function community(id, onCommunity) {
  const name = briefly(id);
  return el("button", { type: "button", class: "community", title: called(id), onclick: () => onCommunity(id) }, swatch(id), name === null ? String(id) : `${shown(name, 30)} · ${id}`);
}

function letters(overview) {
  if (!overview || overview.dead_letters === 0) return null;
  const rows = overview.dead_letter_list.map((letter) => [
    cell(time(letter.at)), cell(shown(letter.graph)), cell(shown(letter.stage)),
    cell(`${shown(letter.exception)}: ${shown(letter.message, 300)}`), cell(shown(letter.place))]);
  return titled(`Dead letters: ${number(overview.dead_letters)}`, "letters", ["at", "graph", "stage", "reason", "place"], rows);
}

/** Which model detected which windows, newest first; nothing if it was always the same. */
function models(life, onWindow) {
  const columns = life?.columns;
  const starts = (columns?.model ?? []).flatMap((model, at) => (at === 0 || model !== columns.model[at - 1] ? [at] : []));
  if (starts.length < 2) return null;
  const rows = starts.map((at, nth) => [
    cell(shown(columns.model[at])),
    cell(el("button", { type: "button", onclick: () => onWindow(columns.number[at]) }, time(columns.start[at]))),
    figure((starts[nth + 1] ?? columns.model.length) - at)]);
  return titled("Models", "models", ["model", "first window", ["windows", "number"]], rows.reverse());
}

function decisions(overview) {
  if (!overview || overview.announcements.length === 0) return null;
  const rows = overview.announcements.map((decision) => [
    cell(time(decision.at)), cell(decision.kind), cell(decision.version === null ? "–" : shown(decision.version)),
    cell(shown(decision.reason, 500)), cell(shown(decision.by))]);
  return titled("Decisions about models", "decisions", ["at", "decision", "version", "reason", "by"], rows);
}

function titled(title, id, columns, rows) {
  return el("div", { id }, el("h2", {}, title), scroll(table(columns, rows)));
}

/** The newest events as sentences, those with a strength if there are any; a click goes to the window. */
export function headlines(listed, first, onHeadline) {
  const later = (listed?.events ?? []).filter(({ number, kind }) => kind !== "born" || number > first); // at first, all are new
  const strong = later.filter(({ bits }) => bits !== null);
  const rows = (strong.length > 0 ? strong : later).slice(0, HEADLINES);
  if (rows.length === 0) return null;
  return el("ul", { id: "headlines", "aria-label": "what happened lately" }, rows.map((event) => el("li", {},
    el("button", { type: "button", onclick: () => onHeadline(event) }, `${time(event.start)}: ${shown(event.sentence, 200)}${event.sure === "" ? "" : `; ${event.sure}`}`))));
}
