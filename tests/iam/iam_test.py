#!/usr/bin/python3
"""Users, groups, policies and the calls themselves: boto3's and aws-cli's IAM."""
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from iam_case import ALLOW_ALL, IamCase, policy, trust  # noqa: E402
from s3_case import Reply  # noqa: E402
from verbena_server import tool  # noqa: E402


class Users(IamCase):
    def refused(self, code, call, **arguments):
        status = {"NoSuchEntity": 404, "ValidationError": 400, "AccessDenied": 403}.get(code, 409)
        self.assert_error(code, status, call, **arguments)

    def test_a_users_life(self):
        name = self.name()
        made = self.iam.create_user(UserName=name, Path="/a/b/")["User"]
        self.assertEqual((made["Arn"], made["Path"]), (f"arn:aws:iam::000000000000:user/a/b/{name}", "/a/b/"))
        self.assertTrue(made["UserId"].startswith("AIDA"))
        self.assertEqual(self.iam.get_user(UserName=name)["User"], made)
        self.assert_error("EntityAlreadyExists", 409, self.iam.create_user, UserName=name.upper())
        renamed = self.name()
        self.iam.update_user(UserName=name, NewUserName=renamed, NewPath="/c/")
        self.assert_error("NoSuchEntity", 404, self.iam.get_user, UserName=name)
        self.assertEqual(self.iam.get_user(UserName=renamed)["User"]["Path"], "/c/")
        key = self.iam.create_access_key(UserName=renamed)["AccessKey"]
        self.assert_error("DeleteConflict", 409, self.iam.delete_user, UserName=renamed)
        self.iam.delete_access_key(UserName=renamed, AccessKeyId=key["AccessKeyId"])
        self.iam.delete_user(UserName=renamed)
        self.assert_error("NoSuchEntity", 404, self.iam.delete_user, UserName=renamed)

    def test_lists_come_in_pages_and_by_path(self):
        account = self.account()
        iam = self.as_account(account)
        names = sorted(self.name() + ("x" * n) for n in range(7))
        for number, name in enumerate(names):
            iam.create_user(UserName=name, Path="/even/" if number % 2 == 0 else "/odd/")
        pages = list(iam.get_paginator("list_users").paginate(PaginationConfig={"PageSize": 3}))
        self.assertEqual([len(page["Users"]) for page in pages], [3, 3, 1])
        self.assertEqual(sorted(u["UserName"] for page in pages for u in page["Users"]), names)
        self.assertEqual(sorted(u["UserName"] for u in iam.list_users(PathPrefix="/odd/")["Users"]), names[1::2])
        self.assert_error("ValidationError", 400, self.iam.list_users, MaxItems=1001)
        self.assertEqual(iam.get_account_summary()["SummaryMap"]["Users"], 7)

    def test_what_is_no_name_or_not_served_is_refused(self):
        self.assert_error("ValidationError", 400, self.iam.create_user, UserName="a b")
        self.assert_error("ValidationError", 400, self.iam.create_user, UserName="a", Path="b/")
        self.assert_error("ValidationError", 400, self.iam.create_user, UserName=self.name(),
                          PermissionsBoundary="arn:aws:iam::aws:policy/AmazonS3FullAccess")
        self.assert_error("InvalidAction", 400, self.iam.list_saml_providers)
        self.assert_error("NoSuchEntity", 404, self.iam.list_access_keys, UserName="nobody")

    def test_keys_are_two_at_most_and_work_at_once(self):
        name, key = self.user_with_key(self.iam, policy("iam:GetUser"))
        mine = self.client("iam", *key)
        self.assertEqual(mine.get_user()["User"]["UserName"], name)
        self.iam.create_access_key(UserName=name)
        self.assert_error("LimitExceeded", 409, self.iam.create_access_key, UserName=name)
        listed = self.iam.list_access_keys(UserName=name)["AccessKeyMetadata"]
        self.assertEqual(len(listed), 2)
        self.iam.update_access_key(UserName=name, AccessKeyId=key[0], Status="Inactive")
        self.assert_error("InvalidClientTokenId", 403, mine.get_user)
        self.iam.update_access_key(UserName=name, AccessKeyId=key[0], Status="Active")
        mine.get_user()
        self.assert_error("NoSuchEntity", 404, self.iam.delete_access_key, UserName=name, AccessKeyId="AKIANOBODYNOBODY")

    def test_policies_of_a_user(self):
        name = self.name()
        self.iam.create_user(UserName=name)
        document = policy("s3:GetObject", resource="arn:aws:s3:::b/*")
        self.iam.put_user_policy(UserName=name, PolicyName="one", PolicyDocument=document)
        self.assertEqual(self.iam.get_user_policy(UserName=name, PolicyName="one")["PolicyDocument"], json.loads(document))
        self.assertEqual(self.iam.list_user_policies(UserName=name)["PolicyNames"], ["one"])
        for bad in ("{}", "nonsense", policy("s3:GetObject").replace("Allow", "Perhaps"),
                    json.dumps({"Version": "2012-10-17", "Statement": [
                        {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}]})):
            self.assert_error("MalformedPolicyDocument", 400, self.iam.put_user_policy, UserName=name, PolicyName="bad",
                              PolicyDocument=bad)
        large = policy(*[f"s3:GetObject{'*' * n}" for n in range(60)])
        self.assert_error("LimitExceeded", 409, self.iam.put_user_policy, UserName=name, PolicyName="large", PolicyDocument=large)
        self.assert_error("DeleteConflict", 409, self.iam.delete_user, UserName=name)
        self.iam.delete_user_policy(UserName=name, PolicyName="one")
        self.assert_error("NoSuchEntity", 404, self.iam.get_user_policy, UserName=name, PolicyName="one")
        self.assert_error("NoSuchEntity", 404, self.iam.delete_user_policy, UserName=name, PolicyName="one")
        self.iam.delete_user(UserName=name)

    def test_managed_policies_and_where_they_are_attached(self):
        name, policy_name = self.name(), self.name("policy")
        self.iam.create_user(UserName=name)
        made = self.iam.create_policy(PolicyName=policy_name, PolicyDocument=policy("s3:*"), Description="all of S3")["Policy"]
        arn = made["Arn"]
        self.assertEqual(arn, f"arn:aws:iam::000000000000:policy/{policy_name}")
        self.assert_error("EntityAlreadyExists", 409, self.iam.create_policy, PolicyName=policy_name, PolicyDocument=policy("s3:*"))
        version = self.iam.get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]
        self.assertEqual((version["Document"], version["IsDefaultVersion"]), (json.loads(policy("s3:*")), True))
        self.iam.attach_user_policy(UserName=name, PolicyArn=arn)
        self.iam.attach_user_policy(UserName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess")
        attached = {p["PolicyName"]: p["PolicyArn"] for p in
                    self.iam.list_attached_user_policies(UserName=name)["AttachedPolicies"]}
        self.assertEqual(attached[policy_name], arn)
        self.assertEqual(len(attached), 2)
        self.assertEqual(self.iam.get_policy(PolicyArn=arn)["Policy"]["AttachmentCount"], 1)
        local = self.iam.list_policies(Scope="Local")["Policies"]
        self.assertIn(policy_name, [p["PolicyName"] for p in local])
        self.assertIn("AmazonS3FullAccess", [p["PolicyName"] for p in self.iam.list_policies(Scope="AWS")["Policies"]])
        self.assert_error("DeleteConflict", 409, self.iam.delete_policy, PolicyArn=arn)
        self.iam.detach_user_policy(UserName=name, PolicyArn=arn)
        self.assert_error("NoSuchEntity", 404, self.iam.detach_user_policy, UserName=name, PolicyArn=arn)
        self.iam.delete_policy(PolicyArn=arn)
        self.assert_error("NoSuchEntity", 404, self.iam.attach_user_policy, UserName=name, PolicyArn=arn)
        self.assert_error("NoSuchEntity", 404, self.iam.get_policy, PolicyArn=arn)

    def test_versions_of_a_policy(self):
        arn = self.iam.create_policy(PolicyName="versions", PolicyDocument=policy("s3:GetObject"))["Policy"]["Arn"]
        made = self.iam.create_policy_version(PolicyArn=arn, PolicyDocument=policy("s3:PutObject"))["PolicyVersion"]
        self.assertEqual((made["VersionId"], made["IsDefaultVersion"]), ("v2", False))
        made = self.iam.create_policy_version(PolicyArn=arn, PolicyDocument=policy("s3:*"), SetAsDefault=True)["PolicyVersion"]
        self.assertEqual((made["VersionId"], made["IsDefaultVersion"]), ("v3", True))
        self.assertEqual(self.iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"], "v3")
        listed = self.iam.list_policy_versions(PolicyArn=arn)["Versions"]
        self.assertEqual([(v["VersionId"], v["IsDefaultVersion"]) for v in listed], [("v3", True), ("v2", False), ("v1", False)])
        document = lambda version: self.iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]   # noqa: E731
        self.assertEqual(document("v2")["Statement"][0]["Action"], ["s3:PutObject"])
        for _ in range(2):
            self.iam.create_policy_version(PolicyArn=arn, PolicyDocument=policy("s3:*"))
        self.refused("LimitExceeded", self.iam.create_policy_version, PolicyArn=arn, PolicyDocument=policy("s3:*"))
        self.refused("DeleteConflict", self.iam.delete_policy, PolicyArn=arn)
        self.refused("DeleteConflict", self.iam.delete_policy_version, PolicyArn=arn, VersionId="v3")
        self.refused("NoSuchEntity", self.iam.set_default_policy_version, PolicyArn=arn, VersionId="v9")
        # The default version applies at once.
        user, key = self.user_with_key(self.iam)
        self.iam.attach_user_policy(UserName=user, PolicyArn=arn)
        s3 = self.client("s3", *key)
        s3.list_buckets()
        self.iam.set_default_policy_version(PolicyArn=arn, VersionId="v2")
        self.refused("AccessDenied", s3.list_buckets)
        self.iam.detach_user_policy(UserName=user, PolicyArn=arn)
        for version in ("v1", "v3", "v4", "v5"):
            self.iam.delete_policy_version(PolicyArn=arn, VersionId=version)
        self.assertEqual(document("v2")["Statement"][0]["Action"], ["s3:PutObject"])
        self.iam.delete_policy(PolicyArn=arn)

    def test_tags_of_users_and_roles(self):
        user = self.iam.create_user(UserName="tagged", Tags=[{"Key": "Team", "Value": "a b"}])["User"]
        self.assertEqual(user["Tags"], [{"Key": "Team", "Value": "a b"}])
        self.iam.create_role(RoleName="tagged", AssumeRolePolicyDocument=trust("*"), Tags=[{"Key": "Team", "Value": "a b"}])
        for kind, name, shown in (("user", {"UserName": "tagged"}, "User"), ("role", {"RoleName": "tagged"}, "Role")):
            call = lambda verb, **more: getattr(self.iam, f"{verb}_{kind}")(**name, **more)   # noqa: E731
            tags = lambda: {t["Key"]: t["Value"] for t in getattr(self.iam, f"list_{kind}_tags")(**name)["Tags"]}   # noqa: E731
            call("tag", Tags=[{"Key": "team", "Value": "c"}, {"Key": "more", "Value": ""}])
            self.assertEqual(tags(), {"team": "c", "more": ""})
            self.assertEqual({t["Key"] for t in call("get")[shown]["Tags"]}, {"team", "more"})
            self.refused("ValidationError", getattr(self.iam, f"tag_{kind}"), **name,
                         Tags=[{"Key": "x", "Value": "1"}, {"Key": "X", "Value": "2"}])
            self.refused("ValidationError", getattr(self.iam, f"tag_{kind}"), **name, Tags=[{"Key": "aws:x", "Value": "1"}])
            self.refused("LimitExceeded", getattr(self.iam, f"tag_{kind}"), **name,
                         Tags=[{"Key": f"k{n}", "Value": "v"} for n in range(50)])
            call("untag", TagKeys=["TEAM", "none"])
            self.assertEqual(tags(), {"more": ""})
            call("delete")

    def test_open_id_connect_providers_are_kept(self):
        create = lambda **more: self.iam.create_open_id_connect_provider(Url="https://id.example.org/realms/a", **more)   # noqa: E731
        arn = create(ClientIDList=["one"], ThumbprintList=["ab" * 20])["OpenIDConnectProviderArn"]
        self.assertTrue(arn.endswith(":oidc-provider/id.example.org/realms/a"), arn)
        self.refused("EntityAlreadyExists", create, ThumbprintList=["ab" * 20])
        self.assertIn({"Arn": arn}, self.iam.list_open_id_connect_providers()["OpenIDConnectProviderList"])
        self.iam.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID="two")
        self.iam.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID="two")
        self.iam.remove_client_id_from_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID="one")
        self.iam.update_open_id_connect_provider_thumbprint(OpenIDConnectProviderArn=arn, ThumbprintList=["cd" * 20, "ef" * 20])
        kept = self.iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
        self.assertEqual((kept["Url"], kept["ClientIDList"], kept["ThumbprintList"]),
                         ("id.example.org/realms/a", ["two"], ["cd" * 20, "ef" * 20]))
        for url in ("http://id.example.org", "https://", "https:///path", "https://h/?q", "https://h/#f", "https://h h"):
            self.refused("ValidationError", self.iam.create_open_id_connect_provider, Url=url, ThumbprintList=["ab" * 20])
        self.refused("ValidationError", self.iam.update_open_id_connect_provider_thumbprint, OpenIDConnectProviderArn=arn,
                     ThumbprintList=["xy" * 20])
        self.iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
        self.refused("NoSuchEntity", self.iam.get_open_id_connect_provider, OpenIDConnectProviderArn=arn)
        self.refused("NoSuchEntity", self.iam.delete_open_id_connect_provider, OpenIDConnectProviderArn="arn:aws:iam::1:x/some-other")

    def test_a_group_gets_another_name_and_path(self):
        user = self.name()
        self.iam.create_user(UserName=user)
        self.iam.create_group(GroupName="before")
        self.iam.create_group(GroupName="taken")
        self.iam.add_user_to_group(GroupName="before", UserName=user)
        self.refused("EntityAlreadyExists", self.iam.update_group, GroupName="before", NewGroupName="Taken")
        self.iam.update_group(GroupName="before", NewGroupName="after", NewPath="/a/")
        group = self.iam.get_group(GroupName="after")
        self.assertTrue(group["Group"]["Arn"].endswith(":group/a/after"))
        self.assertEqual([u["UserName"] for u in group["Users"]], [user])
        self.refused("NoSuchEntity", self.iam.get_group, GroupName="before")
        self.iam.remove_user_from_group(GroupName="after", UserName=user)
        for name in ("after", "taken"):
            self.iam.delete_group(GroupName=name)

    def test_groups_and_their_members(self):
        group = self.name("group")
        self.iam.create_group(GroupName=group)
        name, key = self.user_with_key(self.iam)
        mine = self.client("iam", *key)
        self.assert_error("AccessDenied", 403, mine.list_users)
        self.iam.put_group_policy(GroupName=group, PolicyName="look", PolicyDocument=policy("iam:List*"))
        self.iam.add_user_to_group(GroupName=group, UserName=name)
        mine.list_users()
        self.assertEqual([u["UserName"] for u in self.iam.get_group(GroupName=group)["Users"]], [name])
        self.assertEqual([g["GroupName"] for g in self.iam.list_groups_for_user(UserName=name)["Groups"]], [group])
        self.assert_error("DeleteConflict", 409, self.iam.delete_group, GroupName=group)
        self.iam.remove_user_from_group(GroupName=group, UserName=name)
        self.assert_error("AccessDenied", 403, mine.list_users)
        self.iam.attach_group_policy(GroupName=group, PolicyArn="arn:aws:iam::aws:policy/IAMReadOnlyAccess")
        self.assertEqual(len(self.iam.list_attached_group_policies(GroupName=group)["AttachedPolicies"]), 1)
        self.assert_error("DeleteConflict", 409, self.iam.delete_group, GroupName=group)
        self.iam.detach_group_policy(GroupName=group, PolicyArn="arn:aws:iam::aws:policy/IAMReadOnlyAccess")
        self.iam.delete_group_policy(GroupName=group, PolicyName="look")
        self.iam.delete_group(GroupName=group)
        self.assert_error("NoSuchEntity", 404, self.iam.get_group, GroupName=group)

    def test_users_may_do_what_their_policies_say_and_no_more(self):
        other = self.name()
        self.iam.create_user(UserName=other)
        name, key = self.user_with_key(
            self.iam, policy("iam:CreateUser", "iam:GetUser", resource="arn:aws:iam::000000000000:user/team/*"),
            policy("iam:*", resource=f"arn:aws:iam::000000000000:user/team/boss", effect="Deny"))
        mine = self.client("iam", *key)
        mine.create_user(UserName=self.name(), Path="/team/")
        self.assert_error("AccessDenied", 403, mine.create_user, UserName=self.name())
        self.assert_error("AccessDenied", 403, mine.create_user, UserName="boss", Path="/team/")
        self.assert_error("AccessDenied", 403, mine.get_user, UserName=other)
        self.assert_error("AccessDenied", 403, mine.create_access_key, UserName=other)
        self.assert_error("AccessDenied", 403, mine.put_user_policy, UserName=name, PolicyName="more",
                          PolicyDocument=json.dumps(ALLOW_ALL))

    def late(self, method, url, body, meanwhile):
        """The answer to a request whose body is sent after `meanwhile`, which runs after authorization."""
        address = urllib.parse.urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
            connection.sendall((f"{method} {address.path}?{address.query} HTTP/1.1\r\nHost: {address.netloc}\r\n"
                                f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n").encode())
            self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 100 "))  # the server waits for the body
            meanwhile()
            connection.sendall(body)
            answer = http.client.HTTPResponse(connection, method=method)
            answer.begin()
            return Reply(answer)

    def test_a_denial_by_user_agent_region_or_account_holds_at_every_api(self):
        allow = policy("*")
        name, keys = self.user_with_key(self.iam, allow)
        role = self.iam.create_role(RoleName=self.name("role"), AssumeRolePolicyDocument=trust("*"))["Role"]
        iam, sts, s3 = (self.client(service, *keys) for service in ("iam", "sts", "s3"))
        for condition in ({"StringLike": {"aws:UserAgent": "*Boto*"}}, {"StringEquals": {"aws:RequestedRegion": "us-east-1"}},
                          {"StringEquals": {"aws:ResourceAccount": "000000000000"}}):
            if "aws:ResourceAccount" not in str(condition):  # a list of buckets is of no bucket
                s3.list_buckets()
            iam.list_users()
            sts.assume_role(RoleArn=role["Arn"], RoleSessionName="session")
            self.iam.put_user_policy(UserName=name, PolicyName="deny", PolicyDocument=json.dumps({
                "Version": "2012-10-17",
                "Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": condition}]}))
            if "aws:ResourceAccount" not in str(condition):
                self.assert_error("AccessDenied", 403, s3.list_buckets)
            self.refused("AccessDenied", iam.list_users)
            self.refused("AccessDenied", sts.assume_role, RoleArn=role["Arn"], RoleSessionName="session")
            self.iam.delete_user_policy(UserName=name, PolicyName="deny")

    def test_a_body_that_comes_after_its_key_is_gone_does_nothing(self):
        bucket = self.new_bucket()
        upload = self.s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
        tag = self.s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
        parts = ("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + tag.replace('"', "&quot;") +
                 "</ETag></Part></CompleteMultipartUpload>").encode()
        name, (key, secret) = self.user_with_key(self.iam, policy("s3:*"))
        mine = self.client("s3", key, secret)
        of_upload = {"Bucket": bucket, "Key": "parts", "UploadId": upload}
        asked = [("put_object", "PUT", {"Bucket": bucket, "Key": "late"}, b"a" * 100_000),
                 ("upload_part", "PUT", dict(of_upload, PartNumber=1), b"b" * 100_000),
                 ("complete_multipart_upload", "POST", of_upload, parts)]
        urls = [(method, mine.generate_presigned_url(call, Params=params), body) for call, method, params, body in asked]
        for method, url, body in urls:
            self.iam.update_access_key(UserName=name, AccessKeyId=key, Status="Active")
            off = lambda: self.iam.update_access_key(UserName=name, AccessKeyId=key, Status="Inactive")
            refused = self.late(method, url, body, off)
            self.assertEqual((refused.status, refused.code), (403, "InvalidAccessKeyId"), url)
        self.assertEqual(self.s3.list_objects_v2(Bucket=bucket)["KeyCount"], 0)
        self.assertEqual([part["ETag"] for part in self.s3.list_parts(**of_upload)["Parts"]], [tag])
        self.iam.update_access_key(UserName=name, AccessKeyId=key, Status="Active")
        for method, url, body in urls[:2]:
            self.assertEqual(self.late(method, url, body, lambda: self.iam.create_user(UserName=self.name())).status, 200, url)

    def test_accounts_do_not_see_each_other(self):
        one, two = self.account(), self.account()
        name = self.name()
        self.as_account(one).create_user(UserName=name)
        self.assert_error("NoSuchEntity", 404, self.as_account(two).get_user, UserName=name)
        self.assertEqual(self.as_account(two).list_users()["Users"], [])
        self.as_account(two).create_user(UserName=name)
        root = self.as_account(one).get_user()["User"]
        self.assertEqual(root["Arn"], f"arn:aws:iam::{one['account_id']}:root")


