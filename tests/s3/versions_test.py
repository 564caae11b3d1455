#!/usr/bin/python3
"""Versions, tags and object lock as boto3 sees them. Behaviour taken from AWS's API reference.

usage: versions_test.py [unittest arguments]
"""
import datetime
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from botocore.exceptions import ClientError  # noqa: E402
from verbena_server import Server, boto3_client  # noqa: E402


def setUpModule():
    global s3, made
    s3 = boto3_client(unittest.enterModuleContext(Server()).http)
    made = 0


def new_bucket(status=None, **args):
    global made
    made += 1
    name = f"bucket-{made}"
    s3.create_bucket(Bucket=name, **args)
    if status:
        versioning(name, status)
    return name


def versioning(bucket, status):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


def put(bucket, key="k", body=b"", **args):
    return s3.put_object(Bucket=bucket, Key=key, Body=body, **args)


def read(bucket, key="k", **args):
    return s3.get_object(Bucket=bucket, Key=key, **args)["Body"].read()


def seconds_from_now(n):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=n)).replace(microsecond=0)


class Case(unittest.TestCase):
    def refused(self, http_status, code, call, **args):
        with self.assertRaises(ClientError) as caught:
            call(**args)
        answer = caught.exception.response
        self.assertEqual((answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]), (http_status, code))
        return answer

    def history(self, bucket, **args):
        """(key, version id, latest, is a marker) of everything, by pages of any size."""
        got = []
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, **args):
            entries = [(v["Key"], v["VersionId"], v["IsLatest"], False, v["LastModified"]) for v in page.get("Versions", [])]
            entries += [(m["Key"], m["VersionId"], m["IsLatest"], True, m["LastModified"]) for m in page.get("DeleteMarkers", [])]
            got += [e[:4] for e in entries]
        return got


