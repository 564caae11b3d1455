"""The scheduler's half of the vLLM connector: which blocks are loaded and saved in a step. Knows no tensor."""
import dataclasses
import hashlib
import time

from .store import KvStore, hash_of, namespace_id

_REMEMBERED_S = 1.0  # an answer is not asked for again that long: the scheduler repeats its question at every step


@dataclasses.dataclass
class Moved:
    """Blocks of one request in one step: for each group of layers their hashes and their places in the engine's memory."""

    request_id: str
    hashes: list
    block_ids: list
    lease: int = 0  # of the question that has found them; 0: none


def group_hash(block_hash, group):
    """The hash of a block's part that holds the layers of a group: groups beside the first have objects of their own."""
    block_hash = hash_of(block_hash)
    return block_hash if group == 0 else hashlib.blake2b(block_hash + group.to_bytes(2, "little"), digest_size=16).digest()


def describe(config, role_rank):
    """What one rank's blocks are, from the engine's configuration. Equal descriptions are equal bytes for equal tokens."""
    model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
    return {"engine": "vllm", "model": str(model.model), "revision": str(getattr(model, "revision", None)),
            "dtype": str(model.dtype).replace("torch.", ""), "cache_dtype": str(cache.cache_dtype), "block_size": int(cache.block_size),
            "hash": str(getattr(cache, "prefix_caching_hash_algo", "")), "tp": int(parallel.tensor_parallel_size),
            "pp": int(parallel.pipeline_parallel_size), "rank": int(role_rank)}


def own_rank(config):
    parallel = config.parallel_config
    world = parallel.tensor_parallel_size * parallel.pipeline_parallel_size
    return _shared(config, int(getattr(parallel, "rank", 0)) % world)


def _shared(config, rank):
    """With MLA all tensor-parallel ranks hold the same bytes: those of the first."""
    tensor = config.parallel_config.tensor_parallel_size
    return rank - rank % tensor if getattr(config.model_config, "use_mla", False) else rank


def all_ranks(config):
    parallel = config.parallel_config
    world = parallel.tensor_parallel_size * parallel.pipeline_parallel_size
    return sorted({_shared(config, rank) for rank in range(world)})


class Tracked:
    """A request that the scheduler knows."""

    def __init__(self, request):
        self.request, self.block_ids, self.saved = request, [], 0


class Scheduling:
    def __init__(self, config, groups, asynchronous, options, loads=True):
        self._asked = loads
        self._block_size, self._groups, self._asynchronous = int(config.cache_config.block_size), groups, asynchronous
        self.namespaces = [namespace_id(describe(config, rank)) for rank in all_ranks(config)]
        self.store = KvStore(description=describe(config, all_ranks(config)[0]), **options)
        self._found, self._tracked, self._loads = {}, {}, []

    # ---- Questions ----

    def matched(self, request, computed):
        """How many tokens beyond `computed` can be loaded. At least one token is left to compute. No side effects."""
        blocks = max(min((request.num_tokens - 1) // self._block_size, len(request.block_hashes)), 0)
        first = computed // self._block_size
        if not self._asked or computed % self._block_size or blocks <= first:
            return 0, False
        found = self._blocks_found(request, first, blocks)
        return found * self._block_size, self._asynchronous and found > 0

    def _blocks_found(self, request, first, blocks):
        known = self._found.get(request.request_id)
        if known is not None and known[:2] == (first, blocks) and time.monotonic() < known[3]:
            return known[2]
        found, lease = blocks - first, None
        for group in range(self._groups):
            hashes = [group_hash(one, group) for one in request.block_hashes[first:first + found]]
            found, lease = self.store.find(hashes, self.namespaces, lease)
            if found == 0:
                break
        remembered = _REMEMBERED_S if lease is None else min(_REMEMBERED_S, self.store.options.lease_ms / 2000)
        self._found[request.request_id] = (first, blocks, found, time.monotonic() + remembered, lease)
        return found

    # ---- Steps ----

    def allocated(self, request, blocks, external):
        """The request has its blocks; `external` tokens of them are to be loaded, beginning where the question did."""
        tracked = self._tracked.setdefault(request.request_id, Tracked(request))
        tracked.request = request
        known = self._found.pop(request.request_id, None)
        if external == 0 or known is None:
            return
        first, count = known[0], external // self._block_size
        block_ids = blocks.get_block_ids()
        moved = self._moved(tracked, [list(ids) for ids in block_ids], first, first + count)
        moved.lease = known[4] or 0
        self._loads.append(moved)
        tracked.saved = first + count

    def _moved(self, tracked, block_ids, first, end):
        hashes = tracked.request.block_hashes[first:end]
        return Moved(tracked.request.request_id, [[group_hash(one, group) for one in hashes] for group in range(self._groups)],
                     [ids[first:end] for ids in block_ids])

    def step(self, output):
        """What the workers load and save in the step that the scheduler has decided."""
        saves = []
        for new in output.scheduled_new_reqs:
            self._scheduled(new.req_id, [list(ids) for ids in new.block_ids], new.num_computed_tokens, output, saves)
        cached = output.scheduled_cached_reqs
        resumed = getattr(cached, "resumed_req_ids", None)
        for i, request_id in enumerate(cached.req_ids):
            again = request_id in resumed if resumed is not None else cached.resumed_from_preemption[i]
            tracked, new_ids = self._tracked.get(request_id), cached.new_block_ids[i]
            if tracked is None:
                continue
            block_ids = tracked.block_ids if new_ids is None else [list(ids) for ids in new_ids]
            if new_ids is not None and not again:
                block_ids = [before + more for before, more in zip(tracked.block_ids, block_ids)] if tracked.block_ids else block_ids
            self._scheduled(request_id, block_ids, cached.num_computed_tokens[i], output, saves)
        loads, self._loads = self._loads, []
        return loads, saves

    def _scheduled(self, request_id, block_ids, computed, output, saves):
        tracked = self._tracked.get(request_id)
        if tracked is None:
            return
        tracked.block_ids = block_ids
        if tracked.saved == 0 or computed < tracked.saved * self._block_size:  # new, preempted, or a load that failed
            tracked.saved = computed // self._block_size
        publishable = getattr(tracked.request, "num_publishable_block_hashes", None)
        known = len(tracked.request.block_hashes) if publishable is None else publishable
        complete = min((computed + output.num_scheduled_tokens.get(request_id, 0)) // self._block_size, known, *map(len, block_ids))
        if complete > tracked.saved:
            saves.append(self._moved(tracked, block_ids, tracked.saved, complete))
            tracked.saved = complete

    def finished(self, request_id):
        self._tracked.pop(request_id, None)
        self._found.pop(request_id, None)
