#!/usr/bin/python3
"""Misuse of the Python client: a typed exception each, nothing written after the call, no crash of the interpreter."""
import asyncio
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

from python_case import PythonCase
import verbena

faulthandler.enable()


class Arguments(PythonCase):
    def test_wrong_types(self):
        self.client.put("bucket", "k", b"12345")
        for call in (lambda: self.client.get(1, "k"), lambda: self.client.get("bucket"), lambda: self.client.get("bucket", None),
                     lambda: self.client.put("bucket", "k", "text"), lambda: self.client.put("bucket", "k", 5),
                     lambda: self.client.get_into("bucket", "k", "text"), lambda: self.client.get("bucket", "k", wrong=1),
                     lambda: self.client.put("bucket", "k", b"", metadata=5), lambda: self.client.put("bucket", "k", b"", metadata={1: 2}),
                     lambda: self.client.get("bucket", "k", range=5), lambda: self.client.put_stream("bucket", "k", b"bytes"),
                     lambda: self.client.register(5), lambda: verbena.Client("http://positional"), lambda: verbena.Client(unknown=1),
                     lambda: verbena.Buffer(), lambda: verbena.Client(endpoint=5)):
            with self.assertRaises(TypeError):
                call()
        for call in (lambda: self.client.get("buc\0ket", "k"), lambda: self.client.get("bucket", "k", range=(1, 2, 3)),
                     lambda: self.client.get("bucket", "k", ranges=[]), lambda: self.client.allocate(0),
                     lambda: self.client.put("bucket", "k", b"", checksum="nonsense"),
                     lambda: self.client.put("bucket", "k" * 1025, b"")):
            with self.assertRaises(ValueError):
                call()
        with self.assertRaises(OverflowError):
            self.client.get("bucket", "k", range=(-1, 5))
        self.assertEqual(bytes(self.client.get("bucket", "k")), b"12345")

    def test_parts_of_the_wrong_kind(self):
        for call, exception in ((lambda: self.client.put_part("bucket", "k", "u", "1", b"x"), TypeError), (lambda: self.client.put_part("bucket", "k", "u", 1, "x"), TypeError),
                                (lambda: self.client.put_part("bucket", "k", "u", 1), TypeError), (lambda: self.client.put_part("buc\0ket", "k", "u", 1, b"x"), ValueError),
                                (lambda: self.client.put_part("bucket", "k", "u", 0, b"x"), ValueError), (lambda: self.client.put_part("bucket", "k", "u", 10001, b"x"), ValueError),
                                (lambda: self.client.put_part("bucket", "k", "u", 1, b"x", checksum="nonsense"), ValueError),
                                (lambda: self.client.put_part("bucket", "k", "u", 1, memoryview(bytearray(32))[::2]), BufferError),
                                (lambda: self.client.put_part("bucket", "k", "no-such-upload", 1, b"x"), verbena.errors.NoSuchUpload)):
            with self.assertRaises(exception):
                call()
        with self.connect(via="native") as native, self.assertRaises(verbena.errors.Unsupported):
            native.put_part("bucket", "k", "u", 1, b"x")

    def test_batches_of_arrays_that_cannot_be_used(self):
        self.client.put("bucket", "k", b"12345678")
        item = [("bucket", "k", 0, 8)]
        for memory, exception in ((bytes(8), BufferError), (memoryview(bytearray(32))[::2], BufferError), ("text", TypeError), (None, TypeError), (bytearray(7), ValueError)):
            with self.assertRaises(exception):
                self.client.get_many(item, memory)
        for items in (5, [5], [("bucket", "k", 0.5, 8)], [("bucket", "k", 0, "8")], [("bucket", None, 0, 8)], [("bucket", "k", 0, 8, 9)]):
            with self.assertRaises(TypeError):
                self.client.get_many(items, bytearray(8))
        for items, exception in (([("buc\0ket", "k", 0, 8)], ValueError), ([("bucket", "k", 0, 1 << 70)], OverflowError), ([("bucket", "k", 1 << 62, 1 << 62)], ValueError)):
            with self.assertRaises(exception):
                self.client.get_many(items, bytearray(8))
        self.client.put_many([("bucket", "every-other", memoryview(b"a-b-c-")[::2])]).check()  # copied: not contiguous
        self.assertEqual(bytes(self.client.get("bucket", "every-other")), b"abc")
        results = self.client.batch(0, item, bytearray(8))
        for index in (1, -2, 1 << 40):
            with self.assertRaises(IndexError):
                results[index]
        self.assertEqual(bytes(self.client.get("bucket", "k")), b"12345678")

    def test_arrays_that_cannot_be_filled(self):
        self.client.put("bucket", "k", b"12345678")
        with self.assertRaises(verbena.errors.BufferTooSmall):
            self.client.get_into("bucket", "k", bytearray(7))
        with self.assertRaises(BufferError):
            self.client.get_into("bucket", "k", bytes(8))
        with self.assertRaises(BufferError):
            self.client.get_into("bucket", "k", memoryview(bytearray(32))[::2])
        with self.client.register(bytes(8)) as readonly, self.assertRaises(BufferError):
            self.client.get_into("bucket", "k", readonly)
        released = self.client.allocate(8)
        released.release()
        for call in (lambda: self.client.get_into("bucket", "k", released), lambda: memoryview(released),
                     lambda: released.tobytes(), lambda: released.__dlpack__()):
            with self.assertRaises(ValueError):
                call()
        held = self.client.allocate(8)
        view = memoryview(held)
        with self.assertRaises(BufferError):
            held.release()
        view.release()
        held.release()
        try:
            import numpy
        except ImportError:
            return
        array = numpy.zeros((8, 8), dtype=numpy.uint8)
        with self.assertRaises((BufferError, ValueError)):
            self.client.get_into("bucket", "k", array[:, :1])
        array.flags.writeable = False
        with self.assertRaises((BufferError, ValueError)):
            self.client.get_into("bucket", "k", array)

    def test_an_awaited_call_does_not_fill_what_may_only_be_read(self):
        async def main():
            async with verbena.AsyncClient(client=self.connect()) as client:
                await client.put("bucket", "k", b"x" * 8)
                constant = bytes(8)
                with self.assertRaises(BufferError):
                    await client.get_into("bucket", "k", constant)
                self.assertEqual(constant, bytes(8))
            with self.assertRaises(verbena.errors.Closed):
                await client.get("bucket", "k")
        asyncio.run(main())

    def test_a_reader_that_fails(self):
        def raising(error):
            def read(size):
                raise error
            return read
        for error in (RuntimeError("broken"), KeyboardInterrupt()):
            with self.assertRaises(type(error)) as raised:
                self.client.put_stream("bucket", "never", raising(error))
            self.assertIs(raised.exception, error)
        with self.assertRaises(TypeError):
            self.client.put_stream("bucket", "never", lambda size: 5)
        with self.assertRaises(verbena.errors.LocalError):
            self.client.put_stream("bucket", "never", lambda size: b"x" * (size + 1))
        self.assertFalse(self.client.exists("bucket", "never"))


