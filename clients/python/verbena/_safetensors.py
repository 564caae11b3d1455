"""The format of safetensors files: the position of each tensor, and the head of a new file. Every number is checked
before anything is allocated by it."""
import dataclasses
import json
import math

HEAD_MAX = 16 << 20  # a head of 100,000 tensors has about 10 MB
_DIMENSIONS_MAX = 64
_FIRST_READ = 64 << 10

# The format's names, with torch's and the bytes of an element.
TYPES = {"F64": ("float64", 8), "F32": ("float32", 4), "F16": ("float16", 2), "BF16": ("bfloat16", 2), "I64": ("int64", 8), "I32": ("int32", 4),
         "I16": ("int16", 2), "I8": ("int8", 1), "U8": ("uint8", 1), "U16": ("uint16", 2), "U32": ("uint32", 4), "U64": ("uint64", 8),
         "BOOL": ("bool", 1), "F8_E4M3": ("float8_e4m3fn", 1), "F8_E5M2": ("float8_e5m2", 1), "C64": ("complex64", 8)}
NAMES = {torch_name: name for name, (torch_name, _) in TYPES.items()}


@dataclasses.dataclass(frozen=True)
class Place:
    """The position of a tensor: [begin, end) of the object."""

    name: str
    dtype: str  # torch's name
    shape: tuple
    begin: int
    end: int

    @property
    def size(self):
        return self.end - self.begin


@dataclasses.dataclass(frozen=True)
class Head:
    etag: str
    places: list  # in the order of their positions
    metadata: dict


def read_head(client, bucket, key):
    """The head of a stored file, in one request if it is short."""
    first, reply = client.get_bytes(bucket, key, range=(0, _FIRST_READ))
    size = int.from_bytes(first[:8], "little")
    if len(first) < 8 or size > HEAD_MAX or size > reply.size - 8:
        raise ValueError(f"{bucket}/{key} is no safetensors file, or its head has more than {HEAD_MAX} bytes")
    text = first[8:8 + size]
    if len(text) < size:
        text += client.get_bytes(bucket, key, range=(len(first), size + 8 - len(first)), if_match=reply.etag)[0]
    if len(text) != size:
        raise ValueError(f"{bucket}/{key}: the head is cut off")
    return Head(reply.etag, *parse(bytes(text), reply.size - 8 - size))


def parse(text, data_size):
    """Places and metadata of a head that is followed by `data_size` bytes. ValueError for everything that the format does
    not allow: names twice, holes, overlaps, sizes that are not those of the shapes."""
    try:
        found = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as why:
        raise ValueError(f"no head of a safetensors file: {why}") from None
    if not text.startswith(b"{") or not isinstance(found, dict):
        raise ValueError("no head of a safetensors file")
    metadata = found.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("__metadata__ is not a map of text")
    base = 8 + len(text)
    places = sorted((_place(name, value, base) for name, value in found.items()), key=lambda place: (place.begin, place.end))
    at = base
    for place in places:
        if place.begin != at:
            raise ValueError(f"{place.name!r} does not begin where the tensor before it ends")
        at = place.end
    if at != base + data_size:
        raise ValueError(f"the tensors have {at - base} bytes, the file {data_size}")
    return places, metadata


def _unique(pairs):
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name is there twice")
    return made


def _refuse(text):
    raise ValueError(f"{text} is no number of JSON")


def _place(name, value, base):
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name!r} is not described by dtype, shape and data_offsets")
    known = TYPES.get(value["dtype"]) if isinstance(value["dtype"], str) else None
    if known is None:
        raise ValueError(f"{name!r} has an unknown dtype")
    shape, offsets = value["shape"], value["data_offsets"]
    if not are_numbers(shape) or len(shape) > _DIMENSIONS_MAX or not are_numbers(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"{name!r} has a wrong shape or wrong offsets")
    if math.prod(shape) * known[1] != offsets[1] - offsets[0] or math.prod(max(one, 1) for one in shape) >= 1 << 60:
        raise ValueError(f"{name!r}: its shape has not the bytes of its offsets")
    return Place(name, known[0], tuple(shape), base + offsets[0], base + offsets[1])


def are_numbers(value):
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 1 << 62 for one in value)


def make_head(tensors, metadata):
    """The beginning of a file of (name, torch's dtype, shape, size), in this order."""
    told, at = {}, 0
    if metadata:
        if not all(isinstance(one, str) for pair in metadata.items() for one in pair):
            raise TypeError("metadata is a map of text")
        told["__metadata__"] = dict(metadata)
    for name, dtype, shape, size in tensors:
        if not isinstance(name, str) or name == "__metadata__" or dtype not in NAMES:
            raise TypeError(f"{name!r} ({dtype}) has no place in a safetensors file")
        told[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(told, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEAD_MAX:
        raise ValueError(f"the head would have {len(text)} bytes")
    return len(text).to_bytes(8, "little") + text
