#!/bin/sh
# usage: setup.sh VENV run|test
# Makes the virtual environment, and installs through apt what is missing where that is possible (Debian, as root);
# otherwise says what to install. `test` adds the development tools, those of tests/tools and Chromium.
set -eu
venv=$1
purpose=$2
python=${PYTHON:-python3}

# A registry that answers late, once, is asked again.
export PIP_DEFAULT_TIMEOUT=60 PIP_RETRIES=10
retry="-o Acquire::Retries=5 -o DPkg::Lock::Timeout=300"

need=
command -v "$python" >/dev/null || need="$need python3"
"$python" -c 'import ensurepip, venv' 2>/dev/null || need="$need python3-venv"
if [ "$purpose" = test ]; then
  command -v perf >/dev/null || need="$need linux-perf"
  command -v chromium >/dev/null || need="$need chromium"
  command -v gcc >/dev/null || need="$need gcc libc6-dev"
  command -v g++ >/dev/null || need="$need g++"
  command -v npm >/dev/null || need="$need nodejs npm"
  command -v setpriv >/dev/null || need="$need util-linux"
fi
if [ -n "$need" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing$need with apt-get."
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # lists of options and of package names
    apt-get $retry update -qq
    # shellcheck disable=SC2086
    apt-get $retry install -y -qq --no-install-recommends $need >/dev/null
  else
    echo "Missing:$need. Install them (Debian and Ubuntu: apt-get install$need; perf is linux-tools-\$(uname -r) on Ubuntu," \
      "perf on Fedora), then run make again." >&2
    case $need in *python3*) exit 1 ;; esac
  fi
fi

# Debian has Nsight Systems in its component non-free, which most machines leave out: it is asked for once, in a copy of
# the machine's own list of sources. Without it the tests that need nsys are skipped.
sources=/etc/apt/sources.list.d/debian.sources
if [ "$purpose" = test ] && ! command -v nsys >/dev/null && [ "$(id -u)" = 0 ] && [ -f "$sources" ]; then
  echo "Installing nsight-systems with apt-get."
  lists=$(mktemp -d)
  chmod 755 "$lists"  # apt fetches as a user of its own
  sed 's/^Components:.*/Components: main contrib non-free/' "$sources" >"$lists/debian.sources"
  once="$retry -o Dir::Etc::SourceParts=$lists -o Dir::Etc::SourceList=/dev/null -o Dir::State::Lists=$lists/state"
  mkdir -p "$lists/state/partial"
  # shellcheck disable=SC2086  # a list of options
  { apt-get $once update -qq && DEBIAN_FRONTEND=noninteractive apt-get $once install -y -qq --no-install-recommends \
    nsight-systems >/dev/null; } || echo "nsight-systems is not installed: its tests will be skipped." >&2
  rm -rf "$lists"
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "$("$python" --version) is too old: pinprof needs Python 3.11 or newer. Run make PYTHON=/path/to/python3.11." >&2
  exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"

# What installs writes into a log, which is named where it fails.
log=$venv/setup.log
: >"$log"
logged() {
  "$@" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "The set-up failed. Everything that it said is in $log." >&2
    exit 1
  }
}

extras=
[ "$purpose" = test ] && extras=dev,docs
if [ -d /proc/driver/nvidia/gpus ]; then extras="${extras:+$extras,}cuda"; fi
echo "Installing pinprof${extras:+[$extras]} into $venv."

# npm tries an unreachable registry for many minutes. It installs while pip does.
if [ "$purpose" = test ] && command -v npm >/dev/null; then
  { { timeout --kill-after=10 240 npm install --silent --no-audit --no-fund --no-package-lock --fetch-timeout=60000 \
    --fetch-retries=3 --prefix tests/tools && tests/tools/node_modules/.bin/biome --version; } >>"$log" 2>&1 || {
    rm -rf tests/tools/node_modules # or what is half there
    echo "npm could not install tests/tools: tests with speedscope are skipped, JavaScript is not checked." >&2
  }; } &
fi

# Debian 12's pip takes a third longer for this many packages.
logged "$venv/bin/python" -m pip install --disable-pip-version-check --constraint constraints.txt --upgrade pip
# pip would compile all modules of all packages: most are never imported, and Python compiles those that are.
logged "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt \
  --editable ".${extras:+[$extras]}"
wait
