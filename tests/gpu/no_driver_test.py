#!/usr/bin/python3
"""A server loads no driver of a GPU unless gpudirect.enabled asks for it, whatever libraries the machine has, and calls
nothing of one for objects that go to and from host memory. The doubles are there under the drivers' own names."""
import os
import pathlib
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from python_case import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402
import verbena  # noqa: E402

NAMES = {"libcuda.so.1": os.environ["CUDA_DOUBLE"], "libamdhip64.so.7": os.environ["HIP_DOUBLE"]}
DRIVERS = ("libcuda", "libamdhip", "libhsa-runtime", "_double")


class NoDriver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "lib").mkdir()
        for name, double in NAMES.items():
            (self.folder / "lib" / name).symlink_to(double)

    def environment(self, there=True, **more):
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("TEST_VERBENA_", "VERBENA_GPUDIRECT"))}
        if there:
            plain["LD_LIBRARY_PATH"] = str(self.folder / "lib")
        return {**plain, "TEST_VERBENA_DRIVER_CALLS": str(self.folder / "calls"), **more}

    def calls(self):
        """Calls of the doubles by all processes of this test; None: no process has loaded one."""
        file = self.folder / "calls"
        return struct.unpack("Q", file.read_bytes()[:8])[0] if file.exists() else None

    def mapped(self, server):
        """The libraries of drivers in the server's process."""
        lines = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text().splitlines()
        files = {pathlib.Path(line.split(maxsplit=5)[5]).name for line in lines if len(line.split(maxsplit=5)) == 6}
        return sorted(name for name in files if any(driver in name for driver in DRIVERS))

    def use(self, server):
        """Objects of host memory, by each door and back."""
        data = os.urandom(3 << 20)
        for via, provider in (("http", "auto"), ("native", "tcp"), ("native", "local")):
            with verbena.connect(server.http, native_endpoint=server.native, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via=via,
                                 provider=provider) as client:
                for size in (10, 5000, len(data)):
                    client.put("bucket", "key", data[:size])
                    self.assertEqual(bytes(client.get("bucket", "key")), data[:size])

    def make_bucket(self, server):
        with verbena.connect(server.http, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="http") as client:
            client.make_bucket("bucket")

    def test_a_server_that_is_not_asked_loads_none(self):
        for more in ({}, {"VERBENA_GPUDIRECT_ENABLED": "false"}):
            with Server(env=self.environment(**more)) as server:
                self.make_bucket(server)
                self.use(server)
                self.assertEqual(self.mapped(server), [])
            self.assertIsNone(self.calls())

    def test_a_server_on_a_machine_without_drivers_maps_none(self):
        with Server(env=self.environment(there=False, VERBENA_GPUDIRECT_ENABLED="true")) as server:
            self.make_bucket(server)
            self.use(server)
            self.assertEqual(self.mapped(server), [])
            self.assertIn("gpudirect: no NVIDIA driver", server.log())
        self.assertIsNone(self.calls())

    def test_a_server_that_is_asked_loads_both_and_calls_none_for_host_memory(self):
        with Server(env=self.environment(VERBENA_GPUDIRECT_ENABLED="true")) as server:
            self.make_bucket(server)
            self.assertEqual(self.mapped(server), sorted(pathlib.Path(double).name for double in NAMES.values()))
            self.assertIn("GPUs copy for clients", server.log())
            before = self.calls()
            self.assertGreater(before, 0)
            self.use(server)
            self.assertEqual(self.calls(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
