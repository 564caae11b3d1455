#!/usr/bin/python3
"""Signing in by an OpenID Connect provider's tokens: boto3, aws-cli and the JavaScript SDK, against a provider that
misbehaves on request and against a certified one."""
import base64
import hashlib
import hmac
import http.client
import http.cookiejar
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import boto3
import botocore.config
import botocore.credentials
import botocore.session
from botocore import UNSIGNED

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from iam_case import IamCase, policy  # noqa: E402
from oidc_provider import Answer, Authority, Key, Provider, base64url, number  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, client_environment, tool  # noqa: E402

ACCOUNT = "000000000000"
BUCKET_ALL = policy("s3:*")


def trusts(provider_arn, conditions=None, actions=("sts:AssumeRoleWithWebIdentity",), **more):
    statement = {"Effect": "Allow", "Action": list(actions), "Principal": {"Federated": provider_arn}, **more}
    if conditions:
        statement["Condition"] = conditions
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class SignInCase(IamCase):
    allowed = ("--set", "sign_in.networks=127.0.0.0/8")

    @classmethod
    def setUpClass(cls):
        cls.authority = Authority()
        cls.server_args = (*cls.allowed, "--set", f"sign_in.ca_file={cls.authority.file}")
        super().setUpClass()
        cls.unsigned = boto3.client("sts", endpoint_url=cls.server.http, region_name="us-east-1",
                                    config=botocore.config.Config(signature_version=UNSIGNED, retries={"max_attempts": 0}))
        cls.clients.append(cls.unsigned)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.authority.__exit__()

    def provider(self, authority=None, register=True, clients=("app",), thumbprints=("00" * 20,), **arguments):
        """A provider registered by the root account, and its ARN."""
        provider = Provider(authority or self.authority, **arguments)
        provider.__enter__()
        self.addCleanup(provider.__exit__)
        if register:
            provider.arn = self.iam.create_open_id_connect_provider(
                Url=provider.url, ClientIDList=list(clients), ThumbprintList=list(thumbprints))["OpenIDConnectProviderArn"]
        return provider

    def role(self, provider, *policies, conditions=None, actions=("sts:AssumeRoleWithWebIdentity",), **arguments):
        name = self.name("role")
        made = self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=trusts(provider.arn, conditions, actions),
                                    **arguments)["Role"]
        for n, document in enumerate(policies):
            self.iam.put_role_policy(RoleName=name, PolicyName=f"p{n}", PolicyDocument=document)
        return made

    def sign_in(self, role, token, **arguments):
        return self.unsigned.assume_role_with_web_identity(RoleArn=role["Arn"], RoleSessionName="job", WebIdentityToken=token,
                                                           **arguments)

    def as_session(self, service, answer):
        made = answer["Credentials"]
        return self.client(service, made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])

    def assert_refused(self, code, status, role, token, **arguments):
        return self.assert_error(code, status, self.sign_in, role=role, token=token, **arguments)["Error"]["Message"]


