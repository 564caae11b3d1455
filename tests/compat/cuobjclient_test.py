#!/usr/bin/env python3
"""libcuobjclient.so.1 (clients/compat), called by its mangled names, as programs call it that look them up: memory is registered, a
token goes into a signed request, the server moves the bytes. cuobjclient_test.py LIBRARY"""
import concurrent.futures
import ctypes
import errno
import os
import re
import signal
import subprocess
import sys
import time

import cuobjclient_device
import token_requests
from token_requests import S3

LIBRARY = sys.argv[1]
P, S, I, B, T, L = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_bool, ctypes.c_char_p, ctypes.c_int64
SIZE, FAIL, GET, PUT, DC_V1 = 72, 1, 0, 1, 1001
REGISTRATION_MAX = 4 * 1024**3 - 64 * 1024
# method: (mangled name, result, arguments). A method that is not static begins with the object.
METHODS = {
    "create": ("_ZN11cuObjClientC1ER10CUObjIOOps15cuObjProto_enum", None, [P, P, I]),
    "destroy": ("_ZN11cuObjClientD1Ev", None, [P]),
    "connected": ("_ZN11cuObjClient11isConnectedEv", B, [P]),
    "register": ("_ZN11cuObjClient21cuMemObjGetDescriptorEPvm", I, [P, P, S]),
    "release": ("_ZN11cuObjClient21cuMemObjPutDescriptorEPv", I, [P, P]),
    "callback_max": ("_ZN11cuObjClient33cuMemObjGetMaxRequestCallbackSizeEPv", L, [P, P]),
    "token": ("_ZN11cuObjClient20cuMemObjGetRDMATokenEPvmm16cuObjOpType_enumPPc", I, [P, P, S, S, I, P]),
    "give_back": ("_ZN11cuObjClient20cuMemObjPutRDMATokenEPc", I, [P, P]),
    "give_back_failed": ("_ZN11cuObjClient20cuMemObjPutRDMATokenEPci", I, [P, P, I]),
    "get": ("_ZN11cuObjClient8cuObjGetEPvS0_mll", L, [P, P, P, S, L, L]),
    "put": ("_ZN11cuObjClient8cuObjPutEPvS0_mll", L, [P, P, P, S, L, L]),
    "context": ("_ZN11cuObjClient6getCtxEPKv", P, [P]),
    "memory_type": ("_ZN11cuObjClient13getMemoryTypeEPKv", I, [P]),
    "set_telemetry": ("_ZN11cuObjClient14setupTelemetryEbPSo", None, [B, P]),
    "set_flags": ("_ZN11cuObjClient13setTelemFlagsEj", None, [ctypes.c_uint]),
    "set_more_flags": ("_ZN11cuObjClient13setTelemFlagsEjj", None, [ctypes.c_uint, ctypes.c_uint]),
    "set_frequency": ("_ZN11cuObjClient9setOpFreqEjj", None, [ctypes.c_uint, ctypes.c_uint]),
    "end_telemetry": ("_ZN11cuObjClient17shutdownTelemetryEv", None, []),
}


class Info(ctypes.Structure):
    _fields_ = [("version", I), ("desc_len", I), ("desc_str", T)]


CALLBACK = ctypes.CFUNCTYPE(L, P, P, S, L, ctypes.POINTER(Info))


class Operations(ctypes.Structure):
    _fields_ = [("get", CALLBACK), ("put", CALLBACK)]


class Client:
    """An object of the class, in memory of NVIDIA's size with a fence behind it."""

    def __init__(self, library, get=None, put=None):
        self.library = library
        operations = Operations(CALLBACK(get) if get else CALLBACK(), CALLBACK(put) if put else CALLBACK())
        self.kept = operations.get, operations.put
        self.memory = ctypes.create_string_buffer(bytes(SIZE) + b"\xa5" * 64, SIZE + 64)
        library.create(self.memory, ctypes.byref(operations), DC_V1)
        ctypes.memset(ctypes.byref(operations), 0, ctypes.sizeof(operations))  # the library has a copy

    def __getattr__(self, name):
        method = getattr(self.library, name)
        return lambda *arguments: method(self.memory, *arguments)

    def mint(self, memory, size, offset=0, operation=GET):
        """The token's text, or None."""
        out = P(1)
        if self.token(memory, size, offset, operation, ctypes.byref(out)) != 0:
            assert out.value is None, "a token that was refused must be NULL"
            return None
        text = ctypes.string_at(out).decode()
        assert self.give_back(out) == 0
        return text

    def memory_kind(self, memory):
        return self.library.memory_type(memory)

    def end(self):
        assert self.memory.raw[SIZE:] == b"\xa5" * 64, "the object is larger than callers have room for"
        self.destroy()


class Library:
    def __init__(self):
        loaded = ctypes.CDLL(LIBRARY)
        for name, (symbol, result, arguments) in METHODS.items():
            function = getattr(loaded, symbol)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


