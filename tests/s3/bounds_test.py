#!/usr/bin/python3
"""Bounded buckets, by boto3 and by the native client: writes evict, the bound holds, a kill leaves a right account.

usage: bounds_test.py [unittest arguments]
"""
import concurrent.futures
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import botocore.awsrequest  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402
from signed_call import call, sent  # noqa: E402
from verbena_server import Server, boto3_client  # noqa: E402

SIZE = 16_000
KEPT = 100  # objects of SIZE that the bound has room for
PATIENCE_S = 60


def bound(server, bucket, text):
    return call(server, "PUT", f"/{bucket}?verbena-bound", f"<BoundConfiguration>{text}</BoundConfiguration>".encode())


def listed(s3, bucket):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {one["Key"]: one["Size"] for page in pages for one in page.get("Contents", [])}


def counted(s3, bucket):
    headers = s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]
    return int(headers["x-verbena-objects"]), int(headers["x-verbena-bytes"])


class Bounds(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server())
        self.s3 = boto3_client(self.server.http, max_pool_connections=16)
        self.addCleanup(lambda: self.s3.close())
        self.s3.create_bucket(Bucket="cache")

    def put(self, number, size=SIZE):
        self.s3.put_object(Bucket="cache", Key=f"{number:05}", Body=bytes([number % 251]) * size)

    def test_the_setting_is_kept_checked_and_removed(self):
        self.assertEqual(bound(self.server, "cache", "<MaxObjects>7</MaxObjects><Policy>lru</Policy>"), (200, ""))
        status, text = call(self.server, "GET", "/cache?verbena-bound")
        self.assertEqual(status, 200)
        self.assertIn("<MaxObjects>7</MaxObjects>", text)
        self.assertIn("<Policy>lru</Policy>", text)
        for wrong in ("", "<MaxObjects>0</MaxObjects>", "<MaxBytes>-1</MaxBytes>", "<MaxBytes>1</MaxBytes><Policy>best</Policy>",
                      "<MaxObjects>99999999999999999999999</MaxObjects>"):
            self.assertEqual(bound(self.server, "cache", wrong)[0], 400, wrong)
        for number in range(20):
            self.put(number, 10)
        self.assertLessEqual(len(listed(self.s3, "cache")), 7)
        self.assertEqual(call(self.server, "DELETE", "/cache?verbena-bound")[0], 204)
        for number in range(20):
            self.put(number, 10)
        self.assertEqual(len(listed(self.s3, "cache")), 20)

    def test_with_versions_or_without_the_right_there_is_none(self):
        self.s3.create_bucket(Bucket="versions")
        self.s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
        self.assertEqual(bound(self.server, "versions", "<MaxObjects>7</MaxObjects>")[0], 409)
        bound(self.server, "cache", "<MaxObjects>7</MaxObjects>")
        with self.assertRaises(ClientError):
            self.s3.put_bucket_versioning(Bucket="cache", VersioningConfiguration={"Status": "Enabled"})
        stranger = botocore.awsrequest.AWSRequest("PUT", self.server.http + "/cache?verbena-bound", data=b"")
        self.assertEqual(sent(stranger)[0], 403)

    def test_many_writers_at_once_keep_the_bound_and_a_kill_the_account(self):
        bound(self.server, "cache", f"<MaxBytes>{KEPT * SIZE}</MaxBytes>")
        most = 0

        def write(worker):
            nonlocal most
            for i in range(60):
                number = worker * 1000 + i
                if i % 10 == 9:
                    source = {"Bucket": "cache", "Key": f"{number - 1:05}"}
                    try:
                        self.s3.copy_object(Bucket="cache", Key=f"{number:05}", CopySource=source)
                    except ClientError as error:  # its source was evicted
                        self.assertEqual(error.response["Error"]["Code"], "NoSuchKey")
                else:
                    self.put(number)
                if i % 20 == 0:
                    most = max(most, counted(self.s3, "cache")[1])

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(write, worker) for worker in range(8)]:
                done.result()
        self.assertLessEqual(most, KEPT * SIZE * 1.01)
        self.assertGreater(most, KEPT * SIZE * 0.8)
        there = listed(self.s3, "cache")
        self.assertEqual((len(there), sum(there.values())), counted(self.s3, "cache"))
        for key in list(there)[::10]:
            body = self.s3.get_object(Bucket="cache", Key=key)["Body"].read()
            self.assertEqual(body, bytes([int(key) % 251 if int(key) % 10 != 9 else (int(key) - 1) % 251]) * SIZE)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(self.until_it_is_gone, 20_000 + worker * 1000) for worker in range(4)]
            time.sleep(1)
            self.server.kill()
            for writer in writers:
                writer.result()
        self.s3.close()
        self.server.start()
        self.s3 = boto3_client(self.server.http)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:  # evictions of the start may be under way while a listing is read
            before, there, after = counted(self.s3, "cache"), listed(self.s3, "cache"), counted(self.s3, "cache")
            if before == after:
                break
            time.sleep(0.2)
        self.assertEqual((len(there), sum(there.values())), after)
        for number in range(40_000, 40_150):
            self.put(number)
        there = listed(self.s3, "cache")
        self.assertLessEqual(sum(there.values()), KEPT * SIZE)
        self.assertIn("40149", there)

    def until_it_is_gone(self, first):
        for number in range(first, first + 900):
            try:
                self.put(number)
            except Exception:  # pylint: disable=broad-except
                return

    def test_what_is_larger_than_the_bound_is_refused_and_evicts_nothing(self):
        bound(self.server, "cache", "<MaxBytes>100000</MaxBytes>")
        for number in range(5):
            self.put(number, 10_000)
        with self.assertRaises(ClientError) as refused:
            self.put(9, 100_001)
        self.assertEqual(refused.exception.response["ResponseMetadata"]["HTTPStatusCode"], 507)
        self.assertEqual(len(listed(self.s3, "cache")), 5)
        upload = self.s3.create_multipart_upload(Bucket="cache", Key="parts")["UploadId"]
        part = self.s3.upload_part(Bucket="cache", Key="parts", UploadId=upload, PartNumber=1, Body=b"p" * 90_000)
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        self.s3.complete_multipart_upload(Bucket="cache", Key="parts", UploadId=upload, MultipartUpload=parts)
        there = listed(self.s3, "cache")
        self.assertEqual(there["parts"], 90_000)
        self.assertLessEqual(sum(there.values()), 100_000)

    def test_what_is_acknowledged_from_memory_can_all_be_evicted(self):
        status = call(self.server, "PUT", "/quick", b"", {"x-verbena-durability": "memory"})[0]
        self.assertEqual(status, 200)
        bound(self.server, "quick", "<MaxObjects>50</MaxObjects>")

        def write(worker):
            for number in range(600):
                self.s3.put_object(Bucket="quick", Key=f"{worker}-{number}", Body=b"q" * 200)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(write, worker) for worker in range(4)]:
                done.result()
        bound(self.server, "quick", "<MaxObjects>1</MaxObjects>")
        until = time.monotonic() + PATIENCE_S
        while len(listed(self.s3, "quick")) > 1 and time.monotonic() < until:
            time.sleep(0.1)
        self.assertLessEqual(len(listed(self.s3, "quick")), 1)

    def test_a_copy_and_an_overwrite_take_only_what_they_add(self):
        bound(self.server, "cache", "<MaxBytes>20000</MaxBytes>")
        self.s3.create_bucket(Bucket="other")
        self.s3.put_object(Bucket="other", Key="large", Body=b"l" * 60_000)
        for number in range(15):
            self.put(number, 1_000)
        with self.assertRaises(ClientError) as refused:
            self.s3.copy_object(Bucket="cache", Key="copy", CopySource={"Bucket": "other", "Key": "large"})
        self.assertEqual(refused.exception.response["ResponseMetadata"]["HTTPStatusCode"], 507)
        self.assertEqual(len(listed(self.s3, "cache")), 15)
        tag = self.s3.put_object(Bucket="cache", Key="most", Body=b"m" * 18_000)["ETag"]
        add = lambda request, **_: request.headers.add_header("if-match", tag)
        self.s3.meta.events.register("before-sign.s3.PutObject", add)
        self.s3.put_object(Bucket="cache", Key="most", Body=b"n" * 18_000)
        self.assertEqual(self.s3.get_object(Bucket="cache", Key="most")["Body"].read(), b"n" * 18_000)

    def test_descriptions_of_namespaces_stay(self):
        bound(self.server, "cache", "<MaxObjects>20</MaxObjects>")
        self.assertIn("<KeepSuffix>/namespace.json</KeepSuffix>", call(self.server, "GET", "/cache?verbena-bound")[1])
        self.s3.put_object(Bucket="cache", Key="n/namespace.json", Body=b"{}")
        for number in range(60):
            self.put(number, 10)
        self.assertIn("n/namespace.json", listed(self.s3, "cache"))
        self.assertEqual(bound(self.server, "cache", "<MaxObjects>20</MaxObjects><KeepSuffix/>"), (200, ""))
        for number in range(60, 120):
            self.put(number, 10)
        self.assertNotIn("n/namespace.json", listed(self.s3, "cache"))
        self.assertEqual(bound(self.server, "cache", f"<MaxObjects>20</MaxObjects><KeepSuffix>{'s' * 129}</KeepSuffix>")[0], 400)

    def test_a_smaller_bound_is_met_without_a_write(self):
        for number in range(50):
            self.put(number, 100)
        bound(self.server, "cache", "<MaxObjects>10</MaxObjects>")
        until = time.monotonic() + PATIENCE_S
        while len(listed(self.s3, "cache")) > 10 and time.monotonic() < until:
            time.sleep(0.1)
        self.assertLessEqual(len(listed(self.s3, "cache")), 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
