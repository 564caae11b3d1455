"""Redis as a peer of the cache: its server on loopback, by a Unix socket and by TCP, and its clients in Python."""
import os
import re
import socket
import subprocess
import time

try:
    import redis
    from redis.connection import HIREDIS_AVAILABLE
except ImportError:
    redis = None


class Socket:
    """A connection of ours that speaks RESP: commands are made before the time is taken, answers read as their bytes where that is enough."""

    name = "own socket"

    def __init__(self, family, address):
        self._socket = socket.socket(family)
        self._socket.connect(address)
        if family == socket.AF_INET:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file, self._made = self._socket.makefile("rb", 1 << 20), {}

    @staticmethod
    def _command(*words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def _once(self, name, given, make):
        known = name, len(given), given[0]
        if known not in self._made:
            self._made[known] = make()
        return self._made[known]

    def set(self, pairs):
        self._socket.sendall(self._once("set", pairs, lambda: self._command(b"MSET", *(word for pair in pairs for word in pair))))
        self._answer()

    def get(self, keys):
        self._socket.sendall(self._once("get", keys, lambda: self._command(b"MGET", *keys)))
        return self._answer()

    def exist(self, keys):
        self._socket.sendall(self._once("exist", keys, lambda: b"".join(self._command(b"EXISTS", key) for key in keys)))
        wanted = b":1\r\n" * len(keys)  # read as a whole, which is faster than any client that parses
        assert self._file.read(len(wanted)) == wanted

    def _answer(self):
        line = self._file.readline()
        if line[:1] == b"*":
            return [self._answer() for _ in range(int(line[1:]))]
        if line[:1] == b"$":
            return self._file.read(int(line[1:]) + 2)[:-2] if line[1:2] != b"-" else None
        return line[1:-2]

    def close(self):
        self._socket.close()


class Packaged:
    """redis-py, with the parser of hiredis if that is installed."""

    def __init__(self, **where):
        self.name = f"redis-py {redis.__version__}{' with hiredis' if HIREDIS_AVAILABLE else ''}"
        self._client = redis.Redis(**where)

    def set(self, pairs):
        self._client.mset(dict(pairs))

    def get(self, keys):
        return self._client.mget(keys)

    def exist(self, keys):
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.exists(key)
        assert sum(pipeline.execute()) == len(keys)

    def close(self):
        self._client.close()


class Redis:
    """A server, and by transport ("unix", "tcp") its clients."""

    def __init__(self, folder):
        path = f"{folder}/redis.sock"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.process = subprocess.Popen(["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--unixsocket", path, "--save", "",
                                         "--appendonly", "no", "--dir", folder], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not os.path.exists(path):
            assert time.monotonic() < until
            time.sleep(0.05)
        self.clients = {"unix": [Socket(socket.AF_UNIX, path)], "tcp": [Socket(socket.AF_INET, ("127.0.0.1", port))]}
        if redis is not None:
            self.clients["unix"].append(Packaged(unix_socket_path=path))
            self.clients["tcp"].append(Packaged(host="127.0.0.1", port=port))

    @staticmethod
    def version():
        said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
        return re.search(r"v=(\S+)", said).group(1)

    def names(self):
        """Its clients in words."""
        own, *packaged = (client.name for client in self.clients["unix"])
        return " and by ".join([f"a socket of the bench's own, whose commands are made beforehand ({own})", *packaged])

    def close(self):
        for clients in self.clients.values():
            for client in clients:
                client.close()
        self.process.terminate()
        self.process.wait()
