// Weights of the chosen samples by cause, over everything that is shown and inside each range: what the bars and tables
// show of a filtered part. Runs in a worker; touches no document.

/**
 * `query` names an event and the filters. `causes`: weight by cause of all samples that pass every other filter;
 * `ranges`: the same for each range, whichever is chosen, range after range.
 */
export function survey(model, query) {
  const causes = new Float64Array(model.causes);
  const ranges = new Float64Array(model.causes * query.ranges);
  const passes = passing(model, query);
  const { inside, amounts } = model.within(query.span);
  const { bundles, bundleOf, across } = model;
  const { path, first, last } = model.range;
  const weight = inside ?? model.weight;
  for (let run = 0; run < path.length; run += 1) {
    const base = path[run] * model.causes;
    for (let sample = first[run]; sample < last[run]; sample += 1) {
      const bundle = bundleOf[sample];
      if (passes[bundle] && !across.member[sample]) ranges[base + bundles.causes[bundle]] += weight[sample];
    }
  }
  const waits = across.sample.some((sample) => passes[bundleOf[sample]]);
  for (let range = 0; waits && range < query.ranges; range += 1) {
    across.overlaps(query.span, range, (sample, part) => {
      const bundle = bundleOf[sample];
      if (passes[bundle]) ranges[range * model.causes + bundles.causes[bundle]] += part;
    });
  }
  let whole = 0;
  for (let bundle = 0; bundle < bundles.length; bundle += 1) {
    if (bundles.event[bundle] !== query.event) continue;
    whole += bundles.weight[bundle];
    if (passes[bundle] && query.range < 0) causes[bundles.causes[bundle]] += amounts[bundle];
  }
  if (query.range >= 0) causes.set(ranges.subarray(query.range * model.causes, (query.range + 1) * model.causes));
  return { causes, ranges, whole };
}

// Per bundle 1 where it passes the filters of event, module, mode, thread and opportunity.
function passing(model, { event, dsos, modes, threads, opportunity }) {
  const { bundles } = model;
  const member = model.nodesOf(opportunity);
  const passes = new Uint8Array(bundles.length);
  const wanted = [
    [dsos, bundles.dsos],
    [modes, bundles.modes],
    [threads, bundles.threads],
  ]
    .filter(([list]) => list.length)
    .map(([list, column]) => [new Set(list), column]);
  for (let bundle = 0; bundle < bundles.length; bundle += 1) {
    if (bundles.event[bundle] !== event || (member && !member[bundles.node[bundle]])) continue;
    if (wanted.every(([values, column]) => values.has(column[bundle]))) passes[bundle] = 1;
  }
  return passes;
}
