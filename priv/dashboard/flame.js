// A flame graph: what calls what from top to bottom, as wide as its share of the samples. A frame is a
// button: it becomes the whole width, and the frames above it lead back.
import { el, number, svg } from "./element.js";

const WIDTH = 1200;
const ROW = 21;
const CHARACTER = 6.9;
const NARROWEST = 1;

export function tree(stacks, nameOf) {
  const root = node("all", "", 0);
  for (const { loop, task, frames, samples } of stacks) {
    const path = [node(nameOf(loop), "", 0)];
    if (task !== null) path.push(node(task, "", 1));
    for (const { function: name, file, line } of frames) path.push(node(name, `${file}:${line}`, 2));
    let at = root;
    at.samples += samples;
    for (const each of path) {
      const key = `${each.kind} ${each.name} ${each.place}`;
      if (!at.below.has(key)) at.below.set(key, Object.assign(each, { above: at }));
      at = at.below.get(key);
      at.samples += samples;
    }
    at.own += samples;
  }
  return root;
}

const node = (name, place, kind) => ({ name, place, kind, samples: 0, own: 0, below: new Map(), above: null });

// The functions with the most samples of their own.
export function hottest(root, count) {
  const found = new Map();
  const visit = (at, seen) => {
    const file = at.place.replace(/:\d+$/, "");
    const key = `${at.name} ${file}`;
    const isFrame = at.kind === 2;
    if (isFrame) {
      const known = found.get(key) ?? { name: at.name, file, own: 0, total: 0 };
      known.own += at.own;
      // Of recursion only the outermost counts.
      if (!seen.has(key)) known.total += at.samples;
      found.set(key, known);
    }
    const within = isFrame ? new Set(seen).add(key) : seen;
    for (const each of at.below.values()) visit(each, within);
  };
  visit(root, new Set());
  return [...found.values()].sort((one, other) => other.own - one.own || other.total - one.total).slice(0, count);
}

export function flame(root) {
  const said = el("output", { class: "said" });
  const place = el("div", { class: "flame", id: "flame" });
  const zoom = (to, focus) => {
    place.replaceChildren(drawn(root, to, zoom, (at) => { said.value = at ? sentence(at, root) : hint; }));
    said.value = to === root ? hint : sentence(to, root);
    if (focus) place.querySelector(`[data-depth="${depth(to)}"]`)?.focus({ preventScroll: true });
  };
  zoom(root, false);
  return el("div", {}, place, said);
}

const hint = "Choose a frame to make it the whole width. Arrow keys move between frames.";

const share = (at, root) => `${(100 * at.samples / root.samples).toFixed(1)} %`;

function sentence(at, root) {
  const own = at.own ? `, ${number(at.own)} in itself` : "";
  return `${at.name}${at.place ? ` (${at.place})` : ""}: ${share(at, root)}, ${number(at.samples)} samples${own}`;
}

function depth(at) {
  return at.above ? depth(at.above) + 1 : 0;
}

function drawn(root, to, zoom, say) {
  const groups = [];
  let deepest = 0;
  const box = (at, x, width, row) => {
    deepest = Math.max(deepest, row);
    const text = Math.floor((width - 8) / CHARACTER);
    const name = at.name.length > text ? `${at.name.slice(0, Math.max(0, text - 1))}…` : at.name;
    const kind = at.kind === 2 ? `frame hue-${hue(at.place.replace(/:\d+$/, ""))}` : at.kind ? "task" : "thread";
    const group = svg("g", { class: kind, tabindex: groups.length ? -1 : 0, role: "button", "data-depth": row, "aria-label": sentence(at, root) },
      svg("rect", { x, y: row * ROW, width: Math.max(0.5, width - 1), height: ROW - 1, rx: 2 }),
      svg("title", {}, sentence(at, root)),
      ...(text > 2 ? [svg("text", { x: x + 5, y: row * ROW + 14.5 }, name)] : []));
    group.addEventListener("click", () => zoom(at, true));
    group.addEventListener("focus", () => say(at));
    group.addEventListener("mouseenter", () => say(at));
    groups.push(group);
  };
  // What leads to it, and then what is below it. Not by recursion: stacks may be deep.
  for (let at = to.above, row = depth(to) - 1; at; at = at.above, row -= 1) box(at, 0, WIDTH, row);
  groups.reverse();
  const left = [[to, 0, WIDTH, depth(to)]];
  while (left.length) {
    const [at, x, width, row] = left.pop();
    box(at, x, width, row);
    let from = x;
    const below = [...at.below.values()].sort((one, other) => other.samples - one.samples);
    for (const each of below) {
      const part = width * each.samples / at.samples;
      if (part >= NARROWEST) left.push([each, from, part, row + 1]);
      from += part;
    }
  }
  const height = (deepest + 1) * ROW;
  const graph = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, role: "group", "aria-label": "Flame graph" }, ...groups);
  graph.addEventListener("keydown", (event) => keys(event, to, zoom));
  graph.addEventListener("mouseleave", () => say(null));
  return graph;
}

// Down and up: frames in their order. Enter: its width. Escape: back.
function keys(event, to, zoom) {
  const group = event.target.closest("g");
  const move = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (move) {
    const all = [...group.parentNode.querySelectorAll("g")];
    all[all.indexOf(group) + move]?.focus();
  } else if (event.key === "Enter" || event.key === " ") {
    group.dispatchEvent(new MouseEvent("click"));
  } else if (event.key === "Escape" && to.above) {
    zoom(to.above, true);
  } else {
    return;
  }
  event.preventDefault();
}

function hue(file) {
  let sum = 0;
  for (const character of file) sum = (sum * 31 + character.codePointAt(0)) % 9973;
  return sum % 8;
}
