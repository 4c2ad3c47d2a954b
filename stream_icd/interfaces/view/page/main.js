// The page: state in the address, questions when something changes, drawings when answers come.

import { read, write } from "./address.js";
import { chartsLoaded, loadCharts } from "./charts.js";
import { chooseTheme, colourBy, forgetColours, theme } from "./colours.js";
import { drawCompare, modelsOf } from "./compare.js";
import { drawDetails } from "./details.js";
import { duration, el, fill, note, number, select, shown, tell, time } from "./dom.js";
import { CONFIRMED, drawEvents } from "./events.js";
import { drawFlow, MOST_WINDOWS } from "./flow.js";
import { delay, drawLife, grow } from "./life.js";
import { drawMap } from "./map.js";
import { forgetNames, learn } from "./names.js";
import { ask, kept, listen } from "./source.js";

const VIEWS = ["flow", "map", "life", "events", ...(kept === null ? ["compare"] : [])];
const WITH_CHARTS = ["life", "map", "compare"];
const SERIES = ["graph", "model", "origin"];
const SOON_MS = 120, OVERVIEW_MS = 4000, MAP_MS = 1500, SLOW_MS = 10_000;

const at = (id) => document.getElementById(id);
const state = read();
const nothing = () => ({ flow: null, life: null, events: null, map: null, opened: null, places: null, past: null, compare: null, composition: null, explain: null, held: null });
const known = { overview: null, ...nothing() }; // the last answers
const open = new Set(); // communities that are open on the map
let news = null;
let asked = new AbortController();
const timers = new Map();
const running = new Set(); // questions without an answer yet
const waiting = new Map(); // what to ask after these
const wanted = new Set(); // questions whose answers are still of use
const since = []; // windows that came since the life was asked for: its answer may be without them
let frame = 0;

/** Change the state, the address, and what depends on them. */
function change(changes, { step = true } = {}) {
  const series = SERIES.some((name) => name in changes && changes[name] !== state[name]);
  Object.assign(state, changes);
  if ("node" in changes) at("node").value = state.node;
  write(state, step);
  if (series) start(); else refresh();
}

/** Begin with the series that the address names, or with the first one. */
async function start() {
  news?.close();
  asked.abort();
  asked = new AbortController();
  open.clear();
  Object.assign(known, nothing());
  forgetNames();
  forgetColours();
  if (!(await overview())) return;
  const one = current();
  if (one === null || isToCome(one)) {
    say("waiting", "no results yet");
    for (const view of VIEWS) fill(at(view), note("No results were seen yet. This page shows them as soon as they arrive."));
    later("start", 1000, start);
    return;
  }
  Object.assign(state, { graph: one.graph, model: one.model, origin: one.origin });
  write(state, false);
  // Asked again when the connection is there: windows may have come in between.
  news = listen(series(), { onWindow: arrived, onState: say, onHello: () => refresh() });
  refresh();
}

const series = () => ({ graph: state.graph, model: state.model, origin: state.origin });
const shownWindow = () => ({ ...series(), number: state.until });
const needsFlow = () => state.view === "flow" || state.community !== "";
const placed = () => Boolean(known.map?.placed) && state.discs === "";
const chosenCommunity = () => (/^\d+$/.test(state.community) ? Number(state.community) : null);
const here = () => (/^\d+$/.test(state.until) ? Number(state.until) : null);
const archived = () => known.overview?.archive === true;
const strength = () => (/^(any|\d{1,6})$/.test(state.bits) ? state.bits : "0"); // at 0, what the edges speak against is hidden
const least = () => (strength() === "any" ? -Infinity : Number(strength()));
const lasting = () => (state.sure === "all" ? 0 : CONFIRMED);
const sure = (one) => one.lasted >= lasting() && (one.bits ?? 0) >= least();
const chosenEvents = () => ({ kinds: state.kinds, community: state.community, lasting: lasting(), least_bits: strength() });
const span = () => state.span || (archived() ? String(MOST_WINDOWS) : "60"); // nothing is newest in the past
const other = () => ({ other_graph: state.other_graph, other_model: state.other_model, other_origin: state.other_origin });
const columnsFor = () => Math.max(8, Math.min(120, Math.floor((at("flow").clientWidth || innerWidth) / 13)));

