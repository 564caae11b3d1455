#!/usr/bin/env bash
# Builds the soft-iWARP module (siw), which no Debian kernel has, out of Debian's kernel source against Debian's headers, for
# the virtual machine's kernel. Fetches about 150 MB of packages and unpacks what it needs; installs nothing.
#
# usage: tools/build-siw.sh KERNEL_VERSION OUTPUT.ko
set -euo pipefail
version=$1 output=$2
series=$(echo "$version" | cut -d. -f1-2)
work=$(mktemp -d "${TMPDIR:-/tmp}/verbena-siw.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
apt-get download -qq "linux-source-$series" "linux-headers-$version" "linux-headers-${version%-amd64}-common" \
  "linux-kbuild-$series" 2>/dev/null
for package in linux-headers-* linux-kbuild-*; do dpkg -x "$package" tree; done
# The headers include each other by where they would be installed.
sed -i "s#/usr/src/#$work/tree/usr/src/#" "tree/usr/src/linux-headers-$version/Makefile"
source=linux-source-$series/drivers/infiniband/sw/siw
dpkg --fsys-tarfile linux-source-*.deb | tar xO "./usr/src/linux-source-$series.tar.xz" | tar xJ "$source"
make -s -C "tree/usr/src/linux-headers-$version" M="$work/$source" CONFIG_RDMA_SIW=m modules >log 2>&1 ||
  { tail -20 log >&2; exit 1; }
strip --strip-debug "$source/siw.ko"
cp "$source/siw.ko" "$output"
