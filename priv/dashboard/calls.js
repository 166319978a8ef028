// What Erlang has asked: plain functions that run, streams, and which functions took longest.
import { caller, duration, el, number, table } from "./element.js";

export function calls(view) {
  return [
    el("h1", {}, "Streams and calls"),
    section("Calls on threads", view.calls, view.all_calls, "No plain function is running.",
      ["function", "caller", "age", "state"], callRow),
    section("Streams", view.streams, view.all_streams, "No stream is open.",
      ["function", "consumer", "age", "sent", "demand", "state"], streamRow),
    section("Slowest functions", view.functions, view.all_functions, "No call has taken 0.1 ms yet.",
      ["function", "calls", "total", "p99", "longest"], functionRow),
  ];
}

function section(title, rows, total, empty, headings, row) {
  if (!rows.length) return el("section", { class: "empty" }, el("h2", {}, title), el("p", {}, empty));
  const more = total > rows.length ? ` (${rows.length} of ${number(total)})` : "";
  return el("section", {}, table(title + more, headings, rows.map(row)));
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

function functionRow(one) {
  return {
    key: one.name,
    kind: "",
    cells: [el("code", {}, one.name), number(one.calls), milliseconds(one.total_ms), milliseconds(one.p99_ms), milliseconds(one.longest_ms)],
  };
}

const milliseconds = (ms) => (ms < 10 ? `${ms.toFixed(1)} ms` : duration(Math.round(ms)));
