#!/usr/bin/python3
"""`verbena admin audit` and `verbena admin doctor`: search of the access log, and a server's report of its machine."""
import concurrent.futures
import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from admin_test import AdminCase  # noqa: E402
from iam_case import ALLOW_ALL, DENIED, FAILURE, NOT_FOUND, OK, USAGE, policy, trust  # noqa: E402
from verbena_server import SECRET_KEY, Server, boto3_client, program  # noqa: E402


class Audit(AdminCase):
    @classmethod
    def setUpClass(cls):
        cls.log = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"verbena-audit-{os.getpid()}.log"
        cls.server_args = ("--set", f"access_log={cls.log}", "--set", "access_log_size_max=20000", "--set", "access_log_files=50")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        for path in cls.log.parent.glob(cls.log.name + "*"):
            path.unlink()

    def audit(self, *args, expect=OK, **more):
        return [json.loads(line) for line in self.run_program("admin", "audit", "--json", *args, expect=expect, **more).splitlines()]

    def written(self, text):
        """Waits until the log has the key: lines come in bursts."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for path in self.log.parent.glob(self.log.name + "*"):
                try:
                    if text.encode() in path.read_bytes():
                        return
                except FileNotFoundError:
                    pass  # the log has rotated
            time.sleep(0.05)
        self.fail(f"{text} is not in the log")

    def test_who_did_what_is_found_newest_first_over_all_files(self):
        bucket = self.new_bucket()
        name, key = self.user_with_key(self.iam, policy("s3:GetObject", "s3:ListBucket"))
        other = self.client("s3", *key)
        for n in range(300):
            self.s3.put_object(Bucket=bucket, Key=f"in/{n:03}", Body=b"x")
        self.written("in/299")  # lines of one burst are ordered core by core
        other.get_object(Bucket=bucket, Key="in/007")
        self.written(f"user/{name}")
        with self.assertRaises(other.exceptions.ClientError):
            other.delete_object(Bucket=bucket, Key="in/denied")
        self.written("in/denied")
        with self.assertRaises(other.exceptions.NoSuchKey):
            other.get_object(Bucket=bucket, Key="in/none")
        self.written("in/none")
        self.assertGreater(len(list(self.log.parent.glob(self.log.name + ".*"))), 2, "files have moved on")
        about = self.audit("--bucket", bucket, "--prefix", "in/", "--lines", "0")
        self.assertEqual([line["key"] for line in about], ["in/none", "in/denied", "in/007"] + [f"in/{n:03}" for n in reversed(range(300))])
        self.assertEqual([line["key"] for line in self.audit("--bucket", bucket, "--lines", "2")], ["in/none", "in/denied"])
        his = self.audit("--principal", f"user/{name}", "--bucket", bucket)
        self.assertEqual([(line["action"], line["status"]) for line in his], [("GET object", 404), ("DELETE object", 403), ("GET object", 200)])
        self.assertEqual(self.audit("--principal", key[0], "--bucket", bucket), his)
        self.assertEqual([line["status"] for line in self.audit("--bucket", bucket, "--outcome", "denied")], [403])
        self.assertEqual([line["error"] for line in self.audit("--bucket", bucket, "--outcome", "NoSuchKey")], ["NoSuchKey"])
        self.assertEqual([line["key"] for line in self.audit("--bucket", bucket, "--outcome", "404")], ["in/none"])
        self.assertEqual(len(self.audit("--bucket", bucket, "--action", "delete", "--since", "1h")), 1)
        self.assertEqual(self.audit("--bucket", bucket, "--until", "2020-01-01"), [])
        self.assertEqual(len(self.audit("--search", "IN/NONE")), 1)
        self.assertEqual(len(self.audit("--id", his[0]["id"])), 1)
        self.assertEqual(len(self.audit("--bucket", bucket, "--account", "root", "--lines", "3")), 3)
        self.assertEqual(len(self.audit("--bucket", bucket, "--peer", "127.0.0.0/8", "--lines", "5")), 5)
        self.assertEqual(self.audit("--bucket", bucket, "--peer", "10.0.0.0/8"), [])
        text = self.run_program("admin", "audit", "--bucket", bucket, "--outcome", "failed")
        self.assertEqual(len(text.splitlines()), 2)
        self.assertIn(f"{bucket}/in/none  NoSuchKey", text)

    def test_pages_follow_each_other_while_lines_come(self):
        bucket = self.new_bucket()
        for n in range(40):
            self.s3.put_object(Bucket=bucket, Key=f"{n:02}", Body=b"x")
        self.written("\"key\":\"39\"")
        found, next_, pages = [], "", 0
        while pages < 30:
            answer = self.told("audit", {"bucket": bucket, "prefix": "", "action": "PUT object", "lines": 7, **({"next": next_} if next_ else {})})
            found += [line["key"] for line in answer["lines"]]
            next_, pages = answer["next"], pages + 1
            for _ in range(30):
                self.s3.list_buckets()  # log files rotate meanwhile
            if not next_:
                break
        self.assertEqual(found, [f"{n:02}" for n in reversed(range(40))])

    def test_no_secret_is_told_of_any_kind_of_request(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="signed", Body=b"x")
        signer = boto3_client(self.server.http, signature_version="s3v4")
        presigned = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "signed"})
        signer.close()
        url = urllib.parse.urlsplit(presigned)
        connection = http.client.HTTPConnection(url.netloc, timeout=30)
        connection.request("GET", f"{url.path}?{url.query}")
        self.assertEqual(connection.getresponse().read(), b"x")
        good = urllib.parse.parse_qs(url.query)["X-Amz-Signature"][0]
        wrong = good[:-1] + ("1" if good[-1] == "0" else "0")
        connection.request("GET", f"{url.path}?{url.query.replace(good, wrong)}")  # an error's line
        refused = connection.getresponse()
        refused.read()
        self.assertEqual(refused.status, 403)
        connection.close()
        role = self.iam.create_role(RoleName=self.name("role"), AssumeRolePolicyDocument=trust("arn:aws:iam::000000000000:root"))["Role"]["Arn"]
        self.iam.put_role_policy(RoleName=role.split("/")[-1], PolicyName="all", PolicyDocument=json.dumps(ALLOW_ALL))
        name, key = self.user_with_key(self.iam, json.dumps(ALLOW_ALL))
        secrets = [SECRET_KEY, key[1], good, wrong]
        sts = self.client("sts", *key)
        for got in (sts.get_session_token()["Credentials"], self.sts.assume_role(RoleArn=role, RoleSessionName="shift")["Credentials"]):
            secrets += [got["SecretAccessKey"], got["SessionToken"]]
            temporary = self.client("s3", got["AccessKeyId"], got["SecretAccessKey"], got["SessionToken"])
            temporary.put_object(Bucket=bucket, Key=got["AccessKeyId"], Body=b"x")
        self.written(got["AccessKeyId"])
        found = self.audit("--bucket", bucket)
        self.assertTrue({"GET object", "PUT object"} <= {line["action"] for line in found}, found)
        refused = self.audit("--outcome", "denied", "--search", f"/{bucket}/signed")
        self.assertEqual([line["status"] for line in refused], [403], "its line tells the path")
        self.assertTrue(any("assumed-role" in line.get("principal", "") for line in found), found)
        self.assertTrue(self.audit("--action", "AssumeRole"), "calls of STS are in the log")
        everything = json.dumps(self.audit("--lines", "0"))
        for secret in (*secrets, "Signature=", "X-Amz", "AWS4-HMAC", "x-amz-security-token"):
            self.assertNotIn(secret, everything)

    def test_hostile_names_steer_no_terminal(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="evil\x1b[2J\u202ename", Body=b"x")
        self.written("u001b[2J")
        output = self.run_program("admin", "audit", "--bucket", bucket)
        self.assertIn("evil\\x1b[2J\\u{202e}name", output)
        self.assertNotIn("\x1b", output)

    def test_a_tenants_path_lets_nobody_look_like_another_account(self):
        account, victim = self.account(), self.account()
        iam, bucket = self.as_account(account), self.new_bucket()
        path = f"/x::{victim['account_id']}:/"
        name = self.name()
        iam.create_user(UserName=name, Path=path)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        with self.assertRaises(self.s3.exceptions.ClientError):
            self.client("s3", key["AccessKeyId"], key["SecretAccessKey"]).get_object(Bucket=bucket, Key=name)
        self.written(f'"key":"{name}"')
        self.assertEqual([line["key"] for line in self.audit("--bucket", bucket, "--account", account["account_id"])], [name])
        self.assertEqual(self.audit("--bucket", bucket, "--account", victim["account_id"]), [])

    def test_lines_that_no_server_wrote_are_passed_by(self):
        with open(self.log, "ab") as log:
            log.write(b'{"time":"' + b"\xff" * 40 + b"\n" + b"\x00" * 500 + b"\n" + b'{"time":"2026-01-02T03:04:05.678Z","key":"\xc3\x28"}\n[[[[\n')
        self.assertGreater(self.told("audit", {"lines": 1000, "search": "nothing has this"})["unreadable"], 1)
        done = subprocess.run([program(), "admin", "audit", "--search", "nothing has this"], env=self.env, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (OK, ""))
        self.assertIn("lines of the log are cut off, or were not written by a server", done.stderr)

    def test_what_makes_no_sense_is_refused(self):
        for wrong in (["--since", "yesterday"], ["--since", "99999999999d"], ["--peer", "not an address"], ["--outcome", "no-thing"], ["--account", "nobody"]):
            self.run_program("admin", "audit", *wrong, expect=NOT_FOUND if wrong[0] == "--account" else USAGE)
        for body in ({"lines": 1001}, {"lines": -1}, {"next": "x"}, {"next": "1-2-3"}, {"since": 5}, {"prefix": "x" * 2000}, {"search": []}, {"outcome": "99999999999999999999"}):
            self.assertEqual(self.ask("audit", body)[0], 400, body)

    def test_many_searches_at_once_are_answered_or_told_to_come_again_and_hold_up_nobody(self):
        bucket = self.new_bucket()
        # A log that takes a while to search: concurrent searches are refused as busy.
        old = self.log.with_name(self.log.name + ".50")
        line = b'{"time":"2026-01-02T03:04:05.678Z","door":"http","key":"' + b"k" * 200 + b'","status":200}\n'
        old.write_bytes(line * ((128 << 20) // len(line)))
        self.addCleanup(old.unlink, missing_ok=True)
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            asked = [pool.submit(self.ask, "audit", {"search": "nothing has this"}) for _ in range(60)]
            for n in range(20):
                self.s3.put_object(Bucket=bucket, Key=str(n), Body=b"x")
            statuses = {future.result()[0] for future in asked}
        self.assertEqual(statuses, {200, 503})

    def test_it_takes_the_right_to_search(self):
        _, searcher = self.user_with_key(self.iam, policy("admin:SearchAudit"))
        self.assertEqual(self.ask("audit", {}, searcher)[0], 200)
        self.assertEqual(self.ask("doctor", {}, searcher)[0], 403)
        env = dict(self.env, AWS_ACCESS_KEY_ID=searcher[0], AWS_SECRET_ACCESS_KEY=searcher[1])
        self.run_program("admin", "doctor", expect=DENIED, env=env)

    def test_a_server_without_a_log_says_how_to_keep_one(self):
        with Server(memory=True) as server:
            done = subprocess.run([program(), "admin", "audit"], env=dict(self.env, AWS_ENDPOINT_URL=server.http), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, NOT_FOUND)
        self.assertIn("access_log", done.stderr)


class Busy(AdminCase):
    """A fake server with scripted answers: pages of a search, and "busy" between them."""

    def serve(self, *answers):
        rest = list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                answer = rest.pop(0) if len(rest) > 1 else rest[0]
                body = json.dumps(answer or {"error": {"code": "SlowDown", "message": "Other searches are running: try again."}}).encode()
                self.send_response(200 if answer else 503)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        asked = []
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}", asked

    def run_against(self, address, *args):
        return subprocess.run([program(), "admin", *args], env=dict(self.env, AWS_ENDPOINT_URL=address), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    @staticmethod
    def page(key, next_):
        return {"log": "file", "next": next_, "reaches": "2026-01-02T03:04:05.678Z", "lines": [{"time": "2026-01-02T03:04:05.678Z", "key": key}]}

    def test_a_long_search_waits_for_a_server_that_is_busy(self):
        address, asked = self.serve(None, self.page("a", "there"), None, None, self.page("b", ""))
        done = self.run_against(address, "audit", "--json", "--lines", "0")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual([json.loads(line)["key"] for line in done.stdout.splitlines()], ["a", "b"])
        self.assertEqual([one.get("next") for one in asked], [None, None, "there", "there", "there"])

    def test_a_search_that_breaks_off_says_how_far_it_came(self):
        address, asked = self.serve(self.page("a", "there"), None)
        done = self.run_against(address, "audit", "--json", "--lines", "0")
        self.assertEqual(done.returncode, FAILURE)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertIn("Other searches are running", done.stderr)
        self.assertIn("--until 2026-01-02T03:04:05.678Z", done.stderr)
        self.assertLess(len(asked), 20)

    def test_a_doctor_that_says_nothing_has_found_nothing_sound(self):
        for answer in ({"findings": []}, {"x": 1}, {"findings": "ok"}):
            done = self.run_against(self.serve(answer)[0], "doctor")
            self.assertEqual((done.returncode, done.stdout), (FAILURE, ""), answer)
        done = self.run_against(self.serve({"findings": [{"health": "excellent", "subject": "disk\u001b[2J\u00fc", "found": "x", "mend": ""}]})[0], "doctor", "--json")
        self.assertEqual(done.returncode, FAILURE)
        self.assertTrue(done.stdout.isascii())
        self.assertEqual(json.loads(done.stdout)["subject"], "disk\u001b[2J\u00fc")


class Rights(AdminCase):
    def test_who_asks_hears_which_calls_he_may_make(self):
        everything = set(self.told("rights")["calls"])
        self.assertTrue({"info", "top", "top-end", "trace", "sessions", "session-end", "events", "config", "logs", "audit", "doctor"} <= everything)
        _, watcher = self.user_with_key(self.iam, policy("admin:Top", "admin:SearchAudit"))
        self.assertEqual(set(self.told("rights", key=watcher)["calls"]), {"top", "top-end", "audit"})
        account = self.account()
        self.assertEqual(self.told("rights", key=(account["access_key"], account["secret_key"]))["calls"], [])
        for right in everything - {"top-end", "trace-end", "session-end"}:
            self.assertNotIn(self.ask(right, {}, key=watcher)[0] if right not in ("top", "audit") else 403, (200,))

    def test_counters_alone_take_no_watcher(self):
        # The limit is sixteen watchers.
        for _ in range(20):
            top = self.told("top", {"sums": False})
            self.assertNotIn("watcher", top)
            self.assertIn("http", {door["door"] for door in top["doors"]})
        watchers = [self.watch() for _ in range(16)]
        for watcher in watchers:
            self.told("trace-end", {"watcher": watcher})
        self.assertEqual(self.ask("top", {"sums": "no"})[0], 400)


class Doctor(AdminCase):
    def test_a_server_says_what_its_machine_lacks_and_the_command_that_mends_it(self):
        lines = [json.loads(line) for line in self.run_program("admin", "doctor", "--json").splitlines()]
        found = {line["subject"]: line for line in lines}
        for subject in ("disk of the data", "open files", "limit memlock", "limit nofile", "huge pages", "memory", "io_uring", "clock"):
            self.assertIn(subject, found)
        self.assertIn("free of", found["disk of the data"]["found"])
        self.assertTrue(all(line["mend"] for line in lines if line["health"] != "ok"), lines)
        self.assertTrue(all("command" in line for line in lines), lines)
        text = self.run_program("admin", "doctor")
        self.assertRegex(text, r"\d+ of \d+ checks ok")

    def test_who_ask_at_once_are_told_of_one_look(self):
        # Its findings (open files, free memory) change from run to run; they are cached for five seconds.
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: self.ask("doctor"), range(300)))
        looks = {json.dumps(answer) for _, answer in answers}
        self.assertEqual({status for status, _ in answers}, {200})
        self.assertLessEqual(len(looks), 2 + (time.monotonic() - began) / 5)


if __name__ == "__main__":
    unittest.main()
