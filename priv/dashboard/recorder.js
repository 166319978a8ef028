// The flight recorder of a loop: what it did last, and where its slow turns were.
import { address, duration, el, loopName, micros, number, pager, place, table } from "./element.js";
import { stack } from "./loop.js";

const KINDS = {
  turn: "long turn", gil_wait: "waited for the GIL", fd: "fd ready", timers: "timers due",
  request_in: "request begins", request_out: "request ends", request_cancel: "request cancelled",
};

export function recorder(view, go, elsewhere) {
  const on = elsewhere ? `&node=${encodeURIComponent(elsewhere)}` : "";
  if (!view.loop) return choices(view, on);
  const { loop, slow, rows } = view;
  return [
    el("div", { class: "heading" }, el("h1", {}, `Recorder of ${loopName(loop)}`),
      el("a", { class: "button", id: "save-trace", href: `/api/trace?loop=${loop.id}${on}`, download: "loop.trace.json" }, "Save for Perfetto")),
    el("section", {}, el("h2", {}, "Slow turns"), slow.length
      ? slow.map(slowTurn)
      : el("p", { class: "muted" }, "No turn lasted for 20 ms.")),
    el("section", {}, rows.length
      ? table(`Events (${number(view.total)})`, ["event", "ago", "took", "what"], rows.map(row))
      : el("p", { class: "muted" }, "The loop has done nothing yet."),
    pager(view, rows.length, go)),
  ];
}

function slowTurn(turn, at) {
  const [first] = turn.stack;
  const began = turn.age_us;
  return el("details", { id: `slow-${at}` },
    el("summary", {}, el("b", {}, `≥ ${micros(turn.duration_us)}`), el("span", { class: "muted" }, ` ${ago(began)} `), first ? place(first) : "no Python code"),
    stack(turn.stack));
}

const ago = (us) => `${duration(Math.round(us / 1000))} ago`;

function row(event, at) {
  const what = event.fd !== undefined ? `fd ${event.fd}` : event.timers !== undefined ? number(event.timers)
    : event.request !== undefined ? `request ${event.request}` : "";
  return {
    key: at,
    kind: "",
    cells: [KINDS[event.kind] ?? event.kind, ago(event.age_us), event.duration_us === undefined ? "–" : micros(event.duration_us), what],
  };
}

function choices(view, on) {
  const rows = view.loops.map((loop) => el("li", {}, el("a", { href: address(loop, undefined, "recorder"), id: `loop-${loop.id}` }, loopName(loop)),
    el("span", { class: "muted" }, ` ${loop.id}`)));
  return [
    el("div", { class: "heading" }, el("h1", {}, "Recorder"),
      el("a", { class: "button", id: "save-trace", href: `/api/trace?all=1${on}`, download: "loops.trace.json" }, "Save all for Perfetto")),
    el("section", {}, el("p", { class: "muted" }, "Each loop keeps its last events and the stacks of its slow turns, always."),
      rows.length ? el("ul", { class: "choices" }, rows) : el("p", {}, "There is no loop.")),
  ];
}
