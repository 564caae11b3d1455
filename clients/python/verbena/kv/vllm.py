"""VerbenaConnector: vLLM's attention blocks in Verbena.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "VerbenaConnector", "kv_connector_module_path": "verbena.kv.vllm",
      "kv_role": "kv_both", "kv_load_failure_policy": "recompute", "kv_connector_extra_config": {"bucket": "kvcache"}}'

Further settings are those of verbena.kv.Options, and `load`: "layers" (each layer waits for its own blocks) or "async" (the request
waits outside the batch until all of them are there).
"""
import inspect
import logging
import os

try:
    from vllm.distributed.kv_transfer.kv_connector.v1 import base as _host
except ImportError as error:
    raise ImportError(f"verbena.kv.vllm is loaded by vLLM, which cannot be imported here ({error}): install vllm") from error

from ._vllm_events import wanted as events_wanted
from ._vllm_namespace import describe, own_rank
from ._vllm_scheduler import Plan, Scheduling
from ._vllm_worker import Working

log = logging.getLogger("verbena.kv")
_NEEDED = ("KVConnectorBase_V1", "KVConnectorMetadata", "KVConnectorRole")
_missing = [name for name in _NEEDED if not hasattr(_host, name)]
_missing += [name for name in ("get_block_ids_with_load_errors", "update_connector_output")
             if not _missing and not hasattr(_host.KVConnectorBase_V1, name)]
if _missing:
    raise ImportError(f"this vLLM is too old for VerbenaConnector: its connectors have no {_missing[0]}, so that a lost block could not be "
                      "computed again, or what was computed over it would be stored")

try:
    from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorStats as _HostStats
except ImportError:
    _HostStats = None

_bases = (_host.KVConnectorBase_V1,) + ((_host.SupportsHMA,) if hasattr(_host, "SupportsHMA") else ())


class VerbenaMetadata(Plan, _host.KVConnectorMetadata):
    """What the workers do in one step."""


if hasattr(_host, "KVConnectorWorkerMetadata"):

    class VerbenaReached(_host.KVConnectorWorkerMetadata):
        """Which step a worker's output is of, and which keys were stored since the step before: for each the bit mask of the ranks that have.
        Without it a step's output is taken as known when the engine must know it to go on, and no events are told."""

        def __init__(self, step, generation=0, stored=()):
            self.step, self.generation, self.stored = step, generation, dict(stored)

        def aggregate(self, other):
            """Of two ranks. They carry out the same steps, and begin with the same step after a reset."""
            made = VerbenaReached(min(self.step, other.step), min(self.generation, other.generation), self.stored)
            for key, ranks in other.stored.items():
                made.stored[key] = made.stored.get(key, 0) | ranks
            return made


if _HostStats is not None:

    class VerbenaStats(_HostStats):
        """Sums of the cache's counters over workers and steps."""

        def reset(self):
            self.data = {}

        def aggregate(self, other):
            for name, amount in other.data.items():
                self.data[name] = self.data.get(name, 0) + amount
            return self

        def reduce(self):
            return dict(self.data)

        def is_empty(self):
            return not self.data


