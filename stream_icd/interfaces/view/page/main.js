// The page: state in the address, questions when something changes, drawings when answers come.

import { read, write } from "./address.js";
import { chartsLoaded, loadCharts } from "./charts.js";
import { chooseTheme, colourBy, colourOf, css, theme } from "./colours.js";
import { drawCompare, modelsOf } from "./compare.js";
import { drawDetails } from "./details.js";
import { duration, el, fill, note, number, refill, save, select, shown, tell, time, timesIn } from "./dom.js";
import { CONFIRMED, drawEvents, headlines, MOST_TOLD } from "./events.js";
import { drawFlow, MOST_WINDOWS } from "./flow.js";
import { delay, drawLife, grow } from "./life.js";
import { drawMap } from "./map.js";
import { forgetNames, learn } from "./names.js";
import { asPng, asSvg, pictureIn } from "./picture.js";
import { ask, kept, listen } from "./source.js";

const VIEWS = ["flow", "map", "life", "events", ...(kept === null ? ["compare"] : [])];
const WITH_CHARTS = ["life", "map", "compare"];
const SERIES = ["graph", "model", "origin"];
const SOON_MS = 120, OVERVIEW_MS = 4000, MAP_MS = 1500, SLOW_MS = 10_000, PLAY_MS = 700, STILL_MS = 30_000;

const at = (id) => document.getElementById(id);
const state = read();
const nothing = () => ({ flow: null, life: null, events: null, map: null, opened: null, places: null, past: null, compare: null, composition: null, explain: null, held: null, legend: null, headlines: null });
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
  if (series) start(); else refresh(Object.keys(changes).every((name) => name === "at"));
}

/** Begin with the series that the address names, or with the first one. */
async function start() {
  news?.close();
  asked.abort();
  asked = new AbortController();
  open.clear();
  Object.assign(known, nothing());
  forgetNames();
  if (!(await overview())) return;
  const one = current();
  if (one === null || isToCome(one)) {
    say("waiting", "no results yet");
    for (const view of VIEWS) fill(at(view), note(...missing()));
    later("start", 1000, start);
    return;
  }
  if (isUnknown(one)) {
    say("waiting", "not there");
    for (const view of VIEWS) fill(at(view), note(`No results of graph ${shown(state.graph, 60)}${state.model ? ` and model ${shown(state.model, 40)}` : ""} were seen. Choose another graph above.`));
    later("start", 1000, start);
    return;
  }
  Object.assign(state, { graph: one.graph, model: one.model, origin: one.origin });
  write(state, false);
  // Asked again when the connection is there: windows may have come in between.
  news = listen(series(), { onWindow: arrived, onState: say, onHello: () => refresh() });
  refresh();
}

/** What is missing before there are results, and what to run. */
function missing() {
  const { troubles, lag, archive, snapshots_there } = known.overview;
  const seen = "This page shows results as soon as they arrive.";
  const of = (what) => Object.keys(troubles).some((topic) => topic.includes(what));
  const run = (said, command) => [`${said}: run `, el("code", {}, command), `. ${seen}`];
  if (archive) return [`No results were seen yet. ${seen}`];
  if (lag > 0) return run(`${number(lag)} snapshots wait, and no detector is at work`, "stream-icd consume detect");
  if (snapshots_there) return run("Snapshots are there, and no detector is at work", "stream-icd consume detect");
  if (Object.values(troubles).some((why) => why.includes("no broker"))) return run("No broker answers", "stream-icd broker");
  if (of("snapshots")) return run("No results were seen yet. The topics are missing", "stream-icd topics create");
  return run("No results were seen yet. No snapshot is there", "stream-icd produce gn");
}

const series = () => ({ graph: state.graph, model: state.model, origin: state.origin });
const shownWindow = () => ({ ...series(), at: state.at });
const zoomed = () => (state.view === "flow" ? { above: state.above, inside: state.inside } : {});
const needsFlow = () => state.view === "flow" || state.community !== "";
const placed = () => Boolean(known.map?.placed) && state.discs === "";
const chosenCommunity = () => (/^\d+$/.test(state.community) ? Number(state.community) : null);
const startOf = (iso) => new Date(iso).toISOString().replace(".000Z", "Z");
/** The place of the window that is looked at among those of the life, which are all; -1 if it is not there. */
const placeOf = (at) => (known.life?.columns.start ?? []).findLastIndex((start) => startOf(start) === at);
/** The number of the window that is looked at; null: the newest, or one that is not there. */
const here = () => (state.at === "" ? null : known.life?.columns.number?.[placeOf(state.at)] ?? null);
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

