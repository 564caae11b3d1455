#!/bin/sh
# What of a root file system an image is to have (tools/image.sh): its user, its folders, no documentation.
set -eu
cd "$1"
mkdir -p etc/ssl/certs data run/verbena tmp
printf 'root:x:0:0:root:/:/usr/sbin/nologin\nverbena:x:65532:65532:Verbena:/data:/usr/sbin/nologin\n' >etc/passwd
printf 'root:x:0:\nverbena:x:65532:\n' >etc/group
chown 65532:65532 data run/verbena
chmod 0755 run/verbena
chmod 0700 data
chmod 1777 tmp
# The same-host socket lies with the data unless a volume for it is named (VERBENA_RDMA_LOCAL_SOCKET).
sed -i -e 's|^rdma:|#rdma:|' -e 's|^  local_socket:.*|#  local_socket:|' etc/verbena/verbena.yaml
# ca-certificates puts its bundle together when it is configured; nothing is configured here.
find usr/share/ca-certificates -name '*.crt' | LC_ALL=C sort | xargs cat >etc/ssl/certs/ca-certificates.crt
find usr/share/doc -type f ! -name copyright -delete
find usr/share/doc -type d -empty -delete
rm -rf usr/share/man usr/share/locale usr/share/info usr/share/bash-completion usr/share/zsh usr/share/fish usr/share/lintian \
  lib/systemd usr/lib/systemd usr/lib/tmpfiles.d usr/lib/sysusers.d var/cache/apt var/lib/apt var/log usr/share/perl5 usr/sbin/update-ca-certificates
