// The colour of a community: that of its stable id, the same in all views and for everybody who opens
// the page; or that of the attribute's value that names it, one colour for each of the most frequent values.
// Paul Tol's "muted" scheme, and "light" on dark paper: distinct for any colour vision.

import { nameOf } from "./names.js";

const ON_LIGHT = ["#332288", "#cc6677", "#117733", "#ddcc77", "#88ccee", "#882255", "#44aa99", "#aa4499", "#999933"];
const ON_DARK = ["#77aadd", "#ee8866", "#44bb99", "#eedd88", "#99ddff", "#ffaabb", "#bbcc33", "#aa66ee", "#aaaa00"];

let attribute = "";
let places = new Map(); // of the values that have a colour

/** "light" or "dark", as chosen or as the system asks. */
export function theme() {
  return document.documentElement.dataset.theme;
}

/** Choose a theme; null: the system's. */
export function chooseTheme(name) {
  const asked = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = name ?? asked;
}

/** Colour by the values of an attribute, those of its legend, or by community with "". */
export function colourBy(name, legend) {
  attribute = name;
  places = new Map((legend?.by === name ? legend.values : []).map(({ value }, at) => [value, at]));
}

const scheme = () => (theme() === "dark" ? ON_DARK : ON_LIGHT);

/** The colour of a value of the attribute; grey if it is none of the most frequent ones. */
export function colourOf(value) {
  return places.has(value) ? scheme()[places.get(value) % ON_LIGHT.length] : css("--grey");
}

/** The colour of a community; a negative id stands for all others. */
export function colour(id) {
  if (id < 0) return css("--grey");
  if (attribute === "") return scheme()[id % ON_LIGHT.length];
  const name = nameOf(id);
  return name?.attribute === attribute ? colourOf(name.value) : css("--grey");
}

/** The colour of a node: of its own value, or of its community. */
export function colourOfNode(id, value) {
  return attribute === "" || value === undefined ? colour(id) : colourOf(value);
}

/** A colour of the style sheet. */
export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Lines of charts: Okabe and Ito. */
export const LINES = { blue: "#0072b2", orange: "#d55e00", green: "#009e73", pink: "#cc79a7", sky: "#56b4e9" };
