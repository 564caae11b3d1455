"""Message brokers for tests: Debian's own servers on loopback, each with a folder of its own and ended by its own pid.

Each has start(), kill() (-9), close(), and messages(): its present content, in the order of arrival.
"""
import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from targets import free_port, wait_for_port

OUTPUT = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Broker:
    """`secret`: the credentials for the server under test, "USER:PASSWORD". `tls`: files of certificate and key."""

    passwords = True
    greeting = b""  # sent by a server before TLS begins

    def __init__(self, secret=None, tls=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"verbena-{self.kind}-"))
        self.port, self.process, self.secret, self.tls = free_port(), None, secret, tls

    @property
    def user(self):
        return self.secret.partition(":")[::2] if self.secret else (None, None)

    def url(self):
        return f"{self.kind}://127.0.0.1:{self.port}/{self.place}"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def close(self):
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Nats(Broker):
    """nats-server with JetStream: a stream stores everything sent to events.>"""

    kind, place, refused_place = "nats", "events.objects", "nobody.listens"
    greeting = b'INFO {"server_id":"x","headers":true,"tls_required":true}\r\n'

    def start(self):
        config = [f'listen: "127.0.0.1:{self.port}"', "jetstream {", f'  store_dir: "{self.folder}/store"', "}"]
        if self.secret:
            config += ["authorization {", '  user: "%s"' % self.user[0], '  password: "%s"' % self.user[1], "}"]
        if self.tls:
            config += ["tls {", f'  cert_file: "{self.tls[0]}"', f'  key_file: "{self.tls[1]}"', "}"]
        (self.folder / "nats.conf").write_text("\n".join(config) + "\n")
        self.process = subprocess.Popen(["nats-server", "-c", str(self.folder / "nats.conf")], **OUTPUT)
        wait_for_port(self.port, self.process)
        self.wait_for_streams()
        if not (self.folder / "made").exists():
            self.make_stream()
            (self.folder / "made").touch()
        return self

    def wait_for_streams(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                if "error" not in self.ask("$JS.API.INFO"):
                    return
            except (OSError, ValueError):
                pass
            assert time.monotonic() < deadline, "JetStream does not answer"
            time.sleep(0.1)

    def make_stream(self, **more):
        made = self.ask("$JS.API.STREAM.CREATE.EVENTS", {"name": "EVENTS", "subjects": ["events.>"], "storage": "file",
                                                         "retention": "limits", "num_replicas": 1, **more})
        assert "error" not in made, made

    def link(self):
        """A connection after its handshake."""
        link = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        lines = link.makefile("rb")
        lines.readline()
        if self.tls:
            context = ssl.create_default_context(cafile=self.tls[0])
            link = context.wrap_socket(link, server_hostname="localhost")
            lines = link.makefile("rb")
        hello = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "name": "test"}
        if self.secret:
            hello["user"], hello["pass"] = self.user
        link.sendall(b"CONNECT " + json.dumps(hello).encode() + b"\r\nSUB answers 1\r\n")
        return link, lines

    @staticmethod
    def answer(lines):
        while True:
            words = lines.readline().split()
            if not words:
                raise OSError("the server hung up")
            if words[0] == b"MSG":
                return json.loads(lines.read(int(words[-1]) + 2))
            if words[0] == b"HMSG":
                lines.read(int(words[-1]) + 2)
                raise OSError("nobody answers")

    def ask(self, subject, body=None):
        text = json.dumps(body).encode() if body else b""
        link, lines = self.link()
        with link, lines:
            link.sendall(f"PUB {subject} answers {len(text)}\r\n".encode() + text + b"\r\n")
            return self.answer(lines)

    def messages(self):
        state = self.ask("$JS.API.STREAM.INFO.EVENTS")["state"]
        got = []
        link, lines = self.link()
        with link, lines:
            for number in range(state["first_seq"], state["last_seq"] + 1):
                text = json.dumps({"seq": number}).encode()
                link.sendall(f"PUB $JS.API.STREAM.MSG.GET.EVENTS answers {len(text)}\r\n".encode() + text + b"\r\n")
                answer = self.answer(lines)
                if "message" in answer:
                    got.append(json.loads(base64.b64decode(answer["message"]["data"])))
        return got


