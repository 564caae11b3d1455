"""Storage for torch.distributed.checkpoint: each rank's tensors are sent from their memory, and received straight into the loaded tensors,
on the CPU or on a CUDA device.

    import torch.distributed.checkpoint as dcp
    dcp.save(state, storage_writer=verbena.checkpoint.StorageWriter({"endpoint": "http://127.0.0.1:9000"}, "bucket", "checkpoints/7"))
    dcp.load(state, storage_reader=verbena.checkpoint.StorageReader({"endpoint": "http://127.0.0.1:9000"}, "bucket", "checkpoints/7"))

A checkpoint is PREFIX/.metadata, stored last, which completes it, and the objects below PREFIX/data-* that it names.
"""
import concurrent.futures
import dataclasses
import io
import math
import pickle
import re
import uuid

import torch
import torch.distributed.checkpoint.metadata as metadata_module
from torch.distributed.checkpoint import storage
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.futures import Future

from . import _torch_device, errors
from .torch import _bytes_of, _Source

_PACKED_MAX = 64 << 20  # of one object of small items, and of one GET of them
_RANGES_MAX = 64
_ALIGN = 64
_FOLDER_NAME = re.compile(r"data-[0-9a-f]{32}")


@dataclasses.dataclass(frozen=True)
class Place:
    """The position of an item: [offset, offset + length) of an object below the checkpoint. For a tensor with its
    shape and type."""

    key: str
    offset: int
    length: int
    dtype: str = ""
    shape: tuple = ()


@dataclasses.dataclass(frozen=True)
class _Folder:
    name: str


class _Checkpoint:
    def __init__(self, options, bucket, prefix="", in_flight=4):
        self._source, self._bucket, self._prefix, self._in_flight = _Source(options), bucket, prefix.strip("/"), max(1, in_flight)

    def reset(self, checkpoint_id=None):
        """Switches to another checkpoint: "bucket/prefix" or "verbena://bucket/prefix"."""
        if checkpoint_id is not None:
            bucket, _, prefix = str(checkpoint_id).removeprefix("verbena://").partition("/")
            self._bucket, self._prefix = bucket, prefix.strip("/")

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return isinstance(checkpoint_id, str) and "/" in checkpoint_id.removeprefix("verbena://")

    def _key(self, name):
        return f"{self._prefix}/{name}" if self._prefix else name

    def _each(self, call, given):
        """Runs concurrently; the first failure is raised."""
        with concurrent.futures.ThreadPoolExecutor(self._in_flight) as pool:
            return [one.result() for one in [pool.submit(call, *one) for one in given]]


