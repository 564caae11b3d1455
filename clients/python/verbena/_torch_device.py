"""Tensors of a device: safetensors files, and batches of objects, received where they are used.

The windows name the stream that was current when their memory was allocated: transfers by other threads come after that
stream's work, and do not stop the device.
"""
import concurrent.futures
import contextlib

import torch

from . import _safetensors
from ._client import connect

_PIECE = 16 << 20  # of one GET
_OWN_MEMORY = 1 << 20  # tensors from this size on have memory of their own
_SHARED_MAX = 16 << 20
_ALIGN = 64


class _Window:
    """Bytes on a device, in the order of a stream."""

    def __init__(self, memory, stream):
        self._memory = memory
        self.__cuda_array_interface__ = {"shape": (memory.numel(),), "typestr": "|u1", "data": (memory.data_ptr(), False), "version": 3,
                                         "stream": stream or 1}

    def __dlpack_device__(self):
        return (10 if torch.version.hip else 2, 0)  # ROCm or CUDA: the number is asked of the driver


def _allocate(size, device):
    """Bytes on `device`, and a function that makes the window of a part of them."""
    memory = torch.empty(size, dtype=torch.uint8, device=device)
    if memory.device.type != "cuda":
        return memory, lambda part: part
    stream = torch.cuda.current_stream(memory.device).cuda_stream
    return memory, lambda part: _Window(part, stream)


def _is_there(tensor):
    """Whether transfers go to and from the tensor's own memory on a device."""
    return tensor.device.type == "cuda"


def _window_of(flat):
    """The window of bytes of a tensor, in the order of this thread's stream."""
    return _Window(flat, torch.cuda.current_stream(flat.device).cuda_stream) if _is_there(flat) else flat


def _settle(tensors):
    """Waits for what this thread's streams do with tensors of devices: other threads go on from here."""
    for device in {tensor.device for tensor in tensors if _is_there(tensor)}:
        torch.cuda.current_stream(device).synchronize()


def _split(url):
    bucket, _, key = url.partition("://")[2].partition("/")
    if not url.startswith(("s3://", "verbena://")) or not bucket or not key:
        raise ValueError(f"{url!r} is not s3://bucket/key")
    return bucket, key


def _opened(client, options):
    return connect(**options) if client is None else contextlib.nullcontext(client)


