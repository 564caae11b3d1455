#!/usr/bin/env bash
# Runs a command in a virtual machine that has real RDMA devices: Debian's own kernel with soft-RoCE (rdma_rxe), booted
# by QEMU without special rights. The guest sees this host's file tree read-only under a tmpfs overlay, so programs built
# here run there; what it writes is gone with it, except below /out.
#
#   tools/vm.sh setup            fetch the kernel package into the cache and make the initial RAM disk, once
#   tools/vm.sh run CMD...       run CMD in the guest, in this folder; its output and exit status come back
#
# With VM_RDMA=siw the devices are soft-iWARP ones, siw0 and siw1, of a module that is built at the first use
# (tools/build-siw.sh).
#
# With VM_NVMF=1 the guest has a disk over RDMA, too: NVMe over Fabrics from rxe1 to a target on rxe0, with ext4 on it,
# and TMPDIR is a folder there.
#
# With VM_PMEM=FILE the guest has the file as persistent memory (an NVDIMM; made with 512 MiB if it is missing), with ext4
# -o dax at /run/pmem; with VM_DISK=FILE, a disk with ext4 at /run/disk (1 GiB). A later run with the same files finds what
# was there: after the end of QEMU by a signal, what a power cut leaves. With VM_DAX=FILE it has this file as a device-dax
# node, of another NVDIMM: DAX_NODE is its name.
#
# With VM_RAW=1 the disk of VM_NVMF or VM_DISK is left as it is, without a file system: VERBENA_TEST_DEVICE is its name.
#
# environment: VERBENA_CACHE, VM_CPUS (2), VM_MEMORY (2G), VM_TIMEOUT_S (300), VM_OUT (a folder: /out in the guest;
# qemu.pid there is QEMU's pid)
#
# In the guest, rxe0 sits on v0 (10.77.0.1) and rxe1 on v1 (10.77.0.2). Each is one end of a veth pair; the other ends, p0
# and p1, are ports of the bridge br0, the switch between them: taking p0 down is pulling v0's cable. v0 and v1 are in one
# network namespace, because the rxe of this kernel sends through the first one only; policy routing makes packets
# between the two addresses cross the bridge instead of the loopback device.
set -euo pipefail
cache=${VERBENA_CACHE:-$HOME/.cache/verbena}/vm
rdma=${VM_RDMA:-rxe} nvmf=${VM_NVMF:-} pmem=${VM_PMEM:-} dax=${VM_DAX:-} disk=${VM_DISK:-} raw=${VM_RAW:-}
modules="virtio_pci virtio_console virtio_rng 9pnet_virtio 9p overlay dummy veth bridge sch_netem rdma_rxe rdma_ucm ib_umad crc32_generic"

die() { echo "vm: $*" >&2; exit 98; }

need_tools() {
  local tool package
  while read -r tool package; do
    command -v "$tool" >/dev/null || die "$tool is missing: apt-get install $package (or ./dev setup)"
  done <<'T'
qemu-system-x86_64 qemu-system-x86
busybox busybox-static
depmod kmod
cpio cpio
zstd zstd
xz xz-utils
python3 python3
T
}

kernel_version() {  # what Debian's linux-image-amd64 depends on today: "6.1.0-56-amd64"
  apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: linux-image-\([0-9].*-amd64\)$/\1/p' | head -1
}

setup() {
  need_tools
  mkdir -p "$cache"
  local version
  if [ "$(cut -d' ' -f2- "$cache/version" 2>/dev/null)" != "$modules" ]; then
    rm -f "$cache/version"
    version=$(kernel_version)
    [ -n "$version" ] || { apt-get update -qq; version=$(kernel_version); }
    [ -n "$version" ] || die "apt knows no linux-image-amd64"
    (cd "$cache" && chmod 755 . && apt-get download -qq "linux-image-$version" 2>/dev/null)
    rm -rf "$cache/kernel"
    dpkg -x "$cache"/linux-image-*.deb "$cache/kernel"
    rm -f "$cache"/linux-image-*.deb
    make_kernel "$version"
    make_initrd "$version"
    echo "$version $modules" >"$cache/version"
  fi
  if [ "$rdma" = siw ] && [ ! -s "$cache/siw.ko" ]; then
    "$(dirname "$0")/build-siw.sh" "$(cut -d' ' -f1 "$cache/version")" "$cache/siw.ko" || die "the siw module does not build"
  fi
}