class Requests(IamCase):
    def call(self, form, service="iam", **arguments):
        body = urllib.parse.urlencode(form).encode() if isinstance(form, dict) else form
        headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        return self.request("POST", "/", self.sign("POST", "/", headers, body, service, **arguments), body, signed=False)

    def code(self, reply):
        found = reply.body.decode().partition("<Code>")[2].partition("</Code>")[0]
        self.assertIn(b"<ErrorResponse xmlns=", reply.body)
        return reply.status, found

    def test_a_bucket_host_has_no_such_calls(self):
        host = {"host": "bucket-of-someone.localhost", "content-type": "application/x-www-form-urlencoded"}
        for path in ("/", "/-/admin/user-list"):
            reply = self.request("POST", path, self.sign("POST", path, host, b"{}"), b"{}", signed=False)
            self.assertNotIn(b"ErrorResponse", reply.body)
            self.assertEqual(reply.xml().tag, "Error", reply.body)

    def test_calls_may_be_signed_for_iam_sts_or_s3_and_for_nothing_else(self):
        form = {"Action": "ListUsers", "Version": "2010-05-08"}
        for service in ("iam", "sts", "s3"):
            self.assertEqual(self.call(form, service).status, 200)
        self.assertEqual(self.code(self.call(form, "ec2"))[0], 400)
        # and a signature for IAM is invalid for S3
        headers = self.sign("GET", "/", service="iam")
        self.assertEqual(self.request("GET", "/", headers, signed=False).code, "AuthorizationHeaderMalformed")

    def test_calls_without_a_region_or_of_the_global_one_are_taken(self):
        """As boto3 signs with region_name='' and with the global endpoint."""
        users, caller = {"Action": "ListUsers", "Version": "2010-05-08"}, {"Action": "GetCallerIdentity", "Version": "2011-06-15"}
        for region in ("", "aws-global"):
            self.assertEqual(self.call(users, "iam", region=region).status, 200)
            self.assertEqual(self.call(caller, "sts", region=region).status, 200)
            self.assertEqual(self.code(self.call(users, "iam", region=region, secret="wrong")), (403, "SignatureDoesNotMatch"))

    def test_the_body_is_what_was_signed(self):
        form = {"Action": "ListUsers", "Version": "2010-05-08"}
        body = urllib.parse.urlencode(form).encode()
        headers = self.sign("POST", "/", {"content-type": "application/x-www-form-urlencoded"}, body, "iam")
        other = body.replace(b"ListUsers", b"ListRoles")
        self.assertEqual(self.code(self.request("POST", "/", headers, other, signed=False))[0], 400)
        del headers["X-Amz-Content-SHA256"]
        self.assertEqual(self.code(self.request("POST", "/", headers, body, signed=False))[0], 403)
        unsigned = {"content-type": "application/x-www-form-urlencoded", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
        self.assertEqual(self.code(self.request("POST", "/", self.sign("POST", "/", unsigned, b"", "iam"), body, signed=False))[0], 400)

    def test_errors_have_iams_shape(self):
        self.assertEqual(self.code(self.call({"Action": "Nothing", "Version": "2010-05-08"})), (400, "InvalidAction"))
        self.assertEqual(self.code(self.call({"Action": "ListUsers", "Version": "2000-01-01"})), (400, "ValidationError"))
        self.assertEqual(self.code(self.call({"Version": "2010-05-08"})), (400, "ValidationError"))
        self.assertEqual(self.code(self.call(b"Action=ListUsers&Action=ListUsers&Version=2010-05-08")), (400, "ValidationError"))
        self.assertEqual(self.code(self.call(b"Action=%zz")), (400, "ValidationError"))
        self.assertEqual(self.code(self.call({"Action": "GetUser", "Version": "2010-05-08"}, key="AKNOBODY")),
                         (403, "InvalidClientTokenId"))
        self.assertEqual(self.code(self.call({"Action": "GetUser", "Version": "2010-05-08"}, secret="wrong")),
                         (403, "SignatureDoesNotMatch"))
        form = {"content-type": "application/x-www-form-urlencoded"}
        self.assertEqual(self.code(self.request("POST", "/", form, b"Action=ListUsers", signed=False))[0], 403)
        self.assertEqual(self.code(self.call(b"Action=ListUsers&Version=2010-05-08&X=" + b"a" * 70_000)), (400, "EntityTooLarge"))


class AwsCli(IamCase):
    def aws(self, *args, expect=0, env=None):
        done = subprocess.run([tool("aws"), "--endpoint-url", self.server.http, "--output", "json", *args],
                              env=env or self.env, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode == 0, expect == 0, f"{args}\n{done.stdout!r}\n{done.stderr.decode()}")
        return json.loads(done.stdout) if done.stdout.strip() else done.stderr.decode()

    def test_a_day_with_aws_cli(self):
        name = self.name()
        document = self.home / "policy.json"
        document.write_text(policy("s3:ListAllMyBuckets"))
        self.assertEqual(self.aws("iam", "create-user", "--user-name", name)["User"]["UserName"], name)
        self.aws("iam", "put-user-policy", "--user-name", name, "--policy-name", "p", "--policy-document", f"file://{document}")
        key = self.aws("iam", "create-access-key", "--user-name", name)["AccessKey"]
        mine = dict(self.env, AWS_ACCESS_KEY_ID=key["AccessKeyId"], AWS_SECRET_ACCESS_KEY=key["SecretAccessKey"])
        self.assertIn(f"user/{name}", self.aws("sts", "get-caller-identity", env=mine)["Arn"])
        self.assertIn("AccessDenied", self.aws("iam", "list-users", env=mine, expect=1))
        self.aws("iam", "create-group", "--group-name", "cli")
        self.aws("iam", "add-user-to-group", "--group-name", "cli", "--user-name", name)
        self.aws("iam", "attach-group-policy", "--group-name", "cli", "--policy-arn", "arn:aws:iam::aws:policy/IAMReadOnlyAccess")
        self.assertIn(name, [u["UserName"] for u in self.aws("iam", "list-users", env=mine)["Users"]])
        document.write_text(trust(f"arn:aws:iam::000000000000:user/{name}"))
        role = self.aws("iam", "create-role", "--role-name", "cli", "--assume-role-policy-document", f"file://{document}")["Role"]
        session = self.aws("sts", "assume-role", "--role-arn", role["Arn"], "--role-session-name", "shell", env=mine)["Credentials"]
        as_role = dict(self.env, AWS_ACCESS_KEY_ID=session["AccessKeyId"], AWS_SECRET_ACCESS_KEY=session["SecretAccessKey"],
                       AWS_SESSION_TOKEN=session["SessionToken"])
        self.assertIn("assumed-role/cli/shell", self.aws("sts", "get-caller-identity", env=as_role)["Arn"])
        self.assertIn("NoSuchEntity", self.aws("iam", "get-user", "--user-name", "nobody", expect=1))


if __name__ == "__main__":
    unittest.main()
