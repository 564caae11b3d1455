"""Verbena: objects by RDMA devices, shared memory or TCP, or else by S3 over HTTP.

    import verbena
    with verbena.connect("http://127.0.0.1:9000", access_key="...", secret_key="...") as client:
        client.put("bucket", "key", b"bytes")
        print(bytes(client.get("bucket", "key")))
"""
from . import _load  # noqa: F401  (before _native: finds the libraries that came along)
from . import errors
from ._client import Change, Client, Done, ListedObject, Outcomes, Watch, connect
from ._match import Matched
from ._namespace import Mismatch
from ._native import Buffer, Progress, Reply, version as __version__
from .errors import VerbenaError

__all__ = ["AsyncClient", "Buffer", "Change", "Client", "Done", "ListedObject", "Matched", "Mismatch", "Outcomes", "Progress", "Reply", "VerbenaError", "Watch", "__version__", "accelerate", "connect", "errors"]


def __getattr__(name):
    if name == "AsyncClient":
        from .aio import AsyncClient
        return AsyncClient
    if name == "accelerate":
        from .boto import accelerate
        return accelerate
    raise AttributeError(f"module 'verbena' has no attribute {name!r}")
