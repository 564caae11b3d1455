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


class KVConnectorBase_V1(abc.ABC):
    def __init__(self, vllm_config, role, kv_cache_config):
        self._vllm_config, self._role, self._kv_cache_config = vllm_config, role, kv_cache_config
        self._kv_transfer_config, self._connector_metadata = vllm_config.kv_transfer_config, None

    @property
    def role(self):
        return self._role

    def bind_connector_metadata(self, metadata):
        self._connector_metadata = metadata

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


def install(base=KVConnectorBase_V1, without=()):
    """Puts the host's modules where its package would have them; the connector's module is loaded anew."""
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
    for module in ("verbena.kv.vllm",):
        sys.modules.pop(module, None)


def load(config, role, cache_config):
    """As the host's factory: the class by its name out of the module of that path."""
    transfer = config.kv_transfer_config
    made = getattr(importlib.import_module(transfer.kv_connector_module_path), transfer.kv_connector)
    return made(config, role, kv_cache_config=cache_config)


def config(settings, *, block_size=4, tp=1, rank=0, mla=False, model="tiny", kv_role="kv_both"):
    space = types.SimpleNamespace
    return space(model_config=space(model=model, revision="main", dtype="float16", use_mla=mla),
                 cache_config=space(block_size=block_size, cache_dtype="auto", prefix_caching_hash_algo="sha256_cbor"),
                 parallel_config=space(tensor_parallel_size=tp, pipeline_parallel_size=1, rank=rank, decode_context_parallel_size=1),
                 kv_transfer_config=space(kv_connector="VerbenaConnector", kv_connector_module_path="verbena.kv.vllm", kv_role=kv_role,
                                          kv_connector_extra_config=settings))


def cache_config(layers, blocks, block_size=4, groups=None):
    space = types.SimpleNamespace
    names = groups or [layers]
    return space(num_blocks=blocks, kv_cache_groups=[space(layer_names=some, kv_cache_spec=space(block_size=block_size)) for some in names])
