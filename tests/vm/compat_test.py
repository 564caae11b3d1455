#!/usr/bin/env python3
"""The libraries that other vendors' programs load (clients/compat), between two RDMA devices: the tests that run on
tcp elsewhere, against a server on the other device. compat_test.py FOLDER-OF-THE-LIBRARIES"""
import pathlib
import subprocess
import sys

import guest
from guest import AS_CLIENT, CLIENT, Server

COMPAT = pathlib.Path(__file__).resolve().parents[1] / "compat"
LIBRARIES = pathlib.Path(sys.argv[1]).resolve()


def holds(test, library):
    server = Server().start()
    before = guest.counters(f"{guest.DEVICE}0", "sent_pkts")
    variables = {"TEST_S3RDMA_ENDPOINT": guest.HTTP, "S3RDMA_PROVIDER": "verbs", "S3RDMA_ADDRESS": CLIENT}
    done = subprocess.run([*AS_CLIENT, "env", *(f"{name}={value}" for name, value in variables.items()), sys.executable, "-B",
                           str(COMPAT / test), str(LIBRARIES / library)], check=False)
    moved = guest.counters(f"{guest.DEVICE}0", "sent_pkts") - before
    server.stop()
    print(f"{library}: exit status {done.returncode}; the server's device has sent {moved} packets", flush=True)
    return done.returncode == 0 and moved > 100


def main():
    guest.prepare()
    tests = {"s3rdma_test.py": "libs3rdma.so.0", "cuobjclient_test.py": "libcuobjclient.so.1"}
    failed = [library for test, library in tests.items() if not holds(test, library)]
    sys.exit(f"do not hold: {failed}" if failed else 0)


main()
