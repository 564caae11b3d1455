#!/usr/bin/python3
"""`verbena admin`: a running server inspected from a terminal, and the admin API behind it."""
import http.client
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from iam_case import CONNECTION, DENIED, IamCase, NOT_FOUND, OK, USAGE, policy  # noqa: E402
from s3_case import Reply, quote  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, program  # noqa: E402

CALLS = ["info", "top", "top-end", "trace", "trace-end", "sessions", "session-end", "config", "logs", "audit", "doctor"]
HOSTILE = "evil\x1b[2J\x1b]0;owned\x07\u202e\nname"


class AdminCase(IamCase):
    def ask(self, call, body=None, key=(ACCESS_KEY, SECRET_KEY)):
        """A call of the admin API: (status, answer)."""
        data = json.dumps(body or {}).encode()
        path = "/-/admin/" + call
        headers = self.sign("POST", path, {"content-type": "application/json"}, data, key=key[0], secret=key[1])
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request("POST", path, data, headers)
            reply = Reply(connection.getresponse())
            return reply.status, json.loads(reply.body)
        finally:
            connection.close()

    def told(self, call, body=None, key=(ACCESS_KEY, SECRET_KEY)):
        status, answer = self.ask(call, body, key)
        self.assertEqual(status, 200, answer)
        return answer

    def watch(self, **wanted):
        return self.told("trace", wanted)["watcher"]

    def lines(self, watcher, least=1):
        """The watcher's lines, as soon as there are `count` of them."""
        found, lost, until = [], 0, time.monotonic() + 20
        while len(found) + lost < least and time.monotonic() < until:
            answer = self.told("trace", {"watcher": watcher, "wait_ms": 500})
            found += answer["lines"]
            lost += answer["lost"]
        self.told("trace-end", {"watcher": watcher})
        return found, lost

    def open_program(self, *args, **more):
        return subprocess.Popen([program(), *args], env=dict(self.env, AWS_ENDPOINT_URL=self.server.http),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=more.pop("stdin", subprocess.DEVNULL))

    def end_program(self, process):
        """Ends the program by SIGINT, as a user does; returns its exit status."""
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, OK, errors.decode())
        return output.decode()


