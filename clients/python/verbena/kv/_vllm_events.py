"""KV cache events of the vLLM connector: which blocks can be loaded by it, for those who listen to the engine's events (a router, say).

Workers tell with each step's output which keys they have stored, or found stored; when all ranks have, the block is told, with the host's
own classes. Told as removed is what a reset removes: what the server evicts, or what ends by its time, no engine sees.
"""
import collections
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


class Events:
    """The scheduler's half."""

    def __init__(self, block_size, ranks):
        self._block_size, self._ranks = block_size, ranks
        self._waiting = collections.OrderedDict()  # key -> [ranks that have stored it, request, number of the block, group]
        self._told = collections.OrderedDict()     # key -> (hash, group)
        self._new = []

    @classmethod
    def of(cls, config, block_size, ranks):
        """None if the engine publishes none, or if its events are not what this connector knows: then a line of the log says so."""
        if not wanted(config):
            return None
        made = cls(block_size, ranks)
        try:
            made._stored([bytes(32)], bytes(32), [0] * block_size, None, 0)
            made._removed([bytes(32)], 0)
        except Exception as error:
            log.warning("verbena.kv: no KV cache events: this vLLM's classes of them are not those that VerbenaConnector knows (%s)", error)
            return None
        return made

    def _stored(self, hashes, parent, tokens, lora, group):
        return _make(_host.BlockStored, block_hashes=[_name_of(one) for one in hashes], parent_block_hash=parent and _name_of(parent),
                     token_ids=tokens, block_size=self._block_size, lora_id=getattr(lora, "lora_int_id", None), medium=MEDIUM,
                     lora_name=getattr(lora, "lora_name", None), group_idx=group)

    @staticmethod
    def _removed(hashes, group):
        return _make(_host.BlockRemoved, block_hashes=[_name_of(one) for one in hashes], medium=MEDIUM, group_idx=group)

    def saving(self, request, first, groups):
        """Blocks of the request from `first` on are to be saved: for each group of layers their keys."""
        for group, keys in enumerate(groups):
            for at, key in enumerate(keys, first):
                if key not in self._told:
                    self._waiting.setdefault(key, [0, request, at, group])
        while len(self._waiting) > _WAITING_MAX:
            self._waiting.popitem(last=False)

    def stored(self, ranks_of):
        """Keys, and how many ranks have stored each since the last call."""
        done = []
        for key, ranks in ranks_of.items():
            one = self._waiting.get(key)
            if one is not None:
                one[0] += ranks
                if one[0] >= self._ranks:
                    del self._waiting[key]
                    done.append((key, *one[1:]))
        for key, request, at, group in done:
            self._told[key] = (request.block_hashes[at], group)
        while len(self._told) > _TOLD_MAX:
            self._told.popitem(last=False)
        done.sort(key=lambda one: (one[1].request_id, one[3], one[2]))
        # Blocks of a request one after the other are one event.
        for _, run in itertools.groupby(enumerate(done), lambda pair: (pair[1][1].request_id, pair[1][3], pair[1][2] - pair[0])):
            self._tell([one for _, one in run])

    def _tell(self, run):
        _, request, first, group = run[0]
        end, size = first + len(run), self._block_size
        parent = request.block_hashes[first - 1] if first else None
        self._new.append(self._stored(list(request.block_hashes[first:end]), parent, list(request.all_token_ids[first * size:end * size]),
                                      getattr(request, "lora_request", None), group))

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
