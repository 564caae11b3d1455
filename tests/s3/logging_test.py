#!/usr/bin/python3
"""Server access logs: a bucket's requests, delivered as objects into another bucket."""
import pathlib
import re
import shlex
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case  # noqa: E402
from verbena_server import boto3_client  # noqa: E402

FIELDS = ("owner bucket time peer requester id operation key request status error sent size total turn referer agent version host_id "
          "signature cipher auth host tls access_point acl").split()
WAIT_S = 60


def parse(line):
    """A record's fields by name: the time is in brackets, texts in quotation marks."""
    values = shlex.split(re.sub(r"\[(.*?)\]", r'"\1"', line, count=1))
    assert len(values) == len(FIELDS), line
    return dict(zip(FIELDS, values))


class Logging(S3Case):
    server_args = ("--set", "bucket_log_interval=1")

    def logging_on(self, source, target):
        self.s3.put_bucket_logging(Bucket=source, BucketLoggingStatus={"LoggingEnabled": {
            "TargetBucket": target, "TargetPrefix": "log/"}})

    def objects(self, target):
        return [entry["Key"] for entry in self.s3.list_objects_v2(Bucket=target).get("Contents", [])]

    def records(self, target, operation, count):
        """All records of `operation`, once there are `count`."""
        deadline = time.monotonic() + WAIT_S
        while True:
            text = b"".join(self.s3.get_object(Bucket=target, Key=key)["Body"].read() for key in self.objects(target)).decode()
            found = [record for record in map(parse, text.splitlines()) if record["operation"] == operation]
            if len(found) >= count or time.monotonic() > deadline:
                self.assertEqual(len(found), count, text)
                return found
            time.sleep(0.2)

    def test_requests_are_recorded(self):
        source, target = self.new_bucket(), self.new_bucket()
        self.assertNotIn("LoggingEnabled", self.s3.get_bucket_logging(Bucket=source))
        self.logging_on(source, target)
        enabled = self.s3.get_bucket_logging(Bucket=source)["LoggingEnabled"]
        self.assertEqual((enabled["TargetBucket"], enabled["TargetPrefix"]), (target, "log/"))
        self.s3.put_object(Bucket=source, Key="a b", Body=b"12345")
        self.assertEqual(self.request("GET", self.presign("GET", f"/{source}/a%20b", 60), signed=False).body, b"12345")
        self.s3.delete_objects(Bucket=source, Delete={"Objects": [{"Key": "a b"}, {"Key": "c"}]})
        put = self.records(target, "REST.PUT.OBJECT", 1)[0]
        self.assertEqual((put["bucket"], put["key"], put["status"], put["size"], put["auth"], put["signature"], put["peer"]),
                         (source, "a%20b", "200", "5", "AuthHeader", "SigV4", "127.0.0.1"))
        self.assertIn("Boto3", put["agent"])
        got = self.records(target, "REST.GET.OBJECT", 1)[0]
        self.assertEqual((got["auth"], got["sent"], got["size"]), ("QueryString", "5", "5"))
        self.assertIn("X-Amz-Signature=-", got["request"])
        self.assertEqual([record["key"] for record in self.records(target, "BATCH.DELETE.OBJECT", 2)], ["a%20b", "c"])
        for key in self.objects(target):
            self.assertRegex(key, r"^log/\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d-[0-9a-f]{16}$")
        self.s3.put_bucket_logging(Bucket=source, BucketLoggingStatus={})
        self.assertNotIn("LoggingEnabled", self.s3.get_bucket_logging(Bucket=source))

    def test_keys_are_partitioned_when_asked(self):
        source, target = self.new_bucket(), self.new_bucket()
        # Raw requests: older boto3 does not know the format of keys.
        body = (f"<BucketLoggingStatus><LoggingEnabled><TargetBucket>{target}</TargetBucket><TargetPrefix>log/</TargetPrefix>"
                "<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>DeliveryTime</PartitionDateSource>"
                "</PartitionedPrefix></TargetObjectKeyFormat></LoggingEnabled></BucketLoggingStatus>")
        self.assertEqual(self.request("PUT", f"/{source}?logging=", {}, body.encode()).status, 200)
        self.assertEqual(self.request("GET", f"/{source}?logging=").text("PartitionDateSource"), "DeliveryTime")
        self.s3.list_objects_v2(Bucket=source)
        self.records(target, "REST.GET.BUCKET", 1)
        self.assertRegex(self.objects(target)[0], rf"^log/[^/]+/us-east-1/{source}/\d{{4}}/\d\d/\d\d/\d{{4}}-\d\d-\d\d-")

    def test_the_target_must_be_there(self):
        source = self.new_bucket()
        self.assert_error("InvalidTargetBucketForLogging", 400, self.logging_on, source=source, target="no-such-bucket")
        self.assert_error("NoSuchBucket", 404, self.logging_on, source="no-such-bucket", target=source)

    def test_what_waits_is_delivered_when_the_server_stops(self):
        source, target = self.new_bucket(), self.new_bucket()
        self.logging_on(source, target)
        self.s3.head_bucket(Bucket=source)
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        type(self).s3 = boto3_client(self.server.http)
        self.records(target, "REST.HEAD.BUCKET", 1)


if __name__ == "__main__":
    unittest.main()