/** The attributes of the nodes of this graph; those of others may have other ones. */
function attributes() {
  const named = known.life?.columns.ami?.at(-1) ?? {};
  return (known.overview?.attributes ?? []).filter((name) => known.life === null || name in named);
}
const by = () => (attributes().includes(state.by) ? state.by : "");

const isShown = (one) => SERIES.every((name) => one[name] === state[name]);
const fits = (one, names = SERIES) => names.every((name) => state[name] === "" || one[name] === state[name]);
const isToCome = (instead) => !fits(instead) && !known.overview.caught_up; // whether what the address names may still be read

/** The series that is shown, as the overview has it. */
function current() {
  const all = known.overview?.series ?? [];
  return all.find(isShown) ?? all.find((one) => fits(one)) ?? all.find((one) => fits(one, ["graph"])) ?? all[0] ?? null;
}

/** Ask for everything that the view needs. */
function refresh() {
  troubles.clear(); // each question that still fails says so again
  wanted.clear();
  drawTabs();
  question("life", { ...series(), last: MOST_WINDOWS, until: state.until });
  askFlowAndEvents();
  if (state.view === "map") askMap();
  if (state.view === "compare" && state.other_graph) question("compare", { ...series(), ...other(), last: Math.min(300, span()), until: state.until });
  askDetails();
  draw();
}

function askFlowAndEvents() {
  if (needsFlow()) question("flow", { ...series(), last: span(), until: state.until, columns: columnsFor(), follow: state.community });
  if (state.view === "events") question("events", { ...series(), ...chosenEvents(), until: state.until });
}

/** Ask what is said of the node and the community that are selected. */
function askDetails() {
  const { node, community } = state;
  if (node) question("node", { ...series(), node, until: state.until }, "past"); else known.past = null;
  if (node && kept === null) question("explain", { ...shownWindow(), node }); else known.explain = null;
  if (community && known.overview?.attributes?.length) question("composition", { ...shownWindow(), community }); else known.composition = null;
  if (community && kept === null) question("explain_community", { ...shownWindow(), community }, "held"); else known.held = null;
}

async function askMap() {
  await question("map", shownWindow());
  if (state.view !== "map") return;
  if (placed()) { await question("places", shownWindow()); return; }
  const community = state.all ? "all" : [...open].join(",");
  if (community === "" || known.map === null) { known.opened = null; draw(); return; }
  await question("members", { ...shownWindow(), community }, "opened");
}

/** Ask one question at a time of each kind; a question that came meanwhile is asked afterwards. */
async function question(name, parameters, into = name) {
  wanted.add(name);
  if (running.has(name)) return new Promise((done) => waiting.set(name, () => done(question(name, parameters, into))));
  running.add(name);
  if (name === "life") since.length = 0;
  const signal = asked.signal;
  const useful = () => !signal.aborted && wanted.has(name); // not of a selection that was cleared meanwhile
  try {
    const answer = await patiently(name, parameters, signal);
    if (useful()) {
      learn(answer?.names);
      known[into] = into === "opened" ? { ...answer, everything: state.all !== "" } : answer;
      if (name === "life") for (const row of since) grow(known.life, row, MOST_WINDOWS);
      trouble(name, "");
      draw();
    }
  } catch (error) {
    if (useful()) {
      if (error.refused) known[into] = null; // the answer before it was to something else
      trouble(name, error.message);
      draw();
    }
  } finally {
    running.delete(name);
    const again = waiting.get(name);
    waiting.delete(name);
    if (again && !signal.aborted) again();
  }
}

/** Ask, and say so where no answer comes for a while. */
async function patiently(name, parameters, signal) {
  const slow = setTimeout(() => trouble(name, "no answer yet: the server is busy, or more than five tabs of this browser show the page"), SLOW_MS);
  try {
    return await ask(name, parameters, signal);
  } finally {
    clearTimeout(slow);
  }
}

/** A new window, or a correction of one. */
function arrived(row) {
  const one = current();
  if (one !== null) one.number = Math.max(one.number, row.number);
  if (here() !== null && row.number > here()) return; // an older window is shown
  if (running.has("life")) since.push(row);
  if (known.life !== null) grow(known.life, row, MOST_WINDOWS);
  later("news", SOON_MS, () => {
    drawNumbers();
    draw();
    askFlowAndEvents();
  });
  if (state.view === "map") later("map", MAP_MS, askMap);
  if (state.node || state.community) later("details", MAP_MS, askDetails);
  if (state.view === "compare" && state.other_graph) later("compare", MAP_MS, refresh);
}

