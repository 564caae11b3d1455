#!/usr/bin/python3
"""Sealed tokens between whole servers and clients, on libfabric's tcp: processors without AES, servers and clients that
are killed in the middle of a transfer. Never a wrong byte, never a plain one.

Each client calls a relay that ends TLS and begins it again, which shows the headers of its requests."""
import contextlib
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import orphans  # noqa: E402
from verbena_server import Server, client_environment, program  # noqa: E402

MIB = 1 << 20
NOT_FOUND = 3
# OPENSSL_ia32cap(3): a processor without AES, carry-less multiplication and VAES.
WITHOUT_AES = {"OPENSSL_ia32cap": "~0x200000200000000:0x0"}
HAS_AES = " aes " in pathlib.Path("/proc/cpuinfo").read_text()
ATTEMPTS = 20  # to hit a transfer in its middle


class Relay:
    """Between a client's TLS and the server's: `ciphers` are those of the requests' sealed tokens."""

    def __init__(self, certificate, key):
        self.served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.served.load_cert_chain(certificate, key)
        self.called = ssl.create_default_context(cafile=certificate)
        self.server = None  # "127.0.0.1:9000"
        self.ciphers, self.plain = [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):  # it is closed
            while True:
                threading.Thread(target=self._connect, args=(self.listener.accept()[0],), daemon=True).start()

    def _connect(self, raw):
        host, port = self.server.split(":")
        with contextlib.suppress(OSError), self.served.wrap_socket(raw, server_side=True) as client, \
                socket.create_connection((host, int(port)), timeout=60) as plain, \
                self.called.wrap_socket(plain, server_hostname=host) as server:
            back = threading.Thread(target=self._pass, args=(server, client), daemon=True)
            back.start()
            self._pass(client, server, self._note)
            back.join()

    def _pass(self, source, target, note=lambda data: None):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                note(data)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _note(self, data):
        self.ciphers += [name.decode() for name in re.findall(rb"(?i)\r\nx-verbena-rdma-sealing: ([a-z0-9-]+):[0-9a-f]{64}\r\n", data)]
        self.plain += len(re.findall(rb"(?i)\r\nx-amz-rdma-token: [^\r]*:ofi1:", data))


