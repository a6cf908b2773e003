#!/usr/bin/env bash
# usage: measure-gpu.sh OUT   (on a machine with an NVIDIA GPU and `pip install 'pinprof[cuda,torch]'`; at most 10 minutes)
# Measures the machine's rates, records every scenario in every variant on the cuda backend, and writes to OUT what
# tests/data/h200 and reports/h200 are made of: rates.json, NAME[-VARIANT].pinprof.tar.xz, scenarios.md, scenarios.json.
#
# perf records where it is installed, else the native collector ($RECORDER chooses). With nsys ($NSYS, $NSYS_IMPORTER
# and, for libraries that these two alone need, $NSYS_LIBRARY_PATH) the scenarios of unified memory are recorded with it
# as well, small: every migration is a row. A capture larger than $LIMIT is recorded again, with less in it.
# kallsyms is left out: symbols.json.gz holds every address that was seen. Guarded variants need GUARDED=1.
# Other settings: SIZE, ITERATIONS, BACKEND, PYTHON, BENCH_TIME (0 leaves the rates out), SECONDS_ALLOWED, ONLY (an
# extended regular expression on NAME-VARIANT).
set -uo pipefail
[ $# -eq 1 ] || { sed -n '2,3p' "$0" >&2; exit 2; }
mkdir -p "$1" && out=$(cd "$1" && pwd)
tools=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
backend=${BACKEND:-cuda}
limit=${LIMIT:-153600}
allowed=${SECONDS_ALLOWED:-570}
recorder=${RECORDER:-$(command -v perf >/dev/null && echo perf || echo native)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0 left=0

# size iterations frequency: from what is wanted to what is small for sure
attempts="${SIZE:-256MiB} ${ITERATIONS:-5} 999
${SIZE:-256MiB} 3 499
64MiB 2 249"
traced_attempts="32MiB 2 999
16MiB 1 999
8MiB 1 999
4MiB 1 999"

# record LABEL COLLECTOR ATTEMPTS NAME [OPTION …]: one capture, packed into OUT
record() {
  local label=$1 collector=$2 tries=$3 name=$4 packed=$out/$1.pinprof.tar.xz begin=$SECONDS size iterations frequency status
  shift 4
  [[ $label =~ ${ONLY:-.} ]] || return 0
  if [ "$SECONDS" -gt "$allowed" ]; then
    echo "LEFT OUT $label: $allowed s are over"
    left=$((left + 1))
    return 0
  fi
  while read -r size iterations frequency; do
    rm -rf "$label.pinprof" "$label.pinprof.partial"
    timeout 90 "$python" -m pinprof run "$name" "$@" --size "$size" --iterations "$iterations" --frequency "$frequency" \
      --backend "$backend" --record "$collector" --no-report -o "$label" >run.log 2>&1
    status=$?
    case "$status $(cat run.log)" in
      0\ *) ;;
      1\ *"[no-gpu]"* | 1\ *"[python-package]"* | 1\ *"[guarded]"*)
        echo "SKIP $label: $(grep -m1 'pinprof: error' run.log)"
        return 0
        ;;
      *)
        echo "FAIL $label: status $status"
        tail -5 run.log
        failed=$((failed + 1))
        return 0
        ;;
    esac
    rm -f "$label.pinprof/kallsyms.zst"
    tar cf - "$label.pinprof" | xz -9e -T0 >"$packed"
    if [ "$(stat -c %s "$packed")" -le "$limit" ]; then
      echo "OK $label: $size × $iterations at $frequency Hz, $(stat -c %s "$packed") bytes, $((SECONDS - begin)) s"
      rm -rf "$label.pinprof"
      return 0
    fi
  done <<<"$tries"
  echo "LARGE $label: $(stat -c %s "$packed") bytes"
  rm -rf "$label.pinprof"
}

"$python" -m pinprof doctor || true
if [ "${BENCH_TIME:-60s}" != 0 ]; then
  export XDG_DATA_HOME=$work/data
  "$python" -m pinprof bench --quick --time "${BENCH_TIME:-60s}" --backend "$backend" -o "$out/bench.json" --no-page --force ||
    { echo "FAIL bench: status $?"; failed=$((failed + 1)); }
  cp "$work"/data/pinprof/rates/*-"$backend".json "$out/rates.json"
  echo "rates after $SECONDS s"
fi

# What the findings rest on comes first; the time may run out.
while IFS=$'\t' read -r name variant; do
  options=()
  [ -z "$variant" ] || options=(--variant "$variant")
  record "$name${variant:+-$variant}" "$recorder" "$attempts" "$name" "${options[@]}"
done < <(GUARDED=${GUARDED:-} "$python" -c '
import os
from pinprof import scenario
first = ("pageable", "pinned", "zerocopy", "uvm", "uvm-prefetch", "register", "prefault")
specs = sorted(scenario.specs(), key=lambda spec: (spec.name not in first, bool(spec.needs), spec.name))
for spec in specs:
    shown = [one.name for one in spec.variants if os.environ["GUARDED"] or not one.guarded]
    for variant in shown or [""]:
        print(spec.name, variant, sep="\t")')

if [ -n "${NSYS:-}" ] || command -v nsys >/dev/null; then
  for tools_of in nsys "$recorder,nsys"; do
    suffix=${tools_of//,/-}
    record "uvm-$suffix" "$tools_of" "$traced_attempts" uvm
    record "pinned-$suffix" "$tools_of" "$traced_attempts" pinned
  done
  record uvm-prefetch-nsys nsys "$traced_attempts" uvm-prefetch
  record uvm-thrash-ping-pong-nsys nsys "$traced_attempts" uvm-thrash --variant ping-pong
  record uvm-thrash-cure-nsys nsys "$traced_attempts" uvm-thrash --variant cure
  record uvm-warp-per-page-nsys nsys "$traced_attempts" uvm-warp-per-page
  record uvm-naive-nsys nsys "$traced_attempts" uvm-naive
else
  echo "SKIP nsys: not installed, and \$NSYS is empty"
fi

"$python" "$tools/scenario_table.py" "$out" --json "$out/scenarios.json" --markdown "$out/scenarios.md" ||
  { echo "FAIL table: status $?"; failed=$((failed + 1)); }
cat "$out/scenarios.md"
echo "$(find "$out" -name '*.tar.xz' | wc -l) captures, $(du -cb "$out"/*.tar.xz | tail -1 | cut -f1) bytes, $SECONDS s;" \
  "$failed failed, $left left out"
[ "$failed" -eq 0 ]
