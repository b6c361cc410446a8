#!/bin/sh
# Installs what a build, a run and the specs need (and the packages named as arguments) and is not
# there yet; says what it does.
set -eu
packages="gcc libc6-dev make pkg-config luajit libluajit-5.1-dev libuv1-dev libedit-dev lua-busted lua-check iproute2 nftables valgrind $*"
missing=""
for p in $packages; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
sudo=""
if [ "$(id -u)" != 0 ]; then
  sudo="sudo -n"
  command -v sudo >/dev/null || { echo "neap: please install, as root:$missing" >&2; exit 1; }
fi
echo "neap: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get -o DPkg::Lock::Timeout=300 update -qq </dev/null
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq \
  --no-install-recommends $missing </dev/null >/dev/null
