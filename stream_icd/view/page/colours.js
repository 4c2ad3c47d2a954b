// A colour for each community: a function of its stable id, so it is the same everywhere and always.
// Paul Tol's "muted" scheme, and "light" on dark paper: distinct for any colour vision.

const ON_LIGHT = ["#332288", "#cc6677", "#117733", "#ddcc77", "#88ccee", "#882255", "#44aa99", "#aa4499", "#999933"];
const ON_DARK = ["#77aadd", "#ee8866", "#44bb99", "#eedd88", "#99ddff", "#ffaabb", "#bbcc33", "#c8a2e8", "#aaaa00"];

/** "light" or "dark", as chosen or as the system asks. */
export function theme() {
  return document.documentElement.dataset.theme;
}

/** Choose a theme; null: the one that was chosen before, or the system's. */
export function chooseTheme(name) {
  const asked = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = name ?? asked;
}

/** The colour of a community; a negative id stands for all others. */
export function colour(id) {
  if (id < 0) return css("--grey");
  const scheme = theme() === "dark" ? ON_DARK : ON_LIGHT;
  return scheme[id % scheme.length];
}

/** A colour of the style sheet. */
export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Lines of charts: Okabe and Ito. */
export const LINES = { blue: "#0072b2", orange: "#d55e00", green: "#009e73", pink: "#cc79a7", sky: "#56b4e9" };