class Versioning(Case):
    def test_a_bucket_says_whether_it_keeps_versions(self):
        bucket = new_bucket()
        self.assertNotIn("Status", s3.get_bucket_versioning(Bucket=bucket))
        for status in ("Enabled", "Suspended", "Enabled"):
            versioning(bucket, status)
            self.assertEqual(s3.get_bucket_versioning(Bucket=bucket)["Status"], status)
        self.refused(400, "MalformedXML", s3.put_bucket_versioning, Bucket=bucket, VersioningConfiguration={"Status": "On"})
        self.refused(404, "NoSuchBucket", s3.get_bucket_versioning, Bucket="none-such")

    def test_without_versioning_no_answer_names_a_version(self):
        bucket = new_bucket()
        self.assertNotIn("VersionId", put(bucket))
        self.assertNotIn("VersionId", s3.get_object(Bucket=bucket, Key="k"))
        self.assertEqual(self.history(bucket), [("k", "null", True, False)])
        self.assertNotIn("DeleteMarker", s3.delete_object(Bucket=bucket, Key="k"))

    def test_each_version_is_read_headed_copied_and_removed_by_its_id(self):
        bucket = new_bucket("Enabled")
        ids = [put(bucket, body=b"%d" % i, Metadata={"n": str(i)})["VersionId"] for i in range(3)]
        self.assertEqual(len(set(ids)), 3)
        for i, id in enumerate(ids):
            got = s3.get_object(Bucket=bucket, Key="k", VersionId=id)
            self.assertEqual((got["Body"].read(), got["VersionId"], got["Metadata"]), (b"%d" % i, id, {"n": str(i)}))
            self.assertEqual(s3.head_object(Bucket=bucket, Key="k", VersionId=id)["VersionId"], id)
        self.assertEqual(s3.get_object(Bucket=bucket, Key="k")["VersionId"], ids[2])
        self.assertEqual(self.history(bucket), [("k", ids[2], True, False), ("k", ids[1], False, False), ("k", ids[0], False, False)])
        copied = s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k", "VersionId": ids[0]})
        self.assertEqual(copied["CopySourceVersionId"], ids[0])
        self.assertEqual(s3.head_object(Bucket=bucket, Key="copy")["VersionId"], copied["VersionId"])
        self.assertEqual(read(bucket, "copy"), b"0")
        # An old version copied onto its own key is restored.
        s3.copy_object(Bucket=bucket, Key="k", CopySource={"Bucket": bucket, "Key": "k", "VersionId": ids[1]})
        self.assertEqual(read(bucket), b"1")
        gone = s3.delete_object(Bucket=bucket, Key="k", VersionId=ids[1])
        self.assertEqual(gone["VersionId"], ids[1])
        self.assertNotIn("DeleteMarker", gone)
        self.refused(404, "NoSuchVersion", s3.get_object, Bucket=bucket, Key="k", VersionId=ids[1])
        self.refused(400, "InvalidArgument", s3.get_object, Bucket=bucket, Key="k", VersionId="no-version")
        self.assertEqual(s3.delete_object(Bucket=bucket, Key="k", VersionId=ids[1])["ResponseMetadata"]["HTTPStatusCode"], 204)

    def test_a_delete_marker_hides_and_its_removal_shows_again(self):
        bucket = new_bucket("Enabled")
        put(bucket, body=b"x")
        marker = s3.delete_object(Bucket=bucket, Key="k")
        self.assertTrue(marker["DeleteMarker"])
        answer = self.refused(404, "NoSuchKey", s3.get_object, Bucket=bucket, Key="k")
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        self.assertEqual((headers["x-amz-delete-marker"], headers["x-amz-version-id"]), ("true", marker["VersionId"]))
        answer = self.refused(405, "MethodNotAllowed", s3.get_object, Bucket=bucket, Key="k", VersionId=marker["VersionId"])
        self.assertEqual(answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-delete-marker"], "true")
        self.assertIn("last-modified", answer["ResponseMetadata"]["HTTPHeaders"])
        self.assertEqual(s3.list_objects_v2(Bucket=bucket)["KeyCount"], 0)
        self.refused(404, "NoSuchKey", s3.copy_object, Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "k"})
        self.refused(400, "InvalidRequest", s3.copy_object, Bucket=bucket, Key="c",
                     CopySource={"Bucket": bucket, "Key": "k", "VersionId": marker["VersionId"]})
        removed = s3.delete_object(Bucket=bucket, Key="k", VersionId=marker["VersionId"])
        self.assertTrue(removed["DeleteMarker"])
        self.assertEqual(read(bucket), b"x")
        self.assertTrue(s3.delete_object(Bucket=bucket, Key="never-was")["DeleteMarker"])
        self.refused(409, "BucketNotEmpty", s3.delete_bucket, Bucket=bucket)

    def test_suspended_writes_replace_the_null_version_alone(self):
        bucket = new_bucket("Enabled")
        kept = put(bucket, body=b"kept")["VersionId"]
        versioning(bucket, "Suspended")
        self.assertNotIn("VersionId", put(bucket, body=b"one"))
        self.assertNotIn("VersionId", put(bucket, body=b"two"))
        self.assertEqual(self.history(bucket), [("k", "null", True, False), ("k", kept, False, False)])
        self.assertEqual(s3.get_object(Bucket=bucket, Key="k")["VersionId"], "null")
        self.assertEqual(s3.delete_object(Bucket=bucket, Key="k")["VersionId"], "null")
        self.assertEqual(sorted(self.history(bucket)), sorted([("k", "null", True, True), ("k", kept, False, False)]))
        s3.delete_object(Bucket=bucket, Key="k", VersionId="null")
        self.assertEqual(read(bucket), b"kept")

    def test_an_upload_becomes_a_version(self):
        bucket = new_bucket("Enabled")
        first = put(bucket, body=b"one")["VersionId"]
        upload = s3.create_multipart_upload(Bucket=bucket, Key="k", Tagging="a=1")["UploadId"]
        part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"part")
        done = s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload,
                                            MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
        self.assertEqual(self.history(bucket), [("k", done["VersionId"], True, False), ("k", first, False, False)])
        self.assertEqual(s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"], [{"Key": "a", "Value": "1"}])
        self.assertEqual(s3.get_object_attributes(Bucket=bucket, Key="k", VersionId=first,
                                                  ObjectAttributes=["ObjectSize"])["ObjectSize"], 3)

    def test_many_keys_are_deleted_each_by_its_version(self):
        bucket = new_bucket("Enabled")
        a = put(bucket, "a")["VersionId"]
        put(bucket, "b")
        done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a", "VersionId": a}, {"Key": "b"},
                                                                    {"Key": "b", "VersionId": "nonsense"}]})
        self.assertEqual(done["Deleted"][0], {"Key": "a", "VersionId": a})
        self.assertTrue(done["Deleted"][1]["DeleteMarker"])
        marker = done["Deleted"][1]["DeleteMarkerVersionId"]
        self.assertEqual(done["Errors"][0]["Code"], "InvalidArgument")
        done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "b", "VersionId": marker}]})
        self.assertEqual(done["Deleted"], [{"Key": "b", "VersionId": marker, "DeleteMarker": True, "DeleteMarkerVersionId": marker}])
        self.assertEqual(read(bucket, "b"), b"")

    def test_pages_of_versions_with_prefix_and_delimiter(self):
        bucket = new_bucket("Enabled")
        for key in ("a", "dir/1", "dir/2", "dir/sub/3", "z"):
            for _ in range(3):
                put(bucket, key)
        s3.delete_object(Bucket=bucket, Key="z")
        whole = self.history(bucket)
        self.assertEqual(len(whole), 16)
        for size in (1, 2, 5):
            paged = self.history(bucket, PaginationConfig={"PageSize": size})
            self.assertEqual(sorted(paged), sorted(whole))
        page = s3.list_object_versions(Bucket=bucket, Prefix="dir/", Delimiter="/")
        self.assertEqual([p["Prefix"] for p in page["CommonPrefixes"]], ["dir/sub/"])
        self.assertEqual(len(page["Versions"]), 6)
        page = s3.list_object_versions(Bucket=bucket, KeyMarker="dir/2", MaxKeys=1)
        self.assertEqual(page["Versions"][0]["Key"], "dir/sub/3")
        self.assertEqual(page["NextKeyMarker"], "dir/sub/3")
        self.refused(400, "InvalidArgument", s3.list_object_versions, Bucket=bucket, VersionIdMarker="x")


