// Elements from text only: nothing that comes from the node is ever parsed as markup.

export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function duration(ms) {
  if (ms === null) return "–";
  if (ms < 1000) return `${ms} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${(ms / 1000).toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function micros(us) {
  if (us === "infinity") return "∞";
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 10000 ? 1 : 0)} ms`;
  return `${(us / 1e6).toFixed(1)} s`;
}

export function bytes(count) {
  return count ? `${(count / 2 ** 20).toFixed(0)} MiB` : "–";
}

// The node that is looked at, if it is another one: part of the addresses of its loops.
let looked = null;
export const lookAt = (node) => { looked = node ?? null; };
export function address(loop, node = looked, page = "loop") {
  return `#${node ? `/node/${encodeURIComponent(node)}` : ""}/${page}/${loop.id}`;
}

export const number = (value) => (value ?? 0).toLocaleString("en");
export const loopName = (loop) => loop.name ?? (loop.kind === "erlang" ? "Erlang loop" : "Python loop");
export const caller = (row) => row.caller_name ?? row.caller ?? row.serves ?? "–";

export function fact(label, value, kind) {
  return el("div", { class: `fact ${kind ?? ""}` }, el("dt", {}, label), el("dd", {}, String(value)));
}

export const badge = (state) => el("span", { class: `badge ${state}` }, state);

export function place(frame) {
  if (!frame) return el("span", { class: "muted" }, "–");
  const file = frame.file.split("/").slice(-2).join("/");
  return el("code", { title: `${frame.file}:${frame.line}` }, `${frame.function} `,
    el("span", { class: "muted" }, `${file}:${frame.line}`));
}

// A table whose cells have their heading with them, for narrow screens.
export function table(caption, headings, rows) {
  return el("table", {}, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, headings.map((heading) => el("th", { scope: "col" }, heading)))),
    el("tbody", {}, rows.map(({ key, kind, cells }) => el("tr", { class: kind, "data-key": key },
      cells.map((cell, at) => el("td", { "data-label": headings[at] }, cell))))));
}

export function pager(view, count, go) {
  const last = view.from + count;
  const total = view.found ?? view.total;
  if (total <= 60 && view.from === 0) return null;
  return el("div", { class: "pager" },
    el("button", { id: "before", disabled: view.from === 0, onclick: () => go(Math.max(0, view.from - 60)) }, "← Previous"),
    el("span", {}, count ? `${number(view.from + 1)}–${number(last)} of ${number(total)}` : `none of ${number(total)}`),
    el("button", { id: "after", disabled: last >= total, onclick: () => go(view.from + 60) }, "Next →"));
}

export function staleness(view) {
  if (view.tasks_error) {
    return el("p", { class: "warning" }, "The loop is stuck, and its tasks were never listed before.");
  }
  if (view.is_fresh) return null;
  return el("p", { class: "warning" }, `The loop does not reply. This list is ${duration(view.age_ms)} old.`);
}
