// What is looked at is in the address: #/, #/loop/ID, #/loop/ID/task/ID, and #/node/NAME in front of
// these for another node. Each view is a stream of
// events; a new one replaces what is shown and keeps the focus.
import { address, el, lookAt, loopName } from "./element.js";
import { loop } from "./loop.js";
import { overview } from "./overview.js";
import { task } from "./task.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
const notice = document.getElementById("notice");
let source = null;
let place = {};
let typing = null;

function route() {
  const found = /^#(?:\/node\/([^/]+))?\/loop\/(\d+)(?:\/task\/(\d+))?$/.exec(location.hash);
  place = { node: found?.[1] && decodeURIComponent(found[1]), loop: found?.[2], task: found?.[3], from: 0, search: "" };
  lookAt(place.node);
  main.replaceChildren(el("p", { class: "muted" }, "Loading…"));
  watch();
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
  const focused = document.activeElement?.id;
  const field = focused === "search" ? document.getElementById("search") : null;
  const content = drawn(view).filter((part) => part !== null);
  const field2 = field && content.map((part) => part.querySelector("#search")).find(Boolean);
  // Text that is being typed, with its cursor.
  if (field2) field2.value = field.value;
  const range = field && [field.selectionStart, field.selectionEnd];
  main.replaceChildren(...content);
  if (focused && focused !== "main") document.getElementById(focused)?.focus({ preventScroll: true });
  if (field2) field2.setSelectionRange(...range);
}

function drawn(view) {
  const go = (from) => { place.from = from; watch(); };
  if (view.error) return [el("h1", {}, "Gone"), el("p", {}, GONE[view.error])];
  if (place.task) return task(view, confirmCancel);
  if (place.loop) return loop(view, go, place.search, search);
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
  document.getElementById("path").replaceChildren(...(place.loop ? parts : []));
}

function confirmCancel(loopId, { id, name, request }) {
  const dialog = document.getElementById("confirm");
  document.getElementById("confirm-text").textContent = `${name} gets a CancelledError where it waits.`;
  dialog.returnValue = "no";
  dialog.onclose = () => { if (dialog.returnValue === "yes") cancel({ ...(place.node && { node: place.node }), loop: loopId, task: id, name, request: request ?? "" }); };
  dialog.showModal();
}

const RESULTS = {
  cancelled: "The task was cancelled.",
  no_task: "The task had ended already.",
  timeout: "The loop does not reply: nothing was cancelled.",
  failed: "That failed; the node has logged why.",
};

async function cancel(task) {
  const reply = await fetch(`/api/cancel?${new URLSearchParams(task)}`, { method: "POST" }).catch(() => null);
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
