#!/usr/bin/python3
"""The server under systemd's Type=notify: ready, alive, reloading, stopping; and a stop during a request."""
import http.client
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from verbena_server import Server, boto3_client, program  # noqa: E402

WAIT_S = 30


class Notified(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-notify-")
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(self.path)
        self.socket.settimeout(WAIT_S)

    def next(self, *beside):
        """The next message, except those that begin as one of `beside`."""
        while True:
            text = self.socket.recv(4096).decode()
            if not text.startswith(beside or ("\0",)):
                return text

    def server(self, **env):
        return Server(env={"NOTIFY_SOCKET": self.path, **env})

    def test_it_says_ready_when_the_doors_are_open_and_stopping_when_it_stops(self):
        with self.server() as server:
            said = self.next()
            self.assertTrue(said.startswith("READY=1\nSTATUS=S3 "), said)
            self.assertIn(server.http, said)
            boto3_client(server.http).list_buckets()
            self.assertEqual(server.stop(), 0)
            self.assertTrue(self.next().startswith("STOPPING=1\n"))

    def test_it_is_alive_as_often_as_the_watchdog_wants(self):
        with self.server(WATCHDOG_USEC="600000"):
            self.assertTrue(self.next().startswith("READY=1"))
            for _ in range(5):
                self.assertEqual(self.next(), "WATCHDOG=1")

    def test_a_watchdog_of_another_process_gets_nothing(self):
        with self.server(WATCHDOG_USEC="1000000", WATCHDOG_PID="1") as server:
            self.assertTrue(self.next().startswith("READY=1"))
            server.stop()
            self.assertTrue(self.next().startswith("STOPPING=1"))

    def test_a_reload_is_reported_with_its_begin_and_end(self):
        with self.server() as server:
            self.next()
            os.kill(server.process.pid, signal.SIGHUP)
            begin = self.next()
            self.assertRegex(begin, r"^RELOADING=1\nMONOTONIC_USEC=\d+$")
            self.assertTrue(self.next().startswith("READY=1"))
            boto3_client(server.http).list_buckets()

    def test_a_stop_lets_an_upload_end_and_takes_no_new_one(self):
        with self.server() as server:
            self.next()
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="drain")
            url = s3.generate_presigned_url("put_object", Params={"Bucket": "drain", "Key": "k"})
            host, path = url.removeprefix("http://").split("/", 1)
            upload = http.client.HTTPConnection(host, timeout=WAIT_S)
            upload.putrequest("PUT", "/" + path)
            upload.putheader("Content-Length", "200000")
            upload.endheaders()
            upload.send(b"x" * 100_000)
            # The upload has begun when the server has read part of it.
            while s3.list_buckets()["Buckets"] == []:
                pass
            server.process.send_signal(signal.SIGTERM)
            self.assertTrue(self.next().startswith("STOPPING=1"))
            upload.send(b"x" * 100_000)
            self.assertEqual(upload.getresponse().status, 200)
            upload.close()
            self.assertEqual(server.process.wait(WAIT_S), 0)
            server.process.stdout.close()
            server.process = None
            with Server(directory=server.directory) as again:
                self.assertEqual(boto3_client(again.http).head_object(Bucket="drain", Key="k")["ContentLength"], 200_000)

    def test_health_follows_the_server(self):
        with self.server() as server:
            ask = [program(), "health", "--endpoint", server.http]
            self.assertEqual(subprocess.run(ask, timeout=WAIT_S).returncode, 0)
            http_address = server.http
            server.stop()
            done = subprocess.run(ask, capture_output=True, text=True, timeout=WAIT_S)
            self.assertEqual(done.returncode, 5)
            self.assertIn(http_address, done.stderr)

    def test_health_of_the_server_with_this_environment_needs_no_endpoint(self):
        certificate, key = f"{self.folder.name}/cert.pem", f"{self.folder.name}/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "1",
                        "-subj", "/CN=localhost"], check=True, capture_output=True)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "VERBENA_"))}
        for tls in ({}, {"VERBENA_TLS_CERTIFICATE": certificate, "VERBENA_TLS_KEY": key}):
            with self.subTest(tls=bool(tls)), self.server(**tls) as server:
                own = {**clean, "HOME": self.folder.name, "VERBENA_HTTP_PORT": server.http.rpartition(":")[2]}
                ask = [program(), "health", "--timeout", "5"]
                self.assertEqual(subprocess.run(ask, env=own, timeout=WAIT_S).returncode, 0)
                server.stop()
                self.assertEqual(subprocess.run(ask, env=own, capture_output=True, timeout=WAIT_S).returncode, 5)


class Unit(unittest.TestCase):
    def unit(self):
        text = (ROOT / "deploy/systemd/verbena.service.in").read_text()
        return text.replace("@CMAKE_INSTALL_FULL_BINDIR@", "/usr/bin").replace("@CMAKE_INSTALL_FULL_SYSCONFDIR@", "/etc")

    def test_systemd_knows_every_key_and_finds_it_sandboxed(self):
        with tempfile.TemporaryDirectory(prefix="verbena-unit-") as folder:
            path = pathlib.Path(folder) / "verbena.service"
            # systemd-analyze verify requires the program to exist.
            path.write_text(self.unit().replace("ExecStart=/usr/bin/verbena", f"ExecStart={program()}"))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr.strip()), (0, "", ""))
            bad = path.with_name("bad.service")
            bad.write_text(path.read_text().replace("Type=notify", "Typo=notify"))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(bad)], capture_output=True, text=True, timeout=60)
            self.assertIn("Typo", done.stderr)
            # "OK" begins below 5.0.
            done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=50", "--no-pager", str(path)],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout[-300:] + done.stderr)
            print(done.stdout.strip().splitlines()[-1])

    def test_the_unit_says_what_the_documents_say(self):
        unit = self.unit()
        for line in ("Type=notify", "LimitMEMLOCK=infinity", "ExecReload=/bin/kill -HUP $MAINPID", "RestartPreventExitStatus=2",
                     "User=verbena", "WatchdogSec=30"):
            self.assertIn("\n" + line + "\n", unit)

    def test_what_recipes_write_below_var_is_a_folder_that_the_unit_makes(self):
        places = {f"/var/{where}/{name}" for kind, where in (("StateDirectory", "lib"), ("LogsDirectory", "log"))
                  for name in re.findall(rf"^{kind}=(\w+)$", self.unit(), re.M)}
        found = {path for page in (ROOT / "docs").glob("*.md")
                 for path in re.findall(r"(?:access_log[=:] ?|file://)(/var/[\w./-]+)", page.read_text())}
        self.assertTrue(found)
        for path in found:
            self.assertIn(str(pathlib.Path(path).parent), places)


unittest.main(verbosity=2)
