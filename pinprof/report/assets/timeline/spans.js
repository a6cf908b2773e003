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

/** Make a canvas as wide as its box and as high as asked, in device pixels; its context, and the width. */
export function fitCanvas(canvas, height) {
  const width = canvas.parentElement.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.style.width = `${width}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = "middle";
  return [context, width];
}

/** The text cut to a width, or nothing where not even a few letters fit. */
export function fitText(context, text, width) {
  if (width < 18) return "";
  if (context.measureText(text).width <= width) return text;
  const letters = Math.floor((width / context.measureText(text).width) * text.length) - 2;
  return letters < 3 ? "" : `${text.slice(0, letters)}…`;
}
