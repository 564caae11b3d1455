#!/usr/bin/python3
"""verbena.checkpoint from and to the memory of a device, over the double of the driver: tensors whose bytes are there alone."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from python_case import PythonCase, skip  # noqa: E402
from hip_driver import driver  # noqa: E402

try:
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException
    dcp.save  # noqa: B018 what came before it is not served
except (ImportError, AttributeError):
    skip("no torch.distributed.checkpoint")
from verbena import _torch_device, checkpoint  # noqa: E402
from verbena.checkpoint import StorageReader, StorageWriter  # noqa: E402

MIB = 1 << 20


class OnDevice(PythonCase):
    """A tensor that is `moved` has its bytes on the device: those that the CPU sees are others, and must not be used."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = driver()

    def setUp(self):
        self.places, self.windows, self.settled = {}, [], []
        for module, name, value in ((_torch_device, "_is_there", self.is_there), (_torch_device, "_window_of", self.window_of),
                                    (_torch_device, "_settle", self.settle), (checkpoint, "_PACKED_MAX", MIB)):
            self.addCleanup(setattr, module, name, getattr(module, name))
            setattr(module, name, value)

    def moved(self, tensor):
        data = bytes(tensor.reshape(-1).view(torch.uint8).numpy())
        address = self.driver.allocate(len(data))
        self.addCleanup(self.driver.free, address)
        self.driver.write(address, data)
        self.places[tensor.untyped_storage().data_ptr()] = address
        tensor.reshape(-1).view(torch.uint8).fill_(0x5a)
        return tensor

    def on_device(self, tensor):
        data = self.driver.read(self.places[tensor.untyped_storage().data_ptr()], tensor.numel() * tensor.element_size())
        self.assertTrue((tensor.reshape(-1).view(torch.uint8) == 0x5a).all(), "a CPU has touched the tensor")
        return torch.frombuffer(bytearray(data), dtype=tensor.dtype).reshape(tensor.shape)

    def is_there(self, tensor):
        return tensor.untyped_storage().data_ptr() in self.places

    def window_of(self, flat):
        if not self.is_there(flat):
            return flat
        begin = flat.untyped_storage().data_ptr()
        self.windows.append(flat.numel())
        window = type("Window", (), {"__dlpack_device__": lambda _: (self.driver.dlpack_type, 0)})()
        window.__cuda_array_interface__ = {"shape": (flat.numel(),), "typestr": "|u1", "version": 3, "stream": 1,
                                           "data": (self.places[begin] + flat.data_ptr() - begin, False)}
        return window

    def settle(self, tensors):
        self.settled.append(sum(self.is_there(tensor) for tensor in tensors))

    def storage(self, kind, client, prefix):
        return kind(client, "bucket", prefix)

    def test_tensors_are_sent_from_the_device_and_received_there(self):
        large, half = torch.randn(3 * MIB // 4, 2), torch.randn(MIB).to(torch.bfloat16)
        small, step = torch.randn(10), 7
        for via in ("native", "http"):
            self.windows, self.settled = [], []
            with self.connect(via=via) as client:
                state = {"large": self.moved(large.clone()), "half": self.moved(half.clone()), "small": small, "step": step}
                dcp.save(state, storage_writer=self.storage(StorageWriter, client, via))
                self.assertEqual(sorted(self.windows), [2 * MIB, 6 * MIB], via)
                back = {"large": self.moved(torch.zeros(3 * MIB // 4, 2)), "half": self.moved(torch.zeros(MIB).to(torch.bfloat16)),
                        "small": torch.zeros(10), "step": 0}
                dcp.load(back, storage_reader=self.storage(StorageReader, client, via))
            self.assertEqual((sorted(self.windows), self.settled), ([2 * MIB, 2 * MIB, 6 * MIB, 6 * MIB], [2, 2]), via)
            self.assertTrue(torch.equal(self.on_device(back["large"]), large) and torch.equal(self.on_device(back["half"]), half), via)
            self.assertTrue(torch.equal(back["small"], small))
            self.assertEqual(back["step"], step)
        # What a device has stored any host loads.
        there = {"large": torch.zeros(3 * MIB // 4, 2), "half": torch.zeros(MIB).to(torch.bfloat16)}
        dcp.load(there, storage_reader=self.storage(StorageReader, self.client, "native"))
        self.assertTrue(torch.equal(there["large"], large) and torch.equal(there["half"], half))

    def test_a_driver_that_fails_ends_the_save_and_the_load(self):
        library = self.driver.library
        self.addCleanup(library.double_fail, b"cuMemcpyDtoHAsync_v2", 0, 0)
        self.addCleanup(library.double_fail, b"cuMemcpyHtoDAsync_v2", 0, 0)
        state = {"large": self.moved(torch.randn(MIB))}
        library.double_fail(b"cuMemcpyDtoHAsync_v2", 2, 0)
        with self.assertRaises(CheckpointException) as caught:
            dcp.save(state, storage_writer=self.storage(StorageWriter, self.client, "failed"))
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", str(caught.exception))
        self.assertNotIn("failed/.metadata", [entry.key for entry in self.client.list("bucket", "failed/")])
        library.double_fail(b"cuMemcpyDtoHAsync_v2", 0, 0)
        dcp.save(state, storage_writer=self.storage(StorageWriter, self.client, "failed"))
        library.double_fail(b"cuMemcpyHtoDAsync_v2", 2, 0)
        with self.assertRaises(CheckpointException) as caught:
            dcp.load({"large": self.moved(torch.zeros(MIB))}, storage_reader=self.storage(StorageReader, self.client, "failed"))
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", str(caught.exception))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
