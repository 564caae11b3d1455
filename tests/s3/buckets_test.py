#!/usr/bin/python3
"""Buckets: names, creation, CORS, tags, and every other configuration call."""
import concurrent.futures
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case  # noqa: E402
from verbena_server import IN_MEMORY, boto3_client  # noqa: E402


class Names(S3Case):
    def test_names_follow_awss_rules(self):
        for good in ("abc", "a" * 63, "foo.bar", "foo-bar", "1abc", "abc1", "192.168.5.x"):
            self.assertEqual(self.request("PUT", f"/{good}").status, 200, good)
        for bad in ("ab", "a" * 64, "_foo", "foo_bar", "Foo", "foo-", "-foo", "foo..bar", "foo-.bar", "foo.-bar", ".foo", "foo.",
                    "192.168.5.123", "xn--foo", "foo-s3alias", "sthree-foo", "foo--ol-s3", "foo--x-s3"):
            reply = self.request("PUT", f"/{bad}")
            self.assertEqual((reply.status, reply.code), (400, "InvalidBucketName"), bad)

    def test_a_bucket_is_made_in_the_servers_region_only(self):
        self.s3.create_bucket(Bucket="here", CreateBucketConfiguration={"LocationConstraint": "us-east-1"})
        self.assert_error("InvalidLocationConstraint", 400, self.s3.create_bucket, Bucket="elsewhere",
                          CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        self.assertIsNone(self.s3.get_bucket_location(Bucket="here")["LocationConstraint"])
        self.assertEqual(self.request("PUT", "/broken", {}, b"<CreateBucketConfiguration>").code, "MalformedXML")

    def test_ones_own_bucket_may_be_made_again_in_us_east_1(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="k")
        self.s3.create_bucket(Bucket=bucket)
        self.s3.head_object(Bucket=bucket, Key="k")
        self.assert_error("BucketNotEmpty", 409, self.s3.delete_bucket, Bucket=bucket)
        self.s3.delete_object(Bucket=bucket, Key="k")
        self.s3.delete_bucket(Bucket=bucket)
        self.assert_error("NoSuchBucket", 404, self.s3.delete_bucket, Bucket=bucket)
        self.assert_error("404", 404, self.s3.head_bucket, Bucket=bucket)

    def test_buckets_are_listed_in_pages(self):
        for name in ("list-a", "list-b", "list-c", "other"):
            self.s3.create_bucket(Bucket=name)
        first = self.request("GET", "/?prefix=list-&max-buckets=2")
        names = [e.text for e in first.xml().iter() if e.tag.endswith("}Name")]
        self.assertEqual(names, ["list-a", "list-b"])
        token = first.text("ContinuationToken")
        second = self.request("GET", f"/?prefix=list-&max-buckets=2&continuation-token={token}")
        self.assertEqual([e.text for e in second.xml().iter() if e.tag.endswith("}Name")], ["list-c"])
        self.assertIsNone(second.text("ContinuationToken"))
        for bad in ("0", "10001", "x"):
            self.assertEqual(self.request("GET", f"/?max-buckets={bad}").code, "InvalidArgument")


class Tags(S3Case):
    """Tags as Terraform's AWS provider sets them: with the bucket, then by S3 Control."""
    account = {"x-amz-account-id": "000000000000"}

    def test_a_bucket_is_made_with_tags_that_s3_control_changes(self):
        document = ('<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Tags><Tag><Key>team</Key><Value>red</Value></Tag>'
                    "</Tags></CreateBucketConfiguration>")
        self.assertEqual(self.request("PUT", "/tagged", {}, document.encode()).status, 200)
        self.assertEqual(self.s3.get_bucket_tagging(Bucket="tagged")["TagSet"], [{"Key": "team", "Value": "red"}])
        path = "/v20180820/tags/arn%3Aaws%3As3%3A%3A%3Atagged"
        more = ('<TagResourceRequest xmlns="http://awss3control.amazonaws.com/doc/2018-08-20/"><Tags><Tag><Key>team</Key><Value>blue</Value></Tag>'
                "<Tag><Key>stage</Key><Value>test</Value></Tag></Tags></TagResourceRequest>")
        self.assertEqual(self.request("POST", path, self.account, more.encode()).status, 204)
        self.assertIn(b"<Tag><Key>team</Key><Value>blue</Value></Tag>", self.request("GET", path, self.account).body)
        self.assertEqual(self.request("DELETE", path + "?tagKeys=team&tagKeys=none", self.account).status, 204)
        self.assertEqual(self.s3.get_bucket_tagging(Bucket="tagged")["TagSet"], [{"Key": "stage", "Value": "test"}])
        refused = self.request("GET", "/v20180820/configuration/publicAccessBlock", self.account)
        self.assertEqual(refused.status, 501)
        self.assertTrue(b"<ErrorResponse" in refused.body and b"<Code>NotImplemented</Code>" in refused.body, refused.body)

    def test_tags_that_are_set_at_once_are_all_there(self):
        bucket = self.new_bucket()
        path = f"/v20180820/tags/arn:aws:s3:::{bucket}"

        def tag(n):
            body = f"<TagResourceRequest><Tags><Tag><Key>k{n}</Key><Value>v</Value></Tag></Tags></TagResourceRequest>"
            return self.request("POST", path, self.account, body.encode()).status

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            self.assertEqual(set(threads.map(tag, range(40))), {204})
        self.assertEqual(len(self.s3.get_bucket_tagging(Bucket=bucket)["TagSet"]), 40)


class Cors(S3Case):
    def test_a_configuration_answers_browsers(self):
        bucket = self.new_bucket()
        self.assert_error("NoSuchCORSConfiguration", 404, self.s3.get_bucket_cors, Bucket=bucket)
        rules = [{"AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["https://*.example.org"], "AllowedHeaders": ["*"],
                  "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 600}]
        self.s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": rules})
        self.assertEqual(self.s3.get_bucket_cors(Bucket=bucket)["CORSRules"], rules)
        origin = {"origin": "https://www.example.org"}
        asked = dict(origin, **{"access-control-request-method": "PUT", "access-control-request-headers": "x-amz-date,x-b"})
        reply = self.request("OPTIONS", f"/{bucket}/k", asked, signed=False)
        self.assertEqual((reply.status, reply.headers["access-control-allow-origin"], reply.headers["access-control-max-age"],
                          reply.headers["access-control-allow-headers"]), (200, origin["origin"], "600", "x-amz-date, x-b"))
        self.assertEqual(self.request("OPTIONS", f"/{bucket}/k", {"origin": "https://evil.test",
                                      "access-control-request-method": "PUT"}, signed=False).code, "AccessForbidden")
        self.assertEqual(self.request("OPTIONS", f"/{bucket}/k", {}, signed=False).code, "BadRequest")
        # A browser's preflight request before it uses a presigned URL.
        for url in (self.presign("PUT", f"/{bucket}/k", 60), f"/{bucket}/k?AWSAccessKeyId=a&Signature=b&Expires=1"):
            self.assertEqual(self.request("OPTIONS", url, asked, signed=False).status, 200)
        self.assertEqual(self.request("GET", f"/{bucket}", origin).headers["access-control-allow-origin"], origin["origin"])
        self.assertNotIn("access-control-allow-origin", self.request("DELETE", f"/{bucket}/k", origin).headers)
        self.s3.delete_bucket_cors(Bucket=bucket)
        self.assertEqual(self.request("OPTIONS", f"/{bucket}/k", asked, signed=False).code, "AccessForbidden")


class Configurations(S3Case):
    def setUp(self):
        self.bucket = self.new_bucket()

    def call(self, name, **arguments):
        return getattr(self.s3, name)(Bucket=self.bucket, **arguments)

    def missing(self, name, code):
        self.assert_error(code, 404, getattr(self.s3, name), Bucket=self.bucket)

    def test_tags(self):
        self.missing("get_bucket_tagging", "NoSuchTagSet")
        tags = [{"Key": "a", "Value": "1"}, {"Key": "b c", "Value": ""}]
        answer = self.call("put_bucket_tagging", Tagging={"TagSet": tags})
        self.assertEqual(answer["ResponseMetadata"]["HTTPStatusCode"], 204)
        self.assertEqual(self.call("get_bucket_tagging")["TagSet"], tags)
        self.assert_error("InvalidTag", 400, self.s3.put_bucket_tagging, Bucket=self.bucket,
                          Tagging={"TagSet": [tags[0], tags[0]]})
        self.call("delete_bucket_tagging")
        self.missing("get_bucket_tagging", "NoSuchTagSet")

    @unittest.skipIf(IN_MEMORY, "nothing outlives this engine")
    def test_configurations_outlive_the_server(self):
        self.call("put_bucket_tagging", Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
        self.server.stop()
        self.server.start()
        self.s3.close()
        type(self).s3 = boto3_client(self.server.http)
        self.assertEqual(self.call("get_bucket_tagging")["TagSet"], [{"Key": "a", "Value": "1"}])

    def test_public_access_block_and_ownership(self):
        self.missing("get_public_access_block", "NoSuchPublicAccessBlockConfiguration")
        block = {"BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": False, "RestrictPublicBuckets": False}
        self.call("put_public_access_block", PublicAccessBlockConfiguration=block)
        self.assertEqual(self.call("get_public_access_block")["PublicAccessBlockConfiguration"], block)
        self.call("delete_public_access_block")
        self.missing("get_bucket_ownership_controls", "OwnershipControlsNotFoundError")
        controls = {"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]}
        self.call("put_bucket_ownership_controls", OwnershipControls=controls)
        self.assertEqual(self.call("get_bucket_ownership_controls")["OwnershipControls"], controls)
        self.call("delete_bucket_ownership_controls")

    def test_configurations_with_one_state(self):
        self.missing("get_bucket_website", "NoSuchWebsiteConfiguration")
        self.missing("get_bucket_replication", "ReplicationConfigurationNotFoundError")
        self.missing("get_bucket_encryption", "ServerSideEncryptionConfigurationNotFoundError")
        self.call("delete_bucket_website")
        self.assertNotIn("LoggingEnabled", self.call("get_bucket_logging"))
        self.call("put_bucket_logging", BucketLoggingStatus={})
        self.assertEqual(self.call("get_bucket_request_payment")["Payer"], "BucketOwner")
        self.call("put_bucket_request_payment", RequestPaymentConfiguration={"Payer": "BucketOwner"})
        self.assertNotIn("Status", self.call("get_bucket_accelerate_configuration"))
        self.call("get_bucket_notification_configuration")
        self.call("put_bucket_notification_configuration", NotificationConfiguration={})
        for name, arguments in (
                ("put_bucket_website", {"WebsiteConfiguration": {"IndexDocument": {"Suffix": "i"}}}),
                ("put_bucket_request_payment", {"RequestPaymentConfiguration": {"Payer": "Requester"}}),
                ("put_bucket_accelerate_configuration", {"AccelerateConfiguration": {"Status": "Enabled"}})):
            self.assert_error("NotImplemented", 501, getattr(self.s3, name), Bucket=self.bucket, **arguments)

    def test_the_owners_access_control_list(self):
        acl = self.call("get_bucket_acl")
        self.assertEqual([g["Permission"] for g in acl["Grants"]], ["FULL_CONTROL"])
        self.assertEqual(acl["Grants"][0]["Grantee"]["ID"], acl["Owner"]["ID"])
        self.call("put_bucket_acl", ACL="private")
        self.call("put_bucket_acl", AccessControlPolicy={"Owner": acl["Owner"], "Grants": acl["Grants"]})
        self.s3.put_object(Bucket=self.bucket, Key="k")
        self.call("put_object_acl", Key="k", ACL="private")

    def test_an_expected_owner_must_be_the_one(self):
        self.call("list_objects_v2", ExpectedBucketOwner="root")
        self.assert_error("AccessDenied", 403, self.s3.list_objects_v2, Bucket=self.bucket, ExpectedBucketOwner="111122223333")


if __name__ == "__main__":
    unittest.main()
