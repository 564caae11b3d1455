"""Targets of events for tests: a webhook and a Redis server on loopback, each ended by its own pid."""
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_certificate(folder):
    """Of localhost, signed by itself. Its files: certificate and key."""
    files = str(pathlib.Path(folder) / "certificate.pem"), str(pathlib.Path(folder) / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-out", files[0], "-keyout", files[1]],
                   check=True, capture_output=True)
    return files


class Mute:
    """Takes connections and says nothing, but for what it greets with."""

    def __init__(self, greeting=b""):
        self.greeting = greeting
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.links = self.listener.getsockname()[1], []
        self.thread = threading.Thread(target=self.take, daemon=True)
        self.thread.start()

    def take(self):
        while True:
            try:
                link = self.listener.accept()[0]
                self.links.append(link)
                link.sendall(self.greeting)
            except OSError:
                return

    def close(self):
        self.listener.close()
        for link in self.links:
            link.close()


class Webhook:
    """Takes POSTs, in this process. `answers`: what to do with the next ones: a status, "hang" or "cut"; then 200."""

    def __init__(self, port=0, token=None, tls=None):
        hook = self
        self.messages, self.answers, self.token, self.heads = [], [], token, []
        self.released = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.heads.append((self.path, dict(self.headers)))
                answer = hook.answers.pop(0) if hook.answers else 200
                if hook.token and self.headers.get("authorization") != f"Bearer {hook.token}":
                    answer = 401
                if answer == "hang":
                    hook.released.wait(60)
                if answer in ("hang", "cut"):
                    self.close_connection = True
                    return
                if answer == 200:
                    hook.messages.append(json.loads(body))
                self.send_response(answer)
                if answer in (301, 307):
                    self.send_header("location", f"http://127.0.0.1:{hook.port}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # of callers that hang up
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()


class Process:
    """A webhook as a process of its own, which writes what it confirmed into a file: for kill -9."""

    def __init__(self, folder):
        self.port, self.log = free_port(), pathlib.Path(folder) / "webhook.log"
        self.process = None

    def start(self):
        self.process = subprocess.Popen([sys.executable, __file__, "webhook", str(self.port), str(self.log)])
        wait_for_port(self.port, self.process)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def messages(self):
        """Of those lines that are whole: a killed process may have confirmed none of the torn one."""
        text = self.log.read_bytes() if self.log.exists() else b""
        return [json.loads(line) for line in text[:text.rfind(b"\n") + 1].splitlines()]


class Redis:
    """Debian's redis-server, which keeps each command before it answers (appendfsync always)."""

    @staticmethod
    def there():
        return shutil.which("redis-server") is not None

    def __init__(self, password=None):
        self.folder = tempfile.mkdtemp(prefix="verbena-redis-")
        self.port, self.password, self.process = free_port(), password, None

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder, "--save", "",
                   "--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning", "--daemonize", "no"]
        if self.password:
            command += ["--requirepass", self.password]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_port(self.port, self.process)
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def close(self):
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *words):
        """One command, its answer as the protocol has it (RESP2)."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as link, link.makefile("rb") as answer:
            if self.password:
                link.sendall(command_bytes("AUTH", self.password))
                read_reply(answer)
            if words[0] == "IN":
                link.sendall(command_bytes("SELECT", words[1]))
                read_reply(answer)
                words = words[2:]
            link.sendall(command_bytes(*words))
            return read_reply(answer)

    def messages(self, name, database="0"):
        return [json.loads(text) for text in self.call("IN", database, "LRANGE", name, "0", "-1")]


def command_bytes(*words):
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def read_reply(answer):
    line = answer.readline().rstrip(b"\r\n")
    kind, rest = line[:1], line[1:]
    if kind == b"-":
        raise RuntimeError(rest.decode())
    if kind == b"$":
        if rest == b"-1":
            return None
        text = answer.read(int(rest))
        answer.read(2)
        return text
    if kind == b"*":
        return [read_reply(answer) for _ in range(int(rest))]
    return int(rest) if kind == b":" else rest


def wait_for_port(port, process, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError("the target ended")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the target did not start")


def wait_until(true, seconds=60, what=""):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def serve(port, path):
    """The process: a line of the file is durable before it is confirmed."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    text = pathlib.Path(path).read_bytes()
    os.ftruncate(log, text.rfind(b"\n") + 1)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            os.write(log, self.rfile.read(int(self.headers["content-length"])) + b"\n")
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    http.server.ThreadingHTTPServer.allow_reuse_address = True
    http.server.ThreadingHTTPServer.handle_error = lambda *_: None  # of servers that were killed
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[2]), sys.argv[3])
