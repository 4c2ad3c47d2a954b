// What happened between windows: other models, decisions about models, dead letters.

import { shown } from "./dom.js";

/** `[place among the windows, { short, long }]`, ascending; each at the first result after it. */
export function marks(columns, overview, graph) {
  const found = new Map();
  const ready = columns.end.map((end, at) => Date.parse(end) + 1000 * columns.delay_s[at]);
  const add = (at, short, long) => {
    if (!found.has(at)) found.set(at, { short: [], long: [] });
    if (short && !found.get(at).short.includes(short)) found.get(at).short.push(short);
    found.get(at).long.push(long);
  };
  const place = (iso) => {
    const time = Date.parse(iso);
    if (!(time >= ready[0])) return -1; // before these windows
    const at = ready.findIndex((one) => one >= time);
    return at < 0 ? ready.length - 1 : at;
  };
  columns.model_before.forEach((before, at) => { if (before) add(at, shown(columns.model[at], 24), `model ${shown(columns.model[at], 40)}, before ${shown(before, 40)}`); });
  for (const one of [...(overview?.announcements ?? [])].reverse()) {
    const at = place(one.at);
    const version = one.version === null ? "" : ` ${shown(one.version, 40)}`;
    if (at >= 0) add(at, one.kind, `${one.kind}${version}: ${shown(one.reason, 120)}`);
  }
  const letters = new Map();
  for (const one of overview?.dead_letter_list ?? []) {
    const at = one.graph === graph ? place(one.at) : -1;
    if (at >= 0) letters.set(at, (letters.get(at) ?? 0) + 1);
  }
  for (const [at, count] of letters) add(at, "dead letters", `${count} ${count === 1 ? "snapshot" : "snapshots"} became dead letters`);
  return [...found].sort(([a], [b]) => a - b);
}
