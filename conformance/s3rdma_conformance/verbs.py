"""libibverbs by ctypes: a reliable connection of the client's, its memory, and an RDMA WRITE with an immediate value.

Only what the dialects over reliable connections need of libibverbs' C interface (ibv_create_qp(3), ibv_modify_qp(3), ibv_post_send(3)). What
verbs.h has as inline functions is called through the context's table of operations.
"""
import ctypes
import os
import secrets
import socket
import time

from .fabric import FILLER, FabricError, structure

LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 4
INIT, RTR, RTS, RC = 1, 2, 3, 2
STATE, ACCESS, PKEY, PORT, VECTOR, MTU, TIMEOUT, RETRIES, RNR, RQ_PSN, MAX_READS, RNR_TIMER, SQ_PSN, MAX_DEST_READS, DEST = (
    1 << bit for bit in (0, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 20))
WRITE_WITH_IMM, SIGNALED, ROCE_V2 = 1, 2, 2
POLL, NOTIFY, POST_SEND, POST_RECEIVE = (8 + at for at in (88, 96, 200, 208))  # in ibv_context
QP_NUMBER, LOCAL_KEY, REMOTE_KEY = 52, 36, 40
pointer, u8, u16, u32, u64 = ctypes.c_void_p, ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64

Grh = structure("Grh", ("dgid", u8 * 16), ("flow", u32), ("sgid_index", u8), ("hops", u8), ("traffic", u8))
Ah = structure("Ah", ("grh", Grh), ("dlid", u16), ("sl", u8), ("bits", u8), ("rate", u8), ("is_global", u8), ("port", u8))
PairAttr = structure("PairAttr", ("state", u32), ("now", u32), ("mtu", u32), ("migration", u32), ("qkey", u32), ("rq_psn", u32), ("sq_psn", u32),
                     ("dest", u32), ("access", u32), ("cap", u32 * 5), ("ah", Ah), ("alternative", Ah), ("pkey", u16), ("alternative_pkey", u16),
                     ("drained", u8), ("draining", u8), ("max_reads", u8), ("max_dest_reads", u8), ("rnr_timer", u8), ("port", u8), ("timeout", u8),
                     ("retries", u8), ("rnr_retries", u8), ("rest", u8 * 16))
PairInit = structure("PairInit", ("context", pointer), ("send_cq", pointer), ("recv_cq", pointer), ("srq", pointer), ("cap", u32 * 5),
                     ("type", u32), ("all", u32), ("rest", u32))
PortAttr = structure("PortAttr", ("state", u32), ("max_mtu", u32), ("mtu", u32), ("gids", ctypes.c_int), ("rest", u8 * 48))
GidEntry = structure("GidEntry", ("gid", u8 * 16), ("index", u32), ("port", u32), ("type", u32), ("net", u32))
Sge = structure("Sge", ("address", u64), ("length", u32), ("key", u32))
SendRequest = structure("SendRequest", ("id", u64), ("next", pointer), ("sge", ctypes.POINTER(Sge)), ("count", ctypes.c_int), ("opcode", u32),
                        ("flags", u32), ("immediate", u8 * 4), ("remote", u64), ("key", u32), ("rest", u8 * 76))
ReceiveRequest = structure("ReceiveRequest", ("id", u64), ("next", pointer), ("sge", pointer), ("count", ctypes.c_int))
Completion = structure("Completion", ("id", u64), ("status", u32), ("opcode", u32), ("vendor", u32), ("bytes", u32), ("immediate", u8 * 4),
                       ("pair", u32), ("rest", u8 * 16))
SEND, RECEIVE = 1, 2  # ids of requests


def field(handle, offset):
    return ctypes.cast(handle + offset, ctypes.POINTER(u32)).contents.value


