#!/usr/bin/python3
"""Attacks by callers with some rights: results under their policies, the bucket's settings and the audit log.

usage: rights_test.py [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import boto3
import botocore.config

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "express"))
from express_case import DOCUMENT, ZONE, Express  # noqa: E402
from s3_case import S3Case  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, client_environment, program  # noqa: E402

WAIT_S = 30  # for lines that are written in bursts
ALL = {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}


def document(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


class Rights(S3Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="verbena-rights-")
        cls.log = pathlib.Path(cls.folder.name) / "access.log"
        cls.server_args = ("--set", f"access_log={cls.log}")
        super().setUpClass()
        cls.env = dict(client_environment(cls.folder.name), AWS_ENDPOINT_URL=cls.server.http)
        cls.clients = []

    @classmethod
    def tearDownClass(cls):
        for client in cls.clients:
            client.close()
        super().tearDownClass()
        cls.folder.cleanup()

    @classmethod
    def run_program(cls, *args, **more):
        return subprocess.run([program(), *args], env=cls.env, capture_output=True, timeout=60, **more)

    def person(self, name, *actions):
        """A new account's root; with `actions` a user of the server's own account with these rights."""
        if actions:
            iam = self.client("iam", ACCESS_KEY, SECRET_KEY)
            iam.create_user(UserName=name)
            iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document(
                {"Effect": "Allow", "Action": list(actions), "Resource": "*"}))
            key = iam.create_access_key(UserName=name)["AccessKey"]
            return self.client("s3", key["AccessKeyId"], key["SecretAccessKey"])
        made = self.run_program("user", "add", name, "--json")
        self.assertEqual(made.returncode, 0, made.stderr)
        keys = json.loads(made.stdout)
        return self.client("s3", keys["access_key"], keys["secret_key"])

    def client(self, service, key, secret):
        made = boto3.client(service, endpoint_url=self.server.http, region_name="us-east-1", aws_access_key_id=key,
                            aws_secret_access_key=secret,
                            config=botocore.config.Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}))
        self.clients.append(made)
        return made

    def set_policy(self, bucket, **statement):
        statement = {"Effect": "Deny", "Principal": "*", **statement}
        self.s3.put_bucket_policy(Bucket=bucket, Policy=document(statement))

    def lines(self, count, **fields):
        """The audit log's lines with these fields, once there are `count`."""
        deadline = time.monotonic() + WAIT_S
        while True:
            lines = [json.loads(line) for line in self.log.read_text().splitlines()]
            found = [line for line in lines if all(line.get(name) == value for name, value in fields.items())]
            if len(found) >= count or time.monotonic() > deadline:
                self.assertEqual(len(found), count, fields)
                return found
            time.sleep(0.1)

    def test_a_listing_without_a_prefix_has_none(self):
        bucket = self.new_bucket()
        self.set_policy(bucket, Action="s3:ListBucket", Resource=f"arn:aws:s3:::{bucket}",
                        Condition={"Null": {"s3:prefix": "true"}})
        self.assertEqual(self.request("GET", f"/{bucket}").code, "AccessDenied")
        self.assertEqual(self.request("GET", f"/{bucket}?prefix=a").status, 200)

    def test_a_policy_is_its_owners_alone(self):
        bucket = self.new_bucket()
        other = self.person("stranger")
        self.set_policy(bucket, Effect="Allow", Action="s3:*BucketPolicy", Resource=f"arn:aws:s3:::{bucket}")
        before = self.s3.get_bucket_policy(Bucket=bucket)["Policy"]
        self.assert_error("MethodNotAllowed", 405, other.get_bucket_policy, Bucket=bucket)
        self.assert_error("MethodNotAllowed", 405, other.put_bucket_policy, Bucket=bucket, Policy=before)
        self.assert_error("MethodNotAllowed", 405, other.delete_bucket_policy, Bucket=bucket)
        self.assertEqual(self.s3.get_bucket_policy(Bucket=bucket)["Policy"], before)

    def test_an_action_is_on_one_of_its_statements_resources(self):
        bucket = self.new_bucket()
        statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}"}
        refused = self.assert_error("MalformedPolicy", 400, self.s3.put_bucket_policy, Bucket=bucket, Policy=document(statement))
        self.assertIn("Action does not apply to any resource(s) in statement", refused["Error"]["Message"])

    def test_the_native_door_has_a_user_agent(self):
        bucket = self.new_bucket()
        self.set_policy(bucket, Action="s3:PutObject", Resource=f"arn:aws:s3:::{bucket}/*",
                        Condition={"StringLike": {"aws:UserAgent": "*"}})
        put = self.run_program("put", "-", f"s3://{bucket}/k", "--via", "native", "--native", self.server.native, input=b"x")
        self.assertNotEqual(put.returncode, 0)
        self.assertIn(b"access", put.stderr.lower())
        self.assert_error("AccessDenied", 403, self.s3.put_object, Bucket=bucket, Key="k", Body=b"x")

    def test_log_objects_are_as_public_as_their_target_allows(self):
        source, target = self.new_bucket(), self.new_bucket()
        logging = {"LoggingEnabled": {"TargetBucket": target, "TargetPrefix": "log/",
                                      "TargetGrants": [{"Grantee": ALL, "Permission": "READ"}]}}
        block = {"BlockPublicAcls": True, "IgnorePublicAcls": False, "BlockPublicPolicy": False, "RestrictPublicBuckets": False}
        clerk = self.person("clerk", "s3:PutBucketLogging", "s3:PutObject")
        for who, blocks in ((clerk, False), (self.s3, True)):
            if blocks:
                self.s3.put_public_access_block(Bucket=target, PublicAccessBlockConfiguration=block)
            self.assert_error("AccessDenied", 403, who.put_bucket_logging, Bucket=source, BucketLoggingStatus=logging)
        self.s3.delete_public_access_block(Bucket=target)
        self.s3.put_bucket_logging(Bucket=source, BucketLoggingStatus=logging)

    def test_who_removes_copies_or_renames_leaves_all_names(self):
        bucket = self.new_bucket()
        keys = [f"gone/{number}" for number in range(40)]
        for key in keys:
            self.s3.put_object(Bucket=bucket, Key=key, Body=b"x")
        answer = self.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
        request = answer["ResponseMetadata"]["RequestId"]
        removed = self.lines(40, bucket=bucket, action="DELETE object", id=request)
        self.assertEqual([line["key"] for line in removed], keys)
        self.assertEqual({(line["status"], line["door"]) for line in removed}, {(204, "http")})
        self.assertTrue(all(line["principal"].endswith(":root") for line in removed))

        self.s3.put_object(Bucket=bucket, Key="secret name", Body=b"x")
        self.s3.copy_object(Bucket=bucket, Key="mine", CopySource={"Bucket": bucket, "Key": "secret name"})
        self.assertEqual(self.lines(1, bucket=bucket, key="mine")[0]["source"], f"{bucket}/secret name")
        upload = self.s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
        self.s3.upload_part_copy(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1,
                                 CopySource={"Bucket": bucket, "Key": "secret name"})
        self.assertEqual(self.lines(1, bucket=bucket, action="PUT object?uploadId")[0]["source"], f"{bucket}/secret name")

        directory = f"moves--{ZONE}--x-s3"
        root = Express(self.server.http)
        self.assertEqual(root.call("PUT", f"/{directory}", DOCUMENT.format(ZONE)).status, 200)
        self.assertEqual(root.call("PUT", f"/{directory}/old", b"x").status, 200)
        self.assertEqual(root.call("PUT", f"/{directory}/new?renameObject", headers={"x-amz-rename-source": "old"}).status, 200)
        moved = self.run_program("mv", f"s3://{directory}/new", f"s3://{directory}/newer", "--via", "native", "--native",
                                 self.server.native)
        self.assertEqual(moved.returncode, 0, moved.stderr)
        renamed = self.lines(2, bucket=directory, action="PUT object?renameObject")
        # Lines of two connections may be in either order: each core writes its own in bursts.
        self.assertEqual({(line["door"], line["source"], line["key"]) for line in renamed},
                         {("http", f"{directory}/old", "new"), ("native", f"{directory}/new", "newer")})


if __name__ == "__main__":
    unittest.main()