class Info(AdminCase):
    server_args = ("--set", "cache.object_size_max=1MiB", "--set", "blocking_threads=3")

    def test_info_tells_what_the_server_is(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 5000)
        info = json.loads(self.run_program("admin", "info", "--json"))
        self.assertEqual((info["engine"], info["pid"]), ("local", self.server.process.pid))
        doors = {door["door"]: door for door in info["doors"]}
        self.assertEqual(doors["http"]["address"], self.server.http)
        self.assertEqual(doors["native"]["address"], self.server.native)
        self.assertIn("local", doors["native"]["providers"])
        self.assertGreater(info["arena"]["bytes"], info["arena"]["leased_bytes"])
        self.assertGreater(info["hot_tier"]["capacity_bytes"], 0)
        self.assertGreater(info["disk"]["free_bytes"], 0)
        self.assertGreaterEqual(info["buckets"], 1)
        self.assertGreaterEqual(info["bytes"], 5000)
        self.assertEqual(info["durability"], {"sync": info["buckets"], "memory": 0})
        text = self.run_program("admin", "info")
        for word in ("version", self.server.http, "arena", "hot tier", "free of"):
            self.assertIn(word, text)

    def test_config_tells_where_each_value_comes_from(self):
        keys = {key["key"]: key for key in json.loads(self.run_program("admin", "config", "--json"))["keys"]}
        self.assertEqual((keys["cache.object_size_max"]["value"], keys["cache.object_size_max"]["source"]), ("1MiB", "flag"))
        self.assertEqual(keys["region"], {"key": "region", "value": "us-east-1", "source": "default", "default": "us-east-1"})
        self.assertEqual(keys["rdma.token_networks"]["source"], "variable VERBENA_RDMA_TOKEN_NETWORKS")
        self.assertEqual(keys["http.port"]["in_force"], self.server.http.rsplit(":", 1)[1])
        self.assertTrue(keys["rdma.sessions_max"]["in_force"].isdigit())
        changed = self.run_program("admin", "config", "--changed")
        self.assertIn("blocking_threads = 3  [flag]", changed)
        self.assertNotIn("region =", changed)
        self.assertIn("region = us-east-1  [default]", self.run_program("admin", "config"))

    def test_a_files_values_name_file_and_line(self):
        path = self.home / "verbena.yaml"
        path.write_text("region: eu-west-3\nhttp:\n  idle_timeout: 44\n")
        with Server(args=("--config", str(path)), env={"VERBENA_HTTP_IDLE_TIMEOUT": "45"}) as server:
            env = dict(self.env, AWS_ENDPOINT_URL=server.http, AWS_REGION="eu-west-3")
            keys = {key["key"]: key for key in json.loads(self.run_program("admin", "config", "--json", env=env))["keys"]}
        self.assertEqual((keys["region"]["value"], keys["region"]["source"]), ("eu-west-3", f"{path}:1"))
        self.assertEqual((keys["http.idle_timeout"]["value"], keys["http.idle_timeout"]["source"]),
                         ("45", "variable VERBENA_HTTP_IDLE_TIMEOUT"))

    def test_logs_are_the_servers_last_lines_and_those_that_come(self):
        lines = [json.loads(line) for line in self.run_program("admin", "logs", "--json").splitlines()]
        self.assertTrue(any("server: http=" in line["text"] for line in lines), lines)
        for start in ("rdma.encryption: preferred: ", "payload in the clear: ", "encryption by the processor: ", "encryption PSP: "):
            self.assertTrue(any(line["text"].startswith(start) for line in lines), (start, lines))
        self.assertTrue(all(line["level"] in ("info", "warn", "error") for line in lines))
        self.assertEqual(len(self.run_program("admin", "logs", "--lines", "2").splitlines()), 2)
        follower = self.open_program("admin", "logs", "-f", "--lines", "1")
        follower.stdout.readline()
        self.run_program("ls", "--via", "native", "--native", self.server.native)  # a session is a line
        seen = b""
        while b"session opened" not in seen:
            seen = follower.stdout.readline()
            self.assertTrue(seen, "the follower has ended")
        self.assertIn(b" sealed=none", seen)
        self.end_program(follower)
        self.assertEqual(self.ask("logs", {"level": "loud"})[0], 400)

    def test_what_makes_no_sense_is_refused(self):
        for call, body in [("trace", {"door": "back"}), ("trace", {"errors": 1}), ("trace", {"bucket": ["b"]}), ("trace", {"slower_than_us": -1}),
                           ("trace", {"bucket": "b" * 2000}), ("logs", {"lines": 10 ** 9}), ("logs", {"wait_ms": 10 ** 6, "after": 1}),
                           ("session-end", {}), ("session-end", {"id": "zz"}), ("sessions", {"account": 7})]:
            with self.subTest(call=call, body=body):
                self.assertEqual(self.ask(call, body)[0], 400)
        for call, body in [("trace", {"watcher": "0" * 32}), ("top", {"watcher": "0" * 32}), ("trace", {"account": "nobody"}),
                           ("session-end", {"id": "0123456789abcdef"})]:
            with self.subTest(call=call, body=body):
                self.assertEqual(self.ask(call, body)[0], 404)
        self.run_program("admin", "sessions", "end", "0123456789abcdef", expect=NOT_FOUND)
        self.run_program("admin", "trace", "--slower-than", "soon", expect=USAGE)
        self.run_program("admin", "trace", "--door", "back", expect=USAGE)
        self.run_program("admin", "info", "--endpoint", "http://127.0.0.1:1", expect=CONNECTION)


