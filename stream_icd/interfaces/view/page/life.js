// The life of a series: numbers of every window, one below the other, and what happened in between.

import { axisStyle, base, chart, plain } from "./charts.js";
import { css, LINES } from "./colours.js";
import { duration, el, fill, note, number, shown, time } from "./dom.js";

const STAGES = ["#88ccee", "#ddcc77", "#cc6677", LINES.blue];
const FIRST = 4, BETWEEN = 6; // percent of the chart: above the first panel, and between two
const LABEL_PX = 14; // between the labels of two lines
const PAST_S = 7 * 86400; // results so late are of windows of the past

/** Add a window to the columns, or replace the one that it corrects. */
export function grow(life, row, most) {
  const columns = life.columns;
  if (columns.number === undefined) for (const name of Object.keys(row)) columns[name] = [];
  const at = columns.number.lastIndexOf(row.number);
  if (at < 0 && row.number < columns.number[0]) return; // older than those that are kept
  for (const [name, value] of Object.entries(row)) {
    if (at < 0) columns[name].push(value); else columns[name][at] = value;
    if (columns[name].length > most) columns[name].shift();
  }
}

/** The time from a window's end to its result, in seconds; null for windows of the past. */
export function delay(seconds) {
  return seconds > PAST_S || seconds < 0 ? null : seconds;
}

/** Whether windows were detected with memory of earlier ones. */
function remembers(columns) {
  return columns.horizon.some((windows) => windows !== null);
}

/** Draw the life into an element. */
export function drawLife(into, life, { overview, graph, here, onWindow }) {
  const columns = life.columns;
  if (columns.number === undefined || columns.number.length === 0) {
    fill(into, note("This window is no longer in memory, or was never seen."));
    return;
  }
  let plot = into.querySelector(".plot");
  if (plot === null) {
    plot = el("div", { class: "plot tall" });
    fill(into, plot, note());
    chart(plot).on("click", (event) => onWindow(event.data?.[2]));
  }
  plot.dataset.windows = columns.number.length;
  plot.dataset.newest = columns.number.at(-1);
  into.querySelector(".note").textContent = notes(columns, life.stages);
  const happened = marks(columns, overview, graph);
  plot.dataset.marks = happened.map(([, { short }]) => short.join(", ")).join("; ");
  const drawn = options(life, happened, here, plot.clientWidth < 640, plot.clientHeight);
  const told = ({ data }) => data.some(([, value]) => value !== null);
  plot.dataset.times = drawn.series[0].data.map(([at, value]) => `${new Date(at).toISOString()} ${value}`).join(", ");
  plot.dataset.lines = drawn.series.filter(told).map(({ name }) => name).join(", ");
  chart(plot).setOption(drawn, true);
}

function options(life, happened, here, narrow, height) {
  const columns = life.columns;
  const named = (name, column, colour) => line(name, points(columns, columns[column]), colour);
  const evidence = { name: "bits an edge", series: [named("saved (evidence)", "bits_saved", LINES.pink)], least: 0 };
  const panels = [
    { name: "communities (K)", series: [named("communities", "k", LINES.green)], least: 0 },
    {
      name: "quality", series: [
        named("modularity", "modularity", LINES.blue),
        named("NMI with the truth", "nmi", LINES.orange),
        ...Object.keys(columns.ami?.at(-1) ?? {}).map((name, at) => line(`AMI with ${shown(name, 20)}`, points(columns, columns.ami.map((one) => one[name] ?? null)), [LINES.green, LINES.pink, LINES.sky][at % 3])),
      ], most: 1, interval: 0.5,
    },
    evidence,
    { name: "milliseconds by stage", series: life.stages.map((stage, at) => area(stage, points(columns, columns.ms.map((ms) => ms[at])), STAGES[at])).filter((one) => one.data.some(([, ms]) => ms > 0)), least: 0 },
    { name: "nodes and edges", series: [named("nodes", "nodes", LINES.sky), named("edges", "edges", LINES.orange)], least: 0 },
  ];
  if (remembers(columns)) {
    evidence.least = undefined; // communities may predict worse than none
    evidence.name = "bits an edge: saved (pink), predicted (green)";
    evidence.series.push(named("predicted on new edges", "predicted_bits", LINES.green));
    panels.splice(3, 0, { name: "horizon, windows", series: [named("horizon", "horizon", LINES.blue)], least: 0 });
  }
  const delays = columns.delay_s.map(delay);
  if (delays.some((seconds) => seconds !== null)) {
    panels.splice(-1, 0, { name: "seconds from the window's end to its result", series: [line("delay", points(columns, delays), LINES.blue)], least: 0 });
  }
  panels.forEach(({ series }, at) => { for (const line of series) line.xAxisIndex = line.yAxisIndex = at; });
  const every = (100 - FIRST - 1) / panels.length;
  const common = axisStyle();
  for (const line of panels.flatMap(({ series }) => series)) line.endLabel.show = !narrow && line.data.length > 0;
  for (const panel of panels) if (!panel.series.some(({ stack }) => stack)) Object.assign(panel, fitted(panel));
  for (const panel of panels) spreadLabels(panel, (every - BETWEEN) / 100 * height);
  panels.forEach(({ series }, at) => { if (series.length > 0) series[0].markLine = markLines(columns, happened, here, at === 0); });
  evidence.series[0].markArea = unsure(columns);
  return {
    ...base(),
    useUTC: true,
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    tooltip: { ...base().tooltip, trigger: "axis", formatter: (hovered) => tip(columns, happened, hovered) },
    legend: { show: false },
    grid: panels.map((_, at) => ({ left: 64, right: narrow ? 16 : 150, top: `${FIRST + at * every}%`, height: `${every - BETWEEN}%` })),
    xAxis: panels.map((_, at) => ({ type: "time", gridIndex: at, min: start(columns, 0), max: Math.max(start(columns, 0) + 1, start(columns, columns.number.length - 1)), ...common, splitLine: { show: false }, axisLabel: { ...common.axisLabel, show: at === panels.length - 1, formatter: (value) => time(value), hideOverlap: true, alignMinLabel: "left", alignMaxLabel: "right" } })),
    yAxis: panels.map((panel, at) => ({ type: "value", gridIndex: at, name: panel.name, nameGap: 8, min: panel.least, max: panel.most, scale: panel.least === undefined, splitNumber: 3, interval: panel.interval, ...common })),
    dataZoom: [{ type: "inside", xAxisIndex: panels.map((_, at) => at), filterMode: "none" }],
    series: panels.flatMap((panel) => panel.series),
  };
}

