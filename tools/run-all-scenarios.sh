#!/usr/bin/env bash
# usage: run-all-scenarios.sh [SIZE [ITERATIONS [BACKEND]]]   (default: 64MiB 3 auto)
# Runs every scenario in every variant and prints OK, FAIL or SKIP with its phases; ends with 1 when one has failed.
# SKIP: the scenario has no form on this backend, needs a package that is not installed, or refuses on purpose
# (its guarded variant is never run from here).
set -uo pipefail
size=${1:-64MiB}
iterations=${2:-3}
backend=${3:-auto}
python=${PYTHON:-python3}
failed=0
while IFS=$'\t' read -r name variant; do
  arguments=("$name" --size-bytes "$size" --iterations "$iterations" --backend "$backend")
  [ -z "$variant" ] || arguments+=(--variant "$variant")
  output=$("$python" -m pinprof.scenario "${arguments[@]}" 2>&1)
  status=$?
  case "$status $output" in
    0\ *) verdict=OK ;;
    1\ *"[no-gpu]" | 1\ *"[python-package]" | 1\ *"[guarded]") verdict=SKIP ;;
    *) verdict=FAIL failed=$((failed + 1)) ;;
  esac
  printf '== %s %s: %s\n%s\n' "$name" "${variant:--}" "$verdict" "$output"
done < <("$python" -c '
from pinprof import scenario
for spec in scenario.specs():
    for variant in [one.name for one in spec.variants if not one.guarded] or [""]:
        print(spec.name, variant, sep="\t")')
printf '%s failed\n' "$failed"
[ "$failed" -eq 0 ]