class ConditionalDelete(Case):
    def signed_delete(self, bucket, headers):
        """The status of a DELETE with headers that this boto3 may not know yet."""
        def add(request, **_):
            for name, value in headers.items():
                request.headers[name] = value
        s3.meta.events.register("before-sign.s3.DeleteObject", add)
        try:
            return s3.delete_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPStatusCode"]
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"]
        finally:
            s3.meta.events.unregister("before-sign.s3.DeleteObject", add)

    def test_a_delete_keeps_its_conditions(self):
        bucket = new_bucket()
        etag = put(bucket, body=b"1234")["ETag"]
        head = s3.head_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPHeaders"]
        for headers in ({"If-Match": '"bad"'}, {"x-amz-if-match-size": "5"},
                        {"x-amz-if-match-last-modified-time": "Thu, 01 Jan 2015 00:00:00 GMT"}):
            self.assertEqual(self.signed_delete(bucket, headers), 412)
        good = {"If-Match": etag, "x-amz-if-match-size": "4", "x-amz-if-match-last-modified-time": head["last-modified"]}
        self.assertEqual(self.signed_delete(bucket, good), 204)
        self.assertEqual(self.signed_delete(bucket, {"If-Match": '"bad"'}), 204)  # no such object
        put(bucket)
        self.assertEqual(self.signed_delete(bucket, {"x-amz-if-match-size": "many"}), 400)

    def test_a_marker_meets_no_tag(self):
        bucket = new_bucket("Enabled")
        put(bucket)
        s3.delete_object(Bucket=bucket, Key="k")
        self.assertEqual(self.signed_delete(bucket, {"If-Match": '"bad"'}), 412)
        self.assertEqual(self.signed_delete(bucket, {"If-Match": "*"}), 204)


