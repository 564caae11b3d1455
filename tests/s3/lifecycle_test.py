#!/usr/bin/python3
"""Lifecycle rules: their configuration by boto3, and their execution by the server. A day has one second here.

usage: lifecycle_test.py [unittest arguments]
"""
import datetime
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from botocore.exceptions import ClientError  # noqa: E402
from verbena_server import Server, boto3_client  # noqa: E402

PATIENCE_S = 60


def setUpModule():
    global s3, slow, made, where
    s3 = boto3_client(unittest.enterModuleContext(Server(env={"VERBENA_LIFECYCLE_DAY": "1"})).http)
    where = unittest.enterModuleContext(Server()).http   # with days of 24 hours
    slow = boto3_client(where)
    made = 0


def new_bucket(client=None, versions=False, **args):
    global made
    made += 1
    name = f"bucket-{made}"
    client = client or s3
    client.create_bucket(Bucket=name, **args)
    if versions:
        client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


def configure(bucket, *rules, client=None):
    defaults = {"Status": "Enabled", "Filter": {"Prefix": ""}}
    rules = [rule if "Prefix" in rule else {**defaults, **rule} for rule in rules]
    (client or s3).put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


def rules_of(bucket, client=None):
    return (client or s3).get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]


def keys(bucket):
    return {o["Key"] for o in s3.list_objects_v2(Bucket=bucket).get("Contents", [])}


def versions(bucket):
    page = s3.list_object_versions(Bucket=bucket)
    return ([v["VersionId"] for v in page.get("Versions", [])], [m["VersionId"] for m in page.get("DeleteMarkers", [])])


class Case(unittest.TestCase):
    def eventually(self, what, wanted):
        deadline = time.monotonic() + PATIENCE_S
        while (got := what()) != wanted and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(got, wanted)

    def refused(self, code, *rules):
        with self.assertRaises(ClientError) as caught:
            configure(self.bucket, *rules, client=slow)
        self.assertEqual(caught.exception.response["Error"]["Code"], code, rules)


