"""A Ceph cluster on loopback for tests and for trying things out: one monitor and some OSDs, on free ports, in a folder of its own.

    with CephCluster(osds=3) as ceph:
        ceph.pool("data"); ceph.conf

Daemons are ended by their process ids, also when the test is killed (orphans.py). Without Ceph's programs available() is False.
"""

import atexit
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import uuid

import orphans

PROGRAMS = ("ceph-mon", "ceph-osd", "monmaptool", "ceph")

CONF = """[global]
fsid = {fsid}
mon host = [v2:{address}:{port}]
public addr = {address}
cluster addr = {address}
ms bind msgr1 = false
auth cluster required = none
auth service required = none
auth client required = none
run dir = {dir}/run
admin socket = {dir}/run/$name.$pid.asok
log file = {dir}/log/$name.log
pid file = {dir}/run/$name.pid
crash dir = {dir}
keyring = {dir}/keyring
osd pool default size = {size}
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon allow pool delete = true
mon max pg per osd = 1000
mon osd min up ratio = 0
mon osd min in ratio = 0
mon osd min down reporters = 1
mon osd reporter subtree level = osd
osd max markdown count = 1000000
osd heartbeat interval = 1
osd heartbeat grace = {grace}
paxos propose interval = 0.05
paxos min wait = 0.01
{more}
debug ms = 0/0
debug osd = 0/0
debug bluestore = 0/0
debug rocksdb = 0/0
debug bdev = 0/0
debug auth = 0/0
debug monc = 0/0
debug mon = 0/0
debug paxos = 0/0
[mon]
mon data = {dir}/mon
mon data avail crit = 1
mon data avail warn = 1
mon warn on insecure global id reclaim allowed = false
auth allow insecure global id reclaim = false
[osd]
osd data = {dir}/osd$id
osd objectstore = {store}
osd class load list = *
osd class default list = *
osd memory target = 939524096
# A call whose connection was lost is sent again, and an OSD that has forgotten it makes it twice: here after ten others.
osd min pg log entries = 10
osd max pg log entries = 10
osd pg log dups tracked = 10
osd pg log trim min = 1
osd target pg log entries per osd = 1
memstore device bytes = {bytes}
memstore page set = false
bluestore block size = 4294967296
bluestore block db create = false
bluestore block wal create = false
osd op num shards = 2
osd op num threads per shard = 1
ms async op threads = 2
[client]
log file =
admin socket =
"""


def available():
    return all(shutil.which(program) for program in PROGRAMS)


def skip_without_ceph():
    """For ctest: exit code 77 marks a skipped test."""
    if not available():
        print("skipped: Ceph's daemons are not installed (ceph-mon, ceph-osd, ceph-common)")
        raise SystemExit(77)


_shared = None


def shared():
    """One cluster with the pools `index` and `data` for all servers of a test; it ends with the test."""
    global _shared
    if _shared is None:
        skip_without_ceph()
        _shared = CephCluster(osds=1)
        atexit.register(_shared.stop)
        _shared.start()
        _shared.pool("index")
        _shared.pool("data")
    return _shared


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class CephCluster:
    """`address`: of this host, on which all its daemons listen. `more`: lines of ceph.conf."""

    def __init__(self, osds=1, size=None, folder=None, store="memstore", bytes_per_osd=2 << 30, grace=5, address="127.0.0.1", more=()):
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="ceph-"))
        self.osds = osds
        self.size = size or min(osds, 3)
        self.store = store
        self.bytes = bytes_per_osd
        self.grace = grace
        self.address = address
        self.more = "\n".join(more)
        self.conf = str(self.folder / "ceph.conf")

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        orphans.watch(self.folder)
        for name in ("mon", "run", "log"):
            (self.folder / name).mkdir(parents=True)
        fsid, port = str(uuid.uuid4()), free_port()
        pathlib.Path(self.conf).write_text(CONF.format(fsid=fsid, port=port, dir=self.folder, size=self.size, store=self.store,
                                                       bytes=self.bytes, grace=self.grace, address=self.address, more=self.more))
        monmap = str(self.folder / "monmap")
        self._daemon("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:{self.address}:{port}]", monmap)
        self._daemon("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap)
        self._daemon("ceph-mon", "-i", "a")
        for i in range(self.osds):
            osd = str(uuid.uuid4())
            (self.folder / f"osd{i}").mkdir()
            self.ceph("osd", "new", osd, str(i))
            self._daemon("ceph-osd", "-i", str(i), "--mkfs", "--osd-uuid", osd)
            self.start_osd(i)
        self.wait_for_osds(self.osds)

    def stop(self):
        orphans.kill_daemons(self.folder)
        time.sleep(0.2)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ceph(self, *args, timeout=180):
        done = subprocess.run(["ceph", *args], env=self._environment(), cwd="/", timeout=timeout, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"ceph {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def rados(self, *args, pool="index", timeout=180):
        """What the command `rados` prints, as bytes."""
        return subprocess.run(["rados", "-p", pool, *args], env=self._environment(), cwd="/", timeout=timeout, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout

    def pool(self, name, size=None):
        self.ceph("osd", "pool", "create", name, "8", "8", "replicated")
        if size is not None:
            self.ceph("osd", "pool", "set", name, "size", str(size), *(["--yes-i-really-mean-it"] if size == 1 else []))

    def wait_for_osds(self, count, seconds=180):
        deadline = time.monotonic() + seconds
        while json.loads(self.ceph("osd", "stat", "-f", "json"))["num_up_osds"] != count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} OSDs are not up")
            time.sleep(0.1)

    def start_osd(self, i):
        self._daemon("ceph-osd", "-i", str(i))

    def pids(self):
        """Process ids of the running daemons."""
        return orphans.daemons(self.folder)

    def signal_osd(self, i, number):
        os.kill(int((self.folder / "run" / f"osd.{i}.pid").read_text()), number)

    def _environment(self):
        return {**os.environ, "CEPH_CONF": self.conf}

    def _daemon(self, *args):
        subprocess.run(args, env=self._environment(), cwd="/", timeout=180, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
