// Elements without markup: every text from outside becomes a text node.

const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;
const SHORT = 80;

/** A name from outside, with characters that do not print escaped, and shortened. */
export function shown(name, most = SHORT) {
  const text = String(name).replace(CONTROL, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** An element with attributes, listeners (`onclick`) and children; text children are text. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(one, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) one.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) one.setAttribute(name, value === true ? "" : value);
  }
  one.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return one;
}

/** Set the children of an element. */
export function fill(one, ...children) {
  one.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

/** A number for people. */
export function number(value, digits = 0) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

/** A time in UTC, to the second; the date alone at midnight. */
export function time(iso) {
  const text = new Date(iso).toISOString();
  return text.slice(11, 19) === "00:00:00" ? text.slice(0, 10) : `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

/** A number of seconds for people. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds);
  if (size < 120) return `${number(seconds, size < 10 ? 2 : 0)} s`;
  if (size < 7200) return `${number(seconds / 60)} min`;
  return size < 172800 ? `${number(seconds / 3600)} h` : `${number(seconds / 86400)} d`;
}
