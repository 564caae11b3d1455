"""Memory of a GPU through libcuobjclient.so.1, over the double of the driver: a CPU that touches it ends the test."""
import ctypes
import errno
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
from cuda_driver import Driver  # noqa: E402

MIB = 1 << 20


class Moves:
    """Callbacks that send the token in a request, and note what they were called with."""

    def __init__(self, s3):
        self.s3, self.seen, self.result = s3, [], None
        self.token, self.late = None, None

    def use_again(self, method, token):
        """What the server answers to a token whose transfer has ended."""
        hashed = {"payload_hash": "UNSIGNED-PAYLOAD"} if method == "PUT" else {}
        reply = self.s3.call(method, "/bucket/again", token, **hashed)
        return reply.status, reply.header("x-amz-rdma-reply")

    def callback(self, method):
        def call(handle, memory, size, offset, info):
            self.seen.append((memory, size, offset))
            if self.result is not None:
                return self.result
            if self.late is not None:
                self.late()
            self.token = info[0].desc_str.decode()
            hashed = {"payload_hash": "UNSIGNED-PAYLOAD"} if method == "PUT" else {}
            reply = self.s3.call(method, "/bucket/device", info[0].desc_str.decode(), **hashed)
            return size if reply.header("x-amz-rdma-reply") == "200" else -errno.EIO
        return call


def check(make_client, s3):
    driver, moves, context = Driver(), Moves(s3), ctypes.create_string_buffer(b"context")
    library = driver.library
    client = make_client(moves.callback("GET"), moves.callback("PUT"))
    locked = library.double_locked()
    size = 5 * MIB + 7
    memory, data = driver.allocate(size), os.urandom(size)
    driver.write(memory, data)
    assert client.memory_kind(memory) == 2
    assert client.put(context, memory, 100, 0, 0) == -errno.EINVAL and not moves.seen, "memory that is not registered"
    assert client.register(memory, size) == 0 and client.callback_max(memory) == size and client.callback_max(memory + 7) == size - 7
    assert client.register(memory, size) == 0 and client.register(memory, size + 1) != 0
    assert client.mint(memory, 100) is None, "nothing would say when its transfer has ended"
    for count, skipped in ((size, 0), (1, size - 1), (2 * MIB, MIB + 3)):
        moves.seen.clear()
        assert client.put(context, memory, count, 0, skipped) == count
        assert moves.seen == [(memory + skipped, count, 0)]
        assert s3.call("GET", "/bucket/device").body == data[skipped:skipped + count]
        driver.write(memory, bytes(size))
        assert client.get(context, memory, count, 0, skipped) == count
        assert driver.read(memory, size) == bytes(skipped) + data[skipped:skipped + count] + bytes(size - skipped - count)
        driver.write(memory, data)
    assert client.get(context, memory, size, 0, 1) == client.put(context, memory, 1, 0, size) == -errno.EINVAL
    # A callback that fails, or says that it has moved more than there is, brings nothing; a shorter answer brings so much.
    kept = driver.read(memory, size)
    for result, wanted in ((-errno.ETIMEDOUT, -errno.ETIMEDOUT), (size + 1, -errno.EIO), (0, 0)):
        moves.result = result
        assert client.get(context, memory, size, 0, 0) == wanted
        assert driver.read(memory, size) == kept
    moves.result = None
    # A token ends with its transfer, also for the memory that the next transfer uses: a server that has the old one
    # neither reads the next PUT's bytes nor changes the next GET's.
    assert s3.call("PUT", "/bucket/again", body=bytes(MIB)).status == 200
    # Its endpoint is gone: a PUT fails, and a GET comes in the body.
    for call, moving, refusal in ((client.put, "PUT", (500, None)), (client.get, "GET", (200, "501"))):
        answers = []
        assert call(context, memory, MIB, 0, 0) == MIB
        old = moves.token
        answers.append(moves.use_again(moving, old))
        moves.late = lambda: answers.append(moves.use_again(moving, old))
        assert call(context, memory, MIB, 0, 0) == MIB
        moves.late = None
        assert answers == [refusal, refusal], (moving, answers)
        assert s3.call("GET", "/bucket/again").body == bytes(MIB), "read by a token of an earlier transfer"
        assert driver.read(memory, MIB) == data[:MIB], "changed by a token of an earlier transfer"
    # Registrations may overlap: the one that reaches farthest counts, as for host memory.
    assert client.register(memory + MIB, 1000) == 0
    assert client.callback_max(memory + MIB) == size - MIB and client.callback_max(memory + MIB + 2000) == size - MIB - 2000
    moves.seen.clear()
    assert client.put(context, memory + MIB + 1500, 1000, 0, 500) == 1000, "inside the outer one alone"
    assert moves.seen == [(memory + MIB + 2000, 1000, 0)]
    assert s3.call("GET", "/bucket/device").body == data[MIB + 2000:MIB + 3000]
    assert client.put(context, memory + MIB, 2000, 0, 0) == 2000, "longer than the one that begins there"
    assert s3.call("GET", "/bucket/device").body == data[MIB:MIB + 2000]
    assert s3.call("PUT", "/bucket/device", body=data[:1000]).status == 200
    driver.write(memory + MIB, bytes(5000))
    assert client.get(context, memory, 1000, 0, MIB + 2000) == 1000
    assert driver.read(memory + MIB, 5000) == bytes(2000) + data[:1000] + bytes(2000)
    driver.write(memory, data)
    assert client.release(memory + MIB) == 0 and client.callback_max(memory + MIB) == size - MIB
    # The driver's refusals.
    for call, run in ((b"cuMemcpyHtoD_v2", client.get), (b"cuMemcpyDtoH_v2", client.put), (b"cuStreamSynchronize", client.get)):
        library.double_fail(call, 700, 0)
        assert run(context, memory, 1000, 0, 0) == -errno.EIO, call
        library.double_fail(call, 0, 0)
    assert s3.call("PUT", "/bucket/device", body=data[:1000]).status == 200
    assert client.get(context, memory, 1000, 0, 0) == 1000 and driver.read(memory, 1000) == data[:1000]
    library.double_fail(b"cuMemHostRegister_v2", 2, 0)  # slower, and as right
    other = make_client(moves.callback("GET"), moves.callback("PUT"))
    assert other.register(memory + 100, 5000) == 0 and other.get(context, memory + 100, 1000, 0, 0) == 1000
    assert driver.read(memory + 100, 1000) == data[:1000]
    other.end()
    library.double_fail(b"cuMemHostRegister_v2", 0, 0)
    # Memory that is none, reaches beyond its allocation, is managed, or was freed.
    library.double_allocate_managed.restype = ctypes.c_uint64
    managed = library.double_allocate_managed(ctypes.c_size_t(4096))
    assert client.register(memory + size - 10, 5000) != 0 and client.register(managed, 4096) != 0
    assert client.release(memory) == 0 and client.release(memory) == 0 and client.callback_max(memory) == -1
    assert client.get(context, memory, 10, 0, 0) == -errno.EINVAL
    freed = driver.allocate(MIB)
    assert client.register(freed, MIB) == 0
    driver.free(freed)
    assert client.get(context, freed, 1000, 0, 0) == client.put(context, freed, 1000, 0, 0) == -errno.EIO
    client.end()
    assert library.double_locked() == locked, "page-locked memory outlives its client"
    driver.free(memory)