class Tagging(Case):
    def tags(self, bucket, **args):
        return {t["Key"]: t["Value"] for t in s3.get_object_tagging(Bucket=bucket, Key="k", **args)["TagSet"]}

    def set_tags(self, bucket, tags, **args):
        return s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in tags.items()]}, **args)

    def test_tags_come_with_the_object_and_change_alone(self):
        bucket = new_bucket()
        put(bucket, body=b"x", Tagging="a=1&b=&c%20c=%C3%A9+x")
        self.assertEqual(self.tags(bucket), {"a": "1", "b": "", "c c": "\u00e9 x"})
        self.assertEqual(s3.head_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"], "3")
        before = s3.head_object(Bucket=bucket, Key="k")
        self.set_tags(bucket, {"d": "4"})
        self.assertEqual(self.tags(bucket), {"d": "4"})
        after = s3.head_object(Bucket=bucket, Key="k")
        self.assertEqual((before["ETag"], before["LastModified"]), (after["ETag"], after["LastModified"]))
        s3.delete_object_tagging(Bucket=bucket, Key="k")
        self.assertEqual(self.tags(bucket), {})
        put(bucket, Tagging="a=1")
        put(bucket)
        self.assertEqual(self.tags(bucket), {})

    def test_each_version_has_its_own(self):
        bucket = new_bucket("Enabled")
        old, new = put(bucket, Tagging="n=old")["VersionId"], put(bucket, Tagging="n=new")["VersionId"]
        self.assertEqual(self.set_tags(bucket, {"n": "older"}, VersionId=old)["VersionId"], old)
        self.assertEqual(self.tags(bucket), {"n": "new"})
        self.assertEqual(self.tags(bucket, VersionId=old), {"n": "older"})
        self.assertEqual(s3.get_object_tagging(Bucket=bucket, Key="k")["VersionId"], new)
        s3.delete_object_tagging(Bucket=bucket, Key="k", VersionId=old)
        self.assertEqual(self.tags(bucket, VersionId=old), {})
        s3.delete_object(Bucket=bucket, Key="k")
        self.refused(404, "NoSuchKey", s3.get_object_tagging, Bucket=bucket, Key="k")

    def test_limits(self):
        bucket = new_bucket()
        put(bucket)
        self.set_tags(bucket, {f"{i}" * 128: "v" * 256 for i in range(10)})
        for tags in ({str(i): "" for i in range(11)}, {"k" * 129: ""}, {"k": "v" * 257}, {"aws:x": "v"}):
            with self.assertRaises(ClientError) as caught:
                self.set_tags(bucket, tags)
            self.assertEqual(caught.exception.response["Error"]["Code"], "InvalidTag")
        self.refused(400, "InvalidTag", s3.put_object_tagging, Bucket=bucket, Key="k",
                     Tagging={"TagSet": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]})
        self.refused(400, "InvalidTag", put, bucket=bucket, Tagging="&".join(f"{i}=x" for i in range(11)))
        self.assertEqual(len(self.tags(bucket)), 10)
        self.refused(404, "NoSuchKey", s3.put_object_tagging, Bucket=bucket, Key="none", Tagging={"TagSet": []})

    def test_a_copy_takes_or_replaces_them(self):
        bucket = new_bucket()
        put(bucket, "from", Tagging="a=1")
        source = {"Bucket": bucket, "Key": "from"}
        s3.copy_object(Bucket=bucket, Key="k", CopySource=source)
        self.assertEqual(self.tags(bucket), {"a": "1"})
        s3.copy_object(Bucket=bucket, Key="k", CopySource=source, Tagging="b=2")  # no request to replace
        self.assertEqual(self.tags(bucket), {"a": "1"})
        s3.copy_object(Bucket=bucket, Key="k", CopySource=source, Tagging="b=2", TaggingDirective="REPLACE")
        self.assertEqual(self.tags(bucket), {"b": "2"})
        s3.copy_object(Bucket=bucket, Key="k", CopySource={"Bucket": bucket, "Key": "k"}, Tagging="c=3", TaggingDirective="REPLACE")
        self.assertEqual(self.tags(bucket), {"c": "3"})


