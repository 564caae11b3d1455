#!/usr/bin/python3
"""Arrays of a GPU in the Python client, over the double of the driver."""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from python_case import ACCESS_KEY, SECRET_KEY, PythonCase  # noqa: E402
from cuda_driver import Array  # noqa: E402
from hip_driver import driver, is_hip, own  # noqa: E402
from verbena_server import Server, program  # noqa: E402
import verbena  # noqa: E402

MIB = 1 << 20


class Tensor:
    """A DLPack tensor that has no __cuda_array_interface__."""

    class Managed(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                    ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                    ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                    ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    def __init__(self, array, stride=1):
        self.array, self.streams = array, []
        self.shape, self.strides = (ctypes.c_int64 * 1)(array.size // stride), (ctypes.c_int64 * 1)(stride)
        self.managed = self.Managed(array.address, array.driver.dlpack_type, 0, 1, 1, 8, 1, self.shape, self.strides, 0, None, None)

    def __dlpack_device__(self):
        return (self.array.driver.dlpack_type, 0)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.capsule(self.managed, b"dltensor")

    @staticmethod
    def capsule(managed, name):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(managed), name, None)


class VersionedTensor(Tensor):
    """A tensor of DLPack's version 1, or of a later one, with its flags."""

    READ_ONLY, COPIED = 1, 2

    class Versioned(ctypes.Structure):
        _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                    ("flags", ctypes.c_uint64), *Tensor.Managed._fields_[:-2]]

    def __init__(self, array, flags=0, version=1):
        super().__init__(array)
        tensor = [getattr(self.managed, name) for name, _ in Tensor.Managed._fields_[:-2]]
        self.versioned = self.Versioned(version, 0, None, None, flags, *tensor)
        self.asked = []

    def __dlpack__(self, stream=None, max_version=None):
        self.streams.append(stream)
        self.asked.append(max_version)
        return self.capsule(self.versioned, b"dltensor_versioned")


