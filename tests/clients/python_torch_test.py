#!/usr/bin/python3
"""PyTorch: datasets in workers, checkpoints, and a small training loop, against a server."""
import sys
import unittest

from python_case import PythonCase, skip

try:
    import numpy
    import torch
except ImportError:
    skip("no torch")
import verbena.torch  # noqa: E402


def number_of(key, memory):
    return key, int(bytes(memory)[0])


def sample_of(key, memory):
    """Four features and their target."""
    values = torch.from_numpy(numpy.frombuffer(memory, dtype=numpy.float32).copy())
    return values[:4], values[4:]


class Torch(PythonCase):
    @property
    def options(self):
        return {"endpoint": self.server.http, "native_endpoint": self.server.native, **self.keys}

    def test_tensors_are_filled_and_stored_where_they_lie(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
            values = torch.randint(0, 2, (100, 33)).to(dtype)
            self.client.put("bucket", "tensor", values)
            into = torch.zeros_like(values)
            self.client.get_into("bucket", "tensor", into)
            self.assertTrue(torch.equal(into, values))
        with self.assertRaises(BufferError):
            self.client.get_into("bucket", "tensor", torch.zeros(100, 33, dtype=torch.uint8)[:, ::2])
        got = torch.from_dlpack(self.client.get("bucket", "tensor"))
        self.assertEqual(got.numel(), 3300)

    def test_datasets_give_each_sample_once(self):
        for i in range(40):
            self.client.put("bucket", f"samples/{i:02}", bytes([i]) * 10)
        wanted = [(f"samples/{i:02}", i) for i in range(40)]
        dataset = verbena.torch.ObjectDataset(self.options, "bucket", "samples/", decode=number_of)
        self.assertEqual((len(dataset), dataset[7]), (40, wanted[7]))
        self.assertEqual(dataset.__getitems__([3, 1, 2]), [wanted[3], wanted[1], wanted[2]])
        loader = torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=2, collate_fn=list)
        self.assertEqual([one for batch in loader for one in batch], wanted)
        found = []
        for rank in range(2):
            part = verbena.torch.IterableObjects(self.options, "bucket", "samples/", decode=number_of, rank=rank, world_size=2)
            found += [one for batch in torch.utils.data.DataLoader(part, batch_size=4, num_workers=2, collate_fn=list) for one in batch]
        self.assertEqual(sorted(found), wanted)
        dataset = verbena.torch.ObjectDataset(self.client, "bucket", "samples/", decode=number_of)
        with self.assertRaises(TypeError):
            dataset._source.__getstate__()

    def test_checkpoints_come_back_as_they_were(self):
        state = {"weights": torch.randn(300, 7), "half": torch.randn(5).to(torch.bfloat16), "empty": torch.empty(0, 3),
                 "scalar": torch.tensor(7), "turned": torch.randn(6, 4).T, "step": 12, "rate": 0.5, "name": "run", "none": None,
                 "list": [torch.ones(2), (1, "two")], 5: {"nested": torch.zeros(1)}}
        verbena.torch.save(state, self.client, "bucket", "checkpoint")
        back = verbena.torch.load(self.client, "bucket", "checkpoint")
        self.assertEqual(list(back), list(state))
        for key in ("weights", "half", "empty", "scalar", "turned"):
            self.assertTrue(torch.equal(back[key], state[key]) and back[key].dtype == state[key].dtype, key)
        self.assertEqual((back["step"], back["rate"], back["name"], back["none"]), (12, 0.5, "run", None))
        self.assertEqual((back["list"][1], back[5]["nested"].item()), ((1, "two"), 0.0))
        with self.assertRaises(TypeError):
            verbena.torch.save({"x": object()}, self.client, "bucket", "never")
        self.client.put("bucket", "not-one", b"something else entirely")
        with self.assertRaises(ValueError):
            verbena.torch.load(self.client, "bucket", "not-one")
        # A file that save() did not write: its tensor begins at an offset where torch cannot read it.
        head = b'{"tree": {"$tensor": 0}, "tensors": [["float32", [2], 2, 8]]}'
        made = b"".join((verbena.torch._MAGIC, len(head).to_bytes(8, "little"), head)).ljust(4096, b"\0") + bytes(64)
        self.client.put("bucket", "crafted", made)
        with self.assertRaisesRegex(ValueError, "no multiple"):
            verbena.torch.load(self.client, "bucket", "crafted")
        self.client.put("bucket", "crafted", made.replace(b"2, 8]]", b"0, 8]]"))
        self.assertTrue(torch.equal(verbena.torch.load(self.client, "bucket", "crafted"), torch.zeros(2)))
        verbena.torch.save_pickled({"a": torch.ones(3)}, self.client, "bucket", "pickled")
        self.assertTrue(torch.equal(verbena.torch.load_pickled(self.client, "bucket", "pickled")["a"], torch.ones(3)))

    def test_a_model_learns_from_objects_and_goes_on_from_its_checkpoint(self):
        torch.manual_seed(1)
        truth = torch.tensor([1.0, -2.0, 3.0, 0.5])
        for i in range(64):
            features = torch.randn(4)
            self.client.put("bucket", f"train/{i:03}", torch.cat([features, (features * truth).sum().reshape(1)]))
        dataset = verbena.torch.ObjectDataset(self.options, "bucket", "train/", decode=sample_of)
        model = torch.nn.Linear(4, 1, bias=False)
        for epoch in range(4):
            if epoch == 2:  # as after an interruption
                verbena.torch.save(model.state_dict(), self.client, "bucket", "model")
                model = torch.nn.Linear(4, 1, bias=False)
                model.load_state_dict(verbena.torch.load(self.client, "bucket", "model"))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for features, wanted in torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True, num_workers=1):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(features), wanted)
                loss.backward()
                optimizer.step()
        self.assertLess((model.weight.detach().reshape(-1) - truth).abs().max().item(), 0.1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
