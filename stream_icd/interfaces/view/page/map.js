// The map of a window: communities as discs that keep their places, and their members when opened;
// or its nodes where their source says they are.

import { axisStyle, base, chart, plain, zoom } from "./charts.js";
import { colour, colourOfNode, css } from "./colours.js";
import { el, fill, note, number, refill, shown, time } from "./dom.js";
import { briefly, called } from "./names.js";

const LEFT = 56, RIGHT = 12, TOP = 8, BOTTOM = 28; // of the axes of places, pixels

/** Draw the map into an element. `members` are those of communities, or null; so are `places`. */
export function drawMap(into, map, members, places, { chosen, onCommunity, onAll, onPlaces, all, node }) {
  let plot = into.querySelector(".plot");
  if (plot === null) {
    plot = el("div", { class: "plot" });
    fill(into, el("div", { class: "bar" }), plot, note());
    const made = chart(plot);
    made.on("click", (event) => { if (event.data?.id >= 0) plot.onCommunity(event.data.id); });
    made.getZr().on("dblclick", () => made.dispatchAction({ type: "dataZoom", batch: [0, 1].map((at) => ({ dataZoomIndex: at, start: 0, end: 100 })) }));
  }
  plot.onCommunity = onCommunity;
  const kind = places === null ? "discs" : "places";
  if (plot.dataset.kind !== kind) chart(plot).clear();
  Object.assign(plot.dataset, { kind, discs: 0, nodes: 0, edges: 0, placed: 0, number: map.number });
  const box = (name, checked, disabled, then) => el("label", {}, el("input", { type: "checkbox", checked, disabled, onchange: (event) => then(event.target.checked) }), ` ${name}`);
  refill(into.querySelector(".bar"), [map.placed > 0, map.whole, map.start, kind, all, time(map.start)], () => [
    map.placed ? box("positions", places !== null, false, onPlaces) : null,
    places === null ? box("all members", all, !map.whole, onAll) : null,
    el("span", { class: "note", title: shown(map.snapshot) }, time(map.start))]);
  const below = into.querySelector(":scope > .note");
  if (places !== null) {
    below.textContent = `${counts(map)} ${placesNote(places)} Click a node to follow its community; scroll to zoom, drag to move, double-click to see all.`;
    drawPlaces(plot, places, { chosen, node });
    return;
  }
  const opened = inDiscs(map, members);
  below.textContent = notes(map, opened);
  plot.dataset.discs = map.communities.length;
  plot.dataset.nodes = opened?.nodes.length ?? 0;
  plot.dataset.edges = (opened?.edges.length ?? 0) / 2;
  const [x, y] = extent(map, plot);
  chart(plot).setOption({
    ...base(),
    grid: { left: 4, right: 4, top: 4, bottom: 4 },
    xAxis: { type: "value", show: false, min: x[0], max: x[1] },
    yAxis: { type: "value", show: false, min: y[0], max: y[1] },
    dataZoom: zoom(),
    series: [links(map, opened), discs(map, chosen, opened), titles(map, opened), ...inside(map, opened, chosen, node)],
  }, { replaceMerge: ["series"] });
}

/** Members where their discs lie; null if they are those of another window, or there are none. */
function inDiscs(map, members) {
  if (members === null || members.number !== map.number) return null;
  const centres = new Map(map.communities.map((disc) => [disc.id, disc]));
  const moved = (axis) => members[axis].map((value, at) => value + (centres.get(members.ids[at])?.[axis] ?? 0));
  return { ...members, x: moved("x"), y: moved("y") };
}

/** Ranges of both axes, with the same scale, so that discs are round. */
function extent(map, plot) {
  const least = (name, sign) => map.communities.reduce((low, disc) => Math.min(low, sign * disc[name] - disc.r), Infinity);
  const [left, right] = [least("x", 1), -least("x", -1)];
  const [bottom, top] = [least("y", 1), -least("y", -1)];
  if (!Number.isFinite(left)) return [[-1, 1], [-1, 1]];
  const ratio = (plot.clientWidth || 1) / (plot.clientHeight || 1);
  const height = Math.max(top - bottom, (right - left) / ratio, 1) * 1.04;
  const [mx, my] = [(left + right) / 2, (bottom + top) / 2];
  return [[mx - (height * ratio) / 2, mx + (height * ratio) / 2], [my - height / 2, my + height / 2]];
}

function links(map, opened) {
  const places = new Map(map.communities.map((disc) => [disc.id, disc]));
  const most = Math.max(1e-300, ...map.links.map(([, , weight]) => weight));
  const data = opened && opened.everything ? [] : map.links.map(([a, b, weight]) => ({
    coords: [[places.get(a).x, places.get(a).y], [places.get(b).x, places.get(b).y]],
    lineStyle: { width: 0.4 + 5 * Math.sqrt(weight / most) },
  }));
  return { type: "lines", coordinateSystem: "cartesian2d", silent: true, data, lineStyle: { color: css("--grey"), opacity: 0.35 }, z: 1 };
}

function discs(map, chosen, opened) {
  const shownInside = new Set(opened?.ids ?? []);
  return {
    type: "custom", coordinateSystem: "cartesian2d", z: 2,
    data: map.communities.map(({ id, x, y, r, size }) => ({ id, value: [x, y, r], size })),
    tooltip: { formatter: ({ data }) => `${plain(called(data.id))}\n${number(data.size)} members` },
    renderItem: (parameters, api) => {
      const disc = map.communities[parameters.dataIndex];
      const [x, y] = api.coord([disc.x, disc.y]);
      const r = api.size([disc.r, 0])[0];
      const open = shownInside.has(disc.id);
      return { type: "circle", shape: { cx: x, cy: y, r }, style: { fill: colour(disc.id), opacity: open ? 0.12 : chosen === null || chosen === disc.id ? 0.85 : 0.35, stroke: chosen === disc.id ? css("--ink") : null, lineWidth: 2 } };
    },
  };
}

