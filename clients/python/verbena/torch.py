"""PyTorch: datasets over objects, and checkpoints straight from and to tensors.

    dataset = verbena.torch.ObjectDataset({"endpoint": "http://127.0.0.1:9000"}, "bucket", prefix="train/", decode=decode)
    for batch in torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=8): ...

    verbena.torch.save(model.state_dict(), client, "bucket", "checkpoints/7")
    model.load_state_dict(verbena.torch.load(client, "bucket", "checkpoints/7", device="cuda:0"))

    weights = verbena.torch.load_file("s3://bucket/model.safetensors", device="cuda:0")
"""
import concurrent.futures
import io
import json
import math
import os

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from . import _native, _safetensors
from ._client import connect
from ._torch_device import _as_they_are, _Batches, _receive, _width, load_file, save_file  # noqa: F401 the latter two are of this module's interface

_MAGIC = b"VNBCKPT1"
_ALIGN = 4096
_STEP = 64  # a tensor begins at a multiple of it
_FIRST_READ = 64 << 10
_HEAD_MAX = 64 << 20  # a head of 100,000 tensors has about 12 MB
_DIMENSIONS_MAX = 64
# Torch's names of plain numbers: not those of quantized tensors, which have more than bytes, nor of bare bits.
_DTYPES = {str(one).removeprefix("torch."): one for name, one in vars(torch).items()
           if isinstance(one, torch.dtype) and not name.startswith(("q", "bits"))}


class _Source:
    """A client, or options of one: each process has a client of its own, created on first use."""

    def __init__(self, options):
        self._given = options if isinstance(options, _native.Client) else None
        self._options, self._own, self._pid = None if self._given else dict(options or {}), None, None

    @property
    def client(self):
        if self._given is not None:
            return self._given
        if self._own is None or self._pid != os.getpid():
            self._own, self._pid = connect(**self._options), os.getpid()
        return self._own

    def __getstate__(self):
        if self._given is not None:
            raise TypeError("a client stays in its process: give a dataset its options instead")
        return {"_given": None, "_options": self._options, "_own": None, "_pid": None}


def _as_tensor(key, memory):
    """The default `decode`: the object's bytes."""
    return torch.from_dlpack(memory)


def _keys(client, bucket, prefix):
    return [entry.key for entry in client.list(bucket, prefix)]


class ObjectDataset(Dataset):
    """Map style: one sample an object, in the keys' order. `options` are those of verbena.connect; `decode(key, Buffer)` makes a sample."""

    def __init__(self, options, bucket, prefix="", keys=None, decode=_as_tensor, in_flight=8):
        self._source, self.bucket, self._decode, self._in_flight = _Source(options), bucket, decode, in_flight
        self.keys = list(keys) if keys is not None else _keys(self._source.client, bucket, prefix)

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        key = self.keys[index]
        return self._decode(key, self._source.client.get(self.bucket, key))

    def __getitems__(self, indices):
        """A whole batch: the requests are sent concurrently."""
        client = self._source.client
        with concurrent.futures.ThreadPoolExecutor(min(self._in_flight, max(1, len(indices)))) as pool:
            found = pool.map(lambda index: (self.keys[index], client.get(self.bucket, self.keys[index])), indices)
            return [self._decode(key, memory) for key, memory in found]


class IterableObjects(IterableDataset):
    """Iterable style: objects are prefetched. Each worker of each rank sees its own share, every sample exactly
    once."""

    def __init__(self, options, bucket, prefix="", keys=None, decode=_as_tensor, ahead=8, rank=None, world_size=None):
        self._source, self.bucket, self._decode, self._ahead = _Source(options), bucket, decode, max(1, ahead)
        self.keys = list(keys) if keys is not None else _keys(self._source.client, bucket, prefix)
        if rank is None and torch.distributed.is_available() and torch.distributed.is_initialized():
            rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self.rank, self.world_size = rank or 0, world_size or 1

    def _share(self):
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        return self.keys[self.rank * workers + number::self.world_size * workers]

    def __iter__(self):
        client, waiting = self._source.client, []
        with concurrent.futures.ThreadPoolExecutor(self._ahead) as pool:
            for key in self._share():
                waiting.append((key, pool.submit(client.get, self.bucket, key)))
                if len(waiting) >= self._ahead:
                    key, memory = waiting.pop(0)
                    yield self._decode(key, memory.result())
            for key, memory in waiting:
                yield self._decode(key, memory.result())


