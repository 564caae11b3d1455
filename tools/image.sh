#!/usr/bin/env bash
# Makes the container image from the packages that tools/package.sh built: Debian's libraries, the program, and nothing that could
# run anything else but coreutils. No registry is asked. Two files come out: an OCI archive for `podman load -i`, and one in Docker's
# format for `docker load -i` (or `zcat FILE | podman load`), which has what OCI's lacks: the health check.
#
# usage: tools/image.sh PACKAGES_FOLDER OUT_FOLDER
set -euo pipefail
umask 022
packages=$(cd "$1" && pwd)
out=$(mkdir -p "$2" && cd "$2" && pwd)
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "image: mmdebstrap and buildah are run as root here" >&2; exit 1; }
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
version=$(sed -n 's/^project(verbena VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
. /etc/os-release
work=$(mktemp -d "${TMPDIR:-/tmp}/verbena-image.XXXXXX")
trap 'rm -rf "$work"' EXIT

# What the two packages need, but the service's part: an image has no systemd.
needs=$(for name in verbena libverbena0; do dpkg-deb --field "$packages/${name}_$version"-*_"$(dpkg --print-architecture)".deb Depends; echo; done |
  tr ',' '\n' | sed -E 's/^ *([a-z0-9.+-]+).*/\1/' | grep -Ev '^(systemd.*|libverbena0|)$' | sort -u | paste -sd,)
# extract: no maintainer script is run, no essential package comes along; nor are hooks called.
mmdebstrap --quiet --variant=extract --include="$needs,coreutils,ca-certificates" "$VERSION_CODENAME" "$work/root"
for deb in "$packages/verbena_$version"-*.deb "$packages/libverbena0_$version"-*.deb; do dpkg-deb -x "$deb" "$work/root"; done
"$root/tools/image-files.sh" "$work/root"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner -C "$work/root" -cf "$work/root.tar" .

container=$(buildah from scratch)
trap 'buildah rm "$container" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
buildah add --quiet "$container" "$work/root.tar" / >/dev/null
buildah config --user 65532:65532 --entrypoint '["/usr/bin/verbena"]' --cmd 'server /data/store --config /etc/verbena/verbena.yaml' \
  --env PATH=/usr/bin:/bin --env VERBENA_HTTP_ADDRESS=0.0.0.0 --env VERBENA_RDMA_ADDRESS=0.0.0.0 --env VERBENA_ADMIN_ADDRESS=0.0.0.0 \
  --port 9000 --port 9001 --port 9100 --volume /data --stop-signal SIGTERM --workingdir / \
  --label org.opencontainers.image.title=verbena --label org.opencontainers.image.version="$version" \
  --label org.opencontainers.image.licenses="Apache-2.0 AND BSD-3-Clause AND BSD-2-Clause" "$container"
archive() {  # FORMAT TRANSPORT NAME
  local id
  id=$(buildah commit --quiet --format "$1" --timestamp "$SOURCE_DATE_EPOCH" "$container")
  rm -f "$out/$3"
  buildah push --quiet "$id" "$2:$out/$3:localhost/verbena:$version"
  buildah rmi "$id" >/dev/null
}
archive oci oci-archive "verbena-$version-image.oci.tar"
buildah config --healthcheck 'CMD verbena health' --healthcheck-interval 10s --healthcheck-timeout 6s --healthcheck-start-period 2s "$container" 2>/dev/null
archive docker docker-archive "verbena-$version-image.docker.tar"
gzip -9nf "$out/verbena-$version-image.docker.tar"
ls -l "$out" >&2
