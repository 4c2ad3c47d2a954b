// What is shown, as the address of the page: a link shows the same to whoever opens it.

const DEFAULTS = {
  graph: "", model: "", origin: "", view: "flow", span: "", at: "", community: "", node: "",
  kinds: "", sure: "", bits: "", by: "", zone: "", above: "", inside: "", other_graph: "", other_model: "", other_origin: "", all: "", discs: "",
};

/** The state that the address describes. `at`: the start of the window that is looked at; "": the newest. */
export function read() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, given.get(name) ?? value]));
}

/** Write a state into the address; a new view or selection is a step that "back" undoes. */
export function write(state, step) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== DEFAULTS[name]) given.set(name, value);
  const address = `${location.pathname}${given.size ? `?${given}` : ""}`;
  if (address === `${location.pathname}${location.search}`) return;
  try {
    if (step) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  } catch { /* a page in a frame of another has no address, and some browsers refuse many changes in a short time */ }
}
