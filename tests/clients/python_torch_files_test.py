#!/usr/bin/python3
"""Safetensors files and batches of objects for PyTorch: what comes back, and what is refused."""
import json
import os
import sys
import unittest

from python_case import PythonCase, skip

try:
    import torch
except ImportError:
    skip("no torch")
import verbena.torch  # noqa: E402
from verbena import _safetensors  # noqa: E402


def file_of(head, data=b""):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(begin, end, shape=None, dtype="U8"):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


class Files(PythonCase):
    def load(self, name, **options):
        return verbena.torch.load_file(f"s3://bucket/{name}", client=self.client, **options)

    def test_tensors_come_back_as_they_were(self):
        tensors = {"large": torch.randn(5 << 20), "b": torch.randn(300, 7), "half": torch.randn(5).to(torch.bfloat16), "mask": torch.tensor([True, False]),
                   "empty": torch.empty(0, 3), "scalar": torch.tensor(7), "turned": torch.randn(6, 4).T, "bytes": torch.arange(3, dtype=torch.uint8),
                   "million": torch.arange(1 << 18, dtype=torch.int32), "odd": torch.arange(5, dtype=torch.int16),
                   "conjugate": torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64).conj(), "trained": torch.ones(3, requires_grad=True)}
        put = verbena.torch.save_file(tensors, "s3://bucket/a/model.safetensors", {"format": "pt"}, client=self.client)
        self.assertEqual(put.etag, self.client.head("bucket", "a/model.safetensors").etag)
        back = self.load("a/model.safetensors")
        self.assertEqual(set(back), set(tensors))
        for name, tensor in tensors.items():
            self.assertTrue(torch.equal(back[name], tensor) and back[name].dtype == tensor.dtype and back[name].shape == tensor.shape, name)
        self.assertEqual(list(self.load("a/model.safetensors", names="half")), ["half"])
        some = self.load("a/model.safetensors", names=["turned", "large", "empty"])
        self.assertTrue(all(torch.equal(some[name], tensors[name]) for name in ("turned", "large", "empty")))
        with self.assertRaises(KeyError):
            self.load("a/model.safetensors", names=["half", "other"])
        options = {"endpoint": self.server.http, "native_endpoint": self.server.native, **self.keys}
        self.assertEqual(verbena.torch.load_file("s3://bucket/a/model.safetensors", names="scalar", **options)["scalar"].item(), 7)

    def test_files_of_others_are_read(self):
        """A head longer than the first read, an unaligned tensor, a map of text, an empty file."""
        body = os.urandom(5003)
        head = {"__metadata__": {"note": "x" * 100_000}, "tail": entry(3, 5003, [1250], "F32"), "first": entry(0, 3)}
        self.client.put("bucket", "other", file_of(head, body))
        back = self.load("other")
        self.assertEqual(back["first"].numpy().tobytes() + back["tail"].numpy().tobytes(), body)
        self.client.put("bucket", "none", file_of({}))
        self.assertEqual(self.load("none"), {})
        verbena.torch.save_file({}, "s3://bucket/none", client=self.client)
        self.assertEqual(self.load("none"), {})

    def test_hostile_heads_are_refused(self):
        good = entry(0, 4)
        heads = {"not JSON": b"{", "no object": b"[]", "white space": b" {}", "not UTF-8": b'{"\xff":1}', "deep": b'{"a":' * 5000, "NaN": b'{"a":NaN}',
                 "huge number": b'{"a":' + b"9" * 5000 + b"}", "twice": b'{"a":%s,"a":%s}' % ((json.dumps(good).encode(),) * 2),
                 "no dict": {"a": 1}, "more fields": {"a": {**good, "x": 1}}, "dtype": {"a": entry(0, 4, dtype="F33")}, "type of dtype": {"a": entry(0, 4, dtype=[])},
                 "negative": {"a": entry(0, 4, [-2, -2])}, "true": {"a": entry(0, 4, [4, True])}, "float": {"a": entry(0, 4, [4.0])},
                 "too large": {"a": entry(0, 4, [1 << 62, 1 << 62])}, "empty but huge": {"b": good, "a": entry(4, 4, [0, 1 << 61, 1 << 61])}, "dimensions": {"a": entry(0, 4, [4] + [1] * 64)}, "beyond": {"a": entry(0, 5)},
                 "hole": {"a": entry(0, 1), "b": entry(2, 4)}, "overlap": {"a": entry(0, 3), "b": entry(2, 4)}, "short": {"a": entry(0, 3)},
                 "backwards": {"a": {**good, "data_offsets": [4, 0]}}, "three": {"a": {**good, "data_offsets": [0, 4, 4]}},
                 "metadata": {"__metadata__": {"a": 1}, "b": good}}
        for why, head in heads.items():
            self.client.put("bucket", "bad", file_of(head, b"1234"))
            with self.assertRaises(ValueError, msg=why):
                self.load("bad")
        for body in (b"1234567", (1 << 63).to_bytes(8, "little"), (100).to_bytes(8, "little") + b"{}", (_safetensors.HEAD_MAX + 1).to_bytes(8, "little")):
            self.client.put("bucket", "bad", body)
            with self.assertRaises(ValueError):
                self.load("bad")
        for url in ("bucket/key", "s3://bucket", "s3:///key", "http://bucket/key"):
            with self.assertRaises(ValueError):
                verbena.torch.load_file(url, client=self.client)
        for tensors in ({"a": 1}, {5: torch.ones(1)}, {"__metadata__": torch.ones(1)}, {"a": torch.ones(2).to_sparse()}, {"a": torch.ones(1, dtype=torch.complex128)}):
            with self.assertRaises(TypeError):
                verbena.torch.save_file(tensors, "s3://bucket/never", client=self.client)

    def test_bytes_that_are_changed_at_random_never_do_more_than_fail(self):
        import random
        random.seed(5)
        text = json.dumps({"a": entry(0, 8, [2, 1], "F32"), "b": entry(8, 16, [], "F64"), "__metadata__": {"k": "v"}}).encode()
        _safetensors.parse(text, 16)
        for _ in range(3000):
            changed = bytearray(text)
            for _ in range(random.randrange(1, 4)):
                changed[random.randrange(len(changed))] = random.choice(b'0123456789"[]{},:-eE.\\ \xff') if random.random() < 0.8 else random.randrange(256)
            try:
                places, _ = _safetensors.parse(bytes(changed), 16)
                self.assertEqual(sum(place.size for place in places), 16)
            except ValueError:
                pass

    def test_a_file_that_is_replaced_while_it_is_read_is_an_error(self):
        verbena.torch.save_file({"a": torch.ones(1000)}, "s3://bucket/replaced", client=self.client)
        whole, client = _safetensors.read_head, self.client

        def read_then_replace(*arguments):
            head = whole(*arguments)
            verbena.torch.save_file({"a": torch.zeros(1000)}, "s3://bucket/replaced", client=client)
            return head
        _safetensors.read_head = read_then_replace
        self.addCleanup(setattr, _safetensors, "read_head", whole)
        with self.assertRaises(verbena.errors.PreconditionFailed):
            self.load("replaced")

    def test_batches_have_each_object_once(self):
        for i in range(50):
            self.client.put("bucket", f"batch/{i:02}", torch.full((i,), i, dtype=torch.int64))
        options = {"endpoint": self.server.http, "native_endpoint": self.server.native, **self.keys}

        def numbers(keys, tensors):
            return [(key, tensor.view(torch.int64).sum().item()) for key, tensor in zip(keys, tensors)]
        found = []
        for rank in range(2):
            part = verbena.torch.DeviceBatches(options, "bucket", "batch/", batch_size=7, device="cpu", decode=numbers, rank=rank, world_size=2)
            batches = list(torch.utils.data.DataLoader(part, batch_size=None, num_workers=rank))
            self.assertEqual([len(batch) for batch in batches], [7, 7, 7, 4])
            found += [tuple(one) for batch in batches for one in batch]
        self.assertEqual(sorted(found), [(f"batch/{i:02}", i * i) for i in range(50)])
        missing = verbena.torch.DeviceBatches(options, "bucket", keys=["batch/01", "nothing"], device="cpu")
        with self.assertRaises(verbena.errors.NoSuchKey):
            list(missing)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
