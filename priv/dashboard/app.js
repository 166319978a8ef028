// What is looked at is in the address: #/, #/loop/ID, #/loop/ID/task/ID, #/calls, #/profile/ID,
// #/recorder/ID, and #/node/NAME in front of these for another node. Each view is a stream of events; a
// new one replaces what is shown and keeps the focus.
import { calls } from "./calls.js";
import { address, el, lookAt, loopName } from "./element.js";
import { record } from "./heat.js";
import { loop } from "./loop.js";
import { overview } from "./overview.js";
import { profile } from "./profile.js";
import { recorder } from "./recorder.js";
import { task } from "./task.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
const notice = document.getElementById("notice");
let source = null;
let place = {};
let typing = null;

function route() {
  const found = /^#(?:\/node\/([^/]+))?\/(calls|profile|recorder|loop)?(?:\/(\d+)(?:\/task\/(\d+))?)?$/.exec(location.hash);
  const page = found?.[2] === "loop" ? undefined : found?.[2];
  place = { page, node: found?.[1] && decodeURIComponent(found[1]), loop: found?.[3], task: found?.[4], from: 0, search: "" };
  lookAt(place.node);
  main.replaceChildren(el("p", { class: "muted" }, "Loading…"));
  document.querySelectorAll("#pages a").forEach((link) => {
    const isThis = link.id === `page-${page ?? "overview"}`;
    link.toggleAttribute("data-current", isThis);
    if (isThis) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  });
  if (page === "profile") once(); else watch();
}

// A profile stays as it is.
async function once() {
  source?.close();
  const from = location.hash;
  const query = new URLSearchParams({ page: "profile", ...(place.node && { node: place.node }) });
  const reply = await fetch(`/api/view?${query}`).catch(() => null);
  if (location.hash !== from) return;
  if (reply?.ok) show(await reply.json()); else status(false);
}

function watch() {
  source?.close();
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(place)) if (value) query.set(key, value);
  source = new EventSource(`/api/events?${query}`);
  source.onmessage = ({ data }) => show(JSON.parse(data));
  source.onerror = () => status(false);
}

function status(isLive) {
  live.textContent = isLive ? "live" : "no connection";
  live.className = isLive ? "on" : "off";
}

function show(view) {
  status(true);
  document.getElementById("node").textContent = view.node_name + (view.read_only ? " · read-only" : "");
  breadcrumb(view);
  if (view.loop) record(view.loop, view.node_name);
  if (!place.page) for (const each of view.loops ?? []) record(each, each.node);
  const open = new Set([...main.querySelectorAll("details[open]")].map((each) => each.id));
  const focused = document.activeElement?.id;
  const field = focused === "search" ? document.getElementById("search") : null;
  const content = drawn(view).filter((part) => part !== null);
  const field2 = field && content.map((part) => part.querySelector("#search")).find(Boolean);
  // Text that is being typed, with its cursor.
  if (field2) field2.value = field.value;
  const range = field && [field.selectionStart, field.selectionEnd];
  main.replaceChildren(...content);
  for (const each of main.querySelectorAll("details")) each.open = open.has(each.id);
  if (focused && focused !== "main") document.getElementById(focused)?.focus({ preventScroll: true });
  if (field2) field2.setSelectionRange(...range);
}

function drawn(view) {
  const go = (from) => { place.from = from; watch(); };
  if (view.error) return [el("h1", {}, "Gone"), el("p", {}, GONE[view.error])];
  if (place.page === "calls") return calls(view);
  if (place.page === "profile") return profile(view, place);
  if (place.page === "recorder") return recorder(view, go, place.node);
  if (place.task) return task(view, act);
  if (place.loop) return loop(view, go, place.search, search, act);
  return overview(view, go);
}

const GONE = {
  no_task: "This task has ended.",
  no_loop: "This loop has ended.",
  no_node: "This node is not connected, or does not reply.",
};

function search(text) {
  clearTimeout(typing);
  typing = setTimeout(() => { place.search = text; place.from = 0; watch(); }, 200);
}

function breadcrumb(view) {
  const parts = [el("a", { href: "#/" }, "Overview")];
  if (view.loop) parts.push(" / ", el("a", { href: address(view.loop) }, loopName(view.loop)));
  if (view.task) parts.push(" / ", el("span", { "aria-current": "page" }, view.task.name));
  document.getElementById("path").replaceChildren(...(place.loop && !place.page ? parts : []));
}

// What can be changed, each after a question. The node logs it.
const act = {
  cancel: (loopId, { id, name, request }) => ask("Cancel this task?", `${name} gets a CancelledError where it waits.`, "Keep it", "Cancel task",
    () => change("cancel", { loop: loopId, task: id, name, request: request ?? "" })),
  interrupt: (one) => ask("Interrupt this loop?", `LoopStuckError is raised in the callback that ${loopName(one)} runs now, as soon as it runs Python code. The loop goes on.`,
    "Let it run", "Interrupt", () => change("interrupt", { loop: one.id })),
  restart: (one) => ask("Restart this loop?", `The process of ${loopName(one)} ends: all its tasks are cancelled, and their callers get an error. Its supervisor, if it has one, starts another loop.`,
    "Keep it", "Restart", () => change("restart", { loop: one.id })),
};

function ask(title, text, no, yes, run) {
  const dialog = document.getElementById("confirm");
  for (const [id, content] of Object.entries({ title, text, no, yes })) document.getElementById(`confirm-${id}`).textContent = content;
  dialog.returnValue = "no";
  dialog.onclose = () => { if (dialog.returnValue === "yes") run(); };
  dialog.showModal();
}

const RESULTS = {
  cancelled: "The task was cancelled.",
  no_task: "The task had ended already.",
  timeout: "The loop does not reply: nothing was cancelled.",
  interrupted: "The callback is being interrupted.",
  idle: "The loop runs no callback: nothing was interrupted.",
  restarted: "The loop was ended; its supervisor starts another one.",
  no_loop: "The loop had ended already.",
  no_process: "Python has started this loop: it has no process that could be restarted.",
  failed: "That failed; the node has logged why.",
};

async function change(action, what) {
  const query = new URLSearchParams({ ...(place.node && { node: place.node }), ...what });
  const reply = await fetch(`/api/${action}?${query}`, { method: "POST" }).catch(() => null);
  say(reply?.ok ? RESULTS[(await reply.json()).result] : reply ? await reply.text() : "No connection.");
}

function say(text) {
  notice.textContent = text;
  notice.hidden = false;
  setTimeout(() => { notice.hidden = true; }, 5000);
}

addEventListener("hashchange", route);
addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, dialog *");
  if (event.key === "/" && !isTyping) {
    document.getElementById("search")?.focus();
    event.preventDefault();
  }
  if (event.key === "Escape" && event.target.id === "search") event.target.blur();
});
route();
