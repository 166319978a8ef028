// The durations of a loop's turns over time: a column for each event of the stream, since the page
// was opened. The node keeps sums only; their growth is a column.
import { el, micros, number, svg } from "./element.js";

const COLUMNS = 120;
// Classes of the node that are one row: from 1 us to 4 s and longer.
const ROWS = 12;
const kept = new Map();

export function record(loop, node) {
  if (!loop.lag) return;
  const counts = Array(2 * ROWS).fill(0);
  loop.lag.histogram.forEach(([, count], at) => { counts[at] = count; });
  const key = `${node} ${loop.id}`;
  const known = kept.get(key) ?? { last: null, columns: [] };
  if (known.last) {
    const column = Array(ROWS).fill(0);
    counts.forEach((count, at) => { column[at >> 1] += Math.max(0, count - known.last[at]); });
    known.columns = [...known.columns, column].slice(-COLUMNS);
  }
  known.last = counts;
  kept.set(key, known);
}

export function heat(loop, node) {
  const { columns } = kept.get(`${node} ${loop.id}`) ?? { columns: [] };
  const title = el("h2", {}, "Durations of turns over time");
  if (!columns.length) return el("section", {}, title, el("p", { class: "muted" }, "The first column comes with the next event."));
  const most = Math.max(1, ...columns.flat());
  const [width, height, left] = [720, 12, 48];
  const step = (width - left) / COLUMNS;
  const from = COLUMNS - columns.length;
  const cells = columns.flatMap((column, x) => column.map((count, y) => (count
    ? svg("rect", { class: y >= 8 ? "slow" : y >= 6 ? "late" : "fast", x: left + (from + x) * step, y: (ROWS - 1 - y) * height,
      width: step - 0.5, height: height - 1, "fill-opacity": (0.25 + 0.75 * Math.sqrt(count / most)).toFixed(2) },
    svg("title", {}, `up to ${bound(y)}: ${number(count)}`))
    : null))).filter(Boolean);
  const marks = [0, 3, 5, 7, 9, 11].map((y) => svg("text", { x: left - 6, y: (ROWS - y) * height - 3 }, bound(y)));
  const ground = svg("rect", { class: "ground", x: left, y: 0, width: width - left, height: ROWS * height, rx: 3 });
  const chart = svg("svg", { viewBox: `0 0 ${width} ${ROWS * height + 2}`, role: "img", class: "heat",
    "aria-label": `Durations of turns in the last ${columns.length} events, newest on the right` }, ground, ...marks, ...cells);
  return el("section", { class: "chart" }, el("div", { class: "heading" }, title,
    el("p", { class: "sums" }, `${columns.length} of ${COLUMNS} columns, newest on the right`)), chart);
}

const bound = (row) => (row === ROWS - 1 ? "> 2 s" : micros(2 ** (2 * row + 1)));
