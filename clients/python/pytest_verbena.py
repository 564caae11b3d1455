"""For pytest: the fixture `pytest_verbena`, a Verbena server in memory, started when the first test asks for it.

    def test_upload(pytest_verbena, verbena_bucket):
        s3 = boto3.client("s3", **pytest_verbena.boto3)
        s3.put_object(Bucket=verbena_bucket, Key="k", Body=b"bytes")
        with pytest_verbena.connect() as client:
            assert bytes(client.get(verbena_bucket, "k")) == b"bytes"

pytest finds it where the wheel is installed. It is beside the package `verbena` and not in it, so that a run whose tests need no
server loads none of its libraries.
"""
import dataclasses
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import uuid

import pytest

START_S = 30
STOP_S = 30


def pytest_addoption(parser):
    # Settings rather than command-line options: pytest would take an option's path for the place of the tests. `-o
    # NAME=VALUE` sets them.
    parser.addini("verbena_program", "the program `verbena` (default: the one in PATH)", default="verbena")
    parser.addini("verbena_flags", "flags of `verbena server`, for example: --bucket photos --seed test/data --region eu-west-1", type="args",
                  default=[])


@dataclasses.dataclass(frozen=True)
class VerbenaServer:
    """The server's endpoints and keys."""

    endpoint: str
    native: str
    region: str
    access_key: str
    secret_key: str = dataclasses.field(repr=False)
    ports: dict
    pid: int

    @property
    def environment(self):
        """The variables that AWS's SDKs and Verbena's Python client and command line read."""
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key,
                "AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region, "VERBENA_NATIVE": self.native}

    @property
    def boto3(self):
        """Arguments of boto3.client("s3", ...) and boto3.resource("s3", ...)."""
        return {"endpoint_url": self.endpoint, "aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key,
                "region_name": self.region}

    def connect(self, **options):
        """A client of Verbena's own, as verbena.connect() makes it."""
        import verbena
        return verbena.connect(self.endpoint, native_endpoint=self.native, access_key=self.access_key, secret_key=self.secret_key,
                               region=self.region, **options)


def _program(config):
    named = config.getini("verbena_program")
    found = shutil.which(named)
    if found is None:
        pytest.fail(f"pytest_verbena: no program {named}; the setting verbena_program says where it is", pytrace=False)
    return found


def _first_line(process):
    """The first line that the server prints when it is ready; empty if it ends before or takes too long."""
    text, until = b"", time.monotonic() + START_S
    while not text.endswith(b"\n"):
        readable, _, _ = select.select([process.stdout], [], [], max(0, until - time.monotonic()))
        chunk = os.read(process.stdout.fileno(), 65536) if readable else b""
        if not chunk:
            return b""
        text += chunk
    return text


def _stop(process):
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


@pytest.fixture(scope="session", name="pytest_verbena")
def _pytest_verbena(request):
    """A Verbena server in memory (a VerbenaServer), which ends with the session."""
    # The machine's own settings do not apply to the test server.
    env = {name: value for name, value in os.environ.items() if not name.startswith("VERBENA_")}
    command = [_program(request.config), "server", "--memory", "--print-ready", "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0",
               *request.config.getini("verbena_flags")]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd=request.config.rootpath)
        try:
            line = _first_line(process)
            if not line:
                process.kill()
                process.wait()
                log.seek(0)
                pytest.fail(f"pytest_verbena: the server did not start\n{log.read().decode(errors='replace')[-4000:]}", pytrace=False)
            ready = json.loads(line)
            yield VerbenaServer(ready["s3"], ready["native"], ready["region"], ready["access_key"], ready["secret_key"], ready["ports"],
                                process.pid)
        finally:
            _stop(process)


@pytest.fixture
def verbena_bucket(pytest_verbena):
    """The name of a bucket for this test alone."""
    name = f"test-{uuid.uuid4().hex}"
    with pytest_verbena.connect() as client:
        client.make_bucket(name)
    return name