const start = (columns, at) => Date.parse(columns.start[at]);

/** Whether windows are missing before this one: it begins after the end of the one before. */
function isAfterGap(columns, at) {
  return at > 0 && (columns.missed[at] > 0 || start(columns, at) > Date.parse(columns.end[at - 1]));
}

/** [start, value, number] for each window; an empty point where windows are missing. */
function points(columns, values) {
  return columns.number.flatMap((number, at) => {
    const point = [start(columns, at), values[at], number];
    return isAfterGap(columns, at) ? [[(start(columns, at) + start(columns, at - 1)) / 2, null, number], point] : [point];
  });
}

/** The least and the greatest value of a panel's lines, between round numbers, so that no line leaves its axis. */
function fitted({ series, least, most }) {
  const values = series.flatMap(({ data }) => data.map(([, value]) => value)).filter((value) => value !== null && value !== undefined);
  const low = values.reduce((a, b) => Math.min(a, b), least ?? 0), high = values.reduce((a, b) => Math.max(a, b), most ?? -Infinity);
  const down = (value) => Math.floor(value * 10) / 10;
  return { least: low < 0 ? down(low) : least ?? 0, most: most === undefined ? undefined : Math.max(most, high) };
}

function line(name, data, colour) {
  return { name, type: "line", data, color: colour, showSymbol: data.length < 2, symbolSize: 5, lineStyle: { width: 1.5 }, endLabel: { formatter: () => name, color: css("--quiet"), distance: 6 } };
}

/** Move the labels at the ends of lines apart, where lines end near each other. */
function spreadLabels({ series, least, most }, height) {
  const stacked = series.some(({ stack }) => stack);
  const lines = series.map((line) => ({ line, ends: line.data.at(-1)?.[1] ?? null })).filter(({ ends }) => ends !== null);
  let sum = 0;
  if (stacked) for (const area of lines) area.ends = sum += area.ends; // areas stand on each other
  const values = stacked ? [sum, ...lines.map(({ ends }) => ends)] : lines.flatMap(({ line }) => line.data.map(([, value]) => value ?? 0));
  const low = least ?? values.reduce((a, b) => Math.min(a, b), Infinity), high = most ?? values.reduce((a, b) => Math.max(a, b), -Infinity);
  lines.sort((a, b) => b.ends - a.ends);
  let lowest = -Infinity;
  for (const { line, ends } of lines) {
    const y = (high - ends) / (high - low || 1) * height;
    lowest = Math.max(y, lowest + LABEL_PX);
    line.endLabel.offset = [0, lowest - y];
  }
}

function area(name, data, colour) {
  return { ...line(name, data, colour), stack: "stages", areaStyle: { opacity: 0.6 }, lineStyle: { width: 0.5 } };
}

