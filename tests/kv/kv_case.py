"""A server that restarts on the same ports, the settings of caches on it, and a record of what a host calls. Used by the tests under tests/kv."""
import inspect
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, os.environ.get("CLIENT_PYTHON") or str(HERE.parents[1] / "build" / "python"))
os.environ.setdefault("PYTHONHASHSEED", "0")  # as the connector asks for; the tests' hashes do not depend on it

from verbena_server import ACCESS_KEY, SECRET_KEY, Server, program  # noqa: E402

BUCKET = "kvcache"


class CacheServer(Server):
    """In memory; after a restart it is empty and has the same ports."""

    def __init__(self, **options):
        super().__init__(memory=True, **options)
        self.prefix = []  # of its command line
        self.at = ("127.0.0.1:0", "127.0.0.1:0")

    def start(self):
        for left in reversed(range(20)):
            try:
                return self._start()
            except RuntimeError:  # another program's connection may have one of its ports, which are of the range for clients
                if self.at[0].endswith(":0") or left == 0:
                    raise
                time.sleep(0.5)

    def _start(self):
        where = ["--memory"] if self.memory else [self.directory]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([*self.prefix, program(), "server", *where, "--http", self.at[0], "--rdma", self.at[1], *self.args],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=self.env)
        self._read_endpoints()
        self.at = (self.http.split("//")[1], self.native)
        return self

    def freeze(self):
        """Returns when every thread has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        stats = pathlib.Path(f"/proc/{self.process.pid}/task")
        while any((one / "stat").read_text().rsplit(") ", 1)[1][0] != "T" for one in stats.iterdir()):
            time.sleep(0.001)

    def settings(self, **more):
        return {"bucket": BUCKET, "endpoint": f"http://{self.at[0]}", "native_endpoint": self.at[1], "access_key": ACCESS_KEY,
                "secret_key": SECRET_KEY, **more}


class DurableServer(CacheServer):
    """On disk: what it had is there after a restart."""

    def __init__(self, **options):
        super().__init__(**options)
        self.memory = False


def methods_of(interface):
    """The names of what a host's interface has to be called, inherited ones included."""
    return {name for kind in interface.__mro__[:-1] for name, one in vars(kind).items()
            if not name.startswith("_") and (callable(one) or isinstance(one, classmethod))}


def record_calls(kind, names, called):
    """From now on the set gets the names of those methods of the class that are called."""
    def recorded(name):
        original = inspect.getattr_static(kind, name)
        call = original.__func__ if isinstance(original, classmethod) else original

        def record(self, *given, **named):
            called.add(name)
            return call(self, *given, **named)

        async def record_async(self, *given, **named):
            return await record(self, *given, **named)
        kept = record_async if inspect.iscoroutinefunction(call) else record
        setattr(kind, name, classmethod(kept) if isinstance(original, classmethod) else kept)
    for name in names:
        recorded(name)


def torch_or_skip():
    """torch. The test fails without it, and is skipped only where the release has no package of it."""
    try:
        import torch
        torch.set_num_threads(1)
        return torch
    except ImportError:
        cache = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache" / "verbena")
        lacking = cache / "unavailable"  # where ./dev setup notes what the release has no package of
        if not lacking.exists() or "python3-torch?" not in lacking.read_text().split():
            sys.exit("torch is not installed: ./dev setup does that")
        print("skipped: this release has no torch")
        sys.exit(77)
