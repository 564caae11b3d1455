"""RDMAClient: the calls that users of other RDMA stores know.

    from verbena.rdma import RDMAClient
    client = RDMAClient(endpoint="127.0.0.1:9100", access_key="...", secret_key="...")
    client.put_object(bucket="my-bucket", key="my-key", body=b"...")
    data = client.get_object(bucket="my-bucket", key="my-key")
"""
from ._client import Client, with_environment


class RDMAClient:
    """Objects over the native port of a server. `http_endpoint` allows HTTP, too, where RDMA does not work, and for
    buckets."""

    def __init__(self, endpoint=None, access_key=None, secret_key=None, http_endpoint=None, **options):
        self._options = dict(options, access_key=access_key, secret_key=secret_key)
        self._http = http_endpoint
        self._client = None
        if endpoint is not None:
            host, _, port = endpoint.rpartition(":")
            self.connect(host or port, int(port) if host else 9100)

    def connect(self, host, port=9100):
        """Connects, or connects to another server."""
        name = f"[{host}]" if ":" in host and not host.startswith("[") else host
        options = with_environment(self._http or f"http://{name}", dict(self._options, native_endpoint=f"{name}:{port}"))
        if self._http is None:
            options.setdefault("via", "native")
        fresh, old = Client(**options), self._client
        self._client = fresh
        if old is not None:
            old.close()

    @property
    def client(self):
        """The underlying full client."""
        from .errors import Closed
        if self._client is None:
            raise Closed("the client is not connected")
        return self._client

    def get_object(self, bucket, key, **options):
        """The object as a Buffer: bytes(), memoryview(), numpy.frombuffer(), torch.from_dlpack() work on it."""
        return self.client.get(bucket, key, **options)

    def put_object(self, bucket, key, body, **options):
        return self.client.put(bucket, key, body, **options)

    def delete_object(self, bucket, key, **options):
        self.client.delete(bucket, key, **options)

    def list_objects(self, bucket, prefix=""):
        """ListedObject for each key, in order."""
        return list(self.client.list(bucket, prefix))

    def close(self):
        if self._client is not None:
            self._client.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