class StorageWriter(_Checkpoint, storage.StorageWriter):
    """`options` are those of verbena.connect, or a client of this process."""

    def set_up_storage_writer(self, is_coordinator, *_, **__):
        pass

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        """Each save has a folder of its own: the previous checkpoint stays complete until the new one is."""
        self._replaced = self._find_replaced()
        name = f"data-{uuid.uuid4().hex}"
        return [dataclasses.replace(plan, storage_data=_Folder(f"{name}/{rank}")) for rank, plan in enumerate(plans)]

    def write_data(self, plan, planner):
        """Large tensors are objects of their own, sent from their memory; the others share some, and are copied to the host for that."""
        _torch_device._settle(planner.resolve_data(item).detach() for item in plan.items if item.type != WriteItemType.BYTE_IO)
        groups, room = [], _PACKED_MAX
        for item in plan.items:
            body = _body_of(item, planner) if item.type == WriteItemType.BYTE_IO else None
            size = _room(_tensor_size(item) if body is None else body.numel())
            if room + size > _PACKED_MAX:
                groups.append([])
                room = 0
            groups[-1].append((item, body))
            room += size
        written = self._each(self._write, [(f"{plan.storage_data.name}-{number}", some, planner) for number, some in enumerate(groups)])
        done = Future()
        done.set_result([one for some in written for one in some])
        return done

    def _write(self, name, items, planner):
        alone = len(items) == 1
        items = [(item, _body_of(item, planner, alone) if body is None else body) for item, body in items]
        client, key = self._source.client, self._key(name)
        places, at = [], 0
        for _, body in items:
            places.append(at)
            at += _room(body.numel())
        if alone:
            body = items[0][1]
            client.put(self._bucket, key, _torch_device._window_of(body) if body.numel() else b"")
        else:
            with client.allocate(max(at, 1)) as memory:
                whole = torch.from_dlpack(memory)
                for place, (_, body) in zip(places, items):
                    whole[place:place + body.numel()] = body
                del whole
                client.put(self._bucket, key, memory)
        return [storage.WriteResult(index=item.index, size_in_bytes=body.numel(), storage_data=_place_of(item, name, place, body.numel()))
                for place, (item, body) in zip(places, items)]

    def finish(self, metadata, results):
        metadata.storage_data = {one.index: one.storage_data for some in results for one in some}
        meta = self.storage_meta()
        if meta is not None and hasattr(metadata, "storage_meta"):
            metadata.storage_meta = meta
        client = self._source.client
        current = {place.key.partition("/")[0] for place in metadata.storage_data.values()}
        etag, folders = self._replaced
        condition = {"if_none_match": "*"} if etag is None else {"if_match": etag}
        try:
            client.put(self._bucket, self._key(".metadata"), pickle.dumps(metadata, protocol=4), **condition)
        except errors.PreconditionFailed:  # another save to this prefix has ended meanwhile: its checkpoint stays
            self._remove_folders(current)
            raise
        self._remove_folders(folders - current)

    def _find_replaced(self):
        """The ETag of the checkpoint that this save replaces, and its folders. Nothing else of the bucket is its own."""
        try:
            found, reply = self._source.client.get_bytes(self._bucket, self._key(".metadata"))
        except errors.NoSuchKey:
            return None, set()
        try:
            places = _Unpickler(io.BytesIO(found)).load().storage_data.values()
            return reply.etag, {name for place in places for name in [place.key.partition("/")[0]] if _FOLDER_NAME.fullmatch(name)}
        except Exception:  # noqa: BLE001 what cannot be read names nothing
            return reply.etag, set()

    def _remove_folders(self, names):
        client = self._source.client
        for name in names:
            keys = [entry.key for entry in client.list(self._bucket, self._key(name + "/"))]
            client.remove_many((self._bucket, key) for key in keys).check()

    def storage_meta(self):
        known = getattr(metadata_module, "StorageMeta", None)
        return None if known is None else known(checkpoint_id=f"{self._bucket}/{self._prefix}")


class StorageReader(_Checkpoint, storage.StorageReader):
    """`options` are those of verbena.connect, or a client of this process."""

    _places = None

    def read_metadata(self, *_, **__):
        found = self._source.client.get_bytes(self._bucket, self._key(".metadata"))[0]
        return _Unpickler(io.BytesIO(found)).load()

    def set_up_storage_reader(self, metadata, is_coordinator, *_, **__):
        self._places = metadata.storage_data

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        by_key = {}
        for item in plan.items:
            piece = _Piece(item, self._places[item.storage_index])
            by_key.setdefault(piece.place.key, []).append(piece)
        targets = [piece.resolve(planner) for some in by_key.values() for piece in some]
        _torch_device._settle(target for target in targets if target is not None)
        portions = {key: list(_portions(pieces)) for key, pieces in by_key.items()}
        several = [key for key, some in portions.items() if len(some) > 1]
        etags = dict(self._each(self._etag, [(key,) for key in several]))
        self._each(self._read, [(key, some, planner, etags.get(key)) for key, all_of_key in portions.items() for some in all_of_key])
        done = Future()
        done.set_result(None)
        return done

    def _etag(self, key):
        return key, self._source.client.head(self._bucket, self._key(key)).etag

    def _read(self, key, pieces, planner, etag=None):
        """The items of one GET. `etag`: of the object that the other GETs read."""
        targets = [piece.target for piece in pieces]
        full = [piece for piece in pieces if piece.size]
        if len(full) == 1 and len(pieces) == 1 and pieces[0].fits(targets[0]):
            window = _torch_device._window_of(_bytes_of(targets[0])) if _torch_device._is_there(targets[0]) else targets[0]
            got = self._source.client.get_into(self._bucket, self._key(key), window, range=(full[0].offset, full[0].size),
                                               if_match=etag).bytes
            _expect(got, full[0].size, key)
            planner.commit_tensor(pieces[0].item, targets[0])
            return
        whole = torch.empty(0, dtype=torch.uint8)
        if full:
            whole = torch.from_dlpack(self._source.client.get(self._bucket, self._key(key), ranges=[(piece.offset, piece.size) for piece in full],
                                                              if_match=etag))
        _expect(whole.numel(), sum(piece.size for piece in full), key)
        at = 0
        for piece, target in zip(pieces, targets):
            piece.put(whole[at:at + piece.size], target, planner)
            at += piece.size