def symbols_are_the_class_alone():
    said = subprocess.run(["readelf", "-W", "--dyn-syms", "-d", LIBRARY], stdout=subprocess.PIPE, text=True, check=True).stdout
    exported = set(re.findall(r"(?:GLOBAL|WEAK) +DEFAULT +\d+ (\S+)$", said, re.M))
    twins = {"_ZN11cuObjClientC2ER10CUObjIOOps15cuObjProto_enum", "_ZN11cuObjClientD2Ev"}
    assert exported == {symbol for symbol, _, _ in METHODS.values()} | twins, exported
    assert "Library soname: [libcuobjclient.so.1]" in said, said


def bytes_move_by_tokens(library, s3):
    client = Client(library)
    assert client.connected()
    data = os.urandom(300000)
    memory = ctypes.create_string_buffer(data, len(data))
    assert client.mint(memory, 1) is None, "a token for memory that is not registered"
    assert client.register(memory, len(data)) == 0 and client.callback_max(memory) == len(data)
    reply = s3.call("PUT", "/bucket/token", client.mint(memory, 200000, 50000, PUT), payload_hash="UNSIGNED-PAYLOAD")
    assert reply.status == 200 and reply.header("x-amz-rdma-reply") == "200", reply
    assert s3.call("GET", "/bucket/token").body == data[50000:250000]
    ctypes.memset(memory, 0, len(data))
    # With what programs for cuObject append to any token.
    text = f"{client.mint(memory, 200000)}:{ctypes.addressof(memory):016x}:{200000:016x}"
    reply = s3.call("GET", "/bucket/token", text)
    assert reply.header("x-amz-rdma-reply") == "200" and memory.raw == data[50000:250000] + bytes(100000), reply
    # From within the registered memory.
    middle = ctypes.addressof(memory) + 1000
    assert client.callback_max(middle) == len(data) - 1000
    ctypes.memset(memory, 0, len(data))
    s3.call("GET", "/bucket/token", client.mint(middle, 200000, 24))
    assert memory.raw == bytes(1024) + data[50000:250000] + bytes(98976)
    # Registered once, however often: the first release ends it, also for a token that is out.
    text = client.mint(memory, 200000)
    assert client.register(memory, len(data)) == 0 and client.release(memory) == 0 and client.release(memory) == 0
    ctypes.memset(memory, 0, len(data))
    assert s3.call("GET", "/bucket/token", text).header("x-amz-rdma-reply") == "501"
    assert memory.raw == bytes(len(data)) and client.callback_max(memory) == -1 and client.mint(memory, 1) is None
    client.end()


def bytes_move_by_callbacks(library, s3):
    context, seen = ctypes.create_string_buffer(b"context"), []

    def moves(method):
        def callback(handle, memory, size, offset, info):
            text = info[0].desc_str.decode()
            seen.append((library.context(handle), memory, size, offset, info[0].desc_len - len(text)))
            hashed = {"payload_hash": "UNSIGNED-PAYLOAD"} if method == "PUT" else {}
            reply = s3.call(method, "/bucket/callback", text, **hashed)
            return size if reply.header("x-amz-rdma-reply") == "200" else -errno.EIO
        return callback

    client = Client(library, moves("GET"), moves("PUT"))
    data = os.urandom(70000)
    memory = ctypes.create_string_buffer(data, len(data))
    place = ctypes.addressof(memory)
    assert client.put(context, memory, 60000, 0, 0) == -errno.EINVAL and not seen, "memory that is not registered"
    assert client.register(memory, len(data)) == 0
    assert client.put(context, memory, 60000, 0, 0) == 60000
    ctypes.memset(memory, 0, len(data))
    assert client.get(context, memory, 60000, 7, 10000) == 60000
    assert memory.raw == bytes(10000) + data[:60000]
    at = ctypes.addressof(context)
    assert seen == [(at, place, 60000, 0, 1), (at, place + 10000, 60000, 7, 1)], seen
    for arguments in ((None, memory, 1, 0, 0), (context, None, 1, 0, 0), (context, memory, 0, 0, 0), (context, memory, 1, -1, 0),
                      (context, memory, 1, 0, -1)):
        assert client.get(*arguments) == FAIL and client.put(*arguments) == FAIL, arguments
    assert client.get(context, memory, 70001, 0, 0) == client.get(context, memory, 1, 0, 70000) == -errno.EINVAL
    assert len(seen) == 2
    client.end()
    # A callback's failure is the call's; without a callback there is none.
    client = Client(library, get=lambda *_: -errno.ETIMEDOUT)
    assert client.register(memory, len(data)) == 0
    assert client.get(context, memory, 10, 0, 0) == -errno.ETIMEDOUT and client.put(context, memory, 10, 0, 0) == -errno.EINVAL
    client.end()


