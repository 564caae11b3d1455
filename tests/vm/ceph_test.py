#!/usr/bin/env python3
"""RDMA end to end: a client's RDMA to a server whose objects are in a Ceph cluster with OSDs connected by Ceph's RDMA
messenger.

By hand, inside the virtual machine: VM_MEMORY=4G VM_TIMEOUT_S=600 ./dev vm env VERBENA=$PWD/build/verbena python3
tests/vm/ceph_test.py [osds_by_tcp | osds_by_rdma | all_by_rdma]

Traffic that must use the device is counted at the device. Between Verbena and Ceph the messenger is librados' own.
"""
import hashlib
import os
import pathlib
import resource
import socket

import guest
from guest import MIB, SERVER, Server, counters, verbena
from ceph_cluster import CephCluster, skip_without_ceph

SIZE = 4 * MIB  # an object of one stripe
COUNT = 4
# For a guest with little memory. `hostname`: the messenger looks up its own.
DEVICE = ("ms async rdma device name = rxe0", "ms async rdma gid idx = 1", "ms async rdma buffer size = 65536",
          "ms async rdma send buffers = 512", "ms async rdma receive buffers = 2048", "ms async rdma receive queue len = 256",
          "ms async rdma support srq = true", "ms async rdma polling us = 0", "ms async rdma cm = false", "ms async rdma roce ver = 1")


def packets():
    """Packets sent by rxe0, including those to itself."""
    return counters("rxe0", "sent_pkts")


def by_tcp():
    """Bytes over the loopback device: traffic between programs of this host."""
    return int(pathlib.Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


def moved(act):
    """Packets of rxe0 and MiB over loopback during `act`."""
    before = packets(), by_tcp()
    act()
    return packets() - before[0], round((by_tcp() - before[1]) / MIB)


def put_and_get(name, *messenger, ends=True):
    """Puts and gets objects by RDMA; returns the traffic. `ends`: the server can end cleanly."""
    with CephCluster(osds=2, size=2, address=SERVER, grace=60, bytes_per_osd=384 * MIB, more=(*messenger, *DEVICE) if messenger else ()) as ceph:
        ceph.pool("index")
        ceph.pool("data")
        rados = {"conf": ceph.conf, "pool": "data", "index_pool": "index", "timeout": 30}
        server = Server("engine=rados", "cache.size=1MiB", *(f"rados.{key}={value}" for key, value in rados.items())).start()
        try:
            verbena("mb", "s3://faults")
            source = pathlib.Path("/tmp/source")
            source.write_bytes(os.urandom(SIZE))
            source.chmod(0o644)
            expected = hashlib.sha256(source.read_bytes()).hexdigest()
            put = moved(lambda: [verbena("put", str(source), f"s3://faults/{i}", "--via", "native", limit_s=240) for i in range(COUNT)])
            targets = pathlib.Path("/tmp/targets")
            targets.mkdir(exist_ok=True)
            targets.chmod(0o777)
            got = moved(lambda: [verbena("get", f"s3://faults/{i}", str(targets / str(i)), "--via", "native", limit_s=240) for i in range(COUNT)])
            for i in range(COUNT):
                assert hashlib.sha256((targets / str(i)).read_bytes()).hexdigest() == expected, f"the bytes of {i}"
                (targets / str(i)).unlink()
            held = {pid: locked(pid) for pid in ceph.pids()}
            print(f"{name}: {COUNT} PUTs of {SIZE // MIB} MiB: {put[0]} packets of rxe0, {put[1]} MiB by TCP; GETs: {got[0]} packets, {got[1]} MiB; "
                  f"memory of Ceph's daemons that is locked or pinned: {sorted(held.values())} MiB", flush=True)
            return put, got
        finally:
            if ends:
                server.stop()
            else:
                server.kill()


def locked(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in status if line.startswith(("VmLck", "VmPin"))) >> 10


SIZE_ALL = COUNT * SIZE // MIB


def osds_by_tcp():
    put, got = put_and_get("OSDs by TCP")
    # To the first OSD and from there to the second one.
    assert put[1] >= 2 * SIZE_ALL, put
    assert got[1] >= SIZE_ALL, got


def osds_by_rdma():
    """The cluster network, which replicates an object to its second OSD."""
    put, got = put_and_get("OSDs by RDMA", "ms cluster type = async+rdma")
    assert SIZE_ALL <= put[1] < 2 * SIZE_ALL, f"{put}: copies went by TCP"
    assert got[1] >= SIZE_ALL, got


def all_by_rdma():
    """And librados in the server. It calls ibv_fork_init(), and aborts if memory was registered before that: an
    environment variable makes libibverbs do so at the first use (rdma-core, RDMAV_FORK_SAFE). The server is killed
    here, because its clean end crashes with signal 11 (librados 16.2.15)."""
    os.environ["RDMAV_FORK_SAFE"] = "1"
    put, got = put_and_get("all of Ceph by RDMA", "ms type = async+rdma", ends=False)
    assert put[1] < SIZE_ALL and got[1] < SIZE_ALL, f"{put}, {got}: bytes went by TCP"


if __name__ == "__main__":
    skip_without_ceph()
    socket.sethostname("guest")
    resource.setrlimit(resource.RLIMIT_NOFILE, (65536, 65536))
    guest.prepare()
    guest.run([osds_by_tcp, osds_by_rdma, all_by_rdma])
