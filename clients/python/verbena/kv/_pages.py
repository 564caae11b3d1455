"""Pages of a host pool: where their pieces lie, and the objects that hold them. Knows no engine, only the pool's own answers."""
from ._arena import copy
from .store import hash_of

_PIECES_MAX = 4  # a page of more pieces is one object, copied together; of fewer, an object for each, without a copy


class Pages:
    def __init__(self, store, name, pool, arenas):
        self._store, self._name, self._pool, self._arenas = store, name, pool, arenas
        self._sizes = [size for _, size in self._pieces(range(pool.page_size), 1)[0]]
        self._apart = len(self._sizes) <= _PIECES_MAX and len(arenas) == 1
        self._bytes = sum(self._sizes)

    def layout(self):
        """Facts on which all users of the namespace agree."""
        facts = {"layout": str(getattr(self._pool, "layout", "")), "page_size": int(self._pool.page_size), "pieces": self._sizes,
                 "apart": self._apart, "dtype": str(getattr(self._pool, "dtype", ""))}
        for name in ("layer_num", "head_num", "head_dim", "v_head_dim", "kv_lora_rank", "qk_rope_head_dim"):
            facts[name] = getattr(self._pool, name, None)
        return facts

    def _pieces(self, indices, count):
        """For each page the (address, bytes) of its pieces, as the pool says."""
        import torch
        indices = indices if hasattr(indices, "tolist") else torch.tensor(list(indices))
        addresses, sizes = self._pool.get_page_buffer_meta(indices)
        sizes = [sizes] * len(addresses) if isinstance(sizes, int) else list(sizes)
        if not addresses or len(addresses) % count:
            raise ValueError(f"the pool {self._name} names {len(addresses)} pieces for {count} pages")
        each = len(addresses) // count
        pieces = list(zip(map(int, addresses), map(int, sizes)))
        return [pieces[at:at + each] for at in range(0, len(pieces), each)]

    def _hashes(self, key):
        """The names of a page's objects."""
        whole = hash_of(key) if self._name == "kv" else hash_of(f"{key}.{self._name}")
        if not self._apart or len(self._sizes) == 1:
            return [whole]
        return [hash_of(f"{whole.hex()}.{piece}") for piece in range(len(self._sizes))]

    # ---- Questions ----

    def leading(self, keys):
        hashes = [one for key in keys for one in self._hashes(key)]
        return self._store.leading(hashes) // (len(self._sizes) if self._apart else 1)

    def present(self, keys):
        each = len(self._sizes) if self._apart else 1
        there = self._store.present([one for key in keys for one in self._hashes(key)])
        return [all(there[at:at + each]) for at in range(0, len(there), each)]

    # ---- Transfers ----

    def _items(self, keys, pages):
        """Items straight between the pool's memory and the objects; None if a piece lies elsewhere."""
        arena, items = self._arenas[0], []
        for key, page in zip(keys, pages):
            for one, (address, size) in zip(self._hashes(key), page):
                if not arena.holds(address, size):
                    return None
                items.append((self._store.bucket, self._store.key(one), address - arena.first, size))
        return items

    def get(self, keys, indices):
        """Of each page whether it is in the pool's memory. Nothing writes there after this returns."""
        if not keys or not self._store.usable:
            return [False] * len(keys)
        pages = self._pieces(indices, len(keys))
        items = self._items(keys, pages) if self._apart else None
        if items is None:
            return self._get_copied(keys, pages)
        load = self._store.load_items(items, self._arenas[0].memory)
        load.wait_drained()  # the pool gives pages that were not loaded to others; a transfer without progress ends by itself
        there = load.outcome()
        each = len(self._sizes)
        return [all(there[at:at + each]) for at in range(0, len(there), each)]

    def _get_copied(self, keys, pages):
        memory = self._store.allocate(self._bytes * len(keys))
        load = self._store.load([self._hashes(key)[0] for key in keys], memory, self._bytes)
        there, start = load.result(), _start(memory)
        for row, (one, page) in enumerate(zip(there, pages)):
            at = start + row * self._bytes
            for address, size in page if one else ():
                copy(address, at, size)
                at += size
        return there

    def set(self, keys, indices):
        """Of each page whether it is stored, by this call or before. The pool's memory is free when this returns."""
        if not keys or not self._store.takes_saves:
            return [False] * len(keys)
        pages = self._pieces(indices, len(keys))
        items = self._items(keys, pages) if self._apart else None
        if items is None:
            return self._set_copied(keys, pages)
        save = self._store.save_items(items, self._arenas[0].memory)
        save.wait_drained()
        there, each = save.outcome(), len(self._sizes)
        return [all(there[at:at + each]) for at in range(0, len(there), each)]

    def _set_copied(self, keys, pages):
        memory = self._store.allocate(self._bytes * len(keys))
        at = _start(memory)
        for page in pages:
            for address, size in page:
                copy(at, address, size)
                at += size
        return self._store.save([self._hashes(key)[0] for key in keys], memory, self._bytes).result()


def _start(memory):
    import torch
    return torch.frombuffer(memoryview(memory), dtype=torch.uint8).data_ptr()
