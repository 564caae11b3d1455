"""KV cache events of the vLLM connector: which blocks can be loaded by it, for those who listen to the engine's events (a router, say).

Workers tell with each step's output which keys they have stored, or found stored; when all ranks have, the block is told, with the host's
own classes. Told as removed is what a reset removes: what the server evicts, or what ends by its time, no engine sees.
"""
import array
import collections
import dataclasses
import inspect
import itertools
import logging

try:
    from vllm.distributed import kv_events as _host
except ImportError:
    _host = None
try:
    from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash as _name_of
except ImportError:
    def _name_of(block_hash):
        return block_hash

log = logging.getLogger("verbena.kv")
MEDIUM = "STORAGE"
_WAITING_MAX = 1 << 16  # blocks whose saves are not known to have ended; of more the oldest are not told
_TOLD_MAX = 1 << 20     # blocks that a reset tells as removed; of more the oldest are not


def wanted(config):
    """Whether the engine publishes events."""
    return bool(getattr(getattr(config, "kv_events_config", None), "enable_kv_cache_events", False))


def _make(kind, **values):
    """An event with those of the values that this host's class knows."""
    known = getattr(kind, "__struct_fields__", None) or inspect.signature(kind).parameters
    return kind(**{name: value for name, value in values.items() if name in known})


@dataclasses.dataclass(slots=True)
class Block:
    """A block that is to be stored: what its event needs, and nothing that would keep its request in memory."""

    ranks: int  # bit mask of those that have stored it
    group: int
    request_id: str
    at: int     # its number in the request
    parent: object
    block_hash: object
    tokens: array.array
    lora: tuple  # (its number, its name), None each without one


class Events:
    """The scheduler's half."""

    def __init__(self, block_size, ranks):
        self._block_size, self._ranks = block_size, sum(1 << rank for rank in ranks)
        self._waiting = collections.OrderedDict()  # key -> Block
        self._told = collections.OrderedDict()     # key -> (hash, group)
        self._new = []

    @classmethod
    def of(cls, block_size, ranks):
        """`ranks`: those that store blocks. None if the engine's events are not what this connector knows: then a line of the log says so."""
        made = cls(block_size, ranks)
        try:
            made._stored([bytes(32)], bytes(32), [0] * block_size, (None, None), 0)
            made._removed([bytes(32)], 0)
        except Exception as error:
            log.warning("verbena.kv: no KV cache events: this vLLM's classes of them are not those that VerbenaConnector knows (%s)", error)
            return None
        return made

    def _stored(self, hashes, parent, tokens, lora, group):
        return _make(_host.BlockStored, block_hashes=[_name_of(one) for one in hashes], parent_block_hash=parent and _name_of(parent),
                     token_ids=tokens, block_size=self._block_size, lora_id=lora[0], lora_name=lora[1], medium=MEDIUM, group_idx=group)

    @staticmethod
    def _removed(hashes, group):
        return _make(_host.BlockRemoved, block_hashes=[_name_of(one) for one in hashes], medium=MEDIUM, group_idx=group)

    def saving(self, request, first, groups, block_ids):
        """Blocks of the request from `first` on are to be saved: for each group of layers their keys and their places in the engine's memory.
        Place 0 stands for a block that no worker saves."""
        hashes, size, adapter = request.block_hashes, self._block_size, getattr(request, "lora_request", None)
        lora = getattr(adapter, "lora_int_id", None), getattr(adapter, "lora_name", None)
        for group, (keys, places) in enumerate(zip(groups, block_ids)):
            for at, (key, place) in enumerate(zip(keys, places), first):
                if place == 0 or key in self._told:
                    continue
                before = self._waiting.pop(key, None)  # of another request: of the two the newer one is forgotten later
                tokens = array.array("q", request.all_token_ids[at * size:(at + 1) * size])
                self._waiting[key] = Block(before.ranks if before else 0, group, request.request_id, at, hashes[at - 1] if at else None,
                                           hashes[at], tokens, lora)
        while len(self._waiting) > _WAITING_MAX:
            self._waiting.popitem(last=False)

    def stored(self, ranks_of):
        """Keys, and for each the bit mask of the ranks that have stored it since the last call."""
        done = []
        for key, ranks in ranks_of.items():
            block = self._waiting.get(key)
            if block is not None:
                block.ranks |= ranks
                if block.ranks & self._ranks == self._ranks:
                    del self._waiting[key]
                    self._told[key] = (block.block_hash, block.group)
                    done.append(block)
        while len(self._told) > _TOLD_MAX:
            self._told.popitem(last=False)
        done.sort(key=lambda block: (block.request_id, block.group, block.at))
        # Blocks of a request one after the other are one event.
        for _, run in itertools.groupby(enumerate(done), lambda pair: (pair[1].request_id, pair[1].group, pair[1].at - pair[0])):
            self._tell([block for _, block in run])

    def _tell(self, run):
        first, tokens = run[0], [token for block in run for token in block.tokens]
        self._new.append(self._stored([block.block_hash for block in run], first.parent, tokens, first.lora, first.group))

    def cleared(self):
        """All blocks are removed."""
        of_group = {}
        for block_hash, group in self._told.values():
            of_group.setdefault(group, []).append(block_hash)
        self._waiting.clear()
        self._told.clear()
        self._new = [self._removed(hashes, group) for group, hashes in sorted(of_group.items())]

    def take(self):
        new, self._new = self._new, []
        return new