# The ELF image inside the vmlinuz boots without the self-decompressor, which is slow on an emulated CPU.
make_kernel() {
  python3 - "$cache/kernel/boot/vmlinuz-$1" >"$cache/vmlinux" <<'P'
import lzma, subprocess, sys
image = open(sys.argv[1], "rb").read()
xz, zstd = image.find(b"\xfd7zXZ\0"), image.find(b"\x28\xb5\x2f\xfd")
if xz > 0:
    elf = lzma.LZMADecompressor().decompress(image[xz:])
else:
    elf = subprocess.run(["zstd", "-dcq"], input=image[zstd:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
assert elf.startswith(b"\x7fELF"), "no ELF image in the kernel package"
sys.stdout.buffer.write(elf)
P
}

make_initrd() {
  local version=$1 kernel=$cache/kernel root module file name
  root=$(mktemp -d)
  depmod -b "$kernel" "$version"
  mkdir -p "$root"/{bin,mod,proc,dev,sys,lo,rw,new}
  cp "$(command -v busybox)" "$root/bin/busybox"
  for module in $modules; do modprobe -d "$kernel" -S "$version" --show-depends "$module"; done |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
      name=$(basename "${file%.xz}")
      case $file in *.xz) xz -dc "$file" >"$root/mod/$name" ;; *) cp "$file" "$root/mod/$name" ;; esac
      strip --strip-debug "$root/mod/$name"
      echo "$name"
    done >"$root/mod.order"
  mv "$root/mod.order" "$root/mod/order"
  cat >"$root/init" <<I
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
while read m; do
  case \$m in dummy.ko) o=numdummies=0 ;; *) o= ;; esac
  insmod /mod/\$m \$o || echo "insmod \$m failed"
done </mod/order
o=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o ro,\$o,cache=loose root /lo || poweroff -f
mount -t tmpfs -o size=75% t /rw; mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/lo,upperdir=/rw/upper,workdir=/rw/work o /new || poweroff -f
mkdir -p /new/out /new/lib/modules
mount --bind /new$kernel/lib/modules /new/lib/modules
mount -t 9p -o \$o,cache=none out /new/out
for m in proc sys dev; do mount --move /\$m /new/\$m; done
mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts p /new/dev/pts; mount -t tmpfs t /new/dev/shm; mount -t tmpfs t /new/run
exec chroot /new /bin/bash /out/guest.sh
I
  chmod +x "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$cache/initrd.gz"
  rm -rf "$root"
}

