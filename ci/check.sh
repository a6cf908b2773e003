#!/bin/sh
# Runs `pinprof check` as a job of a CI system. Its only inputs are these variables, so that the shell never runs text
# that somebody else chose:
#   PINPROF_CAPTURES  captures to judge, one per line; * and ? name several
#   PINPROF_COMMAND   a command line to run and judge, instead of captures
#   PINPROF_BUDGET    the file with the budgets; by default pinprof.toml or pyproject.toml
#   PINPROF_AGAINST   captures of the baseline, one per line
#   PINPROF_BASELINE  the baseline's command line; its runs alternate with those of the command
#   PINPROF_ALLOW_UNASSESSABLE  true: a budget that cannot be judged does not fail the job
#   PINPROF_OPTIONS   more options of `pinprof check`, one per line
#   PINPROF_REPORTS   the folder of the reports; by default pinprof-check
#   PINPROF_PACKAGE   what pip installs; empty if pinprof is installed
#   PINPROF_PYTHON    the interpreter; by default python3
# Its exit status is that of `pinprof check`: 0 all budgets hold, 3 one is broken, 4 one could not be judged.
set -eu
newline='
'
python=${PINPROF_PYTHON:-python3}
reports=${PINPROF_REPORTS:-pinprof-check}
case $reports in -*) reports=./$reports ;; esac

if [ -n "${PINPROF_PACKAGE:-}" ]; then
  "$python" -m pip install --quiet "$PINPROF_PACKAGE"
fi

set -- check
# The checkout is the job's own, though the runner may have made it as another user, or for all to write.
budget=${PINPROF_BUDGET:-}
if [ -z "$budget" ] && [ -f pinprof.toml ]; then
  budget=pinprof.toml
elif [ -z "$budget" ] && [ -f pyproject.toml ] && grep -q 'tool\.pinprof' pyproject.toml; then
  budget=pyproject.toml
fi
[ -z "$budget" ] || set -- "$@" "--budget=$budget"
[ -z "${PINPROF_BASELINE:-}" ] || set -- "$@" "--baseline=$PINPROF_BASELINE"
case ${PINPROF_ALLOW_UNASSESSABLE:-false} in
  true) set -- "$@" --allow-unassessable ;;
  false) ;;
  *)
    echo "PINPROF_ALLOW_UNASSESSABLE is neither true nor false." >&2
    exit 2
    ;;
esac
IFS=$newline
set -f
for one in ${PINPROF_OPTIONS:-}; do
  set -- "$@" "$one"
done
set +f
for one in ${PINPROF_AGAINST:-}; do
  set -- "$@" "--against=$one"
done

# Remove the reports of earlier runs.
mkdir -p "$reports"
for form in junit=junit.xml sarif=pinprof.sarif gitlab=codequality.json markdown=summary.md github=annotations.txt; do
  rm -f "$reports/${form#*=}"
  set -- "$@" "--write=${form%%=*}=$reports/${form#*=}"
done
for one in ${PINPROF_CAPTURES:-}; do
  case $one in -*) one=./$one ;; esac
  set -- "$@" "$one"
done
unset IFS
[ -z "${PINPROF_COMMAND:-}" ] || set -- "$@" -- sh -c "$PINPROF_COMMAND"

# GitHub runs commands that a step prints; names of a program must not be commands.
token=
if [ "${GITHUB_ACTIONS:-}" = true ]; then
  token=$("$python" -c 'import secrets; print(secrets.token_hex(16))')
  echo "::stop-commands::$token"
fi
status=0
"$python" -P -m pinprof "$@" || status=$?
if [ -n "$token" ]; then
  echo "::$token::"
  [ ! -f "$reports/annotations.txt" ] || cat "$reports/annotations.txt"
fi
case $status in
  0) outcome=holds ;;
  3) outcome=broken ;;
  4) outcome=not-assessable ;;
  *) outcome=error ;;
esac
[ -z "${GITHUB_OUTPUT:-}" ] || printf 'status=%s\noutcome=%s\n' "$status" "$outcome" >>"$GITHUB_OUTPUT"
exit "$status"
