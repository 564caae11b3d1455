"""A simulated engine around a vLLM connector: a scheduler with real block tables and a prefix cache, and workers whose "attention" fills a
block's place in each layer with bytes that follow from the block's hash and from the bytes of all blocks before it, as every rank reads them
from its tensors. So a block that was computed over a wrong one is wrong as well, and every block that a connector loads can be compared bit by
bit with what computing it over right ones gives: Worker.check does that for every block that a request counts as computed.
"""
import hashlib
import multiprocessing
import time
import types

import torch

import vllm_host

BLOCK, HEADS, WIDTH = 4, 2, 8  # tokens in a block, heads, values of a head
NOTHING = bytes(16)  # what is read before the first block


def attention(block_hash, layer, rank, before, weights=0):
    """A block of a layer, from its tokens (their hash) and from what each rank has read of the blocks before it."""
    raw = hashlib.shake_128(b"/".join([block_hash, layer.encode(), b"%d %d" % (rank, weights), *before])).digest(2 * BLOCK * HEADS * WIDTH * 2)
    return torch.frombuffer(bytearray(raw), dtype=torch.int16).reshape(2, BLOCK, HEADS, WIDTH)


def read(before, block):
    """What a rank has read of a prefix, when one more block was read."""
    return hashlib.blake2b(before + block.contiguous().numpy().tobytes(), digest_size=16).digest()


class Truth:
    """Blocks as they are where nothing was ever lost."""

    def __init__(self, ranks, weights=0):
        self._ranks, self._weights, self._known = ranks, weights, {}

    def blocks(self, hashes, layer, rank):
        """The rank's leading blocks of a layer, by their hashes."""
        before = (NOTHING,) * self._ranks
        for block_hash in hashes:
            known = self._known.get((block_hash, layer))
            if known is None:
                made = [attention(block_hash, layer, one, before, self._weights) for one in range(self._ranks)]
                known = self._known[block_hash, layer] = made, tuple(read(*pair) for pair in zip(before, made))
            made, before = known
            yield made[rank]


class Exchange:
    """What ranks in processes of their own tell each other at each layer, as an all-reduce does: 16 bytes for each request."""

    def __init__(self, ranks):
        context = multiprocessing.get_context("fork")
        self._ranks, self._met, self._told = ranks, context.Barrier(ranks), [context.Array("B", 16 * 64, lock=False) for _ in range(ranks)]

    def all(self, rank, mine):
        """For each request what each rank has told."""
        if self._ranks == 1:
            return [(one,) for one in mine]
        memoryview(self._told[rank]).cast("B")[:16 * len(mine)] = b"".join(mine)
        self._met.wait(60)
        told = [tuple(bytes(one[16 * i:16 * i + 16]) for one in self._told) for i in range(len(mine))]
        self._met.wait(60)
        return told


class Request:
    def __init__(self, request_id, tokens, outputs=0):
        self.request_id, self.tokens, self.outputs = request_id, list(tokens), outputs
        self.num_computed_tokens, self.block_ids, self.state, self.block_hashes = 0, [], "waiting", []
        self.turn = 0  # of what was decided in an earlier one the output does not count
        self.rehash()

    @property
    def all_token_ids(self):
        return self.tokens

    @property
    def num_tokens(self):
        return len(self.tokens)

    def rehash(self):
        while (len(self.block_hashes) + 1) * BLOCK <= len(self.tokens):
            at = len(self.block_hashes) * BLOCK
            before = self.block_hashes[-1] if self.block_hashes else b"root"
            self.block_hashes.append(hashlib.sha256(before + repr(self.tokens[at:at + BLOCK]).encode()).digest())