class SealedFaults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="verbena-sealed-")
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.certificate, key = self.home / "cert.pem", self.home / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", self.certificate, "-days", "1",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        self.relay = Relay(self.certificate, key)
        self.addCleanup(self.relay.listener.close)
        self.env = dict(client_environment(self.home), AWS_ENDPOINT_URL=f"https://127.0.0.1:{self.relay.port}")
        self.args = ["--set", f"tls.certificate={self.certificate}", "--set", f"tls.key={key}", "--set", "rdma.encryption=required",
                     "--set", "cache.size=0"]
        (self.home / "data").mkdir(mode=0o700)
        self.server = None

    def serve(self, env=None):
        if self.server:
            self.server.kill()
        self.server = Server(directory=self.home / "data", args=self.args, env=env).start()
        self.addCleanup(self.server.kill)
        self.relay.server = urllib.parse.urlsplit(self.server.http).netloc

    def command(self, *words, attempts=1):
        return [program(), *words, "--ca-file", str(self.certificate), "--via", "token", "--provider", "tcp", "--encryption", "required",
                "--attempts", str(attempts)]

    def run_client(self, *words, expect=0, env=None, attempts=4):
        done = subprocess.run(self.command(*words, attempts=attempts), env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, f"{words}: {done.stderr}")
        return done

    def start_client(self, *words, attempts):
        client = subprocess.Popen(self.command(*words, attempts=attempts), env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        orphans.add(client.pid)

        def end():
            client.kill()
            client.communicate()
            orphans.remove(client.pid)
        self.addCleanup(end)
        return client

    def metric(self, name):
        """The sum over the labels that the name leaves out."""
        text = urllib.request.urlopen(f"http://{self.server.native}/-/metrics", timeout=20).read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))

    def moved(self, op):
        return self.metric(f'verbena_fabric_bytes_total{{op="{op}"')

    def content(self, name, size):
        path = self.home / name
        path.write_bytes(os.urandom(size))
        return path

    def hit(self, words, op, size, attempts):
        """A client in whose transfer of `size` bytes some have been moved, and not all."""
        for _ in range(ATTEMPTS):
            before = self.moved(op)
            client = self.start_client(*words, attempts=attempts)
            while client.poll() is None:
                if 0 < self.moved(op) - before < size:
                    return client
        self.fail("no transfer was hit in its middle")

    def are_same(self, got, sent):
        self.assertTrue(got.read_bytes() == sent.read_bytes(), f"{got} is not {sent}")

    def nothing_was_plain(self):
        self.assertEqual(self.relay.plain, 0, "tokens without sealing")
        self.assertGreater(len(self.relay.ciphers), 0)

    @unittest.skipUnless(HAS_AES, "no AES instructions")
    def test_a_side_without_aes_chooses_a_cipher_that_it_is_fast_with(self):
        source = self.content("source", 3 * MIB + 77)
        for server, client, cipher in (({}, {}, "aes-256-gcm"), (WITHOUT_AES, {}, "aes-256-gcm"), ({}, WITHOUT_AES, "chacha20-poly1305"),
                                       (WITHOUT_AES, WITHOUT_AES, "chacha20-poly1305")):
            with self.subTest(server=server, client=client):
                self.serve(server)
                used = re.findall("ciphers of sealed RDMA: ([a-z0-9-]+) is used", self.server.log())[-1]
                self.assertEqual(used, "chacha20-poly1305" if server else "aes-256-gcm")
                self.relay.ciphers.clear()
                self.run_client("mb", "s3://aes")
                self.assertIn("by token", self.run_client("put", "-v", str(source), "s3://aes/k", env=client).stderr)
                self.assertIn("by token", self.run_client("get", "-v", "s3://aes/k", str(self.home / "back"), env=client).stderr)
                self.are_same(self.home / "back", source)
                self.assertEqual(set(self.relay.ciphers), {cipher})
                self.nothing_was_plain()
                self.run_client("rb", "--force", "s3://aes")
                self.assertEqual(self.server.stop(), 0)

    def test_a_server_that_is_killed_while_it_seals_gives_no_wrong_byte(self):
        self.serve()
        size = 60 * MIB
        source, back = self.content("source", size), self.home / "back"
        self.run_client("mb", "s3://faults")
        self.run_client("put", str(source), "s3://faults/k")
        client = self.hit(("get", "s3://faults/k", str(back)), "write", size, attempts=200)
        self.server.kill()
        self.assertFalse(back.exists() and back.read_bytes() != source.read_bytes())
        self.serve()
        said = client.communicate(timeout=120)[0]
        self.assertEqual(client.returncode, 0, said)
        self.are_same(back, source)
        self.nothing_was_plain()
        self.assertEqual(self.server.stop(), 0)

    def test_a_server_that_is_killed_while_it_opens_stores_no_wrong_byte(self):
        self.serve()
        size = 60 * MIB
        source, back = self.content("source", size), self.home / "back"
        self.run_client("mb", "s3://faults")
        client = self.hit(("put", str(source), "s3://faults/k"), "read", size, attempts=200)
        self.server.kill()
        self.serve()
        said = client.communicate(timeout=120)[0]
        if client.returncode == 0:
            self.run_client("get", "s3://faults/k", str(back))
            self.are_same(back, source)
        else:
            self.run_client("stat", "s3://faults/k", expect=NOT_FOUND)
            self.assertIn("verbena: ", said)
        self.nothing_was_plain()
        self.assertEqual(self.server.stop(), 0)

    def test_a_client_that_is_killed_leaves_a_server_that_is_well(self):
        self.serve()
        size = 60 * MIB
        source, back = self.content("source", size), self.home / "back"
        self.run_client("mb", "s3://faults")
        self.run_client("put", str(source), "s3://faults/k")
        for words, op in ((("get", "s3://faults/k", str(self.home / "lost")), "write"), (("put", str(source), "s3://faults/lost"), "read")):
            with self.subTest(op=op):
                client = self.hit(words, op, size, attempts=1)
                client.send_signal(signal.SIGKILL)
                client.wait()
                self.run_client("get", "s3://faults/k", str(back))
                self.are_same(back, source)
        self.assertFalse((self.home / "lost").exists(), "a file that is not whole has another name")
        self.run_client("stat", "s3://faults/lost", expect=NOT_FOUND)
        self.nothing_was_plain()
        self.assertEqual(self.server.stop(), 0, "it aborts if memory of the arena is lost")


if __name__ == "__main__":
    unittest.main()
