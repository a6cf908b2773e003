#!/bin/sh
# usage: oldest.sh WHEEL FOLDER
# Installs a wheel in a bare Debian 11 (glibc 2.31) and uses it there: every C library is loaded, scenarios are listed, a
# committed capture is reported and a scenario recorded. Debian 11 brings Python 3.9, so Debian's source of Python 3.11 is
# compiled in the new system, which takes minutes; FOLDER keeps the system for the next time. As root, on Debian 12, with
# debootstrap.
set -eu
wheel=$(realpath "$1")
folder=$2
repository=$(dirname "$(dirname "$(realpath "$0")")")
root=$folder/bullseye
mkdir -p "$folder"
folder=$(realpath "$folder")

if [ ! -e "$root/made" ]; then
  debootstrap --variant=minbase bullseye "$root" >"$folder/debootstrap.log"
  DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -qq --no-install-recommends \
    gcc libc6-dev make zlib1g-dev liblzma-dev libbz2-dev libffi-dev libsqlite3-dev >"$folder/apt.log" 2>&1
  touch "$root/made"
fi
if [ ! -x "$root/usr/local/bin/python3.11" ]; then
  sources=$folder/sources
  mkdir -p "$sources/state/partial"
  sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$sources/debian.sources"
  once="-o Dir::Etc::SourceParts=$sources -o Dir::Etc::SourceList=/dev/null -o Dir::State::Lists=$sources/state"
  # shellcheck disable=SC2086  # a list of options
  (cd "$sources" && apt-get $once update -qq && apt-get $once source -qq --download-only python3.11)
  tar -C "$root/opt" -xf "$sources"/python3.11_*.orig.tar.*
# shellcheck disable=SC2016  # expanded inside the root
  chroot "$root" sh -c 'cd /opt/Python-3.11* && ./configure -q CFLAGS=-O1 && make -s -j"$(nproc)" && make -s install' \
    >"$folder/python.log" 2>&1
fi

# The packages come from outside: this Python has no TLS.
python3 -m pip download --quiet --disable-pip-version-check --only-binary=:all: --python-version 3.11 \
  --constraint "$repository/constraints.txt" --platform manylinux_2_31_x86_64 --platform manylinux_2_28_x86_64 \
  --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  --platform manylinux_2_12_x86_64 --platform manylinux2010_x86_64 --platform manylinux_2_5_x86_64 \
  --platform manylinux1_x86_64 --dest "$folder/wheels" "$wheel"
rm -rf "$root/wheels" "$root/usr/local/venv"
cp -r "$folder/wheels" "$root/wheels"
cp "$repository/tests/data/h200/pinned.pinprof.tar.xz" "$root/wheels/"
cat >"$root/wheels/use.sh" <<'END'
set -eu
cd /tmp
ldd --version | head -1
python3.11 -m venv /usr/local/venv
/usr/local/venv/bin/pip install --quiet --no-index --find-links /wheels pinprof
/usr/local/venv/bin/python -c '
import ctypes
from pinprof.machine.libraries import LIBRARIES
for library in LIBRARIES:
    path = library.find()
    assert "site-packages" in str(path), path
    ctypes.CDLL(str(path))
    print("loads:", path.name)'
/usr/local/venv/bin/pinprof --version
/usr/local/venv/bin/pinprof list | tail -3
/usr/local/venv/bin/pinprof report /wheels/pinned.pinprof.tar.xz -o /tmp/pinned.html | head -5
rm -rf /tmp/zerocopy*
/usr/local/venv/bin/pinprof run zerocopy --record --no-calibrate -o /tmp/zerocopy --force 2>&1 | tail -4
END
for place in proc sys; do
  mountpoint -q "$root/$place" || mount --rbind "/$place" "$root/$place"
done
status=0
chroot "$root" sh /wheels/use.sh || status=$?
umount -R -l "$root/proc" "$root/sys"
exit $status