class Rights(AdminCase):
    def denied(self, calls, key):
        for call in calls:
            with self.subTest(call=call, key=key[0]):
                status, answer = self.ask(call, {}, key)
                self.assertEqual((status, list(answer)), (403, ["error"]))

    def test_a_tenant_sees_nothing_whatever_its_policies_say(self):
        account = self.account()
        self.denied(CALLS, (account["access_key"], account["secret_key"]))
        _, key = self.user_with_key(self.as_account(account), policy("*"), policy("admin:*"))
        self.denied(CALLS, key)
        env = dict(self.env, AWS_ACCESS_KEY_ID=key[0], AWS_SECRET_ACCESS_KEY=key[1])
        for command in (["info"], ["top", "--once"], ["trace"], ["sessions"], ["config"], ["logs"], ["audit"], ["doctor"]):
            self.run_program("admin", *command, expect=DENIED, env=env)
        self.run_program("admin", "info", "--anonymous", expect=DENIED)

    def test_a_user_of_the_root_account_has_the_rights_that_its_policies_give(self):
        _, nobody = self.user_with_key(self.iam)
        self.denied(CALLS, nobody)
        _, watcher = self.user_with_key(self.iam, policy("admin:Trace", "admin:ServerInfo"))
        self.told("info", key=watcher)
        watch = self.told("trace", key=watcher)["watcher"]
        self.told("trace-end", {"watcher": watch}, key=watcher)
        self.denied([call for call in CALLS if call not in ("info", "trace", "trace-end")], watcher)
        _, all_but_one = self.user_with_key(self.iam, policy("admin:*"), policy("admin:GetLogs", effect="Deny"))
        self.told("config", key=all_but_one)
        self.denied(["logs"], all_but_one)
        self.assertEqual(self.ask("user-list", {}, all_but_one)[0], 403, "accounts stay the root key's alone")

    def test_temporary_credentials_look_at_nothing(self):
        made = self.sts.get_session_token(DurationSeconds=900)["Credentials"]
        env = dict(self.env, AWS_ACCESS_KEY_ID=made["AccessKeyId"], AWS_SECRET_ACCESS_KEY=made["SecretAccessKey"],
                   AWS_SESSION_TOKEN=made["SessionToken"])
        self.run_program("admin", "info", expect=DENIED, env=env)


