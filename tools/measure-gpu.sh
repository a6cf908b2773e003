#!/usr/bin/env bash
# usage: measure-gpu.sh OUT   (on a machine with an NVIDIA GPU, perf, and `pip install 'pinprof[cuda]'`)
# Records every scenario on the cuda backend, as committed under tests/data/h200 and reports/h200.
# With nsys ($NSYS, $NSYS_IMPORTER and, for libraries that these two alone need, $NSYS_LIBRARY_PATH) uvm and pinned are
# recorded with it as well, alone and beside perf, small: every migration is a row.
# Captures come back small: kallsyms is left out, since symbols.json.gz holds every address that was seen.
set -euo pipefail
out=$1
size=${SIZE:-256MiB}
iterations=${ITERATIONS:-10}
work=$(mktemp -d)
mkdir -p "$out"
cd "$work"
pinprof=(python3 -m pinprof)

"${pinprof[@]}" doctor || true
for scenario in pageable pinned zerocopy uvm; do
  echo "== $scenario"
  "${pinprof[@]}" run "$scenario" --size "$size" --iterations "$iterations" --backend cuda --record -o "$scenario.pinprof"
  rm -f "$scenario.pinprof/kallsyms.gz"
  tar cf - "$scenario.pinprof" | xz -9e -T0 >"$out/$scenario.pinprof.tar.xz"
done
if [ -n "${NSYS:-}" ] || command -v nsys >/dev/null; then
  for scenario in uvm pinned; do
    for tools in nsys perf,nsys; do
      name=$scenario.${tools/,/-}
      echo "== $scenario, $tools"
      "${pinprof[@]}" run "$scenario" --size "${NSYS_SIZE:-64MiB}" --iterations "${NSYS_ITERATIONS:-3}" --backend cuda \
        --record "$tools" -o "$name.pinprof" || echo "$name: status $?" >&2
      for capture in "$name.pinprof" "$name.pinprof.partial"; do
        [ -d "$capture" ] || continue
        rm -f "$capture/kallsyms.gz"
        tar cf - "$capture" | xz -9e -T0 >"$out/$capture.tar.xz"
      done
    done
  done
fi
ls -l "$out"
