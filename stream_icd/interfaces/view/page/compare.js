// Two series side by side: agreement over time, and where the newest common window disagrees.

import { axisStyle, base, chart } from "./charts.js";
import { LINES } from "./colours.js";
import { community } from "./events.js";
import { cell, el, figure, fill, note, number, scroll, select, shown, table, time } from "./dom.js";

/** The models of a series for people, in the order of their first windows. */
export function modelsOf(series) {
  const names = series.models.map((model) => shown(model, 40));
  return names.length > 4 ? `${names[0]} → … → ${names.at(-1)}` : names.join(" → ");
}

/** Draw the choice of the other series, and the comparison if there is one. */
export function drawCompare(into, others, chosen, compared, { onOther, onWindow }) {
  if (into.querySelector(".bar") === null) {
    fill(into, el("div", { class: "bar" }, el("label", {}, "compare with ", el("select"))), el("div", { class: "plot short" }), el("div"));
  }
  const [bar, plot, below] = into.children;
  const choice = bar.querySelector("select");
  const options = others.map((series, at) => ({ value: String(at), text: `${shown(series.graph, 40)} · ${modelsOf(series)} · ${shown(series.origin, 60)}` }));
  select(choice, [{ value: "", text: "choose another model or archive" }, ...options], options[others.indexOf(chosen)]?.value ?? "");
  choice.onchange = () => onOther(others[choice.value] ?? null);
  const { windows, newest } = compared ?? { windows: [] };
  plot.hidden = windows.length === 0;
  if (plot.hidden) {
    const none = others.length < 1 ? "Only one series was seen: run a second model, or open a second archive." : "Windows that end at the same time are compared.";
    fill(below, note(compared === null ? none : "The two have no window in common."));
    return;
  }
  fill(below,
    el("h2", {}, `${shown(newest.snapshot)}: ${number(newest.apart)} of ${number(newest.common_nodes)} nodes are in communities that do not match`),
    scroll(pairs(newest), nodes(newest)));
  plot.dataset.windows = windows.length;
  const common = axisStyle();
  chart(plot).setOption({
    ...base(),
    legend: { textStyle: { color: common.axisLabel.color } },
    tooltip: { ...base().tooltip, trigger: "axis" },
    grid: { left: 48, right: 48, top: 36, bottom: 28 },
    xAxis: { type: "category", data: windows.map(({ start }) => time(start)), ...common },
    yAxis: [{ type: "value", max: 1, scale: true, name: "agreement (NMI)", ...common }, { type: "value", name: "communities", min: 0, ...common, splitLine: { show: false } }],
    series: [
      { name: "agreement (NMI)", type: "line", data: windows.map(({ nmi }) => nmi), color: LINES.blue },
      { name: "communities here", type: "line", yAxisIndex: 1, data: windows.map(({ k }) => k[0]), color: LINES.green, lineStyle: { width: 1 } },
      { name: "communities there", type: "line", yAxisIndex: 1, data: windows.map(({ k }) => k[1]), color: LINES.orange, lineStyle: { width: 1, type: "dashed" } },
    ],
  });
  chart(plot).off("click");
  chart(plot).on("click", (event) => onWindow(windows[event.dataIndex].number));
}

function pairs(newest) {
  const still = () => {};
  const rows = newest.pairs.map(({ ids, sizes, shared, match }) => [
    cell(community(ids[0], still)), figure(sizes[0]), cell(community(ids[1], still)), figure(sizes[1]),
    figure(shared), cell(match ? "match" : "disagree")]);
  return table(["here", ["members", "number"], "there", ["members", "number"], ["in common", "number"], ""], rows, "pairs");
}

function nodes(newest) {
  if (newest.nodes.length === 0) return null;
  const rows = newest.nodes.map(([name, here, there]) => [cell(shown(name)), cell(String(here)), cell(String(there))]);
  return table(["node", "community here", "community there"], rows);
}
