"""Shared by the zoo's applications: their Debian packages, a server with a bucket, programs that are run and ended.

Run by hand (`./dev test zoo`): the packages are many, and some of the runs take minutes.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, client_environment  # noqa: E402, F401

BUCKET = "zoo"
MIB = 1024 * 1024
POLICY = pathlib.Path("/usr/sbin/policy-rc.d")


def install(*packages):
    """Installs Debian packages without starting their daemons."""
    query = lambda name: subprocess.run(["dpkg-query", "-W", "-f", "${Status}", name], capture_output=True, text=True).stdout   # noqa: E731
    missing = [name for name in packages if "ok installed" not in query(name)]
    if not missing:
        return
    own_policy = not POLICY.exists()
    if own_policy:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], check=True, env=environment,
                       stdout=subprocess.DEVNULL)
    finally:
        if own_policy:
            POLICY.unlink()


def run(*command, env=None, cwd=None, user=None, timeout=600, stdin=None):
    """A program's output. A failure raises an error with all of its output."""
    words = [str(word) for word in command]
    if user is not None:
        words = ["runuser", "-u", user, "--", *words]
    done = subprocess.run(words, env=env, cwd=cwd, timeout=timeout, capture_output=True,
                          **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}))
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout.decode(errors='replace')}\n"
                             f"{done.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="replace")


class Daemon:
    """A program that runs beside the test and is ended by its pid."""

    def __init__(self, *command, env=None, log):
        self.words, self.env, self.log = [str(word) for word in command], env, log

    def __enter__(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def wait_for(self, ready, seconds=60):
        end = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{self.words} is not ready:\n{pathlib.Path(self.log).read_text(errors='replace')[-4000:]}")
            time.sleep(0.1)

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port():
    import socket
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def answers(port):
    import socket
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def grow_tree(root, files=30, big_mib=18):
    for index in range(files):
        path = root / f"dir {index % 3}" / f"file-{index:02} \u00e9.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(index * 1000))
    (root / "big.bin").write_bytes(os.urandom(big_mib * MIB))


def same_tree(left, right):
    import filecmp
    names = lambda root: {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}   # noqa: E731
    assert names(left) == names(right), names(left) ^ names(right)
    for name in names(left):
        assert filecmp.cmp(left / name, right / name, shallow=False), name


def certificate(folder):
    key, crt = folder / "key.pem", folder / "crt.pem"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key, "-out", crt)
    return key, crt


class Zoo:
    """`endpoint`, `home`, `env` and a bucket. With `tls`, `ca` is the authority for clients to trust."""

    def __init__(self, tls=False):
        self.tls = tls

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-zoo-")
        self.home = pathlib.Path(self.folder.name)
        self.home.chmod(0o755)
        settings, self.ca = {}, None
        if self.tls:
            key, self.ca = certificate(self.home)
            settings = {"VERBENA_TLS_CERTIFICATE": str(self.ca), "VERBENA_TLS_KEY": str(key)}
        self.server = Server(env=settings).start()
        self.endpoint = self.server.http
        self.env = client_environment(self.home)
        if self.tls:
            self.env["AWS_CA_BUNDLE"] = os.environ["AWS_CA_BUNDLE"] = str(self.ca)
        self.s3 = boto3_client(self.endpoint)
        self.s3.create_bucket(Bucket=BUCKET)
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            print(self.server.log(), file=sys.stderr)
        self.server.__exit__(kind, value, trace)
        self.folder.cleanup()

    def keys(self, prefix=""):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]


def own(path, user):
    """Gives a tree to another user."""
    shutil.chown(path, user, user)
    for one in pathlib.Path(path).rglob("*"):
        shutil.chown(one, user, user)
