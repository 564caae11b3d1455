#!/usr/bin/python3
"""Files that are no plain ones, change, or cannot be read: nothing is lost without a word."""
import json
import os
import pathlib
import shutil
import stat
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from command_line_case import FAILURE, NOT_FOUND, USAGE, CommandLineCase  # noqa: E402

# Of root's rights, those to enter every folder are taken.
NOT_EVERYWHERE = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.getuid() == 0 else ()


class Files(CommandLineCase):
    def keys(self, place):
        return [json.loads(line)["key"] for line in self.run_program("ls", "-r", "--json", place).stdout.splitlines()]

    def tree(self, name, *files):
        folder = self.home / name
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(file)
        return folder

    def test_an_upload_of_a_folder_says_what_it_could_not_read_and_stores_the_rest(self):
        bucket = self.bucket("unread-link")
        source = self.tree("unread-link", "a", "c", "d/e")
        (source / "b").symlink_to("b")  # stat() of it fails, and not since it is missing
        done = self.run_program("put", "-r", str(source), f"{bucket}/in", expect=FAILURE)
        self.assertIn(f"{source}/b", done.stderr.decode())
        self.assertEqual(self.keys(bucket), ["in/a", "in/c", "in/d/e"])
        self.run_program("put", "-r", str(source / "none"), bucket, expect=NOT_FOUND)
        self.run_program("put", "-r", str(source / "a"), bucket, expect=USAGE)

    def test_an_upload_of_a_folder_goes_on_behind_one_that_may_not_be_entered(self):
        bucket = self.bucket("unread-folder")
        source = self.tree("unread-folder", "a", "b/x", "c/y", "d")
        (source / "b").chmod(0)
        try:
            done = self.run_program("put", "-r", str(source), bucket, expect=FAILURE, under=NOT_EVERYWHERE)
        finally:
            (source / "b").chmod(0o755)
        self.assertIn(f"{source}/b: Permission denied", done.stderr.decode())
        self.assertEqual(self.keys(bucket), ["a", "c/y", "d"])

    def test_what_is_no_file_is_written_to_and_stays(self):
        bucket = self.bucket("no-file")
        self.run_program("put", "-", f"{bucket}/k", input=b"the bytes")
        fifo = self.home / "fifo"
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self.run_program("get", f"{bucket}/k", str(fifo))
            self.assertEqual(os.read(reader, 100), b"the bytes")
            self.run_program("cp", f"{bucket}/k", str(fifo))
            self.assertEqual(os.read(reader, 100), b"the bytes")
        finally:
            os.close(reader)
        self.assertTrue(stat.S_ISFIFO(fifo.lstat().st_mode))

    def test_a_link_to_standard_output_is_standard_output(self):
        bucket = self.bucket("to-stdout")
        self.run_program("put", "-", f"{bucket}/k", input=b"the bytes")
        link, out = self.home / "as-dev-stdout", self.home / "out"  # which is that link in /dev
        link.symlink_to("/proc/self/fd/1")
        second = self.home / "second"
        second.symlink_to("as-dev-stdout")
        self.assertEqual(self.run_program("get", f"{bucket}/k", str(link)).stdout, b"the bytes")
        with open(out, "wb", buffering=0) as file:
            file.write(b"before, ")
            self.run_program("get", f"{bucket}/k", str(link), stdout=file)
            self.run_program("get", f"{bucket}/k", "/dev/fd/1", stdout=file)
            self.run_program("get", f"{bucket}/k", str(second), stdout=file)
        self.assertEqual(out.read_bytes(), b"before, the bytesthe bytesthe bytes")
        self.assertTrue(link.is_symlink() and second.is_symlink())

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_a_file_that_may_not_be_given_a_name_is_copied_to_one_that_has_it(self):
        bucket, target = self.bucket("no-links"), self.home / "no-links" / "target"
        target.parent.mkdir()
        data = os.urandom(3_000_001)
        self.run_program("put", "-", f"{bucket}/k", input=data)
        for before in (None, b"old"):
            if before:
                target.write_bytes(before)
            self.run_program("get", f"{bucket}/k", str(target), under=(
                "strace", "-f", "-o", "/dev/null", "-e", "trace=linkat", "-e", "inject=linkat:error=EOPNOTSUPP"))
            self.assertEqual(target.read_bytes(), data)
            self.assertEqual(os.listdir(target.parent), ["target"])

    def test_a_tree_is_written_over_files_alone(self):
        bucket = self.bucket("tree-over")
        for key in ("a", "b", "c"):
            self.run_program("put", "-", f"{bucket}/{key}", input=key.encode())
        for command in ("get", "cp"):
            folder = self.home / f"tree-over-{command}"
            folder.mkdir()
            os.mkfifo(folder / "b")
            done = self.run_program(command, "-r", f"{bucket}/", str(folder), expect=FAILURE)
            self.assertIn("that is no file", done.stderr.decode())
            self.assertTrue(stat.S_ISFIFO((folder / "b").lstat().st_mode))
            self.assertEqual([(folder / key).read_text() for key in ("a", "c")], ["a", "c"])

    def test_a_list_of_keys_writes_the_files_that_it_names_and_no_others(self):
        bucket = self.bucket("many-parts")
        long = "n" * 255
        for key in ("x", "x.part", "y", long):
            self.run_program("put", "-", f"{bucket}/{key}", input=key.encode())
        folder, names, outside = self.home / "many-parts", self.home / "many-names", self.home / "outside"
        folder.mkdir()
        outside.write_text("outside")
        (folder / "y.part").symlink_to(outside)
        names.write_text(f"x.part\nx\ny\n{long}\n")
        self.run_program("get", "--many", str(names), f"{bucket}/", str(folder))
        self.assertEqual({path.name: path.read_text() for path in folder.iterdir()},
                         {"x": "x", "x.part": "x.part", "y": "y", "y.part": "outside", long: long})
        self.assertEqual(outside.read_text(), "outside")


if __name__ == "__main__":
    unittest.main()
