#!/usr/bin/python3
"""A killed test leaves no daemon of its cluster and no server running."""
import os
import pathlib
import signal
import subprocess
import sys
import time

LIB = pathlib.Path(__file__).resolve().parents[1] / "lib"
sys.path.insert(0, str(LIB))
from ceph_cluster import skip_without_ceph  # noqa: E402

WAIT_MAX_S = 20
VICTIM = """
import sys, time
sys.path.insert(0, sys.argv[1])
import verbena_server
verbena_server.ON_RADOS = True
import ceph_cluster
ceph = ceph_cluster.shared()
server = verbena_server.Server().start()
print(ceph.folder, server.process.pid, server.directory, flush=True)
time.sleep(600)
"""


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def main():
    skip_without_ceph()
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, str(LIB)], stdout=subprocess.PIPE, text=True)
    folder, server, directory = victim.stdout.readline().split()
    pids = [int(server)] + [int(path.read_text()) for path in pathlib.Path(folder, "run").glob("*.pid")]
    assert len(pids) == 3 and all(map(is_alive, pids)), pids  # the server, a monitor and an OSD
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    until = time.monotonic() + WAIT_MAX_S
    while any(map(is_alive, pids)) or os.path.exists(folder):
        assert time.monotonic() < until, f"they are still there: {[pid for pid in pids if is_alive(pid)]}, {folder}"
        time.sleep(0.1)
    subprocess.run(["rm", "-rf", directory, f"{directory}.log"], check=True)
    print("all gone")


if __name__ == "__main__":
    main()
