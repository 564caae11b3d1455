#!/usr/bin/env python3
"""The part of rivals.py that runs in the virtual machine: one round of all rows, a JSON line each.

Server and clients are as in tests/vm (guest.py): 10.77.0.1 on rxe0 serves, 10.77.0.2 on rxe1 asks. All data lies in
one tmpfs of the guest: the exported folder, the image behind the NVMe disk and Verbena's data directory."""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "vm"))

import guest  # noqa: E402

DATA, MOUNT, EXPORT = "/run/rivals", "/run/rivals-mount", "/run/rivals/export"
NQN = "nqn.2026-11.verbena:rivals"
# "list" after what writes the files that it lists, which are more than those that are created.
ROWS = ("random", "sequential_1m", "sequential_16m", "create", "read", "values", "list", "checkpoint")
TICKS = os.sysconf("SC_CLK_TCK")


def threads_of(pid):
    return pathlib.Path(f"/proc/{pid}/task").iterdir()


def cpu_s(pids):
    """Time on CPUs of all threads of these processes."""
    return sum(int((thread / "schedstat").read_text().split()[0]) for pid in pids for thread in threads_of(pid)) / 1e9


def user_s(pids):
    """The part of that which their own code took, and not the kernel for them."""
    return sum(int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11]) for pid in pids) / TICKS


def machine_s():
    """Time that the machine's CPUs were not idle."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return (sum(map(int, fields[:8])) - int(fields[3]) - int(fields[4])) / TICKS


def named(name):
    """Pids of the kernel's threads of this name."""
    return [int(folder.name) for folder in pathlib.Path("/proc").iterdir()
            if folder.name.isdigit() and (folder / "comm").read_text().strip() == name]


class Load:
    """bench/rivals_load.cc."""

    def __init__(self, arguments):
        self.arguments = arguments

    def __call__(self, way, row, place, servers, as_client, files=None):
        a = self.arguments
        command = [*(guest.AS_CLIENT if as_client else []), a.load, way, row, place, str(a.seconds), str(a.large),
                   str(files or (a.files if row == "list" else a.created)), str(a.checkpoint)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=dict(os.environ, AWS_ENDPOINT_URL=guest.HTTP, **guest.KEYS))
        if process.stdout.readline() != "ready\n":
            raise AssertionError(f"{way} {row}: exit status {process.wait()}")
        before, user, machine = cpu_s(servers), user_s(servers), machine_s()
        print(file=process.stdin, flush=True)
        answer = process.stdout.readline()
        found = {"server_cpu_s": cpu_s(servers) - before if servers else None,
                 "server_user_s": user_s(servers) - user if servers else None, "machine_cpu_s": machine_s() - machine}
        process.communicate()
        if process.returncode != 0:
            raise AssertionError(f"{way} {row}: exit status {process.returncode}")
        return json.loads(answer) | found


def say(side, row, found):
    print(json.dumps({"side": side, "row": row, **found}), flush=True)


class Mounted:
    """A file system whose client forgets all it has cached before each row. `folder`: where its server has the files."""

    def __init__(self, name, mount, servers, folder=None):
        self.name, self.mount, self.servers, self.folder = name, mount, servers, folder

    def row(self, load, row, way="direct"):
        subprocess.run(self.mount, check=True)
        try:
            return load(way, row, MOUNT, self.servers(), False)
        finally:
            guest.sh(f"umount {MOUNT}")

    def fill(self, load):
        """All small files, on the server's side if that has a folder: by this client it could take half an hour."""
        if not self.folder:
            subprocess.run(self.mount, check=True)
        guest.sh(f"rm -rf {self.folder or MOUNT}/d*")
        load("buffered", "create", self.folder or MOUNT, [], False, load.arguments.files)
        if not self.folder:
            guest.sh(f"umount {MOUNT}")

    def rows(self, load, wanted):
        say(self.name, "prepare", self.row(load, "prepare"))
        for row in wanted:
            if row == "list":
                self.fill(load)
            say(self.name, row, self.row(load, row, "buffered" if row == "checkpoint" else "direct"))
            if row.startswith("sequential"):
                say(self.name, row + "_buffered", self.row(load, row, "buffered"))


