"""libfabric by ctypes: endpoints of reliable datagrams, regions that peers write and read, and one-sided operations of our own.

Only what the suite needs of libfabric's C interface (fi_getinfo(3), fi_endpoint(3), fi_mr(3), fi_rma(3)), with the structures of version
1.5 and later, whose fields newer versions only append to.
"""
import ctypes
import errno
import os
import secrets
import socket
import struct
import threading
import time

MSG, RMA, READ, WRITE, RECV, SEND, REMOTE_READ, REMOTE_WRITE = (1 << bit for bit in (1, 2, 8, 9, 10, 11, 12, 13))
SOURCE, CONTEXT, CONTEXT2 = 1 << 57, 1 << 59, 1 << 52
EP_RDM, THREAD_DOMAIN, CQ_FORMAT_CONTEXT, WAIT_NONE, ENABLE = 3, 3, 1, 0, 6
MR_LOCAL, MR_VIRT_ADDR, MR_ALLOCATED, MR_PROV_KEY, MR_ENDPOINT = 1 << 2, 1 << 4, 1 << 5, 1 << 6, 1 << 9
EAVAIL = 259
API_VERSION = 1 << 16 | 18
PROVIDERS = {"verbs": "verbs;ofi_rxm"}
FILLER = 0xA5
pointer, u32, u64, size_t = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t