class Arrays(PythonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = driver()

    no_driver = {own("TEST_VERBENA_CUDA_DRIVER", "TEST_VERBENA_HIP_DRIVER"): "/nonexistent/driver.so"}

    def array(self, size, **interface):
        made = Array(self.driver, size, **interface)
        self.addCleanup(made.free)
        return made

    def test_bytes_go_both_ways_by_each_door(self):
        for via, path in (("native", "shared"), ("http", "staged")):
            with self.connect(via=via) as client:
                for size in (1, 5000, 9 * MIB + 3):
                    data = os.urandom(size)
                    array = self.array(size)
                    array.set(data)
                    put = client.put("bucket", "key", array)
                    self.assertEqual((put.device_path, put.bytes), (path, size))
                    self.assertEqual(bytes(client.get("bucket", "key")), data)
                    array.set(bytes(size))
                    got = client.get_into("bucket", "key", array)
                    self.assertEqual((got.device_path, got.bytes), (path, size))
                    self.assertEqual(array.get(), data)

    def test_checks_and_counters(self):
        data = os.urandom(300_001)
        array = self.array(len(data))
        with self.connect(via="native") as client:
            array.set(data)
            put = client.put("bucket", "checked", array, verify_device=True)
            array.set(bytes(len(data)))
            got = client.get_into("bucket", "checked", array, verify_device=True)
            by = own("kernel", "read_back")
            self.assertEqual((put.device_verified, got.device_verified, array.get() == data), (by, by, True))
            self.assertEqual(client.get_into("bucket", "checked", array).device_verified, "")
            part = client.get_into("bucket", "checked", array, range=(1, 10), verify_device=True)
            self.assertEqual(part.device_verified, "no_checksum")
            places = [("bucket", "checked", 0, len(data))]
            self.assertEqual(client.get_many(places, array, verify_device=True).check().device_verified, by)
            self.assertEqual(client.get_many(places, array).check().device_verified, "")
            now = client.device_counters()
            self.assertEqual((now["shared"], now["shared_bytes"]), (6, 5 * len(data) + 10))
            self.assertEqual((now["verified_" + by], now["no_checksum"], now["failed"], now["staged"]), (3, 1, 0, 0))

    def test_batches(self):
        array = self.array(200_000)
        data = os.urandom(200_000)
        array.set(data)
        places = [("bucket", f"part/{i}", i * 10_000, 10_000) for i in range(20)]
        self.client.put_many(places, array).check()
        array.set(bytes(200_000))
        self.client.get_many(places, array).check()
        self.assertEqual(array.get(), data)

    def test_a_registered_array_shows_its_bytes_itself(self):
        array = self.array(1000)
        array.set(b"x" * 1000)
        with self.client.register(array) as window:
            self.client.put("bucket", "registered", window)
            self.assertEqual(bytes(self.client.get("bucket", "registered")), b"x" * 1000)
            array.set(bytes(1000))
            self.client.get_into("bucket", "registered", window)
            self.assertEqual((len(window), array.get()), (1000, b"x" * 1000))
            for touch in (memoryview, bytes, lambda b: b.tobytes(), lambda b: b[0], lambda b: b.__dlpack__()):
                with self.assertRaises((BufferError, ValueError, TypeError)):
                    touch(window)
            with self.assertRaises(BufferError):
                self.client.append("bucket", "appended", window)

    def test_dlpack_tensors_make_the_default_stream_wait(self):
        array = self.array(3000)
        array.set(b"y" * 3000)
        tensor = Tensor(array)
        self.client.put("bucket", "dlpack", tensor)
        self.assertEqual(tensor.streams, [own(1, 0)])
        self.assertEqual(bytes(self.client.get("bucket", "dlpack")), b"y" * 3000)
        with self.assertRaisesRegex(BufferError, "contiguous"):
            self.client.put("bucket", "dlpack", Tensor(array, stride=2))

    def test_dlpack_tensors_of_version_1_say_what_is_read_only(self):
        array = self.array(3000)
        array.set(b"v" * 3000)
        tensor = VersionedTensor(array)
        self.client.put("bucket", "versioned", tensor)
        self.assertEqual((tensor.streams, tensor.asked), ([own(1, 0)], [(1, 0)]))
        self.assertEqual(bytes(self.client.get("bucket", "versioned")), b"v" * 3000)
        array.set(bytes(3000))
        self.client.get_into("bucket", "versioned", tensor)
        self.assertEqual(array.get(), b"v" * 3000)
        read_only = VersionedTensor(array, VersionedTensor.READ_ONLY)
        self.client.put("bucket", "read only", read_only)
        places = [("bucket", "versioned", 0, 3000)]
        with self.client.register(read_only) as window:
            self.client.put("bucket", "read only", window)
            for filled in (read_only, window):
                with self.assertRaisesRegex(BufferError, "read-only"):
                    self.client.get_into("bucket", "versioned", filled)
                with self.assertRaisesRegex(BufferError, "read-only"):
                    self.client.get_many(places, filled)
        for wrong, why in ((VersionedTensor(array, VersionedTensor.COPIED), "copy"), (VersionedTensor(array, version=2), "version")):
            with self.assertRaisesRegex(BufferError, why):
                self.client.put("bucket", "wrong", wrong)

    def test_tensors_in_host_memory_say_what_is_read_only(self):
        data, array = self.locked(3)
        written = data.raw
        self.client.put("bucket", "host", VersionedTensor(array, VersionedTensor.READ_ONLY | VersionedTensor.COPIED))
        ctypes.memset(data, 0, 3000)
        for flags, why in ((VersionedTensor.READ_ONLY, "read-only"), (VersionedTensor.COPIED, "copy")):
            with self.assertRaisesRegex(BufferError, why):
                self.client.get_into("bucket", "host", VersionedTensor(array, flags))
        self.assertEqual(data.raw, bytes(3000))
        self.client.get_into("bucket", "host", VersionedTensor(array))
        self.assertEqual(data.raw, written)

    @staticmethod
    def locked(kind):
        """Page-locked memory, and the array in it."""
        data = ctypes.create_string_buffer(os.urandom(3000), 3000)
        return data, type("Locked", (), {"size": 3000, "address": ctypes.addressof(data), "driver": type("", (), {"dlpack_type": kind})})

    def test_page_locked_tensors_are_host_memory(self):
        for kind in (3, 11):
            data, array = self.locked(kind)
            put = self.client.put("bucket", "locked", Tensor(array))
            self.assertEqual((put.device_path, bytes(self.client.get("bucket", "locked"))), ("", data.raw))

    def test_streams_of_the_interface(self):
        library = self.driver.library
        library.double_stream.restype = ctypes.c_uint64
        stream = library.double_stream(0)
        array = self.array(1000, stream=stream)
        library.double_fill(ctypes.c_uint64(stream), ctypes.c_uint64(array.address), 0x41, ctypes.c_size_t(1000))
        self.client.put("bucket", "after", array)
        self.assertEqual(bytes(self.client.get("bucket", "after")), b"A" * 1000)
        with self.assertRaisesRegex(BufferError, "stream 0"):
            self.client.put("bucket", "after", self.array(10, stream=0))
        self.client.put("bucket", "after", self.array(10, stream=None))
        self.client.put("bucket", "after", self.array(10, version=2))

    def test_what_is_not_served_is_an_error(self):
        array = self.array(1200)
        wrong = {"typestr": "|u", "shape": [1200], "mask": array, "data": 5, "strides": (2,)}
        for name, value in wrong.items():
            with self.assertRaises((BufferError, TypeError, ValueError), msg=name):
                self.client.put("bucket", "wrong", self.array(1200, **{name: value}))
        with self.assertRaisesRegex(BufferError, "contiguous"):
            self.client.put("bucket", "wrong", self.array(1200, shape=(10, 10), strides=(12, 1)))
        self.client.put("bucket", "right", self.array(1200, shape=(10, 30), typestr="<f4", strides=(120, 4)))
        with self.assertRaisesRegex(BufferError, "read-only"):
            self.client.get_into("bucket", "right", self.array(1200, data=(array.address, True)))
        with self.assertRaises(ValueError):  # beyond its allocation
            self.client.put("bucket", "wrong", self.array(1200, shape=(1 << 20,)))
        with self.assertRaises(ValueError):  # no memory of a device
            self.client.put("bucket", "wrong", self.array(10, data=(id(self), False)))
        self.client.put("bucket", "empty", self.array(0))
        self.assertEqual(self.client.get_into("bucket", "empty", self.array(0)).bytes, 0)
        for empty in (self.array(0), bytearray()):
            with self.assertRaises(ValueError):
                self.client.register(empty)

    def other_process(self, device, address=0, server=None, **environment):
        """The client in a process of its own: its memory on that device, or that address of this process."""
        script = pathlib.Path(__file__).resolve().parent / "other_process.py"
        server = server or self.server
        return subprocess.Popen([sys.executable, script, server.http, server.native, str(device), str(address)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment})

    def said(self, process):
        return process.communicate(timeout=60)[0].strip()

    def test_two_processes_use_two_devices(self):
        both = [self.other_process(device) for device in (0, 1)]
        self.assertEqual([self.said(one) for one in both], ["shared: all bytes are right"] * 2)

    def rdma_double(self):
        """The environment of programs in which libfabric's tcp stands for an RDMA device that reaches GPUs' memory."""
        library = pathlib.Path(os.environ[own("TEST_VERBENA_CUDA_DRIVER", "TEST_VERBENA_HIP_DRIVER")]).with_name("libverbena_nic_double.so")
        return {"LD_PRELOAD": str(library), "TEST_VERBENA_RDMA_DEVICE": "double"}

    def test_an_rdma_device_reaches_the_memory_itself(self):
        with Server(env={**os.environ, **self.rdma_double(), "VERBENA_RDMA_PROVIDER": "verbs"}) as server:
            with verbena.connect(server.http, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="http") as client:
                client.make_bucket("bucket")
            process = self.other_process(1, server=server, CLIENT_PROVIDER="verbs", **self.rdma_double())
            self.assertEqual(self.said(process), "peer: all bytes are right")

    def test_an_address_of_another_process_is_no_memory_here(self):
        self.assertIn("no memory of a device", self.said(self.other_process(0, self.array(4096).address)))

    def test_a_driver_that_does_not_start_says_why(self):
        files = own("/dev/nvidia", "/dev/kfd")
        for status, name, hips, hint in ((100, "NO_DEVICE", "NoDevice", "may not open " + files), (3, "NOT_INITIALIZED", "NotInitialized", "forked")):
            told = self.said(self.other_process(0, 4096, TEST_VERBENA_CUDA_FAIL=f"cuInit={status}"))
            self.assertRegex(told, f"^Unsupported: .*{own('cuInit: CUDA_ERROR_' + name, 'hipInit: hipError' + hips)}.*{hint}")

    def bench(self, *arguments, **environment):
        return subprocess.run([program(), "bench", "--json", "--count", "3", "--sizes", "64KiB", *arguments], capture_output=True, text=True,
                              timeout=100, env={**os.environ, **environment})

    def test_the_bench_measures_every_way(self):
        done = self.bench("--memory", own("cuda:1", "rocm:1"), "--doors", "native,http", "--ops", "get,put,get_many,put_many", "--batch", "5")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual({row["memory"] for row in rows}, {own("cuda:1", "rocm:1")})
        found = [(row["door"], row["provider"], row["op"], row["device_path"]) for row in rows]
        ops = ("get", "get_copy", "put", "get_many", "put_many")
        # Its own server with GPUs that copy for it, and then one without.
        ways = [("native", "local", "direct"), ("native", "tcp", "staged"), ("http", "http", "staged"), ("native", "local", "shared")]
        self.assertEqual(found, [(door, provider, op, "copy" if op == "get_copy" else way) for door, provider, way in ways for op in ops])
        self.assertTrue(all(row["bytes_per_s"] > 0 for row in rows))
        self.assertNotIn("no GPU copies", done.stderr)

    def test_the_bench_says_that_no_gpu_copies_for_its_server(self):
        done = self.bench("--memory", own("cuda", "rocm"), "--doors", "native", "--providers", "local", "--ops", "put",
                          TEST_VERBENA_CUDA_FAIL="cuIpcOpenMemHandle_v2=201")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("bench: no GPU copies for the server: direct: ", done.stderr)
        self.assertEqual([json.loads(line)["device_path"] for line in done.stdout.splitlines()], ["shared"] * 2)

    def test_the_bench_of_a_running_server_has_the_way_of_that_server(self):
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        done = self.bench("--memory", own("cuda", "rocm"), "--doors", "native", "--providers", "local", "--ops", "put", "--endpoint", self.server.http,
                          "--native", self.server.native, **keys)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([json.loads(line)["device_path"] for line in done.stdout.splitlines()], ["shared"])

    def test_the_bench_refuses_what_it_cannot_measure(self):
        kind = own("cuda", "rocm")
        for memory in (f"{kind}:", f"{kind}:x", f"{kind}:-1", f"{kind}:1x", own("rocm", "cuda"), ""):
            self.assertNotEqual(self.bench("--memory", memory).returncode, 0, memory)
        self.assertIn("no range on a device", self.bench("--memory", kind, "--ops", "range").stderr)
        self.assertIn("needs --memory cuda", self.bench("--ops", "get_copy").stderr)
        self.assertIn("host memory", self.bench("--memory", kind, "--doors", "anonymous").stderr)
        self.assertIn(own("INVALID_DEVICE", "hipErrorInvalidDevice"), self.bench("--memory", f"{kind}:7", "--doors", "http").stderr)
        done = self.bench("--memory", kind, "--doors", "http", **self.no_driver)
        self.assertIn(own("no NVIDIA driver", "no AMD driver"), done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def told_at_start(self, **environment):
        """A server's lines about GPUs; it serves objects whatever they say."""
        with Server(memory=True, env=environment) as server:
            with verbena.connect(server.http, native_endpoint=server.native, **self.keys) as client:
                client.make_bucket("gpus")
                client.put("gpus", "key", b"bytes")
                self.assertEqual(bytes(client.get("gpus", "key")), b"bytes")
            return [line for line in server.log().splitlines() if "gpudirect:" in line]

    def test_a_server_says_which_gpus_it_found_if_it_is_asked(self):
        found, ready = self.told_at_start(VERBENA_GPUDIRECT_ENABLED="true")
        self.assertIn("GPUs copy for clients", ready)
        self.assertRegex(found, own("CUDA 12.4", "HIP 7.14") + ", 2 devices; 0: Double 0, .*; 1: Double 1")
        self.assertEqual("no handles are taken, whose size it does not check (gpudirect.rocm_handles)" in found, is_hip())
        found = self.told_at_start(VERBENA_GPUDIRECT_ENABLED="true", VERBENA_GPUDIRECT_ROCM_HANDLES="true")[0]
        self.assertEqual("only for clients that are trusted" in found, is_hip())
        failed, = self.told_at_start(VERBENA_GPUDIRECT_ENABLED="true", TEST_VERBENA_CUDA_FAIL="cuInit=100")
        self.assertIn(own("CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice") + ": there is no GPU", failed)
        lost, = self.told_at_start(VERBENA_GPUDIRECT_ENABLED="true", TEST_VERBENA_CUDA_FAIL="cuDeviceGetCount=214")
        self.assertIn(own("CUDA_ERROR_ECC_UNCORRECTABLE", "hipErrorECCNotCorrectable"), lost)
        self.assertEqual(self.told_at_start(), [])

    def doctor(self, **environment):
        done = subprocess.run([program(), "doctor", "--json"], capture_output=True, text=True, timeout=100, env={**os.environ, **environment})
        return {line["subject"]: line["found"] for line in map(json.loads, done.stdout.splitlines())}

    def test_the_doctor_tells_of_gpus(self):
        told = self.doctor()
        self.assertIn(own("CUDA 12.4", "HIP 7.14"), told[own("gpu driver", "gpu driver rocm")])
        self.assertIn("Double 1", told[own("gpu 1", "gpu rocm:1")])
        ways = {subject: found.split(":")[0] for subject, found in told.items() if subject.startswith("gpu memory by ")}
        self.assertTrue(ways["gpu memory by native local"].startswith("direct with a server that has gpudirect.enabled"))
        self.assertEqual(ways["gpu memory by http"], "staged")
        self.assertTrue(self.doctor(**self.rdma_double())["gpu memory by verbs;ofi_rxm"].startswith("peer, unless sealed"))
        absent = self.doctor(**self.no_driver)["gpu"]
        self.assertRegex(absent, "no NVIDIA driver: .*; no AMD driver: ")
        self.assertIn("may not open " + own("/dev/nvidia", "/dev/kfd"), self.doctor(TEST_VERBENA_CUDA_FAIL="cuInit=100")["gpu"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
