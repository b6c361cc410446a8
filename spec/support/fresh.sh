#!/bin/sh
# fresh: what a newcomer has.  Makes a minimal Debian 12 with only git, make and ca-certificates, clones
# this repository into it and runs the README's two commands there.  As root, with debootstrap.
#
#     sh spec/support/fresh.sh [FOLDER]        keeps FOLDER if it is given
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
root=${1:-}
[ "$(id -u)" = 0 ] || { echo "fresh: needs root for chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh: please install debootstrap" >&2; exit 1; }
keep=yes
[ -n "$root" ] || { root=$(mktemp -d); keep=no; }

finish() {
  for m in dev/pts dev sys proc; do umount "$root/$m" 2>/dev/null || true; done
  [ "$keep" = yes ] || rm -rf --one-file-system "$root"
}
trap finish EXIT

[ -d "$root/usr" ] || debootstrap --variant=minbase --include=git,make,ca-certificates bookworm \
  "$root" >"$root.log" 2>&1 || { tail -5 "$root.log" >&2; exit 1; }
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --bind /dev "$root/dev"
mount -t devpts devpts "$root/dev/pts" 2>/dev/null || true
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
rm -rf "$root/neap"
git clone -q "$here" "$root/neap"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 \
  CI="${CI:-}" sh -c "cd /neap && $1"; }

inside "make run"
began=$(date +%s)
inside "make run"
echo "fresh: make run after installation took $(($(date +%s) - began)) s"
began=$(date +%s)
inside "make test"
echo "fresh: make test took $(($(date +%s) - began)) s"
