"""The suite that every engine passes, on a cluster of one OSD in memory. Further arguments go to the test program."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))
from ceph_cluster import CephCluster, skip_without_ceph


def main(program, *arguments):
    skip_without_ceph()
    with CephCluster(osds=1) as ceph:
        ceph.pool("index")
        ceph.pool("data")
        environment = {**os.environ, "VERBENA_TEST_CEPH_CONF": ceph.conf, "VERBENA_TEST_CEPH_POOL": "data",
                       "VERBENA_TEST_CEPH_INDEX_POOL": "index"}
        chosen = arguments or ("--gtest_filter=*Rados*",)
        return subprocess.run([program, *chosen], env=environment, timeout=900, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
