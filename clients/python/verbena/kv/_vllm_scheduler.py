"""The scheduler's half of the vLLM connector: which blocks are loaded and saved in a step. Knows no tensor."""
import dataclasses
import logging
import time

from ._removal import Removal
from ._vllm_events import Events
from ._vllm_namespace import adapter_of, all_ranks, describe, group_hash
from ._vllm_verdicts import Computed, Verdicts
from .store import KvStore, namespace_id

log = logging.getLogger("verbena.kv")
_REMEMBERED_S = 1.0  # an answer is not asked for again that long: the scheduler repeats its question at every step


@dataclasses.dataclass
class Moved:
    """Blocks of one request in one step: for each group of layers their hashes and their places in the engine's memory."""

    request_id: str
    hashes: list
    block_ids: list
    lease: int = 0  # of the question that has found them; 0: none


@dataclasses.dataclass
class Plan:
    """What the workers do in one step."""

    loads: list = dataclasses.field(default_factory=list)
    saves: list = dataclasses.field(default_factory=list)
    step: int = 0
    generation: int = 0  # how often the cache was reset: what was computed under another one is not stored
    verdicts: dict = dataclasses.field(default_factory=dict)  # of earlier steps: the requests whose saves are dropped
    description: dict = None  # in the first step: what the blocks are, as the scheduler sees it


class Tracked:
    """A request that the scheduler knows."""

    def __init__(self, request):
        self.request, self.block_ids, self.saved = request, [], 0
        self.request_id, self.adapter, self.right = request.request_id, adapter_of(request), (0, 0)


def _ahead(config):
    """How many steps an engine decides before it knows the output of the first of them, at most."""
    asynchronous = getattr(getattr(config, "scheduler_config", None), "async_scheduling", False)
    return max(int(config.parallel_config.pipeline_parallel_size), 1) + (asynchronous is not False)


class Scheduling:
    def __init__(self, config, groups, asynchronous, options, loads=True, blocks=None, tells=False):
        """`tells`: whether the workers tell what they have stored, for the engine's events."""
        self._asked, self._blocks = loads, blocks
        self._block_size, self._groups, self._asynchronous = int(config.cache_config.block_size), groups, asynchronous
        described = [describe(config, rank) for rank in all_ranks(config)]
        self.namespaces = [namespace_id(one) for one in described]
        self.store = KvStore(description=described[0], **options)
        self._found, self._tracked, self._loads = {}, {}, []
        self._verdicts, self._generation = Verdicts(self._block_size, _ahead(config)), 0
        self._events = Events.of(self._block_size, all_ranks(config)) if tells else None
        self._removal = None   # since a reset: of the blocks of before it
        self._opens = 0        # questions are answered again when this step's output is known; None: with the next step's

    # ---- Questions ----

    def matched(self, request, computed):
        """How many tokens beyond `computed` can be loaded. At least one token is left to compute. No side effects."""
        blocks = max(min((request.num_tokens - 1) // self._block_size, len(request.block_hashes)), 0)
        first = computed // self._block_size
        if not self._asked or computed % self._block_size or blocks <= first or not self._open():
            return 0, False
        found = self._blocks_found(request, first, blocks)
        return found * self._block_size, self._asynchronous and found > 0

    def _blocks_found(self, request, first, blocks):
        known = self._found.get(request.request_id)
        if known is not None and known[:2] == (first, blocks) and time.monotonic() < known[3]:
            return known[2]
        found, lease, adapter = blocks - first, None, adapter_of(request)
        for group in range(self._groups):
            hashes = [group_hash(one, group, adapter) for one in request.block_hashes[first:first + found]]
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
        return Moved(tracked.request_id, [[group_hash(one, group, tracked.adapter) for one in hashes] for group in range(self._groups)],
                     [ids[first:end] for ids in block_ids])

    def step(self, output):
        """What the workers load and save in the step that the scheduler has decided, and which of their earlier saves are stored."""
        saves, computes = [], []
        for new in output.scheduled_new_reqs:
            self._scheduled(new.req_id, [list(ids) for ids in new.block_ids], new.num_computed_tokens, output, saves, computes, fresh=True)
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
            self._scheduled(request_id, block_ids, cached.num_computed_tokens[i], output, saves, computes, fresh=again)
        loads, self._loads = self._loads, []
        step = self._verdicts.decide([block for moved in loads for ids in moved.block_ids for block in ids], computes)
        if self._opens is None:
            self._opens = step
        return Plan(loads, saves, step, self._generation, self._verdicts.take(), self.store.description if step == 1 else None)

    def _scheduled(self, request_id, block_ids, computed, output, saves, computes, fresh):
        tracked = self._tracked.get(request_id)
        if tracked is None:
            return
        tracked.block_ids, end = block_ids, computed + output.num_scheduled_tokens.get(request_id, 0)
        computes.append(Computed(tracked, block_ids, computed, end, fresh))
        if tracked.saved == 0 or computed < tracked.saved * self._block_size:  # new, preempted, or a load that failed
            tracked.saved = computed // self._block_size
        publishable = getattr(tracked.request, "num_publishable_block_hashes", None)
        known = len(tracked.request.block_hashes) if publishable is None else publishable
        complete = min(end // self._block_size, known, *map(len, block_ids))
        if complete > tracked.saved:
            moved = self._moved(tracked, block_ids, tracked.saved, complete)
            saves.append(moved)
            if self._events is not None:
                self._events.saving(tracked.request, tracked.saved, moved.hashes, moved.block_ids)
            tracked.saved = complete

    def told(self, lost, reached):
        """A step's output: the blocks that any rank has lost, and what the workers tell of it, if the host passes that on."""
        self._verdicts.told(lost, getattr(reached, "step", None))
        if self._events is not None and reached is not None and reached.generation == self._generation:
            self._events.stored(reached.stored)

    def events(self):
        """What was stored or removed since the last call, as the host's events."""
        return self._events.take() if self._events is not None else ()

    def finished(self, request_id):
        self._tracked.pop(request_id, None)
        self._found.pop(request_id, None)

    # ---- A reset ----

    def reset(self):
        """Nothing of before is found or stored any more. False if blocks are not removed after the deadline: until they are, nothing is
        found."""
        self._generation += 1
        self._found.clear()
        if self._events is not None:
            self._events.cleared()
        held = {block for tracked in self._tracked.values() for ids in tracked.block_ids for block in ids}
        self._verdicts.reset(held.union(range(self._blocks or 0)))
        if self._removal is not None:
            self._removal.stop()
        self._opens, self._removal = None, Removal(self.store, self.namespaces)
        return self._removal.wait_tried(self.store.options.deadline_ms / 1000)

    def _open(self):
        """Whether questions are answered: since a reset the workers have ended their saves of before it, and what there was is removed."""
        if self._opens is None or self._verdicts.known < self._opens:
            return False
        return self._removal is None or self._removal.ended