class Library:
    """libibverbs, from $S3RDMA_LIBIBVERBS or where the loader finds it."""
    loaded = None

    def __init__(self):
        path = os.environ.get("S3RDMA_LIBIBVERBS") or "libibverbs.so.1"
        try:
            self.c = ctypes.CDLL(path, use_errno=True)
        except OSError as error:
            raise FabricError(f"{error}: install libibverbs, or let S3RDMA_LIBIBVERBS name it") from error
        for name in ("get_device_list", "open_device", "alloc_pd", "reg_mr", "create_cq", "create_qp"):
            getattr(self.c, "ibv_" + name).restype = pointer
        self.c.ibv_get_device_name.restype = ctypes.c_char_p
        self.c.ibv_get_device_name.argtypes = self.c.ibv_open_device.argtypes = [pointer]
        self.c._ibv_query_gid_table.restype = ctypes.c_ssize_t  # noqa: SLF001

    @classmethod
    def get(cls):
        if cls.loaded is None:
            cls.loaded = cls()
        return cls.loaded

    def made(self, handle, what):
        if not handle:
            raise FabricError(f"{what}: {os.strerror(ctypes.get_errno())}")
        return handle

    def checked(self, error, what):
        if error:
            raise FabricError(f"{what}: {os.strerror(abs(error))}")


class Device:
    """An RDMA device, by its name or the first that has the address; closed at the process's end."""

    def __init__(self, name, address):
        self.library = Library.get()
        self.c, count = self.library.c, ctypes.c_int()
        listed = self.library.made(self.c.ibv_get_device_list(ctypes.byref(count)), "ibv_get_device_list")
        for handle in ctypes.cast(listed, ctypes.POINTER(pointer * count.value)).contents if count.value else ():
            if name in (None, self.c.ibv_get_device_name(handle).decode()) and self._open(handle, address):
                return
        raise FabricError(f"no active RDMA device {name or ''} with the address {address}")

    def _open(self, handle, address):
        self.context = self.library.made(self.c.ibv_open_device(pointer(handle)), "ibv_open_device")
        port = PortAttr()
        self.c.ibv_query_port(pointer(self.context), u8(1), ctypes.byref(port))
        self.mtu = port.mtu
        entries = (GidEntry * max(port.gids, 1))()
        found = self.c._ibv_query_gid_table(pointer(self.context), entries, ctypes.c_size_t(len(entries)), u32(0),  # noqa: SLF001
                                            ctypes.c_size_t(ctypes.sizeof(GidEntry)))
        wanted = bytes(10) + b"\xff\xff" + socket.inet_aton(address)
        for entry in entries[:max(found, 0)]:
            if bytes(entry.gid) == wanted and entry.type == ROCE_V2:
                self.gid, self.gid_index = wanted, entry.index
                return True
        self.c.ibv_close_device(pointer(self.context))
        return False

    def operation(self, offset, *types):
        address = ctypes.cast(self.context + offset, ctypes.POINTER(pointer)).contents.value
        return ctypes.CFUNCTYPE(ctypes.c_int, *types)(address)


