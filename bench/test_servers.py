#!/usr/bin/python3
"""Stores for tests compared: Verbena in memory, moto where Python has it, and npm's. Prints a Markdown table;
docs/for-tests.md has one run of it.

usage: bench/test_servers.py [--seconds S]

After `./dev image` (as root), the image under podman is a row, too.

Each server is started five times (from the start of the process to its first answer), then loaded by one client over
one kept-alive connection with presigned requests, so that the client's own signing is not measured. The fastest
start counts, and the best quarter of a second of the requests, to exclude other load on the machine. The last column
is the number of the calls below that succeed.
"""
import argparse
import http.client
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import podman_here  # noqa: E402

CACHE = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache" / "verbena") / "test-servers"
S3RVER, FAUXQS = "3.7.1", "1.9.2"  # the last ones for Node.js 20
START_S = 60
WINDOW_S = 0.25
SIZE = 4096


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def verbena(port, _folder):
    program = os.environ.get("VERBENA") or str(ROOT / "build" / "verbena")
    env = {k: v for k, v in os.environ.items() if not k.startswith("VERBENA_")}
    env.update(VERBENA_ROOT_ACCESS_KEY="S3RVER", VERBENA_ROOT_SECRET_KEY="S3RVER-secret")
    return [program, "server", "--memory", "--http", f"127.0.0.1:{port}", "--rdma", "127.0.0.1:0"], env, ("S3RVER", "S3RVER-secret")


def verbena_small(port, folder):
    command, env, keys = verbena(port, folder)
    return [*command, "--set", "arena_size=16MiB"], env, keys


def verbena_image(port, folder):
    archive = next((ROOT / "build-image").glob("*-image.oci.tar"))
    loaded = subprocess.run(["podman", "load", "--quiet", "--input", str(archive)], check=True, capture_output=True, text=True).stdout
    keys = ("S3RVER", "S3RVER-secret")
    return (["podman", "run", "--rm", "--network", "host", "--read-only", "--cap-drop=all", *podman_here.limits(), "--pidfile", f"{folder}/pid",
             "-e", f"VERBENA_ROOT_ACCESS_KEY={keys[0]}", "-e", f"VERBENA_ROOT_SECRET_KEY={keys[1]}", loaded.split()[-1],
             "server", "--memory", "--http", f"127.0.0.1:{port}", "--rdma", "127.0.0.1:0", "--set", "admin.port=0"], dict(os.environ), keys)


def of_npm(name, version):
    if not (CACHE / "node_modules" / name).is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--prefix", str(CACHE), "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error",
                        f"{name}@{version}"], check=True, stdout=subprocess.DEVNULL)
    return CACHE / "node_modules" / name


def s3rver(port, folder):
    return (["node", str(of_npm("s3rver", S3RVER) / "bin/s3rver.js"), "--address", "127.0.0.1", "--port", str(port), "--directory",
             str(folder), "--silent"], dict(os.environ), ("S3RVER", "S3RVER"))


def fauxqs(port, _folder):
    # Its own command listens on all addresses of the machine.
    app = of_npm("fauxqs", FAUXQS) / "dist/app.js"
    script = f"import({str(app)!r}).then((m) => m.buildApp({{ logger: false }}).listen({{ port: {port}, host: '127.0.0.1' }}))"
    return ["node", "-e", script], dict(os.environ), ("any", "any")


def moto(port, _folder):
    return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], dict(os.environ), ("any", "any")


