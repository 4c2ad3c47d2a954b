// What all charts share: one instance for each element, colours of the theme, no markup.

import { css } from "./colours.js";

const LIBRARY = "vendor/echarts-6.1.0.min.js";
const instances = new Map();
let loading = null;

/** Load the library of charts, once; a report holds it already. */
export function loadCharts() {
  if (loading === null) {
    loading = globalThis.echarts !== undefined ? Promise.resolve() : new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = LIBRARY;
      script.onload = done;
      script.onerror = () => { loading = null; failed(new Error("the charts cannot be loaded: is the server there?")); };
      document.head.append(script);
    });
  }
  return loading;
}

/** Whether charts can be drawn now. */
export const chartsLoaded = () => globalThis.echarts !== undefined;

/** The chart of an element, made when it is first asked for; those of elements that are gone end. */
export function chart(element) {
  if (!instances.has(element)) {
    for (const [before, made] of instances) if (!before.isConnected) { made.dispose(); instances.delete(before); }
    const made = echarts.init(element, null, { renderer: "canvas" });
    new ResizeObserver(() => made.resize()).observe(element);
    instances.set(element, made);
  }
  return instances.get(element);
}

/** What the chart of an element shows now, as the text of an SVG. */
export function chartAsSvg(element) {
  const size = { width: element.clientWidth, height: element.clientHeight };
  const copy = echarts.init(null, null, { renderer: "svg", ssr: true, ...size });
  const option = chart(element).getOption();
  copy.setOption({ ...option, series: option.series.map((one) => ({ ...one, progressive: 0 })) }); // all in one go
  const text = copy.renderToSVGString();
  copy.dispose();
  return text;
}

/** What every option begins with. Tooltips are drawn, not markup: no name can become an element. */
export function base() {
  return {
    animation: false,
    aria: { enabled: true },
    textStyle: { color: css("--ink"), fontFamily: "system-ui, sans-serif" },
    tooltip: {
      renderMode: "richText", confine: true, backgroundColor: css("--raised"),
      borderColor: css("--line"), textStyle: { color: css("--ink") },
    },
  };
}

/** Scroll to zoom both axes, and drag to move. */
export function zoom() {
  return ["xAxisIndex", "yAxisIndex"].map((axis) => ({ type: "inside", [axis]: 0, filterMode: "none" }));
}

/** Lines and labels of an axis. */
export function axisStyle() {
  return {
    axisLine: { lineStyle: { color: css("--line") } },
    axisLabel: { color: css("--quiet") },
    splitLine: { lineStyle: { color: css("--line"), opacity: 0.5 } },
    nameTextStyle: { color: css("--quiet"), align: "left" },
  };
}

/** Text for a drawn tooltip: braces would begin a style there. */
export function plain(text) {
  return text.replace(/[{}|]/g, (one) => ({ "{": "❴", "}": "❵", "|": "∣" })[one]);
}
