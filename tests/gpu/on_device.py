#!/usr/bin/python3
"""Every way to a GPU's memory on this machine: each byte compared, and how fast beside the driver's own copies. Two tables
for docs/gpu.md: of the ways, and of what was wished of their speed. Exits non-zero if a row has failed.

usage: on_device.py [--memory cuda|rocm] [--device N] [--size MIB] [--seconds S] [--batch N] [--weights MIB] [--rdma ADDRESS]
"""
import argparse
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from python_case import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402
from cuda_driver import Array, Driver, MappedArray, PartOf  # noqa: E402
from hip_driver import HipDriver  # noqa: E402
from speed import Hot, Speed, Table, all_went, connect, pinned_copy, rate, weights_size  # noqa: E402
import verbena  # noqa: E402 F401 found by python_case

WAYS = (("native", "local"), ("native", "tcp"), ("http", None))


class Trial:
    """The ways of one device, on one server after another."""

    def __init__(self, given, driver):
        self.given, self.driver, self.size = given, driver, given.size << 20
        self.ways = Table("card", "door", "way", "GET GiB/s", "PUT GiB/s", "64 KiB GETs in batches GiB/s", "one copy of page-locked memory GiB/s", "GET beside it")
        self.speed = Speed(driver, given)
        self.checks = []

    def way(self, server, via, provider, kind=Array, wanted=None):
        """A row of the ways; with `wanted` also one of the speeds."""
        name = f"{via} {provider}" if provider else via
        told = {}

        def work():
            path, gets, puts, batches, own = self.try_way(server, via, provider, kind)
            told.update(by=f"{name}, {path}", gets=gets, own=own)
            return path, *(f"{one:.2f}" for one in (gets, puts, batches, own, gets / own))
        self.ways.add((self.driver.name(), name + (", mapped memory" if kind is MappedArray else "")), work)
        if wanted is not None and told:  # what has failed has no speed
            self.speed.hot_object(told["by"], wanted, told["gets"], told["own"])
        return told.get("by", name)

    def try_way(self, server, via, provider, kind):
        driver, size, seconds = self.driver, self.size, self.given.seconds
        array, data = kind(driver, size), os.urandom(size)
        try:
            with connect(server, via, provider) as client, client.register(array) as window:
                array.set(data)
                put = client.put("gpu", "object", window)
                assert bytes(client.get("gpu", "object")) == data, "the object has not the device's bytes"
                array.set(bytes(size))
                got = client.get_into("gpu", "object", window)
                assert array.get() == data, "the device has not the object's bytes"
                piece = min(65536, size)
                places = [("gpu", f"part/{i}", at, min(piece, size - at)) for i, at in enumerate(range(0, size, piece))][:4096]
                client.put_many(places, window).check()
                array.set(bytes(size))
                client.get_many(places, window).check()
                moved = sum(place[3] for place in places)
                assert array.get(moved) == data[:moved], "a batch has not brought the objects' bytes"
                assert put.device_path == got.device_path, f"a PUT went {put.device_path}, a GET {got.device_path}"
                own = pinned_copy(driver, array, data, seconds)
                with Hot(server).warm(lambda: client.get_into("gpu", "object", window)):
                    gets = rate(size, seconds, lambda: client.get_into("gpu", "object", window))
                puts = rate(size, seconds, lambda: client.put("gpu", "object", window))
                assert bytes(client.get("gpu", "object")) == data, "a later object has not the device's bytes"
                array.set(bytes(size))
                client.get_into("gpu", "object", window)
                assert array.get() == data, "a later GET has not brought the object's bytes"
                batches = rate(moved, seconds, lambda: client.get_many(places, window))
                array.set(bytes(size))
                client.get_many(places, window).check()
                assert array.get(moved) == data[:moved], "a later batch has not brought the objects' bytes"
                all_went(got.device_path, client.device_counters())
            return got.device_path, gets, puts, batches, own
        finally:
            array.free()

    def check(self, what, work, *arguments):
        """A line below the tables, which `work` returns."""
        try:
            self.checks.append(f"{what}: {work(*arguments)}")
            print(self.checks[-1], file=sys.stderr, flush=True)
        except Exception as why:  # noqa: BLE001 as in a table
            self.has_failed(what, why)

    def has_failed(self, what, why):
        Table.failed += 1
        self.checks.append(f"{what}: failed: {type(why).__name__}: {why}")
        print(self.checks[-1], file=sys.stderr, flush=True)

    def on_servers(self):
        """The rows of each server are wanted also where another does not start."""
        for name, work in (("a server with GPUs that copy for it", self.with_direct), ("a server without", self.without_direct),
                           ("a server with an RDMA device", self.with_rdma if self.given.rdma else None)):
            try:
                if work is not None:
                    work()
            except Exception as why:  # noqa: BLE001 as in a table
                self.has_failed(name, why)

    def with_direct(self):
        """GPUs copy for the server."""
        with self.server(self.given.weights << 20, VERBENA_GPUDIRECT_ENABLED="true",
                         VERBENA_GPUDIRECT_ROCM_HANDLES="true") as server:
            until = time.monotonic() + 60
            while "gpudirect: GPUs copy" not in server.log() and "gpudirect: no GPU" not in server.log() and time.monotonic() < until:
                time.sleep(0.1)  # its arena is page-locked; sessions that are opened before do not go the way `direct`
            by = self.way(server, "native", "local", wanted=">= 0.9")
            self.way(server, "native", "local", MappedArray)
            self.check("verify_device", try_checks, server, self.driver, self.size, self.given.seconds)
            self.speed.batch(server, by, ">= 0.7", True)
            self.speed.weights(server, by)

    def without_direct(self):
        with self.server(0, VERBENA_GPUDIRECT_ENABLED="false") as server:
            by = [self.way(server, via, provider, wanted=wanted) for (via, provider), wanted in zip(WAYS, (">= 0.8", "", ""))]
            self.speed.batch(server, by[0], ">= 0.7", True)
            self.check("verbena.torch", try_torch, server, self.given.device, self.size)

    def with_rdma(self):
        with self.server(0, rdma=self.given.rdma, VERBENA_RDMA_PROVIDER="verbs", VERBENA_GPUDIRECT_ENABLED="false") as server:
            self.way(server, "native", "verbs")

    def server(self, weights, rdma="127.0.0.1", **environment):
        """One whose hot tier, half of its arena, has room for what is measured, and for weights of that many bytes."""
        hot = max(self.given.batch * (64 << 10), self.size, 64 << 20)
        arena = 4 * hot + 3 * weights
        return Started(env={**os.environ, "VERBENA_ARENA_SIZE": str(arena), "VERBENA_CACHE_OBJECT_SIZE_MAX": "1GiB", **environment}, rdma=rdma)

    def __str__(self):
        return "\n\n".join([str(self.ways), str(self.speed.table), "\n".join(self.checks)])