def what_is_not_lent_is_refused(library):
    client = Client(library)
    memory = ctypes.create_string_buffer(1000)
    assert client.register(None, 10) == client.register(memory, 0) == client.register(memory, REGISTRATION_MAX + 1) == FAIL
    assert client.register(memory, 900) == 0 and client.register(memory, 901) == FAIL
    for size, offset in ((901, 0), (1, 900), (2**64 - 1, 1), (1, 2**64 - 1)):
        assert client.mint(memory, size, offset) is None, (size, offset)
    assert client.mint(memory, 900) and client.mint(memory, 1, operation=9999) is None
    assert client.token(memory, 1, 0, GET, None) == FAIL and client.give_back(None) == FAIL
    assert client.mint(ctypes.addressof(memory) + 900, 1) is None and client.callback_max(None) == -1
    out = P()
    assert client.token(memory, 10, 0, GET, ctypes.byref(out)) == 0 and client.give_back_failed(out, 5) == 0
    assert client.mint(memory, 10), "the only device goes on"
    assert client.release(None) == 0 and library.memory_type(memory) == 0 and library.memory_type(None) == 4
    assert library.context(None) is None
    library.set_telemetry(False, None), library.set_flags(7), library.set_more_flags(7, 3), library.set_frequency(1, 1), library.end_telemetry()
    client.end()


def registrations_may_overlap(library):
    client = Client(library)
    memory = ctypes.create_string_buffer(100)
    inner = ctypes.addressof(memory) + 10
    assert client.register(memory, 100) == 0 and client.register(inner, 10) == 0
    assert client.callback_max(ctypes.addressof(memory) + 50) == 50 and client.mint(ctypes.addressof(memory) + 50, 50)
    assert client.callback_max(inner) == 90 and client.mint(inner, 90), "the outer one reaches further"
    assert client.release(memory) == 0
    assert client.callback_max(inner) == 10 and client.mint(inner, 11) is None and client.mint(inner, 10)
    client.end()


def a_fork_leaves_the_device_to_its_parent(library, s3):
    client = Client(library)
    memory = ctypes.create_string_buffer(b"forked", 6)
    assert client.register(memory, 6) == 0
    child = os.fork()
    if child == 0:
        refused = client.mint(memory, 6) is None and client.callback_max(memory) == -1 and client.release(memory) == 0
        client.destroy()
        os._exit(0 if refused else 1)
    for _ in range(200):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise AssertionError("a fork waits for a thread that it does not have")
    assert status == 0, status
    reply = s3.call("PUT", "/bucket/forked", client.mint(memory, 6, operation=PUT), payload_hash="UNSIGNED-PAYLOAD")
    assert reply.header("x-amz-rdma-reply") == "200" and s3.call("GET", "/bucket/forked").body == b"forked", reply
    client.end()


def without_a_device_nothing_is_connected(library):
    os.environ["S3RDMA_DEVICE"] = "no-such-device"
    client = Client(library, get=lambda *_: 1)
    memory = ctypes.create_string_buffer(10)
    assert not client.connected() and client.register(memory, 10) == FAIL and client.mint(memory, 1) is None
    assert client.get(memory, memory, 10, 0, 0) == -errno.ENOTCONN and client.release(memory) == 0
    client.end()
    del os.environ["S3RDMA_DEVICE"]


def threads_share_a_client(library, s3):
    client = Client(library)

    def move(i):
        for turn in range(5):
            data = os.urandom(20000 + i)
            memory = ctypes.create_string_buffer(data, len(data))
            assert client.register(memory, len(data)) == 0
            s3.call("PUT", f"/bucket/{i}", client.mint(memory, len(data), operation=PUT), payload_hash="UNSIGNED-PAYLOAD")
            ctypes.memset(memory, 0, len(data))
            s3.call("GET", f"/bucket/{i}", client.mint(memory, len(data)))
            assert client.release(memory) == 0
            assert memory.raw == data, (i, turn)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(move, range(6)))
    client.end()


CREATE = """
import ctypes, sys
operations, memory = (ctypes.c_void_p * 2)(), ctypes.create_string_buffer(72)
getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])(memory, operations, 1001)
"""


def main():
    token_requests.choose_fabric()
    symbols_are_the_class_alone()
    token_requests.library_has_no_setenv(LIBRARY)
    token_requests.settings_reach_libfabric(CREATE, LIBRARY, METHODS["create"][0])
    library = Library()
    token_requests.the_environment_is_as_it_was()
    without_a_device_nothing_is_connected(library)
    with token_requests.server() as server:
        s3 = S3(server)
        assert s3.call("PUT", "/bucket").status == 200
        bytes_move_by_tokens(library, s3)
        bytes_move_by_callbacks(library, s3)
        what_is_not_lent_is_refused(library)
        registrations_may_overlap(library)
        a_fork_leaves_the_device_to_its_parent(library, s3)
        threads_share_a_client(library, s3)
        if os.environ.get("TEST_VERBENA_CUDA_DRIVER"):
            cuobjclient_device.check(lambda get, put: Client(library, get, put), s3)
    token_requests.the_environment_is_as_it_was()


main()