def structure(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


EpAttr = structure("EpAttr", ("type", ctypes.c_int), ("protocol", u32))
DomainAttr = structure("DomainAttr", ("domain", pointer), ("name", pointer), ("threading", ctypes.c_int), ("control_progress", ctypes.c_int),
                       ("data_progress", ctypes.c_int), ("resource_mgmt", ctypes.c_int), ("av_type", ctypes.c_int), ("mr_mode", ctypes.c_int))
FabricAttr = structure("FabricAttr", ("fabric", pointer), ("name", pointer), ("prov_name", pointer))
Info = structure("Info", ("next", pointer), ("caps", u64), ("mode", u64), ("addr_format", u32), ("src_addrlen", size_t),
                 ("dest_addrlen", size_t), ("src_addr", pointer), ("dest_addr", pointer), ("handle", pointer), ("tx_attr", pointer),
                 ("rx_attr", pointer), ("ep_attr", ctypes.POINTER(EpAttr)), ("domain_attr", ctypes.POINTER(DomainAttr)),
                 ("fabric_attr", ctypes.POINTER(FabricAttr)), ("nic", pointer))
AvAttr = structure("AvAttr", ("type", ctypes.c_int), ("rx_ctx_bits", ctypes.c_int), ("count", size_t), ("ep_per_node", size_t),
                   ("name", pointer), ("map_addr", pointer), ("flags", u64))
CqAttr = structure("CqAttr", ("size", size_t), ("flags", u64), ("format", ctypes.c_int), ("wait_obj", ctypes.c_int),
                   ("signaling_vector", ctypes.c_int), ("wait_cond", ctypes.c_int), ("wait_set", pointer))
CqError = structure("CqError", ("op_context", pointer), ("flags", u64), ("len", size_t), ("buf", pointer), ("data", u64), ("tag", u64),
                    ("olen", size_t), ("err", ctypes.c_int), ("prov_errno", ctypes.c_int), ("err_data", pointer),
                    ("err_data_size", size_t), ("src_addr", u64))
# A fid begins with its class, its context and its operations; the tables of its kind follow, each of which begins with its size.
FID_OPS, FIRST_TABLE, SECOND_TABLE, EP_CM, EP_RMA = 2, 3, 4, 4, 6
MR_DESC, MR_KEY = 3, 4


class FabricError(Exception):
    pass


class Library:
    """libfabric, from $S3RDMA_LIBFABRIC or where the loader finds it."""
    loaded = None

    def __init__(self):
        # Windows are registered once and withdrawn by closing: a cache of registrations would keep them reachable.
        for name, value in {"FI_MR_CACHE_MAX_COUNT": "0", "FI_MR_CACHE_MONITOR": "disabled", "FI_UNIVERSE_SIZE": "16"}.items():
            os.environ.setdefault(name, value)
        path = os.environ.get("S3RDMA_LIBFABRIC") or "libfabric.so.1"
        try:
            self.c = ctypes.CDLL(path)
        except OSError as error:
            raise FabricError(f"{error}: install libfabric, or let S3RDMA_LIBFABRIC name it") from error
        self.c.fi_dupinfo.restype = ctypes.POINTER(Info)
        self.c.fi_dupinfo.argtypes = [pointer]
        self.c.fi_getinfo.argtypes = [u32, ctypes.c_char_p, ctypes.c_char_p, u64, ctypes.POINTER(Info), ctypes.POINTER(ctypes.POINTER(Info))]
        self.c.fi_fabric.argtypes = [pointer, ctypes.POINTER(pointer), pointer]
        self.c.fi_strerror.restype = ctypes.c_char_p
        self.c.fi_version.restype = u32
        self.libc = ctypes.CDLL(None)
        self.libc.strdup.restype = pointer

    @classmethod
    def get(cls):
        if cls.loaded is None:
            cls.loaded = cls()
        return cls.loaded

    def text(self, value):
        """A copy that libfabric frees."""
        return self.libc.strdup(value.encode()) if value else None

    def check(self, result, what):
        if result < 0:
            raise FabricError(f"{what}: {self.c.fi_strerror(-result).decode()}")
        return result

    def version(self):
        number = self.c.fi_version()
        return f"{number >> 16}.{number & 0xffff}"


def words(fid, count=8):
    return ctypes.cast(fid, ctypes.POINTER(size_t * count)).contents


def call(fid, table, slot, result, *arguments):
    """An operation of a fid: `table` is the place of its table of operations, `slot` the place in it (0: its size)."""
    operation = words(words(fid)[table], slot + 1)[slot]
    types = [type(one) if isinstance(one, ctypes._SimpleCData) else pointer for one in arguments]  # noqa: SLF001
    return ctypes.CFUNCTYPE(result, pointer, *types)(operation)(fid, *arguments)


def close(fid):
    return call(fid, FID_OPS, 1, ctypes.c_int)


def describe(provider, device, address):
    """The first interface of a provider that has what windows need; `address`: the local address to bind."""
    library = Library.get()
    hints = library.c.fi_dupinfo(None)
    wanted = hints.contents
    wanted.caps = MSG | SEND | RECV | RMA | READ | WRITE | REMOTE_READ | REMOTE_WRITE
    wanted.mode = CONTEXT | CONTEXT2
    wanted.ep_attr.contents.type = EP_RDM
    wanted.domain_attr.contents.mr_mode = MR_LOCAL | MR_VIRT_ADDR | MR_ALLOCATED | MR_PROV_KEY
    wanted.domain_attr.contents.threading = THREAD_DOMAIN
    wanted.domain_attr.contents.name = library.text(device)
    wanted.fabric_attr.contents.prov_name = library.text(PROVIDERS.get(provider, provider))
    found = ctypes.POINTER(Info)()
    result = library.c.fi_getinfo(API_VERSION, address.encode() if address else None, None, SOURCE if address else 0, hints,
                                  ctypes.byref(found))
    library.c.fi_freeinfo(hints)
    library.check(result, f"fi_getinfo of {provider} on {device or address or 'any device'}")
    return found


class Endpoint:
    """An endpoint of its own domain, which moves data only while `poll` runs: a thread calls it as long as the endpoint is `running`."""

    def __init__(self, provider, device=None, address=None):
        self.library = Library.get()
        self.lock, self.fids = threading.RLock(), []
        self.info = describe(provider, device, address)
        self.provider = ctypes.string_at(self.info.contents.fabric_attr.contents.prov_name).decode()
        self.mr_mode = self.info.contents.domain_attr.contents.mr_mode
        self.done = {}
        self.running, self.open = True, True
        self._open()
        self.thread = threading.Thread(target=self._progress, daemon=True)
        self.thread.start()

    def _make(self, what, operation):
        fid = pointer()
        self.library.check(operation(ctypes.byref(fid)), what)
        self.fids.append(fid.value)
        return fid.value

    def _open(self):
        fabric = self._make("fi_fabric", lambda out: self.library.c.fi_fabric(self.info.contents.fabric_attr, out, None))
        self.domain = self._make("fi_domain", lambda out: call(fabric, FIRST_TABLE, 1, ctypes.c_int, self.info, out, None))
        vector, queue = AvAttr(type=2, count=64), CqAttr(size=1024, format=CQ_FORMAT_CONTEXT, wait_obj=WAIT_NONE)
        self.vector = self._make("fi_av_open", lambda out: call(self.domain, FIRST_TABLE, 1, ctypes.c_int, ctypes.byref(vector), out, None))
        self.queue = self._make("fi_cq_open", lambda out: call(self.domain, FIRST_TABLE, 2, ctypes.c_int, ctypes.byref(queue), out, None))
        self.endpoint = self._make("fi_endpoint", lambda out: call(self.domain, FIRST_TABLE, 3, ctypes.c_int, self.info, out, None))
        for fid, flags in ((self.vector, 0), (self.queue, SEND | RECV)):
            self.library.check(call(self.endpoint, FID_OPS, 2, ctypes.c_int, pointer(fid), u64(flags)), "fi_ep_bind")
        self.library.check(call(self.endpoint, FID_OPS, 3, ctypes.c_int, ctypes.c_int(ENABLE), None), "fi_enable")
        text, size = ctypes.create_string_buffer(512), size_t(512)
        self.library.check(call(self.endpoint, EP_CM, 2, ctypes.c_int, text, ctypes.byref(size)), "fi_getname")
        self.name = text.raw[:size.value]

    def poll(self):
        """Drives the provider once; notes the operations that have ended, by their context: 0, or what libfabric calls the error."""
        entries = (pointer * 16)()
        with self.lock:
            if not self.open:
                return 0
            count = call(self.queue, FIRST_TABLE, 1, ctypes.c_ssize_t, entries, size_t(16))
            if count == -EAVAIL:
                error = CqError()
                call(self.queue, FIRST_TABLE, 3, ctypes.c_ssize_t, ctypes.byref(error), u64(0))
                self.done[error.op_context] = error.err or errno.EIO
            for entry in entries[:max(count, 0)]:
                self.done[entry] = 0
        return count

    def _progress(self):
        while self.open:
            if self.running:
                self.poll()
            time.sleep(0.0003)

    def region(self, size, access, data=None):
        return Region(self, size, access, data)

    def _operate(self, slot, name, memory, length, remote, key, timeout):
        region = Region(self, 0, READ | WRITE, memory=memory) if self.mr_mode & MR_LOCAL else None
        context = ctypes.create_string_buffer(128)  # fi_context2
        at, deadline = ctypes.addressof(context), time.monotonic() + timeout
        peer, there = u64(), ctypes.create_string_buffer(name, len(name))
        with self.lock:
            self.library.check(call(self.vector, FIRST_TABLE, 1, ctypes.c_int, there, size_t(1), ctypes.byref(peer), u64(0), None) - 1, "fi_av_insert")
        try:
            while True:
                with self.lock:
                    result = call(self.endpoint, EP_RMA, slot, ctypes.c_ssize_t, memory, size_t(length),
                                  pointer(region.descriptor if region else None), u64(peer.value), u64(remote), u64(key), context)
                if result != -errno.EAGAIN or time.monotonic() > deadline:
                    break
                time.sleep(0.001)
            self.library.check(result, "fi_write or fi_read")
            while at not in self.done:
                if time.monotonic() > deadline:
                    raise FabricError("the operation did not end")
                time.sleep(0.0005)
            if error := self.done.pop(at):
                raise FabricError(f"the operation failed: {self.library.c.fi_strerror(error).decode()}")
        finally:
            if region:
                region.close()

    def write(self, name, remote, key, data, timeout=10):
        """Writes `data` into a peer's region."""
        self._operate(4, name, ctypes.create_string_buffer(data, len(data)), len(data), remote, key, timeout)

    def read(self, name, remote, key, length, timeout=10):
        memory = ctypes.create_string_buffer(length)
        self._operate(1, name, memory, length, remote, key, timeout)
        return memory.raw

    def close(self):
        with self.lock:
            if not self.open:
                return
            self.open = False
            while self.fids[-1] != self.endpoint:  # regions, whose owner may have forgotten them
                close(self.fids.pop())
            for fid in (self.endpoint, self.queue, self.vector, self.domain, self.fids[0]):
                close(fid)
        self.thread.join(5)


class Region:
    """Registered memory, filled with FILLER or with `data`."""

    def __init__(self, endpoint, size, access, data=None, memory=None):
        self.endpoint, self.size = endpoint, size
        self.memory = memory if memory is not None else ctypes.create_string_buffer(max(size, 1))
        if memory is None:
            ctypes.memset(self.memory, FILLER, max(size, 1))
            if data:
                ctypes.memmove(self.memory, bytes(data), len(data))
        self.fid = self._register(access)
        self.descriptor = words(self.fid)[MR_DESC] or None
        self.key = ctypes.cast(self.fid, ctypes.POINTER(u64 * 5)).contents[MR_KEY]
        self.base = ctypes.addressof(self.memory) if endpoint.mr_mode & MR_VIRT_ADDR else 0

    def _register(self, access):
        fid = pointer()
        with self.endpoint.lock:
            result = call(self.endpoint.domain, SECOND_TABLE, 1, ctypes.c_int, self.memory, size_t(max(self.size, len(self.memory))),
                          u64(access), u64(0), u64(secrets.randbits(63)), u64(0), ctypes.byref(fid), None)
            self.endpoint.library.check(result, "fi_mr_reg")
            if self.endpoint.mr_mode & MR_ENDPOINT:
                call(fid.value, FID_OPS, 2, ctypes.c_int, pointer(self.endpoint.endpoint), u64(0))
                call(fid.value, FID_OPS, 3, ctypes.c_int, ctypes.c_int(ENABLE), None)
            self.endpoint.fids.append(fid.value)
        return fid.value

    def bytes(self):
        return self.memory.raw[:self.size]

    def settle(self):
        """Takes in what has arrived already, also where the machine is busy."""
        for _ in range(20):
            self.endpoint.poll()

    def close(self):
        """No peer reaches the memory afterwards."""
        with self.endpoint.lock:
            if self.endpoint.open and self.fid in self.endpoint.fids:
                self.endpoint.fids.remove(self.fid)
                close(self.fid)


def socket_name(address, port):
    """The name of an endpoint as providers with socket addresses have it: a sockaddr_in."""
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(address) + bytes(8)
