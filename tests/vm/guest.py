"""The virtual machine's network and RDMA devices for a test inside it (tools/vm.sh creates them).

The server has v0, 10.77.0.1 and rxe0; clients have v1, 10.77.0.2 and rxe1. All traffic between them crosses a
bridge; `tc netem` drops and delays packets there. Both are in one network namespace, because this kernel's rxe sends
through the first one only; a client has another user id, for which a rule selects the route over v1.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import verbena_server  # noqa: E402

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
HTTP, NATIVE = f"http://{SERVER}:9000", f"{SERVER}:9100"
CA = None  # the file of the authority that clients trust, where HTTP is https
# rxe, or siw if the machine was started with soft-iWARP devices.
DEVICE = os.environ.get("VM_RDMA", "rxe")
CLIENT_UID = 1000
KIB, MIB = 1 << 10, 1 << 20
# A separate user that can still read the build and lock memory.
CAPABILITIES = "+dac_override,+dac_read_search,+ipc_lock"
AS_CLIENT = ["setpriv", f"--reuid={CLIENT_UID}", "--clear-groups", f"--inh-caps={CAPABILITIES}",
             f"--ambient-caps={CAPABILITIES}"]
KEYS = {"AWS_ACCESS_KEY_ID": verbena_server.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": verbena_server.SECRET_KEY}


def sh(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)


def prepare():
    # Another program may have been here before (each.sh).
    sh("ip rule del pref 5 2>/dev/null || true")
    sh(f"ip rule add pref 5 uidrange {CLIENT_UID}-{CLIENT_UID} to {SERVER} lookup 102")


# The link.

def shape(what, ends=(0, 1)):
    """Sets the link's quality: "loss 2%", "delay 20ms", "rate 40mbit"."""
    for end in ends:
        sh(f"tc qdisc replace dev v{end} root netem {what} limit 100000")


def unshape():
    for end in (0, 1):
        sh(f"tc qdisc del dev v{end} root 2>/dev/null || true")


def link_down():
    """Pulls the server's cable at the switch. (Taking v0 itself down would remove its route, too, and a connection
    manager's message without a route breaks queue pair 1 of this kernel's rxe for good.)"""
    sh("ip link set p0 down")


def link_up():
    sh("ip link set p0 up")


def counters(device, *names):
    """The sum of these hardware counters of a device's port."""
    folder = pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters")
    return sum(int((folder / name).read_text()) for name in names)


def on_the_wire(direction):
    """Bytes that the server's interface has sent ("tx") or received ("rx")."""
    return int(pathlib.Path(f"/sys/class/net/v0/statistics/{direction}_bytes").read_text())


def port_state(device):
    return pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/state").read_text().split()[-1]


# The server.

class Server:
    """`verbena server` on rxe0, or without a device on tcp: fixed ports, so that another can take its place. `file`: the
    text of a configuration file."""

    def __init__(self, *settings, device=f"{DEVICE}0", file=None):
        self.directory = tempfile.mkdtemp(prefix="verbena-vm-")
        self.file = file
        self.log_path = self.directory + ".log"
        fabric = ["rdma.provider=verbs", f"rdma.device_name={device}"] if device else ["rdma.provider=tcp"]
        # The client's address is on this same host; a token may make the server dial such an address only if
        # configured.
        self.settings = [*fabric, f"rdma.token_networks={CLIENT}", "rdma.operation_timeout_ms=3000", "cores=2",
                         "arena_size=128MiB", "http.body_timeout=5", *settings]
        self.process = None

    def command(self):
        out = [verbena_server.program(), "server", self.directory, "--http", "0.0.0.0:9000", "--rdma", "0.0.0.0:9100"]
        if self.file is not None:
            path = self.directory + ".yaml"
            pathlib.Path(path).write_text(self.file)
            out += ["--config", path]
        for setting in self.settings:
            out += ["--set", setting]
        return out

    def start(self):
        env = dict(os.environ, VERBENA_ROOT_ACCESS_KEY=verbena_server.ACCESS_KEY,
                   VERBENA_ROOT_SECRET_KEY=verbena_server.SECRET_KEY)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        for _ in range(2400):  # two minutes: on a busy machine registering the arena alone takes half of one
            try:
                urllib.request.urlopen("http://127.0.0.1:9100/-/health", timeout=5).read()
                return self
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise AssertionError("the server did not start:\n" + self.log())

    def refuses_to_start(self, limit_s=30):
        """The output of a server with invalid settings before it ended."""
        env = dict(os.environ, VERBENA_ROOT_ACCESS_KEY=verbena_server.ACCESS_KEY,
                   VERBENA_ROOT_SECRET_KEY=verbena_server.SECRET_KEY)
        done = subprocess.run(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=env, timeout=limit_s, text=True)
        assert done.returncode not in (0, -signal.SIGABRT, -signal.SIGSEGV), (done.returncode, done.stdout)
        return done.stdout

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")[-6000:]

    def metrics(self):
        text = urllib.request.urlopen("http://127.0.0.1:9100/-/metrics", timeout=20).read().decode()
        out = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                out[name] = float(value)
        return out

    def metric(self, name):
        return self.metrics().get(name, 0)

    def moved(self, op):
        """Bytes of payload that its one-sided operations have moved: "write" or "read"."""
        return self.metric(f'verbena_fabric_bytes_total{{op="{op}"}}')

    def in_mid_transfer(self, op, before, size):
        """Waits until part of `size` bytes has been moved."""
        until(lambda: self.moved(op) > before, 60, f"the first bytes of a {op}")
        assert self.moved(op) - before < size, "the transfer was over before the fault"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """A clean end. The server aborts if a lease was lost, so its exit status shows that none was."""
        self.process.terminate()
        try:
            status = self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("the server did not end\n" + self.log())
        assert status == 0, f"the server ended with {status}\n{self.log()}"