class Worker:
    """One rank: its tensors, and its half of the connector. With `late_start` it starts what the forward pass does not wait for after it,
    as newer hosts do."""

    def __init__(self, settings, rank, tp, layers, blocks, exchange=None, **more):
        vllm_host.install(**more.pop("host", {}))
        self.late_start, self.asynchronous = more.pop("late_start", False), settings.get("load") == "async"
        self.rank, self.layers = rank, [f"model.layers.{i}.attn" for i in range(layers)]
        self.exchange, self.tp = exchange or Exchange(tp), tp
        self.load_weights(0)
        self.caches = {name: torch.zeros(2, blocks, BLOCK, HEADS, WIDTH, dtype=torch.int16) for name in self.layers}
        config = vllm_host.config(settings, tp=tp, rank=rank, **more)
        self.connector = vllm_host.load(config, vllm_host.KVConnectorRole.WORKER, vllm_host.cache_config(self.layers, blocks))
        self.connector.set_eagle_prefix_cache_hashing(self.connector.supports_eagle_prefix_cache_hashing)
        self.connector.register_kv_caches(self.caches)
        self.connector.set_host_xfer_buffer_ops(None)
        assert self.connector.get_handshake_metadata() is None

    def step(self, meta, computed, finished, forward):
        """One engine step. `computed` has for each request its (hash, block) before this step, and those that the forward pass fills."""
        self.connector.handle_preemptions(meta)
        self.connector.bind_connector_metadata(meta)
        assert self.connector.has_connector_metadata()
        late = self.late_start and (self.asynchronous or not meta.loads)
        if not late:
            self.connector.start_load_kv(None)
        for name in self.layers if forward else ():
            self.connector.wait_for_layer_load(name)
            self._compute(name, computed)
            self.connector.save_kv_layer(name, self.caches[name], None)
        if late:
            self.connector.start_load_kv(None)
        if forward or late:
            self.connector.wait_for_save()
        _, received = self.connector.get_finished(finished)
        lost = self.connector.get_block_ids_with_load_errors()
        stats, events = self.connector.get_kv_connector_stats(), self.connector.get_kv_connector_kv_cache_events()
        assert events is None  # they come with what the worker tells its scheduler
        told = self.connector.build_connector_worker_meta()
        self.connector.clear_connector_metadata()
        return received or set(), lost, dict(stats.data) if stats else {}, told

    def _compute(self, name, computed):
        cache, prefixes = self.caches[name], []
        for before, _ in computed:
            prefix = NOTHING
            for _, block in before:
                prefix = read(prefix, cache[:, block])
            prefixes.append(prefix)
        for (_, new), prefix in zip(computed, self.exchange.all(self.rank, prefixes)):
            for block_hash, block in new:
                made = [attention(block_hash, name, rank, prefix, self.weights) for rank in range(self.tp)]
                cache[:, block], prefix = made[self.rank], tuple(read(*pair) for pair in zip(prefix, made))

    def check(self, blocks):
        """How many of a request's leading (hash, block) differ from what computing them gives."""
        hashes = [block_hash for block_hash, _ in blocks]
        return sum(not torch.equal(self.caches[name][:, block], wanted) for name in self.layers
                   for (_, block), wanted in zip(blocks, self.truth.blocks(hashes, name, self.rank)))

    def load_weights(self, weights):
        self.weights, self.truth = weights, Truth(self.tp, weights)

    def forget(self):
        for cache in self.caches.values():
            cache.fill_(-1)

    def flush(self):
        return self.connector._working.store.flush()

    def shutdown(self):
        self.connector.shutdown()


def _serve(pipe, arguments, more):
    worker = Worker(*arguments, **more)
    pipe.send(None)
    while True:
        name, *given = pipe.recv()
        pipe.send(getattr(worker, name)(*given))
        if name == "shutdown":
            return


class RemoteWorker:
    """A worker in a process of its own."""

    def __init__(self, *arguments, **more):
        self._pipe, other = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(target=_serve, args=(other, arguments, more), daemon=True)
        self._process.start()

    def begin(self, name, *given):
        self._pipe.send((name, *given))

    def end(self):
        return self._pipe.recv()


