#!/usr/bin/python3
"""Files that are no plain ones, change, or cannot be read: nothing is lost without a word."""
import datetime
import json
import os
import pathlib
import shutil
import stat
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from command_line_case import DENIED, FAILURE, NOT_FOUND, USAGE, CommandLineCase  # noqa: E402
from verbena_server import boto3_client  # noqa: E402

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

    # Links to folders were passed over, and `sync --delete` removed the objects of what they lead to.
    def test_links_to_folders_are_followed(self):
        bucket = self.bucket("linked")
        source, other = self.tree("linked", "a", "data/x", "data/y/deep", "data0"), self.home / "linked-elsewhere"
        all_keys = ["a", "data/x", "data/y/deep", "data0"]
        self.run_program("sync", str(source), bucket)
        (source / "data").rename(other)
        (source / "data").symlink_to(other)
        self.run_program("sync", "--delete", str(source), bucket)
        self.assertEqual(self.keys(bucket), all_keys)
        for command in ("put", "cp"):
            self.run_program(command, "-r", str(source), f"{bucket}/{command}")
            self.assertEqual(self.keys(f"{bucket}/{command}/"), [f"{command}/{key}" for key in all_keys])

    def test_a_link_to_a_folder_that_it_lies_in_is_told_and_removes_nothing(self):
        bucket = self.bucket("looped")
        source = self.tree("looped", "a", "b/c", "z")
        for key in ("b/loop/kept", "y-kept"):
            self.run_program("put", "-", f"{bucket}/{key}", input=b"x")
        (source / "b" / "loop").symlink_to(source)
        done = self.run_program("sync", "--delete", str(source), bucket, expect=FAILURE)
        self.assertIn(f"{source}/b/loop: is a link to a folder that it lies in", done.stderr.decode())
        self.assertEqual(self.keys(bucket), ["a", "b/c", "b/loop/kept", "y-kept", "z"])
        self.run_program("put", "-r", str(source), f"{bucket}/put", expect=FAILURE)
        self.assertEqual(self.keys(f"{bucket}/put/"), ["put/a", "put/b/c", "put/z"])

    def test_what_is_behind_a_link_in_the_target_does_not_belong_to_it(self):
        bucket = self.bucket("link-target")
        target, other = self.tree("link-target", "gone"), self.tree("link-target-elsewhere", "own")
        (target / "link").symlink_to(other)
        self.run_program("put", "-", f"{bucket}/k", input=b"x")
        self.run_program("sync", "--delete", bucket, str(target))
        self.assertEqual(sorted(os.listdir(target)), ["k", "link"])
        self.assertEqual(os.listdir(other), ["own"])
        # Each run fetched anew what it had put there.
        self.run_program("put", "-", f"{bucket}/link/fetched", input=b"x")
        self.run_program("sync", "--delete", bucket, str(target))
        self.assertEqual(sorted(os.listdir(other)), ["fetched", "own"])
        self.assertEqual(self.run_program("sync", "--delete", "--dry-run", bucket, str(target)).stdout, b"")
        self.run_program("put", "-", f"{bucket}/link/fetched", input=b"another")
        self.run_program("sync", "--delete", bucket, str(target))
        self.assertEqual((other / "fetched").read_text(), "another")

    def test_a_run_ends_where_every_call_fails(self):
        bucket, source = self.bucket("all-fail"), self.tree("all-fail", *(f"k{n:02}" for n in range(12)))
        for via in ("native", "http"):
            done = self.run_program("put", "-r", "--via", via, str(source), bucket, env=dict(self.env, AWS_SECRET_ACCESS_KEY="wrong"), expect=DENIED)
            self.assertEqual(done.stderr.count(b"verbena: "), 1, (via, done.stderr))

    # Copies were found by the listing, and copied again.
    def test_a_prefix_is_not_copied_into_itself(self):
        bucket = self.bucket("itself")
        self.run_program("put", "-", f"{bucket}/p/k", input=b"x")
        for places in ((bucket, f"{bucket}/copy"), (f"{bucket}/p", f"{bucket}/p/q/"), (f"{bucket}/p", bucket), (bucket, bucket)):
            for command in (["cp", "-r"], ["sync", "--delete"]):
                self.assertIn(b"would be copied again", self.run_program(*command, *places, expect=USAGE).stderr)
        self.assertEqual(self.keys(bucket), ["p/k"])
        self.run_program("cp", "-r", f"{bucket}/p", f"{bucket}/p2")
        self.assertEqual(self.keys(bucket), ["p/k", "p2/k"])

    def test_an_object_that_is_denied_ends_no_run(self):
        def keys_of(name):
            made = json.loads(self.run_program("user", "add", name, "--json", native=False).stdout)
            return dict(self.env, AWS_ACCESS_KEY_ID=made["access_key"], AWS_SECRET_ACCESS_KEY=made["secret_key"])
        owner, limited = keys_of("denying"), keys_of("denying/limited")
        document = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Resource": "*", "Action": "s3:*"},
            {"Effect": "Deny", "Resource": "arn:aws:s3:::denied/*b", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]}]}
        self.run_program("user", "policy", "put", "denying/limited", "it", "-", input=json.dumps(document).encode(), native=False)
        names = [f"{i}{kind}" for i in range(20) for kind in "abc"]
        passed = sorted(name for name in names if "b" not in name)
        source = self.tree("denied", *names)
        self.run_program("mb", "s3://denied", env=owner)
        self.run_program("put", "-r", str(source), "s3://denied/in", env=limited, expect=DENIED)
        list_all = lambda: [json.loads(line)["key"] for line in  # noqa: E731
                            self.run_program("ls", "-r", "--json", "s3://denied", env=owner).stdout.splitlines()]
        self.assertEqual(list_all(), [f"in/{name}" for name in passed])
        self.run_program("put", "-r", str(source), "s3://denied/in", env=owner)
        for command in ("get", "cp", "sync"):
            folder = self.home / f"denied-{command}"
            recursive = [] if command == "sync" else ["-r"]
            self.run_program(command, *recursive, "s3://denied/in/", str(folder), env=limited, expect=DENIED)
            self.assertEqual(sorted(os.listdir(folder)), passed, command)
        self.run_program("rm", "-r", "s3://denied/in/", env=limited, expect=DENIED)
        self.assertEqual(list_all(), sorted(f"in/{name}" for name in names if "b" in name))

    def test_copies_have_the_headers_that_are_stored_with_an_object(self):
        bucket = self.bucket("headers")
        s3 = boto3_client(self.server.http)
        expires = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
        headers = {"CacheControl": "max-age=60", "ContentDisposition": "attachment", "ContentEncoding": "gzip", "ContentLanguage": "de",
                   "ContentType": "text/x", "Metadata": {"colour": "green"}, "Expires": expires}
        s3.put_object(Bucket="headers", Key="in/k", Body=b"x", **headers)
        for via in ("auto", "http"):
            self.run_program("cp", f"{bucket}/in/k", f"{bucket}/{via}/one", "--via", via)
            self.run_program("sync", f"{bucket}/in/", f"{bucket}/{via}/", "--via", via)
            for key in ("one", "k"):
                head = s3.head_object(Bucket="headers", Key=f"{via}/{key}")
                self.assertEqual({name: head[name] for name in headers}, headers, (via, key))

    def test_names_cannot_steer_the_terminal_of_errors(self):
        bucket, name = self.bucket("steering-errors"), "x\x1b]0;owned\x07\u009b2J\u202e"
        source = self.tree("steering-errors", name)
        place, copy = f"{bucket}/{name}", self.home / "steering-copy"
        for command in (["put", "--verbose", str(source / name), place], ["get", "--verbose", place, str(copy)], ["cat", "--verbose", place],
                        ["cp", "--verbose", place, f"{place}2"], ["get", f"{place}-not-there", str(copy)],
                        ["rm", "--recursive", "--verbose", place]):
            text = self.on_terminal(*command, stream="stderr")
            for steering in (b"\x1b]", "\u009b".encode(), "\u202e".encode()):
                self.assertNotIn(steering, text, command)
            self.assertIn(b"\\x1b]0;owned\\x07\\u{9b}2J\\u{202e}", text, command)

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
