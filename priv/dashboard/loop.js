// One loop: its numbers, how long its turns take, its tasks below those that await them.
import { heat } from "./heat.js";
import { address, badge, caller, duration, el, fact, loopName, micros, number, pager, place, staleness, svg, table } from "./element.js";

export function loop(view, go, search, onSearch, act) {
  const { loop } = view;
  return [
    el("div", { class: "heading" }, el("h1", {}, loopName(loop), " ", badge(loop.state)), actions(view, act)),
    loop.state === "stuck" ? stuck(loop) : null,
    el("dl", { class: "facts" },
      fact("busy", loop.busy_share === null ? "–" : `${Math.round(loop.busy_share * 100)} %`),
      fact("turns", number(loop.lag.turns)),
      fact("GIL wait", micros(loop.gil_wait_us)),
      fact("ready", number(loop.ready)),
      fact("timers", number(loop.timers)),
      fact("fds", number(loop.fds)),
      fact("requests", number(loop.unanswered))),
    heat(loop, view.node_name),
    histogram(loop.lag),
    tasks(view, go, search, onSearch),
  ];
}

function actions({ loop, read_only: isReadOnly }, act) {
  if (loop.kind === "erlang") return null;
  const change = (id, text) => (isReadOnly ? null : el("button", { id, class: "danger", onclick: () => act[id](loop) }, text));
  return el("div", { class: "actions" },
    el("a", { class: "button", id: "profile", href: address(loop, undefined, "profile") }, "Profile"),
    el("a", { class: "button", id: "recorder", href: address(loop, undefined, "recorder") }, "Recorder"),
    change("interrupt", "Interrupt…"),
    loop.pid === null ? null : change("restart", "Restart…"));
}

function stuck(loop) {
  return el("section", { class: "alarm" }, el("h2", {}, `Stuck for ${duration(loop.in_turn_ms)}`), stack(loop.stack));
}

export function stack(frames) {
  if (!frames.length) return el("p", { class: "muted" }, "Its stack is not known yet.");
  const shown = frames.slice(0, 200);
  const rest = frames.length - shown.length;
  return el("ol", { class: "stack" }, shown.map((frame) => el("li", {}, el("b", {}, frame.function),
    el("span", {}, `${frame.file}:${frame.line}`))), rest ? el("li", {}, `and ${number(rest)} more frames`) : null);
}

function histogram(lag) {
  const classes = lag.histogram.slice(Math.max(0, lag.histogram.findIndex(([, count]) => count > 0)));
  const title = el("h2", {}, "Duration of turns");
  const sums = el("p", { class: "sums" }, ["p50", "p99", "longest"].map((name) => el("span", { class: "sum" },
    `${name} `, el("b", {}, micros(lag[`${name}_us`])))));
  if (!classes.length) return el("section", {}, title, el("p", { class: "muted" }, "No turn has ended yet."));
  const most = Math.max(...classes.map(([, count]) => count));
  const step = 720 / classes.length;
  // The root of the count: one long turn among a million must be seen.
  const bars = classes.map(([bound, count], at) => {
    const height = count ? Math.max(3, 96 * Math.sqrt(count / most)) : 0;
    const kind = bound === "infinity" || bound > 65536 ? "slow" : bound > 8192 ? "late" : "fast";
    return svg("g", {}, svg("rect", { class: kind, x: at * step + 2, y: 100 - height, width: step - 4, height, rx: 3 }),
      svg("title", {}, `up to ${micros(bound)}: ${number(count)}`),
      svg("text", { x: (at + 0.5) * step, y: 118 }, micros(bound)));
  });
  const chart = svg("svg", { viewBox: "0 0 720 124", role: "img", class: "histogram",
    "aria-label": `Turns by duration: half take up to ${micros(lag.p50_us)}, the longest took ${micros(lag.longest_us)}` },
  svg("line", { x1: 0, x2: 720, y1: 100.5, y2: 100.5 }), ...bars);
  return el("section", { class: "chart" }, el("div", { class: "heading" }, title, sums), chart);
}

function tasks(view, go, search, onSearch) {
  if (view.tasks_error) return el("section", {}, el("h2", {}, "Tasks"), staleness(view));
  const field = el("input", { type: "search", id: "search", placeholder: "Name, function, file or caller   /",
    "aria-label": "Search tasks", value: search, maxlength: 200, oninput: (event) => onSearch(event.target.value) });
  const heading = el("div", { class: "heading" }, el("h2", {}, `Tasks (${number(view.total)})`), field);
  const { rows } = view;
  const empty = search ? "No task matches." : "No task is running.";
  return el("section", { class: "tasks" }, heading, staleness(view),
    rows.length
      ? table(el("span", { class: "hidden" }, "Tasks"), ["task", "state", "age", "here for", "where", "caller"], rows.map((row) => taskRow(view.loop.id, row)))
      : el("p", { class: "muted" }, empty),
    pager(view, rows.length, go));
}

export function taskRow(loop, task) {
  const link = el("a", { href: `${address({ id: loop })}/task/${task.id}`, id: `task-${task.id}` }, task.name);
  const age = task.age_is_exact ? duration(task.age_ms) : `≥ ${duration(task.age_ms)}`;
  return {
    key: task.id,
    kind: `depth-${task.depth}`,
    cells: [el("div", { class: "name" }, link), badge(task.cancelling ? "cancelling" : task.state), age, duration(task.waits_ms),
      place(task.place), String(caller(task))],
  };
}
