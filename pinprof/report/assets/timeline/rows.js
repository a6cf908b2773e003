// Where the timeline's rows lie, from top to bottom: under each heading what its thread did, or its GPU.

import { DensityLevels, SpanLevels } from "./levels.js";
import { unpackSpans } from "./spans.js";

export const TIME_AXIS_PX = 26;
const LANE_PX = {
  phase: 18,
  range: 20,
  mark: 14,
  wait: 14,
  call: 20,
  kernel: 18,
  copy: 18,
  memset: 14,
  migration: 18,
  fault: 14,
};
const LANE_GAP_PX = 5;
const HEADING_PX = 30;
const DENSITY_PX = 40;
const MEMORY_PX = 40;
export const GPU_KINDS = ["kernel", "copy", "memset", "migration", "fault", "window"];

/** Every row's kind, title, what it shows, and its `top` and `height` in pixels; and the height of all. */
export function layOutRows(timeline) {
  const rows = [];
  let top = TIME_AXIS_PX;
  const add = (row, height) => {
    rows.push({ ...row, top, height });
    top += height + LANE_GAP_PX;
  };
  const addHeading = (title) => add({ kind: "heading", title }, HEADING_PX - LANE_GAP_PX);
  const addLane = (lane) => {
    const spans = unpackSpans(lane);
    const depth = spans.depth.reduce((most, value) => Math.max(most, value), 0);
    const line = LANE_PX[lane.kind];
    const levels = new SpanLevels(spans, timeline.span);
    add({ kind: lane.kind, title: lane.title, heading: lane.heading, levels, line }, line * (depth + 1));
  };
  timeline.lanes.filter((lane) => lane.kind === "phase").forEach(addLane);
  for (const heading of headingsOf(timeline)) {
    const lanes = timeline.lanes.filter((lane) => lane.heading === heading);
    addHeading(heading);
    lanes.filter((lane) => lane.kind === "range").forEach(addLane);
    for (const density of timeline.densities.filter((one) => one.heading === heading)) {
      const levels = new DensityLevels(density, timeline.bin);
      add({ kind: "density", title: density.title, levels, full: fullHeight(timeline.unit, density) }, DENSITY_PX);
    }
    lanes.filter((lane) => lane.kind !== "range").forEach(addLane);
  }
  if (timeline.memory.length) addHeading("Memory");
  for (const use of timeline.memory) add({ kind: "memory", title: use.title, use }, MEMORY_PX);
  return { rows, height: top };
}

/** Heading → where arrows of its thread begin, the row of its waits, and end, the row of what it does. */
export function arrowEnds(rows) {
  const ends = new Map();
  let here = {};
  for (const row of rows) {
    if (row.kind === "heading") {
      here = {};
      ends.set(row.title, here);
    } else if (row.kind === "wait") here.wait ??= row;
    else if (row.kind === "density") here.work = row;
    if (row.kind !== "heading") here.work ??= row;
  }
  return ends;
}

// Threads with ranges come first, GPUs last.
function headingsOf({ densities, lanes }) {
  const has = (heading, kinds) => lanes.some((lane) => lane.heading === heading && kinds.includes(lane.kind));
  const headings = [...new Set([...densities, ...lanes.filter(isHeaded)].map((part) => part.heading))];
  return headings.sort(
    (one, other) => has(one, GPU_KINDS) - has(other, GPU_KINDS) || has(other, ["range"]) - has(one, ["range"]),
  );
}

// Phases are the whole run's.
function isHeaded({ kind }) {
  return kind !== "phase";
}

// What fills a density's height at a level: all of one processor, or the heaviest step of a pool and of what is no time.
function fullHeight(unit, { threads }) {
  if (unit === "ns" && threads === 1) return ({ step }) => step;
  return (level) => {
    level.most ??= heaviestStep(level);
    return level.most;
  };
}

function heaviestStep({ bin, weight }) {
  let most = 1;
  for (let at = 0, sum = 0; at < bin.length; at += 1) {
    sum = bin[at] === bin[at - 1] ? sum + weight[at] : weight[at];
    most = Math.max(most, sum);
  }
  return most;
}
