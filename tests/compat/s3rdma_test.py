#!/usr/bin/env python3
"""libs3rdma.so.0 (clients/compat), called as MinIO's SDKs call it: memory is pinned, a token goes into a signed request, the server
moves the bytes. s3rdma_test.py LIBRARY"""
import concurrent.futures
import ctypes
import os
import re
import signal
import subprocess
import sys
import time

import token_requests
from s3rdma_calls import SYMBOLS, load, token
from s3rdma_conformance.checksums import crc64nvme
from token_requests import S3

LIBRARY = sys.argv[1]
POOL = concurrent.futures.ThreadPoolExecutor(1)
UNIT = 64 * 1024  # the server's writes are of whole ones


def symbols_are_versioned():
    said = subprocess.run(["readelf", "-W", "--dyn-syms", "-d", LIBRARY], stdout=subprocess.PIPE, text=True, check=True).stdout
    exported = set(re.findall(r"GLOBAL DEFAULT +\d+ (s3rdma_\w+@@S3RDMA_0)$", said, re.M))
    assert exported == {f"{name}@@S3RDMA_0" for name in SYMBOLS}, exported
    others = set(re.findall(r"(?:GLOBAL|WEAK) +DEFAULT +\d+ (\S+@@\S+)$", said, re.M)) - exported
    assert not others, f"symbols that are not of the interface: {others}"
    assert "Library soname: [libs3rdma.so.0]" in said, said


def bytes_move_both_ways(library, client, s3):
    data = os.urandom(300000)
    memory = ctypes.create_string_buffer(data, len(data))
    assert library.s3rdma_client_register(client, memory, len(data)) == 0
    text = token(library, client, memory, 200000, 50000)
    reply = s3.call("PUT", "/bucket/object", text, payload_hash="UNSIGNED-PAYLOAD")
    assert reply.status == 200 and reply.header("x-amz-rdma-reply") == "200", reply
    assert s3.call("GET", "/bucket/object").body == data[50000:250000]
    ctypes.memset(memory, 0, len(data))
    reply = s3.call("GET", "/bucket/object", token(library, client, memory, 200000, 0))
    assert reply.header("x-amz-rdma-reply") == "200" and reply.header("x-amz-rdma-bytes-transferred") == "200000", reply
    assert memory.raw[:200000] == data[50000:250000] and memory.raw[200000:] == bytes(100000), "the bytes are not where they belong"
    assert reply.header("x-amz-rdma-checksum-crc64nvme") == crc64nvme(data[50000:250000])
    # Once more than it was registered: the token's memory is out of reach.
    text = token(library, client, memory, 200000, 0)
    assert library.s3rdma_client_register(client, memory, len(data)) == 0
    assert library.s3rdma_client_deregister(client, memory) == 0
    assert s3.call("GET", "/bucket/object", text).header("x-amz-rdma-reply") == "200", "one registration is left"
    assert library.s3rdma_client_deregister(client, memory) == 0
    ctypes.memset(memory, 0, len(data))
    reply = s3.call("GET", "/bucket/object", text)
    assert reply.header("x-amz-rdma-reply") == "501" and reply.body == data[50000:250000], reply
    assert memory.raw == bytes(len(data)), "memory that was deregistered has changed"
    assert library.s3rdma_client_deregister(client, memory) == -1 and token(library, client, memory, 1) is None


def stopped_within_a_write(server, s3, text, memory, size):
    """Starts a GET and stops the server in the middle of one of its writes. The future of its reply."""
    first = (ctypes.c_char * 1).from_address(ctypes.addressof(memory) + UNIT)
    for _ in range(20):
        ctypes.memset(memory, 0, size)
        reply = POOL.submit(s3.call, "GET", "/bucket/large", text)
        while first.raw == b"\0" and not reply.done():
            pass
        os.kill(server.process.pid, signal.SIGSTOP)
        before, landed = -1, memory.raw.count(b"\1")
        while landed != before:  # until what the kernels hold has been taken
            time.sleep(0.3)
            before, landed = landed, memory.raw.count(b"\1")
        if landed % UNIT:
            return reply
        os.kill(server.process.pid, signal.SIGCONT)
        reply.result()
    raise AssertionError("the server never stopped within a write")


def a_write_that_had_begun_ends_with_the_registration(library, client, s3, server):
    if not hasattr(server, "process"):
        return  # a server elsewhere
    size = 64 * 1024 * 1024
    assert s3.call("PUT", "/bucket/large", body=b"\1" * size).status == 200
    other = ctypes.create_string_buffer(1000)
    assert library.s3rdma_client_register(client, other, 1000) == 0
    kept = token(library, client, other, 1000)
    memory = ctypes.create_string_buffer(size)
    assert library.s3rdma_client_register(client, memory, size) == 0
    reply = stopped_within_a_write(server, s3, token(library, client, memory, size), memory, size)
    try:
        assert library.s3rdma_client_deregister(client, memory) == 0
        ctypes.memset(memory, 0xa5, size)  # the program uses it for something else
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    assert reply.result().header("x-amz-rdma-reply") == "501"
    time.sleep(0.5)
    assert memory.raw == b"\xa5" * size, "memory was written after it was deregistered"
    # The end of one registration is none of another's.
    assert s3.call("PUT", "/bucket/small", body=b"x" * 1000).status == 200
    assert s3.call("GET", "/bucket/small", kept).header("x-amz-rdma-reply") == "200" and other.raw == b"x" * 1000
    assert library.s3rdma_client_deregister(client, other) == 0


