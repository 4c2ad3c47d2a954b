// The flow of communities: a column for each window, a band for each community, and between columns
// the nodes that move. Each community is one shape, so that thousands of bands stay fluent.

import { colour } from "./colours.js";
import { el, fill, note, number, shown, svg, time } from "./dom.js";
import { briefly, called } from "./names.js";
import { kept } from "./source.js";

const MARKS = { born: "+", merged: "▸", split: "◂", died: "×" };
const OTHERS = -1;
const LEFT = 8, TOP = 20, BOTTOM = 42, GAP = 3;
const LEAST_MOVE = 0.4; // pixels
export const MOST_WINDOWS = 6000; // that can be chosen
const LETTER = 6.6; // pixels of a letter of the labels, at most on average
const LINE = 14; // pixels of a line of text
const AROUND = 170; // pixels of the headlines above, and of the legend below

let above = 0; // how many levels above the communities the bands are

/** Where everything is drawn; pure. */
function layout(flow, width, height) {
  const columns = flow.columns;
  const right = Math.min(190, width * 0.2);
  const step = columns.length > 1 ? (width - LEFT - right) / (columns.length - 1 + 0.2) : 0;
  const bar = Math.min(22, Math.max(2, step * 0.2));
  const stacks = columns.map((column) => [...(column.others > 0 ? [[OTHERS, column.others]] : []), ...column.sizes]);
  const most = Math.max(1, ...columns.map((column) => column.nodes));
  const bands = Math.max(1, ...stacks.map((stack) => stack.length));
  const scale = (height - TOP - BOTTOM - GAP * (bands - 1)) / most;
  const places = stacks.map((stack) => {
    let y = height - BOTTOM;
    return new Map(stack.map(([id, size]) => {
      const h = size * scale;
      y -= h;
      const place = { y, h, size };
      y -= GAP;
      return [id, place];
    }));
  });
  return { columns, places, step, bar, scale, height, width, x: (at) => LEFT + at * step, right };
}

/** The shapes of each community: `bands` (its bars and those who stay) and `moves` (who leave). */
function shapes(drawn, moves) {
  const bands = new Map();
  const away = new Map();
  const add = (shapesOf, id, d) => shapesOf.set(id, (shapesOf.get(id) ?? "") + d);
  drawn.places.forEach((places, at) => {
    for (const [id, { y, h }] of places) add(bands, id, rectangle(drawn.x(at), y, drawn.bar, Math.max(h, 0.5)));
  });
  moves.forEach((between, at) => {
    const [left, right] = [drawn.places[at], drawn.places[at + 1]];
    const leaving = new Map([...left].map(([id, { y, h }]) => [id, y + h]));
    const coming = new Map([...right].map(([id, { y, h }]) => [id, y + h]));
    const order = (places) => new Map([...places.keys()].map((id, rank) => [id, rank]));
    const [from, to] = [order(left), order(right)];
    const ways = between.filter(([a, b]) => left.has(a) && right.has(b))
      .sort((one, other) => from.get(one[0]) - from.get(other[0]) || to.get(one[1]) - to.get(other[1]));
    for (const [a, b, n] of ways) {
      const h = n * drawn.scale;
      const [y0, y1] = [leaving.get(a) - h, coming.get(b) - h];
      leaving.set(a, y0);
      coming.set(b, y1);
      if (a !== b && h < LEAST_MOVE) continue;
      const d = ribbon(drawn.x(at) + drawn.bar, y0, drawn.x(at + 1), y1, h);
      if (a === b) add(bands, a, d); else add(away, a, d);
    }
  });
  return { bands, away };
}

function rectangle(x, y, w, h) {
  return `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}z`;
}

function ribbon(x0, y0, x1, y1, h) {
  const middle = round((x0 + x1) / 2);
  const [a, b, c, d] = [x0, y0, x1, y1].map(round);
  return `M${a} ${b}C${middle} ${b} ${middle} ${d} ${c} ${d}v${round(h)}C${middle} ${round(y1 + h)} ${middle} ${round(y0 + h)} ${a} ${round(y0 + h)}z`;
}

const round = (value) => Math.round(value * 10) / 10;