class DeviceBatches(IterableObjects):
    """Iterable style, in batches that arrive on `device`, for DataLoader(batch_size=None): `decode(keys, tensors of
    bytes)` makes a batch. Up to `ahead` batches are received while one is used. Forked workers have no device: use
    num_workers=0."""

    def __init__(self, options, bucket, prefix="", keys=None, batch_size=64, device="cuda", decode=_as_they_are, ahead=2, rank=None,
                 world_size=None):
        super().__init__(options, bucket, prefix, keys, decode, ahead, rank, world_size)
        self._batch_size, self._device = max(1, batch_size), device

    def __iter__(self):
        share = self._share()
        batches = (share[at:at + self._batch_size] for at in range(0, len(share), self._batch_size))
        for keys, tensors in _Batches(self._source.client, self.bucket, self._device, self._ahead).over(batches):
            yield self._decode(keys, tensors)


# ---- Checkpoints: a head with each tensor's position, then the tensors' bytes as they are in memory. ----

def _split(state, tensors):
    """`state` with each tensor replaced by its number."""
    if isinstance(state, torch.Tensor):
        tensors.append(state)
        return {"$tensor": len(tensors) - 1}
    if isinstance(state, dict):
        return {"$dict": [[_split(k, tensors), _split(v, tensors)] for k, v in state.items()]}
    if isinstance(state, (list, tuple)):
        return {"$" + type(state).__name__: [_split(one, tensors) for one in state]} if type(state) in (list, tuple) else _refuse(state)
    if state is None or isinstance(state, (bool, int, float, str)):
        return state
    return _refuse(state)


def _refuse(value):
    raise TypeError(f"a checkpoint holds tensors, dicts, lists, tuples, numbers, text and None, not {type(value).__name__}")


def _join(node, tensors):
    if isinstance(node, list):
        raise ValueError("a list that is not marked as one")
    if not isinstance(node, dict):
        return node
    (kind, value), = node.items()
    if kind == "$tensor":
        if type(value) is not int or not 0 <= value < len(tensors):
            raise ValueError("no such tensor")
        return tensors[value]
    if kind not in ("$dict", "$list", "$tuple") or not isinstance(value, list):
        raise ValueError("neither a dict nor a list nor a tuple")
    if kind == "$dict":
        return {_join(k, tensors): _join(v, tensors) for k, v in value}
    made = [_join(one, tensors) for one in value]
    return tuple(made) if kind == "$tuple" else made