class SignIn(SignInCase):
    def test_who_has_a_token_does_what_the_role_may(self):
        provider = self.provider()
        role = self.role(provider, BUCKET_ALL, conditions={"StringEquals": {f"{provider.name}:sub": "alice",
                                                                             f"{provider.name}:aud": "app"}})
        answer = self.sign_in(role, provider.token(), DurationSeconds=900)
        self.assertEqual(answer["SubjectFromWebIdentityToken"], "alice")
        self.assertEqual(answer["Audience"], "app")
        self.assertEqual(answer["Provider"], provider.url)
        self.assertEqual(answer["AssumedRoleUser"], {"AssumedRoleId": role["RoleId"] + ":job",
                                                     "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{role['RoleName']}/job"})
        self.assertAlmostEqual(answer["Credentials"]["Expiration"].timestamp(), time.time() + 900, delta=60)
        bucket = self.new_bucket()
        s3 = self.as_session("s3", answer)
        s3.put_object(Bucket=bucket, Key="k", Body=b"bytes of somebody without a key")
        self.assertEqual(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"bytes of somebody without a key")
        self.assertEqual(self.as_session("sts", answer).get_caller_identity()["Arn"], answer["AssumedRoleUser"]["Arn"])
        self.assert_refused("AccessDenied", 403, role, provider.token(sub="mallory"))
        # No other role, and not by another kind of call.
        self.assert_error("AccessDenied", 403, self.sts.assume_role, RoleArn=role["Arn"], RoleSessionName="job")

    def test_a_session_policy_limits_what_the_role_may(self):
        provider = self.provider()
        role = self.role(provider, BUCKET_ALL)
        bucket = self.new_bucket()
        s3 = self.as_session("s3", self.sign_in(role, provider.token(), Policy=policy("s3:ListBucket")))
        s3.list_objects_v2(Bucket=bucket)
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="k", Body=b"")
        s3 = self.as_session("s3", self.sign_in(role, provider.token(),
                                                PolicyArns=[{"arn": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"}]))
        s3.list_objects_v2(Bucket=bucket)
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="k", Body=b"")
        self.assert_refused("ValidationError", 400, role, provider.token(), DurationSeconds=7200)
        self.assert_refused("MalformedPolicyDocument", 400, role, provider.token(), Policy="{}")

    def test_policies_know_who_signed_in(self):
        provider = self.provider()
        bucket = self.new_bucket()
        home = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:*Object", "Resource": f"arn:aws:s3:::{bucket}/home/${{{provider.name}:sub}}/*"},
            {"Effect": "Allow", "Action": "s3:*Object", "Resource": f"arn:aws:s3:::{bucket}/team/${{aws:PrincipalTag/team}}/*"},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*",
             "Condition": {"StringEquals": {"aws:SourceIdentity": "alice@example.org"}}}]}
        every = ("sts:AssumeRoleWithWebIdentity", "sts:TagSession", "sts:SetSourceIdentity")
        role = self.role(provider, json.dumps(home), actions=every, Tags=[{"Key": "Team", "Value": "blue"}])
        tags = {"https://aws.amazon.com/tags": {"principal_tags": {"team": ["red"]}, "transitive_tag_keys": ["team"]},
                "https://aws.amazon.com/source_identity": "alice@example.org"}
        s3 = self.as_session("s3", self.sign_in(role, provider.token(**tags)))
        for key in ("home/alice/k", "team/red/k"):
            s3.put_object(Bucket=bucket, Key=key, Body=b"mine")
        s3.list_objects_v2(Bucket=bucket)
        for key in ("home/bob/k", "team/blue/k", "k"):
            self.assert_error("AccessDenied", 403, s3.put_object, Bucket=bucket, Key=key, Body=b"not mine")
        # Without session tags the role's tags count.
        s3 = self.as_session("s3", self.sign_in(role, provider.token(sub="bob")))
        for key in ("home/bob/k", "team/blue/k"):
            s3.put_object(Bucket=bucket, Key=key, Body=b"mine")
        self.assert_error("AccessDenied", 403, s3.list_objects_v2, Bucket=bucket)
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="team/red/k", Body=b"not mine")
        # A session that may not have tags or a name is refused altogether.
        plain = self.role(provider, json.dumps(home))
        self.assertIn("sts:TagSession", self.assert_refused("AccessDenied", 403, plain, provider.token(**tags)))
        source = {"https://aws.amazon.com/source_identity": "alice@example.org"}
        self.assertIn("SetSourceIdentity", self.assert_refused("AccessDenied", 403, plain, provider.token(**source)))
        self.assert_refused("IDPRejectedClaim", 403, role, provider.token(**{"https://aws.amazon.com/tags": 7}))

    def test_tags_of_users_are_in_policies_too(self):
        bucket = self.new_bucket()
        document = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/${{aws:PrincipalTag/team}}/*"}]}
        user, key = self.user_with_key(self.iam, json.dumps(document))
        s3 = self.client("s3", *key)
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="red/k", Body=b"")
        self.iam.tag_user(UserName=user, Tags=[{"Key": "Team", "Value": "red"}])
        s3.put_object(Bucket=bucket, Key="red/k", Body=b"")
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="blue/k", Body=b"")

    def test_transitive_tags_go_along_into_the_next_role(self):
        provider = self.provider()
        bucket = self.new_bucket()
        first = self.role(provider, policy("sts:*"), actions=("sts:AssumeRoleWithWebIdentity", "sts:TagSession",
                                                              "sts:SetSourceIdentity"))
        document = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/${{aws:PrincipalTag/team}}/*"}]}

        def second(*actions, condition=None):
            name = self.name("role")
            trust = {"Version": "2012-10-17", "Statement": [
                {"Effect": "Allow", "Action": actions, "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/{first['RoleName']}"},
                 **({"Condition": condition} if condition else {})}]}
            made = self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]
            self.iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=json.dumps(document))
            return made["Arn"]

        tags = {"principal_tags": {"team": ["red"], "cost": ["7"]}, "transitive_tag_keys": ["team"]}
        sts = self.as_session("sts", self.sign_in(first, provider.token(**{"https://aws.amazon.com/tags": tags})))
        made = sts.assume_role(RoleArn=second("sts:AssumeRole", "sts:TagSession"), RoleSessionName="next")
        s3 = self.as_session("s3", made)
        s3.put_object(Bucket=bucket, Key="red/k", Body=b"")
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="7/k", Body=b"")
        self.assert_error("AccessDenied", 403, sts.assume_role, RoleArn=second("sts:AssumeRole"), RoleSessionName="next")
        # The next role's policy may require the inherited tags.
        both = ("sts:AssumeRole", "sts:TagSession")
        for condition, may in (({"StringEquals": {"aws:RequestTag/team": "red"}}, True), ({"StringEquals": {"aws:RequestTag/team": "blue"}}, False),
                               ({"ForAllValues:StringEquals": {"aws:TagKeys": ["team"]}, "Null": {"aws:TagKeys": "false"}}, True),
                               ({"StringEquals": {"aws:RequestTag/cost": "7"}}, False), ({"StringEquals": {"sts:TransitiveTagKeys": "team"}}, True)):
            arn = second(*both, condition=condition)
            if may:
                sts.assume_role(RoleArn=arn, RoleSessionName="next")
            else:
                self.assert_error("AccessDenied", 403, sts.assume_role, RoleArn=arn, RoleSessionName="next")
        # The whole chain ends with the provider.
        self.iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=provider.arn)
        self.assert_error("InvalidAccessKeyId", 403, s3.put_object, Bucket=bucket, Key="red/k", Body=b"")
        self.assert_error("InvalidClientTokenId", 403, sts.get_caller_identity)

    def test_a_trust_policy_must_name_the_provider(self):
        provider, other = self.provider(), self.provider(path="/other")
        for trust in (trusts(other.arn), trusts(provider.arn, actions=("sts:AssumeRole",)),
                      trusts(provider.arn + "x"), trusts("cognito-identity.amazonaws.com"),
                      json.dumps({"Version": "2012-10-17", "Statement": [
                          {"Effect": "Allow", "Action": "sts:*", "Principal": "*"}]}),
                      json.dumps({"Version": "2012-10-17", "Statement": [
                          {"Effect": "Allow", "Action": "sts:*", "Principal": {"AWS": [f"arn:aws:iam::{ACCOUNT}:root", ACCOUNT]}}]}),
                      json.dumps({"Version": "2012-10-17", "Statement": [
                          {"Effect": "Allow", "Action": "sts:*", "Principal": {"Federated": provider.arn}},
                          {"Effect": "Deny", "Action": "sts:*", "Principal": "*",
                           "Condition": {"StringEquals": {f"{provider.name}:sub": "alice"}}}]})):
            made = self.iam.create_role(RoleName=self.name("role"), AssumeRolePolicyDocument=trust)["Role"]
            self.assert_refused("AccessDenied", 403, made, provider.token())
        missing = {"Arn": f"arn:aws:iam::{ACCOUNT}:role/nobody"}
        self.assert_refused("AccessDenied", 403, missing, provider.token())

    def test_conditions_look_at_claims(self):
        provider = self.provider()
        role = self.role(provider, conditions={
            "ForAnyValue:StringEquals": {f"{provider.name}:groups": ["dev", "ops"]}, "Bool": {f"{provider.name}:vip": "true"},
            "NumericGreaterThan": {f"{provider.name}:level": "3"}, "StringLike": {"sts:RoleSessionName": "j*"}})
        good = {"groups": ["users", "ops"], "vip": True, "level": 4}
        self.sign_in(role, provider.token(**good))
        for bad in ({"groups": ["users"]}, {"groups": []}, {"groups": None}, {"vip": False}, {"vip": "no"}, {"level": 3}, {"level": [9]}):
            self.assert_refused("AccessDenied", 403, role, provider.token(**{**good, **bad}))

    def test_of_several_audiences_policies_see_the_one_that_it_was_made_for(self):
        provider = self.provider()
        key = f"{provider.name}:aud"
        token = provider.token(aud=["stranger", "app"], azp="app")
        self.assertEqual(self.sign_in(self.role(provider, conditions={"StringEquals": {key: "app"}}), token)["Audience"], "app")
        for conditions in ({"StringEquals": {key: "stranger"}}, {"ForAnyValue:StringEquals": {key: "stranger"}}):
            self.assert_refused("AccessDenied", 403, self.role(provider, conditions=conditions), token)

    def test_sessions_end_with_their_provider_and_role(self):
        self.provider(path="/other")  # tokens are checked while any provider is registered
        provider = self.provider()
        role = self.role(provider, BUCKET_ALL)
        bucket = self.new_bucket()
        s3 = self.as_session("s3", self.sign_in(role, provider.token()))
        s3.list_objects_v2(Bucket=bucket)
        self.iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=provider.arn)
        self.assert_error("InvalidAccessKeyId", 403, s3.list_objects_v2, Bucket=bucket)
        self.assert_refused("InvalidIdentityToken", 400, role, provider.token())
        # A provider created anew, even at once, is a different one.
        self.iam.create_open_id_connect_provider(Url=provider.url, ClientIDList=["app"], ThumbprintList=["00" * 20])
        self.assert_error("InvalidAccessKeyId", 403, s3.list_objects_v2, Bucket=bucket)
        again = self.as_session("s3", self.sign_in(role, provider.token()))
        again.list_objects_v2(Bucket=bucket)
        self.iam.delete_role_policy(RoleName=role["RoleName"], PolicyName="p0")
        self.iam.delete_role(RoleName=role["RoleName"])
        self.assert_error("InvalidAccessKeyId", 403, again.list_objects_v2, Bucket=bucket)

    def test_each_account_has_its_own_providers(self):
        provider = self.provider()
        account = self.account()
        iam = self.as_account(account)
        arn = provider.arn.replace(ACCOUNT, self.as_account(account, "sts").get_caller_identity()["Account"])
        made = iam.create_role(RoleName="r", AssumeRolePolicyDocument=trusts(arn))["Role"]
        self.assert_refused("InvalidIdentityToken", 400, made, provider.token())
        # A role of one account that trusts another account's provider.
        foreign = iam.create_role(RoleName="f", AssumeRolePolicyDocument=trusts(provider.arn))["Role"]
        iam.create_open_id_connect_provider(Url=provider.url, ClientIDList=["app"], ThumbprintList=["00" * 20])
        self.assert_refused("AccessDenied", 403, foreign, provider.token())
        self.sign_in(made, provider.token())

    def test_every_algorithm_of_public_keys_works(self):
        for algorithm in ("RS384", "PS256", "ES256", "ES384", "ES512", "EdDSA"):
            provider = self.provider(algorithm=algorithm, path="/" + algorithm)
            self.sign_in(self.role(provider), provider.token())

    def test_who_signs_nothing_is_asked_for_a_signature(self):
        for form, code, status in (("Action=AssumeRole&Version=2011-06-15", "MissingAuthenticationToken", 403),
                                   ("Action=CreateUser&Version=2010-05-08&UserName=x", "MissingAuthenticationToken", 403),
                                   ("Action=AssumeRoleWithWebIdentity&Version=2010-05-08", "MissingAuthenticationToken", 403),
                                   ("Action=AssumeRoleWithWebIdentity&Version=2011-06-15&SerialNumber=1", "ValidationError", 400),
                                   ("Action=AssumeRoleWithWebIdentity&Version=2011-06-15", "ValidationError", 400),
                                   ("x" * 40_000, "EntityTooLarge", 400)):
            self.provider(path="/" + self.name("p"))
            connection = http.client.HTTPConnection(self.address, timeout=30)
            connection.request("POST", "/", form, {"Content-Type": "application/x-www-form-urlencoded"})
            answer = connection.getresponse()
            self.assertEqual((answer.status, re.search(r"<Code>(\w+)", answer.read().decode()).group(1)), (status, code), form[:60])
            connection.close()


class Tokens(SignInCase):
    """Invalid tokens."""

    def setUp(self):
        self.idp = self.provider(path="/" + self.name("realm"))
        self.of = self.role(self.idp)
        self.sign_in(self.of, self.idp.token())  # so that the provider's keys are known

    def refuse(self, token, code="InvalidIdentityToken", status=400):
        return self.assert_refused(code, status, self.of, token)

    def parts(self, header, claims=None):
        now = int(time.time())
        claims = claims or {"iss": self.idp.url, "aud": "app", "sub": "alice", "iat": now, "exp": now + 600}
        return base64url(json.dumps(header).encode()) + "." + base64url(json.dumps(claims).encode())

    def test_old_early_and_others_tokens(self):
        now = int(time.time())
        self.assertIn("expired", self.refuse(self.idp.token(exp=now - 60), "ExpiredTokenException"))
        self.refuse(self.idp.token(iat=now + 120, exp=now + 600))
        self.refuse(self.idp.token(nbf=now + 120))
        self.assertIn("audience", self.refuse(self.idp.token(aud="stranger")))
        self.refuse(self.idp.token(aud=["app", "stranger"]))
        self.sign_in(self.of, self.idp.token(aud=["app", "stranger"], azp="app"))
        self.refuse(self.idp.token(azp="stranger"))
        for claim in ("sub", "aud", "exp", "iat", "iss"):
            self.assertIn(claim, self.refuse(self.idp.token(without=(claim,))))
        for issuer in ("https://accounts.google.com", self.idp.url + "/", self.idp.url.replace("https", "http"), self.idp.url.upper()):
            self.refuse(self.idp.token(iss=issuer))

    def test_tokens_without_a_signature_or_by_a_shared_secret(self):
        for name in ("none", "None", "NONE", ""):
            for signature in ("", "AAAA"):
                self.refuse(self.parts({"alg": name, "kid": self.idp.keys[-1].id}) + "." + signature)
        # The public key as an HMAC secret: a verifier that trusts the token's algorithm would accept it.
        public = self.idp.keys[-1].private.public_key()
        from cryptography.hazmat.primitives import serialization
        for secret in (public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
                       public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
                       json.dumps(self.idp.keys[-1].published()).encode(), b""):
            text = self.parts({"alg": "HS256", "kid": self.idp.keys[-1].id})
            self.refuse(text + "." + base64url(hmac.new(secret, text.encode(), hashlib.sha256).digest()))

    def test_keys_of_somebody_else(self):
        mine = Key(self.idp.keys[-1].id, "RS256")
        self.refuse(self.idp.token(key=mine))
        # Keys in the token itself, or at an address in the token.
        with Provider(self.authority, path="/mine") as other:
            other.keys = [mine]
            for headers in ({"jwk": mine.published()}, {"jku": other.url + "/keys"}, {"x5u": other.url + "/keys"}):
                self.refuse(self.idp.token(key=mine, headers=headers))
            self.assertEqual(other.fetches(), 0)
        curve = Key(self.idp.keys[-1].id, "ES256")
        self.refuse(self.idp.token(key=curve))

    def test_tokens_that_were_changed(self):
        good = self.idp.token()
        head, claims, signature = good.split(".")
        other = base64url(json.dumps({**json.loads(base64.urlsafe_b64decode(claims + "==")), "sub": "root"}).encode())
        for bad in (f"{head}.{other}.{signature}", f"{head}.{claims}.{signature[:-4]}", f"{head}.{claims}.", f"{head}.{claims}",
                    good + ".", good + "=", "." + good, good[1:], "a.b.c", "....", good * 2, "x" * 20_001,
                    f"{head}.{base64url(b'[' * 9000)}.{signature}",
                    f"{head}.{base64url(b'{}')}.{signature}", self.parts({"alg": "RS256", "crit": ["exp"]}) + "." + signature):
            self.refuse(bad)


class Rotation(SignInCase):
    def test_a_new_key_is_found_and_an_old_one_is_gone(self):
        provider = self.provider()
        role = self.role(provider)
        self.sign_in(role, provider.token())
        self.assertEqual(provider.fetches(), 1)
        for _ in range(20):
            self.sign_in(role, provider.token())
        self.assertEqual(provider.fetches(), 1)
        old = provider.keys[-1]
        provider.rotate()
        # The provider was queried less than 30 s ago, so no request queries it again.
        for _ in range(20):
            self.assert_refused("InvalidIdentityToken", 400, role, provider.token())
        self.assertEqual(provider.fetches(), 1)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.sign_in(role, provider.token())
                break
            except self.unsigned.exceptions.InvalidIdentityTokenException:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(2)
        self.assertEqual(provider.fetches(), 2)
        self.assert_refused("InvalidIdentityToken", 400, role, provider.token(key=old))


class Hostile(SignInCase):
    """Providers with arbitrary answers, and endless unauthenticated clients."""

    def refused_by(self, path, answer, code="IDPCommunicationError"):
        provider = self.provider(path="/" + self.name("realm"))
        provider.answers[provider.path + path] = answer
        started = time.monotonic()
        self.assert_refused(code, 400, self.role(provider), provider.token())
        return provider, time.monotonic() - started

    def test_answers_that_are_none(self):
        keys, configuration = "/keys", "/.well-known/openid-configuration"
        for path, answer in ((keys, Answer(b"")), (keys, Answer(b"<html>")), (keys, Answer(b"{}", status=500)),
                             (keys, Answer(b'{"keys": [], "keys": []}')), (keys, Answer(b"[" * 200_000)),
                             (keys, Answer(b'{"keys":' + b"[" * 100_000 + b"]" * 100_000 + b"}")),
                             (keys, Answer(b'{"keys": [' + b"{}," * 100 + b"{}]}")),
                             (keys, Answer(b'{"keys": [], "x": "' + b"x" * 300_000 + b'"}')),
                             (keys, Answer(b"", status=302, headers=[("Location", "https://127.0.0.1:1/")])),
                             (configuration, Answer(b"[]")), (configuration, Answer(b'{"issuer": "https://accounts.google.com"}')),
                             (configuration, Answer(b"{}", headers=[("X-Long", "x" * 40_000)]))):
            provider, _ = self.refused_by(path, answer)
            self.assertEqual(sum(provider.asked.values()), 1 if path == configuration else 2)

    def test_a_set_of_keys_that_are_of_no_use_is_no_answer_for_a_token(self):
        self.refused_by("/keys", Answer(b'{"keys": [{"kty": "oct", "k": "AAAA", "kid": "key-1"}]}'), "InvalidIdentityToken")
        weak = {"kty": "RSA", "kid": "key-1", "n": number(2 ** 256 + 1), "e": "AQAB"}
        self.refused_by("/keys", Answer(json.dumps({"keys": [weak]}).encode()), "InvalidIdentityToken")

    def test_places_that_a_provider_may_not_send_the_server_to(self):
        for uri in ("http://127.0.0.1/keys", "https://169.254.169.254/latest/meta-data", "https://[::1]:1/", "file:///etc/passwd",
                    "https://user@localhost/", 7, None, "https://10.0.0.1/" + "x" * 3000):
            provider = self.provider(path="/" + self.name("realm"))
            document = {"issuer": provider.url, "jwks_uri": uri}
            provider.answers[provider.path + "/.well-known/openid-configuration"] = Answer(json.dumps(document).encode())
            self.assert_refused("IDPCommunicationError", 400, self.role(provider), provider.token())
            self.assertEqual(sum(provider.asked.values()), 1)

    def test_a_slow_provider_is_left_after_a_while_and_holds_up_nobody(self):
        slow = self.provider(path="/slow")
        slow.answers["/slow/keys"] = Answer(b" " * 1000, pause_s=0.5, piece=1)
        role, results = self.role(slow), []

        def sign_in():
            try:
                self.sign_in(role, slow.token())
            except Exception as error:  # the test inspects it
                results.append(type(error).__name__)

        waiting = [threading.Thread(target=sign_in) for _ in range(8)]
        for thread in waiting:
            thread.start()
        # Other sign-ins with known keys, and S3, go on meanwhile. The account's other providers wait: one is queried at
        # a time.
        account = self.account()
        iam = self.as_account(account)
        other = self.provider(register=False)
        arn = iam.create_open_id_connect_provider(Url=other.url, ClientIDList=["app"],
                                                  ThumbprintList=["00" * 20])["OpenIDConnectProviderArn"]
        made = iam.create_role(RoleName="r", AssumeRolePolicyDocument=trusts(arn))["Role"]
        for _ in range(20):
            self.sign_in(made, other.token())
            self.s3.list_buckets()
        self.assertTrue(any(thread.is_alive() for thread in waiting))
        for thread in waiting:
            thread.join(60)
        self.assertEqual(results, ["IDPCommunicationErrorException"] * 8)
        self.assertEqual(slow.fetches(), 1)

    def test_strangers_without_end_cause_no_fetches_and_no_memory(self):
        provider = self.provider()
        role = self.role(provider)
        self.sign_in(role, provider.token())
        pid = self.server.process.pid

        def memory():
            return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))

        keys = [Key(f"unknown-{n}", "ES256") for n in range(4)]
        before = memory()
        for n in range(1500):
            if n % 3 == 0:
                token = provider.token(key=keys[n % 4], headers={"kid": f"nobody-{n}"})
            elif n % 3 == 1:
                token = provider.token(key=keys[n % 4], iss=f"https://{n}.example.org")
            else:
                token = "x" * 10_000 + f".{n}."
            with self.assertRaises(self.unsigned.exceptions.InvalidIdentityTokenException):
                self.sign_in(role, token)
        self.assertLessEqual(provider.fetches(), 3)
        self.assertLess(memory() - before, 20_000, "KiB")
        self.sign_in(role, provider.token())


class Certificates(SignInCase):
    def test_only_certificates_that_are_trusted_are_taken(self):
        with Authority("Another one") as unknown:
            provider = self.provider(unknown)
            self.assert_refused("IDPCommunicationError", 400, self.role(provider), provider.token())
            self.assertEqual(provider.fetches(), 0)
            self.assertGreaterEqual(provider.connections, 1)
        # Certificates of another name, at an address that answers; then of the address itself.
        for names, good in ((("localhost", "127.0.0.1"), False), (("127.0.0.2",), True)):
            named = self.provider(host="127.0.0.2", address="127.0.0.2", names=names, path="/" + self.name("realm"))
            role = self.role(named)
            if good:
                self.sign_in(role, named.token())
            else:
                self.assert_refused("IDPCommunicationError", 400, role, named.token())
                self.assertEqual(named.asked, {})
            self.assertGreaterEqual(named.connections, 1)

    def test_a_thumbprint_names_a_certificate_that_nobody_else_vouches_for(self):
        with Authority("Another one") as unknown:
            certificate = ssl.PEM_cert_to_DER_cert(pathlib.Path(unknown.certificate("localhost")[0]).read_text())
            wrong = self.provider(unknown, path="/wrong", thumbprints=[hashlib.sha1(certificate).hexdigest()])
            self.assert_refused("IDPCommunicationError", 400, self.role(wrong), wrong.token())
            right = self.provider(unknown, path="/right", register=False)
            shown = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", right.port)))
            right.arn = self.iam.create_open_id_connect_provider(
                Url=right.url, ClientIDList=["app"], ThumbprintList=[hashlib.sha1(shown).hexdigest().upper()])["OpenIDConnectProviderArn"]
            self.sign_in(self.role(right), right.token())


class Fenced(SignInCase):
    allowed = ()

    def test_a_provider_in_a_private_network_is_not_asked_unless_that_is_allowed(self):
        provider = self.provider()
        self.assert_refused("IDPCommunicationError", 400, self.role(provider), provider.token())
        self.assertEqual(provider.asked, {})


class FencedKeys(SignInCase):
    """Addresses that a provider redirects the server to, where its keys really are."""
    allowed = ("--set", "sign_in.networks=127.0.0.1/32")

    def sent_to(self, url):
        provider = self.provider(path="/" + self.name("realm"))
        document = {"issuer": provider.url, "jwks_uri": url}
        provider.answers[provider.path + "/.well-known/openid-configuration"] = Answer(json.dumps(document).encode())
        return provider

    def keys_at(self, provider, **arguments):
        """Another server with the provider's keys; it is not registered."""
        other = self.provider(register=False, path="/" + self.name("realm"), **arguments)
        other.keys = provider.keys
        document = {"issuer": provider.url, "jwks_uri": other.url + "/keys"}
        provider.answers[provider.path + "/.well-known/openid-configuration"] = Answer(json.dumps(document).encode())
        return other

    def test_keys_are_fetched_where_that_is_allowed_and_nowhere_else(self):
        for address, good in (("127.0.0.1", True), ("127.0.0.3", False)):
            provider = self.sent_to("")
            elsewhere = self.keys_at(provider, host=address, address=address, names=(address,))
            role = self.role(provider)
            if good:
                self.sign_in(role, provider.token())
            else:
                self.assert_refused("IDPCommunicationError", 400, role, provider.token())
            self.assertEqual(elsewhere.connections, 1 if good else 0)

    def test_redirects_are_not_followed(self):
        for path, status in (("/keys", 301), ("/keys", 307), ("/.well-known/openid-configuration", 302),
                             ("/.well-known/openid-configuration", 308)):
            provider = self.provider(path="/" + self.name("realm"))
            provider.answers["/moved"] = Answer(json.dumps(provider._document(provider.path + path)).encode())
            provider.answers[provider.path + path] = Answer(b"", status=status, headers=[
                ("Location", f"https://localhost:{provider.port}/moved")])
            self.assert_refused("IDPCommunicationError", 400, self.role(provider), provider.token())
            self.assertEqual(provider.asked[provider.path + path], 1)
            self.assertNotIn("/moved", provider.asked)


class Logged(SignInCase):
    @classmethod
    def setUpClass(cls):
        cls.logs = tempfile.TemporaryDirectory(prefix="verbena-log-")
        cls.log_file = pathlib.Path(cls.logs.name) / "access.log"
        cls.allowed = (*SignInCase.allowed, "--set", f"access_log={cls.log_file}")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.logs.cleanup()

    def test_the_log_says_who_signed_in_and_no_secret_and_the_server_ends_beside_a_provider_that_does_not_answer(self):
        provider = self.provider()
        role, token = self.role(provider), provider.token()
        made = self.sign_in(role, token)["Credentials"]
        forged = provider.token(key=Key(provider.keys[-1].id, "RS256"))
        self.assert_refused("InvalidIdentityToken", 400, role, forged)
        slow = self.provider(path="/slow")
        slow.answers["/slow/keys"] = Answer(b" " * 1000, pause_s=0.5, piece=1)
        of_slow, ends = self.role(slow), []

        def wait():
            try:
                self.sign_in(of_slow, slow.token())
            except Exception as error:  # the connection may end, or the call
                ends.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while slow.fetches() == 0:
            time.sleep(0.05)
        self.assertEqual(self.server.stop(), 0)
        waiting.join(30)
        self.assertEqual(len(ends), 1)
        text = self.log_file.read_text()
        lines = [line for line in map(json.loads, text.splitlines()) if line.get("action") == "iam:AssumeRoleWithWebIdentity"]
        good = next(line for line in lines if line["status"] == 200)
        self.assertIn(f"assumed-role/{role['RoleName']}/job", json.dumps(good))
        self.assertIn(made["AccessKeyId"], json.dumps(good))
        self.assertIn("InvalidIdentityToken", json.dumps([line for line in lines if line["status"] == 400]))
        for secret in (token.split(".")[2], token.split(".")[1], forged.split(".")[2], made["SecretAccessKey"], made["SessionToken"]):
            self.assertNotIn(secret, text + self.server.log())


class Off(IamCase):
    server_args = ("--set", "sign_in.web_identity=false")

    def test_nobody_signs_in_where_it_is_off(self):
        self.iam.create_open_id_connect_provider(Url="https://idp.example.org", ClientIDList=["app"], ThumbprintList=[])
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(self.server.http, b"Action=AssumeRoleWithWebIdentity&Version=2011-06-15", timeout=30)
        self.assertIn("MissingAuthenticationToken", caught.exception.read().decode())

    def test_a_providers_name_must_not_pass_for_aws(self):
        for url in ("https://aws", "https://s3"):
            self.assert_error("ValidationError", 400, self.iam.create_open_id_connect_provider, Url=url, ClientIDList=["app"],
                              ThumbprintList=["00" * 20])


class StsOverTls:
    """AWS's own name of STS, for clients with a fixed endpoint: a proxy that forwards it to Verbena."""

    def __init__(self, authority, address):
        self.address = address
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*authority.certificate("sts.us-east-1.amazonaws.com", "sts.amazonaws.com"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        connection.settimeout(30)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        assert head.startswith(b"CONNECT sts."), head
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        host, port = self.address.split(":")
        with self.context.wrap_socket(connection, server_side=True) as near, socket.create_connection((host, int(port))) as far:
            def answer():
                while data := far.recv(65536):
                    near.sendall(data)
            threading.Thread(target=answer, daemon=True).start()
            try:
                while data := near.recv(65536):
                    far.sendall(data)
            except OSError:
                pass

    def close(self):
        self.listener.close()


class Clients(SignInCase):
    """Programs that sign in by themselves with a token file."""

    def setUp(self):
        self.idp = self.provider(path="/" + self.name("realm"))
        self.of = self.role(self.idp, BUCKET_ALL)
        self.token_file = self.home / "token"
        self.token_file.write_text(self.idp.token())
        self.bucket = self.new_bucket()
        env = {k: v for k, v in client_environment(self.home).items() if k not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        self.environment = dict(env, AWS_WEB_IDENTITY_TOKEN_FILE=str(self.token_file), AWS_ROLE_ARN=self.of["Arn"],
                                AWS_ROLE_SESSION_NAME="program")

    def test_aws_cli(self):
        proxy = StsOverTls(self.authority, self.address)
        self.addCleanup(proxy.close)
        env = dict(self.environment, HTTPS_PROXY=proxy.url, AWS_CA_BUNDLE=self.authority.file, AWS_STS_REGIONAL_ENDPOINTS="regional")
        file = self.home / "file"
        file.write_bytes(os.urandom(100_000))

        def aws(*args):
            done = subprocess.run([tool("aws"), "--endpoint-url", self.server.http, "s3", *args], env=env, capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            return done.stdout.decode()

        aws("cp", str(file), f"s3://{self.bucket}/by-token")
        self.assertIn("by-token", aws("ls", f"s3://{self.bucket}/"))
        aws("cp", f"s3://{self.bucket}/by-token", str(self.home / "back"))
        self.assertEqual((self.home / "back").read_bytes(), file.read_bytes())
        self.assertEqual(self.s3.head_object(Bucket=self.bucket, Key="by-token")["ContentLength"], 100_000)

    def test_botocores_own_provider(self):
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update({k: v for k, v in self.environment.items() if k.startswith("AWS_")})
        session = botocore.session.get_session()

        def to_server(name, **arguments):
            return session.create_client(name, endpoint_url=self.server.http, region_name="us-east-1", **arguments)

        signing_in = botocore.credentials.AssumeRoleWithWebIdentityProvider(lambda: {"profiles": {}}, to_server, "default")
        credentials = signing_in.load().get_frozen_credentials()
        s3 = self.client("s3", credentials.access_key, credentials.secret_key, credentials.token)
        s3.put_object(Bucket=self.bucket, Key="k", Body=b"by botocore")
        self.assertEqual(s3.get_object(Bucket=self.bucket, Key="k")["Body"].read(), b"by botocore")
        sts = self.client("sts", credentials.access_key, credentials.secret_key, credentials.token)
        self.assertTrue(sts.get_caller_identity()["Arn"].endswith("/program"))

    def test_the_sdk_of_javascript(self):
        folder = modules()
        if folder is None:
            self.skipTest("no node, or no packages (./dev setup installs them where npm is)")
        placed = folder / "web_identity.mjs"
        shutil.copyfile(HERE / "web_identity.mjs", placed)
        env = dict(self.environment, AWS_ENDPOINT_URL=self.server.http)
        done = subprocess.run(["node", str(placed), self.bucket], env=env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        self.assertEqual(done.stdout.strip(), "ok", done.stderr)


class Documented(SignInCase):
    def test_what_the_document_says_works(self):
        """The commands of docs/sign-in.md, verbatim."""
        text = (HERE.parents[1] / "docs" / "sign-in.md").read_text()
        prepare, sign_in = re.findall(r"```sh\n(.*?)```", text, re.S)[:2]
        provider = self.provider(register=False)
        self.s3.create_bucket(Bucket="homes")
        (self.home / "token").write_text(provider.token())
        env = dict(self.env, STORE=self.server.http, IDP=provider.url, PATH="/usr/bin:/bin")

        def run(script, env):
            done = subprocess.run(["bash", "-euc", script], env=env, cwd=self.home, capture_output=True, timeout=240,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            return done.stdout.decode()

        run(prepare, env)
        without_key = {k: v for k, v in env.items() if k not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        made = json.loads(run(sign_in, without_key))["Credentials"]
        s3 = self.client("s3", made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])
        s3.put_object(Bucket="homes", Key="alice/k", Body=b"hers")
        self.assertEqual(s3.get_object(Bucket="homes", Key="alice/k")["Body"].read(), b"hers")
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket="homes", Key="bob/k", Body=b"")


def modules():
    """The folder of npm's packages, or None."""
    cache = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache" / "verbena") / "js"
    there = shutil.which("node") and (cache / ".complete").exists() and (cache / "node_modules" / "oidc-provider").exists()
    return cache if there else None


class RealProvider(SignInCase):
    """oidc-provider from npm, a certified one: a user signs in on its page by HTTP, then here."""

    def start(self, port, algorithm):
        folder = modules()
        if folder is None:
            self.skipTest("no node, or no packages (./dev setup installs them where npm is)")
        placed = folder / "oidc_provider.mjs"
        shutil.copyfile(HERE / "oidc_provider.mjs", placed)
        files = self.authority.certificate("localhost")
        process = subprocess.Popen(["node", str(placed), str(port), *files, algorithm], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end, process)
        url = process.stdout.readline().strip()
        self.assertTrue(url.startswith("https://localhost:"), url)
        return process, url

    def end(self, process):
        process.kill()
        process.wait()
        process.stdout.close()

    def id_token(self, url, person):
        """An ID token through its pages: sign in, consent, and exchange the code."""
        class Stop(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, request, fp, code, message, headers, new):
                return None if new.startswith("https://localhost/signed-in") else super().redirect_request(
                    request, fp, code, message, headers, new)

        context = ssl.create_default_context(cafile=self.authority.file)
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), Stop(),
                                             urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        query = {"client_id": "store", "response_type": "code", "scope": "openid", "redirect_uri": "https://localhost/signed-in"}
        address, form = url + "/auth?" + urllib.parse.urlencode(query), None
        for answers in ({"prompt": "login", "login": person, "password": "any"}, {"prompt": "consent"}, None):
            try:
                page = opener.open(address, form, timeout=30).read().decode()
            except urllib.error.HTTPError as redirected:
                code = urllib.parse.parse_qs(urllib.parse.urlparse(redirected.headers["Location"]).query)["code"][0]
                break
            address = re.search(r'action="([^"]+)"', page).group(1)
            form = urllib.parse.urlencode(answers).encode()
        request = urllib.request.Request(url + "/token", urllib.parse.urlencode(
            {"grant_type": "authorization_code", "code": code, "redirect_uri": "https://localhost/signed-in"}).encode())
        request.add_header("Authorization", "Basic " + base64.b64encode(b"store:a+secret+of+the+client").decode())
        return json.loads(opener.open(request, timeout=30).read())["id_token"]

    def test_people_sign_in_and_its_keys_are_rotated(self):
        process, url = self.start(0, "RS256")
        name = url.removeprefix("https://")
        arn = self.iam.create_open_id_connect_provider(Url=url, ClientIDList=["store"],
                                                       ThumbprintList=["00" * 20])["OpenIDConnectProviderArn"]
        bucket = self.new_bucket()
        document = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:*Object", "Resource": f"arn:aws:s3:::{bucket}/${{{name}:sub}}/*"},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*", "Condition": {"StringEquals": {"aws:PrincipalTag/team": "red"}}}]}
        made = self.iam.create_role(RoleName=self.name("role"), AssumeRolePolicyDocument=trusts(
            arn, {"StringEquals": {f"{name}:aud": "store"}}, ("sts:AssumeRoleWithWebIdentity", "sts:TagSession")))["Role"]
        self.iam.put_role_policy(RoleName=made["RoleName"], PolicyName="p", PolicyDocument=json.dumps(document))
        before = self.id_token(url, "alice")
        s3 = self.as_session("s3", self.sign_in(made, before))
        s3.put_object(Bucket=bucket, Key="alice/k", Body=b"hers")
        self.assertEqual(s3.get_object(Bucket=bucket, Key="alice/k")["Body"].read(), b"hers")
        s3.list_objects_v2(Bucket=bucket)
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="bob/k", Body=b"")
        # The same provider with a key of another type.
        self.end(process)
        self.start(int(url.rsplit(":", 1)[1]), "ES256")
        after = self.id_token(url, "bob")
        deadline = time.monotonic() + 60
        while True:
            try:
                s3 = self.as_session("s3", self.sign_in(made, after))
                break
            except self.unsigned.exceptions.InvalidIdentityTokenException:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(2)
        s3.put_object(Bucket=bucket, Key="bob/k", Body=b"his")
        self.assert_refused("InvalidIdentityToken", 400, made, before)


if __name__ == "__main__":
    unittest.main()