/** Do something once, a while after it was first asked for. */
function later(name, ms, act) {
  if (timers.has(name)) return;
  timers.set(name, setTimeout(() => { timers.delete(name); act(); }, ms));
}

/** Ask what there is; false if another series was chosen meanwhile. */
async function overview() {
  const { signal } = asked;
  try {
    known.overview = await patiently("overview", series(), signal);
    trouble("overview", "");
  } catch (error) {
    if (!signal.aborted) trouble("overview", error.message);
  }
  if (signal.aborted) return false;
  choices();
  drawNumbers();
  return true;
}

/** Look at what there is now; show another series where the one that is shown was dropped. */
async function look() {
  const listed = () => JSON.stringify(["series", "dead_letters", "announcements"].map((name) => known.overview[name]));
  const before = listed();
  if (!(await overview())) return;
  const one = current();
  if (one !== null && known.overview.caught_up && !isShown(one)) change({ graph: one.graph, model: one.model, origin: one.origin, until: "", community: "", node: "" }, { step: false });
  else if (listed() !== before) draw();
}

const troubles = new Map();
function trouble(name, message) {
  if (message) troubles.set(name, message); else troubles.delete(name);
  const topics = Object.entries(known.overview?.troubles ?? {}).map(([topic, why]) => `${topic} is not read: ${why}`);
  const all = [...new Set(troubles.values()), ...topics];
  at("trouble").hidden = all.length === 0;
  tell(at("trouble"), shown(all.join(" · "), 1000));
}

let said = null;
function say(kind, message = "") {
  const reading = known.overview?.caught_up === false ? ": reading what is there" : "";
  const words = { live: `live${reading}`, archive: `archive${reading}`, waiting: "connecting again", report: "report" };
  const what = kind === "live" && archived() ? "archive" : kind;
  said = { kind, message };
  at("status").dataset.state = what;
  tell(at("status"), message || (here() !== null && what in { live: 1, archive: 1 } ? "an old window is shown" : words[what]));
}

/** Fill the choices of graph and model; names are text. */
function choices() {
  const all = known.overview?.series ?? [];
  const one = current();
  const graphs = [...new Set(all.map(({ graph }) => graph))];
  select(at("graph"), graphs.map((graph) => ({ value: graph, text: shown(graph, 60) })), one !== null && isToCome(one) ? state.graph : one?.graph);
  const ofGraph = all.filter(({ graph }) => graph === one?.graph);
  const several = new Set(ofGraph.map(({ origin }) => origin)).size > 1;
  const value = ({ model, origin }) => JSON.stringify([model, origin]);
  select(at("model"), ofGraph.map((its) => ({ value: value(its), text: shown(several ? `${modelsOf(its)} · ${its.origin}` : modelsOf(its), 60) })), one && value(one));
  at("span").value = span();
  at("by-label").hidden = attributes().length === 0;
  select(at("by"), [{ value: "", text: "community" }, ...attributes().map((name) => ({ value: name, text: shown(name, 40) }))], by());
  leftOut(one);
}

/** Say what is not shown. */
function leftOut(one) {
  const said = [...(known.overview?.left_out ?? [])];
  if (kept === null && one?.dropped > 0) said.push(`The oldest ${number(one.dropped)} windows are no longer in memory (--windows, --memory).`);
  if (kept === null && one?.late > 0) said.push(`${number(one.late)} results came late and are not drawn.`);
  if (known.overview?.series_left_out > 0) said.push(`${number(known.overview.series_left_out)} series are not listed: name the graph in the address.`);
  at("left-out").hidden = said.length === 0;
  tell(at("left-out"), said.join(" "));
}

function drawTabs() {
  if (!VIEWS.includes(state.view)) state.view = VIEWS[0];
  for (const view of VIEWS) {
    const chosen = view === state.view;
    at(`tab-${view}`).setAttribute("aria-selected", String(chosen));
    at(view).hidden = !chosen;
  }
}