# Clients.

class Mover:
    """tests/vm/client.cc as a process; its output is described there."""

    def __init__(self, **flags):
        self.via = flags["via"]
        command = [*AS_CLIENT, os.environ["VM_CLIENT"], "--endpoint", HTTP, "--native", NATIVE]
        if CA:
            command += ["--ca-file", str(CA)]
        for name, value in flags.items():
            command += ["--" + name.replace("_", "-").replace("seconds", "for"), str(value)]
        self.name = " ".join(f"--{name} {value}" for name, value in flags.items())
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        env=dict(os.environ, **KEYS), text=True)
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def said(self, prefix):
        return [line for line in self.lines if line.startswith(prefix)]

    def wait_for(self, prefix, count=1, limit_s=60):
        until(lambda: len(self.said(prefix)) >= count or self.process.poll() is not None, limit_s,
              f"{count} times \"{prefix}\" from {self.name}")
        assert len(self.said(prefix)) >= count, f"{self.name} ended: {self.lines[-5:]}"

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, limit_s=120):
        """Ends the client; returns its exit status."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"{self.name} hangs; it said {self.lines[-8:]}")
        self.reader.join(5)
        return status

    def must_succeed(self, door=None, limit_s=120):
        status = self.end(limit_s)
        assert status == 0, f"{self.name}: exit status {status}; it said {self.lines[-8:]}"
        if door:
            others = [line for line in self.said("ok") if f" {door} " not in f"{line} "]
            assert not others, f"{self.name}: by another way: {others[:3]}"
        return self


def verbena(*arguments, check=True, limit_s=120, client=True):
    """The command-line program as a client."""
    command = [*(AS_CLIENT if client else []), verbena_server.program(), *arguments, *(["--ca-file", str(CA)] if CA else [])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, AWS_ENDPOINT_URL=HTTP, **KEYS), timeout=limit_s, text=True)
    assert not check or done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def until(condition, limit_s, what):
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain for " + what)
        time.sleep(0.01)


def run(cases):
    """Runs the cases (functions) in order, or those named on the command line; prints each with its time."""
    wanted, failed = sys.argv[1:], 0
    began = time.monotonic()
    for case in cases:
        if wanted and case.__name__ not in wanted:
            continue
        start = time.monotonic()
        try:
            case()
            verdict = "ok"
        except Exception as error:  # noqa: BLE001: every failure is reported, the other cases still run
            import traceback
            traceback.print_exc(file=sys.stdout)
            verdict, failed = f"FAILED: {error}", failed + 1
        finally:
            unshape()
            if port_state(DEVICE + "0") != "ACTIVE":
                link_up()
        print(f"{case.__name__}: {verdict} ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{len(wanted) or len(cases)} cases, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
    sys.exit(1 if failed else 0)