class Engine:
    """Scheduler, block tables and workers. `step` decides what runs, as vLLM's does: running requests first, then waiting ones, with
    preemption of the youngest when blocks run out; a lost block puts its request back to the last good one. With `ahead` that many steps are
    decided and carried out before the output of the one before them is known."""

    def __init__(self, settings, *, blocks=32, layers=3, tp=1, tokens_max=16, processes=False, ahead=0, **more):
        make = RemoteWorker if processes else Worker
        assert tp == 1 or processes, "ranks wait for each other at each layer"
        exchange, host = Exchange(tp), more.get("host", {})
        self.workers = [make(settings, rank, tp, layers, blocks, exchange, **more) for rank in range(tp)]
        for worker in self.workers if processes else ():
            worker.end()
        vllm_host.install(**host)
        config = vllm_host.config(settings, tp=tp, **{name: value for name, value in more.items() if name not in ("host", "late_start")})
        config.scheduler_config = types.SimpleNamespace(async_scheduling=ahead > 0)
        self.connector = vllm_host.load(config, vllm_host.KVConnectorRole.SCHEDULER,
                                        vllm_host.cache_config([f"model.layers.{i}.attn" for i in range(layers)], blocks))
        kind = type(self.connector)
        assert kind.get_required_kvcache_layout(config) is None
        assert kind.requires_piecewise_for_cudagraph(settings) == (settings.get("load", "layers") == "layers")
        assert kind.build_kv_connector_stats({}).is_empty() and kind.build_prom_metrics(config, {}, [], {}) is None
        self.connector.bind_gpu_block_pool(None)
        self.connector.set_xfer_handshake_metadata_pp_aware({})
        assert self.connector.get_finished_count() is None and not self.connector.requires_kv_delivery
        self.events = []  # of blocks, as the host publishes them
        self.free, self.held = list(range(1, blocks)), {}      # block 0 stands for none; held: block -> references
        self.cached, self.names = {}, {}                       # hash -> block, and back: what the engine itself has
        self.waiting, self.running, self.loading = [], [], {}  # loading: request id -> request
        self.finished, self.tokens_max, self.ended = set(), tokens_max, {}
        self.outputs, self.ahead = [], ahead  # of steps whose output is not there yet
        self.loaded = self.preempted = self.lost = self.wrong = self.compared = 0

    # ---- Blocks ----

    def _take(self, count):
        if count > len(self.free):
            return None
        taken, self.free = self.free[:count], self.free[count:]
        for block in taken:
            self.held[block] = 1
            self.cached.pop(self.names.pop(block, None), None)
        return taken

    def _let_go(self, blocks):
        for block in reversed(blocks):
            self.held[block] -= 1
            if self.held[block] == 0:
                self.free.append(block)

    def _local(self, request):
        """The leading blocks that the engine itself has. At least one token is computed."""
        found = []
        for block_hash in request.block_hashes[:(request.num_tokens - 1) // BLOCK]:
            if block_hash not in self.cached:
                break
            found.append(self.cached[block_hash])
        for block in found:
            if self.held.get(block, 0) == 0:
                self.free.remove(block)
                self.held[block] = 0
            self.held[block] += 1
        return found

    def forget(self):
        """The engine's own prefix cache is emptied, its memory overwritten."""
        assert not self.running and not self.loading
        self.cached.clear()
        self.names.clear()
        self._all("forget")

    def load_weights(self, weights, preempt=True):
        """Other weights, as in training between two steps; with `preempt` running requests begin anew, else they go on over what they
        have. Returns what the connector's reset does."""
        while preempt and self.running:
            self._preempt()
        self.cached.clear()
        self.names.clear()
        self._all("load_weights", weights)
        return self.connector.reset_cache()

    # ---- Steps ----

    def add(self, request):
        self.waiting.append(request)
        self.connector.on_new_request(request)

    def _preempt(self):
        victim = self.running.pop()
        victim.turn += 1
        self._let_go(victim.block_ids)
        victim.block_ids, victim.num_computed_tokens, victim.state = [], 0, "preempted"
        self.waiting.insert(0, victim)
        self.preempted += 1

    def _start(self, request):
        """A waiting request: what it has here, what the connector has, and blocks for all of it."""
        local = self._local(request)
        computed = len(local) * BLOCK
        for _ in range(2):  # the question may be repeated
            external, later = self.connector.get_num_new_matched_tokens(request, computed)
        wanted = -(-request.num_tokens // BLOCK) - len(local)
        new = self._take(wanted)
        if new is None:
            self._let_go(local)
            return None
        request.block_ids, request.num_computed_tokens = local + new, computed
        held = types.SimpleNamespace(get_block_ids=lambda: (list(request.block_ids),))
        self.connector.update_state_after_alloc(request, held, external)
        request.num_computed_tokens += external
        self.loaded += external // BLOCK
        return later

    def _schedule(self):
        new, cached, tokens = [], [], {}
        for request in list(self.running):
            if request not in self.running:
                continue  # preempted a moment ago
            while len(request.block_ids) * BLOCK < request.num_tokens:
                more = self._take(1)
                if more is not None:
                    request.block_ids += more
                    cached_ids = more
                    request.fresh = getattr(request, "fresh", []) + cached_ids
                    continue
                self._preempt()
                if request not in self.running:
                    break
            if request in self.running and request.num_computed_tokens < request.num_tokens:  # else it waits for an output
                cached.append(request)
                tokens[request.request_id] = min(request.num_tokens - request.num_computed_tokens, self.tokens_max)
        while self.waiting:
            request = next((one for one in self.waiting if one.state == "arrived"), self.waiting[0])  # who has blocks must not wait for more
            if request.state == "arrived":
                later = False
                held = types.SimpleNamespace(get_block_ids=lambda: (list(request.block_ids),))
                self.connector.update_state_after_alloc(request, held, 0)
            else:
                later = self._start(request)
            if later is None:
                break
            self.waiting.remove(request)
            if later:
                request.state, self.loading[request.request_id] = "loading", request
                continue
            request.again = request.state == "preempted"
            (cached if request.again else new).append(request)
            request.state, request.fresh = "running", list(request.block_ids)
            self.running.append(request)
            tokens[request.request_id] = min(request.num_tokens - request.num_computed_tokens, self.tokens_max)
        cached = [one for one in cached if one in self.running]
        tokens = {name: count for name, count in tokens.items() if any(one.request_id == name for one in self.running)}
        return new, cached, tokens

    @staticmethod
    def _output(new, cached, tokens, finished):
        space = types.SimpleNamespace
        made = space(scheduled_new_reqs=[space(req_id=one.request_id, block_ids=(list(one.block_ids),), num_computed_tokens=one.num_computed_tokens)
                                         for one in new],
                     scheduled_cached_reqs=space(req_ids=[one.request_id for one in cached],
                                                 resumed_req_ids={one.request_id for one in cached if getattr(one, "again", False)},
                                                 new_block_ids=[(list(one.fresh),) if getattr(one, "fresh", []) else None for one in cached],
                                                 num_computed_tokens=[one.num_computed_tokens for one in cached]),
                     num_scheduled_tokens=tokens, finished_req_ids=finished)
        for one in new + cached:
            one.fresh, one.again = [], False
        return made

    def _all(self, name, *given):
        if isinstance(self.workers[0], RemoteWorker):
            for worker in self.workers:
                worker.begin(name, *given)
            return [worker.end() for worker in self.workers]
        return [getattr(worker, name)(*given) for worker in self.workers]

    def step(self):
        """Returns False when there is nothing left to do."""
        new, cached, tokens = self._schedule()
        finished, self.finished = self.finished, set()
        meta = self.connector.build_connector_meta(self._output(new, cached, tokens, finished))
        computed = []
        for request in new + cached:
            named, first = list(zip(request.block_hashes, request.block_ids)), request.num_computed_tokens // BLOCK
            end = (request.num_computed_tokens + tokens[request.request_id]) // BLOCK
            if named[first:end]:
                computed.append((named[:first], named[first:end]))
        results = self._all("step", meta, computed, finished, bool(tokens))
        for request in new + cached:
            request.num_computed_tokens += tokens[request.request_id]
        self.outputs.append(([(request, request.turn, request.num_computed_tokens) for request in new + cached], results))
        while len(self.outputs) > (self.ahead if tokens else 0):
            self._advance(*self.outputs.pop(0))
        self.events += self.connector.take_events()
        assert not self.connector.has_pending_push_work()
        # The last one's end is told by one more step.
        return bool(self.waiting or self.running or self.loading or self.outputs or self.finished)

    def _received(self, told):
        """Requests whose loads have ended on every rank, in this step or before."""
        for ended in told:
            for request_id in ended:
                self.ended[request_id] = self.ended.get(request_id, 0) + 1
        received = {request_id for request_id, ranks in self.ended.items() if ranks == len(told)}
        for request_id in received:
            del self.ended[request_id]
        return received

    @staticmethod
    def _told(received, lost, metas):
        """The workers' outputs as one."""
        meta = metas[0]
        for other in metas[1:]:
            meta = meta and meta.aggregate(other)
        return types.SimpleNamespace(finished_sending=None, finished_recving=received or None, invalid_block_ids=lost,
                                     kv_connector_worker_meta=meta)

    def _advance(self, computed, results):
        """A step's output."""
        received, lost = self._received([one[0] for one in results]), set().union(*(one[1] for one in results))
        for request in [*self.running, *self.loading.values()]:
            self._back(request, lost)
        for request, turn, end in computed:
            if turn == request.turn:
                self._grow(request, end)
        self.connector.update_connector_output(self._told(received, lost, [one[3] for one in results]))
        for request_id in received:
            request = self.loading.pop(request_id)
            request.state = "arrived"
            self.waiting.insert(0, request)
            self._compare(request, request.num_computed_tokens)

    def _back(self, request, lost):
        """A request with a lost block counts as computed up to the first of them; what is under way for it does not count."""
        bad = [i for i, block in enumerate(request.block_ids) if block in lost]
        if bad:
            self.lost, request.turn = self.lost + len(bad), request.turn + 1
            request.num_computed_tokens = min(request.num_computed_tokens, bad[0] * BLOCK)

    def _grow(self, request, end):
        self._compare(request, end)
        if end < request.num_tokens:
            return
        if not request.outputs:
            return self._finish(request)
        request.outputs -= 1
        request.tokens.append(1_000_000 + len(request.tokens))
        request.rehash()

    def abort(self, request):
        self._finish(request)

    def _finish(self, request):
        self.running.remove(request)
        if isinstance(self.connector, vllm_host.SupportsHMA):
            held, _ = self.connector.request_finished_all_groups(request, (list(request.block_ids),))
        else:
            held, _ = self.connector.request_finished(request, list(request.block_ids))
        assert not held
        self._let_go(request.block_ids)
        self.finished.add(request.request_id)

    def _compare(self, request, end):
        """Every block of its leading `end` tokens, which count as computed, bit by bit."""
        done = list(zip(request.block_hashes[:end // BLOCK], request.block_ids))
        for block_hash, block in done:
            if block_hash not in self.cached:
                self.cached[block_hash], self.names[block] = block, block_hash
        self.wrong += sum(self._all("check", done))
        self.compared += len(done)

    def run(self):
        steps = 0
        while self.step():
            steps += 1
            if self.loading and not self.running:
                time.sleep(0.01)  # nothing to compute until a load has ended
            assert steps < 2000, "the engine does not come to an end"
        return steps

    def flush(self):
        """Waits for the saves, which leave after their steps."""
        assert all(self._all("flush"))

    def shutdown(self):
        self._all("shutdown")
        self.connector.shutdown()