class ObjectLock(Case):
    def locked_bucket(self):
        return new_bucket(ObjectLockEnabledForBucket=True)

    def configure(self, bucket, **retention):
        s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration={
            "ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}})

    def retain(self, bucket, id, mode, until, **args):
        s3.put_object_retention(Bucket=bucket, Key="k", VersionId=id, Retention={"Mode": mode, "RetainUntilDate": until}, **args)

    def test_configuration(self):
        bucket = self.locked_bucket()
        self.assertEqual(s3.get_bucket_versioning(Bucket=bucket)["Status"], "Enabled")
        self.assertEqual(s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"], {"ObjectLockEnabled": "Enabled"})
        for retention in ({"Mode": "GOVERNANCE", "Days": 1}, {"Mode": "COMPLIANCE", "Years": 1}):
            self.configure(bucket, **retention)
            got = s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"]
            self.assertEqual(got["Rule"]["DefaultRetention"], retention)
        self.refused(409, "InvalidBucketState", versioning, bucket=bucket, status="Suspended")
        for code, retention in (("InvalidRetentionPeriod", {"Mode": "GOVERNANCE", "Days": 0}),
                                ("InvalidRetentionPeriod", {"Mode": "GOVERNANCE", "Years": -1}),
                                ("MalformedXML", {"Mode": "GOVERNANCE", "Years": 1, "Days": 1}),
                                ("MalformedXML", {"Mode": "governance", "Days": 1}), ("MalformedXML", {"Mode": "GOVERNANCE"})):
            with self.assertRaises(ClientError) as caught:
                self.configure(bucket, **retention)
            self.assertEqual(caught.exception.response["Error"]["Code"], code, retention)
        self.refused(400, "MalformedXML", s3.put_object_lock_configuration, Bucket=bucket,
                     ObjectLockConfiguration={"ObjectLockEnabled": "Disabled"})

    def test_a_bucket_without_it(self):
        bucket = new_bucket()
        id = put(bucket)
        self.refused(404, "ObjectLockConfigurationNotFoundError", s3.get_object_lock_configuration, Bucket=bucket)
        self.refused(409, "InvalidBucketState", s3.put_object_lock_configuration, Bucket=bucket,
                     ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
        self.refused(400, "InvalidRequest", s3.put_object_retention, Bucket=bucket, Key="k",
                     Retention={"Mode": "GOVERNANCE", "RetainUntilDate": seconds_from_now(60)})
        self.refused(400, "InvalidRequest", s3.get_object_retention, Bucket=bucket, Key="k")
        self.refused(400, "InvalidRequest", s3.put_object_legal_hold, Bucket=bucket, Key="k", LegalHold={"Status": "ON"})
        self.refused(400, "InvalidRequest", s3.get_object_legal_hold, Bucket=bucket, Key="k")
        self.refused(400, "InvalidRequest", put, bucket=bucket, ObjectLockLegalHoldStatus="ON")
        self.assertNotIn("VersionId", id)
        # Object lock can come later, once there are versions.
        versioning(bucket, "Enabled")
        s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
        self.refused(404, "NoSuchObjectLockConfiguration", s3.get_object_retention, Bucket=bucket, Key="k")

    def test_retention(self):
        bucket = self.locked_bucket()
        governed, complied = put(bucket)["VersionId"], put(bucket)["VersionId"]
        until, later = seconds_from_now(1000), seconds_from_now(2000)
        self.retain(bucket, governed, "GOVERNANCE", until)
        self.retain(bucket, complied, "COMPLIANCE", until)
        got = s3.get_object_retention(Bucket=bucket, Key="k", VersionId=governed)["Retention"]
        self.assertEqual(got, {"Mode": "GOVERNANCE", "RetainUntilDate": until})
        for id in (governed, complied):
            self.refused(403, "AccessDenied", s3.delete_object, Bucket=bucket, Key="k", VersionId=id)
            self.retain(bucket, id, "GOVERNANCE" if id == governed else "COMPLIANCE", later)
        done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k", "VersionId": governed}]})
        self.assertEqual(done["Errors"][0]["Code"], "AccessDenied")
        self.refused(403, "AccessDenied", self.retain, bucket=bucket, id=governed, mode="GOVERNANCE", until=until)
        self.refused(403, "AccessDenied", self.retain, bucket=bucket, id=governed, mode="COMPLIANCE", until=later)
        self.refused(403, "AccessDenied", self.retain, bucket=bucket, id=complied, mode="GOVERNANCE", until=later,
                     BypassGovernanceRetention=True)
        self.refused(403, "AccessDenied", s3.delete_object, Bucket=bucket, Key="k", VersionId=complied, BypassGovernanceRetention=True)
        self.refused(400, "MalformedXML", self.retain, bucket=bucket, id=governed, mode="governance", until=later)
        self.refused(400, "InvalidArgument", self.retain, bucket=bucket, id=governed, mode="GOVERNANCE", until=seconds_from_now(-60))
        self.retain(bucket, governed, "GOVERNANCE", until, BypassGovernanceRetention=True)
        s3.delete_object(Bucket=bucket, Key="k", VersionId=governed, BypassGovernanceRetention=True)
        # A delete without a version only adds a marker.
        self.assertTrue(s3.delete_object(Bucket=bucket, Key="k")["DeleteMarker"])

    def test_legal_hold(self):
        bucket = self.locked_bucket()
        id = put(bucket)["VersionId"]
        self.assertEqual(s3.get_object_legal_hold(Bucket=bucket, Key="k")["LegalHold"]["Status"], "OFF")
        s3.put_object_legal_hold(Bucket=bucket, Key="k", LegalHold={"Status": "ON"})
        self.assertEqual(s3.get_object_legal_hold(Bucket=bucket, Key="k")["LegalHold"]["Status"], "ON")
        self.refused(403, "AccessDenied", s3.delete_object, Bucket=bucket, Key="k", VersionId=id, BypassGovernanceRetention=True)
        self.refused(400, "MalformedXML", s3.put_object_legal_hold, Bucket=bucket, Key="k", LegalHold={"Status": "maybe"})
        s3.put_object_legal_hold(Bucket=bucket, Key="k", LegalHold={"Status": "OFF"})
        s3.delete_object(Bucket=bucket, Key="k", VersionId=id)

    def test_headers(self):
        bucket = self.locked_bucket()
        until = seconds_from_now(1000)
        lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until, "ObjectLockLegalHoldStatus": "ON"}
        put(bucket, **lock)
        upload = s3.create_multipart_upload(Bucket=bucket, Key="multi", **lock)["UploadId"]
        part = s3.upload_part(Bucket=bucket, Key="multi", UploadId=upload, PartNumber=1, Body=b"part")
        s3.complete_multipart_upload(Bucket=bucket, Key="multi", UploadId=upload,
                                     MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
        s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"}, **lock)
        for key in ("k", "multi", "copy"):
            head = s3.head_object(Bucket=bucket, Key=key)
            self.assertEqual({name: head[name] for name in lock}, lock, key)
            self.refused(403, "AccessDenied", s3.delete_object, Bucket=bucket, Key=key, VersionId=head["VersionId"])
        self.refused(400, "InvalidArgument", put, bucket=bucket, ObjectLockMode="GOVERNANCE")
        self.refused(400, "InvalidArgument", put, bucket=bucket, ObjectLockMode="GOVERNANCE",
                     ObjectLockRetainUntilDate=seconds_from_now(-60))

    def test_default_retention(self):
        bucket = self.locked_bucket()
        self.configure(bucket, Mode="GOVERNANCE", Days=2)
        id = put(bucket)["VersionId"]
        head = s3.head_object(Bucket=bucket, Key="k")
        self.assertEqual(head["ObjectLockMode"], "GOVERNANCE")
        self.assertAlmostEqual((head["ObjectLockRetainUntilDate"] - head["LastModified"]).total_seconds(), 2 * 86400, delta=2)
        self.refused(403, "AccessDenied", s3.delete_object, Bucket=bucket, Key="k", VersionId=id)


if __name__ == "__main__":
    unittest.main(verbosity=2)