class Configuration(Case):
    def setUp(self):
        self.bucket = new_bucket(slow)

    def test_rules_come_back_with_ids(self):
        with self.assertRaises(ClientError) as caught:
            rules_of(self.bucket, slow)
        self.assertEqual(caught.exception.response["Error"]["Code"], "NoSuchLifecycleConfiguration")
        both = {"And": {"Prefix": "p/", "Tags": [{"Key": "a", "Value": "1"}], "ObjectSizeGreaterThan": 5, "ObjectSizeLessThan": 9}}
        rules = [{"ID": "one", "Status": "Enabled", "Filter": {"Prefix": "x/"}, "Expiration": {"Days": 3}},
                 {"ID": "two", "Status": "Disabled", "Filter": both, "Expiration": {"Days": 1}},
                 {"ID": "three", "Status": "Enabled", "Filter": {"Tag": {"Key": "k", "Value": "v"}}, "Expiration": {"Days": 2}},
                 {"ID": "four", "Status": "Enabled", "Filter": {}, "Expiration": {"ExpiredObjectDeleteMarker": True},
                  "NoncurrentVersionExpiration": {"NoncurrentDays": 4, "NewerNoncurrentVersions": 2},
                  "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}},
                 {"ID": "five", "Status": "Enabled", "Prefix": "old-form", "Expiration": {
                     "Date": datetime.datetime(2033, 1, 2, tzinfo=datetime.timezone.utc)}}]
        configure(self.bucket, *rules, client=slow)
        self.assertEqual(rules_of(self.bucket, slow), rules)
        configure(self.bucket, {"Expiration": {"Days": 1}}, client=slow)
        self.assertTrue(rules_of(self.bucket, slow)[0]["ID"])
        slow.delete_bucket_lifecycle(Bucket=self.bucket)
        slow.delete_bucket_lifecycle(Bucket=self.bucket)
        with self.assertRaises(ClientError):
            rules_of(self.bucket, slow)

    def test_what_is_wrong_is_refused(self):
        expire = {"Expiration": {"Days": 1}}
        tag = {"Tag": {"Key": "a", "Value": "b"}}
        self.refused("InvalidArgument", {"Expiration": {"Days": 0}})
        self.refused("InvalidArgument", {"ID": "x" * 256, **expire})
        self.refused("InvalidArgument", {"ID": "same", **expire}, {"ID": "same", **expire})
        self.refused("InvalidArgument", {"Expiration": {"Date": datetime.datetime(2033, 1, 2, 3)}})
        self.refused("InvalidArgument", {"NoncurrentVersionExpiration": {"NoncurrentDays": 0}})
        self.refused("InvalidArgument", {"NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 101}})
        self.refused("InvalidArgument", {"Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]})
        self.refused("InvalidRequest", {})
        self.refused("InvalidRequest", {"Filter": tag, "Expiration": {"ExpiredObjectDeleteMarker": True}})
        self.refused("InvalidRequest", {"Filter": tag, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}})
        for status in ("enabled", "disabled", "invalid"):
            self.refused("MalformedXML", {"Status": status, **expire})
        self.refused("MalformedXML", {"Expiration": {"Days": 1, "ExpiredObjectDeleteMarker": True}})
        self.refused("MalformedXML", {"Filter": {"And": {"Prefix": "only-one"}}, **expire})
        self.refused("MalformedXML", {"Filter": {"Prefix": "a", "And": {"Prefix": "b", "Tags": [tag["Tag"]]}}, **expire})

    def test_conditions_without_an_and_are_joined(self):
        configure(self.bucket, {"Filter": {"Prefix": "p/", "Tag": {"Key": "a", "Value": "1"}}, "Expiration": {"Days": 1}}, client=slow)
        self.assertEqual(rules_of(self.bucket, slow)[0]["Filter"],
                         {"And": {"Prefix": "p/", "Tags": [{"Key": "a", "Value": "1"}]}})

    def test_the_header_says_when(self):
        configure(self.bucket, {"ID": "the rule", "Filter": {"Prefix": "p/"}, "Expiration": {"Days": 3}},
                  {"ID": "tagged", "Filter": {"Tag": {"Key": "a", "Value": "1"}}, "Expiration": {"Days": 1}}, client=slow)
        put = slow.put_object(Bucket=self.bucket, Key="p/k", Body=b"")
        head = slow.head_object(Bucket=self.bucket, Key="p/k")
        self.assertEqual(put["Expiration"], head["Expiration"])
        self.assertIn('rule-id="the%20rule"', head["Expiration"])
        text = head["Expiration"].split('"')[1]
        at = datetime.datetime.strptime(text, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=datetime.timezone.utc)
        self.assertEqual((at.hour, at.minute, at.second), (0, 0, 0))
        self.assertEqual((at - head["LastModified"]).days, 3)
        self.assertIn("tagged", slow.put_object(Bucket=self.bucket, Key="p/k", Body=b"", Tagging="a=1")["Expiration"])
        self.assertNotIn("Expiration", slow.put_object(Bucket=self.bucket, Key="q", Body=b""))


class Work(Case):
    def test_objects_expire_by_prefix_tag_size_and_date(self):
        bucket = new_bucket()
        put = lambda key, body=b"", **args: s3.put_object(Bucket=bucket, Key=key, Body=body, **args)
        put("now/1"), put("now/2"), put("later/1"), put("off/1"), put("tag/1", Tagging="go=yes"), put("tag/2", Tagging="go=no")
        put("size/9", b"x" * 9), put("size/10", b"x" * 10), put("date/past"), put("date-future")
        date = lambda year: {"Date": datetime.datetime(year, 1, 1, tzinfo=datetime.timezone.utc)}
        configure(bucket, {"Filter": {"Prefix": "now/"}, "Expiration": {"Days": 1}},
                  {"Filter": {"Prefix": "later/"}, "Expiration": {"Days": 10_000}},
                  {"Filter": {"Prefix": "off/"}, "Status": "Disabled", "Expiration": {"Days": 1}},
                  {"Filter": {"Tag": {"Key": "go", "Value": "yes"}}, "Expiration": {"Days": 1}},
                  {"Filter": {"And": {"Prefix": "size/", "ObjectSizeGreaterThan": 9}}, "Expiration": {"Days": 1}},
                  {"Filter": {"Prefix": "date/"}, "Expiration": date(2015)},
                  {"Filter": {"Prefix": "date-future"}, "Expiration": date(2099)})
        self.eventually(lambda: keys(bucket), {"later/1", "off/1", "tag/2", "size/9", "date-future"})

    def test_versions_expire_after_a_marker_and_the_marker_last(self):
        bucket = new_bucket(versions=True)
        for i in range(5):
            last = s3.put_object(Bucket=bucket, Key="k", Body=b"%d" % i)["VersionId"]
        configure(bucket, {"NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}})
        self.eventually(lambda: len(versions(bucket)[0]), 3)
        self.assertEqual(versions(bucket)[0][0], last)
        configure(bucket, {"Expiration": {"Days": 1}})
        self.eventually(lambda: len(versions(bucket)[1]), 1)   # the current one: a marker, and all versions still there
        self.assertEqual(len(versions(bucket)[0]), 3)
        configure(bucket, {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}, "Expiration": {"ExpiredObjectDeleteMarker": True}})
        self.eventually(lambda: versions(bucket), ([], []))

    def test_locked_versions_stay(self):
        bucket = new_bucket(ObjectLockEnabledForBucket=True)
        held = s3.put_object(Bucket=bucket, Key="k", Body=b"held", ObjectLockLegalHoldStatus="ON")["VersionId"]
        s3.put_object(Bucket=bucket, Key="k", Body=b"free")
        s3.put_object(Bucket=bucket, Key="k", Body=b"current")
        configure(bucket, {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}})
        self.eventually(lambda: len(versions(bucket)[0]), 2)
        self.assertIn(held, versions(bucket)[0])
        s3.put_object_legal_hold(Bucket=bucket, Key="k", VersionId=held, LegalHold={"Status": "OFF"})
        self.eventually(lambda: len(versions(bucket)[0]), 1)

    def test_uploads_are_aborted(self):
        bucket = new_bucket()
        for key in ("go/1", "stay/1"):
            s3.create_multipart_upload(Bucket=bucket, Key=key)
        configure(bucket, {"Filter": {"Prefix": "go/"}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}})
        self.eventually(lambda: [u["Key"] for u in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])], ["stay/1"])


class Ends(Case):
    """x-verbena-ttl: the end of one object."""

    def client_with(self, **headers):
        client = boto3_client(where)
        client.meta.events.register("before-call.s3", lambda params, **_: params["headers"].update(
            {name.replace("_", "-"): str(value) for name, value in headers.items()}))
        return client

    def expires(self, bucket, key):
        return int(slow.head_object(Bucket=bucket, Key=key)["ResponseMetadata"]["HTTPHeaders"].get("x-verbena-expires", 0))

    def missing(self, bucket, key):
        with self.assertRaises(ClientError) as caught:
            slow.get_object(Bucket=bucket, Key=key)
        self.assertEqual(caught.exception.response["Error"]["Code"], "NoSuchKey")

    def touch(self, bucket, key, status=200, **headers):
        def selector(request, **_):
            request.url += "?verbena-touch"
        client = self.client_with(**headers)
        client.meta.events.register("before-sign.s3.PutObject", selector)
        try:
            client.put_object(Bucket=bucket, Key=key)
        except ClientError as error:
            self.assertEqual(error.response["ResponseMetadata"]["HTTPStatusCode"], status)
        else:
            self.assertEqual(status, 200)

    def test_an_object_with_a_ttl_ends_and_is_removed(self):
        bucket = new_bucket(slow)
        brief = self.client_with(x_verbena_ttl=2)
        before = time.time()
        brief.put_object(Bucket=bucket, Key="k", Body=b"bytes")
        end = self.expires(bucket, "k")
        self.assertTrue(before + 2 <= end <= time.time() + 3, (before, end))
        upload = brief.create_multipart_upload(Bucket=bucket, Key="multi")["UploadId"]
        part = slow.upload_part(Bucket=bucket, Key="multi", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
        slow.complete_multipart_upload(Bucket=bucket, Key="multi", UploadId=upload,
                                       MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
        self.assertGreater(self.expires(bucket, "multi"), before)
        slow.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/k")
        self.assertEqual(self.expires(bucket, "copy"), 0)   # a copy has its own end, or none
        brief.copy_object(Bucket=bucket, Key="brief-copy", CopySource=f"{bucket}/k")
        last = self.expires(bucket, "brief-copy")
        self.assertGreater(last, before)
        time.sleep(max(0, end - time.time()) + 0.05)
        self.missing(bucket, "k")
        self.eventually(lambda: {o["Key"] for o in slow.list_objects_v2(Bucket=bucket).get("Contents", [])}, {"copy"})
        slow.delete_object(Bucket=bucket, Key="copy")

        def is_removed():
            try:
                slow.delete_bucket(Bucket=bucket)   # refused while a row is left
            except ClientError as error:
                return error.response["Error"]["Code"]
            return True
        self.eventually(is_removed, True)

    def test_a_touch_renews_the_end_and_nothing_else(self):
        bucket = new_bucket(slow)
        self.client_with(x_verbena_ttl=1000).put_object(Bucket=bucket, Key="k", Body=b"bytes")
        before, end = slow.head_object(Bucket=bucket, Key="k"), self.expires(bucket, "k")
        self.touch(bucket, "k", x_verbena_ttl=5000)
        self.assertGreaterEqual(self.expires(bucket, "k"), end + 3900)
        time.sleep(1.1)
        longer = self.expires(bucket, "k")
        self.touch(bucket, "k")
        self.assertGreater(self.expires(bucket, "k"), longer)
        after = slow.head_object(Bucket=bucket, Key="k")
        for name in ("ETag", "LastModified", "ContentLength"):
            self.assertEqual(after[name], before[name])
        slow.put_object(Bucket=bucket, Key="plain", Body=b"bytes")
        self.touch(bucket, "plain", status=400)
        self.touch(bucket, "nothing", status=404)

    def test_a_ttl_is_a_number_of_seconds_up_to_ten_years(self):
        bucket = new_bucket(slow)
        for wrong in (0, -1, 315360001, "1h", "1.5"):
            with self.assertRaises(ClientError) as caught:
                self.client_with(x_verbena_ttl=wrong).put_object(Bucket=bucket, Key="k", Body=b"bytes")
            self.assertEqual(caught.exception.response["Error"]["Code"], "InvalidArgument", wrong)
        self.client_with(x_verbena_ttl=315360000).put_object(Bucket=bucket, Key="k", Body=b"bytes")


if __name__ == "__main__":
    unittest.main(verbosity=2)
