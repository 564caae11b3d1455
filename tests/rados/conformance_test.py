"""The conformance suite of all engines, on a cluster of one OSD in memory.

usage: conformance_test.py TEST_PROGRAM [Rados | RadosSplitting | RadosKeeping | --gtest_...]

Without a form: all of them. $TEST_VERBENA_WIRE: wire.cc, compiled; tests that need it are skipped without it.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))
import orphans
from ceph_cluster import CephCluster, skip_without_ceph

# Processes that share a form's tests: each rig has a namespace of its own, and tests mostly wait.
SHARDS = 3
TIMEOUT_S = 850
# Names end in the engine's name; suites for this engine alone end in OnRados.
FILTERS = {"Rados": "*Rados*-*/RadosSplitting:*/RadosKeeping", "RadosSplitting": "*/RadosSplitting", "RadosKeeping": "*/RadosKeeping"}


def run_shards(program, form, environment):
    """The exit code of the first process that failed, or 0. Their outputs are printed one after the other."""
    command = [program, f"--gtest_filter={FILTERS[form]}", "--gtest_brief=1"]
    running = []
    for shard in range(SHARDS):
        output = tempfile.TemporaryFile()
        mine = {**environment, "GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(shard)}
        running.append((subprocess.Popen(command, env=mine, stdin=subprocess.DEVNULL, stdout=output, stderr=output), output))
        orphans.add(running[-1][0].pid)
    failed = 0
    deadline = time.monotonic() + TIMEOUT_S
    for process, output in running:
        try:
            failed = process.wait(max(deadline - time.monotonic(), 0)) or failed
        except subprocess.TimeoutExpired:
            print(f"not over within {TIMEOUT_S} s:")
            process.kill()
            failed = process.wait()
        orphans.remove(process.pid)
        output.seek(0)
        print(output.read().decode(errors="replace"), end="", flush=True)
        output.close()
    return 1 if failed else 0


def main(program, *arguments):
    skip_without_ceph()
    with CephCluster(osds=1) as ceph:
        ceph.pool("index")
        ceph.pool("data")
        environment = {**os.environ, "VERBENA_TEST_CEPH_CONF": ceph.conf, "VERBENA_TEST_CEPH_POOL": "data",
                       "VERBENA_TEST_CEPH_INDEX_POOL": "index"}
        if wire := os.environ.get("TEST_VERBENA_WIRE"):
            environment["LD_PRELOAD"] = wire
        if arguments and arguments[0] in FILTERS:
            return run_shards(program, arguments[0], environment)
        return subprocess.run([program, *(arguments or ("--gtest_filter=*Rados*",))], env=environment, timeout=TIMEOUT_S,
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
