#!/bin/sh
# Runs `pinprof check` as a job of a CI system. What to do comes by these variables alone, so that nothing that somebody
# else may choose is read as shell:
#   PINPROF_CAPTURES  captures to judge, one a line; * and ? name several
#   PINPROF_COMMAND   a command line to run and judge, in place of captures
#   PINPROF_BUDGET    the file with the budgets; else pinprof.toml or pyproject.toml
#   PINPROF_AGAINST   captures of the baseline, one a line
#   PINPROF_BASELINE  the baseline's command line, run in turns with the command
#   PINPROF_ALLOW_UNASSESSABLE  true: what cannot be judged does not fail the job
#   PINPROF_OPTIONS   further options of `pinprof check`, one a line
#   PINPROF_REPORTS   the folder of the reports; else pinprof-check
#   PINPROF_PACKAGE   what pip installs; else pinprof is there already
#   PINPROF_PYTHON    the interpreter; else python3
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
[ -z "${PINPROF_BUDGET:-}" ] || set -- "$@" "--budget=$PINPROF_BUDGET"
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

# Reports of an earlier run say nothing of this one.
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

# GitHub reads commands in whatever a step prints; names of a program are none.
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
