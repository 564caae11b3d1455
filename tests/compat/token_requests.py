"""Requests of S3 with a token that the test already has, and the program's environment as the C library sees it."""
import ctypes
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "conformance")]
import verbena_server as verbena  # noqa: E402
from s3rdma_conformance import wire  # noqa: E402

SETTINGS = ("FI_MR_CACHE_MAX_COUNT", "FI_MR_CACHE_MONITOR", "FI_UNIVERSE_SIZE")


class S3:
    def __init__(self, server):
        self.endpoint, self.host = server.http, server.http.partition("//")[2]
        self.credentials = wire.Credentials(verbena.ACCESS_KEY, verbena.SECRET_KEY)

    def call(self, method, path, text=None, **options):
        connection = wire.Connection(self.endpoint)
        try:
            headers = [("x-amz-rdma-token", text)] if text else []
            return connection.exchange(wire.request(self.credentials, self.host, method, path, headers=headers, **options), method)
        finally:
            connection.close()


class Elsewhere:
    """A server that runs already, at TEST_S3RDMA_ENDPOINT."""

    def __init__(self, endpoint):
        self.http = endpoint

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def server():
    endpoint = os.environ.get("TEST_S3RDMA_ENDPOINT")
    return Elsewhere(endpoint) if endpoint else verbena.Server(memory=True)


def choose_fabric():
    """The environment's, or tcp over loopback."""
    os.environ.setdefault("S3RDMA_PROVIDER", "tcp")
    os.environ.setdefault("S3RDMA_ADDRESS", "127.0.0.1")
    for name in SETTINGS:
        os.environ.pop(name, None)


def the_environment_is_as_it_was():
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    there = {name: libc.getenv(name.encode()) for name in SETTINGS}
    assert there == dict.fromkeys(SETTINGS), f"the library has left variables in the program's environment: {there}"
    assert libc.getenv(b"S3RDMA_PROVIDER") == os.environ["S3RDMA_PROVIDER"].encode(), "the program's own variables are gone"


def libfabric_reads(program, *arguments, **variables):
    """The values of SETTINGS that libfabric logs in a Python process of its own."""
    environment = {**os.environ, "FI_LOG_LEVEL": "info", "FI_LOG_PROV": "core", **variables}
    log = subprocess.run([sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True,
                         timeout=60, check=True).stderr
    return {name: re.findall(rf"\b{name.removeprefix('FI_').lower()}=(.*)", log) for name in SETTINGS}


def settings_reach_libfabric(program, *arguments):
    """Ours do, unless the program's user has others."""
    ours = dict(zip(SETTINGS, (["0"], ["disabled"], ["16"])))
    assert libfabric_reads(program, *arguments) == ours, libfabric_reads(program, *arguments)
    others = libfabric_reads(program, *arguments, FI_UNIVERSE_SIZE="32")
    assert others == {**ours, "FI_UNIVERSE_SIZE": ["32"]}, others


def library_has_no_setenv(library):
    said = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
    assert not [name for name in ("setenv", "putenv", "unsetenv", "clearenv") if f" {name}@" in said], said
