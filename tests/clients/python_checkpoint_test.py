#!/usr/bin/python3
"""torch.distributed.checkpoint over verbena.checkpoint: a checkpoint saved by some ranks is loaded by others with
any sharding."""
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

from python_case import PythonCase, skip

try:
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata
    dcp.save  # noqa: B018 what came before it is not served
except (ImportError, AttributeError):
    skip("no torch.distributed.checkpoint")
import verbena.checkpoint  # noqa: E402
from verbena.checkpoint import StorageReader, StorageWriter  # noqa: E402

# One of two ranks: they share the rows of one tensor, and each has one of its own.
RANK = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
try:
    from torch.distributed.tensor import Shard, distribute_tensor, zeros
except ImportError:
    from torch.distributed._tensor import Shard, distribute_tensor, zeros
import verbena.checkpoint
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=int(sys.argv[3]), world_size=2)
mesh, options, where = init_device_mesh("cpu", (2,)), json.loads(sys.argv[4]), ("bucket", "ranks")
whole = torch.arange(7 * 1000, dtype=torch.float32).reshape(7, 1000)
if sys.argv[5] == "save":
    dcp.save({"rows": distribute_tensor(whole, mesh, [Shard(0)]), "columns": distribute_tensor(whole, mesh, [Shard(1)]), "same": torch.ones(3)},
             storage_writer=verbena.checkpoint.StorageWriter(options, *where))
else:
    state = {"rows": zeros(7, 1000, device_mesh=mesh, placements=[Shard(1)]), "columns": zeros(7, 1000, device_mesh=mesh, placements=[Shard(0)]),
             "same": torch.zeros(3)}
    dcp.load(state, storage_reader=verbena.checkpoint.StorageReader(options, *where))
    assert torch.equal(state["rows"].full_tensor(), whole) and torch.equal(state["columns"].full_tensor(), whole), state
    assert torch.equal(state["same"], torch.ones(3))
