// Two series side by side: agreement over time, and where the newest common window disagrees.

import { axisStyle, base, chart } from "./charts.js";
import { LINES } from "./colours.js";
import { community } from "./events.js";
import { el, fill, number, shown, time } from "./dom.js";

/** The models of a series for people, in the order of their first windows. */
export function modelsOf(one) {
  const names = one.models.map((model) => shown(model, 40));
  return names.length > 4 ? `${names[0]} → … → ${names.at(-1)}` : names.join(" → ");
}

/** Name of a series for people. */
export function seriesName(one) {
  return `${shown(one.graph, 40)} · ${modelsOf(one)} · ${shown(one.origin, 60)}`;
}

/** Draw the choice of the other series, and the comparison if there is one. */
export function drawCompare(into, series, other, found, { onOther, onWindow }) {
  const same = (one) => one.graph === other.graph && one.model === other.model && one.origin === other.origin;
  const options = series.map((one, at) => el("option", { value: at, selected: same(one) }, seriesName(one)));
  const choice = el("select", { "aria-label": "compare with", onchange: (event) => onOther(series[event.target.value] ?? null) },
    el("option", { value: "" }, "choose another model or archive"), options);
  const bar = el("div", { class: "bar" }, el("label", {}, "compare with ", choice));
  if (found === null) {
    fill(into, bar, el("p", { class: "note" }, series.length < 2 ? "Only one series was seen: run a second model, or open a second archive." : "Windows that end at the same time are compared."));
    return;
  }
  if (found.windows.length === 0) {
    fill(into, bar, el("p", { class: "note" }, "The two have no window in common."));
    return;
  }
  const plot = el("div", { class: "plot" });
  plot.style.height = "17rem";
  const newest = found.newest;
  fill(into, bar, plot,
    el("h2", {}, `${shown(newest.snapshot)}: ${number(newest.apart)} of ${number(newest.common_nodes)} nodes are in communities that do not match`),
    el("div", { class: "scroll" }, pairs(newest), nodes(newest)));
  plot.dataset.windows = found.windows.length;
  const common = axisStyle();
  chart(plot).setOption({
    ...base(),
    legend: { textStyle: { color: common.axisLabel.color } },
    tooltip: { ...base().tooltip, trigger: "axis" },
    grid: { left: 48, right: 48, top: 36, bottom: 28 },
    xAxis: { type: "category", data: found.windows.map((one) => time(one.end)), ...common },
    yAxis: [{ type: "value", max: 1, scale: true, name: "agreement (NMI)", ...common }, { type: "value", name: "communities", min: 0, ...common, splitLine: { show: false } }],
    series: [
      { name: "agreement (NMI)", type: "line", data: found.windows.map((one) => one.nmi), color: LINES.blue },
      { name: "communities here", type: "line", yAxisIndex: 1, data: found.windows.map((one) => one.k[0]), color: LINES.green, lineStyle: { width: 1 } },
      { name: "communities there", type: "line", yAxisIndex: 1, data: found.windows.map((one) => one.k[1]), color: LINES.orange, lineStyle: { width: 1, type: "dashed" } },
    ],
  });
  chart(plot).on("click", (event) => onWindow(found.windows[event.dataIndex].number));
}

function pairs(newest) {
  const still = () => {};
  const rows = newest.pairs.map((one) => el("tr", {},
    el("td", {}, community(one.ids[0], still)), el("td", { class: "number" }, number(one.sizes[0])),
    el("td", {}, community(one.ids[1], still)), el("td", { class: "number" }, number(one.sizes[1])),
    el("td", { class: "number" }, number(one.shared)), el("td", {}, one.match ? "match" : "disagree")));
  return el("table", { id: "pairs" }, el("thead", {}, el("tr", {}, ["here", "members", "there", "members", "in common", ""].map((name) => el("th", {}, name)))), el("tbody", {}, rows));
}

function nodes(newest) {
  if (newest.nodes.length === 0) return null;
  const rows = newest.nodes.map(([name, here, there]) => el("tr", {}, el("td", {}, shown(name)), el("td", {}, String(here)), el("td", {}, String(there))));
  return el("table", {}, el("thead", {}, el("tr", {}, ["node", "community here", "community there"].map((name) => el("th", {}, name)))), el("tbody", {}, rows));
}
