"""`ofi1`: a token in the header x-amz-rdma-token names a libfabric endpoint, a region of it and the region's key.

    <base hex>:<size hex>:ofi1:<provider>:<endpoint name hex>:<key hex>
"""
from .. import fabric
from . import Dialect

HEADER = "x-amz-rdma-token"
ACCESS = {"write": fabric.REMOTE_WRITE, "read": fabric.REMOTE_READ, "both": fabric.REMOTE_WRITE | fabric.REMOTE_READ}


def format_token(base, size, provider, name, key, family="ofi1"):
    return f"{base:x}:{size:x}:{family}:{provider}:{name.hex()}:{key:x}"


def parse_token(text):
    base, size, _, provider, name, key = text.split(":")
    return int(base, 16), int(size, 16), provider, bytes.fromhex(name), int(key, 16)


class Ofi1(Dialect):
    name = "ofi1"

    def about(self):
        return f"{self.provider}, libfabric {fabric.Library.get().version()}"

    def endpoint(self):
        return fabric.Endpoint(self.provider, self.device, self.address)

    def window(self, endpoint, size, access, data=None):
        return endpoint.region(size, ACCESS[access], data)

    def token(self, window, **other):
        """The window's token, with other fields where they are given."""
        fields = {"base": window.base, "size": window.size, "provider": window.endpoint.provider, "name": window.endpoint.name, "key": window.key}
        return format_token(**{**fields, **other})

    def get(self, target, window, path, *, token=None, spelling=HEADER, headers=(), **request):
        text = self.token(window) if token is None else token
        return target.call("GET", path, headers=[*headers, (spelling, text)], **request)

    def put(self, target, window, path, *, token=None, spelling=HEADER, headers=(), **request):
        text = self.token(window) if token is None else token
        request.setdefault("payload_hash", "UNSIGNED-PAYLOAD")
        return target.call("PUT", path, headers=[*headers, (spelling, text)], **request)

    def moved(self, reply):
        said = reply.header("x-amz-rdma-reply")
        return int(said) if said in ("200", "204", "206") else None

    def declined(self, reply):
        return reply.header("x-amz-rdma-reply") == "501"
