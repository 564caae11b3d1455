#!/usr/bin/python3
"""Quotas and usage for operators and tenants: `verbena quota`, `verbena du`, boto3, the native door, metrics."""
import concurrent.futures
import json
import pathlib
import re
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from iam_case import DENIED, FAILURE, IamCase, NOT_FOUND, USAGE  # noqa: E402

KIB, MIB = 1024, 1024 * 1024


class Quotas(IamCase):
    def env_of(self, account):
        return dict(self.env, AWS_ACCESS_KEY_ID=account["access_key"], AWS_SECRET_ACCESS_KEY=account["secret_key"])

    def tenant(self):
        """A new account, its S3 client and a bucket of its own."""
        account = self.account()
        s3 = self.as_account(account, "s3")
        bucket = f"of-{account['name']}"
        s3.create_bucket(Bucket=bucket)
        return account, s3, bucket

    def usage(self, name):
        return json.loads(self.run_program("quota", "show", name, "--json"))["usage"]

    def by_listing(self, s3, bucket):
        said = {"objects": 0, "bytes": 0, "versions": 0, "version_bytes": 0, "delete_markers": 0, "uploads": 0, "upload_bytes": 0}
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for version in page.get("Versions", []):
                kind = ("objects", "bytes") if version["IsLatest"] else ("versions", "version_bytes")
                said[kind[0]] += 1
                said[kind[1]] += version["Size"]
            said["delete_markers"] += len(page.get("DeleteMarkers", []))
        for upload in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
            said["uploads"] += 1
            parts = s3.list_parts(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"]).get("Parts", [])
            said["upload_bytes"] += sum(part["Size"] for part in parts)
        return said

    def test_what_a_bucket_holds_is_known_at_once_and_to_the_byte(self):
        account, s3, bucket = self.tenant()
        s3.put_object(Bucket=bucket, Key="a", Body=b"x" * 1000)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        s3.put_object(Bucket=bucket, Key="a", Body=b"x" * 20)
        s3.put_object(Bucket=bucket, Key="dir/b", Body=b"x" * 5)
        s3.delete_object(Bucket=bucket, Key="dir/b")
        upload = s3.create_multipart_upload(Bucket=bucket, Key="never")["UploadId"]
        s3.upload_part(Bucket=bucket, Key="never", UploadId=upload, PartNumber=1, Body=b"x" * 70_000)
        wanted = self.by_listing(s3, bucket)
        self.assertEqual(wanted, {"objects": 1, "bytes": 20, "versions": 2, "version_bytes": 1005, "delete_markers": 1,
                                  "uploads": 1, "upload_bytes": 70_000})
        for said in (self.usage(f"s3://{bucket}"), self.usage(account["name"])):
            self.assertEqual({name: said[name] for name in wanted}, wanted)
        head = s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]
        self.assertEqual({name: int(head["x-verbena-" + name.replace("_", "-")]) for name in wanted}, wanted)
        du = json.loads(self.run_program("du", "--json", f"s3://{bucket}", env=self.env_of(account)))
        self.assertEqual(du, dict(wanted, place=f"s3://{bucket}"))
        listed = json.loads(self.run_program("du", "--json", "--list", f"s3://{bucket}", env=self.env_of(account)))
        self.assertEqual((listed["objects"], listed["bytes"]), (1, 20))
        lines = self.run_program("du", "--account", account["name"]).split()
        self.assertEqual(lines, ["20", "1", f"s3://{bucket}", "20", "1", "account", account["name"]])

    def test_bytes_and_objects_of_a_bucket(self):
        _, s3, bucket = self.tenant()
        said = self.run_program("quota", "set", f"s3://{bucket}", "--bytes", "10KiB", "--objects", "3")
        self.assertEqual(said.split("\n")[0].split(), ["bytes", "10", "KiB"])
        s3.put_object(Bucket=bucket, Key="a", Body=b"x" * 9 * KIB)
        self.assert_error("QuotaExceeded", 403, s3.put_object, Bucket=bucket, Key="b", Body=b"x" * 2 * KIB)
        self.assert_error("QuotaExceeded", 403, s3.copy_object, Bucket=bucket, Key="b",
                          CopySource={"Bucket": bucket, "Key": "a"})
        s3.put_object(Bucket=bucket, Key="b", Body=b"x" * KIB)
        s3.put_object(Bucket=bucket, Key="c", Body=b"")
        self.assert_error("QuotaExceeded", 403, s3.put_object, Bucket=bucket, Key="d", Body=b"")
        self.assert_error("QuotaExceeded", 403, s3.create_multipart_upload, Bucket=bucket, Key="d")
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "c"}]})
        s3.put_object(Bucket=bucket, Key="d", Body=b"x" * 9 * KIB)
        shown = self.run_program("quota", "show", f"s3://{bucket}")
        self.assertRegex(shown, r"bytes +10(\.0)? KiB, 10(\.0)? KiB in use")
        self.assertIn("3, 2 in use", shown)
        self.run_program("quota", "clear", f"s3://{bucket}")
        s3.put_object(Bucket=bucket, Key="e", Body=b"x" * 100 * KIB)

    def test_an_accounts_quota_is_over_all_its_buckets_and_outlives_a_restart(self):
        account, s3, bucket = self.tenant()
        s3.create_bucket(Bucket=bucket + "-2")
        self.run_program("quota", "set", account["name"], "--bytes", "10KiB")
        s3.put_object(Bucket=bucket, Key="a", Body=b"x" * 6 * KIB)
        self.assert_error("QuotaExceeded", 403, s3.put_object, Bucket=bucket + "-2", Key="a", Body=b"x" * 6 * KIB)
        # A bucket that is created anew still counts for the account's quota.
        s3.delete_object(Bucket=bucket, Key="a")
        s3.delete_bucket(Bucket=bucket)
        s3.create_bucket(Bucket=bucket)
        self.assert_error("QuotaExceeded", 403, s3.put_object, Bucket=bucket, Key="a", Body=b"x" * 11 * KIB)

    def test_the_native_door_keeps_to_it(self):
        account, s3, bucket = self.tenant()
        env = self.env_of(account)
        self.run_program("quota", "set", f"s3://{bucket}", "--bytes", "100KiB")
        file = self.home / "file"
        file.write_bytes(b"x" * 60 * KIB)
        self.run_program("put", "--via", "native", "--native", self.server.native, str(file), f"s3://{bucket}/a", env=env)
        self.run_program("put", "--via", "native", "--native", self.server.native, str(file), f"s3://{bucket}/b", env=env, expect=DENIED)
        file.write_bytes(b"x" * 20 * KIB)
        self.run_program("rm", f"s3://{bucket}/a", env=env)
        self.run_program("put", "--via", "native", "--native", self.server.native, str(file), f"s3://{bucket}/b", env=env)
        self.assertLessEqual(self.usage(f"s3://{bucket}")["bytes"], 100 * KIB)

    def test_uploads_at_the_same_time_never_go_beyond(self):
        _, s3, bucket = self.tenant()
        self.run_program("quota", "set", f"s3://{bucket}", "--bytes", "1MiB", "--objects", "1000")

        def put(number):
            try:
                s3.put_object(Bucket=bucket, Key=f"k{number}", Body=b"x" * 100 * KIB)
                return 1
            except s3.exceptions.ClientError as error:
                self.assertEqual(error.response["Error"]["Code"], "QuotaExceeded")
                return 0

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            stored = sum(pool.map(put, range(60)))
        usage = self.usage(f"s3://{bucket}")
        self.assertEqual(usage["objects"], stored)
        self.assertEqual(usage["bytes"], stored * 100 * KIB)
        self.assertLessEqual(usage["bytes"], MIB)
        for number in range(60, 75):  # single puts succeed while there is room
            put(number)
        self.assertEqual(self.usage(f"s3://{bucket}")["objects"], 10)

    def test_requests_a_second(self):
        account, s3, bucket = self.tenant()
        s3.put_object(Bucket=bucket, Key="k", Body=b"x")
        self.run_program("user", "add", f"{account['name']}/limited")
        self.run_program("quota", "set", account["name"], "--bandwidth", "1KiB")
        s3.put_object(Bucket=bucket, Key="big", Body=b"x" * 100 * KIB)
        reply = self.assert_error("SlowDown", 503, s3.get_object, Bucket=bucket, Key="k")
        self.assertGreater(int(reply["ResponseMetadata"]["HTTPHeaders"]["retry-after"]), 60)
        # By the native door, too; and other tenants are not delayed.
        self.run_program("get", "--via", "native", "--native", self.server.native, "--attempts", "1", f"s3://{bucket}/k", "-",
                         env=self.env_of(account), expect=FAILURE)
        self.assertEqual(self.s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"x")
        self.run_program("quota", "clear", account["name"])
        self.assertEqual(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"x")

    def post_form(self, s3, bucket, key, body):
        """The status of a browser's upload that the client's account has signed."""
        form = s3.generate_presigned_post(bucket, key)
        edge = "edge"
        fields = "".join(f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                         for name, value in form["fields"].items())
        text = f'{fields}--{edge}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'.encode()
        request = urllib.request.Request(form["url"], data=text + body + f"\r\n--{edge}--\r\n".encode(), method="POST",
                                         headers={"Content-Type": f"multipart/form-data; boundary={edge}"})
        try:
            return urllib.request.urlopen(request, timeout=20).status
        except urllib.error.HTTPError as error:
            return error.code

    def test_forms_count_for_their_signer(self):
        account, s3, bucket = self.tenant()
        self.assertEqual(self.post_form(s3, bucket, "form", b"x"), 204)
        self.run_program("quota", "set", account["name"], "--bandwidth", "1KiB")
        self.assertEqual(self.post_form(s3, bucket, "form", b"x" * 100 * KIB), 204)
        self.assertEqual(self.post_form(s3, bucket, "later", b"x"), 503)
        self.assert_error("NoSuchKey", 404, self.s3.get_object, Bucket=bucket, Key="later")
        self.run_program("quota", "clear", account["name"])
        self.assertEqual(self.post_form(s3, bucket, "later", b"x"), 204)
        # The rate of the bucket, where lists of objects count for nothing: five forms are more than one a second.
        s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]})
        self.run_program("quota", "set", f"s3://{bucket}", "--requests", "1")
        self.assertIn(503, [self.post_form(s3, bucket, "form", b"x") for _ in range(5)])

    def test_each_key_of_delete_objects_counts(self):
        account, s3, bucket = self.tenant()
        self.run_program("quota", "set", account["name"], "--requests", "20")
        keys = [{"Key": f"k{number}"} for number in range(1000)]
        s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})
        reply = self.assert_error("SlowDown", 503, s3.get_object, Bucket=bucket, Key="k")
        self.assertGreater(int(reply["ResponseMetadata"]["HTTPHeaders"]["retry-after"]), 10)

    def test_only_the_root_keys_set_and_see_quotas(self):
        account, _, bucket = self.tenant()
        env = self.env_of(account)
        for args in (("set", f"s3://{bucket}", "--bytes", "1TiB"), ("clear", f"s3://{bucket}"), ("show", f"s3://{bucket}"),
                     ("set", account["name"], "--bytes", "1TiB"), ("clear", account["name"])):
            with self.subTest(args=args):
                self.run_program("quota", *args, env=env, expect=DENIED)
        self.run_program("du", "--account", account["name"], env=env, expect=DENIED)
        self.run_program("quota", "show", f"s3://{bucket}", "--anonymous", expect=DENIED)

    def test_what_is_no_quota_is_refused(self):
        account, _, bucket = self.tenant()
        self.run_program("user", "add", f"{account['name']}/u")
        for args, code in [(("set", f"s3://{bucket}"), USAGE), (("set", f"s3://{bucket}", "--bytes", "many"), USAGE),
                           (("set", f"s3://{bucket}", "--objects", "-1"), USAGE), (("set", f"s3://{bucket}/key", "--objects", "1"), USAGE),
                           (("set", f"s3://{bucket}", "--bandwidth", "1"), USAGE), (("set", f"s3://{bucket}", "--requests", "0"), USAGE),
                           (("set", "s3://no-such-bucket", "--objects", "1"), USAGE), (("show", "nobody"), NOT_FOUND),
                           (("set", f"{account['name']}/u", "--bytes", "1GiB"), USAGE),
                           (("set", f"{account['name']}/nobody", "--requests", "5"), NOT_FOUND)]:
            with self.subTest(args=args):
                self.run_program("quota", *args, expect=code)
        self.run_program("quota", "set", f"{account['name']}/u", "--requests", "5")
        self.assertIn("5", self.run_program("quota", "show", f"{account['name']}/u"))
        for body in (b"", b"[]", b'{"bucket":1}', b'{"bucket":"b","quota":{"bytes":1e3}}', b"{" * 1000, b'{"bucket":"x/../y"}'):
            for call in ("quota-set", "usage", "quota-get"):
                reply = self.request("POST", f"/-/admin/{call}", {"content-type": "application/json"}, body)
                self.assertIn(reply.status, (400, 404), (call, body, reply.body))

    def test_metrics_tell_what_is_stored(self):
        _, s3, bucket = self.tenant()
        s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 50_000_000)
        text = self.metrics()
        self.assertIn(f'verbena_bucket_stored_bytes{{bucket="{bucket}"}} 50000000', re.sub(r"5e\+07", "50000000", text))
        self.assertIn(f'verbena_bucket_stored_objects{{bucket="{bucket}"}} 1', text)
        self.assertRegex(text, r"(?m)^verbena_stored_bytes \S+$")

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.server.native}/-/metrics", timeout=30) as reply:
            return reply.read().decode()


