#!/usr/bin/python3
"""verbena.torch into the memory of a device, over the double of the driver: no CPU access to it survives there."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from python_case import PythonCase, skip  # noqa: E402
from hip_driver import driver, is_hip, own  # noqa: E402

try:
    import torch
except ImportError:
    skip("no torch")
import verbena.torch  # noqa: E402
from verbena import _torch_device  # noqa: E402

if is_hip():
    torch.version.hip = "6.2"  # as a build for ROCm says

MIB = 1 << 20


class Bytes:
    """As much of torch's tensor of a device as load_file and DeviceBatches use."""

    device = "cuda:0"

    def __init__(self, driver, address, size, dtype=torch.uint8, shape=None):
        self.driver, self.address, self.size, self.dtype, self.shape = driver, address, size, dtype, shape

    def numel(self):
        return self.size

    def data_ptr(self):
        return self.address

    def __getitem__(self, part):
        first, last, _ = part.indices(self.size)
        return Bytes(self.driver, self.address + first, last - first)

    def view(self, dtype):
        return Bytes(self.driver, self.address, self.size, dtype, self.shape)

    def reshape(self, shape):
        return Bytes(self.driver, self.address, self.size, self.dtype, shape)

    def on_host(self):
        data = self.driver.read(self.address, self.size)
        return torch.frombuffer(bytearray(data), dtype=self.dtype).reshape((-1,) if self.shape is None else self.shape)