class Gate:
    """Forwards connections to another port of this host, while open."""

    def __init__(self, port, to):
        self.port, self.to, self.listener, self.links = port, to, None, []

    def open(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.take, args=(self.listener,), daemon=True).start()

    def take(self, listener):
        while True:
            try:
                link = listener.accept()[0]
                other = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            self.links += [link, other]
            if self.listener is not listener:  # closed meanwhile, before these two were listed
                link.close()
                other.close()
                return
            for ends in ((link, other), (other, link)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    @staticmethod
    def carry(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def close(self):
        if self.listener is None:
            return
        for end in (self.listener, *self.links):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
        self.listener, self.links = None, []


class Mosquitto(Broker):
    """Debian's mosquitto, and mosquitto_sub with a persistent session.

        mosquitto writes confirmed messages to disk a moment later, so kill -9 loses those that no subscriber had
        received: a loss of mosquitto's, not ours. It passes a message to a connected subscriber before it confirms
        it: so publishers connect through a gate that is open only while the subscriber is connected, and mosquitto
        is killed when the gate is shut and the subscriber has read its messages (mosquitto_sub forgets unread ones
        when its own confirmation fails).
    """

    kind, place, refused_place = "mqtt", "objects/eu", "nobody/may"

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.subscriber, self.connections, self.marks = None, 0, 0
        self.inner = free_port()
        self.gate = Gate(self.port, self.inner)

    def start(self):
        self.folder.chmod(0o700)
        config = [f"listener {self.inner} 127.0.0.1", "persistence true", f"persistence_location {self.folder}/",
                  "autosave_on_changes true", "autosave_interval 1", "max_inflight_messages 0", "max_queued_messages 0",
                  "user root", f"acl_file {self.folder}/acl"]
        rules = "topic readwrite objects/#\n"
        (self.folder / "acl").write_text((f"user {self.user[0]}\n" if self.secret else "") + rules)
        if self.secret:
            subprocess.run(["mosquitto_passwd", "-b", "-c", str(self.folder / "passwords"), *self.user], check=True, **OUTPUT)
            config += ["allow_anonymous false", f"password_file {self.folder}/passwords"]
        else:
            config.append("allow_anonymous true")
        if self.tls:
            config += [f"certfile {self.tls[0]}", f"keyfile {self.tls[1]}"]
        for path in ("acl", "passwords"):
            if (self.folder / path).exists():
                (self.folder / path).chmod(0o600)
        (self.folder / "mosquitto.conf").write_text("\n".join(config) + "\n")
        self.process = subprocess.Popen(["mosquitto", "-c", str(self.folder / "mosquitto.conf")], **OUTPUT)
        wait_for_port(self.inner, self.process)
        if self.subscriber is None:
            self.subscribe()
        else:
            self.wait_for_subscriber(self.connections + 1)
        self.connections = self.subscriber_log().count(b"received CONNACK (0)")
        self.gate.open()
        return self

    def kill(self):
        self.gate.close()
        if self.subscriber is not None:
            self.wait_for_mark()
        super().kill()

    def wait_for_mark(self):
        """Waits for a last message: when it has arrived, so have all others."""
        self.marks += 1
        mark = f"mark {self.marks}."
        subprocess.run(["mosquitto_pub", *self.at_place(), "-q", "1", "-m", mark], check=True, timeout=60, **OUTPUT)
        deadline = time.monotonic() + 60
        while mark.encode() not in self.subscriber_log():
            assert time.monotonic() < deadline, "mosquitto_sub does not read what it was handed"
            time.sleep(0.02)

    def subscriber_log(self):
        return (self.folder / "subscriber").read_bytes()

    def wait_for_subscriber(self, connections):
        deadline = time.monotonic() + 60
        while self.subscriber_log().count(b"received CONNACK (0)") < connections:
            assert time.monotonic() < deadline, "mosquitto_sub does not come back"
            time.sleep(0.05)

    def subscribe(self):
        """A session that outlives connections; the broker has it on disk before the first event."""
        command = ["mosquitto_sub", *self.at_place(), "-q", "1", "-i", "reader", "-c", "-V", "311", "-d"]
        log = open(self.folder / "subscriber", "wb")
        self.subscriber = subprocess.Popen(["stdbuf", "-oL", *command], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        log.close()
        deadline = time.monotonic() + 60
        while b"SUBACK" not in self.subscriber_log() or not self.session_is_kept():
            assert time.monotonic() < deadline, "mosquitto_sub does not subscribe"
            time.sleep(0.1)

    def at_place(self):
        words = ["-h", "localhost" if self.tls else "127.0.0.1", "-p", str(self.inner), "-t", self.place]
        if self.secret:
            words += ["-u", self.user[0], "-P", self.user[1]]
        return words + (["--cafile", self.tls[0]] if self.tls else [])

    def session_is_kept(self):
        """Saves the session: mosquitto writes its state on SIGUSR1."""
        self.process.send_signal(signal.SIGUSR1)
        kept = self.folder / "mosquitto.db"
        return kept.exists() and b"reader" in kept.read_bytes()

    def close(self):
        if self.subscriber is not None:
            self.subscriber.kill()
            self.subscriber.wait()
            self.subscriber = None
        super().close()

    def messages(self):
        text = self.subscriber_log()
        return [json.loads(line) for line in text[:text.rfind(b"\n") + 1].splitlines() if line.startswith(b"{")]


class Ended(Exception):
    """A started server has ended."""


class Rabbit(Broker):
    """Debian's rabbitmq-server, a node of its own beside an epmd of its own; pika reads its queue."""

    kind, queue, refused_place = "amqp", "objects", "%2F//no-such-queue"
    place = "%2F/events/objects"

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.epmd, self.epmd_port, self.dist_port, self.got = None, free_port(), free_port(), []

    def start(self):
        """A port that was free may meanwhile be the local end of another connection: the first start then takes
        other ports."""
        for last in (False, False, True) if self.epmd is None else (True,):
            try:
                self.start_node()
                return self
            except Ended:
                if last:
                    raise
                self.epmd.kill()
                self.epmd.wait()
                self.epmd, self.process = None, None
                self.port, self.epmd_port, self.dist_port = free_port(), free_port(), free_port()
        return self

    def start_node(self):
        if self.epmd is None:
            self.epmd = subprocess.Popen(["epmd", "-address", "127.0.0.1", "-port", str(self.epmd_port)], **OUTPUT)
            wait_for_port(self.epmd_port, self.epmd)
        config = ["loopback_users = none", "disk_free_limit.absolute = 1MB", "log.file.level = warning"]
        if self.tls:
            config += ["listeners.tcp = none", f"listeners.ssl.1 = 127.0.0.1:{self.port}", f"ssl_options.certfile = {self.tls[0]}",
                       f"ssl_options.keyfile = {self.tls[1]}", f"ssl_options.cacertfile = {self.tls[0]}",
                       "ssl_options.verify = verify_none", "ssl_options.fail_if_no_peer_cert = false"]
        else:
            config.append(f"listeners.tcp.1 = 127.0.0.1:{self.port}")
        if self.secret:
            config += [f"default_user = {self.user[0]}", f"default_pass = {self.user[1]}"]
        (self.folder / "rabbitmq.conf").write_text("\n".join(config) + "\n")
        (self.folder / "plugins").write_text("[].\n")
        folder = str(self.folder)
        env = dict(os.environ, HOME=folder, RABBITMQ_NODENAME=f"verbena{self.port}@localhost", ERL_EPMD_PORT=str(self.epmd_port),
                   RABBITMQ_DIST_PORT=str(self.dist_port), RABBITMQ_MNESIA_BASE=f"{folder}/mnesia", RABBITMQ_LOG_BASE=f"{folder}/log",
                   RABBITMQ_CONFIG_FILE=f"{folder}/rabbitmq.conf", RABBITMQ_ENABLED_PLUGINS_FILE=f"{folder}/plugins",
                   RABBITMQ_PID_FILE=f"{folder}/pid", RABBITMQ_CONF_ENV_FILE="/dev/null", ERL_EPMD_ADDRESS="127.0.0.1",
                   RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1} +S 1:1")
        self.process = subprocess.Popen(["/usr/lib/rabbitmq/bin/rabbitmq-server"], env=env, start_new_session=True, **OUTPUT)
        self.declare()

    def kill(self):
        """The script and its Erlang machine are a process group of their own."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def close(self):
        super().close()
        if self.epmd is not None:
            self.epmd.kill()
            self.epmd.wait()

    def link(self):
        import pika
        user, password = self.user if self.secret else ("guest", "guest")
        options = None
        if self.tls:
            options = pika.SSLOptions(ssl.create_default_context(cafile=self.tls[0]), "localhost")
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, "/", pika.PlainCredentials(user, password),
                                                                 ssl_options=options))

    def declare(self):
        import pika
        deadline = time.monotonic() + 120
        while True:
            if self.process.poll() is not None:
                raise Ended("rabbitmq-server ended")
            try:
                link = self.link()
                break
            except (OSError, pika.exceptions.AMQPError):
                assert time.monotonic() < deadline, "rabbitmq-server does not answer"
                time.sleep(0.3)
        channel = link.channel()
        channel.exchange_declare("events", "direct", durable=True)
        channel.queue_declare(self.queue, durable=True)
        channel.queue_bind(self.queue, "events", "objects")
        link.close()

    def messages(self):
        """Reads all messages, and keeps them: after a kill -9 that lost an acknowledgement RabbitMQ redelivers, as
        documented."""
        link = self.link()
        channel = link.channel()
        while True:
            method, _, body = channel.basic_get(self.queue)
            if method is None:
                break
            self.got.append(json.loads(body))
            channel.basic_ack(method.delivery_tag)
        link.close()
        return self.got


class Veil:
    """TLS in front of mock brokers, which have none: broker addresses in their answers are replaced by the proxy's.
    `sasl`: the authentication there (sasl.py)."""

    def __init__(self, ports, tls, sasl=None):
        self.sasl = sasl
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        self.context, self.listeners = context, {port: socket.create_server(("127.0.0.1", 0)) for port in ports}
        self.ports = [listener.getsockname()[1] for listener in self.listeners.values()]
        self.names = {b"127.0.0.1" + port.to_bytes(4, "big"): b"localhost" + veiled.to_bytes(4, "big")
                      for port, veiled in zip(ports, self.ports)}
        for port, listener in self.listeners.items():
            threading.Thread(target=self.take, args=(port, listener), daemon=True).start()

    def take(self, port, listener):
        while True:
            try:
                link = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(port, link), daemon=True).start()

    def serve(self, port, link):
        try:
            link = self.context.wrap_socket(link, server_side=True)
            broker = socket.create_connection(("127.0.0.1", port))
            frames, requests = broker.makefile("rb"), link.makefile("rb")
            if self.sasl and not self.sasl.admit(link, requests, broker, frames):
                broker.close()
                return
            answers = threading.Thread(target=self.answer, args=(broker, frames, link), daemon=True)
            answers.start()
            while data := requests.read1(65536):
                broker.sendall(data)
            broker.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        finally:
            link.close()

    def answer(self, broker, frames, link):
        try:
            with broker, frames:
                while head := frames.read(4):
                    frame = frames.read(int.from_bytes(head, "big"))
                    for name, veiled in self.names.items():
                        frame = frame.replace(name, veiled)
                    link.sendall(head + frame)
        except OSError:
            pass

    def close(self):
        for listener in self.listeners.values():
            listener.close()


class Kafka(Broker):
    """librdkafka's own mock cluster (kafka_mock.cc): real protocol over sockets, messages in memory. Killing it
    would lose them, so kill() takes all its brokers away with their connections, in the middle of requests."""

    kind, place, refused_place = "kafka", "objects", "no-such-topic"
    passwords = False  # the mock cluster requires none

    def __init__(self, sasl=None, **arguments):
        super().__init__(**arguments)
        self.veil, self.sasl = None, sasl

    def start(self):
        if self.process is None:
            self.out = self.folder / "messages"
            self.out.touch()
            self.process = subprocess.Popen([os.environ["KAFKA_MOCK"], str(self.out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True)
            ports = [int(address.rpartition(":")[2]) for address in self.process.stdout.readline().strip().split(",")]
            if self.tls:
                self.veil = Veil(ports, self.tls, self.sasl)
                ports = self.veil.ports
            self.port = ports[0]
        else:
            self.say("up")
        return self

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == word

    def kill(self):
        self.say("down")

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None
        if self.veil is not None:
            self.veil.close()
        super().close()

    def lines(self):
        """Partition, key, message."""
        text = self.out.read_bytes()
        return [line.split(b"\t", 2) for line in text[:text.rfind(b"\n") + 1].splitlines()]

    def messages(self):
        return [json.loads(line[2]) for line in self.lines()]


KINDS = {broker.kind: broker for broker in (Nats, Mosquitto, Rabbit, Kafka)}
