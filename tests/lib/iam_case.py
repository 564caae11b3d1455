"""A test case for accounts, users and roles: a server, clients of IAM and STS, and `verbena user`."""
import json
import pathlib
import subprocess
import tempfile

import boto3
import botocore.config

from s3_case import S3Case
from verbena_server import ACCESS_KEY, SECRET_KEY, client_environment, program

OK, FAILURE, USAGE, NOT_FOUND, DENIED, CONNECTION, CONFLICT = range(7)
ALLOW_ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


def policy(*actions, resource="*", effect="Allow"):
    return json.dumps({"Version": "2012-10-17",
                       "Statement": [{"Effect": effect, "Action": list(actions), "Resource": resource}]})


def trust(principal):
    return json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": principal}}]})


class IamCase(S3Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory(prefix="verbena-iam-")
        cls.home = pathlib.Path(cls.folder.name)
        cls.env = dict(client_environment(cls.home), AWS_ENDPOINT_URL=cls.server.http)
        cls.clients = []
        cls.iam = cls.client("iam")
        cls.sts = cls.client("sts")
        cls.names = 0

    @classmethod
    def tearDownClass(cls):
        for client in cls.clients:
            client.close()
        super().tearDownClass()
        cls.folder.cleanup()

    @classmethod
    def client(cls, service, key=ACCESS_KEY, secret=SECRET_KEY, token=None):
        client = boto3.client(service, endpoint_url=cls.server.http, region_name="us-east-1", aws_access_key_id=key,
                              aws_secret_access_key=secret, aws_session_token=token,
                              config=botocore.config.Config(retries={"max_attempts": 0}))
        cls.clients.append(client)
        return client

    def name(self, kind="user"):
        type(self).names += 1
        return f"{kind}{self.names}"

    def federated_role(self, principal, actions, *policies, conditions=None, name=None):
        """A role that a federated principal may take, with these policies."""
        statement = {"Effect": "Allow", "Action": actions, "Principal": {"Federated": principal}}
        if conditions:
            statement["Condition"] = conditions
        made = self.iam.create_role(RoleName=name or self.name("role"), AssumeRolePolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [statement]}))["Role"]
        for number, document in enumerate(policies):
            self.iam.put_role_policy(RoleName=made["RoleName"], PolicyName=f"p{number}", PolicyDocument=document)
        return made

    def run_program(self, *args, expect=OK, env=None, input=None):
        done = subprocess.run([program(), *args], env=env or self.env, input=input, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL if input is None else None)
        self.assertEqual(done.returncode, expect, f"{args}\n{done.stdout!r}\n{done.stderr.decode()}")
        return done.stdout.decode()

    def account(self, *args):
        """A new account: the output of `verbena user add --json`."""
        return json.loads(self.run_program("user", "add", self.name("account"), "--json", *args))

    def as_account(self, account, service="iam"):
        return self.client(service, account["access_key"], account["secret_key"])

    def user_with_key(self, iam, *policies):
        """A new user's name and clients' arguments."""
        name = self.name()
        iam.create_user(UserName=name)
        for number, document in enumerate(policies):
            iam.put_user_policy(UserName=name, PolicyName=f"p{number}", PolicyDocument=document)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return name, (key["AccessKeyId"], key["SecretAccessKey"])
