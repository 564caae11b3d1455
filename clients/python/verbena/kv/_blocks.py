"""Items of a batch that are equal blocks: named by hashes, made in the extension, so that a block costs no object of Python."""
import collections.abc

from .._client import Outcomes

_GET, _PUT_ABSENT, _BATCH_MAX = 0, 4, 4096


class Blocks(collections.abc.Sequence):
    """Blocks of `size` bytes in places of a memory: one after the other unless `offsets` names them. With `layers`, (first byte, bytes)
    of each in an object and likewise in a block's place, the first layer of all blocks comes first. An item is made when it is looked at,
    in get_many's form."""

    __slots__ = ("bucket", "prefix", "hashes", "size", "offsets", "layers")

    def __init__(self, bucket, prefix, hashes, size, offsets=None, layers=None):
        self.bucket, self.prefix, self.hashes, self.size = bucket, prefix, tuple(hashes), size
        if not all(issubclass(kind, bytes) for kind in set(map(type, self.hashes))):
            raise TypeError("a block's hash is bytes (hash_of)")  # here, since in the thread of a transfer it would be a miss
        self.offsets = None if offsets is None else tuple(offsets)[:len(self.hashes)]
        self.layers = None if layers is None else tuple(layers)
        if self.offsets is not None and len(self.offsets) < len(self.hashes):
            raise ValueError("each block has an offset")

    def __len__(self):
        return len(self.hashes) * (1 if self.layers is None else len(self.layers))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError("no such block")
        layer, block = divmod(at, len(self.hashes))
        key, offset = self.prefix + self.hashes[block].hex(), block * self.size if self.offsets is None else self.offsets[block]
        if self.layers is None:
            return self.bucket, key, offset, self.size
        first, size = self.layers[layer]
        return self.bucket, key, offset + first, size, first, size

    @property
    def bytes(self):
        """Of all items."""
        return len(self.hashes) * (self.size if self.layers is None else sum(size for _, size in self.layers))

    def get(self, client, memory, progress=None, lease=0):
        """As get_many: Outcomes."""
        return self._batches(client, _GET, memory, progress, lease, 0)

    def put_absent(self, client, memory, ttl=0):
        """As put_many with if_absent: Outcomes."""
        return self._batches(client, _PUT_ABSENT, memory, None, 0, ttl)

    def _batches(self, client, kind, memory, *rest):
        parts = [client.batch_of_blocks(kind, self.bucket, self.prefix, self.hashes, memory, self.size, self.offsets, self.layers, first,
                                        min(_BATCH_MAX, len(self) - first), *rest)
                 for first in range(0, len(self), _BATCH_MAX)]
        return Outcomes(self, parts, kind == _PUT_ABSENT)


def bytes_of(items):
    """The bytes of Blocks, or of get_many's items."""
    return items.bytes if isinstance(items, Blocks) else sum(item[3] for item in items)