class Starts(unittest.TestCase):
    def test_quotas_and_usage_are_there_after_a_start(self):
        case = Quotas("test_metrics_tell_what_is_stored")
        Quotas.setUpClass()
        try:
            account, s3, bucket = case.tenant()
            s3.put_object(Bucket=bucket, Key="a", Body=b"x" * 6 * KIB)
            case.run_program("quota", "set", account["name"], "--bytes", "10KiB")
            case.run_program("quota", "set", f"s3://{bucket}", "--bytes", "8KiB")
            server = Quotas.server
            server.stop()
            server.start()
            Quotas.env["AWS_ENDPOINT_URL"] = server.http
            s3 = case.as_account(account, "s3")
            self.assertEqual(case.usage(account["name"])["bytes"], 6 * KIB)
            case.assert_error("QuotaExceeded", 403, s3.put_object, Bucket=bucket, Key="b", Body=b"x" * 3 * KIB)
            s3.put_object(Bucket=bucket, Key="b", Body=b"x" * 2 * KIB)
            s3.create_bucket(Bucket=bucket + "-2")
            case.assert_error("QuotaExceeded", 403, s3.put_object, Bucket=bucket + "-2", Key="b", Body=b"x" * 3 * KIB)
        finally:
            Quotas.tearDownClass()


if __name__ == "__main__":
    unittest.main(verbosity=2)
