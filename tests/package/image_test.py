#!/usr/bin/python3
"""The container image under podman, by hand (./dev image --test): its user, writable paths, health, signals, secrets,
and a client container that reads by shared memory from a server container, both without any network.

usage: image_test.py IMAGES_FOLDER
"""
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import podman_here  # noqa: E402

podman_here.in_a_namespace()
IMAGES = pathlib.Path(sys.argv.pop(1)).resolve()
SIZE_MAX = 120_000_000
KEYS = {"AWS_ACCESS_KEY_ID": "imagetest", "AWS_SECRET_ACCESS_KEY": "image-test-secret"}
ROOT_KEYS = ["-e", "VERBENA_ROOT_ACCESS_KEY=imagetest", "-e", "VERBENA_ROOT_SECRET_KEY=image-test-secret"]
SAFE = [*podman_here.limits(), "--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"]


def podman(*args, expect=0, **more):
    done = subprocess.run(["podman", *args], capture_output=True, timeout=120, **more)
    assert expect is None or done.returncode == expect, f"podman {args}\n{done.stdout.decode()}\n{done.stderr.decode()}"
    return done


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = next(IMAGES.glob("verbena-*-image.oci.tar"))
        loaded = podman("load", "--quiet", "--input", str(cls.archive)).stdout.decode()
        cls.image = loaded.split("Loaded image: ")[-1].strip() if "Loaded image" in loaded else loaded.strip()
        cls.tag = f"verbena-image-test-{os.getpid()}"
        cls.loaded = {cls.image}

    @classmethod
    def tearDownClass(cls):
        for image in cls.loaded:
            podman("rmi", "--force", image, expect=None)

    def setUp(self):
        self.names, self.volumes = [], []
        self.addCleanup(self.remove)

    def remove(self):
        for name in self.names:
            podman("rm", "--force", "--time", "5", name, expect=None)
        for name in self.volumes:
            podman("volume", "rm", "--force", name, expect=None)

    def volume(self, role):
        name = f"{self.tag}-{role}"
        self.volumes.append(name)
        podman("volume", "create", name)
        return name

    def serve(self, role, *flags, command=()):
        name = f"{self.tag}-{role}"
        self.names.append(name)
        podman("run", "--detach", "--name", name, "--network", "none", *SAFE, *flags, self.image, *command)
        return name

    def ready(self, name):
        began = time.monotonic()
        while time.monotonic() - began < 60:
            if podman("exec", name, "verbena", "health", expect=None).returncode == 0:
                return time.monotonic() - began
            time.sleep(0.05)
        raise AssertionError(podman("logs", name, expect=None).stderr.decode())

    def in_server(self, name, *args, input=None, expect=0):
        keys = [part for key, value in KEYS.items() for part in ("-e", f"{key}={value}")]
        return podman("exec", "-i", *keys, name, "verbena", *args, input=input, expect=expect)

    def test_it_is_small_and_nobody_special(self):
        size = self.archive.stat().st_size
        print(f"{self.archive.name}: {size / 1e6:.1f} MB compressed")
        self.assertLess(size, SIZE_MAX)
        config = json.loads(podman("image", "inspect", self.image).stdout)[0]["Config"]
        self.assertEqual(config["User"], "65532:65532")
        self.assertIn("/data", config["Volumes"])
        docker = next(IMAGES.glob("verbena-*-image.docker.tar.gz"))
        loaded = podman("load", "--quiet", input=gzip.decompress(docker.read_bytes())).stdout.decode().split("Loaded image: ")[-1].strip()
        health = json.loads(podman("image", "inspect", loaded).stdout)[0]
        self.loaded.add(health["Id"])
        self.assertEqual((health.get("HealthCheck") or health.get("Healthcheck"))["Test"], ["CMD", "verbena", "health"])
        podman("load", "--quiet", "--input", str(self.archive))

    def test_a_store_outlives_its_container_and_a_signal_ends_it_in_order(self):
        data = self.volume("data")
        name = self.serve("one", *ROOT_KEYS, "-v", f"{data}:/data", "--health-cmd", '["verbena", "health"]',
                          "--health-interval", "disable")  # else podman needs systemd for the timer
        print(f"ready after {self.ready(name):.2f} s of asking")
        self.in_server(name, "mb", "s3://kept")
        self.in_server(name, "put", "-", "s3://kept/k", input=b"bytes that stay")
        podman("healthcheck", "run", name)
        podman("stop", "--time", "20", name)
        self.assertEqual(json.loads(podman("inspect", name).stdout)[0]["State"]["ExitCode"], 0)
        again = self.serve("two", *ROOT_KEYS, "-v", f"{data}:/data")
        self.ready(again)
        self.assertEqual(self.in_server(again, "get", "s3://kept/k", "-").stdout, b"bytes that stay")

    def test_secrets_come_from_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("access", "imagetest\n"), ("secret", "image-test-secret\n")):
                path = pathlib.Path(folder) / name
                path.write_text(text)
                path.chmod(0o444)
            os.chmod(folder, 0o755)
            name = self.serve("secrets", "-v", f"{self.volume('secrets')}:/data", "-v", f"{folder}:/run/keys:ro",
                              "-e", "VERBENA_ROOT_ACCESS_KEY_FILE=/run/keys/access", "-e", "VERBENA_ROOT_SECRET_KEY_FILE=/run/keys/secret")
            self.ready(name)
            self.in_server(name, "mb", "s3://by-file")
            environment = podman("exec", name, "/usr/bin/env").stdout.decode()
            self.assertNotIn("image-test-secret", environment)

    def test_a_wrong_variable_ends_it_with_a_clear_line(self):
        name = self.serve("wrong", "-e", "VERBENA_HTTP_PROT=9000", "-v", f"{self.volume('wrong')}:/data")
        self.assertEqual(podman("wait", name).stdout.decode().strip(), "2")
        self.assertIn("did you mean VERBENA_HTTP_PORT?", podman("logs", name).stderr.decode())

    def test_a_client_container_reads_by_shared_memory_from_a_server_container(self):
        sockets, data = self.volume("sockets"), self.volume("shared-data")
        server = self.serve("server", *ROOT_KEYS, "-e", "VERBENA_RDMA_LOCAL_SOCKET=/run/verbena/local.sock", "-v",
                            f"{sockets}:/run/verbena", "-v", f"{data}:/data")
        self.ready(server)
        self.in_server(server, "mb", "s3://shared")
        payload = os.urandom(3_000_000)
        self.in_server(server, "put", "-", "s3://shared/k", input=payload)
        # Its own file system, process ids, and user namespace's view of the volume; only the network, the server's
        # loopback, is shared, for the request of the session.
        keys = [part for key, value in KEYS.items() for part in ("-e", f"{key}={value}")]
        got = podman("run", "--rm", "-i", "--network", f"container:{server}", *SAFE, *keys, "-v", f"{sockets}:/run/verbena",
                     "--user", "12345:12345", self.image, "get", "s3://shared/k", "-", "--verbose", "--via", "native")
        self.assertEqual(got.stdout, payload)
        self.assertIn("local", got.stderr.decode())
        print(got.stderr.decode().strip().splitlines()[-1])


unittest.main(verbosity=2)
