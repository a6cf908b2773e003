// Intervals over time as the page carries them (report/drawing.py), and an axis of time.

const TICK_FACTORS = [1, 2, 5, 10];
const TICK_UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

/** Columns with every column present and starts summed up. */
export function unpackSpans(columns) {
  let at = 0;
  const start = columns.start.map((step) => (at += step));
  const size = start.length;
  const filled = (values, value) => (values.length ? values : new Array(size).fill(value));
  return {
    ...columns,
    start,
    depth: filled(columns.depth, 0),
    size: filled(columns.size, 0),
    count: filled(columns.count, 1),
    busy: columns.busy.length ? columns.busy : columns.length,
  };
}

/** Round instants between two, with their labels: at most one per `room` pixels. */
export function timeTicks(from, to, width, room = 90) {
  const least = ((to - from) * room) / Math.max(width, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = Math.max(power * TICK_FACTORS.find((factor) => factor * power >= least), 1);
  // The largest unit of the axis, unless that needs more than three digits behind the point.
  const [unit, factor] = TICK_UNITS.find(([, value]) => to >= value && step * 1000 >= value) ?? TICK_UNITS.at(-1);
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    ticks.push([at, `${at ? `${Number((at / factor).toFixed(3)).toLocaleString("en-US")} ${unit}` : "0"}`]);
  }
  return ticks;
}