function drawNumbers() {
  if (said !== null) say(said.kind, said.message);
  const columns = known.life?.columns;
  const last = columns?.number?.length ? columns.number.length - 1 : -1;
  if (last < 0) { fill(at("numbers")); return; }
  const ms = columns.ms[last].reduce((sum, one) => sum + (one ?? 0), 0);
  const pairs = [
    [`${here() === null ? "newest window" : "window"} ends, UTC`, time(columns.end[last]), "end"], ["communities", number(columns.k[last]), "k"],
    ["nodes", number(columns.nodes[last]), "nodes"], ["edges", number(columns.edges[last]), "edges"],
    ["modularity", number(columns.modularity[last], 3), "modularity"], ["evidence", columns.evidence[last] ?? "–", "evidence"],
    ...(columns.horizon[last] === null ? [] : [["horizon", `${number(columns.horizon[last], 1)} windows`, "horizon"]]),
    ...(columns.nmi[last] === null ? [] : [["NMI", number(columns.nmi[last], 3), "nmi"]]),
    ["detected in", `${number(ms, ms < 10 ? 1 : 0)} ms`, "ms"],
    ...(archived() ? [] : [
      ["result after", delay(columns.delay_s[last]) === null ? "past data" : duration(columns.delay_s[last]), "delay"],
      ["waiting", number(known.overview?.lag), "lag"], ["dead letters", number(known.overview?.dead_letters), "dead"],
    ]),
    ["model", shown(columns.model[last], 40), "model"],
  ];
  fill(at("numbers"), pairs.map(([name, value, key]) => el("div", {}, el("dt", {}, name), el("dd", { "data-number": key }, value))));
}

/** Draw soon, once for all answers that come before the next frame. */
function draw() {
  if (frame === 0) frame = requestAnimationFrame(() => { frame = 0; drawNow(); });
}

/** Draw the view that is shown, from what is known. */
function drawNow() {
  const community = chosenCommunity();
  colourBy(by());
  drawNumbers();
  if (WITH_CHARTS.includes(state.view) && !chartsLoaded()) {
    loadCharts().then(draw, (error) => trouble("charts", error.message));
    return;
  }
  if (state.view === "flow" && known.flow) {
    drawFlow(at("flow"), known.flow, { chosen: community, path: known.past?.spans, here: here(), sure, onCommunity: follow, onWindow: openWindow });
  }
  if (state.view === "life" && known.life) drawLife(at("life"), known.life, { overview: known.overview, graph: state.graph, onWindow: openWindow });
  if (state.view === "map" && known.map && (known.places || !placed())) {
    drawMap(at("map"), known.map, known.opened, placed() ? known.places : null, {
      chosen: community, all: state.all !== "", node: state.node, onCommunity: placed() ? follow : openCommunity,
      onAll: (all) => change({ all: all ? "1" : "" }), onPlaces: (shown) => change({ discs: shown ? "" : "1" }),
    });
  }
  if (state.view === "events" && known.events) {
    drawEvents(at("events"), known.events, known.overview, known.life, {
      kinds: state.kinds, community, sure: lasting() > 0, bits: strength(), onKinds: (kinds) => change({ kinds }),
      onSure: (only) => change({ sure: only ? "" : "all" }), onBits: (bits) => change({ bits: bits === "0" ? "" : bits }), onCommunity: follow, onWindow: openWindow });
  }
  if (state.view === "compare") {
    const others = (known.overview?.series ?? []).filter((one) => !isShown(one));
    const compared = others.find((one) => SERIES.every((name) => one[name] === state[`other_${name}`]));
    drawCompare(at("compare"), others, compared, known.compare, {
      onOther: (one) => { known.compare = null; change({ other_graph: one?.graph ?? "", other_model: one?.model ?? "", other_origin: one?.origin ?? "" }); },
      onWindow: openWindow,
    });
  }
  drawDetails(at("details"), { chosen: community, past: known.past, flow: known.flow, composition: known.composition, explained: known.explain, held: known.held, onCommunity: follow, onWindow: openWindow, onClear: clear });
}

function follow(id) {
  change({ community: state.community === String(id) ? "" : String(id) });
}

function openCommunity(id) {
  if (open.has(id)) open.delete(id); else open.add(id);
  while (open.size > 20) open.delete(open.values().next().value);
  change({ community: open.has(id) ? String(id) : "" });
}