class VerbenaConnector(*_bases):
    def __init__(self, vllm_config, role, kv_cache_config=None):
        takes = inspect.signature(_host.KVConnectorBase_V1.__init__).parameters
        if "kv_cache_config" in takes:
            super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        else:
            super().__init__(vllm_config=vllm_config, role=role)
        self._blocks = getattr(kv_cache_config, "num_blocks", None)
        groups = self._groups_of(vllm_config, kv_cache_config)
        settings = dict(vllm_config.kv_transfer_config.kv_connector_extra_config or {})
        asynchronous = _asynchronous(settings.pop("load", "layers"))
        self._cross_layers = bool(settings.pop("cross_layers", False))
        _check(vllm_config)
        kv_role = getattr(vllm_config.kv_transfer_config, "kv_role", "kv_both")
        # Without a worker's word in its output, or a worker that saves, no event can be made.
        tells = events_wanted(vllm_config) and hasattr(_host, "KVConnectorWorkerMetadata") and kv_role != "kv_consumer"
        self._scheduling = self._working = None
        if role == _host.KVConnectorRole.SCHEDULER:
            self._scheduling = Scheduling(vllm_config, max(len(groups), 1), asynchronous, settings, loads=kv_role != "kv_producer",
                                          blocks=self._blocks, tells=tells)
        else:
            parallel, rank = vllm_config.parallel_config, own_rank(vllm_config)
            first = getattr(parallel, "rank", 0) % (parallel.tensor_parallel_size * parallel.pipeline_parallel_size) == rank
            self._working = Working(vllm_config, groups, asynchronous, describe(vllm_config, rank), settings,
                                    saves=first and kv_role != "kv_consumer", tells=tells)

    @staticmethod
    def _groups_of(vllm_config, kv_cache_config):
        """The names of the layers of each group of blocks."""
        groups = list(getattr(kv_cache_config, "kv_cache_groups", None) or [])
        for group in groups:
            size = getattr(group.kv_cache_spec, "block_size", vllm_config.cache_config.block_size)
            if size != vllm_config.cache_config.block_size:
                raise ValueError(f"VerbenaConnector needs blocks of one size: a group has {size} tokens a block, the cache "
                                 f"{vllm_config.cache_config.block_size}")
        return [list(group.layer_names) for group in groups]

    @property
    def prefer_cross_layer_blocks(self):
        return self._cross_layers

    @property
    def requires_kv_delivery(self):
        return False

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config):
        return not _asynchronous((extra_config or {}).get("load", "layers"))

    # ---- Worker ----

    def register_kv_caches(self, kv_caches):
        first = next(iter(kv_caches.values()))
        self._working.register(kv_caches, self._blocks or _blocks_of(first))

    def register_cross_layers_kv_cache(self, kv_cache, attn_backend):
        self._working.register_one(kv_cache, self._blocks or _blocks_of(kv_cache), attn_backend)

    def handle_preemptions(self, *preempted):
        """Nothing to do: a save is copied within its step, and what a load brings is copied into the engine's blocks by calls of the step
        that asked for it."""

    def start_load_kv(self, forward_context, **kwargs):
        self._working.begin(self._get_connector_metadata())

    def wait_for_layer_load(self, layer_name):
        self._working.wait_layer(layer_name)

    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs):
        self._working.save_layer(layer_name)

    def wait_for_save(self):
        self._working.end_step()
        self._working.end_saves()

    def get_finished(self, finished_req_ids):
        self._working.end_step()
        return None, self._working.loaded() or None

    def get_block_ids_with_load_errors(self):
        self._working.end_step()
        return self._working.lost()

    def get_kv_connector_stats(self):
        new = (self._working or self._scheduling).store.statistics.take()
        return VerbenaStats(data=new) if new and _HostStats is not None else None

    def build_connector_worker_meta(self):
        if not hasattr(_host, "KVConnectorWorkerMetadata"):
            return None
        plan = self._get_connector_metadata()
        return VerbenaReached(plan.step, plan.generation, self._working.stored())

    @classmethod
    def build_kv_connector_stats(cls, data=None):
        return VerbenaStats(data=data or {}) if _HostStats is not None else None

    def shutdown(self):
        store = (self._working or self._scheduling).store
        if store.usable:
            store.flush(2.0)
        store.close()

    # ---- Scheduler ----

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        return self._scheduling.matched(request, num_computed_tokens)

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        self._scheduling.allocated(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output):
        plan = self._scheduling.step(scheduler_output)
        return VerbenaMetadata(**vars(plan))

    def update_connector_output(self, connector_output):
        self._scheduling.told(connector_output.invalid_block_ids or (), getattr(connector_output, "kv_connector_worker_meta", None))

    def take_events(self):
        return self._scheduling.events()

    def request_finished(self, request, block_ids):
        self._scheduling.finished(request.request_id)
        return False, None  # what is being saved is in memory of the client's already

    def request_finished_all_groups(self, request, block_ids):
        return self.request_finished(request, block_ids)

    def reset_cache(self):
        """The weights have changed: every rank's blocks are removed, and nothing that was computed before is stored or loaded any more."""
        return self._scheduling.reset()


def _asynchronous(load):
    if load not in ("layers", "async"):
        raise ValueError(f'load is "layers" or "async", not {load!r}')
    return load == "async"


def _blocks_of(tensor):
    return tensor.shape[1] if tensor.shape[0] == 2 and tensor.dim() > 3 else tensor.shape[0]


def _check(config):
    parallel = config.parallel_config
    for name in ("decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, name, 1) > 1:
            raise ValueError(f"VerbenaConnector does not serve {name} > 1: a block's tokens lie on several ranks")
    if os.environ.get("PYTHONHASHSEED") in (None, "", "random"):
        log.warning("verbena.kv: set PYTHONHASHSEED (to 0, say): without it every start of vLLM names its blocks differently and finds none")


if VerbenaConnector.__abstractmethods__:
    raise ImportError(f"this vLLM is too new for VerbenaConnector: it asks for {', '.join(sorted(VerbenaConnector.__abstractmethods__))}")