def sockets():
    count = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
        except FileNotFoundError:
            pass  # the one that listed the folder
    return count


def registrations_have_sockets_only_for_tokens(library, client):
    first = sockets()
    memories = [ctypes.create_string_buffer(1000) for _ in range(50)]
    for memory in memories:
        assert library.s3rdma_client_register(client, memory, 1000) == 0
    assert sockets() == first, "a registration without a token has opened a socket"
    names = {token(library, client, memory, 1000).split(":")[4] for memory in memories[:10] for _ in range(3)}
    if os.environ["S3RDMA_PROVIDER"] == "tcp":
        assert len(names) == 10 and first + 9 <= sockets() <= first + 10, (names, first, sockets())
    for memory in memories:
        assert library.s3rdma_client_deregister(client, memory) == 0
    assert sockets() <= first, "a socket is left"


def what_is_outside_is_refused(library, client):
    memory = ctypes.create_string_buffer(1000)
    assert library.s3rdma_client_register(client, None, 10) == -1 and library.s3rdma_client_register(client, memory, 0) == -1
    assert library.s3rdma_client_register(client, memory, 900) == 0
    assert library.s3rdma_client_register(client, memory, 1000) == -1, "longer than what is registered"
    for size, offset in ((901, 0), (1, 900), (2**64 - 1, 1), (1, 2**64 - 1)):
        assert token(library, client, memory, size, offset) is None, (size, offset)
    text = ctypes.create_string_buffer(200)
    assert library.s3rdma_last_error(text, 200) == len(text.value) > 0 and b"not inside" in text.value, text.value
    assert library.s3rdma_last_error(text, 5) == 4
    assert token(library, client, memory, 900) and token(library, client, memory, 0, 900)
    assert library.s3rdma_client_memory_type(memory) == 0
    assert library.s3rdma_client_nic_count(client) == library.s3rdma_client_healthy_nic_count(client) == 1
    assert library.s3rdma_client_report_token_failure(client, b"not:a:token") == -1
    assert library.s3rdma_client_report_token_failure(client, token(library, client, memory, 10).encode()) == 0
    assert library.s3rdma_client_healthy_nic_count(client) == 0 and token(library, client, memory, 10), "the only device goes on"


def freed_clients_are_refused(library):
    client = library.s3rdma_client_init(None, None, 0)
    memory = ctypes.create_string_buffer(100)
    assert library.s3rdma_client_register(client, memory, 100) == 0
    library.s3rdma_client_free(client)
    library.s3rdma_client_free(client)
    other = library.s3rdma_client_init(None, None, 0)
    assert other != client
    for stale in (client, None, 12345):
        assert token(library, stale, memory, 1) is None and library.s3rdma_client_ready(stale) == 0
        assert library.s3rdma_client_register(stale, memory, 1) == -1 and library.s3rdma_client_nic_count(stale) == 0
    library.s3rdma_client_free(other)


def threads_share_a_client(library, client, s3):
    def move(i):
        for turn in range(5):
            data = os.urandom(20000 + i)
            memory = ctypes.create_string_buffer(data, len(data))
            assert library.s3rdma_client_register(client, memory, len(data)) == 0
            reply = s3.call("PUT", f"/bucket/{i}", token(library, client, memory, len(data)), payload_hash="UNSIGNED-PAYLOAD")
            assert reply.header("x-amz-rdma-reply") == "200", reply
            ctypes.memset(memory, 0, len(data))
            s3.call("GET", f"/bucket/{i}", token(library, client, memory, len(data)))
            assert library.s3rdma_client_deregister(client, memory) == 0
            assert memory.raw == data, (i, turn)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(move, range(6)))


def main():
    token_requests.choose_fabric()
    symbols_are_versioned()
    token_requests.library_has_no_setenv(LIBRARY)
    token_requests.settings_reach_libfabric("import ctypes, sys; ctypes.CDLL(sys.argv[1]).s3rdma_check_rdma(None, 0)", LIBRARY)
    library = load(LIBRARY)
    token_requests.the_environment_is_as_it_was()
    reason = ctypes.create_string_buffer(64)
    assert library.s3rdma_client_init(b"no-such-device", reason, 64) is None and b"no-such-device" in reason.value, reason.value
    assert library.s3rdma_check_rdma(reason, 64) == 1, reason.value
    with token_requests.server() as server:
        s3 = S3(server)
        assert s3.call("PUT", "/bucket").status == 200
        client = library.s3rdma_client_init(None, reason, 64)
        assert client and library.s3rdma_client_ready(client) == 1, reason.value
        bytes_move_both_ways(library, client, s3)
        registrations_have_sockets_only_for_tokens(library, client)
        threads_share_a_client(library, client, s3)
        a_write_that_had_begun_ends_with_the_registration(library, client, s3, server)
        what_is_outside_is_refused(library, client)
        library.s3rdma_client_free(client)
        freed_clients_are_refused(library)
    token_requests.the_environment_is_as_it_was()


main()
