#!/usr/bin/python3
"""`./dev cluster`: a Ceph cluster with a monitor and three OSDs in memory, and three servers over it, all on loopback,
until Ctrl-C.

All files are in one temporary folder, which is removed at the end.
"""
import argparse
import os
import pathlib
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from ceph_cluster import CephCluster, available  # noqa: E402
import verbena_server  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--osds", type=int, default=3)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--once", action="store_true", help="end as soon as all of it runs")
    arguments = parser.parse_args()
    if not available():
        print("cluster: Ceph's daemons are not installed (ceph-mon, ceph-osd, ceph-common); ./dev setup installs them")
        sys.exit(77)
    # Handled as Ctrl-C: the exit path ends the daemons.
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    verbena_server.ON_RADOS = False
    servers = []
    with CephCluster(osds=arguments.osds) as ceph:
        ceph.pool("verbena.index")
        ceph.pool("verbena.data")
        try:
            for i in range(arguments.servers):
                folder = ceph.folder / f"server{i}"
                folder.mkdir()
                args = ["--engine", "rados", "--set", f"rados.conf={ceph.conf}"]
                if i > 0:
                    args += ["--set", f"encryption.key_file={ceph.folder}/server0/master.keys"]
                servers.append(Server(str(folder), args).start())
            print(f"export AWS_ACCESS_KEY_ID={ACCESS_KEY}\nexport AWS_SECRET_ACCESS_KEY={SECRET_KEY}")
            print(f"export CEPH_CONF={ceph.conf}\n")
            for server in servers:
                print(f"S3 {server.http}   native {server.native}")
            print("\nCtrl-C ends all of it.", flush=True)
            if not arguments.once:
                signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    os.environ.setdefault("VERBENA", str(ROOT / "build" / "verbena"))
    main()
