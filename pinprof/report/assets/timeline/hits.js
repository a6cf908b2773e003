// What lies under the pointer on the timeline, and what is to be said of it.

import { firstAt } from "../core/columns.js";
import { formatBytes, formatCount, formatNs, formatShare, formatWeight } from "../core/format.js";
import { rowsIn } from "./levels.js";

const REACH_PX = 3;
const CAUSES_OF_A_STEP = 6;

/** The interval at a point of the canvas, the one that begins last within a few pixels: {row, level, start, length, at}; or null. */
export function hitAt(painter, x, y) {
  if (x < painter.gutter) return null;
  const row = painter.rowAt(y);
  const time = painter.time(x);
  if (!row?.levels) return null;
  const level = painter.levelOf(row);
  const { step } = level;
  if (row.kind === "density") return { row, level, start: Math.floor(time / step) * step, length: step };
  const [from, to] = painter.shown.view;
  const reach = ((to - from) / painter.width) * REACH_PX;
  const line = Math.floor((y - row.top) / row.line);
  const { start, length, depth } = level;
  const [first, end] = rowsIn(level, [time - reach, time + reach]);
  for (let at = end - 1; at >= first; at -= 1) {
    if (depth[at] === line && start[at] + length[at] >= time - reach) {
      return { row, level, at, start: start[at], length: length[at] };
    }
  }
  return null;
}

/** [title, line, …] of a hit; empty for none. */
export function wordsOf(page, timeline, hit) {
  if (!hit) return [];
  if (hit.row.kind === "density") return densityWords(page, timeline, hit);
  return [...spanWords(timeline, hit), ...holdersOf(timeline, hit)];
}

function holdersOf({ arrows }, { row, start, length }) {
  if (row.kind !== "wait") return [];
  const inside = arrows.filter(
    (arrow) => arrow.waiter === row.heading && arrow.start >= start - 1 && arrow.end <= start + length + 1,
  );
  return [...new Set(inside.map(({ holder }) => holder))].map((holder) => `for ${holder}`);
}

function densityWords(page, { unit }, { level, start, length }) {
  const { step, bin, weight, cause } = level;
  const parts = [];
  for (let at = firstAt(bin, Math.round(start / step)); bin[at] * step === start; at += 1) {
    parts.push([weight[at], page.causes[cause[at]].key]);
  }
  parts.sort((one, other) => other[0] - one[0]);
  const lines = parts.slice(0, CAUSES_OF_A_STEP).map(([amount, key]) => `${key} ${formatWeight(amount, unit)}`);
  return [`${formatNs(length)} on CPU`, `at ${formatNs(start)}`, ...lines];
}

function spanWords({ styles, names }, { row, level: spans, at, start, length }) {
  const [many, size, busy] = [spans.count[at], spans.size[at], spans.busy[at]];
  const { label } = styles[spans.style[at]];
  const name = spans.name[at] >= 0 ? names[spans.name[at]] : label;
  const since = `at ${formatNs(start)}`;
  const words = [many > 1 ? `${formatCount(many)} × ${label}` : name];
  words.push(row.kind === "mark" ? since : `${formatNs(length)}, ${since}`);
  if (row.kind === "fault") words.push(`${formatCount(size)} faults`);
  else if (size) words.push(`${formatBytes(size)}, ${(size / Math.max(busy, 1)).toFixed(1)} GB/s`);
  if (many > 1) words.push(`total ${formatNs(busy)}`);
  return words;
}

/** Causes of the densities that take 1 % of the samples or more, heaviest first. */
export function heaviestCauses(densities) {
  const weights = new Map();
  let total = 0;
  for (const { weight, cause } of densities) {
    for (let index = 0; index < cause.length; index++) {
      weights.set(cause[index], (weights.get(cause[index]) ?? 0) + weight[index]);
      total += weight[index];
    }
  }
  return [...weights.keys()]
    .filter((cause) => weights.get(cause) >= 0.01 * total)
    .sort((one, other) => weights.get(other) - weights.get(one));
}

/** [cause, share as text] of everything sampled in a span, heaviest first; `densities` are levels. */
export function causesIn(densities, [from, to]) {
  const weights = new Map();
  for (const { step, bin, weight, cause } of densities) {
    for (let at = firstAt(bin, Math.floor(from / step)); at < bin.length && bin[at] * step < to; at += 1) {
      const covered = Math.min(to, (bin[at] + 1) * step) - Math.max(from, bin[at] * step);
      weights.set(cause[at], (weights.get(cause[at]) ?? 0) + weight[at] * (covered / step));
    }
  }
  const total = [...weights.values()].reduce((sum, weight) => sum + weight, 0);
  const heaviest = [...weights].sort((one, other) => other[1] - one[1]);
  return heaviest.map(([cause, weight]) => [cause, formatShare(weight, total)]);
}