/** Draw the flow into an element. */
export function drawFlow(into, flow, { chosen, path, here, sure, inside = "", onCommunity: follow, onWindow, onZoom }) {
  above = flow.above ?? 0;
  const onCommunity = above > 0 ? (id) => onZoom(above - 1, `${above}:${id}`) : follow;
  const width = Math.max(280, into.clientWidth);
  const top = into.getBoundingClientRect().top + window.scrollY;
  const height = Math.max(320, Math.min(620, window.innerHeight - top - AROUND));
  if (flow.columns.length === 0) {
    fill(into, levels(flow, inside, onZoom), note("This window is no longer in memory, or was never seen."));
    return;
  }
  const drawn = layout(flow, width, height);
  const { bands, away } = shapes(drawn, flow.moves);
  const following = above === 0 && chosen !== null && bands.has(chosen);
  const parts = [...bands].map(([id, d]) => shape("band", id, d, following ? chosen : null, onCommunity));
  const moving = [...away].map(([id, d]) => shape("move", id, d, following ? chosen : null, onCommunity));
  const picture = svg("svg", {
    class: following ? "flow following" : "flow", viewBox: `0 0 ${width} ${height}`, height,
    role: "img", "aria-label": description(flow), tabindex: 0,
    "data-columns": flow.columns.length, "data-newest": flow.columns.at(-1).number, "data-here": here,
  }, moving, parts, hereBand(drawn, here), gaps(drawn), swaps(drawn), marks(drawn, sure), above > 0 ? null : nodePath(drawn, path), labels(drawn, chosen, onCommunity), axis(drawn));
  picture.addEventListener("dblclick", (event) => onWindow(columnAt(drawn, picture, event).number));
  fill(into, levels(flow, inside, onZoom), picture, legend(flow, sure));
}

/** Buttons of the levels, if there are several, and of the band that the flow is zoomed into. */
function levels(flow, inside, onZoom) {
  if (!flow.levels && !inside && above === 0) return null;
  const [of, band] = inside.split(":");
  const names = ["communities", ...Array.from({ length: Math.max(flow.levels ?? 0, above) }, (_, at) => `level ${at + 1}`)];
  const buttons = names.map((name, at) => el("button", {
    type: "button", "data-above": at, "aria-pressed": String(at === above), onclick: () => onZoom(at, at < Number(of) ? inside : ""),
  }, name));
  const out = inside && el("button", { type: "button", "data-out": "", onclick: () => onZoom(Number(of), "") }, `inside ${band} of level ${of} ×`);
  return el("p", { class: "levels", role: "group", "aria-label": "levels" }, buttons, out || null);
}

function shape(kind, id, d, chosen, onCommunity) {
  return svg("path", {
    class: id === chosen ? `${kind} chosen` : kind, d, fill: colour(id), "data-id": id,
    onclick: id === OTHERS ? () => {} : () => onCommunity(id),
  }, svg("title", {}, id === OTHERS ? "all other communities" : `${titled(id)}${kind === "move" ? ": nodes that leave" : ""}`));
}

function description(flow) {
  const last = flow.columns.at(-1);
  return `${flow.columns.length} windows; the last, ${time(last.start)}, has ${last.nodes} nodes in ${last.k} communities`;
}

function columnAt(drawn, picture, event) {
  const box = picture.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * drawn.width;
  const at = Math.round((x - LEFT) / (drawn.step || 1));
  return drawn.columns[Math.min(drawn.columns.length - 1, Math.max(0, at))];
}

function hereBand(drawn, here) {
  const at = here === null ? -1 : drawn.columns.findLastIndex((column) => column.number <= here); // not each window has a column
  return at < 0 ? null : svg("rect", { class: "here", x: drawn.x(at) - 4, y: 0, width: drawn.bar + 8, height: drawn.height - BOTTOM + 4 });
}

function gaps(drawn) {
  return drawn.columns.flatMap((column, at) => {
    if (!column.missed || at === 0) return [];
    const x = drawn.x(at) - (drawn.step - drawn.bar) / 2;
    const title = svg("title", {}, `${column.missed} missing`);
    return [svg("line", { class: "gap", x1: x, x2: x, y1: TOP, y2: drawn.height - BOTTOM }, title)];
  });
}

/** Where another model took over, at the first column that shows it; names that would overlap are tips. */
function swaps(drawn) {
  let free = 0;
  return drawn.columns.flatMap((column, at) => {
    if (at === 0 || column.model === drawn.columns[at - 1].model) return [];
    const x = drawn.x(at) - (drawn.step - drawn.bar) / 2;
    const title = svg("title", {}, `model ${shown(column.model, 40)}, before ${shown(drawn.columns[at - 1].model, 40)}`);
    const line = svg("line", { class: "swap", x1: x, x2: x, y1: 0, y2: drawn.height - BOTTOM, "data-model": column.model }, title);
    const name = shown(column.model, 24);
    const room = name.length * 7;
    const left = x + 4 + room <= drawn.width ? x + 4 : x - 4 - room;
    if (left < free) return [line];
    free = left + room;
    return [line, svg("text", { class: "swap-name", x: left, y: 11 }, name)];
  });
}