/** Whether the address names a graph or model that is not there; not if what is shown was dropped. */
const isUnknown = (one) => kept === null && (!fits(one, ["graph"]) || (state.model !== "" && !fits(one, ["graph", "model"])));
const isShown = (one) => SERIES.every((name) => one[name] === state[name]);
const fits = (one, names = SERIES) => names.every((name) => state[name] === "" || one[name] === state[name]);
const isToCome = (instead) => !fits(instead) && !known.overview.caught_up; // whether what the address names may still be read

/** The series that is shown, as the overview has it. */
function current() {
  const all = known.overview?.series ?? [];
  return all.find(isShown) ?? all.find((one) => fits(one)) ?? all.find((one) => fits(one, ["graph"])) ?? all[0] ?? null;
}

/** Ask for everything that the view needs; if only another window is looked at, for what is said of that one. */
function refresh(elsewhere = false) {
  troubles.clear(); // each question that still fails says so again
  wanted.clear();
  drawTabs();
  if (!elsewhere || known.life === null) question("life", { ...series(), last: MOST_WINDOWS });
  askLegend();
  if (!elsewhere || !isInFlow(here())) askFlowAndEvents();
  if (state.view === "map") askMap();
  if (!elsewhere && state.view === "compare" && state.other_graph) question("compare", { ...series(), ...other(), last: Math.min(300, span()) });
  askDetails(elsewhere);
  draw();
}

/** Whether the flow that is drawn holds this window. */
function isInFlow(number) {
  const columns = known.flow?.columns ?? [];
  return columns.length > 0 && (number === null || (columns[0].number <= number && number <= columns.at(-1).number));
}

function askLegend() {
  if (by() !== "") question("legend", { ...shownWindow(), by: by() }); else known.legend = null;
}

function askFlowAndEvents() {
  if (needsFlow()) question("flow", { ...series(), last: span(), around: state.at, columns: columnsFor(), follow: state.community, ...zoomed() });
  if (state.view === "flow") question("events", { ...series(), ...chosenEvents(), kinds: "", community: "", limit: MOST_TOLD }, "headlines");
  if (state.view === "events") question("events", { ...series(), ...chosenEvents() });
}

/** Ask what is said of the node and the community that are selected. */
function askDetails(elsewhere = false) {
  const { node, community } = state;
  if (node === "") known.past = null; else if (!elsewhere || known.past?.node !== node) question("node", { ...series(), node }, "past"); else wanted.add("node");
  if (node && kept === null) question("explain", { ...shownWindow(), node }); else known.explain = null;
  if (community && known.overview?.attributes?.length) question("composition", { ...shownWindow(), community }); else known.composition = null;
  if (community && kept === null) question("explain_community", { ...shownWindow(), community }, "held"); else known.held = null;
}

async function askMap() {
  await question("map", shownWindow());
  if (state.view !== "map") return;
  const drawn = { ...shownWindow(), at: known.map === null ? state.at : startOf(known.map.start), by: by() };
  if (placed()) { await question("places", drawn); return; }
  const community = state.all ? "all" : [...open].join(",");
  if (community === "" || known.map === null) { known.opened = null; draw(); return; }
  await question("members", { ...drawn, community }, "opened");
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
  if (running.has("life")) since.push(row);
  if (known.life !== null) grow(known.life, row, MOST_WINDOWS);
  later("news", SOON_MS, () => {
    drawNumbers();
    draw();
    askFlowAndEvents();
    if (state.at === "") askLegend();
  });
  if (state.view === "map" && state.at === "") later("map", MAP_MS, askMap);
  if (state.node || state.community) later("details", MAP_MS, () => askDetails());
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
  const before = listed(), read = known.overview.caught_up;
  if (!(await overview())) return;
  const one = current();
  if (one !== null && known.overview.caught_up && !isShown(one)) change({ graph: one.graph, model: one.model, origin: one.origin, at: "", community: "", node: "" }, { step: false });
  else if (known.overview.caught_up !== read) refresh(); // colours of values are chosen now
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
  said = { kind, message };
  const { state: what, text } = status(kind);
  at("status").dataset.state = what;
  tell(at("status"), message || text);
  at("back").hidden = state.at === "" || kept !== null || message !== "";
  tell(at("back"), archived() ? "to the newest window" : "back to live");
}