class Ends(PythonCase):
    def test_a_closed_client_says_so(self):
        client = self.connect()
        buffer = client.allocate(4096)
        client.close()
        client.close()
        self.assertTrue(client.closed)
        for call in (lambda: client.get("bucket", "k"), lambda: client.put("bucket", "k", b""), lambda: client.allocate(5),
                     lambda: list(client.list("bucket")), lambda: client.register(bytearray(5)), lambda: client.buckets(),
                     lambda: client.get_many([("bucket", "k", 0, 5)], bytearray(5)), lambda: client.put_many([("bucket", "k", b"x")]),
                     lambda: client.head_many([("bucket", "k")]), lambda: client.remove_many([("bucket", "k")]),
                     lambda: client.put_part("bucket", "k", "upload", 1, b"x")):
            with self.assertRaises(verbena.errors.Closed):
                call()
        self.assertEqual(bytes(buffer), bytes(4096))  # memory outlives its client
        self.client.put("bucket", "from-orphan", buffer)
        del buffer, client

    def test_threads_race_close(self):
        self.client.put("bucket", "raced", bytes(300_000))
        for _ in range(15):
            client, wrong = self.connect(), []

            def work():
                into = bytearray(300_000)
                while True:
                    try:
                        client.get_into("bucket", "raced", into)
                        client.get("bucket", "raced")
                        client.put("bucket", "raced", into)
                        client.get_many([("bucket", "raced", 0, 300_000)], into)
                        client.head_many([("bucket", "raced")] * 50)
                    except (verbena.errors.Closed, verbena.errors.Cancelled):
                        return
                    except Exception as error:
                        wrong.append(error)
                        return
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(0.02)
            client.close()
            for thread in threads:
                thread.join(30)
                self.assertFalse(thread.is_alive())
            self.assertEqual([repr(one) for one in wrong], [])

    def test_forks(self):
        self.client.put("bucket", "forked", b"parent's")
        buffer = self.client.get("bucket", "forked")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                try:
                    self.client.get("bucket", "forked")
                except verbena.errors.Forked:
                    for call in (lambda: self.client.get_many([("bucket", "forked", 0, 8)], bytearray(8)), lambda: self.client.put_many([("bucket", "x", b"x")])):
                        try:
                            call()
                            os._exit(3)
                        except verbena.errors.Forked:
                            pass
                    with self.connect() as own:
                        status = 0 if bytes(own.get("bucket", "forked")) == b"parent's" else 2
                del buffer
                self.client.close()
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(bytes(buffer), b"parent's")
        self.assertEqual(bytes(self.client.get("bucket", "forked")), b"parent's")

    def test_an_awaited_call_that_is_cancelled_leaves_its_memory_alone(self):
        self.client.put("bucket", "frozen", b"x" * 200_000)

        async def main():
            into = bytearray(200_000)
            async with verbena.AsyncClient(client=self.connect()) as client:
                await client.get_into("bucket", "frozen", into)
                self.server.process.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, self.server.process.pid, os.WSTOPPED)  # all of its threads
                try:
                    task = asyncio.create_task(client.get_into("bucket", "frozen", into))
                    await asyncio.sleep(0.2)
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                    into[:] = bytes(200_000)
                finally:
                    self.server.process.send_signal(signal.SIGCONT)
                await client.head("bucket", "frozen")
                self.assertEqual(into, bytes(200_000))
        asyncio.run(main())

    def test_a_closed_async_client_ends_its_calls_at_a_frozen_server(self):
        self.client.put("bucket", "frozen", b"x" * 200_000)

        async def main():
            client = verbena.AsyncClient(client=self.connect())
            await client.get("bucket", "frozen")
            self.server.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self.server.process.pid, os.WSTOPPED)  # all of its threads
            try:
                calls = [asyncio.create_task(call) for call in (client.get_into("bucket", "frozen", bytearray(200_000)),
                                                                client.head("bucket", "frozen"), client.put("bucket", "x", b"x"))]
                await asyncio.sleep(0.2)
                await asyncio.wait_for(client.close(), 30)  # and not after operation_timeout
                for call in calls:
                    with self.assertRaises(verbena.errors.Cancelled):
                        await call
            finally:
                self.server.process.send_signal(signal.SIGCONT)
        asyncio.run(main())

    def test_an_error_that_quotes_other_letters_is_not_lost(self):
        """Its text is cut to what fits the C API: it was cut inside a letter, and the call lost its outcome."""
        for letters in range(500, 520):
            for name in ("a" + "é" * letters, "a" + "€" * letters, "a" + "\N{GRINNING FACE}" * letters):
                with self.assertRaises(verbena.errors.InvalidArgument) as raised:
                    self.client.put("bucket", "k", b"x", metadata={name: "v"})
                self.assertNotIn("\N{REPLACEMENT CHARACTER}", str(raised.exception))

        async def main():
            async with verbena.AsyncClient(client=self.connect()) as client:
                calls = [client.put("bucket", f"k{i}", b"x", metadata={"a" + "é" * 600: "v"} if i % 2 else {}) for i in range(8)]
                done = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
                self.assertEqual([isinstance(one, verbena.errors.InvalidArgument) for one in done], [i % 2 == 1 for i in range(8)])
        asyncio.run(main())

    def test_the_interpreter_ends_with_calls_under_way(self):
        script = ("import sys, threading; sys.path.insert(0, sys.argv[1]); import verbena\n"
                  "client = verbena.connect(sys.argv[2], native_endpoint=sys.argv[3], access_key=sys.argv[4], secret_key=sys.argv[5])\n"
                  "client.put('bucket', 'end', bytes(100000))\n"
                  "def work():\n"
                  "    while True: client.get('bucket', 'end')\n"
                  "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
                  "kept = client.get('bucket', 'end')\n")
        done = subprocess.run([sys.executable, "-c", script, sys.path[0] if "python" in sys.path[0] else os.environ["CLIENT_PYTHON"],
                               self.server.http, self.server.native, self.keys["access_key"], self.keys["secret_key"]],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Server(PythonCase):
    def test_a_server_that_dies_in_the_middle(self):
        client = self.connect(operation_timeout_ms=5000, attempts_max=1)
        client.put("bucket", "k", bytes(1_000_000))
        failures = []

        def work():
            into = bytearray(1_000_000)
            while True:
                try:
                    client.get_into("bucket", "k", into)
                except verbena.VerbenaError as error:
                    failures.append(error)
                    return
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        self.server.kill()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(len(failures), 3)
        for call in (lambda: client.get_many([("bucket", "k", 0, 1_000_000)], bytearray(1_000_000)), lambda: client.put_many([("bucket", "k", b"x")])):
            try:
                self.assertTrue(call().failed)
            except verbena.VerbenaError:
                pass
        with self.assertRaises(verbena.VerbenaError):
            client.get("bucket", "k")
        client.close()
        self.server.start()
        type(self).client.close()
        type(self).client = self.connect()
        self.assertEqual(bytes(self.client.get("bucket", "k")), bytes(1_000_000))


if __name__ == "__main__":
    unittest.main()