/** The marks of a column; in the first one, all communities are new. */
const marksOf = (column, at) => column.marks.filter(({ kind }) => at > 0 || kind !== "born");

function marks(drawn, sure) {
  if (drawn.step < 9) return [];
  return drawn.columns.flatMap((column, at) => marksOf(column, at).filter(sure).flatMap((mark) => {
    const place = drawn.places[at].get(mark.id) ?? (at > 0 ? drawn.places[at - 1].get(mark.id) : undefined);
    if (place === undefined) return [];
    const x = (drawn.places[at].has(mark.id) ? drawn.x(at) : drawn.x(at - 1)) + drawn.bar / 2;
    return [svg("text", { class: "mark", x, y: place.y + place.h / 2 + 4, "data-kind": mark.kind }, MARKS[mark.kind])];
  }));
}

function nodePath(drawn, path) {
  if (!path) return null;
  const points = drawn.columns.flatMap((column, at) => {
    const span = path.find((one) => one.from <= column.number && column.number <= one.to);
    if (span === undefined || span.id === null) return [];
    const place = drawn.places[at].get(span.id) ?? drawn.places[at].get(OTHERS);
    return place === undefined ? [] : [`${round(drawn.x(at) + drawn.bar / 2)},${round(place.y + place.h / 2)}`];
  });
  return svg("polyline", { class: "path", points: points.join(" ") });
}

/** Names of communities: in the band where it is widest; of thin bands at the right, with a line, if there is room. */
function labels(drawn, chosen, onCommunity) {
  const taken = [];
  const free = (box) => taken.every((one) => box.right < one.left || one.right < box.left || box.bottom <= one.top || one.bottom <= box.top);
  const all = [...new Set(drawn.places.flatMap((places) => [...places.keys()]))].map((id) => ({ id, ways: widest(drawn, id) }));
  all.sort((one, other) => other.ways[0].h - one.ways[0].h);
  const within = all.filter((one) => {
    const fit = one.ways.map((way) => fitting(drawn, one.id, way)).filter((way) => way.h >= LINE && free(way.box));
    const found = fit.find(({ whole }) => whole) ?? fit[0];
    if (found === undefined) return false;
    taken.push(found.box);
    one.shown = labelled(one.id, found, { x: found.x, y: found.y, "text-anchor": "middle", "data-column": found.at }, chosen, onCommunity);
    return true;
  });
  const thin = all.filter(({ shown, ways }) => shown === undefined && drawn.places.at(-1).has(ways[0].id));
  return [...within.map(({ shown }) => shown), ...beside(drawn, thin, chosen, onCommunity)];
}

/** The places of a band, the widest one first. */
function widest(drawn, id) {
  const there = drawn.places.flatMap((places, at) => (places.has(id) ? [{ id, at, ...places.get(id) }] : []));
  return there.map((way) => ({ ...way, middle: way.y + way.h / 2 })).sort((one, other) => other.h - one.h || other.at - one.at).slice(0, 40);
}

/** The text of a label in a band, the room that it takes, and whether all of it lies in the band. */
function fitting(drawn, id, way) {
  const text = named(id, way.size, 28);
  const half = text.length * LETTER / 2;
  const last = drawn.columns.length - 1;
  const x = Math.max(Math.min(drawn.x(way.at) + drawn.bar / 2, drawn.x(last) + drawn.bar - half), LEFT + half);
  const column = (where) => Math.min(last, Math.max(0, Math.round((where - LEFT - drawn.bar / 2) / (drawn.step || 1))));
  const at = column(x);
  const place = drawn.places[at].get(id);
  if (place === undefined) return { h: 0 };
  const middle = place.y + place.h / 2;
  const whole = [x - half, x + half].every((end) => {
    const there = drawn.places[column(end)].get(id);
    return there !== undefined && there.y <= middle - LINE / 2 && middle + LINE / 2 <= there.y + there.h;
  });
  return { id, at, whole, h: place.h, size: place.size, text, x, y: middle + 4, box: { left: x - half - 3, right: x + half + 3, top: middle - LINE / 2, bottom: middle + LINE / 2 } };
}