/** What the page shows at the moment, in words: live; why nothing new comes; or which old window. */
function status(kind) {
  if (kind === "report") return { state: "report", text: "report" };
  if (kind === "waiting") return { state: "waiting", text: "the page's server does not answer; connecting again" };
  if (state.at !== "") return { state: "old", text: `looking at ${time(state.at)}` };
  const reading = known.overview?.caught_up === false ? ": reading what is there" : "";
  if (archived()) return { state: "archive", text: `archive${reading}` };
  const { troubles = {}, lag = null, latest = null } = known.overview ?? {};
  const since = latest === null ? "nothing new" : `nothing new since ${time(latest)}`;
  const broken = Object.values(troubles).some((why) => why.includes("broker"));
  if (broken) return { state: "still", text: `${since}: the broker does not answer` };
  const still = latest !== null && Date.now() - Date.parse(latest) > STILL_MS;
  if (still && lag > 0) return { state: "still", text: `${since}: ${number(lag)} snapshots wait, and no detector is at work` };
  return { state: "live", text: still && reading === "" ? `live; ${since}` : `live${reading}` };
}

/** Fill the choices of graph and model; names are text. */
function choices() {
  const all = known.overview?.series ?? [];
  const one = current();
  const graphs = [...new Set(all.map(({ graph }) => graph))];
  select(at("graph"), graphs.map((graph) => ({ value: graph, text: shown(graph, 60) })), one !== null && (isToCome(one) || isUnknown(one)) ? state.graph : one?.graph);
  const ofGraph = all.filter(({ graph }) => graph === one?.graph);
  const several = new Set(ofGraph.map(({ origin }) => origin)).size > 1;
  const value = ({ model, origin }) => JSON.stringify([model, origin]);
  select(at("model"), ofGraph.map((its) => ({ value: value(its), text: shown(several ? `${modelsOf(its)} · ${its.origin}` : modelsOf(its), 60) })), one && value(one));
  at("span").value = span();
  zones();
  at("by-label").hidden = attributes().length === 0;
  select(at("by"), [{ value: "", text: "community" }, ...attributes().map((name) => ({ value: name, text: shown(name, 40) }))], by());
  leftOut(one);
}

/** The zones of the times: that of the command, that of this browser, and UTC. */
function zones() {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const all = [...new Set([state.zone, known.overview?.zone ?? "UTC", own, "UTC"].filter((zone) => zone))];
  select(at("zone"), all.map((zone) => ({ value: zone, text: shown(zone, 30) })), state.zone || known.overview?.zone);
  timesIn(at("zone").value);
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
  at("save").hidden = state.view === "events"; // a list is no picture
}

function drawNumbers() {
  if (said !== null) say(said.kind, said.message);
  const columns = known.life?.columns;
  const newest = columns?.number?.length ? columns.number.length - 1 : -1;
  const last = state.at === "" ? newest : placeOf(state.at);
  drawTime(newest, last);
  if (last < 0) { fill(at("numbers")); return; }
  const ms = columns.ms[last].reduce((sum, one) => sum + (one ?? 0), 0);
  const pairs = [
    [state.at === "" ? "newest window" : "window", time(columns.start[last]), "start"], ["communities", number(columns.k[last]), "k"],
    ["nodes", number(columns.nodes[last]), "nodes"], ["edges", number(columns.edges[last]), "edges"],
    ["modularity", number(columns.modularity[last], 3), "modularity"], ["evidence", columns.evidence[last] ?? "–", "evidence", "how sure it is that this graph has communities at all"],
    ...(columns.horizon[last] === null ? [] : [["horizon", `${number(columns.horizon[last], 1)} windows`, "horizon", `how many windows the detector's memory is worth${columns.horizon_for[last] ? `, for ${columns.horizon_for[last]} on end` : ""}`]]),
    ...(columns.nmi[last] === null ? [] : [["NMI", number(columns.nmi[last], 3), "nmi"]]),
    ["detected in", `${number(ms, ms < 10 ? 1 : 0)} ms`, "ms"],
    ...(archived() ? [] : [
      ["result after", delay(columns.delay_s[last]) === null ? "past data" : duration(columns.delay_s[last]), "delay"],
      ["waiting", number(known.overview?.lag), "lag", "snapshots without a result, of all graphs"], ["dead letters", number(known.overview?.dead_letters), "dead"],
    ]),
    ["model", shown(columns.model[last], 40), "model"],
  ];
  fill(at("numbers"), pairs.map(([name, value, key, title]) => el("div", { title }, el("dt", {}, name), el("dd", { "data-number": key }, value))));
}

/** The slider over all windows. */
function drawTime(newest, place) {
  at("time").hidden = newest < 1 || kept !== null;
  Object.assign(at("slider"), { max: Math.max(0, newest), value: place < 0 ? newest : place });
  const shownAt = known.life?.columns.start?.[place];
  at("slider").setAttribute("aria-valuetext", shownAt ? time(shownAt) : "");
  tell(at("when"), shownAt ? time(shownAt) : "");
}

