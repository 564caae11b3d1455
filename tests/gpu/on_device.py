#!/usr/bin/python3
"""Every way to a GPU's memory on this machine: each byte compared, and how fast beside the driver's own copy.

usage: on_device.py [--memory cuda|rocm] [--device N] [--size MIB] [--seconds S] [--rdma ADDRESS]
"""
import argparse
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from python_case import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402
from cuda_driver import Array, Driver, MappedArray, PartOf  # noqa: E402
from hip_driver import HipDriver  # noqa: E402
import verbena  # noqa: E402

WAYS = (("native", "local"), ("native", "tcp"), ("http", None))


def rate(size, seconds, work):
    """GiB/s of the median of the calls within the time; at least three."""
    took, until = [], time.monotonic() + seconds
    while len(took) < 3 or time.monotonic() < until:
        began = time.monotonic()
        work()
        took.append(time.monotonic() - began)
    return size / sorted(took)[len(took) // 2] / (1 << 30)


def try_way(server, driver, via, provider, size, seconds, kind=Array):
    options = {"provider": provider} if provider else {}
    with verbena.connect(server.http, native_endpoint=server.native, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via=via,
                         **options) as client:
        array, data = kind(driver, size), os.urandom(size)
        with client.register(array) as window:
            array.set(data)
            put = client.put("gpu", "object", window)
            assert bytes(client.get("gpu", "object")) == data, "the object is not the device's bytes"
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
            own = rate(size, seconds, lambda: driver.write(array.address, data))
            gets = rate(size, seconds, lambda: client.get_into("gpu", "object", window))
            puts = rate(size, seconds, lambda: client.put("gpu", "object", window))
            batches = rate(moved, seconds, lambda: client.get_many(places, window))
        array.free()
        assert put.device_path == got.device_path
        print(f"| {driver.name()} | {via}{' ' + provider if provider else ''}, {got.device_path}{', mapped' if kind is MappedArray else ''} | {gets:.2f} | {puts:.2f} "
              f"| {batches:.2f} | {own:.2f} |", flush=True)


def try_checks(server, driver, size, seconds):
    """The bytes of many sizes and places, checked on the device itself: by the kernel where the driver takes it, and the CRC
    that it computes of a PUT is compared by the server."""
    with verbena.connect(server.http, native_endpoint=server.native, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="native",
                         provider="local") as client, verbena.connect(server.http, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="http") as host:
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
        print(f"verify_device: right, by {' and '.join(sorted(checked))}; GET {verified:.2f} GiB/s, without {plain:.2f}", flush=True)


def try_torch(server, device, size):
    """A safetensors file, and batches, straight to the device; skipped without torch for it (of ROCm it is `cuda`, too)."""
    try:
        import torch
    except ImportError:
        return print("verbena.torch: no torch")
    if not torch.cuda.is_available():
        return print("verbena.torch: this torch has no GPU")
    import verbena.torch
    options = {"endpoint": server.http, "native_endpoint": server.native, "access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    where = f"cuda:{device}"
    tensors = {"large": torch.randn(size // 4, device=where), "half": torch.randn(1000, device=where).to(torch.bfloat16), "flag": torch.tensor([True, False])}
    verbena.torch.save_file(tensors, "s3://gpu/model", **options)
    with torch.cuda.stream(torch.cuda.Stream(device)):
        back = verbena.torch.load_file("s3://gpu/model", device=where, **options)
        assert all(torch.equal(back[name], tensor.to(where)) for name, tensor in tensors.items()), "load_file brought other bytes"
        count = sum(tensor.numel() for batch in verbena.torch.DeviceBatches(options, "gpu", "part/", device=where) for tensor in batch)
    with verbena.connect(server.http, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="http") as client:
        assert count == sum(entry.size for entry in client.list("gpu", "part/")), "batches lack bytes"
    print("verbena.torch: right")
    try_checkpoint(torch, options, {name: tensor.to(where) for name, tensor in tensors.items()})


def try_checkpoint(torch, options, tensors):
    try:
        import torch.distributed.checkpoint as dcp
        dcp.save  # noqa: B018 what came before it is not served
    except (ImportError, AttributeError):
        return print("verbena.checkpoint: this torch has no such checkpoints")
    from verbena.checkpoint import StorageReader, StorageWriter
    dcp.save(tensors, storage_writer=StorageWriter(options, "gpu", "checkpoint"))
    back = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    dcp.load(back, storage_reader=StorageReader(options, "gpu", "checkpoint"))
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items()), "a checkpoint brought other bytes"
    print("verbena.checkpoint: right")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", choices=("cuda", "rocm"), default="cuda")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--size", type=int, default=16, help="MiB of the object")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--rdma", metavar="ADDRESS", help="of this host, at an RDMA device: the way by that device, too")
    given = parser.parse_args()
    try:
        driver = (HipDriver if given.memory == "rocm" else Driver)(given.device)
    except OSError as why:
        sys.exit(f"no GPU to try: {why}")
    print("| card | way | GET GiB/s | PUT GiB/s | 64 KiB GETs in batches GiB/s | the driver's copy of pageable memory GiB/s |")
    print("| --- | --- | --- | --- | --- | --- |")
    with Server(env={**os.environ, "VERBENA_GPUDIRECT_ENABLED": "true", "VERBENA_GPUDIRECT_ROCM_HANDLES": "true"}) as server:
        with verbena.connect(server.http, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="http") as client:
            client.make_bucket("gpu", memory=True)
        for kind in (Array, MappedArray):
            try_way(server, driver, "native", "local", given.size << 20, given.seconds, kind)
        try_checks(server, driver, given.size << 20, given.seconds)
    with Server() as server:
        with verbena.connect(server.http, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="http") as client:
            client.make_bucket("gpu", memory=True)
        for via, provider in WAYS:
            try_way(server, driver, via, provider, given.size << 20, given.seconds)
        try_torch(server, given.device, given.size << 20)
    if given.rdma:
        with Server(env={**os.environ, "VERBENA_RDMA_PROVIDER": "verbs"}, rdma=given.rdma) as server:
            with verbena.connect(server.http, access_key=ACCESS_KEY, secret_key=SECRET_KEY, via="http") as client:
                client.make_bucket("gpu", memory=True)
            try_way(server, driver, "native", "verbs", given.size << 20, given.seconds)


main()
