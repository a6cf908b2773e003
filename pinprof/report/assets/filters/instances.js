// Single ranges, calls, copies and migrations (report/instances.py): which of them pass the filters, and sums over them.

import { gunzip, summed, unpackColumns } from "../core/columns.js";
import { embedded } from "../core/dom.js";

const KINDS = ["range", "call", "copy", "move"];

export class Instances {
  static async load({ layout, samplesStart, scoped }) {
    return new Instances(unpackColumns(await gunzip(embedded("instances")), layout), samplesStart, scoped);
  }

  constructor(columns, samplesStart, scoped) {
    Object.assign(this, { samplesStart, scoped });
    for (const kind of KINDS) {
      const names = ["group", "length_ns", "before_ns", "thread", "pid", "size_bytes", "count", "busy_ns", "extra"];
      this[kind] = Object.fromEntries(names.map((name) => [name.replace(/_.*/, ""), columns[`${kind}_${name}`]]));
      this[kind].start = summed(columns[`${kind}_start_ns`], Float64Array);
    }
    this.time = { call: columns.time_call, leaf: columns.time_leaf, ns: columns.time_ns };
    this.scope = {
      range: columns.scope,
      start: columns.scope_start_ns,
      length: columns.scope_length_ns,
      pid: columns.scope_pid,
    };
  }

  /** The brushed span in ns since the timeline's start, or nothing. */
  spanOf(state) {
    return state.span?.map((end) => end * 1000 + this.samplesStart);
  }

  /** Row numbers of a kind that begin in the span, happen in the chosen range and belong to the chosen threads. */
  rows(kind, state, { threads = true } = {}) {
    const { start, before, thread, pid } = this[kind];
    const span = this.spanOf(state);
    const scopes = state.range >= 0 && this.scoped ? this.#scopesOf(state.range) : null;
    const wanted = threads && state.threads.length ? new Set(state.threads) : null;
    const passing = [];
    for (let row = 0; row < start.length; row += 1) {
      if (span && (start[row] < span[0] || start[row] >= span[1])) continue;
      if (wanted && !wanted.has(thread[row])) continue;
      if (scopes && !inside(scopes, start[row] - before[row], pid[row])) continue;
      passing.push(row);
    }
    return passing;
  }

  /** Whether an instant, in ns since the timeline's start, passes the filters of time and range, of any process. */
  test(state) {
    const span = this.spanOf(state);
    const scopes =
      state.range >= 0 && this.scoped ? this.#scopesOf(state.range).map(([start, end]) => [start, end, -1]) : null;
    return (time) => (!span || (time >= span[0] && time < span[1])) && (!scopes || inside(scopes, time, -1));
  }

  // [start, end, process] of a range's merged intervals, in order of start; they overlap only between processes.
  #scopesOf(range) {
    const { range: ranges, start, length, pid } = this.scope;
    const scopes = [];
    for (let at = 0; at < ranges.length; at += 1)
      if (ranges[at] === range) scopes.push([start[at], start[at] + length[at], pid[at]]);
    return scopes.sort((one, other) => one[0] - other[0]);
  }

  /** [start, end] of a range's calls, in order of time. */
  intervalsOf(range) {
    const { group, start, length } = this.range;
    const intervals = [];
    for (let row = 0; row < group.length; row += 1)
      if (group[row] === range) intervals.push([start[row], start[row] + length[row]]);
    return intervals;
  }

  /** Per group of a kind: rows, events, bytes, own time, `extra`, and the lengths of single events in order of time. */
  sums(kind, rows) {
    const { group, size, count, busy, extra } = this[kind];
    const sums = new Map();
    for (const row of rows) {
      const sum = sums.get(group[row]) ?? { rows: [], count: 0, size: 0, busy: 0, extra: 0 };
      sums.set(group[row], sum);
      sum.rows.push(row);
      sum.count += count[row];
      sum.size += size[row];
      sum.busy += busy[row];
      sum.extra += extra[row];
    }
    return sums;
  }

  /** Least, median (the lower of two) and most of a column over rows; a row of several events counts with their mean. */
  spread(kind, rows, column) {
    const { count } = this[kind];
    return spreadOfMany(rows.map((row) => [this[kind][column][row] / count[row], count[row]]));
  }

  /** Sampled time inside calls by cause, for rows of calls: row → [[cause, ns], …]. */
  timesOf(rows) {
    const wanted = new Set(rows);
    const sums = new Map();
    const { call, leaf, ns } = this.time;
    for (let at = 0; at < call.length; at += 1) {
      if (wanted.has(call[at])) sums.set(leaf[at], (sums.get(leaf[at]) ?? 0) + ns[at]);
    }
    return [...sums].sort((one, other) => other[1] - one[1]);
  }
}

/** Least, median (the lower of two) and most of [value, how often] pairs. */
export function spreadOfMany(pairs) {
  const values = [...pairs].sort((one, other) => one[0] - other[0]);
  let left = (values.reduce((sum, [, many]) => sum + many, 0) - 1) / 2;
  for (const [value, many] of values) {
    left -= many;
    if (left < 0) return [values[0][0], value, values.at(-1)[0]];
  }
  return [0, 0, 0];
}

function inside(scopes, time, pid) {
  for (const [start, end, owner] of scopes) {
    if (start > time) return false;
    if (time < end && (owner < 0 || owner === pid)) return true;
  }
  return false;
}
