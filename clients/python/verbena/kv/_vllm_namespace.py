"""What the blocks of a vLLM engine are: its configuration as facts, of which a namespace is made, and the hashes that name blocks in it."""
import hashlib
import logging
import os

from .store import hash_of

log = logging.getLogger("verbena.kv")


def group_hash(block_hash, group, adapter=b""):
    """The hash of a block's part that holds the layers of a group: groups beside the first have objects of their own, and so have the
    blocks that an adapter has computed."""
    block_hash = hash_of(block_hash)
    if group == 0 and not adapter:
        return block_hash
    return hashlib.blake2b(block_hash + group.to_bytes(2, "little") + adapter, digest_size=16).digest()


def adapter_of(request):
    """Which adapter (LoRA) computes a request: its name is in the engine's hashes, but two adapters may have one name."""
    adapter = getattr(request, "lora_request", None)
    return b"" if adapter is None else repr([str(getattr(adapter, name, "")) for name in ("lora_name", "lora_path")]).encode()


def describe(config, role_rank):
    """What one rank's blocks are, from the engine's configuration. Equal descriptions are equal bytes for equal tokens."""
    model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
    facts = {"engine": "vllm", "model": str(model.model), "revision": str(getattr(model, "revision", None)),
             "dtype": str(model.dtype).replace("torch.", ""), "cache_dtype": str(cache.cache_dtype), "block_size": int(cache.block_size),
             "hash": str(getattr(cache, "prefix_caching_hash_algo", "")), "tp": int(parallel.tensor_parallel_size),
             "pp": int(parallel.pipeline_parallel_size), "rank": int(role_rank), "model_hash": _hash(model)}
    for name in ("code_revision", "quantization", "hf_overrides", "rope_scaling", "rope_theta", "model_impl"):
        facts[name] = _plain(getattr(model, name, None))
    facts["kv_scales"] = _plain(getattr(cache, "calculate_kv_scales", None))
    facts["weights"] = "dummy" if "dummy" in str(getattr(getattr(config, "load_config", None), "load_format", "")) else ""
    facts["draft"] = _draft(getattr(config, "speculative_config", None))
    facts["attention"] = [_plain(getattr(getattr(config, "attention_config", None), "backend", None))]
    facts["attention"] += [os.environ.get(name, "") for name in ("VLLM_ATTENTION_BACKEND", "VLLM_KV_CACHE_LAYOUT")]
    return facts


def _hash(config):
    """The engine's own hash of a part of its configuration: of a model it covers what changes the computation, overrides included."""
    if not callable(getattr(config, "compute_hash", None)):
        return None
    try:
        return str(config.compute_hash())
    except Exception as error:  # the engine's own code
        log.warning("verbena.kv: the engine's hash of its configuration is not to be had (%s): its settings alone name the cache", error)
        return None


def _draft(speculative):
    """The model that drafts tokens: its layers have blocks as well."""
    if speculative is None:
        return None
    model = getattr(speculative, "draft_model_config", None)
    return [_plain(getattr(speculative, "method", None)), _plain(getattr(speculative, "model", None)),
            _plain(getattr(model, "revision", None)), _hash(model)]


def _plain(value):
    """A setting as JSON has it, equal in every process."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    name = getattr(value, "name", None)  # of an enumeration
    return name if isinstance(name, str) else f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


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


def layout_of(tensor, dim, block_tokens, backend):
    """How a layer's block lies in its tensor, whose dimension `dim` counts the blocks: shape, dimensions from the largest stride to the
    smallest, type. Where two dimensions have as many places as a block has tokens, only the attention's backend tells which is which."""
    shape = [size for i, size in enumerate(tensor.shape) if i != dim]
    strides = [stride for i, stride in enumerate(tensor.stride()) if i != dim]
    order = sorted((i for i in range(len(shape)) if shape[i] > 1), key=lambda i: -strides[i])
    return [shape, order, str(tensor.dtype).replace("torch.", ""), backend if shape.count(block_tokens) > 1 else ""]


def backend_of(config, layer, backend=None):
    """The name of the attention that made a layer's tensor, as far as the engine tells it (`backend`: the class that it has named)."""
    known = getattr(getattr(config, "compilation_config", None), "static_forward_context", None)
    one = known.get(layer) if hasattr(known, "get") else None
    try:
        if backend is None:
            backend = one.get_attn_backend() if hasattr(one, "get_attn_backend") else getattr(one, "attn_backend", None)
        return str(backend.get_name()) if hasattr(backend, "get_name") else ""
    except Exception:  # the engine's own code
        return ""
