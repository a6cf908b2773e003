// Quantities as text, the same rules as pinprof/base/units.py (tests/browser compares the two).

const NS_UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
];
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const COUNT = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function formatNs(value) {
  for (const [unit, factor] of NS_UNITS) {
    if (Math.abs(value) >= factor) return `${digits(value / factor, 3)} ${unit}`;
  }
  return `${value.toFixed(0)} ns`;
}

export function formatBytes(value) {
  let amount = value;
  let step = 0;
  while (Math.abs(amount) >= 1024 && step < BYTE_UNITS.length - 1) {
    amount /= 1024;
    step += 1;
  }
  return `${digits(amount, 4)} ${BYTE_UNITS[step]}`;
}

export function formatWeight(value, unit) {
  if (unit === "ns") return formatNs(value);
  if (unit === "bytes") return formatBytes(value);
  return `${COUNT.format(value)} ${unit}`;
}

export function formatCount(value) {
  return COUNT.format(value);
}

export function formatShare(part, whole) {
  if (!whole) return "–";
  const percent = (100 * part) / whole;
  if (part && Math.abs(percent) < 0.05) return "<0.1 %";
  return Math.abs(percent) >= 9.95 ? `${percent.toFixed(0)} %` : `${percent.toFixed(1)} %`;
}

/** Bandwidth in decimal gigabytes per second. */
export function formatRate(bytes, ns) {
  if (ns <= 0) return "–";
  const rate = bytes / ns;
  return `${Math.abs(rate) >= 100 ? COUNT.format(rate) : Number(rate.toPrecision(3))} GB/s`;
}

function digits(value, significant) {
  if (Math.abs(value) >= 10 ** (significant - 1)) return COUNT.format(value);
  return String(Number(value.toPrecision(significant)));
}
