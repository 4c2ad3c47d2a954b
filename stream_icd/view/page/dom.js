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

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  fill(element, ...children);
  return element;
}

/** Set the children of an element; null and undefined are none. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

/** A paragraph of small print. */
export function note(...children) {
  return el("p", { class: "note" }, ...children);
}

/** A table: names of its columns, or pairs of a name and a class, and a list of cells for each row. */
export function table(columns, rows, id = null) {
  const heads = columns.map((column) => [column].flat()).map(([name, kind]) => el("th", { class: kind }, name));
  return el("table", { id }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows.map((cells) => el("tr", {}, cells))));
}

/** What may be higher than there is room. */
export function scroll(...tables) {
  return el("div", { class: "scroll" }, ...tables);
}

/** A cell of a table; `kind` is its class. */
export function cell(content, kind = null) {
  return el("td", { class: kind }, content);
}

/** A cell that holds a number. */
export function figure(value, digits = 0) {
  return cell(number(value, digits), "number");
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
