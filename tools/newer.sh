#!/bin/sh
# usage: newer.sh SUITE FOLDER [PYTEST ARGUMENT…]
# Runs the unit and gold tests with the Python of another Debian (trixie: 3.13, sid: 3.14 or newer), in a bare system
# below FOLDER that is kept for the next time. As root, with debootstrap. What needs git, the tools of `make lint` or the
# system's own libraries outside a chroot is skipped.
set -eu
suite=$1
folder=$2
shift 2
repository=$(dirname "$(dirname "$(realpath "$0")")")
mkdir -p "$folder"
root=$(realpath "$folder")/$suite

if [ ! -e "$root/made" ]; then
  debootstrap --variant=minbase --include=python3,python3-venv,gcc,libc6-dev,ca-certificates "$suite" "$root" \
    >"$root.log"
  touch "$root/made"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp -L --remove-destination /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
rm -rf "$root/opt/pinprof"
mkdir -p "$root/opt/pinprof"
git -C "$repository" archive HEAD | tar -x -C "$root/opt/pinprof"
chroot "$root" python3 --version
[ -x "$root/opt/venv/bin/python" ] || chroot "$root" python3 -m venv /opt/venv
chroot "$root" /opt/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
  --constraint /opt/pinprof/constraints.txt --editable '/opt/pinprof[dev]'

[ $# -gt 0 ] || set -- tests/unit tests/gold
# The mounts end with the namespace that they are made in.
# shellcheck disable=SC2016  # expanded inside
exec unshare --mount sh -c '
  root=$1
  shift
  mount --make-rprivate /
  for place in proc dev sys; do mount --rbind "/$place" "$root/$place"; done
  exec chroot "$root" sh -c "cd /opt/pinprof && PATH=/opt/venv/bin:\$PATH exec python -m pytest -q -p no:cacheprovider \
    --hypothesis-profile=quick \"\$@\"" sh \
    --deselect tests/unit/test_gallery.py::test_the_repository_holds_the_pages_that_the_index_names \
    --deselect tests/unit/test_words.py::test_the_check_reads_the_repository \
    --deselect tests/unit/collect/test_native.py::test_mappings_carry_the_build_ids_of_their_files "$@"
' sh "$root" "$@"