/** What stands in the discs, above their members; a disc that was opened alone shows its members instead. */
function titles(map, opened) {
  const shownInside = new Set(opened?.everything ? [] : opened?.ids ?? []);
  return {
    type: "custom", coordinateSystem: "cartesian2d", silent: true, z: 6,
    data: map.communities.map(({ id, x, y }) => ({ id, value: [x, y] })),
    renderItem: (parameters, api) => {
      const disc = map.communities[parameters.dataIndex];
      const [x, y] = api.coord([disc.x, disc.y]);
      const r = api.size([disc.r, 0])[0];
      if (r <= 14 || shownInside.has(disc.id)) return null;
      return { type: "text", silent: true, style: { x, y, text: title(disc.id, r), align: "center", verticalAlign: "middle", fill: css("--ink"), stroke: css("--paper"), lineWidth: 3, font: "12px system-ui" } };
    },
  };
}

function inside(map, opened, chosen, node) {
  if (!opened) return [];
  const { nodes, ids, values, x, y, edges } = opened;
  const groups = new Map();
  for (let at = 0; at < edges.length; at += 2) {
    const [a, b] = [edges[at], edges[at + 1]];
    const id = ids[a] === ids[b] ? ids[a] : -1;
    const paint = colour(id);
    if (!groups.has(paint)) groups.set(paint, { between: id === -1, data: [] });
    groups.get(paint).data.push({ coords: [[x[a], y[a]], [x[b], y[b]]] });
  }
  const lines = [...groups].map(([paint, { between, data }]) => ({
    type: "lines", coordinateSystem: "cartesian2d", silent: true, large: true, largeThreshold: 1, data, z: 3,
    lineStyle: { color: paint, width: 0.5, opacity: between ? 0.12 : 0.35 },
  }));
  return [...lines, {
    type: "scatter", z: 4, symbolSize: nodes.length > 1500 ? 4 : 6,
    data: nodes.map((name, at) => ({
      value: [x[at], y[at]], id: ids[at], name,
      itemStyle: { color: colourOfNode(ids[at], values?.[at]), opacity: chosen === null || chosen === ids[at] ? 1 : 0.3, borderColor: css("--ink"), borderWidth: name === node ? 2 : 0 },
      symbolSize: name === node ? 14 : undefined,
    })),
    tooltip: { formatter: ({ data }) => `${plain(shown(data.name, 60))}\n${plain(called(data.id))}` },
  }];
}

/** What stands in a disc: the values that name the community, if they have room; else its id. */
function title(id, r) {
  const text = plain(briefly(id)?.replace(/^(mostly|partly) /, "") ?? "");
  return text !== "" && text.length * 6 < 2 * r ? text : String(id);
}

const counts = (map) => `${number(map.nodes)} nodes, ${number(map.edges)} edges, ${number(map.communities.length)} communities.`;

function notes(map, opened) {
  const parts = [counts(map)];
  if (map.trouble) parts.push(`Edges are not shown: ${shown(map.trouble, 200)}.`);
  if (map.links_left_out) parts.push(`The ${number(map.links_left_out)} weakest links are left out.`);
  if (opened?.nodes_left_out) parts.push(`${number(opened.nodes_left_out)} nodes with the fewest links are left out.`);
  if (opened?.edges_left_out) parts.push(`${number(opened.edges_left_out)} edges are left out.`);
  parts.push("The area of a disc is its number of members. Click a disc to open it; scroll to zoom, drag to move, double-click to see all.");
  return parts.join(" ");
}

/** Draw nodes where their source says they are; a click on one chooses its community. */
function drawPlaces(plot, places, { chosen, node }) {
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
    dataZoom: zoom(),
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
    const paint = colourOfNode(id, places.values?.[at]);
    const key = `${paint} ${quiet}`;
    if (!groups.has(key)) groups.set(key, { paint, quiet, data: [] });
    groups.get(key).data.push({ value: [places.x[at], places.y[at]], id, name: places.nodes[at] });
  });
  const size = places.nodes.length > 3000 ? 4 : 6;
  const all = [...groups.values()].map(({ paint, quiet, data }) => series(data, paint, size, quiet ? 0.15 : 0.85, quiet ? 1 : 2));
  const at = node === "" ? -1 : places.nodes.indexOf(node);
  if (at < 0) return all;
  const searched = { value: [places.x[at], places.y[at]], id: places.ids[at], name: node };
  const mark = series([searched], colourOfNode(searched.id, places.values?.[at]), 16, 1, 3);
  return [...all, { ...mark, itemStyle: { ...mark.itemStyle, borderColor: css("--ink"), borderWidth: 2 } }];
}

function series(data, color, symbolSize, opacity, z) {
  return {
    type: "scatter", data, z, symbolSize, itemStyle: { color, opacity },
    tooltip: { formatter: ({ data: { name, id, value } }) => `${plain(shown(name, 60))}\n${id < 0 ? "in no community" : plain(called(id))}\n${value.join(", ")}` },
  };
}

function placesNote(places) {
  const parts = [places.degrees ? `The frame is ${number(places.km, places.km < 10 ? 1 : 0)} km wide; longitude and latitude in degrees.` : "Positions as the source gives them."];
  if (places.unplaced) parts.push(`Nodes without a known position: ${number(places.unplaced)}.`);
  if (places.nodes_left_out) parts.push(`${number(places.nodes_left_out)} nodes are left out.`);
  return parts.join(" ");
}