def _bytes_of(tensor):
    return tensor.reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def save(state, client, bucket, key, **options):
    """Stores a state dict: tensors' bytes unchanged, without pickle."""
    tensors = []
    tree = _split(state, tensors)
    tensors = [tensor.detach().cpu().contiguous() for tensor in tensors]
    places, at = [], 0
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        places.append([str(tensor.dtype).removeprefix("torch."), list(tensor.shape), at, size])
        at += -(-size // _STEP) * _STEP
    head = json.dumps({"tree": tree, "tensors": places}).encode()
    if len(head) > _HEAD_MAX:
        raise ValueError(f"the head would have {len(head)} bytes")
    begin = -(-(len(_MAGIC) + 8 + len(head)) // _ALIGN) * _ALIGN
    with client.allocate(begin + at) as memory:
        with memoryview(memory) as view:
            view[:len(_MAGIC)] = _MAGIC
            view[8:16] = len(head).to_bytes(8, "little")
            view[16:16 + len(head)] = head
        whole = torch.from_dlpack(memory)
        for tensor, (_, _, offset, size) in zip(tensors, places):
            whole[begin + offset:begin + offset + size] = _bytes_of(tensor)
        del whole
        return client.put(bucket, key, memory, **options)


def load(client, bucket, key, *, device="cpu", **options):
    """The state dict stored by save(). On the CPU tensors use the memory of the received object, and nothing is copied.
    On another device each is received there, by ranges of one version of the object."""
    if torch.device(device).type != "cpu":
        if options:
            raise TypeError(f"{', '.join(options)}: not with a device")
        return _load_there(client, bucket, key, device)
    memory = client.get(bucket, key, **options)
    with memoryview(memory) as view:
        size = int.from_bytes(view[8:16], "little")
        if bytes(view[:8]) != _MAGIC or size > min(_HEAD_MAX, len(view) - 16):
            raise ValueError(f"{bucket}/{key} is no checkpoint of verbena.torch.save")
        text = bytes(view[16:16 + size])
    whole = torch.from_dlpack(memory)
    tensors = []
    tree, places = _parse(text, len(whole), f"{bucket}/{key}")
    for place in places:
        dtype = _DTYPES[place.dtype]
        piece = whole[place.begin:place.end]
        tensors.append((piece.view(dtype) if place.size else torch.empty(0, dtype=dtype)).reshape(place.shape))
    return _join(tree, tensors)


def _load_there(client, bucket, key, device):
    first, reply = client.get_bytes(bucket, key, range=(0, _FIRST_READ))
    size = int.from_bytes(first[8:16], "little")
    if first[:8] != _MAGIC or size > min(_HEAD_MAX, reply.size - 16):
        raise ValueError(f"{bucket}/{key} is no checkpoint of verbena.torch.save")
    text = first[16:16 + size]
    if len(text) < size:
        text += client.get_bytes(bucket, key, range=(len(first), 16 + size - len(first)), if_match=reply.etag)[0]
    tree, places = _parse(bytes(text), reply.size, f"{bucket}/{key}")
    made = _receive(client, bucket, key, reply.etag, places, device)
    return _join(tree, [made[place.name] for place in places])


def _parse(text, size, name):
    """The tree of a head, and the position of each tensor by its number. ValueError, before anything is allocated by a
    number, for every head that save() does not write."""
    try:
        head = json.loads(text)
        tree, rows = head["tree"], head["tensors"]
        _join(tree, list(range(len(rows))))
    except (ValueError, KeyError, TypeError, RecursionError) as why:
        raise ValueError(f"{name}: no head of verbena.torch.save: {why!r}") from None
    return tree, _places(rows, len(text), size, name)


def _places(rows, head_size, size, name):
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        raise ValueError(f"{name}: a tensor is not described by type, shape and place")
    begin, at, places = -(-(16 + head_size) // _ALIGN) * _ALIGN, 0, []
    for number, (dtype, shape, offset, length) in enumerate(rows):
        known = _DTYPES.get(dtype) if isinstance(dtype, str) else None
        if not _safetensors.are_numbers(shape) or len(shape) > _DIMENSIONS_MAX or not _safetensors.are_numbers([offset, length]):
            raise ValueError(f"{name}: a tensor has a wrong shape or place")
        if offset % _STEP:
            raise ValueError(f"{name}: a tensor begins at {offset}, which is no multiple of {_STEP}")
        if offset < at or begin + offset + length > size:
            raise ValueError(f"{name}: a tensor lies outside of the object, or in another")
        if math.prod(max(one, 1) for one in shape) >= 1 << 60:
            raise ValueError(f"{name}: a tensor has a wrong shape")
        if known is None or math.prod(shape) * _width(known) != length:
            raise ValueError(f"{name}: a tensor of {dtype} and {shape} does not have {length} bytes")
        places.append(_safetensors.Place(str(number), dtype, tuple(shape), begin + offset, begin + offset + length))
        at = offset + length
    return places


def save_pickled(value, client, bucket, key, **options):
    """torch.save of any object."""
    stream = io.BytesIO()
    torch.save(value, stream)
    return client.put(bucket, key, stream.getbuffer(), **options)


def load_pickled(client, bucket, key, **options):
    """torch.load of such an object: as with every pickle, only for trusted objects."""
    return torch.load(io.BytesIO(client.get(bucket, key).tobytes()), **options)
