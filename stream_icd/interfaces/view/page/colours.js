// A colour for each community, the same in all views: that of its stable id, unless a community that
// it touches has it already; or the colour of the attribute's value that names it.
// Paul Tol's "muted" scheme, and "light" on dark paper: distinct for any colour vision.

import { nameOf } from "./names.js";

const ON_LIGHT = ["#332288", "#cc6677", "#117733", "#ddcc77", "#88ccee", "#882255", "#44aa99", "#aa4499", "#999933"];
const ON_DARK = ["#77aadd", "#ee8866", "#44bb99", "#eedd88", "#99ddff", "#ffaabb", "#bbcc33", "#aa66ee", "#aaaa00"];

const given = new Map(); // colours that stay while the page is open, by what has them (`keyOf`)
let attribute = "";

/** "light" or "dark", as chosen or as the system asks. */
export function theme() {
  return document.documentElement.dataset.theme;
}

/** Choose a theme; null: the one that was chosen before, or the system's. */
export function chooseTheme(name) {
  const asked = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = name ?? asked;
}

/** Colour by the values of an attribute, or by community with "". */
export function colourBy(name) {
  if (name !== attribute) given.clear();
  attribute = name;
}

/** Forget the colours of communities: another series is shown. */
export function forgetColours() {
  given.clear();
}

/** What has a colour: a community, or the value that names it; null for none. */
function keyOf(id) {
  if (id < 0) return null;
  if (attribute === "") return id;
  const name = nameOf(id);
  return name?.attribute === attribute ? `${attribute}=${name.value}` : null;
}

/** Give what touches different colours: `[id, id, weight]`; with `fresh`, only what has none yet. */
export function keepApart(touching, fresh = false) {
  const had = new Set(given.keys());
  const beside = new Map();
  for (const [one, other, weight] of touching) {
    const [a, b] = [keyOf(one), keyOf(other)];
    for (const [key, next] of [[a, b], [b, a]]) {
      if (key === null) continue;
      if (!beside.has(key)) beside.set(key, new Map());
      if (next !== null && next !== key) beside.get(key).set(next, Math.max(weight, beside.get(key).get(next) ?? 0));
    }
  }
  const touched = (key) => [...beside.get(key).values()].reduce((sum, weight) => sum + weight, 0);
  const order = [...beside.keys()].sort(attribute === "" ? (a, b) => a - b : (a, b) => touched(b) - touched(a)); // who touches most chooses first
  for (const key of order) {
    if (fresh && had.has(key)) continue;
    const costs = new Array(ON_LIGHT.length).fill(0);
    for (const [next, weight] of beside.get(key)) if (given.has(next)) costs[given.get(next)] += weight;
    const now = given.get(key) ?? (typeof key === "number" ? key : given.size) % costs.length;
    const least = Math.min(...costs);
    const free = costs[now] === least ? now : costs.findIndex((cost, at) => cost === least && at !== now);
    given.set(key, free);
  }
}

/** The colour of a community; a negative id stands for all others. */
export function colour(id) {
  const key = keyOf(id);
  if (key === null) return css("--grey");
  const scheme = theme() === "dark" ? ON_DARK : ON_LIGHT;
  if (!given.has(key)) given.set(key, (typeof key === "number" ? key : given.size) % scheme.length);
  return scheme[given.get(key)];
}

/** A colour of the style sheet. */
export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Lines of charts: Okabe and Ito. */
export const LINES = { blue: "#0072b2", orange: "#d55e00", green: "#009e73", pink: "#cc79a7", sky: "#56b4e9" };
