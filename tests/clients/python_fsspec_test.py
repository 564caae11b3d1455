#!/usr/bin/python3
"""fsspec's file system: the calls of pandas, dask, zarr and pyarrow, against a server."""
import gc
import os
import pathlib
import re
import sys
import tempfile
import unittest
import urllib.request

from python_case import PythonCase, skip

try:
    import fsspec
except ImportError:
    skip("no fsspec")
from verbena import errors  # noqa: E402
from verbena.fs import VerbenaFileSystem, _stays_inside  # noqa: E402

DATA = bytes(range(256)) * 4000


class Files(PythonCase):
    def setUp(self):
        self.fs = VerbenaFileSystem(client=self.client, skip_instance_cache=True)

    def gets(self):
        with urllib.request.urlopen(f"http://{self.server.native}/-/metrics") as page:
            return int(float(re.search(r'^verbena_native_requests_total{op="get"} (\S+)', page.read().decode(), re.M)[1]))

    def test_files_are_written_read_listed_and_removed(self):
        with self.fs.open("verbena://bucket/dir/file.bin", "wb") as file:
            for at in range(0, len(DATA), 100_000):
                file.write(DATA[at:at + 100_000])
        with self.fs.open("bucket/dir/file.bin") as file:
            self.assertEqual(file.read(), DATA)
            file.seek(1000)
            self.assertEqual(file.read(7), DATA[1000:1007])
            file.seek(-5, os.SEEK_END)
            self.assertEqual(file.read(), DATA[-5:])
        self.fs.pipe({"bucket/dir/a": b"a", "bucket/dir/sub/b": b"bb"})
        self.assertEqual(self.fs.ls("bucket/dir", detail=False), ["bucket/dir/a", "bucket/dir/file.bin", "bucket/dir/sub"])
        self.assertEqual(self.fs.find("bucket/dir"), ["bucket/dir/a", "bucket/dir/file.bin", "bucket/dir/sub/b"])
        self.assertEqual(self.fs.glob("bucket/dir/*/b"), ["bucket/dir/sub/b"])
        self.assertEqual((self.fs.info("bucket/dir/a")["size"], self.fs.isdir("bucket/dir/sub"), self.fs.isfile("bucket/dir/a")), (1, True, True))
        self.assertIn("bucket", self.fs.ls("", detail=False))
        self.fs.copy("bucket/dir/a", "bucket/dir/c")
        self.assertEqual(self.fs.cat("bucket/dir/c"), b"a")
        self.fs.rm("bucket/dir", recursive=True)
        self.assertFalse(self.fs.exists("bucket/dir"))
        with self.assertRaises(FileNotFoundError):
            self.fs.open("bucket/dir/file.bin")
        with self.assertRaises(FileNotFoundError):
            self.fs.cat_file("bucket/nothing")

    def test_a_tree_is_copied_and_no_key_leads_out_of_its_folder(self):
        for at, bad in enumerate(("../../evil", "../evil", "sub/../../evil", "./evil", "sub/..", "sub/../x", "/x", "sub//x")):
            prefix = f"tree{at}"
            self.fs.pipe({f"bucket/{prefix}/a": b"a", f"bucket/{prefix}/sub/b": b"b"})
            self.client.put("bucket", f"{prefix}/sub/", b"")  # a folder, as consoles make them
            with tempfile.TemporaryDirectory() as folder:
                target = pathlib.Path(folder, "deep", "target")
                target.mkdir(parents=True)
                self.fs.get(f"verbena://bucket/{prefix}/", str(target), recursive=True)
                copied = {"a": b"a", "sub/b": b"b"}
                files = lambda: {str(one.relative_to(target)): one.read_bytes()  # noqa: E731
                                 for one in pathlib.Path(folder).rglob("*") if one.is_file()}
                self.assertEqual(files(), copied)
                self.client.put("bucket", f"{prefix}/{bad}", b"evil")
                sources = (f"bucket/{prefix}", [f"bucket/{prefix}"], f"bucket/{prefix}/*")
                for source in sources[:2] if bad == "/x" else sources:  # no pattern has an empty name
                    with self.assertRaisesRegex(ValueError, "no place in a folder", msg=(bad, source)):
                        self.fs.get(source, str(target), recursive=True)
                    self.assertEqual(files(), copied, (bad, source))
                into = pathlib.Path(folder, "empty")
                into.mkdir()
                with self.assertRaisesRegex(ValueError, "no place in a folder", msg=bad):
                    self.fs.get(f"bucket/{prefix}", str(into), recursive=True)
                self.assertEqual(list(into.iterdir()), [], "nothing is written before the check")
        for path in ("bucket/p//a", "bucket/p/a//", "bucket/p//", "bucket/p/a//b", "other/a/../b"):
            self.assertFalse(_stays_inside(path, "bucket/p"), path)
        for path in ("bucket/p", "bucket/p/", "bucket/p/a/", "bucket/p/..a/b..", "bucket/p/.../c"):
            self.assertTrue(_stays_inside(path, "bucket/p"), path)
        # Some versions of fsspec make a folder with the last part of what is named.
        self.client.put("bucket", "listed/../x", b"evil")
        with tempfile.TemporaryDirectory() as folder:
            for source in ("bucket/listed/..", "bucket/listed/../"):
                with self.assertRaisesRegex(ValueError, "no place in a folder"):
                    self.fs.get(source, f"{folder}/target", recursive=True)
            with self.assertRaisesRegex(ValueError, "no place in a folder"):
                self.fs.get_file("bucket/listed/../x", f"{folder}/target/../x", below="bucket/listed")
            self.fs.get_file("bucket/listed/../x", f"{folder}/named", below="bucket/listed/..")
            self.assertEqual(os.listdir(folder), ["named"])
        # A single file is where its reader says.
        with tempfile.TemporaryDirectory() as folder:
            self.fs.get("bucket/tree0/../../evil", f"{folder}/one")
            self.fs.get(["bucket/tree0/../../evil"], [f"{folder}/two"])
            self.assertEqual([pathlib.Path(folder, name).read_bytes() for name in ("one", "two")], [b"evil"] * 2)

    def test_ranges_travel_together(self):
        self.fs.pipe_file("bucket/ranged", DATA)
        self.fs.pipe_file("bucket/other", b"0123456789")
        starts = [at * 5000 for at in range(150)]
        paths, ends = ["bucket/ranged"] * 150, [at + 1234 for at in starts]
        got = self.fs.cat_ranges(paths + ["bucket/other", "bucket/nothing"], starts + [8, 0], ends + [1000, 1])
        self.assertEqual(got[:150], [DATA[a:b] for a, b in zip(starts, ends)])
        self.assertEqual(got[150], b"89")
        self.assertIsInstance(got[151], FileNotFoundError)
        before = self.gets()
        self.assertEqual(self.fs.cat_ranges(paths[:64], starts[:64], ends[:64]), [DATA[a:b] for a, b in zip(starts[:64], ends)])
        self.assertEqual(self.gets() - before, 1, "64 ranges of one object are one message")
        with self.assertRaises(FileNotFoundError):
            self.fs.cat_ranges(["bucket/nothing"], [0], [1], on_error="raise")
        for start, end in ((None, None), (5, None), (None, 5), (-5, None), (0, -5), (3, 3), (len(DATA) + 5, len(DATA) + 9)):
            self.assertEqual(self.fs.cat_file("bucket/ranged", start, end), DATA[start:end], (start, end))
        self.assertEqual(self.fs.cat_ranges(["bucket/ranged"] * 2, [len(DATA) + 5, 2], [len(DATA) + 9, 4]), [b"", DATA[2:4]])

    def test_a_failed_write_leaves_nothing(self):
        with self.assertRaises(RuntimeError), self.fs.open("bucket/partial", "wb") as file:
            file.write(b"half")
            raise RuntimeError
        self.assertFalse(self.fs.exists("bucket/partial"))
        with self.assertRaises(NotImplementedError):
            self.fs.open("bucket/partial", "ab")

    def test_text_that_failed_leaves_nothing(self):
        with self.assertRaises(RuntimeError), self.fs.open("bucket/partial", "w") as file:
            file.write("half")
            file.flush()
            raise RuntimeError
        self.assertTrue(file.closed)
        self.assertFalse(self.fs.exists("bucket/partial"))
        with self.fs.open("bucket/text", "w", encoding="utf-16", newline="\r\n") as file:
            file.write("all\n")
        self.assertEqual(self.fs.cat("bucket/text"), "all\r\n".encode("utf-16"))
        with self.assertRaises(errors.PreconditionFailed), self.fs.open("bucket/text", "xt") as file:
            file.write("other")

    def test_what_is_compressed_is_stored_or_discarded_as_a_whole(self):
        for mode, what in (("wt", "all"), ("wb", b"all"), ("xb", b"all")):
            for compression in ("gzip", "xz", "infer"):
                with self.fs.open(f"bucket/{mode}-{compression}.bz2", mode, compression=compression) as file:
                    file.write(what)
                with self.fs.open(f"bucket/{mode}-{compression}.bz2", mode.replace("w", "r").replace("x", "r"), compression=compression) as file:
                    self.assertEqual(file.read(), what)
                with self.assertRaises(RuntimeError), self.fs.open("bucket/partial", mode, compression=compression) as file:
                    file.write(what)
                    raise RuntimeError
        with self.fs.open("bucket/plain", "wb", compression="infer") as file:
            file.write(b"all")
        self.assertEqual(self.fs.cat("bucket/plain"), b"all")
        with self.assertWarnsRegex(RuntimeWarning, "it was not closed"):
            file = self.fs.open("bucket/partial", "wt", compression="gzip")
            file.write("half")
            del file
            gc.collect()
        self.assertFalse(self.fs.exists("bucket/partial"))

    def test_a_file_that_is_not_closed_leaves_nothing(self):
        for mode, half in (("wb", b"half"), ("w", "half")):
            with self.assertWarnsRegex(RuntimeWarning, "it was not closed"):
                file = self.fs.open("bucket/partial", mode)
                file.write(half)
                file.flush()
                del file
                gc.collect()
            self.assertFalse(self.fs.exists("bucket/partial"))

    def test_a_file_that_is_closed_while_an_exception_is_handled_is_stored(self):
        ended, other = self.fs.open("bucket/ended", "wb"), self.fs.open("bucket/other", "wb")
        text, more = self.fs.open("bucket/text", "w"), iter(("a", "ll"))
        try:
            while True:
                part = next(more)
                ended.write(part.encode())
                text.write(part)
        except StopIteration:
            ended.close()
            text.close()
            with other:
                other.write(b"all")
        self.assertEqual([self.fs.cat(f"bucket/{name}") for name in ("ended", "text", "other")], [b"all"] * 3)

    def test_a_pattern_whose_paths_lie_in_each_other_is_removed_as_a_whole(self):
        self.fs.pipe({f"bucket/nested/{name}": b"x" for name in ("a", "d/e/f", "d/g", "d-g", "d", "h/i")})
        self.fs.rm("bucket/nested/**", recursive=True)
        self.assertEqual(list(self.client.list("bucket", "nested/")), [])
        self.fs.pipe({f"bucket/nested/{name}": b"x" for name in ("d/e/f", "d/g", "h")})
        self.fs.rm(["bucket/nested/d/e/f", "bucket/nested/d", "bucket/nested/d/g"], recursive=True)
        self.assertEqual([item.key for item in self.client.list("bucket", "nested/")], ["nested/h"])

    # Their paths are those of other objects, which were read and removed in their place.
    def test_keys_with_a_slash_at_their_end_are_no_files(self):
        self.fs.pipe({"bucket/marked/d": b"d", "bucket/marked/e/f": b"f"})
        for key in ("marked/", "marked/d/", "marked/e/"):
            self.client.put("bucket", key, b"marker")
        self.assertEqual(self.fs.find("bucket/marked"), ["bucket/marked/d", "bucket/marked/e/f"])
        self.assertEqual([self.fs.cat(path) for path in self.fs.find("bucket/marked")], [b"d", b"f"])
        self.fs.pipe_file("bucket/marked-too", b"stays")
        self.fs.rm("bucket/marked/e", recursive=True)
        keys = lambda: [item.key for item in self.client.list("bucket", "marked")]  # noqa: E731
        self.assertEqual(keys(), ["marked-too", "marked/", "marked/d", "marked/d/"])
        self.fs.rm("bucket/marked", recursive=True)
        self.assertEqual(keys(), ["marked-too"])
        with self.assertRaises(FileNotFoundError):
            self.fs.rm("bucket/marked", recursive=True)

    def test_a_copy_has_the_headers_that_are_stored_with_an_object(self):
        headers = {"cache-control": "max-age=60", "content-disposition": "attachment", "content-encoding": "gzip",
                   "content-language": "de", "expires": "Wed, 21 Oct 2026 07:28:00 GMT"}
        self.client.put("bucket", "described", b"x", content_type="text/x", metadata={"colour": "green"}, headers=headers)
        self.fs.copy("bucket/described", "bucket/described-too")
        got = self.client.head("bucket", "described-too")
        self.assertEqual({name: value for name, value in got.headers.items() if name in headers}, headers)
        self.assertEqual((got.content_type, got.metadata), ("text/x", {"colour": "green"}))
        with self.assertRaises(errors.InvalidArgument):
            self.client.put("bucket", "described", b"x", headers={"authorization": "x"})

    def test_a_file_is_of_the_version_that_was_opened(self):
        self.fs.pipe_file("bucket/changed", b"1" * 100)
        with self.fs.open("bucket/changed", cache_type="none") as file:
            self.assertEqual(file.read(10), b"1" * 10)
            self.fs.pipe_file("bucket/changed", b"2" * 100)
            with self.assertRaises(Exception):
                file.read(10)

    def test_ranges_that_take_several_messages_are_of_one_version(self):
        self.fs.pipe_file("bucket/changing", b"a" * 200)
        get = self.client.get

        class Overwritten:  # between the first message and the next
            def __getattr__(self, name):
                return getattr(files.client, name)

            def get(self, *names, **options):
                got = get(*names, **options)
                files.client.put(*names, b"b" * 200)
                return got
        files, fs = self, VerbenaFileSystem(client=Overwritten(), skip_instance_cache=True)
        got = fs.cat_ranges(["bucket/changing"] * 100, list(range(100)), [at + 1 for at in range(100)])
        self.assertEqual({type(one) for one in got}, {errors.PreconditionFailed}, "bytes of two versions as those of one")
        self.fs.pipe_file("bucket/changing", b"a" * 200)
        self.assertEqual(fs.cat_file("bucket/changing", -3), b"aaa")

    def test_options_come_from_the_url_s_user(self):
        fsspec.register_implementation("verbena", VerbenaFileSystem, clobber=True)
        options = {"endpoint": self.server.http, "native_endpoint": self.server.native, **self.keys}
        with fsspec.open("verbena://bucket/by-url.csv", "w", **options) as file:
            file.write("a,b\n1,2\n")
        with fsspec.open("verbena://bucket/by-url.csv", "r", **options) as file:
            self.assertEqual(file.read(), "a,b\n1,2\n")
        try:
            import pandas
        except ImportError:
            return
        frame = pandas.read_csv("verbena://bucket/by-url.csv", storage_options=options)
        self.assertEqual(frame["b"].tolist(), [2])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
