// One task: where it waits, who awaits it, for whom it works; it can be cancelled.
import { badge, caller, duration, el, fact, staleness, table } from "./element.js";
import { stack, taskRow } from "./loop.js";

export function task(view, act) {
  const { task } = view;
  if (!task) return [el("h1", {}, "Task"), staleness(view)];
  const button = view.read_only ? null
    : el("button", { id: "cancel", class: "danger", onclick: () => act.cancel(view.loop.id, task) }, "Cancel task…");
  return [
    el("div", { class: "heading" }, el("h1", {}, task.name, " ", badge(task.cancelling ? "cancelling" : task.state)), button),
    staleness(view),
    el("dl", { class: "facts" },
      fact("age", (task.age_is_exact ? "" : "≥ ") + duration(task.age_ms)),
      fact("here for", duration(task.waits_ms)),
      fact("coroutine", task.coroutine),
      fact("caller", caller(task)),
      fact("request", task.request ?? "–")),
    el("section", {}, el("h2", {}, "Stack, the innermost frame first"), stack([...task.stack].reverse())),
    tasks("Awaited by", view.loop.id, task.awaited_by, "No task awaits it."),
    tasks("Awaits", view.loop.id, task.awaits, "It awaits no task."),
  ];
}

function tasks(title, loop, rows, empty) {
  if (!rows.length) return el("section", { class: "empty" }, el("h2", {}, title), el("p", {}, empty));
  return el("section", {}, table(title, ["task", "state", "age", "here for", "where", "caller"], rows.map((row) => taskRow(loop, row))));
}
