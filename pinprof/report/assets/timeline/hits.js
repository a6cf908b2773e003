// What lies under the pointer on the timeline, and what is to be said of it.

import { formatBytes, formatCount, formatNs, formatShare, formatWeight } from "../core/format.js";

const REACH_PX = 3;
const CAUSES_OF_A_STEP = 6;

/** The interval at a point of the canvas, the one that begins last within a few pixels: {row, start, length, at}; or null. */
export function hitAt(painter, x, y) {
  if (x < painter.gutter) return null;
  const row = painter.rowAt(y);
  const time = painter.time(x);
  const { bin } = painter.timeline;
  if (row?.kind === "density") return { row, start: Math.floor(time / bin) * bin, length: bin };
  if (!row?.spans) return null;
  const [from, to] = painter.shown.view;
  const reach = ((to - from) / painter.width) * REACH_PX;
  const line = Math.floor((y - row.top) / row.line);
  const { start, length, depth } = row.spans;
  let last = -1;
  for (let at = 0; at < start.length && start[at] <= time + reach; at += 1) {
    if (depth[at] === line && start[at] + length[at] >= time - reach) last = at;
  }
  return last < 0 ? null : { row, at: last, start: start[last], length: length[last] };
}

/** [title, line, …] of a hit; empty for none. */
export function wordsOf(page, timeline, hit) {
  if (!hit) return [];
  if (hit.row.density) return densityWords(page, timeline, hit);
  return [...spanWords(timeline, hit), ...holdersOf(timeline, hit)];
}

function holdersOf({ arrows }, { row, start, length }) {
  if (row.kind !== "wait") return [];
  const inside = arrows.filter(
    (arrow) => arrow.waiter === row.heading && arrow.start >= start - 1 && arrow.end <= start + length + 1,
  );
  return [...new Set(inside.map(({ holder }) => holder))].map((holder) => `for ${holder}`);
}

function densityWords(page, { bin: step, unit }, { row, start, length }) {
  const { bin, weight, cause } = row.density;
  const parts = [];
  bin.forEach((at, index) => {
    if (at * step === start) parts.push([weight[index], page.causes[cause[index]].key]);
  });
  parts.sort((one, other) => other[0] - one[0]);
  const lines = parts.slice(0, CAUSES_OF_A_STEP).map(([amount, key]) => `${key} ${formatWeight(amount, unit)}`);
  return [`${formatNs(length)} on CPU`, `at ${formatNs(start)}`, ...lines];
}

function spanWords({ styles, names }, { row, at, start, length }) {
  const { spans } = row;
  const [many, size, busy] = [spans.count[at], spans.size[at], spans.busy[at]];
  const { label } = styles[spans.style[at]];
  const name = spans.name[at] >= 0 ? names[spans.name[at]] : label;
  const since = `at ${formatNs(start)}`;
  const words = [many > 1 ? `${formatCount(many)} × ${label}` : name];
  words.push(row.kind === "mark" ? since : `${formatNs(length)}, ${since}`);
  if (row.kind === "fault") words.push(`${formatCount(size)} faults`);
  else if (size) words.push(`${formatBytes(size)}, ${(size / Math.max(busy, 1)).toFixed(1)} GB/s`);
  if (many > 1) words.push(`total ${formatNs(busy)}; zoom in to separate short items`);
  return words;
}

/** [cause, share as text] of everything sampled in a span, heaviest first. */
export function causesIn({ densities, bin: step }, [from, to]) {
  const weights = new Map();
  for (const { bin, weight, cause } of densities) {
    bin.forEach((at, index) => {
      const covered = Math.min(to, (at + 1) * step) - Math.max(from, at * step);
      if (covered <= 0) return;
      weights.set(cause[index], (weights.get(cause[index]) ?? 0) + weight[index] * (covered / step));
    });
  }
  const total = [...weights.values()].reduce((sum, weight) => sum + weight, 0);
  const heaviest = [...weights].sort((one, other) => other[1] - one[1]);
  return heaviest.map(([cause, weight]) => [cause, formatShare(weight, total)]);
}
