"""Starts and stops a Verbena server for a test. Used by all scripts under tests/.

The server listens on 127.0.0.1 on free ports and is ended by pid.
"""
import atexit
import collections
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import orphans  # noqa: E402

ACCESS_KEY = "VERBENATESTKEY0000AA"
SECRET_KEY = "test/secret+key0000000000000000000000000"
# $TEST_SERVER_START_S: for an emulated machine, whose processor is twenty times slower.
START_TIMEOUT_S, STOP_TIMEOUT_S = int(os.environ.get("TEST_SERVER_START_S", "60")), 30
native_of = {}  # by HTTP endpoint, of the servers started here
# The in-memory engine: nothing can be found on disk or after a restart.
IN_MEMORY = os.environ.get("TEST_VERBENA_ENGINE") == "memory"
# The engine over Ceph, on a cluster that lives as long as the test; each data directory has a namespace of its own
# there.
ON_RADOS = os.environ.get("TEST_VERBENA_ENGINE") == "rados"


def program():
    """The binary under test: $VERBENA, else the release build."""
    return os.environ.get("VERBENA") or str(pathlib.Path(__file__).resolve().parents[2] / "build" / "verbena")


def tool(name):
    """A client program: Debian's own, whatever comes first in PATH."""
    system = f"/usr/bin/{name}"
    return system if os.access(system, os.X_OK) else shutil.which(name) or name


# Offsets between the clocks of servers over one cluster in the cluster suites.
CLOCKS_AHEAD_MS = (0, -50, 2000, 5)


def clock_environment(ahead_ms):
    """The environment that puts a server's wall clock ahead of the machine's (tests/rados/clock_ahead.cc)."""
    library = pathlib.Path(program()).parent / "bin" / "clock_ahead.so"
    if not library.exists():
        raise FileNotFoundError(f"{library}: build the target clock_ahead")
    return {"LD_PRELOAD": str(library), "CLOCK_AHEAD_MS": str(ahead_ms)}


def client_environment(home):
    """An environment for client programs without the user's configuration."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "VERBENA_", "RCLONE_"))}
    env.update(AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, AWS_REGION="us-east-1",
               AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true", AWS_PAGER="", HOME=str(home),
               AWS_CONFIG_FILE=str(pathlib.Path(home) / "none"), AWS_SHARED_CREDENTIALS_FILE=str(pathlib.Path(home) / "none"))
    return env


def rados_arguments(directory):
    """The arguments with which a server in this directory stores objects in the test's cluster."""
    import ceph_cluster
    ceph = ceph_cluster.shared()
    settings = {"conf": ceph.conf, "pool": "data", "index_pool": "index", "namespace": os.path.basename(directory)}
    return ["--engine", "rados"] + [word for key, value in settings.items() for word in ("--set", f"rados.{key}={value}")]


class Server:
    """A running `verbena server`. `directory` outlives it, so that a test can start another on the same data."""

    def __init__(self, directory=None, args=(), env=None, memory=False, files=None, clock_ahead_ms=0, rdma="127.0.0.1"):
        """`memory`: without a data directory; the one created anyway holds only the log. `files`: limit of open
        files. `clock_ahead_ms`: of its wall clock. `rdma`: the address of its native door."""
        self.rdma = rdma
        self.files = files
        self.program = None  # set for another build than program()
        self.memory = memory or IN_MEMORY
        self.own_directory = directory is None
        self.directory = str(directory or tempfile.mkdtemp(prefix="verbena-test-"))
        self.args = list(args)
        if ON_RADOS and not self.memory:
            self.args += rados_arguments(self.directory)
        self.env = dict(os.environ, VERBENA_ROOT_ACCESS_KEY=ACCESS_KEY, VERBENA_ROOT_SECRET_KEY=SECRET_KEY,
                        **{"VERBENA_RDMA_TOKEN_PROVIDER": "auto,tcp", "VERBENA_RDMA_TOKEN_NETWORKS": "127.0.0.0/8",
                           **(env or {}), **(clock_environment(clock_ahead_ms) if clock_ahead_ms else {})})
        self.process = None
        self.http = self.native = None
        self.log_path = os.path.join(self.directory, "..", os.path.basename(self.directory) + ".log")

    def start(self):
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [self.program or program(), "server", "--memory" if self.memory else self.directory,
             "--http", "127.0.0.1:0", "--rdma", f"{self.rdma}:0", *self.args],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=self.env,
            preexec_fn=self._limit_files if self.files else None)
        log.close()
        orphans.add(self.process.pid)
        self._read_endpoints()
        return self

    def _limit_files(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))

    def _read_endpoints(self):
        text, deadline = "", time.monotonic() + START_TIMEOUT_S
        while self.http is None or self.native is None:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self.process.stdout.fileno(), 65536).decode() if ready else ""
            if not chunk:
                self.kill()
                raise RuntimeError(f"the server did not start; it printed:\n{text}\n{self.log()}")
            text += chunk
            http = re.search(r"^\s*S3\b.*?(https?://[\d.]+:\d+)", text, re.M)
            native = re.search(r"^\s*native\b.*?([\d.]+:\d+)", text, re.M | re.I)
            if http and native and text.endswith("\n"):
                self.http, self.native = http.group(1), native.group(1)
                native_of[self.http] = self.native

    def log(self):
        try:
            return pathlib.Path(self.log_path).read_text(errors="replace")[-8000:]
        except OSError:
            return ""

    def kill(self):
        """kill -9: to the process, the same as a power cut."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            orphans.remove(self.process.pid)
            self.process.stdout.close()
        self.process = self.http = self.native = None

    def stop(self):
        """A clean end. Returns the exit status."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the server did not end within {STOP_TIMEOUT_S} s of SIGTERM\n{self.log()}")
        orphans.remove(self.process.pid)
        self.process.stdout.close()
        self.process = self.http = self.native = None
        return status

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                status = self.stop()
                assert status in (0, None), f"exit status {status}\n{self.log()}"
            else:
                self.kill()
        finally:
            if self.own_directory:
                shutil.rmtree(self.directory, ignore_errors=True)
            if os.path.exists(self.log_path):
                os.unlink(self.log_path)


def boto3_client(endpoint, **config):
    import boto3
    from botocore.config import Config
    config.setdefault("retries", {"max_attempts": 1, "mode": "standard"})
    config.setdefault("s3", {"addressing_style": "path"})
    client = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
                          region_name="us-east-1", config=Config(**config))
    if os.environ.get("TEST_BOTO3") == "accelerated" and endpoint in native_of:
        accelerated.wrap(client, native_of[endpoint])
    return client


class accelerated:
    """Reports the effect of verbena.accelerate in this process, at its end, for tests with TEST_BOTO3=accelerated."""
    counts, reasons = collections.Counter(), collections.Counter()

    @classmethod
    def wrap(cls, client, native):
        sys.path.insert(0, os.environ.get("CLIENT_PYTHON") or str(pathlib.Path(__file__).resolve().parents[2] / "build" / "python"))
        import verbena
        if not cls.counts and not cls.reasons:
            atexit.register(lambda: print("accelerated", json.dumps([cls.counts, cls.reasons]), flush=True))
        acceleration, close = verbena.accelerate(client, native_endpoint=native, token_provider="tcp"), client.close
        acceleration.counts, acceleration.reasons = cls.counts, cls.reasons

        def close_both():
            acceleration.close()
            close()
        client.close = close_both
        cls.counts["clients"] += 1
