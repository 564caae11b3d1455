"""The servers that bench/rados.py compares on one Ceph cluster: a Verbena server and Ceph's own gateway (radosgw).
Both report their CPU time and the number of their operations on the OSDs."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "lib"))
import verbena_server  # noqa: E402
from ceph_cluster import CephCluster, available, free_port  # noqa: E402, F401
from verbena_server import ACCESS_KEY, SECRET_KEY, boto3_client  # noqa: E402

SHARDS = 101  # of the gateway's bucket index
START_S = 60

GATEWAY_CONF = """
[client.rgw.bench]
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw override bucket index max shards = {shards}
rgw dynamic resharding = false
rgw data = {folder}/rgw
ms mon client mode = crc
debug rgw = 0/0
debug civetweb = 0/0
admin socket = {folder}/run/rgw.asok
log file = {folder}/log/rgw.log
"""


def cpu_seconds(pid):
    """CPU seconds of the process and all its threads."""
    return time.clock_gettime(~pid << 3 | 2)


class Cluster(CephCluster):
    """A cluster with the pools of both, and the OSDs' CPU time."""

    def start(self):
        super().start()
        self.pool("verbena.index")
        self.pool("verbena.data")

    def cpu(self):
        return sum(cpu_seconds(int((self.folder / "run" / f"osd.{i}.pid").read_text())) for i in range(self.osds))


class Verbena(verbena_server.Server):
    """`settings`: of the server. `beside`: a server with the same store and keys."""
    name = "Verbena"

    def __init__(self, ceph, settings=(), beside=None):
        folder = ceph.folder / f"verbena{len(list(ceph.folder.glob('verbena*')))}"
        folder.mkdir()
        settings = [f"rados.conf={ceph.conf}", *settings]
        if beside is not None:
            settings.append(f"encryption.key_file={beside.directory}/master.keys")
        arguments = ["--engine", "rados"] + [word for setting in settings for word in ("--set", setting)]
        super().__init__(str(folder), arguments, {"VERBENA_LOG_LEVEL": "error"})

    @property
    def pid(self):
        return self.process.pid

    def cpu(self):
        return cpu_seconds(self.pid)

    def operations(self):
        """Operations on the OSDs so far."""
        text = urllib.request.urlopen(f"http://{self.native}/-/metrics", timeout=60).read().decode()
        return sum(int(count) for count in re.findall(r"^verbena_rados_calls_total\{.*\} (\d+)", text, re.M))

    def forget(self):
        """Restarts with empty caches."""
        self.stop()
        self.start()
        boto3_client(self.http).list_buckets()


class Gateway:
    """radosgw, which creates its own pools."""
    name = "radosgw"

    def __init__(self, ceph):
        self.ceph = ceph
        self.http = self.process = None

    @property
    def pid(self):
        return self.process.pid

    def __enter__(self):
        port = free_port()
        self.http = f"http://127.0.0.1:{port}"
        (self.ceph.folder / "rgw").mkdir()
        with open(self.ceph.conf, "a", encoding="utf-8") as conf:
            conf.write(GATEWAY_CONF.format(port=port, folder=self.ceph.folder, shards=SHARDS))
        self.process = subprocess.Popen(["radosgw", "-f", "-n", "client.rgw.bench", "-c", self.ceph.conf], cwd="/",
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._wait()
            subprocess.run(["radosgw-admin", "user", "create", "--uid=bench", "--display-name=bench", f"--access-key={ACCESS_KEY}",
                            f"--secret-key={SECRET_KEY}", "-c", self.ceph.conf, "-n", "client.rgw.bench"], cwd="/", check=True,
                           capture_output=True, timeout=START_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self):
        deadline = time.monotonic() + START_S
        while True:
            try:
                urllib.request.urlopen(self.http, timeout=2).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    log = self.ceph.folder / "log" / "rgw.log"
                    raise RuntimeError("radosgw did not start: " + (log.read_text()[-2000:] if log.exists() else "")) from None
                time.sleep(0.1)

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def cpu(self):
        return cpu_seconds(self.pid)

    def operations(self):
        done = subprocess.run(["ceph", "--admin-daemon", str(self.ceph.folder / "run" / "rgw.asok"), "perf", "dump"], cwd="/",
                              capture_output=True, check=True, timeout=60,
                              env={**os.environ, "CEPH_CONF": self.ceph.conf})
        return sum(counters["op"] for name, counters in json.loads(done.stdout).items() if name.startswith("objecter"))

    def forget(self):
        """Nothing to do: it caches no objects."""