class Pair:
    """A queue pair with memory of its own, which is filled with FILLER or `data`. `access`: what the peer may do with the memory."""

    def __init__(self, device, size, access, data=None):
        self.device, self.c, self.size, made = device, device.library.c, size, device.library.made
        self.memory = ctypes.create_string_buffer(max(size, 1))
        ctypes.memset(self.memory, FILLER, max(size, 1))
        if data:
            ctypes.memmove(self.memory, bytes(data), len(data))
        self.address = ctypes.addressof(self.memory)
        self.domain = made(self.c.ibv_alloc_pd(pointer(device.context)), "ibv_alloc_pd")
        self.completions = made(self.c.ibv_create_cq(pointer(device.context), 16, None, None, 0), "ibv_create_cq")
        self.region = made(self.c.ibv_reg_mr(pointer(self.domain), self.memory, ctypes.c_size_t(max(size, 1)), LOCAL_WRITE | access), "ibv_reg_mr")
        self.key, self.access, self.pair = field(self.region, REMOTE_KEY), access, None
        self.renew()

    def renew(self):
        """A new queue pair for the same memory."""
        self.disappear()
        wanted = PairInit(send_cq=self.completions, recv_cq=self.completions, cap=(u32 * 5)(8, 8, 1, 1, 0), type=RC)
        self.pair = self.device.library.made(self.c.ibv_create_qp(pointer(self.domain), ctypes.byref(wanted)), "ibv_create_qp")
        self.number, self.sequence, self.done = field(self.pair, QP_NUMBER), secrets.randbelow(0xFFFFFF) + 1, {}
        self._modify(STATE | PKEY | PORT | ACCESS, "INIT", state=INIT, port=1, access=self.access)
        receive, bad = ReceiveRequest(id=RECEIVE), pointer()
        post = self.device.operation(POST_RECEIVE, pointer, pointer, pointer)
        self.device.library.checked(post(self.pair, ctypes.addressof(receive), ctypes.addressof(bad)), "ibv_post_recv")

    def _modify(self, mask, what, **fields):
        self.device.library.checked(self.c.ibv_modify_qp(pointer(self.pair), ctypes.byref(PairAttr(**fields)), mask), f"ibv_modify_qp: {what}")

    def connect(self, number, sequence, gid):
        vector = Ah(grh=Grh(dgid=(u8 * 16)(*gid), sgid_index=self.device.gid_index, hops=64), is_global=1, port=1)
        self._modify(STATE | VECTOR | MTU | DEST | RQ_PSN | MAX_DEST_READS | RNR_TIMER, "RTR", state=RTR, mtu=self.device.mtu, dest=number,
                     rq_psn=sequence, max_dest_reads=1, rnr_timer=12, ah=vector)
        self._modify(STATE | TIMEOUT | RETRIES | RNR | SQ_PSN | MAX_READS, "RTS", state=RTS, timeout=14, retries=7, rnr_retries=7,
                     sq_psn=self.sequence, max_reads=1)

    def write(self, address, key, immediate, size=None, timeout=20):
        """RDMA WRITE with an immediate value of the memory's first bytes. The status of its completion (0: done), None if there is none."""
        piece = Sge(self.address, self.size if size is None else size, field(self.region, LOCAL_KEY))
        request = SendRequest(id=SEND, sge=ctypes.pointer(piece), count=1, opcode=WRITE_WITH_IMM, flags=SIGNALED, remote=address, key=key,
                              immediate=(u8 * 4)(*immediate.to_bytes(4, "big")))
        bad = pointer()
        post = self.device.operation(POST_SEND, pointer, pointer, pointer)
        self.device.library.checked(post(self.pair, ctypes.addressof(request), ctypes.addressof(bad)), "ibv_post_send")
        done = self.await_done(SEND, timeout)
        return done and done.status

    def await_done(self, wanted, timeout):
        poll, deadline = self.device.operation(POLL, pointer, ctypes.c_int, pointer), time.monotonic() + timeout
        while True:
            one = Completion()
            while poll(self.completions, 1, ctypes.addressof(one)) > 0:
                self.done[one.id] = one
                one = Completion()
            if wanted in self.done:
                return self.done.pop(wanted)
            if time.monotonic() > deadline:
                return None
            time.sleep(0.0005)

    def immediate(self, timeout=0.0):
        """The immediate value that the peer's last write carried; None: no such write has come."""
        done = self.await_done(RECEIVE, timeout)
        return int.from_bytes(bytes(done.immediate), "big") if done and done.status == 0 else None

    def withdraw(self):
        """The memory's key ends; the queue pair stays."""
        if self.region:
            self.c.ibv_dereg_mr(pointer(self.region))
        self.region = None

    def disappear(self):
        """The queue pair ends; the memory's key stays."""
        if self.pair:
            self.c.ibv_destroy_qp(pointer(self.pair))
        self.pair = None

    def close(self):
        """No peer reaches the memory afterwards."""
        self.disappear()
        self.withdraw()
        if self.domain:
            self.c.ibv_destroy_cq(pointer(self.completions))
            self.c.ibv_dealloc_pd(pointer(self.domain))
        self.domain = None