class Started:
    def __init__(self, make):
        self.folder = tempfile.mkdtemp(prefix="verbena-test-servers-")
        self.port = free_port()
        command, env, self.keys = make(self.port, self.folder)
        began = time.monotonic()
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() - began > START_S:
                self.__exit__()
                raise RuntimeError(f"{command} did not start")
            time.sleep(0.001)
        self.took_s = time.monotonic() - began
        self.s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", aws_access_key_id=self.keys[0],
                               aws_secret_access_key=self.keys[1], region_name="us-east-1",
                               config=Config(retries={"max_attempts": 1, "mode": "standard"}, s3={"addressing_style": "path"}))

    def answers(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/")
            return connection.getresponse().status > 0
        except OSError:
            return False

    def resident_mb(self):
        inside = pathlib.Path(self.folder, "pid")  # of a container
        pid = inside.read_text() if inside.exists() else self.process.pid
        pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


def rate(server, operation, seconds):
    """Requests a second over one connection, in the best of its windows."""
    url = server.s3.generate_presigned_url(operation, Params={"Bucket": "rate", "Key": "k"}, ExpiresIn=3600)
    path = "/" + url.split("/", 3)[3]
    method, body = ("PUT", b"x" * SIZE) if operation == "put_object" else ("GET", None)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    best, until = 0.0, time.monotonic() + seconds
    while (began := time.monotonic()) < until:
        done = 0
        while (took := time.monotonic() - began) < WINDOW_S:
            connection.request(method, path, body=body)
            reply = connection.getresponse()
            reply.read()
            assert reply.status == 200, (operation, reply.status)
            done += 1
        best = max(best, done / took)
    return best


def calls(s3):
    """Name and function of calls that test suites make; each is independent."""
    b, k = {"Bucket": "calls"}, {"Bucket": "calls", "Key": "k"}
    policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::calls/*"}]}'
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    rule = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": "x"}, "Expiration": {"Days": 1}}
    cors = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]}
    sse = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}

    def multipart():
        upload = s3.create_multipart_upload(Bucket="calls", Key="m")["UploadId"]
        part = s3.upload_part(Bucket="calls", Key="m", PartNumber=1, UploadId=upload, Body=b"part")
        s3.list_parts(Bucket="calls", Key="m", UploadId=upload)
        s3.complete_multipart_upload(Bucket="calls", Key="m", UploadId=upload,
                                     MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})

    def refused_if_there():
        try:
            s3.put_object(**k, Body=b"", IfNoneMatch="*") if "IfNoneMatch" in s3.meta.service_model.operation_model(
                "PutObject").input_shape.members else None
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 412

    return {
        "CreateBucket": lambda: s3.create_bucket(**b), "HeadBucket": lambda: s3.head_bucket(**b), "ListBuckets": s3.list_buckets,
        "GetBucketLocation": lambda: s3.get_bucket_location(**b), "PutObject": lambda: s3.put_object(**k, Body=b"0123456789"),
        "GetObject": lambda: s3.get_object(**k), "HeadObject": lambda: s3.head_object(**k),
        "range": lambda: s3.get_object(**k, Range="bytes=2-4"), "CopyObject": lambda: s3.copy_object(Bucket="calls", Key="c", CopySource="calls/k"),
        "ListObjects": lambda: s3.list_objects(**b), "ListObjectsV2": lambda: s3.list_objects_v2(**b), "multipart": multipart,
        "ListMultipartUploads": lambda: s3.list_multipart_uploads(**b), "condition": refused_if_there,
        "checksum": lambda: s3.put_object(**k, Body=b"x", ChecksumAlgorithm="SHA256"),
        "DeleteObject": lambda: s3.delete_object(Bucket="calls", Key="c"),
        "DeleteObjects": lambda: s3.delete_objects(**b, Delete={"Objects": [{"Key": "m"}]}),
        "PutObjectTagging": lambda: s3.put_object_tagging(**k, Tagging=tags), "GetObjectTagging": lambda: s3.get_object_tagging(**k),
        "PutObjectAcl": lambda: s3.put_object_acl(**k, ACL="private"), "GetObjectAcl": lambda: s3.get_object_acl(**k),
        "GetObjectAttributes": lambda: s3.get_object_attributes(**k, ObjectAttributes=["ETag"]),
        "PutBucketVersioning": lambda: s3.put_bucket_versioning(**b, VersioningConfiguration={"Status": "Enabled"}),
        "GetBucketVersioning": lambda: s3.get_bucket_versioning(**b), "ListObjectVersions": lambda: s3.list_object_versions(**b),
        "PutBucketPolicy": lambda: s3.put_bucket_policy(**b, Policy=policy), "GetBucketPolicy": lambda: s3.get_bucket_policy(**b),
        "PutBucketTagging": lambda: s3.put_bucket_tagging(**b, Tagging=tags), "GetBucketTagging": lambda: s3.get_bucket_tagging(**b),
        "PutBucketCors": lambda: s3.put_bucket_cors(**b, CORSConfiguration=cors), "GetBucketCors": lambda: s3.get_bucket_cors(**b),
        "PutBucketLifecycle": lambda: s3.put_bucket_lifecycle_configuration(**b, LifecycleConfiguration={"Rules": [rule]}),
        "PutBucketEncryption": lambda: s3.put_bucket_encryption(**b, ServerSideEncryptionConfiguration=sse),
        "PutPublicAccessBlock": lambda: s3.put_public_access_block(**b, PublicAccessBlockConfiguration={"BlockPublicAcls": True}),
        "GetBucketAcl": lambda: s3.get_bucket_acl(**b),
    }


def served(s3):
    """The number of calls that succeed, and the failing ones."""
    refused = []
    for name, call in (every := calls(s3)).items():
        try:
            call()
        except (ClientError, BotoCoreError, AssertionError):
            refused.append(name)
    return len(every) - len(refused), len(every), refused


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5)
    seconds = parser.parse_args().seconds
    rows = [("verbena server --memory", verbena), ("the same, arena_size 16 MiB", verbena_small)]
    if list((ROOT / "build-image").glob("*-image.oci.tar")) and os.geteuid() == 0:
        podman_here.in_a_namespace()
        rows.append(("the image under podman", verbena_image))
    if importlib.util.find_spec("moto"):
        rows.append((f"moto {importlib.metadata.version('moto')} (Python)", moto))
    if shutil.which("npm"):
        rows += [(f"s3rver {S3RVER} (npm)", s3rver), (f"fauxqs {FAUXQS} (npm)", fauxqs)]
    print("| server | ready after | memory at the start | memory then | PUT 4 KiB | GET 4 KiB | calls served |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, make in rows:
        starts = []
        for _ in range(5):
            with Started(make) as server:
                starts.append(server.took_s)
        with Started(make) as server:
            at_start = server.resident_mb()
            server.s3.create_bucket(Bucket="rate")
            put, get = rate(server, "put_object", seconds), rate(server, "get_object", seconds)
            good, of, refused = served(server.s3)
            print(f"| {name} | {min(starts) * 1000:.0f} ms | {at_start:.0f} MB | {server.resident_mb():.0f} MB | {put:,.0f}/s | "
                  f"{get:,.0f}/s | {good} of {of} |")
            if refused:
                print(f"{name}: not {', '.join(refused)}", file=sys.stderr)


main()
