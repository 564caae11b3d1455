#!/usr/bin/env python3
"""Memory of a GPU through libs3rdma.so.0, over the doubles of its driver and of an RDMA device (tests/gpu): the server's device reads and
writes it itself. A CPU that touches it ends the test. s3rdma_device_test.py LIBRARY"""
import ctypes
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
import token_requests  # noqa: E402
from cuda_driver import Driver  # noqa: E402
from s3rdma_calls import load, token  # noqa: E402
from token_requests import S3  # noqa: E402

MIB = 1 << 20


def main():
    driver, nic, library = Driver(), ctypes.CDLL(None), load(sys.argv[1])
    driver.library.double_peer_writes(100, 0)  # the device sees other devices' writes in order
    reason = ctypes.create_string_buffer(200)
    with token_requests.verbena.Server(memory=True, env={"VERBENA_RDMA_TOKEN_PROVIDER": "verbs", "VERBENA_GPUDIRECT_ENABLED": "false"}) as server:
        s3 = S3(server)
        assert s3.call("PUT", "/bucket").status == 200
        client = library.s3rdma_client_init(None, reason, 200)
        assert client, reason.value

        def register(memory, size):
            result = library.s3rdma_client_register(client, memory, size)
            library.s3rdma_last_error(reason, 200)
            return result
        size = 5 * MIB + 7
        memory, data = driver.allocate(size), os.urandom(size)
        driver.write(memory, data)
        assert library.s3rdma_client_memory_type(memory) == 2
        assert register(memory, size) == 0, reason.value
        assert nic.nic_dma_bufs() == nic.nic_registered() == 1
        for count, skipped in ((size, 0), (1, size - 1), (2 * MIB, MIB + 3)):
            reply = s3.call("PUT", "/bucket/object", token(library, client, memory, count, skipped), payload_hash="UNSIGNED-PAYLOAD")
            assert reply.status == 200 and reply.header("x-amz-rdma-reply") == "200", reply
            assert s3.call("GET", "/bucket/object").body == data[skipped:skipped + count]
            driver.write(memory, bytes(size))
            reply = s3.call("GET", "/bucket/object", token(library, client, memory, count, skipped))
            assert reply.header("x-amz-rdma-reply") == "200" and reply.header("x-amz-rdma-bytes-transferred") == str(count), reply
            assert driver.read(memory, size) == bytes(skipped) + data[skipped:skipped + count] + bytes(size - skipped - count)
            driver.write(memory, data)
        # A driver that has the flag is asked for a mapping over PCIe first; where that is refused, for any.
        asked = driver.library.double_calls
        for version, possible, questions in (("12080", True, 1), ("12080", False, 2), ("12070", False, 1)):
            os.environ["TEST_VERBENA_CUDA_VERSION"] = version
            driver.library.double_over_pcie(possible)
            before = asked(b"cuMemGetHandleForAddressRange")
            assert library.s3rdma_client_deregister(client, memory) == 0 and register(memory, size) == 0, reason.value
            assert asked(b"cuMemGetHandleForAddressRange") - before == questions, (version, possible)
        # Of memory in several allocations each is told to end its copies, before it is exported (which the double refuses).
        pieces = (2 * MIB, 2 * MIB, 4 * MIB)
        mapped, before = driver.map_pieces(pieces), asked(b"cuPointerSetAttribute")
        assert register(mapped, sum(pieces)) == -1 and b"does not export" in reason.value, reason.value
        assert asked(b"cuPointerSetAttribute") - before == len(pieces)
        driver.unmap_pieces(mapped, pieces)
        text = token(library, client, memory, 2 * MIB)
        assert token(library, client, memory, size, 1) is None, "beyond the memory"
        assert library.s3rdma_client_deregister(client, memory) == 0
        assert nic.nic_registered() == 0
        kept = driver.read(memory, size)
        reply = s3.call("GET", "/bucket/object", text)
        assert reply.header("x-amz-rdma-reply") == "501" and reply.body == data[MIB + 3:3 * MIB + 3], reply
        assert driver.read(memory, size) == kept, "memory that was deregistered has changed"
        # A program learns why memory is not lent, and sends a body.
        driver.library.double_peer_writes(0, 1)
        assert register(memory, size) == -1 and b"order" in reason.value, reason.value
        driver.library.double_peer_writes(100, 0)
        nic.nic_refuses(95)
        assert register(memory, size) == -1 and b"fi_mr_regattr" in reason.value, reason.value
        nic.nic_refuses(0)
        assert register(memory, size + 65536) == -1 and b"no memory of a device" in reason.value, reason.value
        host = ctypes.create_string_buffer(b"host", 1000)
        assert register(host, 1000) == 0, reason.value
        reply = s3.call("PUT", "/bucket/host", token(library, client, host, 4), payload_hash="UNSIGNED-PAYLOAD")
        assert reply.header("x-amz-rdma-reply") == "200" and s3.call("GET", "/bucket/host").body == b"host", reply
        library.s3rdma_client_free(client)
        # A device that registers no such memory still lends the host's.
        nic.nic_offers_device_memory(False)
        client = library.s3rdma_client_init(None, reason, 200)
        assert client, reason.value
        assert register(memory, size) == -1 and b"registers no memory of a GPU" in reason.value, reason.value
        assert register(host, 1000) == 0, reason.value
        library.s3rdma_client_free(client)
        assert nic.nic_registered() == 0 and driver.library.double_misuse() == 0
        driver.free(memory)


main()
