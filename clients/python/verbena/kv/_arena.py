"""An engine's own memory, registered once, and addresses inside it."""
import ctypes


def address_of(view):
    """Where a writable buffer begins."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view)) if len(view) else 0


class Arena:
    """One tensor of host memory; blocks that lie inside are moved without a copy."""

    def __init__(self, store, tensor):
        self._store, self._tensor, self._memory = store, tensor, None
        self.first, self.size = tensor.data_ptr(), tensor.numel() * tensor.element_size()

    def holds(self, address, size):
        return self.first <= address and address + size <= self.first + self.size

    @property
    def memory(self):
        """Registered at the first use, since the server may come later than the engine."""
        if self._memory is None:
            self._memory = self._store.register(self._tensor)
            if self._memory is self._tensor:
                memory, self._memory = self._memory, None
                return memory
        return self._memory


def copy(to_address, from_address, size):
    ctypes.memmove(to_address, from_address, size)


def tensors_in(thing, depth=3, seen=None):
    """The tensors that an allocator of an engine holds, whatever it calls them."""
    seen = set() if seen is None else seen
    if id(thing) in seen or depth < 0:
        return
    seen.add(id(thing))
    if hasattr(thing, "data_ptr") and hasattr(thing, "element_size"):
        yield thing
        return
    held = thing if isinstance(thing, (list, tuple)) else list(getattr(thing, "__dict__", {}).values())
    for one in list(held)[:64]:
        if isinstance(one, (list, tuple)) or hasattr(one, "data_ptr") or hasattr(one, "__dict__"):
            yield from tensors_in(one, depth - 1, seen)