class _Piece:
    """The part to read for one item: its bytes, or the requested rows of a tensor."""

    def __init__(self, item, place):
        self.item, self.place, self.offset, self.size, self.shape = item, place, place.offset, place.length, tuple(place.shape)
        self.starts, self.lengths = list(item.storage_offsets), list(item.lengths)
        if item.type == LoadItemType.BYTE_IO:
            return
        self.dtype = getattr(torch, place.dtype, None)
        if not isinstance(self.dtype, torch.dtype) or math.prod(self.shape) * _width(self.dtype) != place.length:
            raise ValueError(f"{place.key}: a tensor of {place.dtype} and {self.shape} does not have {place.length} bytes")
        if self.shape and self.shape[0] and 0 <= self.starts[0] and self.starts[0] + self.lengths[0] <= self.shape[0]:
            row = place.length // self.shape[0]
            self.offset, self.size = place.offset + self.starts[0] * row, self.lengths[0] * row
            self.shape, self.starts[0] = (self.lengths[0], *self.shape[1:]), 0

    def resolve(self, planner):
        """Finds the tensor to fill, which is None for bytes."""
        self.target = None if self.item.type == LoadItemType.BYTE_IO else planner.resolve_tensor(self.item).detach()
        return self.target

    def fits(self, target):
        """True if the bytes can be received straight into the target."""
        return (target is not None and (target.device.type == "cpu" or _torch_device._is_there(target)) and target.is_contiguous() and
                target.dtype == self.dtype and tuple(target.shape) == self.shape and list(self.shape) == self.lengths)

    def put(self, found, target, planner):
        if target is None:
            return planner.load_bytes(self.item, io.BytesIO(bytes(found.numpy())))
        # A packed tensor may begin at an offset that its type's alignment does not allow.
        tensor = found.clone().view(self.dtype).reshape(self.shape) if self.size else torch.empty(self.shape, dtype=self.dtype)
        for dimension, (start, length) in enumerate(zip(self.starts, self.lengths)):
            tensor = tensor.narrow(dimension, start, length)
        if target.shape != tensor.shape:
            raise ValueError(f"{self.place.key}: {tuple(tensor.shape)} where {tuple(target.shape)} is to be filled")
        target.copy_(tensor)
        planner.commit_tensor(self.item, target)
        return None


def _portions(pieces):
    """The items of each GET, in the order of their positions."""
    some, size = [], 0
    for piece in sorted(pieces, key=lambda one: one.offset):
        if some and (len(some) == _RANGES_MAX or size + piece.size > _PACKED_MAX):
            yield some
            some, size = [], 0
        some.append(piece)
        size += piece.size
    yield some


def _expect(found, wanted, key):
    if found != wanted:
        raise ValueError(f"{key}: {found} bytes where the checkpoint has {wanted}")


def _width(dtype):
    return torch.empty(0, dtype=dtype).element_size()


def _room(size):
    return -(-size // _ALIGN) * _ALIGN


def _tensor_size(item):
    return math.prod(item.tensor_data.chunk.sizes) * _width(item.tensor_data.properties.dtype)


def _body_of(item, planner, there=False):
    """The item's bytes; of a tensor of a device `there`, or on the host."""
    found = planner.resolve_data(item)
    if item.type == WriteItemType.BYTE_IO:
        data = found.getbuffer()
        return torch.frombuffer(bytearray(data), dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
    tensor = found.detach()
    return _bytes_of((tensor if there and _torch_device._is_there(tensor) else tensor.cpu()).contiguous())


def _place_of(item, name, at, size):
    if item.type == WriteItemType.BYTE_IO:
        return Place(name, at, size)
    return Place(name, at, size, str(item.tensor_data.properties.dtype).removeprefix("torch."), tuple(item.tensor_data.chunk.sizes))


class _Unpickler(pickle.Unpickler):
    """Restricted to the types of a checkpoint's metadata, so that no other code can be called."""

    def find_class(self, module, name):
        found = None
        if module == "torch.distributed.checkpoint.metadata":
            found = getattr(metadata_module, name, None)
            found = found if isinstance(found, type) and found.__module__ == module else None
        elif module == "torch":
            found = getattr(torch, name, None)
            found = found if found is torch.Size or isinstance(found, (torch.dtype, torch.layout, torch.memory_format)) else None
        elif module == __name__ and name == "Place":
            found = Place
        elif (module, name) in _BUILT:
            found = super().find_class(module, name)
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint's metadata")
        return found


_BUILT = {("collections", "OrderedDict"), ("builtins", "set"), ("builtins", "frozenset"), ("torch.serialization", "_get_layout")}
