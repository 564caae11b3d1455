"""A host of our own that loads connectors as vLLM does: the classes that its interface consists of, and its configuration.

Written from the interface's facts (docs/kv.md says which commits): which methods there are, which are abstract, what is passed and when.
"""
import abc
import enum
import importlib
import sys
import types


class SupportsHMA(abc.ABC):
    @abc.abstractmethod
    def request_finished_all_groups(self, request, block_ids): ...


class KVConnectorRole(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


class KVConnectorMetadata(abc.ABC):
    pass


class KVConnectorWorkerMetadata(abc.ABC):
    @abc.abstractmethod
    def aggregate(self, other): ...


class KVConnectorStats:
    def __init__(self, data=None):
        self.data = data or {}


class BlockStored:
    def __init__(self, block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium, lora_name, extra_keys=None, group_idx=None):
        self.block_hashes, self.parent_block_hash, self.token_ids, self.block_size = block_hashes, parent_block_hash, token_ids, block_size
        self.medium, self.lora_name, self.group_idx = medium, lora_name, group_idx


class BlockRemoved:
    def __init__(self, block_hashes, medium, group_idx=None):
        self.block_hashes, self.medium, self.group_idx = block_hashes, medium, group_idx


class OlderBlockStored(BlockStored):
    def __init__(self, block_hashes, parent_block_hash, token_ids, block_size, lora_id):
        super().__init__(block_hashes, parent_block_hash, token_ids, block_size, lora_id, None, None)


class OlderBlockRemoved(BlockRemoved):
    def __init__(self, block_hashes):
        super().__init__(block_hashes, None)


class KVConnectorBase_V1(abc.ABC):
    """Methods that are not abstract do what the host's own do."""

    prefer_cross_layer_blocks = supports_eagle_prefix_cache_hashing = False
    requires_kv_delivery = True

    def __init__(self, vllm_config, role, kv_cache_config):
        self._vllm_config, self._role, self._kv_cache_config = vllm_config, role, kv_cache_config
        self._kv_transfer_config, self._connector_metadata = vllm_config.kv_transfer_config, None

    @property
    def role(self):
        return self._role

    def bind_connector_metadata(self, metadata):
        self._connector_metadata = metadata

    def has_connector_metadata(self):
        return self._connector_metadata is not None

    def clear_connector_metadata(self):
        self._connector_metadata = None

    def _get_connector_metadata(self):
        assert self._connector_metadata is not None
        return self._connector_metadata

    @abc.abstractmethod
    def start_load_kv(self, forward_context, **kwargs): ...

    @abc.abstractmethod
    def wait_for_layer_load(self, layer_name): ...

    @abc.abstractmethod
    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs): ...

    @abc.abstractmethod
    def wait_for_save(self): ...

    @abc.abstractmethod
    def get_num_new_matched_tokens(self, request, num_computed_tokens): ...

    @abc.abstractmethod
    def update_state_after_alloc(self, request, blocks, num_external_tokens): ...

    @abc.abstractmethod
    def build_connector_meta(self, scheduler_output): ...

    def get_block_ids_with_load_errors(self):
        return set()

    def build_connector_worker_meta(self):
        return None

    def handle_preemptions(self, metadata):
        return

    def update_connector_output(self, output):
        return

    def on_new_request(self, request):
        return

    def take_events(self):
        return ()

    def register_kv_caches(self, kv_caches):
        return

    def register_cross_layers_kv_cache(self, kv_cache, attn_backend):
        return

    def set_host_xfer_buffer_ops(self, copy_operation):
        return

    def set_eagle_prefix_cache_hashing(self, enabled):
        return

    def bind_gpu_block_pool(self, gpu_block_pool):
        return

    def get_handshake_metadata(self):
        return None

    def set_xfer_handshake_metadata_pp_aware(self, metadata):
        return

    def get_finished_count(self):
        return None

    def get_finished(self, finished_req_ids):
        return None, None

    def get_kv_connector_stats(self):
        return None

    def get_kv_connector_kv_cache_events(self):
        return None

    def has_pending_push_work(self):
        return False

    def request_finished(self, request, block_ids):
        return False, None

    def reset_cache(self):
        return None

    def shutdown(self):
        return

    @classmethod
    def get_required_kvcache_layout(cls, vllm_config):
        return None

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config):
        return False

    @classmethod
    def build_kv_connector_stats(cls, data=None):
        return None

    @classmethod
    def build_prom_metrics(cls, vllm_config, metric_types, labelnames, per_engine_labelvalues):
        return None


METHODS = [name for name, one in vars(KVConnectorBase_V1).items() if not name.startswith("_") and (callable(one) or isinstance(one, classmethod))]


def install(base=KVConnectorBase_V1, without=(), events=(BlockStored, BlockRemoved)):
    """Puts the host's modules where its package would have them; the connector's module is loaded anew. `events`: the host's classes of
    blocks that are stored and removed."""
    names = "vllm vllm.distributed vllm.distributed.kv_transfer vllm.distributed.kv_transfer.kv_connector".split()
    names.append(names[-1] + ".v1")
    for name in names:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    bases, metrics = types.ModuleType(names[-1] + ".base"), types.ModuleType(names[-1] + ".metrics")
    facts = {"KVConnectorBase_V1": base, "KVConnectorMetadata": KVConnectorMetadata, "KVConnectorRole": KVConnectorRole,
             "SupportsHMA": SupportsHMA, "KVConnectorWorkerMetadata": KVConnectorWorkerMetadata}
    for name, value in facts.items():
        if name not in without:
            setattr(bases, name, value)
    metrics.KVConnectorStats = KVConnectorStats
    sys.modules[bases.__name__], sys.modules[metrics.__name__] = bases, metrics
    sys.modules[names[-1]].base = bases
    told = types.ModuleType("vllm.distributed.kv_events")
    told.BlockStored, told.BlockRemoved = events
    sys.modules[told.__name__] = sys.modules["vllm.distributed"].kv_events = told
    for module in ("verbena.kv.vllm", "verbena.kv._vllm_events", "verbena.kv._vllm_scheduler"):
        sys.modules.pop(module, None)


def load(config, role, cache_config):
    """As the host's factory: the class by its name out of the module of that path."""
    transfer = config.kv_transfer_config
    made = getattr(importlib.import_module(transfer.kv_connector_module_path), transfer.kv_connector)
    return made(config, role, kv_cache_config=cache_config)


def config(settings, *, block_size=4, tp=1, rank=0, mla=False, model="tiny", kv_role="kv_both", events=False, transfer=None):
    """`transfer`: what the engine was given as its KV transfer configuration."""
    space = types.SimpleNamespace
    return space(kv_events_config=space(enable_kv_cache_events=events), model_config=space(model=model, revision="main", dtype="float16", use_mla=mla),
                 cache_config=space(block_size=block_size, cache_dtype="auto", prefix_caching_hash_algo="sha256_cbor"),
                 parallel_config=space(tensor_parallel_size=tp, pipeline_parallel_size=1, rank=rank, decode_context_parallel_size=1),
                 kv_transfer_config=space(**{"kv_connector": "VerbenaConnector", "kv_connector_module_path": "verbena.kv.vllm", "kv_role": kv_role,
                                             **(transfer or {}), "kv_connector_extra_config": settings}))


def cache_config(layers, blocks, block_size=4, groups=None):
    space = types.SimpleNamespace
    names = groups or [layers]
    return space(num_blocks=blocks, kv_cache_groups=[space(layer_names=some, kv_cache_spec=space(block_size=block_size)) for some in names])
