// Nodes where their source says they are, in the colours of their communities.

import { axisStyle, base, chart, plain } from "./charts.js";
import { colour, css } from "./colours.js";
import { number, shown } from "./dom.js";
import { called } from "./names.js";

const LEFT = 56, RIGHT = 12, TOP = 8, BOTTOM = 28;

/** Draw places into a plot; a click on a node chooses its community. */
export function drawPlaces(plot, places, { chosen, node }) {
  plot.dataset.placed = places.nodes.length;
  plot.dataset.number = places.number;
  const [x, y] = ranges(places, plot);
  const axis = { type: "value", ...axisStyle(), splitLine: { show: false } };
  axis.axisLabel = { ...axis.axisLabel, showMinLabel: false, showMaxLabel: false };
  chart(plot).setOption({
    ...base(),
    grid: { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM },
    xAxis: { ...axis, min: x[0], max: x[1] },
    yAxis: { ...axis, min: y[0], max: y[1] },
    dataZoom: [0, 1].map((at) => ({ type: "inside", [at ? "yAxisIndex" : "xAxisIndex"]: 0, filterMode: "none" })),
    series: scatters(places, chosen, node),
  }, { replaceMerge: ["series"] });
}

/** Ranges of both axes around the frame, so that a kilometre is as long in x as in y. */
function ranges({ frame: [left, right, bottom, top], aspect }, plot) {
  const wide = Math.max(1, plot.clientWidth - LEFT - RIGHT), high = Math.max(1, plot.clientHeight - TOP - BOTTOM);
  const unit = Math.max(((right - left) * aspect) / wide, (top - bottom) / high); // of y, for a pixel
  const around = (low, most, half) => [(low + most) / 2 - half, (low + most) / 2 + half];
  return [around(left, right, (unit * wide) / 2 / aspect), around(bottom, top, (unit * high) / 2)];
}

/** A series for each colour; the chosen community and the node that was searched lie on top. */
function scatters(places, chosen, node) {
  const groups = new Map();
  places.ids.forEach((id, at) => {
    const quiet = chosen !== null && chosen !== id;
    const key = `${colour(id)} ${quiet}`;
    if (!groups.has(key)) groups.set(key, { paint: colour(id), quiet, data: [] });
    groups.get(key).data.push({ value: [places.x[at], places.y[at]], id, name: places.nodes[at] });
  });
  const size = places.nodes.length > 3000 ? 4 : 6;
  const all = [...groups.values()].map(({ paint, quiet, data }) => series(data, paint, size, quiet ? 0.15 : 0.85, quiet ? 1 : 2));
  const found = node === "" ? -1 : places.nodes.indexOf(node);
  if (found < 0) return all;
  const one = { value: [places.x[found], places.y[found]], id: places.ids[found], name: node };
  const mark = series([one], colour(one.id), 16, 1, 3);
  return [...all, { ...mark, itemStyle: { ...mark.itemStyle, borderColor: css("--ink"), borderWidth: 2 } }];
}

function series(data, color, symbolSize, opacity, z) {
  return {
    type: "scatter", data, z, symbolSize, itemStyle: { color, opacity },
    tooltip: { formatter: ({ data: one }) => `${plain(shown(one.name, 60))}\n${plain(called(one.id))}\n${one.value.join(", ")}` },
  };
}

/** What is said below the picture. */
export function placesNote(places) {
  const parts = [places.degrees ? `The frame is ${number(places.km, places.km < 10 ? 1 : 0)} km wide; longitude and latitude in degrees.` : "Positions as the source gives them."];
  if (places.unplaced) parts.push(`Nodes without a known position: ${number(places.unplaced)}.`);
  if (places.nodes_left_out) parts.push(`${number(places.nodes_left_out)} nodes are left out.`);
  return parts.join(" ");
}