function openWindow(wanted) {
  if (wanted === undefined || wanted === null || kept !== null) return;
  const newest = current()?.number;
  change({ until: wanted === newest ? "" : String(wanted), view: state.view === "life" || state.view === "compare" ? "flow" : state.view });
}

function clear() {
  open.clear();
  known.past = null;
  change({ community: "", node: "", until: "", all: "" });
}

/** The next or previous window, or the newest after the last one. */
function moveWindow(by) {
  if (kept !== null) return;
  const newest = current()?.number ?? 0;
  const wanted = (here() ?? newest) + by;
  if (wanted >= (current()?.dropped ?? 0)) change({ until: wanted >= newest ? "" : String(wanted) }, { step: false });
}

/** The next or previous community among those that have a band. */
function moveCommunity(by) {
  const ids = known.flow?.shown ?? known.map?.communities.map((one) => one.id) ?? [];
  if (ids.length === 0) return;
  const place = ids.indexOf(chosenCommunity());
  const next = place < 0 ? (by > 0 ? 0 : ids.length - 1) : (place + by + ids.length) % ids.length;
  change({ community: String(ids[next]) }, { step: false });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("select, input:not([type=checkbox])")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const actions = {
    "/": () => at("node").focus(), Escape: clear, d: switchTheme,
    ArrowLeft: () => moveWindow(-1), ArrowRight: () => moveWindow(1),
    ArrowUp: () => moveCommunity(1), ArrowDown: () => moveCommunity(-1),
  };
  const view = VIEWS[Number(event.key) - 1];
  const action = view ? () => change({ view }) : actions[event.key];
  if (action === undefined) return;
  event.preventDefault();
  action();
}

function switchTheme() {
  chooseTheme(theme() === "dark" ? "light" : "dark");
  draw();
}

async function suggest() {
  const beginning = at("node").value;
  if (beginning === "") { fill(at("names")); return; }
  try {
    const { nodes } = await ask("nodes", { ...shownWindow(), beginning });
    if (at("node").value === beginning) fill(at("names"), nodes.map((name) => el("option", { value: name })));
  } catch { /* suggestions are a help, not an answer */ }
}

/** The name that is suggested for what was typed, which has none of its line breaks, or what was typed. */
function sought() {
  const typed = at("node").value;
  const names = [...at("names").options].map(({ value }) => value);
  return names.includes(typed) ? typed : names.find((name) => name.replace(/[\r\n]/g, "") === typed) ?? typed.trim();
}

function wire() {
  chooseTheme(null);
  if (kept !== null) {
    Object.assign(state, { until: "", graph: "", model: "", origin: "" });
    at("span").parentElement.hidden = true; // a report holds one span
    at("tab-compare").hidden = true;
    tell(at("keys"), "Keys: 1 to 4 choose a view, / searches, ↑ ↓ move the community, Esc clears, d changes the colours.");
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { chooseTheme(null); draw(); });
  at("graph").addEventListener("change", (event) => change({ graph: event.target.value, model: "", origin: "", until: "", community: "", node: "" }));
  at("model").addEventListener("change", (event) => {
    const [model, origin] = JSON.parse(event.target.value);
    change({ model, origin, until: "", community: "" });
  });
  at("span").addEventListener("change", (event) => change({ span: event.target.value }));
  at("by").addEventListener("change", (event) => change({ by: event.target.value }));
  at("search").addEventListener("submit", (event) => { event.preventDefault(); change({ node: sought() }); });
  at("node").addEventListener("input", () => later("suggest", 150, suggest));
  at("node").value = state.node;
  at("theme").addEventListener("click", switchTheme);
  for (const view of VIEWS) at(`tab-${view}`).addEventListener("click", () => change({ view }));
  document.addEventListener("keydown", onKey);
  window.addEventListener("popstate", () => { Object.assign(state, read()); at("node").value = state.node; start(); });
  window.addEventListener("resize", () => later("resize", 200, refresh));
  if (kept === null) setInterval(() => { if (!document.hidden && current() !== null) look(); }, OVERVIEW_MS);
}

wire();
// Where the first picture needs no charts, they are loaded after it, for the next one.
if (WITH_CHARTS.includes(state.view)) loadCharts().catch(() => {});
start().then(() => setTimeout(() => loadCharts().catch(() => {}), 1000));
