"""A cache of attention keys and values on Verbena, and its connectors for inference engines.

verbena.kv.store     the cache: blocks by hash in a namespace, with deadlines and a breaker
verbena.kv.vllm      VerbenaConnector for vLLM
verbena.kv.lmcache   VerbenaAdapter for LMCache: verbena://host:9000/bucket
verbena.kv.sglang    VerbenaStorage for SGLang's HiCache

Each connector imports its engine's classes when it is loaded, and needs that engine; the store needs none.
"""
from .store import KvStore, Mismatch, Options, namespace_id

__all__ = ["KvStore", "Mismatch", "Options", "namespace_id"]