guest_script() {
  echo "rdma=$rdma raw=$raw pmem=$(printf %q "$pmem") cache=$(printf %q "$cache") VM_RDMA=$rdma; export VM_RDMA"
  cat <<'G'
exec </dev/null
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ulimit -l unlimited
# Each process that opens libfabric's verbs reads all 100,000 symbols of the kernel, for one that only other drivers bring.
mount --bind /dev/null /proc/kallsyms
[ $rdma != siw ] || { modprobe -a iw_cm libcrc32c; insmod $cache/siw.ko; }
ip link set lo up
ip link add br0 mtu 4200 type bridge forward_delay 0 mcast_snooping 0
ip link set br0 arp off up  # it would answer for the addresses of v0 and v1
for n in 0 1; do
  ip link add v$n type veth peer name p$n
  ip link set p$n mtu 4200 master br0 up
  sysctl -q -w net.ipv4.conf.v$n.rp_filter=0 net.ipv4.conf.v$n.accept_local=1
  ip link set v$n mtu 4200
  ip addr add 10.77.0.$((n + 1))/24 dev v$n
  ip link set v$n up
done
sysctl -q -w net.ipv4.conf.all.rp_filter=0
ip route add 10.77.0.2 dev v0 src 10.77.0.1 table 101
ip route add 10.77.0.1 dev v1 src 10.77.0.2 table 102
ip rule add pref 10 iif lo from 10.77.0.1 to 10.77.0.2 lookup 101
ip rule add pref 10 iif lo from 10.77.0.2 to 10.77.0.1 lookup 102
ip rule add pref 100 lookup local
ip rule del pref 0
for n in 0 1; do rdma link add $rdma$n type $rdma netdev v$n; done

wait_for_disk() { for n in $(seq 50); do [ -b $1 ] && break; sleep 0.2; done; }

mounted() {  # DEVICE FOLDER OPTION...: makes the file system at the first run
  wait_for_disk $1
  blkid $1 >/dev/null || mkfs.ext4 -q -b 4096 $1 || return
  mkdir -p $2 && mount "${@:3}" $1 $2
}

raw_disk() {
  modprobe loop  # what a test puts beside it
  wait_for_disk $1
  export VERBENA_TEST_DEVICE=$1 VERBENA_TEST_DEVICE_ERASE=$1
  echo "VERBENA_TEST_DEVICE is $1, $(blockdev --getsize64 $1) bytes"
}

# The target serves a file in the guest's memory on 10.77.0.1; the host that mounts it is 10.77.0.2.
nvmf_disk() {
  local nqn=nqn.2026-11.verbena:disk target=/sys/kernel/config/nvmet
  modprobe -a nvmet-rdma nvme-rdma ext4 || return
  mount -t configfs none /sys/kernel/config
  truncate -s 1G /run/nvmf.img
  mkdir $target/subsystems/$nqn $target/subsystems/$nqn/namespaces/1 $target/ports/1
  echo 1 >$target/subsystems/$nqn/attr_allow_any_host
  echo 1 >$target/subsystems/$nqn/namespaces/1/buffered_io
  echo /run/nvmf.img >$target/subsystems/$nqn/namespaces/1/device_path
  echo 1 >$target/subsystems/$nqn/namespaces/1/enable
  echo rdma >$target/ports/1/addr_trtype
  echo ipv4 >$target/ports/1/addr_adrfam
  echo 10.77.0.1 >$target/ports/1/addr_traddr
  echo 4420 >$target/ports/1/addr_trsvcid
  ln -s $target/subsystems/$nqn $target/ports/1/subsystems/$nqn || return
  echo "transport=rdma,traddr=10.77.0.1,trsvcid=4420,host_traddr=10.77.0.2,nqn=$nqn" >/dev/nvme-fabrics || return
  echo "/dev/nvme0n1 is NVMe over $(cat /sys/class/nvme/nvme0/transport), $(cat /sys/class/nvme/nvme0/address)"
  if [ -n "$raw" ]; then raw_disk /dev/nvme0n1; return; fi
  mounted /dev/nvme0n1 /run/nvmf || return
  export TMPDIR=/run/nvmf
}

# QEMU's NVDIMM has no labels: its whole range is one namespace. Linux maps files of it only if pages are described, for
# which the kernel writes a block at its beginning (what ndctl create-namespace --mode=fsdax does).
pmem_disk() {
  local nd=/sys/bus/nd pages
  modprobe -a nfit nd_pmem ext4 || return
  wait_for_disk /dev/pmem0
  if [ "$(cat /sys/block/pmem0/queue/dax)" != 1 ]; then
    pages=$(cat $nd/devices/region0/pfn_seed)
    echo namespace0.0 >$nd/drivers/nd_pmem/unbind
    echo pmem >$nd/devices/$pages/mode
    cat /proc/sys/kernel/random/uuid >$nd/devices/$pages/uuid
    echo namespace0.0 >$nd/devices/$pages/namespace
    echo $pages >$nd/drivers/nd_pmem/bind || return
  fi
  mounted /dev/pmem0 /run/pmem -o dax
}

# What ndctl create-namespace --mode=devdax does, at the first run; later ones find the block that the kernel wrote then.
dax_node() {
  local nd=/sys/bus/nd dax=/sys/bus/dax/devices number=${pmem:+1} seed
  number=${number:-0}
  modprobe -a nfit nd_pmem dax_pmem device_dax || return
  for n in $(seq 50); do [ -b /dev/pmem$number ] || [ -n "$(ls $dax)" ] && break; sleep 0.2; done
  if [ -z "$(ls $dax)" ]; then
    seed=$(cat $nd/devices/region$number/dax_seed)
    echo namespace$number.0 >$nd/drivers/nd_pmem/unbind
    echo pmem >$nd/devices/$seed/mode
    cat /proc/sys/kernel/random/uuid >$nd/devices/$seed/uuid
    echo namespace$number.0 >$nd/devices/$seed/namespace
    echo $seed >$nd/drivers/dax_pmem/bind || return
  fi
  export DAX_NODE=/dev/$(ls $dax)
  for n in $(seq 50); do [ -c $DAX_NODE ] && break; sleep 0.2; done
  [ -c $DAX_NODE ]
}

virtio_disk() {
  modprobe -a virtio_blk ext4 || return
  if [ -n "$raw" ]; then raw_disk /dev/vda; else mounted /dev/vda /run/disk; fi
}
G
  echo "console=\$(echo /dev/vport*p1)"
  echo "cd $(printf %q "$PWD")"
  local part
  for part in ${nvmf:+nvmf_disk} ${pmem:+pmem_disk} ${dax:+dax_node} ${disk:+virtio_disk}; do
    echo "$part >\$console 2>&1 || { dmesg | tail -n 20 >\$console; echo 97 >/out/status; busybox poweroff -f; }"
  done
  echo "( $(printf '%q ' "$@") ) >\$console 2>&1"
  echo 'echo $? >/out/status; sync; busybox poweroff -f'
}

