"""One file for each dialect of S3 over RDMA, seen from the client. A dialect is a class with the methods of `Dialect`, named in DIALECTS."""


class Dialect:
    """What the cases need of a dialect. Cases that are written for one dialect's bytes use what that dialect has beyond this."""
    name = None
    tells_etag = True  # in every reply that says that bytes have moved

    def __init__(self, provider, device, address):
        """`address`: of this host, as the server sees it."""
        self.provider, self.device, self.address = provider, device, address

    def endpoint(self):
        """A new endpoint, which `close()` ends."""
        raise NotImplementedError

    def window(self, endpoint, size, access, data=None):
        """Memory that a server may write ("write"), read ("read") or both ("both"): `bytes()`, `close()`."""
        raise NotImplementedError

    def get(self, target, window, path, **request):
        """GetObject into a window; `request`: what Target.call takes. A wire.Reply."""
        raise NotImplementedError

    def put(self, target, window, path, **request):
        """PutObject or UploadPart out of a window."""
        raise NotImplementedError

    def moved(self, reply):
        """The status with which the server says that RDMA moved the bytes, else None."""
        raise NotImplementedError

    def declined(self, reply):
        raise NotImplementedError

    @classmethod
    def holds(cls, number):
        """Whether a case that is of no dialect's own has a form in this one."""
        return True

    def about(self):
        """What carries the bytes, in words."""
        raise NotImplementedError

    def close(self):
        pass


def by_name(name):
    from .cuobj_rc import CuobjRc
    from .hipobj_rc import HipobjRc
    from .ofi1 import Ofi1
    return {one.name: one for one in (Ofi1, HipobjRc, CuobjRc)}[name]


NAMES = ("ofi1", "hipobj-rc-v2", "cuobj-rc")
