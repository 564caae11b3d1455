#!/usr/bin/python3
"""Files that are no plain ones, change, or cannot be read: nothing is lost without a word."""
import json
import os
import pathlib
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


if __name__ == "__main__":
    unittest.main()
