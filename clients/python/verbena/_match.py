"""MATCH: how many leading keys of a list exist, in one message."""
from typing import Any, NamedTuple, Optional

from . import errors

MEMORY, DISK = 1, 2  # places


class Matched(NamedTuple):
    """How many leading keys of a list exist. `ended` is why the next one does not count ("no_such_key", "access_denied"; None: all of
    the list do). If they were requested, `sizes` has the bytes of each leading object, and `places` where they lie: MEMORY, DISK, or 0
    for unknown. `lease` is the number of the lease, if one was requested."""

    leading: int
    ended: Optional[str] = None
    sizes: Any = None
    places: Any = None
    lease: Optional[int] = None


def _pack(hashes, width):
    """One list's hashes as bytes, and the width of each. A list of bytes, or packed in anything with a contiguous buffer."""
    if isinstance(hashes, (list, tuple)):
        if not hashes:
            return b"", width
        size = len(hashes[0])
        packed = b"".join(hashes)
        if len(set(map(len, hashes))) != 1:
            raise ValueError("the hashes of a match have one width")
        return packed, size
    with memoryview(hashes) as view:
        row = view.shape[-1] * view.itemsize if view.ndim == 2 else width
        if row is not None and view.nbytes % row:
            raise ValueError(f"{view.nbytes} bytes are no hashes of {row}")
        if row is None and view.nbytes:
            raise ValueError("packed hashes need their width: 16 or 32")
        return view.tobytes() if len(view) else b"", row


class Matches:
    """The calls of a Client that ask for many keys by their hashes."""

    def match(self, bucket, namespace, hashes, *, width=None, sizes=False, places=False, lease_ms=0, join=None):
        """How many leading keys exist and may be read: as many HEADs, up to the first that fails, in one message. A key is
        "<namespace>/<hash in lower-case hexadecimal>"; `hashes` is a list of bytes (16 or 32 each), packed bytes or another buffer with
        their `width`, or a two-dimensional array with a row for each. With `lease_ms` what was found is held, by a lease of its own or
        by that of `join`. Returns a Matched."""
        return self.match_lists(bucket, namespace, (hashes,), width=width, sizes=sizes, places=places, lease_ms=lease_ms, join=join)[0]

    def match_lists(self, bucket, namespace, lists, *, width=None, sizes=False, places=False, lease_ms=0, join=None):
        """As match, for several lists in one message: at most 65536 hashes of one width in all. Returns a list of Matched."""
        packed, counts = [], []
        for hashes in lists:
            some, own = _pack(hashes, width)
            if some and own != (width or own):
                raise ValueError("the hashes of a match have one width")
            width = own or width
            packed.append(some)
        if width is not None:
            counts = [len(some) // width for some in packed]
        asked = tuple(count for count in counts if count)
        if not asked:
            return [Matched(0) for _ in packed]
        joined = packed[0] if len(packed) == 1 else b"".join(packed)
        leading, codes, all_sizes, all_places, lease = self.match_hashes(bucket, namespace, joined, width, asked, sizes, places, lease_ms,
                                                                                   join or 0)
        all_sizes = memoryview(all_sizes).cast("Q") if all_sizes is not None else None
        answers, at, given = [], 0, iter(zip(leading, codes))
        for count in counts:
            if not count:
                answers.append(Matched(0, lease=lease or None))
                continue
            many, code = next(given)
            answers.append(Matched(many, errors.code_of(code), None if all_sizes is None else all_sizes[at:at + many],
                                   None if all_places is None else all_places[at:at + many], lease or None))
            at += count
        return answers
