#!/usr/bin/python3
"""The NIXL plugin, loaded by a host of ours as NIXL loads it, against a server.

usage: nixl_test.py HOST PLUGIN-FOLDER
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client  # noqa: E402

HOST, PLUGINS = sys.argv.pop(1), sys.argv.pop(1)
CUDA_DOUBLE = os.environ.get("CUDA_DOUBLE")  # tests/gpu's library in place of the driver


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return dict(kept, NIXL_PLUGIN_DIR=PLUGINS, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY)


class Plugin(unittest.TestCase):
    def hosted(self, server, native):
        done = subprocess.run([HOST, "all", "blocks", server.http, native], env=environment(), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.split(), ["positions", "refusals", "bytes", "registrations", "errors", "forked"])
        return done.stderr

    def test_by_the_native_door_and_by_http(self):
        with Server() as server:
            client = boto3_client(server.http)
            client.create_bucket(Bucket="blocks")
            said = self.hosted(server, server.native)
            self.assertIn("reading missing (descriptor 0 of 1): no_such_key", said)
            self.assertIn("there is no parameter bukket", said)
            self.assertNotIn(SECRET_KEY, said)
            self.assertEqual(client.get_object(Bucket="blocks", Key="short")["Body"].read(), b"\3" * 100)
            self.hosted(server, "127.0.0.1:1")

    @unittest.skipUnless(CUDA_DOUBLE, "without the driver's double")
    def test_objects_in_memory_of_a_gpu(self):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            os.symlink(CUDA_DOUBLE, f"{folder}/libcuda.so.1")
            client = boto3_client(server.http)
            client.create_bucket(Bucket="blocks")
            for native in (server.native, "127.0.0.1:1"):  # the native door, and HTTP alone
                done = subprocess.run([HOST, "device", "blocks", server.http, native], env=dict(environment(), LD_LIBRARY_PATH=folder),
                                      capture_output=True, text=True, timeout=120)
                self.assertEqual((done.returncode, done.stdout), (0, "device\ntwo devices\n"), done.stderr)
            self.assertEqual(client.head_object(Bucket="blocks", Key="device/39")["ContentLength"], 30000)

    def test_a_server_that_is_gone(self):
        with Server() as server:
            boto3_client(server.http).create_bucket(Bucket="blocks")
            host = subprocess.Popen([HOST, "gone", "blocks", server.http, server.native], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
            try:
                self.assertEqual(host.stdout.readline(), "kill\n")
                server.kill()
                said, trouble = host.communicate("go\n", timeout=60)
                self.assertEqual((host.returncode, said), (0, "gone\n"), trouble)
            finally:
                host.kill()
                host.wait()


if __name__ == "__main__":
    unittest.main(verbosity=2)