def nfs_server():
    for folder in (EXPORT, MOUNT):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    guest.sh("modprobe -a nfsd nfs nfsv4 rpcrdma")
    guest.sh("mount -t nfsd nfsd /proc/fs/nfsd")
    guest.sh("mkdir -p /run/rpc_pipefs /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery; touch /var/lib/nfs/etab /var/lib/nfs/rmtab")
    guest.sh(f"exportfs -o rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0 {guest.CLIENT}:{EXPORT}")
    guest.sh("rpc.mountd -N 3")
    guest.sh("rpc.nfsd -N 3 --rdma=20049 16")
    guest.sh("echo Y >/proc/fs/nfsd/v4_end_grace || true")
    # The kernel's mount has no user of its own: its packets to the server leave by the client's device.
    guest.sh(f"ip rule add pref 6 iif lo uidrange 0-0 to {guest.SERVER} lookup 102")


def nfs(options):
    return ["mount", "-t", "nfs4", "-o", f"vers=4.2,sec=sys,timeo=50,{options}", f"{guest.SERVER}:/", MOUNT]


def nvme_disk(size):
    """As tools/vm.sh's; the image lies in the same tmpfs as the other data."""
    target = pathlib.Path("/sys/kernel/config/nvmet")
    guest.sh("modprobe -a nvmet-rdma nvme-rdma ext4; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config")
    guest.sh(f"truncate -s {size} {DATA}/nvme.img")
    system, port = target / "subsystems" / NQN, target / "ports" / "1"
    space = system / "namespaces" / "1"
    for folder in (system, space, port):
        folder.mkdir()
    for file, text in ((system / "attr_allow_any_host", "1"), (space / "buffered_io", "1"),
                       (space / "device_path", f"{DATA}/nvme.img"), (space / "enable", "1"), (port / "addr_trtype", "rdma"),
                       (port / "addr_adrfam", "ipv4"), (port / "addr_traddr", guest.SERVER), (port / "addr_trsvcid", "4420")):
        file.write_text(text)
    (port / "subsystems" / NQN).symlink_to(system)
    pathlib.Path("/dev/nvme-fabrics").write_text(
        f"transport=rdma,traddr={guest.SERVER},trsvcid=4420,host_traddr={guest.CLIENT},nqn={NQN}")
    guest.until(pathlib.Path("/dev/nvme0n1").is_block_device, 20, "the disk")
    guest.sh("mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/nvme0n1")


@contextlib.contextmanager
def verbena(arguments, *settings, **options):
    # What the rivals serve from the page cache, this server serves from its hot tier.
    hot = 10 * arguments.large  # what was read once has a tenth of it
    arena = (128 << 20) + hot * 4 // 3 + arguments.checkpoint
    # One core, for the guest has two, and the other one is the client's.
    server = guest.Server(f"arena_size={arena}", f"cache.size={hot}", f"cache.object_size_max={arguments.large}",
                          "rdma.operation_timeout_ms=60000", "cores=1", *settings, **options).start()
    try:
        yield server
    finally:
        server.kill()
        guest.sh(f"rm -rf {server.directory}")


def objects(name, load, wanted, server, provider):
    pids = [server.process.pid]
    say(name, "prepare", load(provider, "prepare", "rivals", pids, True))
    for row in wanted:
        bucket = "rivals-list" if row == "list" else "rivals"
        if row == "list":
            load(provider, "create", bucket, pids, True, load.arguments.files)
        say(name, row, load(provider, row, bucket, pids, True))
        if row.startswith("sequential"):
            say(name, row + "_ahead2", load(provider, row + "_ahead2", bucket, pids, True))
            say(name, row + "_buffered", load(provider, row + "_ahead4", bucket, pids, True))