run() {
  [ $# -gt 0 ] || die "usage: tools/vm.sh run CMD..."
  setup
  local out=${VM_OUT:-} own_out=
  if [ -z "$out" ]; then out=$(mktemp -d); own_out=yes; fi
  rm -f "$out/status"
  guest_script "$@" >"$out/guest.sh"
  local more=() memory=${VM_MEMORY:-2G} module slots=0
  for module in ${pmem:+"$pmem"} ${dax:+"$dax"}; do  # in this order they are region0 and region1
    [ -e "$module" ] || truncate -s 512M "$module"
    more+=(-device "nvdimm,memdev=pmem$slots"
      -object "memory-backend-file,id=pmem$slots,share=on,mem-path=$module,size=$(stat -c %s "$module")")
    slots=$((slots + 1))
  done
  if [ $slots != 0 ]; then
    memory+=,slots=$slots,maxmem=64G
    more+=(-machine pc,nvdimm=on)
  fi
  if [ -n "$disk" ]; then
    [ -e "$disk" ] || truncate -s 1G "$disk"
    more+=(-drive "file=$disk,if=virtio,format=raw")
  fi
  # The guest's time stamp counter is the host's. The kernel's own measurement of it, at boot, is wrong by a factor where
  # QEMU did not always have a processor, and so is every limit in the guest from then on. (Two instructions a loop. A
  # whole number: the kernel refuses 2.09507e+06.)
  local tsc
  tsc=$(awk '/^flags.* constant_tsc/ { constant = 1 } /^bogomips/ { khz = $3 * 500 }
    END { if (constant) printf "tsc_early_khz=%d\n", khz + 0.5 }' /proc/cpuinfo)
  # What costs an emulated processor most: `rep movsb` takes it a step for each byte (without erms, kernel and C library
  # copy by words), and code at other addresses in each process is translated anew for each (norandmaps).
  timeout --foreground "${VM_TIMEOUT_S:-300}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max,la57=off,erms=off -smp "${VM_CPUS:-2}" \
    -m "$memory" -nodefaults -no-user-config -display none -no-reboot \
    -pidfile "$out/qemu.pid" \
    -kernel "$cache/vmlinux" -initrd "$cache/initrd.gz" \
    -append "console=ttyS0 panic=-1 quiet nokaslr norandmaps no_timer_check mitigations=off random.trust_cpu=on tsc=reliable clocksource=tsc $tsc" -serial "file:$out/console.log" \
    -device virtio-serial -chardev file,id=o,path=/dev/stdout,append=on -device virtserialport,chardev=o,name=out \
    -device virtio-rng-pci \
    -fsdev local,id=r,path=/,security_model=none,readonly=on,multidevs=remap -device virtio-9p-pci,fsdev=r,mount_tag=root \
    -fsdev "local,id=w,path=$out,security_model=none,multidevs=remap" -device virtio-9p-pci,fsdev=w,mount_tag=out \
    "${more[@]}" \
    </dev/null | cat || true
  local status=98
  if [ -s "$out/status" ]; then
    status=$(cat "$out/status")
  else
    echo "vm: no status from the guest; its console ends with:" >&2
    tail -20 "$out/console.log" >&2 || true
  fi
  [ -z "$own_out" ] || rm -rf "$out"
  exit "$status"
}

case ${1:-} in
  setup) setup ;;
  run) shift; run "$@" ;;
  *) sed -n '2,12p' "$0" >&2; exit 2 ;;
esac