class OnDevice(PythonCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = driver()

    def setUp(self):
        self.allocated, self.windows = [], []
        own = _torch_device._allocate
        _torch_device._allocate = self.allocate
        self.addCleanup(setattr, _torch_device, "_allocate", own)

    def allocate(self, size, device):
        self.assertEqual(device, "cuda:0")
        made = Bytes(self.driver, self.driver.allocate(max(size, 1)), size)
        self.addCleanup(self.driver.free, made.address)
        self.allocated.append(size)

        def window(part):
            self.windows.append(part.numel())
            return _torch_device._Window(part, 0)
        return made, window

    def test_a_file_is_received_in_the_memory_of_its_tensors(self):
        tensors = {"large": torch.randn(5 * MIB), "b": torch.randn(300, 7), "half": torch.randn(5).to(torch.bfloat16), "scalar": torch.tensor(7),
                   "own": torch.randn(MIB // 4)}
        verbena.torch.save_file(tensors, "s3://bucket/model", client=self.client)
        for via in ("native", "http"):
            self.allocated, self.windows = [], []
            with self.connect(via=via) as client:
                back = verbena.torch.load_file("s3://bucket/model", device="cuda:0", client=client)
                for name, tensor in tensors.items():
                    self.assertTrue(torch.equal(back[name].on_host(), tensor), (via, name))
                self.assertEqual(sum(self.allocated), sum(one.numel() * one.element_size() for one in tensors.values()))
                self.assertEqual((len(self.allocated), max(self.windows), len(self.windows)), (4, 16 * MIB, 5))
                one = verbena.torch.load_file("s3://bucket/model", device="cuda:0", names="b", client=client)["b"]
                self.assertTrue(torch.equal(one.on_host(), tensors["b"]))

    def test_a_state_is_received_on_the_device(self):
        state = {"step": 7, "model": {"large": torch.randn(5 * MIB), "half": torch.randn(5).to(torch.bfloat16), "flag": torch.tensor([True, False])},
                 "optimizer": [torch.randn(300, 7), {"moment": torch.randn(2).to(torch.complex128)}]}
        verbena.torch.save(state, self.client, "bucket", "state")
        for via in ("native", "http"):
            self.allocated, self.windows = [], []
            with self.connect(via=via) as client:
                back = verbena.torch.load(client, "bucket", "state", device="cuda:0")
            self.assertEqual(back["step"], 7)
            found = {**back["model"], "rows": back["optimizer"][0], **back["optimizer"][1]}
            wanted = {**state["model"], "rows": state["optimizer"][0], **state["optimizer"][1]}
            for name, tensor in wanted.items():
                self.assertTrue(torch.equal(found[name].on_host(), tensor), (via, name))
            # The small ones share memory, behind the large one; each GET is of one run of them, or of a piece.
            self.assertEqual((len(self.allocated), max(self.windows), len(self.windows)), (2, 16 * MIB, 3))
        with self.assertRaises(TypeError):
            verbena.torch.load(self.client, "bucket", "state", device="cuda:0", version_id="x")

    def test_a_state_that_is_none_allocates_nothing(self):
        def stored(head, size=8192, magic=b"VNBCKPT1"):
            text = head if isinstance(head, bytes) else json.dumps(head).encode()
            self.client.put("bucket", "wrong", (magic + len(text).to_bytes(8, "little") + text).ljust(size, b"x"))
        tensor = ["float32", [2], 0, 8]
        for wrong in (["float32", [2], 4096, 8], ["float32", [2], -8, 8], ["float32", [3], 0, 8], ["nn", [2], 0, 8], ["float32", [-2], 0, -8],
                      ["float32", [1 << 62], 0, 1 << 64], ["float32", [0, 1 << 61], 0, 0], ["float32", [1] * 65, 0, 4], ["quint8", [8], 0, 8],
                      ["float32", [2], 0], {}, ["_inductor", [2], 0, 8], ["float32", "2", 0, 8], ["float32", [2], 0.0, 8], [1, [2], 0, 8]):
            stored({"tree": {"$tensor": 0}, "tensors": [wrong]})
            for device in ("cpu", "cuda:0"):
                with self.assertRaises(ValueError, msg=(wrong, device)):
                    verbena.torch.load(self.client, "bucket", "wrong", device=device)
        number = {"$tensor": 0}
        deep = b'{"tensors": [], "tree": ' + b'{"$list": [' * 5000 + b"]}" * 5000 + b"}"
        for head in ([], 7, {"tree": number}, {"tensors": [tensor]}, {"tree": number, "tensors": {}}, {"tree": number, "tensors": 1},
                     *({"tree": tree, "tensors": [tensor]} for tree in (
                         [number], {}, {"$tensor": 0, "$list": []}, {"$tensor": 1}, {"$tensor": -1}, {"$tensor": "0"}, {"$tensor": True},
                         {"$set": []}, {"$dict": [[{"$list": []}, 1]]}, {"$dict": [1]}, {"$dict": {}}, {"$list": 7}, {"$tuple": "ab"})), deep):
            stored(head)
            for device in ("cpu", "cuda:0"):
                with self.assertRaises(ValueError, msg=(str(head)[:100], device)):
                    verbena.torch.load(self.client, "bucket", "wrong", device=device)
        most = verbena.torch._HEAD_MAX
        verbena.torch._HEAD_MAX = 1000  # heads longer than that are not read
        self.addCleanup(setattr, verbena.torch, "_HEAD_MAX", most)
        stored({"tree": number, "tensors": [tensor], "more": "x" * 1000}, 16384)
        for device in ("cpu", "cuda:0"):
            with self.assertRaisesRegex(ValueError, "is no checkpoint"):
                verbena.torch.load(self.client, "bucket", "wrong", device=device)
        verbena.torch._HEAD_MAX = most
        stored({"tree": number, "tensors": [tensor, tensor]})  # twice the same bytes
        with self.assertRaisesRegex(ValueError, "in another"):
            verbena.torch.load(self.client, "bucket", "wrong", device="cuda:0")
        for body in (b"short", b"VNBCKPT1", b"VNBCKPT1" + b"\xff" * 100):
            self.client.put("bucket", "wrong", body)
            with self.assertRaises(ValueError, msg=body):
                verbena.torch.load(self.client, "bucket", "wrong", device="cuda:0")
        self.assertEqual(self.allocated, [])

    def test_batches_arrive_on_the_device(self):
        bodies = {f"batch/{i:02}": os.urandom(i * 100) for i in range(30)}
        for key, body in bodies.items():
            self.client.put("bucket", key, body)
        found = {}
        for keys, tensors in verbena.torch.DeviceBatches(self.client, "bucket", "batch/", batch_size=8, device="cuda:0",
                                                         decode=lambda keys, tensors: (keys, tensors)):
            found.update({key: self.driver.read(tensor.address, tensor.size) if tensor.size else b"" for key, tensor in zip(keys, tensors)})
        self.assertEqual(found, bodies)
        self.assertEqual(len(self.allocated), 4)

    def test_a_device_that_is_full_is_an_error(self):
        verbena.torch.save_file({"a": torch.ones(1000)}, "s3://bucket/small", client=self.client)
        _torch_device._allocate = lambda size, device: (_ for _ in ()).throw(RuntimeError("out of memory"))
        with self.assertRaisesRegex(RuntimeError, "out of memory"):
            verbena.torch.load_file("s3://bucket/small", device="cuda:0", client=self.client)

    def test_the_drivers_errors_end_the_load(self):
        verbena.torch.save_file({"a": torch.ones(10 * MIB), "b": torch.ones(10)}, "s3://bucket/lost", client=self.client)
        library = self.driver.library
        self.addCleanup(library.double_lose, 0, False)
        self.addCleanup(library.double_fail, b"cuMemcpyHtoDAsync_v2", 0, 0)
        library.double_fail(b"cuMemcpyHtoDAsync_v2", 2, 3)
        with self.assertRaisesRegex(verbena.errors.LocalError, own("CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory")):
            verbena.torch.load_file("s3://bucket/lost", device="cuda:0", client=self.client)
        library.double_fail(b"cuMemcpyHtoDAsync_v2", 0, 0)
        allocate = _torch_device._allocate

        def allocate_and_lose(size, device):
            made = allocate(size, device)
            library.double_lose(0, True)
            return made
        _torch_device._allocate = allocate_and_lose
        with self.assertRaisesRegex(verbena.errors.LocalError, own("CUDA_ERROR_ECC_UNCORRECTABLE", "hipErrorECCNotCorrectable")):
            verbena.torch.load_file("s3://bucket/lost", device="cuda:0", names="b", client=self.client)
        library.double_lose(0, False)
        _torch_device._allocate = allocate
        back = verbena.torch.load_file("s3://bucket/lost", device="cuda:0", client=self.client)
        self.assertTrue(torch.equal(back["b"].on_host(), torch.ones(10)))

    def test_a_forked_worker_has_no_device(self):
        self.client.put("bucket", "forked/1", b"bytes")
        made, window = self.allocate(10, "cuda:0")
        self.client.put("bucket", "onto", window(made))
        options = {"endpoint": self.server.http, "native_endpoint": self.server.native, **self.keys}
        batches = verbena.torch.DeviceBatches(options, "bucket", "forked/", device="cuda:0")
        with self.assertRaisesRegex(Exception, "fork"):
            list(torch.utils.data.DataLoader(batches, batch_size=None, num_workers=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
