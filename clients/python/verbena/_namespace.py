"""Namespaces: an opaque name for what equal keys have in common, made from a description that is stored once."""
import hashlib
import json

from . import errors

_DOCUMENT = "namespace.json"


class Mismatch(ValueError):
    """The namespace exists with another description: its objects are another model's."""


def canonical(description):
    return json.dumps(description, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def namespace_id(description):
    """The namespace of a description: 32 hex digits."""
    return hashlib.sha256(canonical(description).encode()).hexdigest()[:32]


def store_once(client, bucket, key, wanted):
    """The document of that key, which is `wanted` if there was none."""
    try:
        return bytes(client.get(bucket, key))
    except errors.NoSuchKey:
        pass
    try:
        client.put(bucket, key, wanted, if_none_match="*")
        return wanted
    except errors.PreconditionFailed:
        return bytes(client.get(bucket, key))


def agree(client, bucket, namespace, document, wanted):
    """Stores the document beside the namespace's objects, or compares it with what is stored: another one is a Mismatch."""
    stored = store_once(client, bucket, f"{namespace}/{document}", wanted)
    if stored != wanted:
        raise Mismatch(f"{document} of namespace {namespace} in bucket {bucket} is {stored.decode(errors='replace')}, not {wanted.decode()}")


class Namespaces:
    """The call of a Client that names what equal keys have in common."""

    def namespace(self, bucket, description, *, name=None):
        """The namespace of a description (what JSON can hold: model, revision, dtype, layout, rank, ...), for match and for keys
        "<namespace>/<hash>". The description is stored once, as "<namespace>/namespace.json"; if another one is stored there, this is a
        Mismatch. The namespace is the description's digest, so that another model has another one, or `name`."""
        namespace = namespace_id(description) if name is None else name
        if not namespace or namespace.endswith("/"):
            raise ValueError("a namespace has a name, which does not end in a slash")
        agree(self, bucket, namespace, _DOCUMENT, canonical(description).encode())
        return namespace
