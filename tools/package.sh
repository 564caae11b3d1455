#!/usr/bin/env bash
# Builds what a release consists of, from the tree as it lies here: Debian packages of this release of Debian, the source tarball,
# a bill of materials (SPDX) and checksums. The same tree gives the same bytes, wherever it lies.
#
# usage: tools/package.sh OUT_FOLDER [CODENAME [ARCHITECTURE [--test]]]
#
# With a CODENAME (trixie) it is built in a clean chroot of that release, as root; with an ARCHITECTURE (arm64), too, by cross compilers
# in a chroot that has Debian's libraries of both. --test then builds tests from the same objects and runs them there, by qemu-user.
set -euo pipefail
umask 022
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$root"

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export LC_ALL=C TZ=UTC
version=$(sed -n 's/^project(verbena VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
work=$(mktemp -d "${TMPDIR:-/tmp}/verbena-package.XXXXXX")
everything=$work
trap 'rm -rf "$everything"' EXIT
# ccache leaves traces in debug symbols (relative names, options of its own): with it the bytes would depend on what was compiled before.
export CCACHE_DISABLE=1 VERBENA_CACHE=${VERBENA_CACHE:-$HOME/.cache/verbena}
inside=()
build=(dpkg-buildpackage --no-sign --build=binary -nc)
arch=${3:-$(dpkg --print-architecture)}
# Pages that nobody reads in a chroot take longer to index than to unpack.
bootstrap=(mmdebstrap --quiet --variant=buildd --dpkgopt='path-exclude=/usr/share/man/*')
if [ -n "${3:-}" ]; then
  # What is needed of which architecture is for apt to say: it reads Build-Depends as Debian's own cross builds do. Debian's libfabric
  # is taken, so the release must have one that is new enough.
  "${bootstrap[@]}" --architectures="$(dpkg --print-architecture),$arch" \
    --include="crossbuild-essential-$arch,qemu-user,libfabric-dev:$arch,librapidcheck-dev:$arch" \
    --customize-hook="mkdir \"\$1/needs\" && cp -r '$root/deploy/debian' \"\$1/needs\"" \
    --customize-hook="chroot \"\$1\" apt-get -qq -y --no-install-recommends -a $arch build-dep /needs" "$2" "$work/root"
  build+=("--host-arch=$arch")
elif [ -n "${2:-}" ]; then
  needs=$(sed -n '/^Build-Depends:/,/^Description:/p' deploy/debian/control | sed -E 's/^Build-Depends://; /^Description:/d; s/\([^)]*\)//g; s/\|[^,]*//g; s/:any//g; '"s/ \[$arch\]//g; s/[^,]*\[[^]]*\],?//g" |
    tr -d ' \n' | sed 's/debhelper-compat/debhelper/')
  "${bootstrap[@]}" --include="$needs,libfabric-dev" "$2" "$work/root"
fi
if [ -n "${2:-}" ]; then
  # /proc is seen by this one process and its children: what is removed at the end is the chroot alone.
  inside=(unshare --mount sh -c 'mount -t proc proc "$1/proc" && root=$1 && shift && exec chroot "$root" "$@"'
    sh "$work/root" env -u DPKG_ADMINDIR VERBENA_CACHE=/none)
  . "$work/root/etc/os-release"
  work=$work/root/build
  mkdir "$work"
  export DPKG_ADMINDIR=${work%/build}/var/lib/dpkg
else
  . /etc/os-release
fi
revision=1~deb$VERSION_ID
tree=$work/verbena-$version

# Files that git knows, as they are now.
mkdir -p "$tree"
git ls-files -z | while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
  tar --null -T - -cf - | tar -C "$tree" -xf -
chmod -R u=rwX,go=rX "$tree"

same_tar() { tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -C "$1" -cf - "$2"; }
same_tar "$work" "verbena-$version" | xz -T1 -6 >"$out/verbena-$version.tar.xz"
cp "$out/verbena-$version.tar.xz" "$work/verbena_$version.orig.tar.xz"

cp -r "$tree/deploy/debian" "$tree/debian"
cat >"$tree/debian/changelog" <<C
verbena ($version-$revision) $VERSION_CODENAME; urgency=medium

  * See CHANGELOG.md.

 -- Verbena developers <verbena@example.org>  $(date -R -d "@$SOURCE_DATE_EPOCH")
C
export NINJAFLAGS=-j${JOBS:-$(nproc)}
if [ ${#inside[@]} -gt 0 ]; then
  "${inside[@]}" sh -c 'cd "$1" && shift && exec "$@"' sh "${tree#"$everything/root"}" "${build[@]}"
else
  (cd "$tree" && "${build[@]}")
fi >"$out/build.log" 2>&1 || {
  tail -40 "$out/build.log" >&2
  echo "package: dpkg-buildpackage failed ($out/build.log)" >&2
  exit 1
}
rm -f "$out"/*.deb
cp "$work"/*.deb "$out/"
python3 tools/sbom.py "$tree" "$out" >"$out/verbena-$version.spdx.json"
(cd "$out" && sha256sum ./*.deb ./*.tar.xz ./*.spdx.json | sed 's| \./| |' >SHA256SUMS)
if [ "${4:-}" = --test ]; then
  "${inside[@]}" sh -c 'cd "$1" && exec python3 tests/package/emulated_test.py obj ..' sh "${tree#"$everything/root"}"
fi
ls -l "$out" >&2
