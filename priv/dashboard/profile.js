// Profiles: press, some seconds, a flame graph. It is not live: what was taken stays until the next one.
import { duration, el, fact, loopName, number, table } from "./element.js";
import { flame, hottest, tree } from "./flame.js";

const ERRORS = {
  busy: "Another profile is being taken. Try again when it has ended.",
  no_loop: "This loop has ended.",
  no_node: "This node is not connected.",
  not_started: "Python has not started.",
  unsupported: "Stacks cannot be read in this process: process_vm_readv is not permitted here, or this Python keeps its frames elsewhere.",
  timeout: "The profile did not arrive in time.",
  failed: "That failed; the node has logged why.",
};

let last = null;

export function profile(view, { loop: chosen, node: elsewhere }) {
  const threads = el("select", { id: "threads" },
    el("option", { value: "" }, "all loops and call threads"),
    view.loops.map((loop) => el("option", { value: loop.id, selected: String(loop.id) === chosen }, `${loopName(loop)} (loop ${loop.id})`)));
  const seconds = el("select", { id: "seconds" }, [1, 3, 5, 10, 30, 60].map((count) => el("option", { value: count, selected: count === 3 }, `${count} s`)));
  const start = el("button", { id: "start", class: "primary" }, "Take a profile");
  const progress = el("progress", { max: 1, value: 0, hidden: true, "aria-label": "progress of the profile" });
  const result = el("div", { id: "result", "aria-live": "polite" });
  const names = new Map(view.loops.map((loop) => [loop.id, `${loopName(loop)} (loop ${loop.id})`]));
  const nameOf = (id) => (id === null ? "call threads" : names.get(id) ?? `loop ${id}`);
  start.addEventListener("click", async () => {
    start.disabled = true;
    progress.hidden = false;
    const began = performance.now();
    const timer = setInterval(() => { progress.value = Math.min(1, (performance.now() - began) / (1000 * seconds.value)); }, 100);
    last = await taken(threads.value, seconds.value, elsewhere);
    clearInterval(timer);
    progress.hidden = true;
    start.disabled = false;
    result.replaceChildren(...shown(last, nameOf));
  });
  if (last) result.replaceChildren(...shown(last, nameOf));
  return [
    el("h1", {}, "Profile"),
    el("section", { class: "form" },
      el("label", {}, "Threads ", threads), el("label", {}, "for ", seconds), start, progress,
      el("p", { class: "muted" }, "Stacks are read a hundred times a second, without the GIL and without stopping a thread. Waiting for the GIL is in it, a loop at rest is not.")),
    result,
  ];
}

async function taken(loop, seconds, elsewhere) {
  const query = new URLSearchParams({ seconds });
  if (loop) query.set("loop", loop);
  if (elsewhere) query.set("node", elsewhere);
  const reply = await fetch(`/api/profile?${query}`, { method: "POST" }).catch(() => null);
  if (!reply) return { error: "timeout" };
  return reply.ok ? reply.json() : { error: "failed" };
}

function shown(profile, nameOf) {
  if (profile.error) return [el("p", { class: "warning" }, ERRORS[profile.error] ?? profile.error)];
  const root = tree(profile.stacks, nameOf);
  const facts = el("dl", { class: "facts" },
    fact("lasted", duration(Math.round(profile.duration_us / 1000))),
    fact("samples", number(root.samples + profile.left_out)),
    fact("loops at rest", number(profile.idle)),
    fact("missed", number(profile.missed)));
  if (!root.samples) return [facts, el("section", { class: "empty" }, el("p", {}, "No thread ran Python."))];
  const share = (samples) => `${(100 * samples / root.samples).toFixed(1)} %`;
  const functions = hottest(root, 15).map((one) => ({
    key: `${one.name} ${one.file}`,
    kind: "",
    cells: [el("code", {}, one.name), share(one.own), share(one.total), el("code", { class: "muted", title: one.file }, one.file.split("/").slice(-2).join("/"))],
  }));
  return [
    facts,
    el("section", { class: "chart" }, el("div", { class: "heading" }, el("h2", {}, "Flame graph"), files(profile.files)), flame(root)),
    el("section", {}, table("Hottest functions", ["function", "itself", "with its calls", "file"], functions)),
  ];
}

const FILES = { speedscope: "profile.speedscope.json", firefox: "profile.firefox.json", collapsed: "profile.collapsed.txt" };

function files(texts) {
  return el("p", { class: "files" }, "Save for ", Object.entries(FILES).map(([format, name], at) => [at ? " · " : "",
    el("a", { href: URL.createObjectURL(new Blob([texts[format]])), download: name, id: `save-${format}` }, format)]).flat());
}
