#!/usr/bin/python3
"""The command line as used by people and scripts."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from command_line_case import CONFLICT, CONNECTION, DENIED, FAILURE, NOT_FOUND, OK, USAGE, CommandLineCase  # noqa: E402
from verbena_server import Server, boto3_client, client_environment, program  # noqa: E402

MIB = 1024 * 1024


class CommandLine(CommandLineCase):
    def test_what_was_put_comes_back_through_every_door(self):
        bucket = self.bucket("round-trip")
        for size in (0, 1, 5000, 3 * MIB + 1, 70 * MIB):
            source, target = self.home / "source", self.home / "target"
            source.write_bytes(os.urandom(size))
            for via in ("auto", "native", "token", "http"):
                with self.subTest(size=size, via=via):
                    self.run_program("put", str(source), f"{bucket}/k {size}", "--via", via)
                    done = self.run_program("get", f"{bucket}/k {size}", str(target), "--via", via, "--verbose")
                    self.assertEqual(source.read_bytes(), target.read_bytes())
                    if size > 0:
                        self.assertIn({"auto": "by native", "native": "by native"}.get(via, f"by {via}"), done.stderr.decode())
        self.run_program("rb", "--force", bucket)

    def test_a_bound_is_set_shown_and_cleared(self):
        bucket = self.bucket("bounded")
        self.assertEqual(self.run_program("bound", "show", bucket).stdout, b"no bound\n")
        self.run_program("bound", "set", bucket, "--bytes", "10GiB", "--policy", "lru", "--renew-on-read")
        told = json.loads(self.run_program("bound", "show", "--json", bucket).stdout)
        self.assertEqual(told, {"bytes_max": 10 << 30, "policy": "lru", "renew_on_read": True, "keep_suffix": "/namespace.json"})
        self.run_program("bound", "set", bucket, "--objects", "3", "--keep-suffix", "")
        self.assertIn(b"objects         3\n", self.run_program("bound", "show", bucket).stdout)
        for key in range(9):
            self.run_program("put", "-", f"{bucket}/{key}", input=b"x")
        self.assertLessEqual(len(self.run_program("ls", bucket).stdout.splitlines()), 3)
        self.run_program("bound", "clear", bucket)
        self.assertEqual(json.loads(self.run_program("bound", "show", "--json", bucket).stdout), {})
        for wrong in ([bucket], [bucket, "--bytes", "much"], [bucket, "--objects", "-1"], [bucket, "--objects", "3", "--policy", "best"],
                      [bucket + "/prefix", "--objects", "3"]):
            self.run_program("bound", "set", *wrong, expect=USAGE)
        self.run_program("bound", "show", "s3://no-such-bucket", expect=NOT_FOUND)
        self.run_program("rb", "--force", bucket)

    def test_a_bucket_with_versions_is_not_emptied_by_hiding_all_of_it(self):
        bucket = self.bucket("versioned")
        s3 = boto3_client(self.server.http)
        s3.put_bucket_versioning(Bucket=bucket[5:], VersioningConfiguration={"Status": "Enabled"})
        self.run_program("put", "-", f"{bucket}/k", input=b"x")
        self.assertIn(b"has versions", self.run_program("rb", "--force", bucket, expect=CONFLICT).stderr)
        self.assertEqual(self.run_program("cat", f"{bucket}/k").stdout, b"x")
        self.assertEqual(len(s3.list_object_versions(Bucket=bucket[5:])["Versions"]), 1)

    def test_a_bucket_is_emptied_by_who_may_not_read_its_objects(self):
        def keys_of(name):
            made = json.loads(self.run_program("user", "add", name, "--json", native=False).stdout)
            return dict(self.env, AWS_ACCESS_KEY_ID=made["access_key"], AWS_SECRET_ACCESS_KEY=made["secret_key"])
        owner, remover = keys_of("emptied"), keys_of("emptied/remover")
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "*", "Action": [
            "s3:ListBucket", "s3:DeleteObject", "s3:DeleteBucket"]}]}
        self.run_program("user", "policy", "put", "emptied/remover", "it", "-", input=json.dumps(document).encode(), native=False)
        self.run_program("mb", "s3://unread", env=owner)
        self.run_program("put", "-", "s3://unread/k", input=b"x", env=owner)
        self.run_program("stat", "s3://unread/k", env=remover, expect=DENIED)
        self.run_program("rb", "--force", "s3://unread", env=remover)

    def test_standard_input_and_output(self):
        bucket = self.bucket("pipes")
        data = os.urandom(200_000)
        self.run_program("put", "-", f"{bucket}/piped", input=data)
        self.assertEqual(self.run_program("get", f"{bucket}/piped", "-").stdout, data)
        self.run_program("put", "-", f"{bucket}/", input=b"x", expect=USAGE)

    def test_a_reader_that_goes_away_ends_the_command(self):
        bucket = self.bucket("broken-pipe")
        self.run_program("put", "-", f"{bucket}/k", input=os.urandom(2 * MIB))
        child = subprocess.Popen([program(), "get", f"{bucket}/k", "-", "--native", self.server.native], env=self.env,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        child.stdout.read(10)
        child.stdout.close()
        error = child.stderr.read().decode()
        child.stderr.close()
        self.assertEqual(child.wait(30), FAILURE, error)
        self.assertIn("Broken pipe", error)

    def test_watch_prints_a_line_for_each_change_until_it_is_interrupted(self):
        bucket = self.bucket("watched")
        for flags in ((), ("--json",)):
            child = subprocess.Popen([program(), "watch", f"{bucket}/in/", "--native", self.server.native, *flags], env=self.env,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(child.stderr.readline(), f"watching {bucket}/in/\n")
            self.run_program("put", "-", f"{bucket}/out/k", input=b"nothing to it")
            self.run_program("put", "-", f"{bucket}/in/k", input=b"body")
            self.run_program("rm", f"{bucket}/in/k")
            lines = [child.stdout.readline() for _ in range(2)]
            child.send_signal(signal.SIGINT)
            rest, error = child.communicate(timeout=30)
            self.assertEqual((child.returncode, rest, error), (OK, "", ""))
            if flags:
                created, removed = map(json.loads, lines)
                self.assertEqual((created["event"], created["key"], created["size"]), ("created", "in/k", 4))
                self.assertEqual((removed["event"], removed["etag"]), ("removed", ""))
                self.assertGreater(removed["number"], created["number"])
            else:
                self.assertRegex(lines[0], r"^20\S+Z +created +4  in/k\n$")
                self.assertRegex(lines[1], r"^20\S+Z +removed +0  in/k\n$")
        done = self.run_program("watch", bucket, "--via", "http", expect=FAILURE)
        self.assertIn("native door", done.stderr.decode())
        self.run_program("watch", "s3://no-such-bucket-here", expect=NOT_FOUND)
        self.run_program("watch", expect=USAGE)

    def test_a_watch_shows_strangers_keys_as_text_and_ends_when_nobody_reads(self):
        bucket = self.bucket("watched-keys")
        key = "evil\x1b[2J\u202ekey"
        for flags in ((), ("--json",)):
            child = subprocess.Popen([program(), "watch", bucket, "--native", self.server.native, *flags], env=self.env,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            child.stderr.readline()
            self.run_program("put", "-", f"{bucket}/{key}", input=b"x")
            line = child.stdout.readline()
            self.assertTrue(line.strip() and all(0x20 <= byte < 0x7f for byte in line[:-1]), line)
            if flags:
                self.assertEqual(json.loads(line)["key"], key)
            else:
                self.assertIn(rb"evil\x1b[2J\u{202e}key", line)
            child.stdout.close()  # without another change
            self.assertEqual((child.wait(30), child.stderr.read()), (OK, b""))
            child.stderr.close()

    def test_exit_codes_tell_what_went_wrong(self):
        bucket = self.bucket("exit-codes")
        cases = [
            (("get", f"{bucket}/nothing", "-"), NOT_FOUND, "no such key"),
            (("get", "s3://no-such-bucket-here/k", "-"), NOT_FOUND, "bucket"),
            (("stat", f"{bucket}/nothing"), NOT_FOUND, "verbena: s3://exit-codes/nothing"),
            (("put", str(self.home / "no file"), f"{bucket}/k"), NOT_FOUND, "No such file"),
            (("get", "nothing", "-"), USAGE, "s3://"),
            (("get", f"{bucket}", "-"), USAGE, "key"),
            (("mb", f"{bucket}/key"), USAGE, "without a key"),
            (("put",), USAGE, "required"),
            (("ls", "--nonsense"), USAGE, "nonsense"),
            (("frobnicate",), USAGE, ""),
            (("ls", f"{bucket}/none/"), NOT_FOUND, "no key"),
        ]
        for args, code, words in cases:
            with self.subTest(args=args):
                done = self.run_program(*args, expect=code, native=args[0] != "frobnicate")
                self.assertIn(words, (done.stderr + done.stdout).decode())
        self.run_program("put", "-", f"{bucket}/k", input=b"x")
        self.run_program("rb", bucket, expect=CONFLICT)
        self.run_program("get", f"{bucket}/k", "-", env=dict(self.env, AWS_SECRET_ACCESS_KEY="wrong"), expect=DENIED)
        self.run_program("get", f"{bucket}/k", "-", env=dict(self.env, AWS_ACCESS_KEY_ID="WRONG"), expect=DENIED)
        self.run_program("ls", "--endpoint", "http://127.0.0.1:1", "--via", "http", expect=CONNECTION)
        keyless = {k: v for k, v in self.env.items() if not k.startswith("AWS_ACCESS")}
        self.assertIn("AWS_ACCESS_KEY_ID", self.run_program("ls", env=keyless, expect=USAGE).stderr.decode())

    def test_a_failed_download_leaves_nothing_behind(self):
        bucket = self.bucket("no-partials")
        folder = self.home / "downloads"
        folder.mkdir()
        self.run_program("get", f"{bucket}/nothing", str(folder / "file"), expect=NOT_FOUND)
        self.run_program("get", f"{bucket}/nothing", str(folder) + "/", expect=NOT_FOUND)
        self.assertEqual(list(folder.iterdir()), [])

    def test_folders_go_there_and_back(self):
        bucket = self.bucket("folders")
        source, target = self.home / "tree", self.home / "copy"
        for name in ("a", "sub/b", "sub/deep/c d"):
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode() * 100)
        self.run_program("put", "-r", str(source), f"{bucket}/in/")
        self.run_program("get", "-r", f"{bucket}/in/", str(target))
        for path in source.rglob("*"):
            if path.is_file():
                self.assertEqual((target / path.relative_to(source)).read_bytes(), path.read_bytes())
        one_level = self.run_program("ls", f"{bucket}/in/").stdout.decode()
        self.assertIn("in/sub/", one_level)
        self.assertNotIn("in/sub/b", one_level)
        all_keys = [json.loads(line)["key"] for line in self.run_program("ls", "-r", "--json", bucket).stdout.splitlines()]
        self.assertEqual(all_keys, ["in/a", "in/sub/b", "in/sub/deep/c d"])
        self.run_program("rm", "-r", f"{bucket}/in/sub/")
        self.assertEqual(len(self.run_program("ls", "-r", "--json", bucket).stdout.splitlines()), 1)

    def tree(self, name, files):
        folder = self.home / name
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return folder

    def contents(self, folder):
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def keys(self, place):
        return [json.loads(line)["key"] for line in self.run_program("ls", "-r", "--json", place).stdout.splitlines()]

    def summary(self, done):
        """(copied, removed, the same)"""
        match = re.search(r"(\d+) copied \(.*\), (\d+) removed, (\d+) the same", done.stderr.decode())
        return tuple(map(int, match.groups()))

    def test_sync_copies_what_differs_both_ways_and_nothing_else(self):
        bucket = self.bucket("sync")
        # Names around the '/' in byte order: a walk in another order would copy them again.
        files = {"a": b"1", "a!b": b"2", "a/b": b"3", "a/c/d": b"4" * 3000, "a0": b"5", "b c/\u00fc": b"6", "empty": b""}
        files.update({f"many/{i:03}": os.urandom(i * 10) for i in range(150)})
        source, target = self.tree("sync-from", {name: data for name, data in files.items() if name != "a"}), self.home / "sync-to"
        files.pop("a")
        for via in ("auto", "http"):
            with self.subTest(via=via):
                place = f"{bucket}/{via}"
                done = self.run_program("sync", str(source), place, "--via", via, "-n")
                self.assertEqual((self.summary(done), len(done.stdout.splitlines())), ((len(files), 0, 0), len(files)))
                self.assertIn(f"would copy {source}/a0 to {place}/a0", done.stdout.decode())
                self.run_program("ls", f"{place}/", expect=NOT_FOUND)
                self.assertEqual(self.summary(self.run_program("sync", str(source), place, "--via", via)), (len(files), 0, 0))
                self.assertEqual(self.summary(self.run_program("sync", str(source), place, "--via", via)), (0, 0, len(files)))
                folder = target / via
                self.assertEqual(self.summary(self.run_program("sync", f"{place}/", str(folder), "--via", via)), (len(files), 0, 0))
                self.assertEqual(self.contents(folder), files)
                self.assertEqual(self.summary(self.run_program("sync", f"{place}/", str(folder), "--via", via)), (0, 0, len(files)))
                # And back: downloaded files are not newer than their objects.
                self.assertEqual(self.summary(self.run_program("sync", str(folder), place, "--via", via)), (0, 0, len(files)))

    def test_sync_removes_no_object_of_a_file_that_cannot_be_looked_at(self):
        bucket = self.bucket("sync-unseen")
        source = self.tree("unseen", {"kept": b"k", "unseen": b"u"})
        self.run_program("sync", str(source), bucket)
        (source / "unseen").unlink()
        (source / "unseen").symlink_to("unseen")  # stat() of it fails, and not since it is missing
        done = self.run_program("sync", "--delete", str(source), bucket, expect=FAILURE)
        self.assertIn("unseen", done.stderr.decode())
        self.assertEqual(self.keys(bucket), ["kept", "unseen"])
        (source / "unseen").unlink()
        (source / "unseen").symlink_to("nothing")
        self.assertEqual(self.summary(self.run_program("sync", "--delete", str(source), bucket)), (0, 1, 1))

    def test_downloaded_files_have_the_mode_that_the_umask_leaves(self):
        bucket = self.bucket("modes")
        source = self.tree("modes", {f"{i // 20}/{i:03}": b"x" for i in range(400)})
        self.run_program("sync", str(source), bucket)
        back = self.home / "modes-back"
        before = os.umask(0o027)
        try:
            self.run_program("cp", "--recursive", bucket, str(back))
        finally:
            os.umask(before)
        modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in back.rglob("*")}
        self.assertEqual(modes, {(True, 0o750), (False, 0o640)})

    def test_names_cannot_steer_a_terminal(self):
        bucket = self.bucket("steering")
        source = self.tree("steering", {"x\x1b]0;owned\x07": b"x"})
        self.run_program("sync", str(source), bucket)
        for command in (["ls", bucket], ["cp", "-n", "--recursive", bucket, str(self.home / "nowhere")],
                        ["stat", f"{bucket}/x\x1b]0;owned\x07"]):
            text = self.on_terminal(*command, stream="stdout", check=True)
            self.assertNotIn(b"\x1b]", text)
            self.assertIn(b"\\x1b]0;owned", text)
        self.assertIn(b"\x1b]0;owned", self.run_program("ls", bucket).stdout)  # other programs want the name

    def test_sync_finds_what_changed_and_removes_only_when_told_to(self):
        bucket = self.bucket("sync-changes")
        source = self.tree("changes", {"kept": b"k", "longer": b"1", "newer": b"aaa", "gone": b"g", "sub/gone": b"g"})
        folder = self.home / "changes-copy"
        self.run_program("sync", str(source), bucket)
        self.run_program("sync", bucket, str(folder))
        (source / "longer").write_bytes(b"12")
        (source / "newer").write_bytes(b"bbb")
        future = os.stat(source / "newer").st_mtime + 60
        os.utime(source / "newer", (future, future))
        (source / "gone").unlink()
        (source / "sub" / "gone").unlink()
        self.assertEqual(self.summary(self.run_program("sync", "--size-only", "-n", str(source), bucket)), (1, 0, 2))
        self.assertEqual(self.summary(self.run_program("sync", str(source), bucket)), (2, 0, 1))
        self.assertEqual(self.keys(bucket), ["gone", "kept", "longer", "newer", "sub/gone"])
        done = self.run_program("sync", "--delete", "--dry-run", str(source), bucket)
        self.assertEqual(self.summary(done), (1, 2, 2))  # the file from the future is newer than its object
        self.assertIn(f"would delete {bucket}/sub/gone", done.stdout.decode())
        self.assertEqual(len(self.keys(bucket)), 5)
        done = self.run_program("sync", "--delete", str(source), bucket, "--verbose")
        self.assertIn(f"delete {bucket}/gone", done.stdout.decode())
        self.assertEqual(self.keys(bucket), ["kept", "longer", "newer"])
        self.assertEqual(self.summary(self.run_program("sync", "--delete", bucket, str(folder)))[1], 2)
        self.assertEqual(self.contents(folder), self.contents(source))
        # An unreadable source removes nothing.
        for wrong in (str(self.home / "no-such-folder"), "s3://no-such-bucket/"):
            self.run_program("sync", "--delete", wrong, f"{bucket}/" if not wrong.startswith("s3:") else str(folder), expect=NOT_FOUND)
        self.assertEqual(len(self.keys(bucket)), 3)
        self.assertEqual(self.contents(folder), self.contents(source))
        for wrong in ((str(source), str(folder)), ("s3://", str(folder)), (str(source), "s3://UPPER/")):
            self.run_program("sync", *wrong, expect=USAGE)

    def test_sync_of_nothing_copies_nothing_and_empties_only_what_it_is_told_to(self):
        bucket = self.bucket("sync-nothing")
        folder = self.tree("nothing-kept", {"a": b"1", "sub/b": b"2"})
        kept = self.contents(folder)
        nowhere = f"{bucket}/no-such-prefix/"
        self.assertEqual(self.summary(self.run_program("sync", nowhere, str(folder))), (0, 0, 0))
        self.assertEqual(self.summary(self.run_program("sync", nowhere, f"{bucket}/there/")), (0, 0, 0))
        self.assertEqual(self.summary(self.run_program("sync", "--delete", nowhere, str(self.home / "not-there-yet"))), (0, 0, 0))
        # The name may be mistyped: an absent source removes nothing.
        self.run_program("sync", str(folder), f"{bucket}/there/")
        for target in (str(folder), f"{bucket}/there/"):
            for more in ((), ("--dry-run",)):
                done = self.run_program("sync", "--delete", *more, nowhere, target, expect=NOT_FOUND)
                self.assertIn("--allow-empty", done.stderr.decode())
        self.assertEqual((self.contents(folder), self.keys(bucket)), (kept, ["there/a", "there/sub/b"]))
        self.run_program("cp", "-r", nowhere, str(folder), expect=NOT_FOUND)
        self.assertEqual(self.summary(self.run_program("sync", "--delete", "--allow-empty", "-n", nowhere, str(folder))), (0, 2, 0))
        self.assertEqual(self.contents(folder), kept)
        self.assertEqual(self.summary(self.run_program("sync", "--delete", "--allow-empty", nowhere, str(folder))), (0, 2, 0))
        self.assertEqual((self.contents(folder), self.keys(bucket)), ({}, ["there/a", "there/sub/b"]))
        # A source that exists and is empty counts.
        self.assertEqual(self.summary(self.run_program("sync", "--delete", str(folder), f"{bucket}/there/")), (0, 2, 0))
        again = self.tree("nothing-again", {"a": b"1"})
        self.assertEqual(self.summary(self.run_program("sync", "--delete", bucket, str(again))), (0, 1, 0))
        self.assertEqual(self.contents(again), {})

    def test_a_sync_that_was_killed_goes_on_where_it_was(self):
        bucket = self.bucket("sync-killed")
        source = self.tree("killed", {f"{i:03}": os.urandom(400_000) for i in range(200)})
        folder = self.home / "killed-copy"
        for way in ((str(source), bucket), (bucket, str(folder))):
            child = subprocess.Popen([program(), "sync", *way, "--native", self.server.native, "-v", "-j", "2"], env=self.env,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            child.stdout.readline()
            child.kill()
            child.wait(30)
            child.stdout.close()
            copied, _, same = self.summary(self.run_program("sync", *way))
            self.assertGreater(same, 0)
            self.assertEqual(copied + same, 200)
        self.assertEqual(self.contents(folder), self.contents(source))  # and no file that was not whole

    def test_sync_goes_on_past_keys_that_are_no_file_names(self):
        bucket = self.bucket("sync-escapes")
        self.run_program("put", "-", f"{bucket}/../evil", input=b"x")
        self.run_program("put", "-", f"{bucket}/good", input=b"y")
        folder = self.home / "sync-inner" / "folder"
        done = self.run_program("sync", bucket, str(folder), expect=FAILURE)
        self.assertIn("not a safe file name", done.stderr.decode())
        self.assertEqual(self.contents(self.home / "sync-inner"), {"folder/good": b"y"})

    def test_cp_and_cat(self):
        bucket = self.bucket("cp-and-cat")
        data = os.urandom(300_000)
        one, two = self.home / "cp-one", self.home / "cp-two"
        one.write_bytes(data)
        self.run_program("cp", str(one), f"{bucket}/in/")
        self.run_program("cp", f"{bucket}/in/cp-one", str(two))
        self.assertEqual(two.read_bytes(), data)
        self.run_program("cp", "-", f"{bucket}/piped", input=b"piped")
        self.assertEqual(self.run_program("cp", f"{bucket}/piped", "-").stdout, b"piped")
        self.assertEqual(self.run_program("cat", f"{bucket}/piped", f"{bucket}/in/cp-one", f"{bucket}/piped").stdout,
                         b"piped" + data + b"piped")
        self.run_program("cat", f"{bucket}/nothing", expect=NOT_FOUND)
        self.run_program("cat", bucket, expect=USAGE)
        # From key to key, in pieces for large objects, with metadata.
        large = os.urandom(MIB) * 70
        self.run_program("put", "-", f"{bucket}/large", "--content-type", "text/x", "--meta", "colour=green", input=large)
        for key in ("in/cp-one", "large"):
            self.run_program("cp", f"{bucket}/{key}", f"{bucket}/copies/")
            self.assertEqual(self.run_program("cat", f"{bucket}/copies/{key.split('/')[-1]}").stdout, data if key != "large" else large)
        known = json.loads(self.run_program("stat", "--json", f"{bucket}/copies/large").stdout)
        self.assertEqual((known["content_type"], known["metadata"]), ("text/x", {"colour": "green"}))
        self.run_program("cp", "-r", f"{bucket}/copies", f"{bucket}/tree")
        self.assertEqual(self.keys(f"{bucket}/tree/"), ["tree/cp-one", "tree/large"])
        self.run_program("cp", "-r", f"{bucket}/tree", str(self.home / "cp-tree"))
        self.assertEqual(sorted(self.contents(self.home / "cp-tree")), ["cp-one", "large"])
        self.run_program("cp", "-r", str(self.home / "cp-tree"), f"{bucket}/back/")
        self.assertEqual(self.keys(f"{bucket}/back/"), ["back/cp-one", "back/large"])
        for wrong in ((str(one), str(two)), (f"{bucket}/", f"{bucket}/x")):
            self.run_program("cp", *wrong, expect=USAGE)
        self.run_program("cp", f"{bucket}/nothing", f"{bucket}/x", expect=NOT_FOUND)

    def test_logs_grow_and_objects_get_other_names(self):
        bucket = "s3://cli-logs--local1-az1--x-s3"
        self.run_program("mb", bucket)
        line = self.home / "line"
        line.write_bytes(b"from a file\n")
        for via in ("native", "http"):
            log = f"{bucket}/{via}"
            self.run_program("append", "--via", via, str(line), log)
            self.run_program("append", "--via", via, "-", log, input=b"from a pipe\n")
            self.assertEqual(self.run_program("cat", log).stdout, b"from a file\nfrom a pipe\n")
            self.run_program("mv", "--via", via, log, log + ".1")
            self.run_program("mv", "--via", via, log, log + ".1", expect=NOT_FOUND)
            self.assertEqual(self.run_program("cat", log + ".1").stdout, b"from a file\nfrom a pipe\n")
            large = os.urandom(17 << 20)  # two changes
            self.run_program("append", "--via", via, "-", log, input=large)
            self.assertEqual(self.run_program("cat", log).stdout, large)
        self.run_program("append", str(self.home / "nothing"), f"{bucket}/k", expect=NOT_FOUND)
        self.run_program("append", str(line), bucket, expect=USAGE)
        self.run_program("mv", f"{bucket}/native.1", f"{self.bucket('elsewhere')}/k", expect=USAGE)

    def test_du_sums(self):
        bucket = self.bucket("du-sums")
        for key, size in (("a/1", 1000), ("a/2", 500), ("b", 24)):
            self.run_program("put", "-", f"{bucket}/{key}", input=bytes(size))
        for place, objects, size in ((bucket, 3, 1524), (f"{bucket}/a/", 2, 1500)):
            said = json.loads(self.run_program("du", "--json", place).stdout)
            self.assertEqual((said["objects"], said["bytes"]), (objects, size))
            self.assertEqual(self.run_program("du", place).stdout.split()[:2], [b"%d" % size, b"%d" % objects])
        each = [json.loads(line) for line in self.run_program("du", "--json").stdout.splitlines()]
        self.assertIn((bucket, 3, 1524, 0), [(one["place"], one["objects"], one["bytes"], one["upload_bytes"]) for one in each])
        listed = [json.loads(line) for line in self.run_program("du", "--json", "--list").stdout.splitlines()]
        self.assertIn({"place": bucket, "objects": 3, "bytes": 1524}, listed)
        self.run_program("du", f"{bucket}/nothing", expect=NOT_FOUND)
        self.run_program("du", "s3://no-such-bucket", expect=NOT_FOUND)

    def test_presigned_addresses_work_without_keys(self):
        bucket = self.bucket("presigned")
        self.run_program("put", "-", f"{bucket}/a key/\u00fc+?", input=b"signed")
        url = self.run_program("presign", f"{bucket}/a key/\u00fc+?", native=False).stdout.decode().strip()
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.assertEqual(answer.read(), b"signed")
        put = self.run_program("presign", f"{bucket}/new", "--method", "PUT", "--expires", "15m", native=False).stdout.decode().strip()
        self.assertIn("X-Amz-Expires=900", put)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(put, timeout=30)  # valid for PUT, not for GET
        refused.exception.close()
        with urllib.request.urlopen(urllib.request.Request(put, data=b"by url", method="PUT"), timeout=30) as answer:
            self.assertEqual(answer.status, 200)
        self.assertEqual(self.run_program("cat", f"{bucket}/new").stdout, b"by url")
        for expires in ("0", "8d", "-1", "1x", "m", "99999999999999999999"):
            self.run_program("presign", f"{bucket}/k", f"--expires={expires}", native=False, expect=USAGE)
        self.run_program("presign", bucket, native=False, expect=USAGE)
        self.run_program("presign", f"{bucket}/k", "--anonymous", native=False, expect=USAGE)

    def test_shells_complete_the_commands(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.run_program("completion", shell, native=False).stdout.decode()
            for command in ("cp", "sync", "cat", "presign", "du"):
                self.assertRegex(script, rf"\bverbena {command}\b|'{command}[:' ]|-a {command}\b", f"{shell}: {command}")
        script = self.home / "verbena.bash"
        script.write_bytes(self.run_program("completion", "bash", native=False).stdout)
        offered = subprocess.run(["bash", "-c", 'source "$0"; COMP_WORDS=(verbena sync --); COMP_CWORD=2; _verbena; echo "${COMPREPLY[@]}"',
                                  str(script)], capture_output=True, text=True, check=True, timeout=60).stdout.split()
        for option in ("--delete", "--dry-run", "--jobs", "--size-only"):
            self.assertIn(option, offered)

    def test_a_list_of_keys_is_fetched_in_batches(self):
        bucket = self.bucket("many")
        data = {f"set/{i}/file": os.urandom(i * 3000) for i in range(12)}
        for key, content in data.items():
            self.run_program("put", "-", f"{bucket}/{key}", input=content)
        names = self.home / "names"
        names.write_text("".join(f"{key.removeprefix('set/')}\n" for key in data))
        for via in ("native", "http"):
            folder = self.home / f"many-{via}"
            done = self.run_program("get", "--many", str(names), f"{bucket}/set/", str(folder), "--via", via, "-v")
            self.assertIn(via, done.stderr.decode())
            for key, content in data.items():
                self.assertEqual((folder / key.removeprefix("set/")).read_bytes(), content)
        names.write_text("1/file\nabsent\n../outside\n")
        folder = self.home / "many-partly"
        done = self.run_program("get", "--many", str(names), f"{bucket}/set/", str(folder), expect=NOT_FOUND)
        self.assertIn("set/absent", done.stderr.decode())
        self.assertEqual([path.name for path in folder.rglob("*") if path.is_file()], ["file"])

    def test_keys_cannot_write_outside_the_folder(self):
        bucket = self.bucket("escapes")
        self.run_program("put", "-", f"{bucket}/x/../../evil", input=b"x")
        target = self.home / "safe" / "inner"
        target.mkdir(parents=True)
        done = self.run_program("get", "-r", f"{bucket}/", str(target), expect=FAILURE)
        self.assertIn("not a safe file name", done.stderr.decode())
        self.assertFalse((self.home / "evil").exists() or (self.home / "safe" / "evil").exists())

    def test_stat_shows_what_was_stored(self):
        bucket = self.bucket("stats")
        self.run_program("put", "-", f"{bucket}/k", "--content-type", "text/x-verbena", "--meta", "colour=blue", input=b"hello")
        about = json.loads(self.run_program("stat", "--json", f"{bucket}/k").stdout)
        self.assertEqual((about["size"], about["content_type"], about["metadata"]), (5, "text/x-verbena", {"colour": "blue"}))
        self.assertIn("text/x-verbena", self.run_program("stat", f"{bucket}/k").stdout.decode())
        self.assertIn("5 B", self.run_program("ls", "--human", bucket).stdout.decode())
        self.assertIn("s3://stats", self.run_program("ls").stdout.decode())

    def test_it_says_which_way_and_why(self):
        bucket = self.bucket("which-way")
        data = os.urandom(300_000)
        self.run_program("put", "-", f"{bucket}/k", input=data)
        done = subprocess.run([program(), "get", f"{bucket}/k", "-", "-v", "--native", "127.0.0.1:1"], env=self.env,
                              capture_output=True, timeout=60)
        self.assertEqual(done.stdout, data)
        said = done.stderr.decode()
        self.assertRegex(said, "native: connection failed")
        # By token where there is an RDMA device; libfabric's tcp is used only if named.
        self.assertRegex(said, "by token|by http; .*token: no RDMA device here")

    def certificate(self):
        cert, key = str(self.home / "cert.pem"), str(self.home / "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-keyout", key, "-out", cert, "-subj", "/CN=verbena test", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        return cert, key

    def test_https_trusts_only_what_it_is_told_to(self):
        cert, key = self.certificate()
        with Server(args=["--set", f"tls.certificate={cert}", "--set", f"tls.key={key}"]) as server:
            self.assertTrue(server.http.startswith("https://"))
            here = ["--endpoint", server.http, "--native", server.native]
            done = self.run_program("ls", *here, "--via", "http", native=False, expect=CONNECTION)
            self.assertIn("certificate", done.stderr.decode())
            data = os.urandom(300_000)
            for trust in (["--ca-file", cert], ["--insecure"]):
                for via in ("http", "token", "native", "auto"):
                    with self.subTest(trust=trust[0], via=via):
                        bucket = f"s3://tls-{trust[0].strip('-')}-{via}"
                        self.run_program("mb", bucket, *here, *trust, native=False)
                        self.run_program("put", "-", f"{bucket}/k", *here, *trust, "--via", via, native=False, input=data)
                        got = self.run_program("get", f"{bucket}/k", "-", *here, *trust, "--via", via, native=False)
                        self.assertEqual(got.stdout, data)
            # The certificate is for the address, not for this name.
            name = server.http.replace("127.0.0.1", "localhost")
            self.run_program("ls", "--endpoint", name, "--ca-file", cert, "--via", "http", native=False, expect=CONNECTION)

    def test_https_keeps_payloads_encrypted_unless_told_otherwise(self):
        self.https_goes_by("on", (([], "by native"), (["--cleartext-rdma"], "by native")))
        self.https_goes_by("off", (([], "by http"), (["--cleartext-rdma"], "by native")))

    def https_goes_by(self, encryption, ways):
        cert, key = self.certificate()
        args = ["--set", f"tls.certificate={cert}", "--set", f"tls.key={key}", "--set", "rdma.provider=tcp",
                "--set", f"rdma.tcp_encryption={encryption}"]
        with Server(args=args) as server:
            here = ["--endpoint", server.http, "--native", server.native, "--ca-file", cert]
            data = os.urandom(300_000)
            self.run_program("mb", "s3://clear", *here, native=False)
            for extra, way in ways:
                put = self.run_program("put", "-", "s3://clear/k", *here, "-v", *extra, native=False, input=data)
                self.assertIn(way, put.stderr.decode())
                got = self.run_program("get", "s3://clear/k", "-", *here, "-v", *extra, native=False)
                self.assertEqual(got.stdout, data)
                self.assertIn(way, got.stderr.decode())
                self.assertEqual("stay encrypted" in got.stderr.decode(), way == "by http")

    def test_help_and_version(self):
        self.assertRegex(self.run_program("--version", native=False).stdout.decode(), r"^verbena \d+\.\d+\.\d+")
        self.assertIn("Exit codes", self.run_program("--help", native=False).stdout.decode())
        for command in ("server", "put", "get", "ls", "stat", "rm", "mb", "rb", "bench", "doctor"):
            self.assertIn("Usage", self.run_program(command, "--help", native=False).stdout.decode())

    def test_doctor_finds_the_server(self):
        done = self.run_program("doctor", "--json", "--endpoint", self.server.http)
        findings = {f["subject"]: f for f in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(set(findings["S3 port"]), {"health", "subject", "found", "mend", "command"})
        self.assertIn("Verbena server answers", findings["S3 port"]["found"])
        self.assertIn("Verbena server answers", findings["native port"]["found"])
        self.assertEqual(findings["provider tcp"]["health"], "ok")

    def test_bench_measures_every_door(self):
        done = self.run_program("bench", "--json", "--count", "5", "--sizes", "4KiB,1MiB", "--concurrency", "1,2",
                                native=False)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        fields = ["door", "provider", "op", "size", "concurrency", "p50_us", "p99_us", "p999_us", "ops_per_s", "bytes_per_s",
                  "server_cpu_s_per_gb"]
        for row in rows:
            self.assertEqual(list(row), fields)
        seen = {(r["door"], r["provider"], r["op"]) for r in rows}
        for door in (("http", "http"), ("token", "tcp"), ("native", "local"), ("native", "tcp")):
            for op in ("get", "put"):
                self.assertIn((*door, op), seen)
        self.assertEqual(len(rows), 4 * 2 * 4)

    def test_bench_measures_tls_and_connections_of_their_own(self):
        certificate, key = self.home / "certificate.pem", self.home / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                        "/CN=127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
        tls = ["--tls-certificate", str(certificate), "--tls-key", str(key)]
        done = self.run_program("bench", "--json", "--count", "5", "--sizes", "4KiB", "--doors", "anonymous", "--ops", "get,get_new",
                                *tls, native=False)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(row["provider"], row["op"]) for row in rows], [("https", "get"), ("https", "get_new")])
        self.run_program("bench", "--tls-key", str(key), native=False, expect=USAGE)

    def test_bench_overwrites_many_keys_and_need_not_hash_its_bodies(self):
        done = self.run_program("bench", "--json", "--count", "7", "--sizes", "64KiB", "--doors", "http", "--ops", "put,get",
                                "--keys", "3", "--unsigned-payload", native=False)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["op"] for row in rows], ["put", "get"])

    def test_bench_measures_batches_and_replays_a_trace(self):
        trace = self.home / "trace"
        trace.write_text("# made by hand\nput d 3 e 5 f 1\nget d 3 e 5 f 1\nput a 100000 b 200000 c 300\nget a 100000 b 200000\ndel b 200000\nget a 100000 c 300\n")
        ops = ["get", "head", "get_many", "head_many", "put_many", "get_beside_many", "watch", "trace", "trace_many"]
        done = self.run_program("bench", "--json", "--count", "3", "--sizes", "4KiB", "--doors", "native", "--ops",
                                ",".join(ops), "--batch", "50", "--trace", str(trace), native=False)
        rows = {(row["provider"], row["op"]): row for row in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(set(rows), {(provider, op) for provider in ("local", "tcp") for op in ops})
        for row in rows.values():
            self.assertGreater(row["ops_per_s"], 0, row)
        self.assertEqual(rows["tcp", "get_many"]["batch"], 50)
        for bad in ("fetch a 1\n", "get a\n", "get a 1 b\n", "get a 99999999999\n", ""):
            trace.write_text(bad)
            self.run_program("bench", "--doors", "native", "--providers", "local", "--ops", "trace", "--trace", str(trace),
                             native=False, expect=USAGE)


class InMemory(unittest.TestCase):
    """`verbena server --memory`."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-memory-")
        self.env = dict(client_environment(pathlib.Path(self.folder.name)), XDG_RUNTIME_DIR=self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def run_program(self, server, *args, expect=OK, input=None):
        done = subprocess.run([program(), *args, "--endpoint", server.http, "--native", server.native],
                              env=self.env, input=input, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, expect, f"{args}\n{done.stderr.decode()}")
        return done

    def sockets(self):
        return [name for name in os.listdir(self.folder.name) if name.startswith("verbena-")]

    def memory_server(self, *args):
        return Server(args=["--set", "arena_size=64MiB", *args], env={"XDG_RUNTIME_DIR": self.folder.name}, memory=True)

    def test_it_serves_every_door_and_leaves_nothing(self):
        with self.memory_server() as server:
            data = os.urandom(3 * MIB + 1)
            self.run_program(server, "mb", "s3://bucket")
            for via in ("native", "token", "http"):
                self.run_program(server, "put", "-", f"s3://bucket/{via}", "--via", via, input=data)
                self.assertEqual(self.run_program(server, "get", f"s3://bucket/{via}", "-", "--via", via).stdout, data)
            self.assertEqual(os.listdir(server.directory), [])
            self.assertEqual(len(self.sockets()), 1)
            status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
            resident_kib = int(re.search(r"^VmRSS:\s+(\d+)", status, re.M).group(1))
            self.assertLess(resident_kib, 256 * 1024)
            self.assertEqual(server.stop(), 0)
        self.assertEqual(self.sockets(), [])
        with self.memory_server() as server:
            self.run_program(server, "get", "s3://bucket/http", "-", expect=NOT_FOUND)

    def test_it_takes_no_more_than_it_may_and_removals_make_room(self):
        with self.memory_server("--memory-max", "4MiB", "--set", "cache.size=0") as server:
            data = os.urandom(3 * MIB)
            self.run_program(server, "mb", "s3://bucket")
            self.run_program(server, "put", "-", "s3://bucket/one", input=data)
            self.run_program(server, "put", "-", "s3://bucket/two", expect=FAILURE, input=data)
            self.run_program(server, "rm", "s3://bucket/one")
            self.run_program(server, "put", "-", "s3://bucket/two", input=data)

    def test_what_it_cannot_be_asked(self):
        folder = self.folder.name
        for args in ([], ["--memory", folder], ["--memory", "--memory-max", "much"], ["--memory-max", "1GiB", folder],
                     ["--seed", folder, folder]):
            done = subprocess.run([program(), "server", *args], env=self.env, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, USAGE, args)

    def test_it_makes_keys_where_none_are_given(self):
        env = {name: value for name, value in self.env.items() if not name.startswith("VERBENA_ROOT")}
        process = subprocess.Popen([program(), "server", "--memory", "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0"],
                                   env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            text = ""
            while "Ctrl-C" not in text:
                chunk = os.read(process.stdout.fileno(), 65536).decode()
                self.assertTrue(chunk, text)
                text += chunk
        finally:
            process.terminate()
            process.wait(30)
            process.stdout.close()
        self.assertRegex(text, r"export AWS_ACCESS_KEY_ID=VB\w{18}")
        self.assertIn("all in memory", text)

    def ready_server(self, *args, keys=True):
        """A server that reports its endpoints in one line: (process, parsed line)."""
        env = dict(self.env)
        if keys:
            env.update(VERBENA_ROOT_ACCESS_KEY=self.env["AWS_ACCESS_KEY_ID"],
                       VERBENA_ROOT_SECRET_KEY=self.env["AWS_SECRET_ACCESS_KEY"])
        process = subprocess.Popen(
            [program(), "server", "--memory", "--print-ready", "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0",
             "--set", "arena_size=32MiB", *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process, json.loads(process.stdout.readline())

    def end(self, process):
        if process.stdout.closed:
            return b""
        if process.poll() is None:
            process.terminate()
        rest = process.stdout.read()
        self.assertEqual(process.wait(30), 0)
        process.stdout.close()
        return rest

    def run_at(self, ready, *args, expect=OK):
        done = subprocess.run([program(), *args, "--endpoint", ready["s3"], "--native", ready["native"]],
                              env=self.env, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, expect, f"{args}\n{done.stderr.decode()}")
        return done.stdout

    def test_one_line_says_where_it_is_and_buckets_are_there_by_then(self):
        process, ready = self.ready_server("--bucket", "one", "--bucket", "two", "--region", "eu-test-1")
        self.assertEqual(ready["ports"]["s3"], int(ready["s3"].rsplit(":", 1)[1]))
        self.assertEqual(ready["ports"]["native"], int(ready["native"].rsplit(":", 1)[1]))
        self.assertEqual(ready["ports"]["admin"], int(ready["admin"].rsplit(":", 1)[1]))
        self.assertEqual((ready["region"], ready["access_key"], ready["pid"]),
                         ("eu-test-1", self.env["AWS_ACCESS_KEY_ID"], process.pid))
        self.assertNotIn("secret_key", ready)
        listed = self.run_at(ready, "ls").decode()
        self.assertIn("one", listed)
        self.assertIn("two", listed)
        self.assertEqual(self.end(process), b"")
        self.assertEqual(self.sockets(), [])

    def test_keys_that_it_makes_are_in_the_line_and_sign(self):
        _, ready = self.ready_server("--bucket", "one", keys=False)
        self.env.update(AWS_ACCESS_KEY_ID=ready["access_key"], AWS_SECRET_ACCESS_KEY=ready["secret_key"])
        self.assertIn(b"one", self.run_at(ready, "ls"))

    def test_it_begins_with_a_folders_files(self):
        seed = pathlib.Path(self.folder.name) / "seed"
        large = os.urandom(9 * MIB + 7)
        files = {"pages/index.html": b"<p>", "pages/deep/er/data.bin": large, "pages/none.txt": b"", "other/ä b": b"1"}
        for name, data in files.items():
            (seed / name).parent.mkdir(parents=True, exist_ok=True)
            (seed / name).write_bytes(data)
        (seed / "empty").mkdir()
        (seed / ".git").mkdir()
        _, ready = self.ready_server("--seed", str(seed))
        for name, data in files.items():
            self.assertEqual(self.run_at(ready, "get", f"s3://{name}", "-"), data, name)
        self.assertEqual(self.run_at(ready, "ls", "s3://empty"), b"")
        self.assertNotIn(b"git", self.run_at(ready, "ls"))
        about = json.loads(self.run_at(ready, "stat", "s3://pages/index.html", "--json"))
        self.assertEqual(about["content_type"], "text/html")

    def test_a_start_that_cannot_have_its_contents_says_which(self):
        seed = pathlib.Path(self.folder.name) / "seed"
        (seed / "bucket").mkdir(parents=True)
        (seed / "lost.txt").write_bytes(b"x")
        self.refused(["--seed", str(seed)], "lost.txt: is no folder")
        (seed / "lost.txt").unlink()
        (seed / "Not_A_Bucket").mkdir()
        self.refused(["--seed", str(seed)], "Not_A_Bucket")
        (seed / "Not_A_Bucket").rmdir()
        os.mkfifo(seed / "bucket" / "pipe")
        self.refused(["--seed", str(seed)], "bucket/pipe: is neither a file nor a folder")
        (seed / "bucket" / "pipe").unlink()
        (seed / "bucket" / "up").symlink_to(seed)
        self.refused(["--seed", str(seed)], "bucket/up: is a link to a folder")
        self.refused(["--seed", str(seed / "nowhere")], "nowhere")
        self.refused(["--bucket", "UPPER"], "bucket UPPER")

    def refused(self, args, message):
        done = subprocess.run([program(), "server", "--memory", "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0", *args],
                              env=self.env, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, FAILURE)
        self.assertIn(message, done.stderr.decode().splitlines()[-1])
        self.assertEqual(self.sockets(), [])


unittest.main(verbosity=2)
