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

/** Set the children of an element; null and undefined are none. Focus, scrolling and what is open stay. */
export function fill(element, ...children) {
  const restore = element.firstChild === null ? () => {} : left(element);
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  restore();
}

/** A function that brings the children of an element into the state in which those before it were. */
function left(element) {
  const lasting = () => [...element.querySelectorAll(".scroll, details")];
  const before = lasting().map(({ scrollTop, open }) => ({ scrollTop, open }));
  const focused = placeIn(element, document.activeElement);
  return () => {
    lasting().forEach((one, at) => Object.assign(one, before[at]));
    focused?.reduce((parent, at) => parent?.children[at], element)?.focus({ preventScroll: true });
  };
}

/** Where a child is, by its number and those of its parents; null outside the element. */
function placeIn(element, child) {
  if (child === element || !element.contains(child)) return null;
  const siblings = [...child.parentElement.children];
  return [...(placeIn(element, child.parentElement) ?? []), siblings.indexOf(child)];
}

/** Fill an element only if that on which its content depends has changed: a list that drops down stays open. */
export function refill(element, on, children) {
  const wanted = JSON.stringify(on);
  if (element.dataset.on === wanted) return;
  element.dataset.on = wanted;
  fill(element, children());
}

/** Set the options of a choice, `{ value, text }`, and the one that is chosen, if any. */
export function select(into, options, chosen) {
  refill(into, options, () => options.map(({ value, text }) => el("option", { value }, text)));
  if (chosen !== undefined && chosen !== null) into.value = chosen;
}

/** Set a text that is read out when it changes. */
export function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
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

/** Let the browser save a file. */
export function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

let clock = null;

/** Say all times in this zone from now on, such as Europe/Paris; UTC if the browser knows no such zone. */
export function timesIn(zone) {
  const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  try {
    clock = new Intl.DateTimeFormat("sv", { ...parts, timeZone: zone });
  } catch {
    clock = new Intl.DateTimeFormat("sv", { ...parts, timeZone: "UTC" });
  }
}

/** A time in the chosen zone, to the second; the date alone at midnight. */
export function time(iso) {
  if (clock === null) timesIn("UTC");
  const text = clock.format(new Date(iso)).replace(",", "");
  return text.endsWith("00:00:00") ? text.slice(0, -9) : text;
}

/** A number of seconds for people. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds);
  if (size < 120) return `${number(seconds, size < 10 ? 2 : 0)} s`;
  if (size < 7200) return `${number(seconds / 60)} min`;
  return size < 172800 ? `${number(seconds / 3600)} h` : `${number(seconds / 86400)} d`;
}
