// Names of communities, as the last answers gave them. They belong to windows; ids stay.

import { shown } from "./dom.js";

const names = new Map();

/** Take the names of an answer: `{ text, attribute, value }` by id. */
export function learn(known) {
  for (const [id, name] of Object.entries(known ?? {})) names.set(Number(id), name);
}

/** Forget all names: another series is shown. */
export function forgetNames() {
  names.clear();
}

/** The name of a community, or null. */
export function nameOf(id) {
  return names.get(id) ?? null;
}

/** The values that name a community, without counts; null if it has no name. */
export function briefly(id) {
  return names.get(id)?.text.replace(/, \d+ of \d+( known)?$/, "") ?? null;
}

/** A community in a few words: its name, if it has one, and its id. */
export function called(id, most = 60) {
  const name = nameOf(id);
  return name === null ? `community ${id}` : `${shown(name.text, Math.max(8, most - String(id).length - 3))} · ${id}`;
}
