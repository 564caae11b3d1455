#!/usr/bin/python3
"""Blocks: items of batches that the extension makes from hashes, beside the same items made one by one."""
import os
import sys
import unittest

import kv_case

import verbena  # noqa: E402
from verbena.kv._blocks import Blocks  # noqa: E402

SIZE = 1024


class Items(unittest.TestCase):
    def test_they_read_as_get_many_s_items(self):
        hashes = [b"\x01" * 16, b"\xfe" * 32]
        blocks = Blocks("b", "n/", hashes, 10)
        self.assertEqual(list(blocks), [("b", "n/" + "01" * 16, 0, 10), ("b", "n/" + "fe" * 32, 10, 10)])
        self.assertEqual((len(blocks), blocks.bytes, blocks[-1][2], len(blocks[:1])), (2, 20, 10, 1))
        layered = Blocks("b", "n/", hashes, 0, [100, 200], [(0, 4), (4, 6)])
        self.assertEqual([item[2:] for item in layered], [(100, 4, 0, 4), (200, 4, 0, 4), (104, 6, 4, 6), (204, 6, 4, 6)])
        self.assertEqual(layered.bytes, 20)
        self.assertRaises(IndexError, lambda: blocks[2])
        self.assertRaises(ValueError, Blocks, "b", "n/", hashes, 10, [0])
        for wrong in ("text", bytearray(16), 5, None):
            self.assertRaises(TypeError, Blocks, "b", "n/", [hashes[0], wrong], 10)


class Batches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = kv_case.CacheServer().start()
        cls.client = verbena.connect(f"http://{cls.server.at[0]}", native_endpoint=cls.server.at[1], access_key=kv_case.ACCESS_KEY,
                                     secret_key=kv_case.SECRET_KEY)
        cls.client.make_bucket(kv_case.BUCKET)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__(None, None, None)

    def test_more_than_a_message_and_each_door(self):
        count = 5000
        hashes, source, into = [i.to_bytes(16, "big") for i in range(count)], bytearray(os.urandom(count * 8)), bytearray(count * 8)
        stored = Blocks(kv_case.BUCKET, "many/", hashes, 8).put_absent(self.client, source)
        self.assertEqual((stored.failed, stored.present, len(stored)), (0, 0, count))
        self.assertEqual(Blocks(kv_case.BUCKET, "many/", hashes[:3], 8).put_absent(self.client, source).present, 3)
        backwards = range(8 * (count - 1), -1, -8)
        done = Blocks(kv_case.BUCKET, "many/", hashes, 8, backwards).get(self.client, into)
        self.assertEqual((done.failed, done.shorter), (0, 0))
        self.assertEqual(bytes(into), b"".join(bytes(source[at:at + 8]) for at in backwards))
        with verbena.connect(f"http://{self.server.at[0]}", access_key=kv_case.ACCESS_KEY, secret_key=kv_case.SECRET_KEY, via="http") as http:
            few = bytearray(24)
            self.assertEqual(Blocks(kv_case.BUCKET, "many/", hashes[:3], 8).get(http, few).failed, 0)
            self.assertEqual(few, source[:24])

    def test_layers_of_more_items_than_a_message(self):
        blocks, layers = 700, 7
        hashes, size = [i.to_bytes(32, "little") for i in range(blocks)], layers * 4
        source, into = bytearray(os.urandom(blocks * size)), bytearray(blocks * size)
        Blocks(kv_case.BUCKET, "layers/", hashes, size).put_absent(self.client, source).check()
        progress = verbena.Progress()
        parts = [(layer * 4, 4) for layer in range(layers)]
        done = Blocks(kv_case.BUCKET, "layers/", hashes, 0, range(0, blocks * size, size), parts).get(self.client, into, progress)
        self.assertEqual((done.failed, len(done), progress.leading), (0, blocks * layers, blocks * layers))
        self.assertEqual(into, source)

    def test_an_outcome_names_its_block(self):
        done = Blocks(kv_case.BUCKET, "none/", [b"\x0a" * 16], SIZE).get(self.client, bytearray(SIZE))
        self.assertEqual((done.failed, type(done[0].error)), (1, verbena.errors.NoSuchKey))
        self.assertIn("none/" + "0a" * 16, str(done[0].error))

    def test_what_is_wrong_raises(self):
        client, memory = self.client, bytearray(SIZE)
        good = dict(kind=0, bucket=kv_case.BUCKET, prefix="p/", hashes=[b"x" * 16], memory=memory, size=SIZE, offsets=None, layers=None, first=0,
                    count=1, progress=None, lease=0, ttl=0)
        self.assertEqual(client.batch_of_blocks(*good.values()).failed, 1)
        for wrong, error in (({"kind": 2}, ValueError), ({"kind": 9}, TypeError), ({"hashes": ["text"]}, TypeError), ({"hashes": [b""]}, ValueError),
                             ({"hashes": [b"x" * 65]}, ValueError), ({"hashes": []}, ValueError), ({"hashes": None}, TypeError),
                             ({"hashes": 5}, TypeError), ({"offsets": []}, ValueError), ({"offsets": [-1]}, ValueError),
                             ({"offsets": [1]}, ValueError), ({"offsets": [2**63 - 1]}, ValueError), ({"size": SIZE + 1}, ValueError),
                             ({"size": -1}, ValueError), ({"layers": [(0,)]}, TypeError), ({"layers": [(0, "x")]}, TypeError),
                             ({"layers": [(1, SIZE)]}, ValueError), ({"layers": []}, ValueError), ({"first": 1}, ValueError),
                             ({"first": 2**63 - 1}, ValueError), ({"count": 0}, ValueError), ({"count": 2}, ValueError),
                             ({"count": 4097, "hashes": [b"x"] * 4097}, ValueError), ({"memory": 5}, TypeError), ({"memory": b"read only"}, BufferError),
                             ({"progress": object()}, TypeError), ({"bucket": "a\0b"}, ValueError), ({"prefix": None}, TypeError)):
            with self.assertRaises(error, msg=str(wrong)):
                client.batch_of_blocks(*{**good, **wrong}.values())
        self.assertRaises(TypeError, client.batch_of_blocks, 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
