#!/usr/bin/python3
"""Accounts and users on the command line: `verbena user`, against a server and against a stopped server's directory."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import boto3
import botocore.config
import botocore.exceptions

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from iam_case import CONFLICT, CONNECTION, DENIED, FAILURE, IamCase, NOT_FOUND, OK, USAGE, policy  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, program  # noqa: E402


class CommandLine(IamCase):
    def test_an_account_is_made_with_the_keys_and_names_it_is_given(self):
        made = self.account("--id", "testid", "--display-name", "M. Tester", "--email", "Tester@Example.com",
                            "--access-key", "0555b35654ad1656d804", "--secret-key", "h7GhxuBLTrlhVUyxSPUKUV8r/2EI4ngq")
        self.assertEqual((made["id"], made["display_name"], made["email"], made["access_key"]),
                         ("testid", "M. Tester", "tester@example.com", "0555b35654ad1656d804"))
        identity = self.as_account(made, "sts").get_caller_identity()
        self.assertEqual((identity["Arn"], identity["Account"]), (f"arn:aws:iam::{made['account_id']}:root", made["account_id"]))
        owner = self.as_account(made, "s3").list_buckets()["Owner"]
        self.assertEqual(owner["ID"], "testid")
        listed = json.loads(self.run_program("user", "list", "--json"))["accounts"]
        self.assertIn("testid", [account["id"] for account in listed])
        self.assertNotIn("h7Ghxu", json.dumps(listed))
        self.assertIn(made["name"], self.run_program("user", "list"))

    def test_errors_have_their_exit_codes(self):
        made = self.account()
        for args, code in [(("add", made["name"]), CONFLICT), (("add", self.name(), "--id", made["id"]), CONFLICT),
                           (("add", self.name(), "--access-key", made["access_key"], "--secret-key", "12345678"), CONFLICT),
                           (("add", self.name(), "--access-key", ACCESS_KEY, "--secret-key", "12345678"), CONFLICT),
                           (("add", "root"), CONFLICT), (("add", "a b"), USAGE), (("add", self.name(), "--id", "a/b"), USAGE),
                           (("add", self.name(), "--id", "x" * 129), USAGE), (("add", self.name(), "--access-key", "AK"), USAGE),
                           (("add", self.name(), "--email", "nonsense"), USAGE), (("add", "nobody/x"), NOT_FOUND),
                           (("rm", "nobody"), NOT_FOUND), (("rm", "root"), CONFLICT), (("key", "add", "nobody"), NOT_FOUND),
                           (("key", "rm", made["name"], "AKNONE"), NOT_FOUND),
                           (("policy", "attach", made["name"], "arn:aws:iam::aws:policy/AmazonS3FullAccess"), USAGE),
                           (("policy", "list", f"{made['name']}/nobody"), NOT_FOUND), (("frobnicate",), USAGE)]:
            with self.subTest(args=args):
                self.run_program("user", *args, expect=code)
        self.run_program("user", "list", expect=DENIED, env=dict(
            self.env, AWS_ACCESS_KEY_ID=made["access_key"], AWS_SECRET_ACCESS_KEY=made["secret_key"]))
        self.run_program("user", "list", expect=DENIED, env=dict(self.env, AWS_SECRET_ACCESS_KEY="wrong wrong"))
        self.run_program("user", "list", "--anonymous", expect=DENIED)
        self.run_program("user", "list", "--endpoint", "http://127.0.0.1:1", expect=CONNECTION)

    def test_keys_come_and_go(self):
        made = self.account()
        s3 = self.as_account(made, "s3")
        s3.list_buckets()
        second = json.loads(self.run_program("user", "key", "add", made["name"], "--json"))
        self.run_program("user", "key", "add", made["name"], expect=CONFLICT)
        self.assertIn(second["access_key"], self.run_program("user", "key", "list", made["name"]))
        self.run_program("user", "key", "off", made["name"], made["access_key"])
        self.assert_error("InvalidAccessKeyId", 403, s3.list_buckets)
        self.run_program("user", "key", "on", made["name"], made["access_key"])
        s3.list_buckets()
        self.run_program("user", "key", "rm", made["name"], made["access_key"])
        self.assert_error("InvalidAccessKeyId", 403, s3.list_buckets)
        self.client("s3", second["access_key"], second["secret_key"]).list_buckets()

    def test_an_account_with_a_bucket_stays(self):
        made = self.account()
        s3 = self.as_account(made, "s3")
        s3.create_bucket(Bucket="owned-by-" + made["name"])
        self.run_program("user", "rm", made["name"], expect=CONFLICT)
        s3.delete_bucket(Bucket="owned-by-" + made["name"])
        self.run_program("user", "rm", made["name"])
        self.assert_error("InvalidAccessKeyId", 403, s3.list_buckets)

    def test_users_in_an_account_and_their_policies(self):
        made = self.account()
        name = f"{made['name']}/reader"
        user = json.loads(self.run_program("user", "add", name, "--json"))
        self.assertEqual(user["arn"], f"arn:aws:iam::{made['account_id']}:user/reader")
        self.run_program("user", "add", name, expect=CONFLICT)
        iam = self.client("iam", user["access_key"], user["secret_key"])
        self.assert_error("AccessDenied", 403, iam.list_users)
        self.run_program("user", "policy", "put", name, "lists", "-", input=policy("iam:ListUsers").encode())
        self.assertEqual([u["UserName"] for u in iam.list_users()["Users"]], ["reader"])
        self.run_program("user", "policy", "attach", name, "arn:aws:iam::aws:policy/IAMReadOnlyAccess")
        self.assertIn("lists", self.run_program("user", "policy", "list", name))
        self.assertIn("IAMReadOnlyAccess", self.run_program("user", "policy", "list", name))
        self.assertEqual(json.loads(self.run_program("user", "policy", "get", name, "lists")), json.loads(policy("iam:ListUsers")))
        iam.list_groups()
        self.run_program("user", "policy", "detach", name, "arn:aws:iam::aws:policy/IAMReadOnlyAccess")
        self.assert_error("AccessDenied", 403, iam.list_groups)
        self.run_program("user", "policy", "rm", name, "lists")
        self.assert_error("AccessDenied", 403, iam.list_users)
        self.run_program("user", "policy", "put", name, "bad", "-", input=b'{"Version":"2012-10-17"}', expect=USAGE)
        self.run_program("user", "policy", "rm", name, "bad", expect=NOT_FOUND)
        self.run_program("user", "rm", name)
        self.assert_error("InvalidClientTokenId", 403, iam.list_users)

    def test_the_admin_api_is_for_the_root_key_alone(self):
        path, body = "/-/admin/user-list", b"{}"
        self.assertEqual(self.request("POST", path, {"content-type": "application/json"}, body).status, 200)
        unsigned = self.request("POST", path, {"content-type": "application/json"}, body, signed=False)
        self.assertEqual((unsigned.status, json.loads(unsigned.body)["error"]["code"]), (403, "MissingAuthenticationToken"))
        self.assertEqual(self.request("GET", path).status, 405)
        self.assertEqual(json.loads(self.request("POST", "/-/admin/nothing", {}, b"{}").body)["error"]["code"], "InvalidAction")
        for bad in (b"", b"[]", b"{", b'{"name": 1}', b"\xff", b'{"name":' + b"[" * 9000 + b"]" * 9000 + b"}"):
            self.assertEqual(self.request("POST", "/-/admin/user-rm", {}, bad).status, 400, bad)
        self.assertEqual(self.request("POST", path, {}, b" " * 70_000).status, 400)
        session = self.sts.get_session_token()["Credentials"]
        headers = {"x-amz-security-token": session["SessionToken"]}
        signed = self.sign("POST", path, headers, body, key=session["AccessKeyId"], secret=session["SecretAccessKey"])
        self.assertEqual(self.request("POST", path, signed, body, signed=False).status, 403)


class DataDirectory(unittest.TestCase):
    def run_program(self, *args, expect=OK, env=None):
        done = subprocess.run([program(), *args], env=env or self.env, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, expect, f"{args}\n{done.stdout!r}\n{done.stderr.decode()}")
        return done

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-iam-data-")
        self.addCleanup(self.folder.cleanup)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "VERBENA_"))}
        self.env.update(VERBENA_ROOT_ACCESS_KEY=ACCESS_KEY, VERBENA_ROOT_SECRET_KEY=SECRET_KEY)
        self.data = os.path.join(self.folder.name, "data")

    def client(self, server, made, service="s3"):
        client = boto3.client(service, endpoint_url=server.http, region_name="us-east-1",
                              aws_access_key_id=made["access_key"], aws_secret_access_key=made["secret_key"],
                              config=botocore.config.Config(retries={"max_attempts": 0}))
        self.addCleanup(client.close)
        return client

    def test_a_stopped_servers_directory_is_worked_on_and_a_running_ones_is_not(self):
        made = json.loads(self.run_program("user", "add", "early", "--data", self.data, "--json").stdout)
        server = Server(directory=self.data).start()
        try:
            s3 = self.client(server, made)
            s3.create_bucket(Bucket="early-bucket")
            self.assertIn(b"in use", self.run_program("user", "list", "--data", self.data, expect=FAILURE).stderr)
            server.kill()   # acknowledged changes survive kill -9
            server.start()
            s3 = self.client(server, made)
            self.assertEqual([b["Name"] for b in s3.list_buckets()["Buckets"]], ["early-bucket"])
        finally:
            server.stop()
        self.assertIn(b"early", self.run_program("user", "list", "--data", self.data).stdout)
        self.run_program("user", "rm", "early", "--data", self.data, expect=USAGE)
        self.assertNotIn(made["secret_key"].encode(), pathlib.Path(self.data, "identities.json").read_bytes())

    def test_master_keys_may_be_kept_elsewhere(self):
        elsewhere = os.path.join(self.folder.name, "keys")
        self.run_program("user", "add", "early", "--data", self.data, "--key-file", elsewhere)
        self.run_program("user", "list", "--data", self.data, env=dict(self.env, VERBENA_ENCRYPTION_KEY_FILE=elsewhere))
        self.run_program("user", "list", "--data", self.data, expect=FAILURE)
        self.assertFalse(os.path.exists(os.path.join(self.data, "master.keys")))

    def test_what_was_acknowledged_is_there_after_kill_9_in_the_midst_of_changes(self):
        os.mkdir(self.data, 0o700)
        server = Server(directory=self.data).start()
        acknowledged, ended = [], threading.Event()

        def make(iam, worker, enough):
            for number in range(10_000):
                name = f"user-{worker}-{number}"
                try:
                    iam.create_user(UserName=name)
                except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
                    return   # the server is gone
                acknowledged.append(name)
                if len(acknowledged) >= enough:
                    ended.set()

        try:
            for round in range(3):
                root = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
                enough = len(acknowledged) + 30
                workers = [threading.Thread(target=make, args=(self.client(server, root, "iam"), f"{round}-{n}", enough))
                           for n in range(3)]
                ended.clear()
                for worker in workers:
                    worker.start()
                self.assertTrue(ended.wait(60))
                server.kill()
                for worker in workers:
                    worker.join()
                server.start()
                iam = self.client(server, root, "iam")
                pages = iam.get_paginator("list_users").paginate()
                there = {user["UserName"] for page in pages for user in page["Users"]}
                self.assertLessEqual(set(acknowledged), there)
        finally:
            server.stop()

    def test_a_corrupt_file_of_accounts_is_a_clear_error_at_start(self):
        self.run_program("user", "add", "early", "--data", self.data)
        path = pathlib.Path(self.data, "identities.json")
        whole = path.read_bytes()
        path.write_bytes(whole[:len(whole) // 2])
        failed = self.run_program("server", self.data, "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0", expect=FAILURE)
        self.assertIn("identities.json", failed.stderr.decode())
        path.write_bytes(whole)
        self.run_program("user", "list", "--data", self.data)


if __name__ == "__main__":
    unittest.main()