/** Look at the window at this place of all; at the newest, whatever comes, with the last one. */
function goTo(place, step = false) {
  const starts = known.life?.columns.start ?? [];
  if (place < 0 || starts.length === 0) return;
  change({ at: place >= starts.length - 1 ? "" : startOf(starts[place]) }, { step });
}

let playing = null;
/** Go through the windows one after the other, or stop. */
function play() {
  const stop = () => { clearInterval(playing); playing = null; drawPlay(); };
  if (playing !== null) { stop(); return; }
  if (state.at === "") goTo(0);
  playing = setInterval(() => { if (state.at === "") stop(); else moveWindow(1); }, PLAY_MS);
  drawPlay();
}

function drawPlay() {
  tell(at("play"), playing === null ? "▶" : "❚❚");
  at("play").setAttribute("aria-label", playing === null ? "play" : "pause");
}

/** The colours of the values of an attribute. */
function drawLegend() {
  const legend = by() !== "" && known.legend?.by === by() ? known.legend : null;
  at("legend").hidden = legend === null;
  if (legend === null) return;
  const entry = (name, count, paint) => {
    const square = el("span", { class: "swatch" });
    square.style.background = paint;
    return el("span", {}, square, `${name} (${number(count)})`);
  };
  refill(at("legend"), [legend, theme()], () => [
    ...legend.values.map(({ value, nodes }) => entry(shown(value, 40), nodes, colourOf(value))),
    legend.others > 0 ? entry("other values", legend.others, css("--grey")) : null,
    legend.unknown > 0 ? entry("not known", legend.unknown, css("--grey")) : null]);
}

/** Draw soon, once for all answers that come before the next frame. */
function draw() {
  if (frame === 0) frame = requestAnimationFrame(() => { frame = 0; drawNow(); });
}

/** Draw the view that is shown, from what is known. */
function drawNow() {
  const community = chosenCommunity();
  colourBy(by(), known.legend);
  drawNumbers();
  drawLegend();
  drawSelection(community);
  if (WITH_CHARTS.includes(state.view) && !chartsLoaded()) {
    loadCharts().then(draw, (error) => trouble("charts", error.message));
    return;
  }
  if (state.view === "flow" && known.flow) {
    drawFlow(at("flow"), known.flow, { chosen: community, path: known.past?.spans, here: here(), sure, inside: state.inside, onCommunity: follow, onWindow: openWindow, onZoom: zoom });
    const lately = headlines(known.headlines, known.life?.columns.number?.[0] ?? 0, ({ number: of, id }) => { openWindow(of); change({ community: String(id) }); });
    if (lately !== null) at("flow").prepend(lately);
  }
  if (state.view === "life" && known.life) drawLife(at("life"), known.life, { overview: known.overview, graph: state.graph, here: here(), onWindow: openWindow });
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
}

let selected = "";
/** Draw what is selected beside the view; on a narrow page it is below, and scrolls into sight. */
function drawSelection(community) {
  const csv = kept === null && community !== null ? () => saveMembers(community) : null;
  drawDetails(at("details"), { chosen: community, past: known.past, flow: known.flow?.above > 0 ? null : known.flow, composition: known.composition, explained: known.explain, held: known.held, csv, onCommunity: follow, onWindow: openWindow, onClear: clear });
  at("both").classList.toggle("open", !at("details").hidden);
  const now = at("details").hidden ? "" : `${state.node} ${state.community}`;
  if (now !== selected && now !== "" && at("details").getBoundingClientRect().top > innerHeight) at("details").scrollIntoView({ block: "start" });
  selected = now;
}

/** Save the members of a community in the window that is shown. */
async function saveMembers(community) {
  try {
    const { nodes } = await ask("members", { ...shownWindow(), community });
    const safe = (name) => (/^[=+\-@＝＋－＠]/.test(name) ? `'${name}` : name);
    const rows = nodes.map((name) => `"${safe(name).replaceAll('"', '""')}"`);
    save(new Blob([["node", ...rows, ""].join("\n")], { type: "text/csv" }), `community-${community}.csv`);
  } catch (error) {
    trouble("members", error.message);
  }
}

/** Save the picture that is shown, with what it shows above it. */
async function savePicture(as, kind) {
  const legend = [...at("legend").querySelectorAll(":scope:not([hidden]) > span")].map((one) => ({ text: one.textContent, paint: one.firstChild.style.background }));
  const picture = pictureIn(at(state.view), titleOfPicture(), legend);
  if (picture === null) { trouble("picture", "there is no picture to save yet"); return; }
  try {
    save(await as(picture), `${state.graph.replace(/[^\p{L}\p{N}.-]+/gu, "_").slice(0, 60)}-${state.view}.${kind}`);
    trouble("picture", "");
  } catch (error) {
    trouble("picture", `the picture cannot be saved: ${error.message}`);
  }
}

