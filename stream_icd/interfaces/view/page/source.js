// Where answers come from: the server, or the report that holds them all.

const element = document.getElementById("kept");
/** The answers of a report; null on a live page. */
export const kept = element === null ? null : JSON.parse(element.textContent);

/** Ask a question; rejects with an Error whose message is for people, and `refused` if there is no answer. */
export async function ask(question, parameters, signal) {
  if (kept !== null) return recalled(question, parameters);
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const response = await fetch(`api/${question}?${new URLSearchParams(given)}`, { signal })
    .catch(() => { throw new Error("the page's server does not answer"); });
  if (response.ok) return response.json();
  const isJson = response.headers.get("Content-Type") === "application/json"; // else this page may not ask
  const reason = isJson ? (await response.json()).error : (await response.text()).trim();
  throw Object.assign(new Error(reason), { refused: response.status < 500 });
}

function recalled(question, parameters) {
  if (question === "members") return opened(parameters);
  if (question === "node" || question === "nodes") return searched(question, parameters);
  if (question === "events") return chosen(parameters);
  if (question === "legend") return kept.legend[parameters.by] ?? null;
  if (question === "places") return { ...kept.places, values: kept.values.places[parameters.by] ?? null };
  if (question === "composition") return kept.composition[parameters.community] ?? null;
  const answer = kept[question];
  if (answer === undefined || answer === null) throw new Error("the report does not hold this");
  return answer;
}

function opened({ community, by }) {
  if (kept.members === null) throw new Error("the report does not hold the graph");
  const all = { ...kept.members, values: kept.values.members[by] ?? null };
  if (community === "all") return all;
  const wanted = new Set(community.split(",").map(Number));
  const places = new Map();
  all.ids.forEach((id, at) => { if (wanted.has(id)) places.set(at, places.size); });
  const chosen = (values) => [...places.keys()].map((at) => values[at]);
  const edges = [];
  for (let at = 0; at < all.edges.length; at += 2) {
    const [a, b] = [places.get(all.edges[at]), places.get(all.edges[at + 1])];
    if (a !== undefined && b !== undefined) edges.push(a, b);
  }
  return { ...all, nodes: chosen(all.nodes), ids: chosen(all.ids), values: all.values && chosen(all.values), x: chosen(all.x), y: chosen(all.y), edges, nodes_left_out: 0, edges_left_out: 0 };
}

function searched(question, parameters) {
  if (kept.nodes === null) throw new Error("the graph has too many nodes: the report does not hold them");
  if (question === "nodes") {
    const beginning = parameters.beginning;
    return { nodes: Object.keys(kept.nodes).filter((name) => name.startsWith(beginning)).slice(0, 20) };
  }
  const columns = kept.life.columns;
  const place = new Map(columns.number.map((number, at) => [number, at]));
  const known = Object.hasOwn(kept.nodes, parameters.node) ? kept.nodes[parameters.node] : [];
  const spans = known.map(([id, from, to]) => ({
    id, from, to, start: columns.start[place.get(from)], last: columns.start[place.get(to)],
  }));
  const seen = spans.reduce((sum, { id, from, to }) => sum + (id === null ? 0 : to - from + 1), 0);
  return { node: parameters.node, seen, of: columns.number.length, spans };
}

function chosen(parameters) {
  const kinds = new Set((parameters.kinds || "born,merged,split,died").split(","));
  const id = parameters.community === "" ? null : Number(parameters.community);
  const concerns = (event) => id === null || event.id === id || event.parents.includes(id) || event.children.includes(id);
  const wanted = kept.events.events.filter((event) => kinds.has(event.kind) && concerns(event));
  const events = wanted.filter((event) => event.lasted >= parameters.lasting && (parameters.least_bits === "any" || (event.bits ?? 0) >= Number(parameters.least_bits)));
  const most = 1000;
  return { ...kept.events, events: events.slice(0, most), hidden: wanted.length - events.length, until: events.length > most ? events[most].number : kept.events.until };
}

/** Listen for new windows of a series while the tab is in view; `close()` ends it. The browser itself connects again.
    A browser opens six connections to a server for all tabs: those in the background leave theirs to others. */
export function listen(parameters, { onWindow, onState, onHello }) {
  if (kept !== null) {
    onState("report");
    return { close() {} };
  }
  let stream = null;
  let retry = null;
  const open = () => {
    stream = new EventSource(`api/stream?${new URLSearchParams(parameters)}`);
    stream.addEventListener("hello", (message) => { onState("live"); onHello(JSON.parse(message.data)); });
    stream.addEventListener("window", (message) => onWindow(JSON.parse(message.data)));
    stream.addEventListener("behind", () => onState("waiting"));
    stream.addEventListener("error", () => {
      onState("waiting");
      if (stream.readyState === EventSource.CLOSED) retry = setTimeout(open, 2000);
    });
  };
  const end = () => { clearTimeout(retry); stream?.close(); };
  const turn = () => { end(); if (!document.hidden) open(); };
  document.addEventListener("visibilitychange", turn);
  turn();
  return { close() { document.removeEventListener("visibilitychange", turn); end(); } };
}