class Trace(AdminCase):
    def test_a_line_tells_a_request_of_each_door(self):
        bucket = self.new_bucket()
        watcher = self.watch()
        self.s3.put_object(Bucket=bucket, Key="a/b", Body=b"y" * 300_000)
        for via in ("native", "token", "http"):
            self.run_program("get", f"s3://{bucket}/a/b", "-", "--via", via, "--native", self.server.native)
        lines, lost = self.lines(watcher, 4)
        self.assertEqual(lost, 0)
        about = [line for line in lines if line.get("key") == "a/b"]
        put = next(line for line in about if line["action"] == "PUT object")
        self.assertEqual((put["bucket"], put["status"], put["bytes_in"], put["account"]), (bucket, 200, 300_000, "000000000000"))
        self.assertGreater(put["disk_us"], 0)
        self.assertLessEqual(put["disk_us"] + put["wait_us"] + put["wire_us"], put["duration_us"] + 1000)
        self.assertRegex(put["id"], "^[0-9A-F]{16}$")
        moved = {line["door"]: line["bytes_out"] for line in about if line["action"] == "GET object"}
        self.assertEqual(set(moved), {"native", "token", "http"})
        self.assertTrue(all(count >= 300_000 for count in moved.values()), moved)

    def test_filters(self):
        bucket, other = self.new_bucket(), self.new_bucket()
        account = self.account()
        watchers = {"bucket": self.watch(bucket=bucket), "errors": self.watch(errors=True), "account": self.watch(account=account["name"]),
                    "slow": self.watch(slower_than_us=3_000_000_000), "native": self.watch(door="native")}
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"1")
        self.s3.put_object(Bucket=other, Key="k", Body=b"1")
        self.assert_error("NoSuchKey", 404, self.s3.get_object, Bucket=other, Key="none")
        self.as_account(account, "s3").list_buckets()
        found = {name: self.lines(watcher, 0 if name in ("slow", "native") else 1)[0] for name, watcher in watchers.items()}
        self.assertEqual({line["bucket"] for line in found["bucket"]}, {bucket})
        self.assertEqual([(line["error"], line["status"]) for line in found["errors"]], [("NoSuchKey", 404)])
        self.assertEqual({line["access_key"] for line in found["account"]}, {account["access_key"]})
        self.assertEqual((found["slow"], found["native"]), ([], []))

    def test_names_with_escapes_do_not_steer_a_terminal(self):
        bucket = self.new_bucket()
        viewer = self.open_program("admin", "trace", "--bucket", bucket, "--lines", "3")
        ends = threading.Event()

        def knock():
            while not ends.wait(0.1):
                self.request("GET", f"/{bucket}/{quote(HOSTILE)}")
        knocking = threading.Thread(target=knock)
        knocking.start()
        try:
            output, errors = viewer.communicate(timeout=60)
        finally:
            ends.set()
            knocking.join()
        self.assertEqual(viewer.returncode, OK, errors)
        text = output.decode()
        self.assertIn("evil\\x1b[2J\\x1b]0;owned\\x07\\u{202e}\\x0aname", text)
        self.assertEqual(text.count("\n"), 3)
        self.assertFalse(any(ord(c) < 32 and c != "\n" or c in "\x7f\u202e" for c in text), repr(text))

    def test_no_secret_is_in_a_line(self):
        bucket = self.new_bucket()
        secret = "c2VjcmV0LWtleS1vZi0zMi1ieXRlcy1leGFjdGx5ISE="
        watcher = self.watch()
        path = self.presign("GET", f"/{bucket}/x", 60)
        self.request("GET", path, signed=False)
        self.request("GET", f"/{bucket}/x?X-Amz-Signature=feedfacefeedface", signed=False)
        self.request("PUT", f"/{bucket}/y", {"x-amz-server-side-encryption-customer-algorithm": "AES256",
                                            "x-amz-server-side-encryption-customer-key": secret,
                                            "x-amz-server-side-encryption-customer-key-MD5": "AAAA"}, b"body")
        self.request("GET", f"/{bucket}/x", {"x-amz-rdma-token": "1:2:ofi1:tcp:00deadbeefdeadbeef:3"})
        made = self.sts.get_session_token(DurationSeconds=900)["Credentials"]
        lines, _ = self.lines(watcher, 5)
        told = json.dumps(lines)
        self.assertGreaterEqual(len(lines), 5)
        signature = path.split("X-Amz-Signature=")[1][:32]
        for word in (signature, "feedface", "Signature", "X-Amz", secret, "deadbeef", SECRET_KEY, made["SecretAccessKey"],
                     made["SessionToken"][:40]):
            self.assertNotIn(word, told)

    def test_a_slow_watcher_loses_lines_and_is_told_how_many(self):
        bucket = self.new_bucket()
        watcher = self.watch(bucket=bucket)
        connection = http.client.HTTPConnection(self.address, timeout=30)
        headers = self.sign("HEAD", f"/{bucket}")
        for _ in range(1200):
            connection.request("HEAD", f"/{bucket}", headers=headers)
            connection.getresponse().read()
        connection.close()
        lines, lost = self.lines(watcher, 1200)
        self.assertEqual(len(lines) + lost, 1200)
        self.assertLessEqual(len(lines), 1000)
        self.assertGreaterEqual(lost, 200)

    def test_a_thousand_watchers_are_bounded(self):
        made, refused = [], 0
        for _ in range(1000):
            status, answer = self.ask("trace")
            if status == 200:
                made.append(answer["watcher"])
            else:
                refused += 1
                self.assertEqual(answer["error"]["code"], "LimitExceeded")
        try:
            self.assertEqual((len(made), refused), (16, 984))
            self.s3.list_buckets()
        finally:
            for watcher in made:
                self.told("trace-end", {"watcher": watcher})
        self.told("trace-end", {"watcher": self.watch()})

    def test_who_watches_does_not_see_himself_look(self):
        watcher = self.watch()
        for _ in range(3):
            self.told("logs")
            self.told("trace", {"watcher": watcher})
        self.told("info")
        lines, _ = self.lines(watcher, 1)
        self.assertEqual([line["action"] for line in lines], ["admin:info"])