/** The graph, and the windows of the view. */
function titleOfPicture() {
  const { flow, map, life, compare } = known;
  const starts = {
    flow: flow?.columns.map(({ start }) => start), map: map && [map.start],
    life: life?.columns.start, compare: compare?.windows.map(({ start }) => start),
  }[state.view] ?? [];
  const when = [...new Set([starts[0], starts.at(-1)])].filter((start) => start).map(time).join(" to ");
  return `${shown(state.graph, 60)}: ${state.view}, ${when} (${at("zone").value})`;
}

function follow(id) {
  change({ community: state.community === String(id) ? "" : String(id) });
}

/** Show the bands so many levels above the communities, in one band (`LEVEL:ID`) or in all. */
function zoom(above, inside) {
  change({ above: above > 0 ? String(above) : "", inside, community: "" });
}

function openCommunity(id) {
  if (open.has(id)) open.delete(id); else open.add(id);
  while (open.size > 20) open.delete(open.values().next().value);
  change({ community: open.has(id) ? String(id) : "" });
}

function openWindow(wanted) {
  if (wanted === undefined || wanted === null || kept !== null) return;
  const place = (known.life?.columns.number ?? []).indexOf(wanted);
  if (place < 0) return;
  if (state.view === "life" || state.view === "compare") state.view = "flow";
  goTo(place, true);
  drawTabs();
}

function clear() {
  open.clear();
  known.past = null;
  change({ community: "", node: "", at: "", all: "" });
}

/** The next or previous window. */
function moveWindow(by) {
  if (kept !== null) return;
  const newest = (known.life?.columns.number?.length ?? 0) - 1;
  goTo((state.at === "" ? newest : placeOf(state.at)) + by);
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

async function copyLink() {
  write(state, false);
  try {
    await navigator.clipboard.writeText(location.href);
    tell(at("copy"), "copied");
    setTimeout(() => tell(at("copy"), "copy link"), 1500);
  } catch {
    trouble("copy", "the browser does not let this page copy: copy the address above");
  }
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
    Object.assign(state, { at: "", graph: "", model: "", origin: "" });
    at("copy").hidden = true;
    at("span").parentElement.hidden = true; // a report holds one span
    at("tab-compare").hidden = true;
    tell(at("keys"), "Keys: 1 to 4 choose a view, / searches, ↑ ↓ move the community, Esc clears, d changes the colours.");
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { chooseTheme(null); draw(); });
  at("graph").addEventListener("change", (event) => change({ graph: event.target.value, model: "", origin: "", at: "", community: "", node: "" }));
  at("model").addEventListener("change", (event) => {
    const [model, origin] = JSON.parse(event.target.value);
    change({ model, origin, at: "", community: "" });
  });
  at("span").addEventListener("change", (event) => change({ span: event.target.value }));
  at("by").addEventListener("change", (event) => change({ by: event.target.value }));
  at("zone").addEventListener("change", (event) => { timesIn(event.target.value); change({ zone: event.target.value }); });
  at("back").addEventListener("click", () => change({ at: "" }));
  at("copy").addEventListener("click", copyLink);
  at("png").addEventListener("click", () => savePicture(asPng, "png"));
  at("svg").addEventListener("click", () => savePicture(asSvg, "svg"));
  at("play").addEventListener("click", play);
  at("slider").addEventListener("input", (event) => goTo(Number(event.target.value)));
  at("search").addEventListener("submit", (event) => { event.preventDefault(); change({ node: sought() }); });
  at("node").addEventListener("input", () => later("suggest", 150, suggest));
  at("node").value = state.node;
  at("theme").addEventListener("click", switchTheme);
  for (const view of VIEWS) at(`tab-${view}`).addEventListener("click", () => change({ view }));
  document.addEventListener("keydown", onKey);
  window.addEventListener("popstate", () => { Object.assign(state, read()); at("node").value = state.node; start(); });
  window.addEventListener("resize", () => later("resize", 200, () => refresh()));
  if (kept === null) setInterval(() => { if (!document.hidden && current() !== null && news !== null) look(); }, OVERVIEW_MS);
}

wire();
// Where the first picture needs no charts, they are loaded after it, for the next one.
if (WITH_CHARTS.includes(state.view)) loadCharts().catch(() => {});
start().then(() => setTimeout(() => loadCharts().catch(() => {}), 1000));