@contextlib.contextmanager
def fuse_mounted(load, provider, *options):
    """bench/rivals_fuse.cc at MOUNT, its network that of a client; gives its pid."""
    guest.sh("modprobe fuse")
    pathlib.Path(MOUNT).mkdir(parents=True, exist_ok=True)
    # A file system of another user than root, whom the load runs as.
    command = [word.replace("+ipc_lock", "+ipc_lock,+sys_admin") for word in guest.AS_CLIENT]
    process = subprocess.Popen([*command, load.arguments.fuse, provider, "rivals", str(load.arguments.large), MOUNT, "-f", "-o",
                                "max_read=1048576,allow_other"], stdin=subprocess.DEVNULL,
                               env=dict(os.environ, AWS_ENDPOINT_URL=guest.HTTP, **guest.KEYS))
    guest.until(lambda: os.path.ismount(MOUNT) or process.poll() is not None, 60, "the mount")
    try:
        yield process.pid
    finally:
        guest.sh(f"umount {MOUNT}")
        process.wait(20)


def fuse(load, wanted):
    """Reads of a file system that does nothing: what FUSE itself costs."""
    if load.arguments.fuse:
        with fuse_mounted(load, "none") as pid:
            for row in filter(ROWS[:3].__contains__, wanted):
                say("FUSE", row, load("direct", row, MOUNT, [pid], False))


def mount(load, wanted):
    """The same, with the bytes of an object over the native door."""
    if load.arguments.fuse:
        with verbena(load.arguments, device=f"{guest.DEVICE}0") as server:
            pids = [server.process.pid]
            load("verbs", "prepare", "rivals", pids, True)
            with fuse_mounted(load, "verbs"):
                for row in filter(ROWS[:3].__contains__, wanted):
                    say("Verbena, mounted by FUSE", row, load("direct", row, MOUNT, pids, False))


def native(name, provider, device, *settings):
    def side(load, wanted):
        with verbena(load.arguments, *settings, device=device) as server:
            objects(name, load, wanted, server, provider)
    return side


def mounted_nfs(name, options):
    def side(load, wanted):
        if not os.path.ismount("/proc/fs/nfsd"):
            nfs_server()
        Mounted(name, nfs(options), lambda: named("nfsd"), EXPORT).rows(load, wanted)
        guest.sh(f"rm -rf {EXPORT}/*")
    return side


def nvme(load, wanted):
    a = load.arguments
    nvme_disk(2 * a.checkpoint + 2 * a.large + 16384 * a.files + (256 << 20))
    Mounted("ext4 on NVMe over RDMA", ["mount", "/dev/nvme0n1", MOUNT], list).rows(load, wanted)


# In the order in which they are measured, what is compared most first.
SIDES = {
    "verbs": native("Verbena, verbs", "verbs", f"{guest.DEVICE}0"),
    "nfs_rdma": mounted_nfs("NFS over RDMA", "rdma,port=20049"),
    "mount": mount,
    "fuse": fuse,
    "nvme": nvme,
    "tcp": native("Verbena, tcp", "tcp", None, "rdma.tcp_encryption=off"),
    "nfs_tcp": mounted_nfs("NFS over TCP", "tcp,port=2049"),
}


def boot_s():
    say("guest", "boot", {"seconds": float(pathlib.Path("/proc/uptime").read_text().split()[0])})


def main():
    parser = argparse.ArgumentParser()
    for name in ("--load", "--fuse"):
        parser.add_argument(name)
    for name in ("--large", "--files", "--created", "--checkpoint"):
        parser.add_argument(name, type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--rows", default=",".join(ROWS))
    arguments = parser.parse_args()
    boot_s()
    rows, load = arguments.rows.split(","), Load(arguments)
    pathlib.Path(DATA).mkdir()
    guest.sh(f"mount -t tmpfs -o size=90% rivals {DATA}; mkdir -p {MOUNT}")
    tempfile.tempdir = DATA
    guest.prepare()
    for name in arguments.sides.split(","):
        try:
            SIDES[name](load, rows)
        except Exception as error:  # noqa: BLE001: the other sides still run, and the page tells of this one
            traceback.print_exc(file=sys.stdout)
            say(name, "failed", {"error": str(error).splitlines()[0]})
    say("guest", "end", {"seconds": time.clock_gettime(time.CLOCK_BOOTTIME)})


if __name__ == "__main__":
    main()
