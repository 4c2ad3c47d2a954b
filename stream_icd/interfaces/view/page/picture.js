// The picture that is shown, as a file: an SVG that needs nothing else, or a PNG of it.

import { chartAsSvg } from "./charts.js";
import { css } from "./colours.js";
import { el, svg } from "./dom.js";

const EDGE = 8, ROW = 20, SQUARE = 10; // pixels
const LETTER = 6.6; // pixels of a letter of the legend, at most on average
const SHARPNESS = 2; // pixels of a PNG for each of the page
const FONT = "system-ui, sans-serif";
// What the style sheet says of the flow: a file has none.
const STYLED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "paint-order", "font-size", "font-weight", "text-anchor"];

/** The picture in an element as the text of an SVG, with its size; null if there is none.
    `legend`: the colours of values, `{ text, paint }`. */
export function pictureIn(element, title, legend) {
  const flow = element.querySelector("svg.flow");
  const plot = element.querySelector(".plot:not([hidden]) canvas")?.closest(".plot");
  if (!flow && !plot) return null;
  const { width, height } = (flow ?? plot).getBoundingClientRect();
  const { entries, bottom } = laidOut(legend, width);
  const size = { width: Math.round(width), height: Math.round(height + bottom) };
  const whole = svg("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, "font-family": FONT, "font-size": 12, fill: css("--ink") },
    svg("rect", { width: "100%", height: "100%", fill: css("--paper") }),
    svg("text", { x: EDGE, y: ROW, "font-size": 15, "font-weight": 600 }, title), entries);
  const inside = flow ? written(alone(flow)) : chartAsSvg(plot);
  const text = written(whole).replace(/<\/svg>$/, () => `${inside.replace("<svg", `<svg x="0" y="${bottom}"`)}</svg>`);
  return { text, ...size };
}

/** The picture as a PNG. */
export async function asPng({ text, width, height }) {
  const image = new Image();
  image.src = URL.createObjectURL(asSvg({ text }));
  try {
    await image.decode();
  } finally {
    URL.revokeObjectURL(image.src);
  }
  const canvas = el("canvas", { width: SHARPNESS * width, height: SHARPNESS * height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** The picture as an SVG file. */
export function asSvg({ text }) {
  return new Blob([text], { type: "image/svg+xml" });
}

const written = (element) => new XMLSerializer().serializeToString(element);

/** A copy of the flow that looks the same without the style sheet. */
function alone(flow) {
  const copy = flow.cloneNode(true);
  const all = (root) => [root, ...root.querySelectorAll("*")];
  const copies = all(copy);
  all(flow).forEach((one, at) => {
    const style = getComputedStyle(one);
    for (const { name } of [...copies[at].attributes]) if (name === "class" || name.startsWith("data-")) copies[at].removeAttribute(name);
    for (const name of STYLED) copies[at].setAttribute(name, style.getPropertyValue(name));
  });
  const { width, height } = flow.getBoundingClientRect();
  for (const [name, value] of Object.entries({ width, height })) copy.setAttribute(name, value);
  return copy;
}

/** The entries of a legend in rows below the title, and where the picture begins. */
function laidOut(legend, width) {
  let x = EDGE, y = 2 * ROW;
  const entries = legend.flatMap(({ text, paint }) => {
    const wide = SQUARE + EDGE + text.length * LETTER + 2 * EDGE;
    if (x > EDGE && x + wide > width) { x = EDGE; y += ROW; }
    const left = x;
    x += wide;
    return [svg("rect", { x: left, y: y - SQUARE + 1, width: SQUARE, height: SQUARE, fill: paint }), svg("text", { x: left + SQUARE + EDGE / 2, y }, text)];
  });
  return { entries, bottom: (legend.length > 0 ? y : ROW) + ROW / 2 };
}