dist.destroy_process_group()
"""


class Checkpoints(PythonCase):
    @property
    def options(self):
        return {"endpoint": self.server.http, "native_endpoint": self.server.native, **self.keys}

    def writer(self, prefix):
        return StorageWriter(self.options, "bucket", prefix)

    def reader(self, prefix):
        return StorageReader(self.options, "bucket", prefix)

    def test_what_is_saved_is_loaded(self):
        state = {"weights": torch.randn(300, 7), "half": torch.randn(5).to(torch.bfloat16), "empty": torch.empty(0, 3), "scalar": torch.tensor(7),
                 "turned": torch.randn(6, 4).T, "large": torch.randn(5 << 20), "nested": {"step": 12, "rate": 0.5, "name": "run", "none": None,
                 "list": [torch.ones(2), torch.zeros(1)]}, "mask": torch.tensor([True, False])}
        dcp.save(state, storage_writer=self.writer("one"))
        back = {"weights": torch.zeros(300, 7), "half": torch.zeros(5).to(torch.bfloat16), "empty": torch.empty(0, 3), "scalar": torch.tensor(0),
                "turned": torch.zeros(4, 6), "large": torch.zeros(5 << 20), "nested": {"step": 0, "rate": 0.0, "name": "", "none": 1,
                "list": [torch.zeros(2), torch.ones(1)]}, "mask": torch.tensor([False, False])}
        dcp.load(back, storage_reader=self.reader("one"))
        for key in ("weights", "half", "empty", "scalar", "turned", "large", "mask"):
            self.assertTrue(torch.equal(back[key], state[key]), key)
        nested = back["nested"]
        self.assertEqual((nested["step"], nested["rate"], nested["name"], nested["none"]), (12, 0.5, "run", None))
        self.assertTrue(torch.equal(nested["list"][0], torch.ones(2)) and torch.equal(nested["list"][1], torch.zeros(1)))
        strided = {"weights": torch.zeros(300, 14)[:, ::2]}
        dcp.load(strided, storage_reader=self.reader("one"))
        self.assertTrue(torch.equal(strided["weights"], state["weights"]))

    def test_a_model_and_its_optimizer_go_on(self):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(50, 40), torch.nn.Linear(40, 2))
        dcp.save(model.state_dict(), storage_writer=self.writer("model"))
        other = torch.nn.Sequential(torch.nn.Linear(50, 40), torch.nn.Linear(40, 2))
        state = other.state_dict()
        dcp.load(state, storage_reader=self.reader("model"))
        other.load_state_dict(state)
        given = torch.randn(3, 50)
        self.assertTrue(torch.equal(model(given), other(given)))

    def test_a_checkpoint_is_replaced_whole(self):
        for value in (1.0, 2.0):
            dcp.save({"a": torch.full((1000,), value)}, storage_writer=self.writer("again"))
        names = [entry.key for entry in self.client.list("bucket", "again/")]
        self.assertEqual(len(names), 2, names)
        back = {"a": torch.zeros(1000)}
        dcp.load(back, storage_reader=self.reader("again"))
        self.assertTrue((back["a"] == 2.0).all())
        dcp.save({"a": torch.ones(2)}, checkpoint_id="bucket/by/name", storage_writer=StorageWriter(self.client, "elsewhere"))
        back = {"a": torch.zeros(2)}
        dcp.load(back, checkpoint_id="verbena://bucket/by/name", storage_reader=StorageReader(self.client, "elsewhere"))
        self.assertTrue((back["a"] == 1.0).all())

    def test_a_save_removes_nothing_but_the_checkpoint_that_it_replaces(self):
        others = ["data-lake/x", "data-loader.pt", f"data-{'0' * 32}/0-0", "near/data-1"]
        for key in others:
            self.client.put("bucket", key, b"mine")
        for _ in range(2):
            dcp.save({"a": torch.ones(10)}, storage_writer=self.writer(""))
        kept = {entry.key for entry in self.client.list("bucket")}
        self.assertLessEqual(set(others), kept)
        self.assertEqual(len([key for key in kept if key.startswith("data-")]), 4, kept)

    def test_of_two_saves_to_one_name_one_is_whole_and_the_other_fails(self):
        dcp.save({"a": torch.zeros(10)}, storage_writer=self.writer("both"))
        case = self

        class Slow(StorageWriter):
            def write_data(self, plan, planner):
                done = super().write_data(plan, planner)
                dcp.save({"a": torch.full((10,), 2.0)}, storage_writer=case.writer("both"))
                return done
        with self.assertRaises(CheckpointException) as caught:
            dcp.save({"a": torch.ones(10)}, storage_writer=Slow(self.options, "bucket", "both"))
        self.assertIsInstance(caught.exception.failures[0][0], verbena.errors.PreconditionFailed)
        back = {"a": torch.zeros(10)}
        dcp.load(back, storage_reader=self.reader("both"))
        self.assertTrue((back["a"] == 2.0).all())
        self.assertEqual(len(list(self.client.list("bucket", "both/"))), 2)

    def test_what_is_no_checkpoint_is_refused(self):
        with self.assertRaises(CheckpointException) as caught:
            dcp.load({"a": torch.zeros(2)}, storage_reader=self.reader("nothing"))
        self.assertIsInstance(caught.exception.failures[0][0], verbena.errors.NoSuchKey)

        class Evil:
            def __reduce__(self):
                return os.system, ("true",)
        for body in (b"garbage", pickle.dumps(Evil()), pickle.dumps(Metadata({"a": BytesStorageMetadata()}, storage_data=Evil()))):
            self.client.put("bucket", "bad/.metadata", body)
            with self.assertRaises(pickle.UnpicklingError):
                self.reader("bad").read_metadata()
        dcp.save({"a": torch.ones(1000)}, storage_writer=self.writer("cut"))
        (data,) = [entry.key for entry in self.client.list("bucket", "cut/data-")]
        self.client.put("bucket", data, bytes(3999))
        with self.assertRaises(CheckpointException) as caught:
            dcp.load({"a": torch.zeros(1000)}, storage_reader=self.reader("cut"))
        self.assertIn("3999 bytes where the checkpoint has 4000", str(caught.exception))

    def test_a_load_has_the_bytes_of_one_version_alone(self):
        """Portions of one object are read one after the other: an overwrite in between must not be mixed with the
        old bytes."""
        state = {f"t{i:03}": torch.full((10,), 1.0) for i in range(100)}
        dcp.save(state, storage_writer=self.writer("mixed"))
        (data,) = [entry.key for entry in self.client.list("bucket", "mixed/data-")]
        size, stored = self.client.head("bucket", data).size, []

        class Overwritten:  # after its first GET of tensors
            def __getattr__(self, name):
                return getattr(client, name)

            def get(self, *names, **options):
                got = client.get(*names, **options)
                if not stored:
                    stored.append(client.put("bucket", data, bytes(size)))
                return got

        client, reader = self.client, StorageReader(self.client, "bucket", "mixed", in_flight=1)
        reader._source = type("Source", (), {"client": Overwritten()})()
        with self.assertRaises(CheckpointException) as caught:
            dcp.load({name: torch.zeros(10) for name in state}, storage_reader=reader)
        self.assertTrue(stored)
        self.assertIsInstance(caught.exception.failures[0][0], verbena.errors.PreconditionFailed)

    def test_ranks_share_what_they_save_and_others_load_it(self):
        if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
            self.skipTest("no gloo")
        for what in ("save", "load"):
            with tempfile.TemporaryDirectory() as folder:
                ranks = [subprocess.Popen([sys.executable, "-c", RANK, os.path.dirname(os.path.dirname(verbena.__file__)), f"{folder}/meet", str(rank),
                                           json.dumps(self.options), what], stderr=subprocess.PIPE, text=True) for rank in range(2)]
                said = [rank.communicate(timeout=100)[1] for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [0, 0], "\n".join(said)[-4000:])
        whole = torch.arange(7 * 1000, dtype=torch.float32).reshape(7, 1000)
        back = {"rows": torch.zeros(7, 1000), "columns": torch.zeros(7, 1000), "same": torch.zeros(3)}
        dcp.load(back, storage_reader=self.reader("ranks"))
        self.assertTrue(torch.equal(back["rows"], whole) and torch.equal(back["columns"], whole))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