/** Labels of thin bands beside the last column, as many as have room, the largest of them. */
function beside(drawn, thin, chosen, onCommunity) {
  const room = Math.floor((drawn.height - TOP - BOTTOM) / LINE);
  const last = drawn.places.at(-1);
  const rows = thin.slice(0, room).map(({ id }) => ({ id, ...last.get(id) })).map((one) => ({ ...one, middle: one.y + one.h / 2 })).sort((one, other) => one.middle - other.middle);
  let lowest = TOP;
  for (const row of rows) { row.at = Math.max(row.middle, lowest); lowest = row.at + LINE; }
  let highest = drawn.height - BOTTOM;
  for (const row of [...rows].reverse()) { row.at = Math.min(row.at, highest); highest = row.at - LINE; }
  const x = drawn.x(drawn.columns.length - 1) + drawn.bar;
  return rows.flatMap((row) => [
    svg("path", { class: "leader", d: `M${round(x)} ${round(row.middle)}L${round(x + 14)} ${round(row.at)}`, "data-id": row.id }),
    labelled(row.id, { text: named(row.id, row.size, Math.floor((drawn.right - 20) / LETTER)), size: row.size }, { x: x + 18, y: row.at + 4 }, chosen, onCommunity)]);
}

function labelled(id, { text, size }, where, chosen, onCommunity) {
  return svg("text", { class: "label", ...where, "data-id": id, "font-weight": id === chosen ? 700 : 400, onclick: id === OTHERS ? () => {} : () => onCommunity(id) },
    svg("title", {}, id === OTHERS ? "all other communities" : `${titled(id)}, ${number(size)} members`), text);
}

/** A band of a level above has the id of the oldest community in it, but not its name. */
const titled = (id) => (above > 0 ? `${id} of level ${above}` : called(id));

const named = (id, size, most) => (id === OTHERS ? `others (${number(size)})` : label(id, size, most));

/** A community in at most so many letters. */
function label(id, size, most) {
  const members = ` (${number(size)})`;
  const name = above > 0 ? null : briefly(id);
  if (name === null) return `${most < 18 || above > 0 ? "" : "community "}${id}${members}`;
  const room = Math.max(6, most - members.length);
  return `${shown(name.length > room ? name.replace(/^(mostly|partly) /, "") : name, room)}${members}`;
}

/** Windows below the columns: the last one, the first, and between them as many as have room. */
function axis(drawn) {
  const last = drawn.columns.length - 1;
  const chosen = new Map();
  for (const at of [last, 0, ...Array.from({ length: Math.max(0, last - 1) }, (_, before) => before + 1)]) {
    const text = time(drawn.columns[at].start);
    const wide = text.length * LETTER;
    const left = Math.min(Math.max(drawn.x(at) - wide / 2, 0), drawn.width - wide);
    const overlaps = [...chosen.values()].some((one) => left < one.left + one.wide + 14 && one.left < left + wide + 14);
    if (!overlaps) chosen.set(at, { text, left, wide });
  }
  return [...chosen.values()].sort((one, other) => one.left - other.left)
    .map(({ text, left, wide }) => svg("text", { x: left + wide / 2, y: drawn.height - BOTTOM + 20, "text-anchor": "middle" }, text));
}

function legend(flow, sure) {
  const of = flow.kept;
  const windows = flow.windows < of ? `${number(flow.windows)} of ${number(of)} windows${flow.windows < MOST_WINDOWS ? ": choose more above" : ""}. ` : `All ${number(of)} windows. `;
  const swapped = flow.columns.some((column, at) => at > 0 && column.model !== flow.columns[at - 1].model);
  const kinds = `+ born, ▸ merged, ◂ split, × died; ${swapped ? "dashed, with a name: another model; " : ""}dashed: windows are missing. `;
  const unsure = flow.columns.flatMap(marksOf).filter((mark) => !sure(mark)).length;
  const sampled = flow.columns.some((column, at) => at > 0 && column.number - flow.columns[at - 1].number > 1);
  return note(windows, kinds,
    `Height: number of nodes. Click ${above > 0 ? "a band to see what is in it" : "a community to follow it"}${kept === null ? "; double-click a window to open it" : ""}. `,
    unsure > 0 ? `${unsure === 1 ? "1 mark is" : `${number(unsure)} marks are`} hidden: the events did not last, are too weak, or the edges speak against them (choose in Events). ` : "",
    sampled ? "Not every window has a column: births and mergers in between are in Events." : "");
}