def _dtype(place):
    found = getattr(torch, place.dtype, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{place.name!r} is of {place.dtype}, which torch {torch.__version__} does not have")
    return found


def _width(dtype):
    return torch.empty(0, dtype=dtype).element_size()


def _groups(places):
    """Runs of neighbours that are received together: small tensors, or one large one."""
    some = []
    for place in places:
        if some and (not 0 <= place.begin - some[-1].end < _ALIGN or some[0].size >= _OWN_MEMORY or place.size >= _OWN_MEMORY or
                     place.end - some[0].begin > _SHARED_MAX):
            yield some
            some = []
        some.append(place)
    if some:
        yield some


def _fill(client, bucket, key, etag, first, part, window):
    size = part.numel()
    got = client.get_into(bucket, key, window(part), range=(first, size), if_match=etag).bytes
    if got != size:
        raise ValueError(f"{bucket}/{key}: {got} bytes where {size} are needed")


def _tensor(memory, at, place, dtype):
    """A tensor that uses the memory; it is copied on the device if the file does not align it."""
    if not place.size:
        return torch.empty(place.shape, dtype=dtype, device=memory.device)
    piece = memory[at:at + place.size]
    if at % _width(dtype):
        piece = piece.clone()
    return piece.view(dtype).reshape(place.shape)


def _receive(client, bucket, key, etag, places, device, in_flight=8):
    """The tensors at these places, in their order, of one version of an object, by name."""
    types = {place.name: _dtype(place) for place in places}
    made = {}
    with concurrent.futures.ThreadPoolExecutor(max(1, in_flight)) as pool:
        try:
            waiting = []
            for group in _groups(places):
                begin, size = group[0].begin, group[-1].end - group[0].begin
                memory, window = _allocate(size, device)
                waiting += [pool.submit(_fill, client, bucket, key, etag, begin + at, memory[at:min(at + _PIECE, size)], window)
                            for at in range(0, size, _PIECE)]
                made.update((place.name, (memory, place.begin - begin, place)) for place in group)
            for one in waiting:
                one.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return {name: _tensor(memory, at, place, types[name]) for name, (memory, at, place) in made.items()}


def load_file(url, device="cpu", *, names=None, client=None, in_flight=8, **options):
    """The tensors of a safetensors file, by name, on `device`; with `names` those alone. The file is read by ranges, of
    one version of the object, several at once, straight into the tensors' memory. `options` are those of
    verbena.connect if no client is given."""
    bucket, key = _split(url)
    with _opened(client, options) as source:
        head = _safetensors.read_head(source, bucket, key)
        places = head.places
        if names is not None:
            wanted = {names} if isinstance(names, str) else set(names)
            places = [place for place in places if place.name in wanted]
            if len(places) != len(wanted):
                raise KeyError(f"{url} has no {sorted(wanted - {place.name for place in places})}")
        return _receive(source, bucket, key, head.etag, places, device, in_flight)


def _flat(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return tensor.reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def _stream_of(head, tensors):
    """The file's bytes in pieces: a tensor of a device is copied to the host piece by piece."""
    yield head
    for tensor in tensors:
        flat = _flat(tensor)
        for at in range(0, flat.numel(), _PIECE):
            yield flat[at:at + _PIECE].cpu().numpy().tobytes()


def save_file(tensors, url, metadata=None, *, client=None, **options):
    """Stores tensors, by name, as a safetensors file; returns the Reply of the PUT. `metadata` is a map of text."""
    bucket, key = _split(url)
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.device.type == "meta":
            raise TypeError(f"{name!r} is no dense tensor")
    order = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))  # which aligns each of them
    head = _safetensors.make_head([(name, str(tensor.dtype).removeprefix("torch."), tensor.shape, tensor.numel() * tensor.element_size())
                                   for name, tensor in order], metadata)
    pieces, rest = _stream_of(head, [tensor for _, tensor in order]), memoryview(b"")

    def read(size):
        nonlocal rest
        if not rest:
            rest = memoryview(next(pieces, b""))
        part, rest = rest[:size], rest[size:]
        return bytes(part)

    with _opened(client, options) as target:
        return target.put_stream(bucket, key, read)


def _as_they_are(keys, tensors):
    """The default `decode` of a batch: the objects' bytes."""
    return tensors


class _Batches:
    """Batches of keys to tensors on a device, some ahead of the consumer, whose thread allocates the memory."""

    def __init__(self, client, bucket, device, ahead):
        self._client, self._bucket, self._device, self._ahead = client, bucket, device, max(1, ahead)

    def over(self, batches):
        """Yields (keys, their bytes)."""
        waiting = []
        with concurrent.futures.ThreadPoolExecutor(self._ahead) as pool:
            for keys in batches:
                waiting.append(self._start(pool, keys))
                if len(waiting) > self._ahead:
                    yield self._finish(*waiting.pop(0))
            while waiting:
                yield self._finish(*waiting.pop(0))

    def _start(self, pool, keys):
        sizes = [one.size for one in self._client.head_many((self._bucket, key) for key in keys).check()]
        places, at = [], 0
        for key, size in zip(keys, sizes):
            places.append((self._bucket, key, at, size))
            at += -(-size // _ALIGN) * _ALIGN
        memory, window = _allocate(at, self._device)
        return pool.submit(self._client.get_many, places, window(memory)), memory, places

    @staticmethod
    def _finish(transfer, memory, places):
        done = transfer.result().check()
        for (bucket, key, _, size), one in zip(places, done):
            if one.bytes != size:
                raise ValueError(f"{bucket}/{key} was replaced while it was read")
        return [place[1] for place in places], [memory[at:at + size] for _, _, at, size in places]
