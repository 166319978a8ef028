// All loops of the node, stuck ones first; calls and streams.
import { badge, bytes, caller, duration, el, fact, loopName, micros, number, pager, place, table } from "./element.js";

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
      view.loops.map(loopRow)),
    pager(view, view.loops.length, go)),
    section("Calls on threads", view.calls, view.all_calls, "No plain function is running.",
      ["function", "caller", "age", "state"], callRow),
    section("Streams", view.streams, view.all_streams, "No stream is open.",
      ["function", "consumer", "age", "sent", "demand", "state"], streamRow),
  ];
}

function section(title, rows, total, empty, headings, row) {
  if (!rows.length) return el("section", { class: "empty" }, el("h2", {}, title), el("p", {}, empty));
  const more = total > rows.length ? ` (${rows.length} of ${number(total)})` : "";
  return el("section", {}, table(title + more, headings, rows.map(row)));
}

function loopRow(loop) {
  const { lag } = loop;
  const link = el("a", { href: `#/loop/${loop.id}`, id: `loop-${loop.id}` }, loopName(loop),
    el("span", { class: "muted" }, ` ${loop.id}`));
  const state = [badge(loop.state)];
  if (loop.state === "stuck") {
    state.push(el("span", { class: "where" }, `${duration(loop.in_turn_ms)} in `, place(loop.stack[0])));
  }
  return {
    key: loop.id,
    kind: loop.state,
    cells: [link, el("div", { class: "state" }, state), busy(loop.busy_share), ...times(lag), micros(loop.gil_wait_us), number(loop.ready), number(loop.timers),
      number(loop.fds), number(loop.unanswered)],
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

function callRow(call) {
  const state = call.is_abandoned ? "abandoned" : call.is_outside ? "in Erlang" : "running";
  return {
    key: call.id,
    kind: "",
    cells: [el("code", {}, call.name), String(caller(call)), duration(call.age_ms),
      el("span", { class: `badge ${call.is_abandoned ? "stuck" : "running"}` }, state)],
  };
}

function streamRow(stream) {
  return {
    key: stream.id,
    kind: "",
    cells: [el("code", {}, stream.name), stream.consumer, duration(stream.age_ms), number(stream.sent),
      number(stream.demand), stream.waits ? "waits for demand" : "sending"],
  };
}
