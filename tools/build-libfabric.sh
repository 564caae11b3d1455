#!/usr/bin/env bash
# Builds libfabric (and its fabtests) from Debian 13's source package into a cached prefix, once.
# Debian 12 ships 1.17, which deadlocks and never recovers a failed queue pair: Verbena needs >= 2.0.
# tools/libfabric-*.patch is applied first: it checks what peers send.
#
# usage: tools/build-libfabric.sh PREFIX
set -euo pipefail
tools=$(dirname "$(readlink -f "$0")")
prefix=$1
stamp=$prefix/.complete
# A prefix that another version of the patches or of this script has made is made again.
version=$(cat "$tools"/libfabric-*.patch "$tools/build-libfabric.sh" | sha256sum | cut -c1-16)
[ "$(cat "$stamp" 2>/dev/null)" = "$version" ] && exit 0

for tool in autoreconf libtoolize make gcc patch; do
  command -v $tool >/dev/null || { echo "build-libfabric: $tool is missing; run ./dev setup" >&2; exit 1; }
done

work=$(mktemp -d "${TMPDIR:-/tmp}/verbena-libfabric.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/parts" "$work/lists/partial"

# The machine's own mirror, whichever format names it.
mirror=$(grep -hoE 'https?://[^ ]+/debian/?($| )' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
         grep -v -- '-security' | grep -v '^#' | grep -v snapshot | head -1 | tr -d ' ' || true)
: "${mirror:=http://deb.debian.org/debian}"
cat >"$work/parts/trixie.sources" <<S
Types: deb-src
URIs: $mirror
Suites: trixie
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
S
apt=(apt-get -o "Dir::Etc::sourcelist=$work/none" -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists")
: >"$work/none"
"${apt[@]}" update >/dev/null
read -r uri name _ sum < <("${apt[@]}" --print-uris source libfabric 2>/dev/null | tr -d "'" | grep 'orig\.tar')
/usr/lib/apt/apt-helper download-file "$uri" "$work/$name" "$sum" >/dev/null
tar -C "$work" -xf "$work/$name"
src=$(echo "$work"/libfabric-*/)

# Only the providers that Verbena offers. shm is left out on purpose (its keys protect nothing).
cd "$src"
{
  for change in "$tools"/libfabric-*.patch; do patch -p0 --batch --forward <"$change"; done
  ./autogen.sh
  ./configure --prefix="$prefix" --disable-static --enable-shared \
    --enable-tcp=yes --enable-verbs=yes --enable-rxm=yes --enable-efa=yes \
    --disable-rxd --disable-udp --disable-shm --disable-sm2 --disable-psm2 --disable-psm3 --disable-opx \
    --disable-usnic --disable-mrail --disable-hook_debug --disable-perf --disable-trace --disable-ucx --disable-lpp \
    --disable-lnx CFLAGS="-O2 -g"
  make -j"$(nproc)"
  make install
  cd fabtests
  ./autogen.sh
  ./configure --prefix="$prefix" --with-libfabric="$prefix" CFLAGS="-O2"
  make -j"$(nproc)"
  make install
} >"$work/log" 2>&1 || { tail -40 "$work/log" >&2; echo "build-libfabric: failed" >&2; exit 1; }
echo "$version" >"$stamp"