function markLines(columns, happened, here, named) {
  const data = happened.map(([at, { short }]) => ({ xAxis: start(columns, at), name: short.join(", ") }));
  const place = here === null ? -1 : columns.number.indexOf(here);
  if (place >= 0) data.push({ xAxis: start(columns, place), name: "", lineStyle: { type: "solid", width: 2 } });
  return { symbol: "none", silent: true, data, label: { show: named, formatter: (mark) => plain(mark.name), color: css("--quiet"), position: "insideEndTop" }, lineStyle: { color: css("--ink"), type: "dashed" } };
}

function unsure(columns) {
  const shade = { weak: css("--weak"), none: css("--none") };
  const data = columns.number.flatMap((_, at) => {
    const strength = columns.evidence[at];
    return shade[strength] ? [[{ xAxis: start(columns, at), itemStyle: { color: shade[strength], opacity: 1 } }, { xAxis: Date.parse(columns.end[at]) }]] : [];
  });
  return { silent: true, data };
}

function tip(columns, happened, hovered) {
  const chosen = hovered.find((one) => one.data?.[2] !== undefined)?.data[2];
  const at = columns.number.indexOf(chosen);
  if (at < 0) return "";
  return [
    time(columns.start[at]), plain(shown(columns.snapshot[at], 40)),
    `communities ${number(columns.k[at])}${columns.k_given[at] === null ? "" : " (given)"}, nodes ${number(columns.nodes[at])}, edges ${number(columns.edges[at])}`,
    `modularity ${number(columns.modularity[at], 4)}, NMI ${number(columns.nmi[at], 4)}`,
    `evidence ${columns.evidence[at] ?? "–"}, ${number(columns.bits_saved[at], 4)} bits an edge`,
    ...(columns.horizon[at] === null ? [] : [`horizon ${number(columns.horizon[at], 1)} windows, predicted ${number(columns.predicted_bits[at], 4)} bits an edge`]),
    `${number(columns.ms[at].reduce((sum, ms) => sum + (ms ?? 0), 0), 1)} ms; result ${delay(columns.delay_s[at]) === null ? "of past data" : `${duration(columns.delay_s[at])} after the window's end`}`,
    plain(shown(columns.model[at], 40)),
    ...happened.filter(([place]) => place === at).flatMap(([, { long }]) => long.slice(-8)).map(plain),
  ].join("\n");
}

function notes(columns, stages) {
  const count = (strength) => columns.evidence.filter((evidence) => evidence === strength).length;
  const missing = columns.missed.reduce((sum, missed) => sum + missed, 0);
  const known = columns.nmi.filter((nmi) => nmi !== null).length;
  const used = stages.filter((_, at) => columns.ms.some((ms) => ms[at] > 0));
  const back = remembers(columns) ? "Horizon: how many windows the memory is worth; predicted: bits that the communities before saved on new edges. " : "";
  return `${columns.number.length} windows; evidence for communities: ${count("strong")} strong, ${count("weak")} weak, ${count("none")} none (shaded). `
    + `${back}${missing} missing windows (breaks in the lines). Known communities: ${known} windows. Dashed: another version of the model, a decision about models, or dead letters; hover for the reasons. Stages, from below: ${used.join(", ")}. Scroll to zoom.`;
}

/** Other models, decisions about models, dead letters: `[place among the windows, { short, long }]`,
    ascending; each at the first result after it. */
function marks(columns, overview, graph) {
  const happened = new Map();
  const ready = columns.end.map((end, at) => Date.parse(end) + 1000 * columns.delay_s[at]);
  const add = (at, short, long) => {
    if (!happened.has(at)) happened.set(at, { short: [], long: [] });
    const mark = happened.get(at);
    if (!mark.short.includes(short)) mark.short.push(short);
    mark.long.push(long);
  };
  const place = (iso) => {
    const time = Date.parse(iso);
    if (!(time >= ready[0])) return -1; // before these windows
    const at = ready.findIndex((result) => result >= time);
    return at < 0 ? ready.length - 1 : at;
  };
  columns.model_before.forEach((before, at) => { if (before) add(at, shown(columns.model[at], 24), `model ${shown(columns.model[at], 40)}, before ${shown(before, 40)}`); });
  for (const { at: iso, kind, version, reason } of [...(overview?.announcements ?? [])].reverse()) {
    const at = place(iso);
    if (at >= 0) add(at, kind, `${kind}${version === null ? "" : ` ${shown(version, 40)}`}: ${shown(reason, 120)}`);
  }
  const letters = new Map();
  for (const letter of overview?.dead_letter_list ?? []) {
    const at = letter.graph === graph ? place(letter.at) : -1;
    if (at >= 0) letters.set(at, (letters.get(at) ?? 0) + 1);
  }
  for (const [at, count] of letters) add(at, "dead letters", `${count} ${count === 1 ? "snapshot" : "snapshots"} became dead letters`);
  return [...happened].sort(([a], [b]) => a - b);
}
