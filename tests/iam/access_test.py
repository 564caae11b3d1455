#!/usr/bin/python3
"""Authorization through all three doors: the access matrix, policies, lists, ownership, the public access block."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import boto3
import botocore
import botocore.config
import botocore.exceptions

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case  # noqa: E402
from verbena_server import client_environment, program  # noqa: E402

ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
DENIED_EXIT = 4


class Person:
    """A client with keys (none: anonymous), on every door."""

    def __init__(self, case, key=None, secret=None, token=None):
        self.case, self.key, self.secret, self.token = case, key, secret, token
        self.s3 = self.client("s3")
        self.env = client_environment(case.home)
        self.env.update(AWS_ENDPOINT_URL=case.server.http, AWS_ACCESS_KEY_ID=key or "", AWS_SECRET_ACCESS_KEY=secret or "")
        if token:
            self.env["AWS_SESSION_TOKEN"] = token

    def client(self, service):
        config = dict(retries={"max_attempts": 0}, s3={"addressing_style": "path"})
        if self.key is None:
            config["signature_version"] = botocore.UNSIGNED
        return boto3.client(service, endpoint_url=self.case.server.http, region_name="us-east-1",
                            aws_access_key_id=self.key, aws_secret_access_key=self.secret, aws_session_token=self.token,
                            config=botocore.config.Config(**config))

    def may(self, call, **arguments):
        """True if boto3's call is allowed. Anything but success and a 403 is an error of the test."""
        try:
            getattr(self.s3, call)(**arguments)
            return True
        except botocore.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 403:
                raise
            return False

    def may_run(self, *args):
        """may() for our own client: `verbena ...`."""
        done = subprocess.run([program(), *args, "--native", self.case.server.native], env=self.env, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        if done.returncode not in (0, DENIED_EXIT):
            raise AssertionError(f"{args}: {done.returncode}\n{done.stderr.decode()}")
        return done.returncode == 0


class AccessCase(S3Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory(prefix="verbena-access-")
        cls.home = pathlib.Path(cls.folder.name)
        cls.root_env = dict(client_environment(cls.home), AWS_ENDPOINT_URL=cls.server.http)
        cls.owner = cls.add_person("owner", "--display-name", "The Owner", "--email", "owner@example.com", "--id", "ownerid")
        cls.other = cls.add_person("other", "--email", "other@example.com", "--id", "otherid")
        cls.reader = cls.add_person("owner/reader")
        cls.nobody = cls.add_person("owner/nobody")
        cls.abroad = cls.add_person("other/abroad")
        cls.allow("owner/reader", ["s3:GetObject", "s3:ListBucket"])
        cls.allow("other/abroad", ["s3:*"])
        granted = cls.reader.client("sts").get_session_token()["Credentials"]
        cls.temporary = cls.person(granted["AccessKeyId"], granted["SecretAccessKey"], granted["SessionToken"])
        cls.anonymous = cls.person()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    @classmethod
    def run_root(cls, *args, input=None):
        done = subprocess.run([program(), *args], env=cls.root_env, input=input, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL if input is None else None)
        assert done.returncode == 0, f"{args}\n{done.stderr.decode()}"
        return done.stdout

    @classmethod
    def person(cls, *keys):
        return Person(cls, *keys)

    @classmethod
    def add_person(cls, name, *args):
        answer = json.loads(cls.run_root("user", "add", name, "--json", *args))
        if "/" not in name:
            setattr(cls, name + "_account", answer["account_id"])
        return cls.person(answer["access_key"], answer["secret_key"])

    @classmethod
    def allow(cls, name, actions):
        document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
        cls.run_root("user", "policy", "put", name, "test", "-", input=json.dumps(document).encode())

    def bucket_of(self, person, **arguments):
        type(self).buckets += 1
        name = f"access-{self.buckets}"
        person.s3.create_bucket(Bucket=name, **arguments)
        return name

    def set_policy(self, bucket, *statements, **more):
        document = {"Version": "2012-10-17", "Statement": list(statements)}
        self.owner.s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document), **more)

    @staticmethod
    def statement(bucket, actions, principal="*", effect="Allow", condition=None):
        statement = {"Effect": effect, "Principal": principal, "Action": actions,
                     "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]}
        if condition:
            statement["Condition"] = condition
        return statement


class Matrix(AccessCase):
    """Principal by action by door. A cell names the allowed principals."""

    def doors(self, bucket):
        source = self.home / "source"
        source.write_bytes(b"x" * 100_000)
        target = self.home / "target"
        for door in ("http", "token", "native"):
            via = ["--via", door]
            yield door, "get", lambda who, via=via: who.may_run("get", f"s3://{bucket}/key", str(target), *via)
            yield door, "head", lambda who, via=via: who.may_run("stat", f"s3://{bucket}/key", *via)
            yield door, "put", lambda who, via=via: who.may_run("put", str(source), f"s3://{bucket}/put", *via)
            yield door, "list", lambda who, via=via: who.may_run("ls", f"s3://{bucket}/", *via)
            yield door, "delete", lambda who, via=via: who.may_run("rm", f"s3://{bucket}/put", *via)
        yield "boto3", "get", lambda who: who.may("get_object", Bucket=bucket, Key="key")
        yield "boto3", "head", lambda who: who.may("head_object", Bucket=bucket, Key="key")
        yield "boto3", "put", lambda who: who.may("put_object", Bucket=bucket, Key="put", Body=b"x")
        yield "boto3", "list", lambda who: who.may("list_objects_v2", Bucket=bucket)
        yield "boto3", "delete", lambda who: who.may("delete_object", Bucket=bucket, Key="put")
        yield "boto3", "tag", lambda who: who.may("put_object_tagging", Bucket=bucket, Key="key",
                                                  Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
        yield "boto3", "acl", lambda who: who.may("get_object_acl", Bucket=bucket, Key="key")
        yield "boto3", "policy", lambda who: who.may("get_bucket_policy_status", Bucket=bucket)
        yield "boto3", "upload", lambda who: who.may("create_multipart_upload", Bucket=bucket, Key="big")

    def check(self, bucket, allowed):
        """`allowed`: {principal: actions}; anything not named is denied."""
        self.owner.s3.put_object(Bucket=bucket, Key="key", Body=b"x" * 100_000)
        for name in ("owner", "other", "reader", "nobody", "abroad", "temporary", "anonymous"):
            who = getattr(self, name)
            for door, action, attempt in self.doors(bucket):
                if who is self.anonymous and door != "boto3":
                    continue  # our client signs, and a native session needs a signature
                with self.subTest(who=name, door=door, action=action):
                    self.assertEqual(attempt(who), action in allowed.get(name, ()))

    ALL = ("get", "head", "put", "list", "delete", "tag", "acl", "policy", "upload")
    READ = ("get", "head", "list")

    def test_a_private_bucket(self):
        self.check(self.bucket_of(self.owner), {"owner": self.ALL, "reader": self.READ, "temporary": self.READ})

    def test_a_bucket_that_everyone_may_read(self):
        bucket = self.bucket_of(self.owner)
        self.set_policy(bucket, self.statement(bucket, ["s3:GetObject", "s3:ListBucket"]))
        everyone = dict.fromkeys(("other", "reader", "nobody", "abroad", "temporary", "anonymous"), self.READ)
        self.check(bucket, {"owner": self.ALL, **everyone})

    def test_a_bucket_that_another_account_may_write(self):
        bucket = self.bucket_of(self.owner)
        self.set_policy(bucket, self.statement(bucket, ["s3:PutObject", "s3:DeleteObject"], {"AWS": self.other_account}))
        write = ("put", "delete", "upload")
        self.check(bucket, {"owner": self.ALL, "reader": self.READ, "temporary": self.READ, "other": write, "abroad": write})

    def test_a_denial_holds_for_all(self):
        bucket = self.bucket_of(self.owner)
        self.owner.s3.put_object(Bucket=bucket, Key="put", Body=b"x")
        self.set_policy(bucket, self.statement(bucket, "s3:*"),
                        self.statement(bucket, ["s3:GetObject", "s3:DeleteObject"], effect="Deny"))
        left = tuple(action for action in self.ALL if action not in ("get", "head", "delete"))
        everyone = ("owner", "other", "abroad", "nobody", "reader", "temporary", "anonymous")
        self.check(bucket, dict.fromkeys(everyone, left))


class Doors(AccessCase):
    def test_a_policy_on_secure_transport_refuses_what_is_not_tls(self):
        bucket = self.bucket_of(self.owner)
        self.owner.s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100_000)
        target = str(self.home / "target")
        for via in ("http", "token", "native"):
            self.assertTrue(self.owner.may_run("get", f"s3://{bucket}/k", target, "--via", via), via)
        self.set_policy(bucket, self.statement(bucket, "s3:*", effect="Deny",
                                               condition={"Bool": {"aws:SecureTransport": "false"}}))
        for via in ("http", "token", "native"):
            self.assertFalse(self.owner.may_run("get", f"s3://{bucket}/k", target, "--via", via), via)

    def test_presigned_urls_have_the_signers_rights(self):
        bucket = self.bucket_of(self.owner)
        self.owner.s3.put_object(Bucket=bucket, Key="k", Body=b"text")
        import urllib.error
        import urllib.request
        url = self.reader.s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
        self.assertEqual(urllib.request.urlopen(url).read(), b"text")
        url = self.nobody.s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(url)
        self.assertEqual(caught.exception.code, 403)
        caught.exception.close()

    def test_what_is_not_there_is_denied_to_who_may_not_list(self):
        bucket = self.bucket_of(self.owner)
        self.set_policy(bucket, self.statement(bucket, "s3:GetObject"))
        self.assert_error("AccessDenied", 403, self.other.s3.get_object, Bucket=bucket, Key="none")
        self.assert_error("403", 403, self.anonymous.s3.head_object, Bucket=bucket, Key="none")
        self.set_policy(bucket, self.statement(bucket, ["s3:GetObject", "s3:ListBucket"]))
        self.assert_error("NoSuchKey", 404, self.other.s3.get_object, Bucket=bucket, Key="none")
        self.assert_error("NoSuchBucket", 404, self.other.s3.get_object, Bucket="not-there", Key="none")


class Lists(AccessCase):
    def test_lists_by_email_id_and_group(self):
        bucket = self.bucket_of(self.owner)
        self.owner.s3.put_object(Bucket=bucket, Key="k", Body=b"x", GrantRead="emailAddress=other@example.com")
        self.assertTrue(self.other.may("get_object", Bucket=bucket, Key="k"))
        self.assertFalse(self.anonymous.may("get_object", Bucket=bucket, Key="k"))
        acl = self.owner.s3.get_object_acl(Bucket=bucket, Key="k")
        self.assertEqual(acl["Owner"], {"ID": "ownerid", "DisplayName": "The Owner"})
        self.assertEqual([grant["Grantee"]["ID"] for grant in acl["Grants"]], ["otherid"])
        acl["Grants"].append({"Grantee": {"Type": "Group", "URI": ALL_USERS}, "Permission": "READ"})
        self.owner.s3.put_object_acl(Bucket=bucket, Key="k",
                                     AccessControlPolicy={"Owner": acl["Owner"], "Grants": acl["Grants"]})
        self.assertTrue(self.anonymous.may("get_object", Bucket=bucket, Key="k"))
        self.assert_error("UnresolvableGrantByEmailAddress", 400, self.owner.s3.put_bucket_acl, Bucket=bucket,
                          GrantRead="emailAddress=none@example.com")
        self.assert_error("InvalidArgument", 400, self.owner.s3.put_bucket_acl, Bucket=bucket, GrantRead="id=_foo")

    def test_versions_have_lists_of_their_own(self):
        bucket = self.bucket_of(self.owner)
        self.owner.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        first = self.owner.s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
        self.owner.s3.put_object(Bucket=bucket, Key="k", Body=b"2")
        self.owner.s3.put_object_acl(Bucket=bucket, Key="k", VersionId=first, ACL="public-read")
        self.assertTrue(self.anonymous.may("get_object", Bucket=bucket, Key="k", VersionId=first))
        self.assertFalse(self.anonymous.may("get_object", Bucket=bucket, Key="k"))

    def test_ownership_and_the_public_access_block(self):
        bucket = self.bucket_of(self.owner, ACL="public-read-write")
        self.other.s3.put_object(Bucket=bucket, Key="theirs", Body=b"x")
        self.assertFalse(self.owner.may("get_object", Bucket=bucket, Key="theirs"))
        owners = {entry["Key"]: entry["Owner"]["ID"] for entry in self.owner.s3.list_objects(Bucket=bucket)["Contents"]}
        self.assertEqual(owners, {"theirs": "otherid"})
        rule = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        self.assert_error("InvalidBucketAclWithObjectOwnership", 400, self.owner.s3.put_bucket_ownership_controls,
                          Bucket=bucket, OwnershipControls=rule)
        self.owner.s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration={
            "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True})
        self.assertFalse(self.anonymous.may("list_objects_v2", Bucket=bucket))
        self.assertFalse(self.owner.may("put_bucket_acl", Bucket=bucket, ACL="public-read"))
        with self.assertRaises(botocore.exceptions.ClientError) as caught:
            self.set_policy(bucket, self.statement(bucket, "s3:GetObject"))
        self.assertEqual(caught.exception.response["Error"]["Code"], "AccessDenied")
        self.owner.s3.put_bucket_acl(Bucket=bucket, ACL="private")
        self.owner.s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=rule)
        self.assertTrue(self.owner.may("get_object", Bucket=bucket, Key="theirs"))
        self.assertFalse(self.other.may("get_object", Bucket=bucket, Key="theirs"))
        self.assert_error("AccessControlListNotSupported", 400, self.owner.s3.put_object_acl, Bucket=bucket, Key="theirs",
                          ACL="public-read")

    def test_policies_are_kept_as_they_came(self):
        bucket = self.bucket_of(self.owner)
        self.assert_error("NoSuchBucketPolicy", 404, self.owner.s3.get_bucket_policy, Bucket=bucket)
        text = json.dumps({"Version": "2012-10-17", "Statement": [self.statement(bucket, "s3:GetObject")]}, indent=3)
        self.owner.s3.put_bucket_policy(Bucket=bucket, Policy=text)
        self.assertEqual(self.owner.s3.get_bucket_policy(Bucket=bucket)["Policy"], text)
        self.assertTrue(self.owner.s3.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"])
        self.assert_error("MalformedPolicy", 400, self.owner.s3.put_bucket_policy, Bucket=bucket, Policy="{}")
        self.owner.s3.delete_bucket_policy(Bucket=bucket)
        self.assert_error("NoSuchBucketPolicy", 404, self.owner.s3.get_bucket_policy, Bucket=bucket)


if __name__ == "__main__":
    unittest.main()
