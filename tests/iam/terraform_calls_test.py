#!/usr/bin/python3
"""The calls that Terraform's AWS provider makes for its resources, in its order: create, read, update, read, delete."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from iam_case import IamCase, policy, trust  # noqa: E402

ROOT = "arn:aws:iam::000000000000:root"


def tags(**values):
    return [{"Key": key, "Value": value} for key, value in values.items()]


def as_dict(answer):
    return {tag["Key"]: tag["Value"] for tag in answer.get("Tags", [])}


class Resources(IamCase):
    def test_the_provider_asks_who_it_is(self):
        self.assertEqual(self.sts.get_caller_identity()["Account"], "000000000000")
        self.iam.list_roles(MaxItems=1)
        self.iam.get_user()

    def test_aws_iam_user(self):
        iam, name = self.iam, self.name("tf")
        made = iam.create_user(UserName=name, Path="/", Tags=tags(team="red", stage="test"))["User"]
        self.assertEqual(iam.get_user(UserName=name)["User"]["UserId"], made["UserId"])
        self.assertEqual(as_dict(iam.get_user(UserName=name)["User"]), {"team": "red", "stage": "test"})
        iam.update_user(UserName=name, NewUserName=name + "-new", NewPath="/people/")
        name += "-new"
        iam.untag_user(UserName=name, TagKeys=["stage"])
        iam.tag_user(UserName=name, Tags=tags(team="blue"))
        user = iam.get_user(UserName=name)["User"]
        self.assertEqual((user["Path"], as_dict(user)), ("/people/", {"team": "blue"}))
        # force_destroy
        self.assertEqual(iam.list_groups_for_user(UserName=name)["Groups"], [])
        self.assertEqual(iam.list_access_keys(UserName=name)["AccessKeyMetadata"], [])
        self.assertEqual(iam.list_ssh_public_keys(UserName=name)["SSHPublicKeys"], [])
        self.assertEqual(iam.list_virtual_mfa_devices(AssignmentStatus="Assigned")["VirtualMFADevices"], [])
        self.assertEqual(iam.list_mfa_devices(UserName=name)["MFADevices"], [])
        self.assertEqual(iam.list_signing_certificates(UserName=name)["Certificates"], [])
        self.assertEqual(iam.list_service_specific_credentials(UserName=name)["ServiceSpecificCredentials"], [])
        self.assert_error("NoSuchEntity", 404, iam.delete_login_profile, UserName=name)
        self.assert_error("NoSuchEntity", 404, iam.get_login_profile, UserName=name)
        self.assert_error("NoSuchEntity", 404, iam.list_mfa_devices, UserName="nobody")
        iam.delete_user(UserName=name)
        self.assert_error("NoSuchEntity", 404, iam.get_user, UserName=name)

    def test_aws_iam_access_key(self):
        iam, name = self.iam, self.name("tf")
        iam.create_user(UserName=name)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        for status in ("Inactive", "Active"):
            iam.update_access_key(UserName=name, AccessKeyId=key["AccessKeyId"], Status=status)
            self.assertEqual([(k["AccessKeyId"], k["Status"]) for k in iam.list_access_keys(UserName=name)["AccessKeyMetadata"]],
                             [(key["AccessKeyId"], status)])
        self.client("sts", key["AccessKeyId"], key["SecretAccessKey"]).get_caller_identity()
        iam.delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])
        self.assertEqual(iam.list_access_keys(UserName=name)["AccessKeyMetadata"], [])

    def test_aws_iam_policy_and_its_attachment_to_a_user(self):
        iam, name = self.iam, self.name("tf")
        arn = iam.create_policy(PolicyName=name, Path="/", Description="by hand", PolicyDocument=policy("s3:Get*"),
                                Tags=tags(team="red"))["Policy"]["Arn"]
        made = iam.get_policy(PolicyArn=arn)["Policy"]
        self.assertEqual((made["Description"], as_dict(made)), ("by hand", {"team": "red"}))
        self.assertEqual(iam.get_policy_version(PolicyArn=arn, VersionId=made["DefaultVersionId"])["PolicyVersion"]["Document"],
                         json.loads(policy("s3:Get*")))
        # An update creates a version; the oldest is deleted when there are five.
        for n in range(6):
            versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
            if len(versions) >= 5:
                oldest = min((v for v in versions if not v["IsDefaultVersion"]), key=lambda v: int(v["VersionId"][1:]))
                iam.delete_policy_version(PolicyArn=arn, VersionId=oldest["VersionId"])
            iam.create_policy_version(PolicyArn=arn, PolicyDocument=policy(f"s3:Get{n}*"), SetAsDefault=True)
        iam.tag_policy(PolicyArn=arn, Tags=tags(team="blue", stage="test"))
        iam.untag_policy(PolicyArn=arn, TagKeys=["stage"])
        self.assertEqual(as_dict(iam.get_policy(PolicyArn=arn)["Policy"]), {"team": "blue"})
        self.assertEqual(as_dict(iam.list_policy_tags(PolicyArn=arn)), {"team": "blue"})
        self.assert_error("AccessDenied", 403, iam.tag_policy, PolicyArn="arn:aws:iam::aws:policy/IAMFullAccess", Tags=tags(a="b"))
        user = self.name("tf")
        iam.create_user(UserName=user)
        iam.attach_user_policy(UserName=user, PolicyArn=arn)
        self.assertEqual([p["PolicyArn"] for p in iam.list_attached_user_policies(UserName=user)["AttachedPolicies"]], [arn])
        iam.detach_user_policy(UserName=user, PolicyArn=arn)
        self.assertEqual(iam.list_attached_user_policies(UserName=user)["AttachedPolicies"], [])
        for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
        iam.delete_policy(PolicyArn=arn)
        self.assert_error("NoSuchEntity", 404, iam.get_policy, PolicyArn=arn)

    def test_aws_iam_role(self):
        iam, name = self.iam, self.name("tf")
        iam.create_role(RoleName=name, Path="/", Description="one", AssumeRolePolicyDocument=trust(ROOT), MaxSessionDuration=3600,
                        Tags=tags(team="red"))
        self.assertEqual(as_dict(iam.get_role(RoleName=name)["Role"]), {"team": "red"})
        self.assertEqual(iam.list_role_policies(RoleName=name)["PolicyNames"], [])
        self.assertEqual(iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"], [])
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust("*"))
        self.assertEqual(iam.update_role_description(RoleName=name, Description="two")["Role"]["Description"], "two")
        iam.update_role(RoleName=name, MaxSessionDuration=7200)
        iam.tag_role(RoleName=name, Tags=tags(team="blue"))
        role = iam.get_role(RoleName=name)["Role"]
        self.assertEqual((role["Description"], role["MaxSessionDuration"], as_dict(role)), ("two", 7200, {"team": "blue"}))
        iam.put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=policy("s3:*"))
        iam.get_role_policy(RoleName=name, PolicyName="inline")
        iam.delete_role_policy(RoleName=name, PolicyName="inline")
        self.assertEqual(iam.list_instance_profiles_for_role(RoleName=name)["InstanceProfiles"], [])
        self.assert_error("NoSuchEntity", 404, iam.list_instance_profiles_for_role, RoleName="nobody")
        iam.delete_role(RoleName=name)
        self.assert_error("NoSuchEntity", 404, iam.get_role, RoleName=name)

    def test_aws_iam_group_and_its_members(self):
        iam, name, user = self.iam, self.name("tf"), self.name("tf")
        iam.create_group(GroupName=name, Path="/")
        iam.get_group(GroupName=name)
        iam.update_group(GroupName=name, NewGroupName=name + "-new", NewPath="/teams/")
        name += "-new"
        iam.create_user(UserName=user)
        iam.add_user_to_group(GroupName=name, UserName=user)
        self.assertEqual([u["UserName"] for u in iam.get_group(GroupName=name)["Users"]], [user])
        self.assertEqual([g["GroupName"] for g in iam.list_groups_for_user(UserName=user)["Groups"]], [name])
        iam.put_group_policy(GroupName=name, PolicyName="inline", PolicyDocument=policy("s3:*"))
        iam.get_group_policy(GroupName=name, PolicyName="inline")
        iam.delete_group_policy(GroupName=name, PolicyName="inline")
        iam.remove_user_from_group(GroupName=name, UserName=user)
        iam.delete_group(GroupName=name)
        self.assert_error("NoSuchEntity", 404, iam.get_group, GroupName=name)

    def test_aws_iam_openid_connect_provider(self):
        iam = self.iam
        arn = iam.create_open_id_connect_provider(Url="https://idp.example.org/tf", ClientIDList=["one", "two"],
                                                  ThumbprintList=["00" * 20], Tags=tags(team="red"))["OpenIDConnectProviderArn"]
        self.assertEqual(arn, "arn:aws:iam::000000000000:oidc-provider/idp.example.org/tf")
        iam.update_open_id_connect_provider_thumbprint(OpenIDConnectProviderArn=arn, ThumbprintList=["11" * 20])
        iam.add_client_id_to_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID="three")
        iam.remove_client_id_from_open_id_connect_provider(OpenIDConnectProviderArn=arn, ClientID="one")
        iam.tag_open_id_connect_provider(OpenIDConnectProviderArn=arn, Tags=tags(team="blue", stage="test"))
        iam.untag_open_id_connect_provider(OpenIDConnectProviderArn=arn, TagKeys=["stage"])
        now = iam.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
        self.assertEqual((now["Url"], now["ClientIDList"], now["ThumbprintList"], as_dict(now)),
                         ("idp.example.org/tf", ["two", "three"], ["11" * 20], {"team": "blue"}))
        self.assertEqual(as_dict(iam.list_open_id_connect_provider_tags(OpenIDConnectProviderArn=arn)), {"team": "blue"})
        iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=arn)
        self.assert_error("NoSuchEntity", 404, iam.get_open_id_connect_provider, OpenIDConnectProviderArn=arn)

    def test_aws_s3_bucket(self):
        s3, name = self.s3, "tf-bucket"
        self.assert_error("404", 404, s3.head_bucket, Bucket=name)
        s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
        s3.head_bucket(Bucket=name)
        # Calls for each bucket, and the codes that it takes for "none".
        for call, code in ((s3.get_bucket_policy, "NoSuchBucketPolicy"), (s3.get_bucket_cors, "NoSuchCORSConfiguration"),
                           (s3.get_bucket_website, "NoSuchWebsiteConfiguration"),
                           (s3.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration"),
                           (s3.get_bucket_replication, "ReplicationConfigurationNotFoundError"),
                           (s3.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError"),
                           (s3.get_bucket_tagging, "NoSuchTagSet"),
                           (s3.get_public_access_block, "NoSuchPublicAccessBlockConfiguration")):
            self.assert_error(code, 404, call, Bucket=name)
        for call in (s3.get_bucket_acl, s3.get_bucket_versioning, s3.get_bucket_accelerate_configuration,
                     s3.get_bucket_request_payment, s3.get_bucket_logging, s3.get_object_lock_configuration,
                     s3.get_bucket_location, s3.get_bucket_ownership_controls):
            try:
                call(Bucket=name)
            except s3.exceptions.ClientError as error:
                # The provider continues after these codes.
                self.assertIn(error.response["Error"]["Code"], ("OwnershipControlsNotFoundError",))

    def test_aws_s3_bucket_configurations(self):
        s3, name = self.s3, self.new_bucket(ObjectLockEnabledForBucket=True)
        rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 30}}
        document = json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{name}/secret/*"}]})
        sealed = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
        blocks = {k: True for k in ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")}
        cors = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]}
        lock = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}}
        for put, get, delete, given in (
                ("put_bucket_versioning", "get_bucket_versioning", None, {"VersioningConfiguration": {"Status": "Enabled"}}),
                ("put_bucket_policy", "get_bucket_policy", "delete_bucket_policy", {"Policy": document}),
                ("put_bucket_lifecycle_configuration", "get_bucket_lifecycle_configuration", "delete_bucket_lifecycle",
                 {"LifecycleConfiguration": {"Rules": [rule]}}),
                ("put_bucket_encryption", "get_bucket_encryption", "delete_bucket_encryption", {"ServerSideEncryptionConfiguration": sealed}),
                ("put_public_access_block", "get_public_access_block", "delete_public_access_block",
                 {"PublicAccessBlockConfiguration": blocks}),
                ("put_bucket_ownership_controls", "get_bucket_ownership_controls", "delete_bucket_ownership_controls",
                 {"OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}}),
                ("put_bucket_tagging", "get_bucket_tagging", "delete_bucket_tagging", {"Tagging": {"TagSet": tags(team="red")}}),
                ("put_bucket_cors", "get_bucket_cors", "delete_bucket_cors", {"CORSConfiguration": cors}),
                ("put_object_lock_configuration", "get_object_lock_configuration", None, {"ObjectLockConfiguration": lock})):
            with self.subTest(put):
                for _ in range(2):  # once more: nothing changed
                    getattr(s3, put)(Bucket=name, **given)
                read = getattr(s3, get)(Bucket=name)
                wanted = next(iter(given.values()))
                if put == "put_bucket_policy":
                    self.assertEqual(json.loads(read["Policy"]), json.loads(wanted))
                elif put == "put_bucket_encryption":
                    got = read["ServerSideEncryptionConfiguration"]["Rules"][0]["ApplyServerSideEncryptionByDefault"]
                    self.assertEqual(got, {"SSEAlgorithm": "AES256"})
                else:
                    read.pop("ResponseMetadata")
                    flat = read if set(wanted) <= set(read) else next(iter(read.values()))
                    flat = {"TagSet": flat} if put == "put_bucket_tagging" and "TagSet" not in flat else flat
                    self.assertEqual({k: flat[k] for k in wanted}, wanted)
                if delete:
                    getattr(s3, delete)(Bucket=name)
        s3.delete_bucket(Bucket=name)
        self.assert_error("404", 404, s3.head_bucket, Bucket=name)

    def test_aws_s3_object(self):
        s3, name = self.s3, self.new_bucket()
        s3.put_object(Bucket=name, Key="k", Body=b"bytes", ContentType="text/plain", Tagging="team=red")
        self.assertEqual(s3.head_object(Bucket=name, Key="k")["ContentType"], "text/plain")
        self.assertEqual(as_dict({"Tags": s3.get_object_tagging(Bucket=name, Key="k")["TagSet"]}), {"team": "red"})
        s3.put_object_tagging(Bucket=name, Key="k", Tagging={"TagSet": tags(team="blue")})
        s3.delete_object(Bucket=name, Key="k")
        s3.delete_bucket(Bucket=name)


class Restart(IamCase):
    def test_tags_of_policies_and_providers_outlast_a_restart(self):
        arn = self.iam.create_policy(PolicyName=self.name("tf"), PolicyDocument=policy("s3:Get*"), Tags=tags(a="b"))["Policy"]["Arn"]
        provider = self.iam.create_open_id_connect_provider(Url="https://idp.example.org/tags", ClientIDList=["a"],
                                                            ThumbprintList=["00" * 20], Tags=tags(c="d"))["OpenIDConnectProviderArn"]
        self.server.stop()
        self.server.start()
        iam = self.client("iam")
        self.assertEqual(as_dict(iam.get_policy(PolicyArn=arn)["Policy"]), {"a": "b"})
        self.assertEqual(as_dict(iam.get_open_id_connect_provider(OpenIDConnectProviderArn=provider)), {"c": "d"})


if __name__ == "__main__":
    unittest.main()
