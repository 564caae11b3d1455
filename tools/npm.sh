#!/usr/bin/env bash
# Lays the npm package `verbena-server` out (deploy/npm, the program, its libraries) and packs it. Nothing is published.
#
# usage: tools/npm.sh PROGRAM OUT_FOLDER
set -euo pipefail
umask 022
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
program=$(readlink -f "$1")
out=$(mkdir -p "$2" && cd "$2" && pwd)
version=$(sed -n 's/^project(verbena VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
case $(uname -m) in x86_64) cpu=x64 ;; aarch64) cpu=arm64 ;; *) echo "npm: not made for $(uname -m)" >&2; exit 1 ;; esac
layout=$out/verbena-server
rm -rf "$layout"
mkdir -p "$layout/program" "$layout/lib"
cp -r "$root"/deploy/npm/. "$layout/"
cp "$root/LICENSE" "$layout/"
cp "$root/deploy/debian/copyright" "$layout/LICENSE.linked"   # of what is linked in
sed -i -e "s/@VERSION@/$version/" -e "s/@CPU@/$cpu/" "$layout/package.json"
strip -o "$layout/program/verbena" "$program"
# All that it links but the C library, which has to be that of the machine it runs on.
ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' |
  grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv)\.so' | sort -u | while read -r library; do
  cp -L "$library" "$layout/lib/"
  chmod 644 "$layout/lib/$(basename "$library")"
  strip --strip-unneeded "$layout/lib/$(basename "$library")"
done
(cd "$layout" && npm pack --silent --pack-destination "$out")