class Started(Server):
    """A server that has a bucket."""

    def __enter__(self):
        super().__enter__()
        with connect(self, "http") as client:
            client.make_bucket("gpu", memory=True)
        return self


def try_checks(server, driver, size, seconds):
    """The bytes of many sizes and places, checked on the device itself: by the kernel where the driver takes it, and the CRC
    that it computes of a PUT is compared by the server."""
    with connect(server, "native", "local") as client, connect(server, "http") as host:
        whole, checked = Array(driver, size), set()
        for number, some in enumerate((1, 3, 8, 255, 4096, 65535, 65536, 65537, 200_003, size - 8)):
            data = os.urandom(some)
            part = PartOf(whole, number % 9 if some + 8 <= size else 0, some)
            host.put("gpu", "checked", data)
            got = client.get_into("gpu", "checked", part, verify_device=True)
            assert part.get() == data, "the device has not the object's bytes"
            put = client.put("gpu", "checked", part, verify_device=True)
            assert bytes(host.get("gpu", "checked")) == data, "the object is not the device's bytes"
            checked |= {got.device_verified, put.device_verified}
        data = os.urandom(size)
        host.put("gpu", "checked", data)
        with client.register(whole) as window:
            plain = rate(size, seconds, lambda: client.get_into("gpu", "checked", window))
            verified = rate(size, seconds, lambda: client.get_into("gpu", "checked", window, verify_device=True))
        counted = client.device_counters()
        assert counted["mismatches"] == 0 and counted["failed"] == 0, counted
        whole.free()
        return f"right, by {' and '.join(sorted(checked))}; GET {verified:.2f} GiB/s, without {plain:.2f}"


def try_torch(server, device, size):
    """A safetensors file, and batches, straight to the device; not tried without torch for it (of ROCm it is `cuda`, too)."""
    try:
        import torch
    except ImportError:
        return "not tried: no torch"
    if not torch.cuda.is_available():
        return "not tried: this torch has no GPU"
    import verbena.torch
    options = {"endpoint": server.http, "native_endpoint": server.native, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    where = f"cuda:{device}"
    tensors = {"large": torch.randn(size // 4, device=where), "half": torch.randn(1000, device=where).to(torch.bfloat16), "flag": torch.tensor([True, False])}
    verbena.torch.save_file(tensors, "s3://gpu/model", **options)
    with torch.cuda.stream(torch.cuda.Stream(device)):
        back = verbena.torch.load_file("s3://gpu/model", device=where, **options)
        assert all(torch.equal(back[name], tensor.to(where)) for name, tensor in tensors.items()), "load_file brought other bytes"
        count = sum(tensor.numel() for batch in verbena.torch.DeviceBatches(options, "gpu", "part/", device=where) for tensor in batch)
    with connect(server, "http") as client:
        assert count == sum(entry.size for entry in client.list("gpu", "part/")), "batches lack bytes"
    return "right; verbena.checkpoint: " + try_checkpoint(torch, options, {name: tensor.to(where) for name, tensor in tensors.items()})


def try_checkpoint(torch, options, tensors):
    try:
        import torch.distributed.checkpoint as dcp
        dcp.save  # noqa: B018 what came before it is not served
    except (ImportError, AttributeError):
        return "not tried: this torch has no such checkpoints"
    from verbena.checkpoint import StorageReader, StorageWriter
    dcp.save(tensors, storage_writer=StorageWriter(options, "gpu", "checkpoint"))
    back = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    dcp.load(back, storage_reader=StorageReader(options, "gpu", "checkpoint"))
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items()), "a checkpoint brought other bytes"
    return "right"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", choices=("cuda", "rocm"), default="cuda")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--size", type=int, default=16, help="MiB of the object")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--batch", type=int, default=4096, help="objects of 64 KiB in the batch")
    parser.add_argument("--weights", type=int, help="MiB of the safetensors files; default: 4096, less where this machine has less room")
    parser.add_argument("--rdma", metavar="ADDRESS", help="of this host, at an RDMA device: the way by that device, too")
    given = parser.parse_args()
    if given.weights is None:
        given.weights = weights_size(4 << 30) >> 20
    try:
        driver = (HipDriver if given.memory == "rocm" else Driver)(given.device)
    except OSError as why:
        sys.exit(f"no GPU to try: {why}")
    trial = Trial(given, driver)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("the time is over"))
    try:
        trial.on_servers()
    finally:
        print(trial, flush=True)
    sys.exit(1 if Table.failed else 0)


main()
