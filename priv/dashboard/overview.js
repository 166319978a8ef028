// All loops, stuck ones first; mistakes; other nodes.
import { address, badge, bytes, duration, el, fact, loopName, micros, number, pager, place, table } from "./element.js";

export function overview(view, go) {
  const { node } = view;
  return [
    el("h1", {}, "Overview"),
    el("dl", { class: "facts" },
      fact("stuck loops", view.stuck, view.stuck ? "bad" : "good"),
      fact("loops", number(view.total)),
      fact("open requests", number(view.unanswered)),
      fact("running calls", number(view.all_calls)),
      fact("streams", number(view.all_streams)),
      fact("memory", bytes(node.memory.process)),
      fact("up", duration(node.uptime_ms))),
    el("section", {}, table("Loops",
      ["loop", "state", "busy", "p50", "p99", "longest", "GIL wait", "ready", "timers", "fds", "requests"],
      view.loops.map((loop) => loopRow(loop, view.node_name))),
    pager(view, view.loops.length, go)),
    view.lints.length ? section("Mistakes", view.lints, ["place", "mistake", "name", "times"], lintRow) : null,
    view.nodes.length > 1 ? section("Nodes", view.nodes, ["node", "state", "loops", "stuck"], nodeRow) : null,
  ];
}

function section(title, rows, headings, row) {
  return el("section", {}, table(title, headings, rows.map(row)));
}

function loopRow(loop, here) {
  const { lag } = loop;
  const isHere = loop.node === here;
  const link = el("a", { href: address(loop, isHere ? null : loop.node), id: `loop-${loop.id}${isHere ? "" : `-${loop.node}`}` },
    loopName(loop), el("span", { class: "muted" }, ` ${loop.id}${isHere ? "" : ` on ${loop.node}`}`));
  const state = [badge(loop.state)];
  if (loop.state === "stuck") {
    state.push(el("span", { class: "where" }, `${duration(loop.in_turn_ms)} in `, place(loop.stack[0])));
  }
  return {
    key: isHere ? loop.id : `${loop.node} ${loop.id}`,
    kind: loop.state,
    cells: [link, el("div", { class: "state" }, state), busy(loop.busy_share), ...times(lag), micros(loop.gil_wait_us), number(loop.ready), number(loop.timers),
      number(loop.fds), number(loop.unanswered)],
  };
}

function nodeRow(node) {
  return {
    key: node.name,
    kind: node.stuck || node.state !== "up" ? "stuck" : "",
    cells: [node.name, el("span", { class: `badge ${node.state === "up" ? "idle" : "stuck"}` }, node.state), number(node.loops),
      number(node.stuck)],
  };
}

const MISTAKES = {
  no_yield: "does not yield",
  long_wait: "waits for long",
  never_awaited: "coroutine was never awaited",
  never_retrieved: "exception was never retrieved",
  no_demand: "nobody demands from this stream",
  near_limit: "near its limit of requests",
};

function lintRow(lint) {
  return {
    key: `${lint.kind} ${lint.name} ${lint.file} ${lint.line}`,
    kind: "",
    cells: [lint.file ? place(lint) : "–", MISTAKES[lint.kind] + (lint.for_ms === null ? "" : `, ${duration(lint.for_ms)}`),
      String(lint.name), number(lint.count)],
  };
}

// No turn has ended yet: there is nothing to tell.
function times(lag) {
  return [lag.p50_us, lag.p99_us, lag.longest_us].map((us) => (lag.turns ? micros(us) : "–"));
}

function busy(share) {
  if (share === null) return "–";
  return el("span", { class: "busy" }, el("meter", { min: 0, max: 1, high: 0.8, value: share, "aria-label": "busy share" }),
    `${Math.round(share * 100)} %`);
}