class Live(AdminCase):
    def busy(self, bucket):
        """Sends requests until the returned event is set."""
        ends = threading.Event()

        def work():
            while not ends.is_set():
                self.s3.put_object(Bucket=bucket, Key="k", Body=b"z" * 10_000)
                self.s3.get_object(Bucket=bucket, Key="k")["Body"].read()
        thread = threading.Thread(target=work)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(ends.set)

    def test_top_shows_doors_latencies_buckets_and_accounts(self):
        bucket = self.new_bucket()
        self.busy(bucket)
        rates = json.loads(self.run_program("admin", "top", "--once", "--json"))
        doors = {(door["door"], door["provider"]): door for door in rates["doors"]}
        self.assertGreater(doors["http", "http"]["requests_per_s"], 0)
        self.assertGreater(doors["http", "http"]["bytes_in_per_s"], 0)
        self.assertIn(("native", "local"), doors)
        put = next(one for one in rates["latencies"] if (one["door"], one["verb"]) == ("http", "put"))
        self.assertTrue(0 < put["p50_us"] <= put["p99_us"], put)
        self.assertEqual(rates["buckets"][0]["name"], bucket)
        self.assertEqual((rates["accounts"][0]["name"], rates["accounts"][0]["account"]), ("000000000000", "root"))
        page = self.run_program("admin", "top", "--once", "--interval", "0.3")
        for word in ("requests/s", "p99", bucket, "root"):
            self.assertIn(word, page)

    def test_what_went_by_the_native_door_is_told_by_provider(self):
        bucket = self.new_bucket()
        self.run_program("put", "-", f"s3://{bucket}/k", "--via", "native", "--native", self.server.native, input=b"n" * 5000)
        self.run_program("get", f"s3://{bucket}/k", "-", "--via", "native", "--native", self.server.native)
        until = time.monotonic() + 20
        moved = {}
        while time.monotonic() < until and moved.get("bytes_out", 0) < 5000:
            top = self.told("top")
            self.told("top-end", {"watcher": top["watcher"]})
            moved = next(door for door in top["doors"] if (door["door"], door["provider"]) == ("native", "local"))
            time.sleep(0.3)
        self.assertGreaterEqual((moved["bytes_in"], moved["bytes_out"]), (5000, 5000))
        self.assertGreaterEqual(moved["requests"], 2)

    def test_top_ends_when_nobody_reads_it_any_more(self):
        for command in (["top", "--json", "--interval", "0.2"], ["trace", "--json"]):
            viewer = self.open_program("admin", *command)
            self.busy(self.new_bucket())
            self.assertTrue(viewer.stdout.readline())
            viewer.stdout.close()
            self.assertEqual(viewer.wait(60), OK, viewer.stderr.read())
            viewer.stderr.close()

    def test_top_in_a_terminal_is_drawn_in_place_and_q_leaves(self):
        self.busy(self.new_bucket())
        master, slave = pty.openpty()
        viewer = subprocess.Popen([program(), "admin", "top", "--interval", "0.3"], env=self.env, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        seen, until = b"", time.monotonic() + 30
        while seen.count(b"requests/s") < 8 and time.monotonic() < until:
            if select.select([master], [], [], 1)[0]:
                seen += os.read(master, 65536)
        os.write(master, b"q")
        while True:
            try:
                more = os.read(master, 65536)
            except OSError:
                more = b""
            if not more:
                break
            seen += more
        self.assertEqual(viewer.wait(30), OK)
        os.close(master)
        self.assertTrue(seen.startswith(b"\x1b[?1049h\x1b[?25l") and seen.endswith(b"\x1b[?25h\x1b[?1049l"), seen[-200:])
        self.assertIn(b"\x1b[H", seen)


class Sessions(AdminCase):
    def test_sessions_are_listed_and_can_be_ended(self):
        bucket = self.new_bucket()
        account = self.account()
        env = dict(self.env, AWS_ACCESS_KEY_ID=account["access_key"], AWS_SECRET_ACCESS_KEY=account["secret_key"])
        self.as_account(account, "s3").create_bucket(Bucket=bucket + "-own")
        holder = subprocess.Popen(
            [program(), "put", "-", f"s3://{bucket}-own/k", "--via", "native", "--native", self.server.native, "--attempts", "1"],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.addCleanup(holder.stdin.close)
        holder.stdin.write(b"s" * (20 << 20))
        holder.stdin.flush()
        found, until = [], time.monotonic() + 30
        while not (found and found[0]["requests"] > 1) and time.monotonic() < until:
            found = json.loads(self.run_program("admin", "sessions", "--json", "--account", account["name"]))["sessions"]
            time.sleep(0.3)
        self.assertEqual(len(found), 1)
        session = found[0]
        self.assertEqual((session["account"], session["access_key"], session["peer"], session["providers"]),
                         (account["name"], account["access_key"], "127.0.0.1", "local"))
        self.assertIs(session["forward_secrecy"], True)
        self.assertEqual(session["sealed"], "", "shared memory does not leave the host")
        self.assertLess(session["idle_s"], 30)
        self.assertIn(session["id"], self.run_program("admin", "sessions"))
        self.assertEqual(self.told("sessions", {"account": "root"})["sessions"], [])
        self.run_program("admin", "sessions", "end", session["id"])
        self.run_program("admin", "sessions", "end", session["id"], expect=NOT_FOUND)
        ids = [one["id"] for one in self.told("sessions")["sessions"]]
        self.assertNotIn(session["id"], ids)


if __name__ == "__main__":
    unittest.main(verbosity=2)
