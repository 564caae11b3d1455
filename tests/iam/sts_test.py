#!/usr/bin/python3
"""Roles and temporary credentials, by boto3's IAM and STS."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from iam_case import IamCase, policy, trust  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY  # noqa: E402


class Roles(IamCase):
    def role(self, iam, principal, *policies, **arguments):
        name = self.name("role")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(principal), **arguments)["Role"]
        for number, document in enumerate(policies):
            iam.put_role_policy(RoleName=name, PolicyName=f"p{number}", PolicyDocument=document)
        return role

    def assume(self, sts, role, **arguments):
        made = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="job", **arguments)["Credentials"]
        return made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"]

    def test_a_roles_life(self):
        role = self.role(self.iam, "arn:aws:iam::000000000000:root", policy("s3:*"), Path="/jobs/", Description="for jobs",
                         MaxSessionDuration=7200)
        name = role["RoleName"]
        self.assertEqual(role["AssumeRolePolicyDocument"], json.loads(trust("arn:aws:iam::000000000000:root")))
        self.assertEqual(self.iam.get_role(RoleName=name)["Role"]["MaxSessionDuration"], 7200)
        self.assertIn(name, [r["RoleName"] for r in self.iam.list_roles(PathPrefix="/jobs/")["Roles"]])
        self.assertEqual(self.iam.list_role_policies(RoleName=name)["PolicyNames"], ["p0"])
        self.assertEqual(self.iam.get_role_policy(RoleName=name, PolicyName="p0")["PolicyDocument"], json.loads(policy("s3:*")))
        self.iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust("*"))
        self.assertEqual(self.iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"], json.loads(trust("*")))
        for bad in ("{}", policy("s3:*")):
            self.assert_error("MalformedPolicyDocument", 400, self.iam.update_assume_role_policy, RoleName=name, PolicyDocument=bad)
        self.iam.attach_role_policy(RoleName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
        self.assertEqual(len(self.iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]), 1)
        self.assert_error("DeleteConflict", 409, self.iam.delete_role, RoleName=name)
        self.iam.detach_role_policy(RoleName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
        self.iam.delete_role_policy(RoleName=name, PolicyName="p0")
        self.iam.delete_role(RoleName=name)
        self.assert_error("NoSuchEntity", 404, self.iam.get_role, RoleName=name)

    def test_a_session_may_do_what_its_role_may(self):
        user, key = self.user_with_key(self.iam)
        role = self.role(self.iam, f"arn:aws:iam::000000000000:user/{user}", policy("iam:ListUsers", "iam:ListGroups"))
        sts = self.client("sts", *key)
        session = self.assume(sts, role)
        identity = self.client("sts", *session).get_caller_identity()
        self.assertEqual(identity["Arn"], f"arn:aws:sts::000000000000:assumed-role/{role['RoleName']}/job")
        self.assertEqual(identity["UserId"], role["RoleId"] + ":job")
        iam = self.client("iam", *session)
        iam.list_users()
        self.assert_error("AccessDenied", 403, iam.list_roles)
        limited = self.client("iam", *self.assume(sts, role, Policy=policy("iam:ListGroups", "iam:ListRoles")))
        limited.list_groups()
        self.assert_error("AccessDenied", 403, limited.list_users)
        self.assert_error("AccessDenied", 403, limited.list_roles)
        self.iam.delete_role_policy(RoleName=role["RoleName"], PolicyName="p0")
        self.assert_error("AccessDenied", 403, iam.list_users)
        self.iam.delete_role(RoleName=role["RoleName"])
        self.assert_error("InvalidClientTokenId", 403, iam.list_users)

    def test_who_may_assume_a_role(self):
        user, key = self.user_with_key(self.iam)
        sts = self.client("sts", *key)
        by_name = self.role(self.iam, f"arn:aws:iam::000000000000:user/{user}")
        by_account = self.role(self.iam, "arn:aws:iam::000000000000:root")
        of_another = self.role(self.iam, f"arn:aws:iam::000000000000:user/{self.user_with_key(self.iam)[0]}")
        self.assume(sts, by_name)
        for role in (by_account, of_another):
            self.assert_error("AccessDenied", 403, sts.assume_role, RoleArn=role["Arn"], RoleSessionName="job")
        self.iam.put_user_policy(UserName=user, PolicyName="assume", PolicyDocument=policy("sts:AssumeRole"))
        self.assume(sts, by_account)
        self.assert_error("AccessDenied", 403, sts.assume_role, RoleArn=of_another["Arn"], RoleSessionName="job")
        self.iam.put_user_policy(UserName=user, PolicyName="assume", PolicyDocument=policy("sts:*", effect="Deny"))
        self.assert_error("AccessDenied", 403, sts.assume_role, RoleArn=by_name["Arn"], RoleSessionName="job")
        self.assert_error("AccessDenied", 403, self.sts.assume_role, RoleSessionName="job",
                          RoleArn="arn:aws:iam::000000000000:role/none")

    def test_a_role_of_another_account(self):
        one, two = self.account(), self.account()
        role = self.role(self.as_account(two), f"arn:aws:iam::{one['account_id']}:root", policy("iam:ListUsers"))
        user, key = self.user_with_key(self.as_account(one))
        self.assert_error("AccessDenied", 403, self.client("sts", *key).assume_role, RoleArn=role["Arn"], RoleSessionName="job")
        self.as_account(one).put_user_policy(UserName=user, PolicyName="assume", PolicyDocument=policy("sts:AssumeRole"))
        session = self.assume(self.client("sts", *key), role)
        self.assertEqual(self.client("sts", *session).get_caller_identity()["Account"], two["account_id"])
        self.assertEqual(self.client("iam", *session).list_users()["Users"], [])

    def test_session_names_durations_and_policies_are_checked(self):
        role = self.role(self.iam, "*")
        for bad in ({"DurationSeconds": 3601}, {"RoleSessionName": "a b"},
                    {"PolicyArns": [{"arn": "arn:aws:iam::aws:policy/None"}]}):
            arguments = {"RoleArn": role["Arn"], "RoleSessionName": "job", **bad}
            self.assert_error("ValidationError", 400, self.sts.assume_role, **arguments)
        self.assert_error("MalformedPolicyDocument", 400, self.sts.assume_role, RoleArn=role["Arn"], RoleSessionName="job", Policy="{}")

    def test_a_session_of_a_user_reaches_s3_in_every_way_to_sign(self):
        made = self.account()
        s3 = self.as_account(made, "s3")
        bucket = "session-" + made["name"]
        s3.create_bucket(Bucket=bucket)
        session = self.as_account(made, "sts").get_session_token(DurationSeconds=900)["Credentials"]
        key = (session["AccessKeyId"], session["SecretAccessKey"], session["SessionToken"])
        mine = self.client("s3", *key)
        mine.put_object(Bucket=bucket, Key="k", Body=b"content")
        self.assertEqual(mine.get_object(Bucket=bucket, Key="k")["Body"].read(), b"content")
        url = mine.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
        self.assertEqual(self.request("GET", url.removeprefix(self.server.http), signed=False).body, b"content")
        presigned = mine.generate_presigned_post(bucket, "form")["fields"]
        self.assertIn("x-amz-security-token", presigned)
        for token, status in ((key[2], 204), (key[2][4:], 400)):
            fields = dict(presigned, file="by form", **{"x-amz-security-token": token})
            body = "".join(f'--x\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in fields.items())
            reply = self.request("POST", f"/{bucket}", {"content-type": "multipart/form-data; boundary=x"},
                                 (body + "--x--\r\n").encode(), signed=False)
            self.assertEqual(reply.status, status, reply.body)
        s3.delete_object(Bucket=bucket, Key="form")
        wrong = self.client("s3", key[0], key[1], key[2][:-8] + "AAAAAAA=")
        self.assert_error("InvalidToken", 400, wrong.list_buckets)
        self.assert_error("InvalidAccessKeyId", 403, self.client("s3", *key[:2]).list_buckets)
        self.assert_error("InvalidToken", 400, self.client("s3", ACCESS_KEY, SECRET_KEY, key[2]).list_buckets)
        # not for IAM, where it could create a long-term key, and not for another session
        self.assert_error("AccessDenied", 403, self.client("iam", *key).list_users)
        self.assert_error("AccessDenied", 403, self.client("sts", *key).get_session_token)
        self.client("sts", *key).get_caller_identity()
        self.run_program("ls", f"s3://{bucket}", "--native", self.server.native, env=dict(
            self.env, AWS_ACCESS_KEY_ID=key[0], AWS_SECRET_ACCESS_KEY=key[1], AWS_SESSION_TOKEN=key[2]))
        s3.delete_object(Bucket=bucket, Key="k")
        s3.delete_bucket(Bucket=bucket)
        self.run_program("user", "rm", made["name"])
        self.assert_error("InvalidAccessKeyId", 403, mine.list_buckets)


if __name__ == "__main__":
    unittest.main()
