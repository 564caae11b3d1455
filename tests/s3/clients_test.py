#!/usr/bin/python3
"""Common S3 clients: put, list, get and delete files of many sizes, byte for byte.

usage: clients_test.py boto3|aws|s3cmd|rclone|curl
"""
import filecmp
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, client_environment, tool  # noqa: E402

MIB = 1024 * 1024
SIZES = [0, 1, 4096, 5 * MIB, 100 * MIB]   # the last ones are multipart by the clients' own defaults
BUCKET = "client-bucket"
CLIENTS = {}


def client(cls):
    CLIENTS[cls.name] = cls
    return cls


class Client:
    """One S3 client program: put, get, list (a {key: size}), delete."""

    def __init__(self, endpoint, home):
        self.endpoint, self.home = endpoint, home
        self.env = client_environment(home)

    def run(self, *command):
        done = subprocess.run(command, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


@client
class Boto3(Client):
    name = "boto3"

    def __init__(self, endpoint, home):
        super().__init__(endpoint, home)
        self.s3 = boto3_client(endpoint)

    def make_bucket(self):
        self.s3.create_bucket(Bucket=BUCKET)

    def put(self, path, key):
        self.s3.upload_file(str(path), BUCKET, key)

    def get(self, key, path):
        self.s3.download_file(BUCKET, key, str(path))

    def list(self):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {o["Key"]: o["Size"] for page in pages for o in page.get("Contents", [])}

    def delete(self, key):
        self.s3.delete_object(Bucket=BUCKET, Key=key)

    def remove_bucket(self):
        self.s3.delete_bucket(Bucket=BUCKET)


@client
class AwsCli(Client):
    name = "aws"

    def aws(self, *args):
        return self.run(tool("aws"), "--endpoint-url", self.endpoint, *args)

    def make_bucket(self):
        self.aws("s3", "mb", f"s3://{BUCKET}")

    def put(self, path, key):
        self.aws("s3", "cp", "--no-progress", str(path), f"s3://{BUCKET}/{key}")

    def get(self, key, path):
        self.aws("s3", "cp", "--no-progress", f"s3://{BUCKET}/{key}", str(path))

    def list(self):
        lines = self.aws("s3", "ls", "--recursive", f"s3://{BUCKET}").splitlines()
        return {line.split(None, 3)[3]: int(line.split(None, 3)[2]) for line in lines}

    def delete(self, key):
        self.aws("s3", "rm", f"s3://{BUCKET}/{key}")

    def remove_bucket(self):
        self.aws("s3", "rb", f"s3://{BUCKET}")


@client
class S3cmd(Client):
    name = "s3cmd"

    def __init__(self, endpoint, home):
        super().__init__(endpoint, home)
        host = endpoint.split("//")[1]
        config = pathlib.Path(home) / "s3cfg"
        config.write_text(f"[default]\naccess_key = {ACCESS_KEY}\nsecret_key = {SECRET_KEY}\nhost_base = {host}\n"
                          f"host_bucket = {host}\nuse_https = False\nbucket_location = us-east-1\n")
        self.config = str(config)

    def s3cmd(self, *args):
        return self.run(tool("s3cmd"), "-c", self.config, "--no-progress", *args)

    def make_bucket(self):
        self.s3cmd("mb", f"s3://{BUCKET}")

    def put(self, path, key):
        self.s3cmd("put", str(path), f"s3://{BUCKET}/{key}")

    def get(self, key, path):
        self.s3cmd("get", "--force", f"s3://{BUCKET}/{key}", str(path))

    def list(self):
        lines = self.s3cmd("ls", "--recursive", f"s3://{BUCKET}").splitlines()
        return {line.split(None, 3)[3].removeprefix(f"s3://{BUCKET}/"): int(line.split(None, 3)[2]) for line in lines}

    def delete(self, key):
        self.s3cmd("del", f"s3://{BUCKET}/{key}")

    def remove_bucket(self):
        self.s3cmd("rb", f"s3://{BUCKET}")


@client
class Rclone(Client):
    name = "rclone"

    def __init__(self, endpoint, home):
        super().__init__(endpoint, home)
        prefix = "RCLONE_CONFIG_V_"
        self.env.update({prefix + "TYPE": "s3", prefix + "PROVIDER": "Other", prefix + "ENDPOINT": endpoint,
                         prefix + "ACCESS_KEY_ID": ACCESS_KEY, prefix + "SECRET_ACCESS_KEY": SECRET_KEY,
                         prefix + "REGION": "us-east-1", "RCLONE_CONFIG": str(pathlib.Path(home) / "rclone.conf")})

    def rclone(self, *args):
        return self.run(tool("rclone"), "--retries", "1", "--low-level-retries", "2", *args)

    def make_bucket(self):
        self.rclone("mkdir", f"v:{BUCKET}")

    def put(self, path, key):
        self.rclone("copyto", str(path), f"v:{BUCKET}/{key}")

    def get(self, key, path):
        self.rclone("copyto", f"v:{BUCKET}/{key}", str(path))

    def list(self):
        lines = self.rclone("ls", f"v:{BUCKET}").splitlines()
        return {line.split(None, 1)[1]: int(line.split(None, 1)[0]) for line in lines}

    def delete(self, key):
        self.rclone("deletefile", f"v:{BUCKET}/{key}")

    def remove_bucket(self):
        self.rclone("rmdir", f"v:{BUCKET}")


@client
class Curl(Client):
    name = "curl"

    def curl(self, *args):
        # curl 7.88 signs without the payload's hash header unless it is given (AWS and we both want it).
        return self.run(tool("curl"), "-sS", "--fail-with-body", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user",
                        f"{ACCESS_KEY}:{SECRET_KEY}", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", *args)

    def url(self, key=""):
        return f"{self.endpoint}/{BUCKET}/{key}".rstrip("/")

    def make_bucket(self):
        self.curl("-X", "PUT", self.url())

    def put(self, path, key):
        self.curl("-T", str(path), self.url(key))

    def get(self, key, path):
        self.curl("-o", str(path), self.url(key))

    def list(self):
        import xml.etree.ElementTree as tree
        ns = {"s3": "http://s3.amazonaws.com/doc/2006-03-01/"}
        root = tree.fromstring(self.curl(self.url() + "?list-type=2"))
        return {c.find("s3:Key", ns).text: int(c.find("s3:Size", ns).text) for c in root.findall("s3:Contents", ns)}

    def delete(self, key):
        self.curl("-X", "DELETE", self.url(key))

    def remove_bucket(self):
        self.curl("-X", "DELETE", self.url())


def write_file(path, size, seed):
    block = os.urandom(min(size, MIB))
    with open(path, "wb") as out:
        for at in range(0, size, MIB):
            out.write(block[:min(MIB, size - at) - 8] + (at + seed).to_bytes(8, "little") if size - at >= 8 else block[:size - at])


class ClientTest(unittest.TestCase):
    client_name = None

    def test_files_of_every_size_come_back_byte_for_byte(self):
        with tempfile.TemporaryDirectory() as home, Server() as server:
            client_program = CLIENTS[self.client_name](server.http, home)
            client_program.make_bucket()
            expected = {}
            for index, size in enumerate(SIZES):
                source = pathlib.Path(home) / f"source-{size}.bin"
                back = pathlib.Path(home) / f"back-{size}.bin"
                key = f"folder/file {size}.bin" if self.client_name != "curl" else f"folder/file-{size}.bin"
                write_file(source, size, index)
                self.assertEqual(source.stat().st_size, size)
                client_program.put(source, key)
                expected[key] = size
                if size == 0 and self.client_name == "curl":
                    back.touch()   # curl makes no file for an empty body
                client_program.get(key, back)
                self.assertTrue(filecmp.cmp(source, back, shallow=False), f"{key}: bytes differ")
            self.assertEqual(client_program.list(), expected)
            for key in expected:
                client_program.delete(key)
            self.assertEqual(client_program.list(), {})
            client_program.remove_bucket()


class ContinueTest(unittest.TestCase):
    """botocore takes the status line that answers one Expect for the next request's, unless it was "100 Continue"."""

    def test_a_put_after_an_empty_one_is_not_answered_by_the_one_before(self):
        if ClientTest.client_name != "boto3":
            self.skipTest("of botocore")
        with Server() as server:
            s3 = boto3_client(server.http, retries={"total_max_attempts": 1})
            s3.create_bucket(Bucket=BUCKET)
            for size in (0, 5, 0, 70_000):
                reply = s3.put_object(Bucket=BUCKET, Key="k", Body=bytes(size))
                self.assertIn("ETag", reply, f"{size} B: the answer's head was not the server's")
            s3.put_object(Bucket=BUCKET, Key="k", Body=b"")
            server.kill()
            with self.assertRaises(Exception):
                s3.put_object(Bucket=BUCKET, Key="k", Body=b"lost")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in CLIENTS:
        sys.exit(f"usage: clients_test.py {'|'.join(CLIENTS)}")
    ClientTest.client_name = sys.argv.pop(1)
    unittest.main()
