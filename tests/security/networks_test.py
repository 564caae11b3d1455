#!/usr/bin/python3
"""`listeners:` at every door of a running server. Its clients have different addresses of loopback, each in a network
with a rule of its own.

usage: networks_test.py [unittest arguments]
"""
import http.client
import json
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from iam_case import DENIED, IamCase, trust  # noqa: E402
from s3_case import Reply  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402

ROOT = "000000000000"
BOUNDARY = "boundary-of-a-form"
# Addresses of clients.
ALL, TENANT, ROOTS, TLS, PLAIN, PUBLIC, REMOVED = (f"127.0.0.{n}" for n in range(1, 8))


class Networks(IamCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tenant = cls.account(cls())
        bucket = cls.client("s3", cls.tenant["access_key"], cls.tenant["secret_key"])
        bucket.create_bucket(Bucket="tenants")
        bucket.put_object(Bucket="tenants", Key="k", Body=b"bytes")
        cls.s3.create_bucket(Bucket="roots")
        cls.s3.put_object(Bucket="roots", Key="k", Body=b"bytes")
        cls.s3.delete_public_access_block(Bucket="roots")
        cls.s3.put_bucket_policy(Bucket="roots", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::roots/*"}]}))
        cls.s3.close()
        cls.server.stop()
        cls.entries = [{"networks": [TENANT], "accounts": [cls.tenant["account_id"]]},
                       {"networks": [ROOTS], "accounts": [ROOT], "address": "127.0.0.1:0"},
                       {"networks": [TLS], "encryption": "required"},
                       {"networks": [PLAIN + "/32"], "encryption": "off"},
                       {"networks": [PUBLIC], "accounts": ["anonymous"]},
                       {"networks": [REMOVED], "accounts": ["123456789012"]}]
        cls.server.args = ["--set", "listeners=" + json.dumps(cls.entries)]
        cls.server.start()
        cls.iam, cls.sts, cls.s3 = (cls.client(service) for service in ("iam", "sts", "s3"))
        log = pathlib.Path(cls.server.log_path).read_text()
        cls.admin = re.findall(r"admin=http://([\d.]+:\d+)", log)[-1]
        cls.roots_only = re.findall(r"listeners\[1\]: S3 at http://([\d.]+:\d+)", log)[-1]

    def ask(self, source, method, path, headers=None, body=b"", door=None):
        connection = http.client.HTTPConnection(door or self.address, timeout=30, source_address=(source, 0))
        try:
            connection.request(method, path, body or None, headers or {})
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def keys(self, account):
        return (ACCESS_KEY, SECRET_KEY) if account == ROOT else (self.tenant["access_key"], self.tenant["secret_key"])

    def signed(self, source, account, method, path, headers=None, body=b"", service="s3", door=None):
        key, secret = self.keys(account)
        headers = {"host": door or self.address, **(headers or {})}
        return self.ask(source, method, path, self.sign(method, path, headers, body, service, key, secret), body, door)

    def outcomes(self, ask):
        """The statuses for (tenant, root) from each address."""
        return {source: tuple(ask(source, account).status for account in ("tenant", ROOT))
                for source in (ALL, TENANT, ROOTS, PUBLIC)}

    def test_signed_requests_are_served_where_their_account_may_be_used(self):
        got = self.outcomes(lambda source, who: self.signed(source, who, "GET", "/"))
        self.assertEqual(got, {ALL: (200, 200), TENANT: (200, 403), ROOTS: (403, 200), PUBLIC: (403, 403)})
        reply = self.signed(TENANT, ROOT, "GET", "/roots/k")
        self.assertEqual((reply.status, reply.code), (403, "AccessDenied"))
        self.assertIn("may not be used from this network", reply.text("Message"))
        self.assertEqual(self.signed(TENANT, ROOT, "PUT", "/roots/new", body=b"x").code, "AccessDenied")
        self.assertEqual(self.signed(ALL, ROOT, "HEAD", "/roots/new").status, 404)

    def test_an_entry_whose_account_was_removed_admits_no_caller_and_the_server_starts(self):
        self.assertEqual([self.signed(REMOVED, who, "GET", "/").status for who in ("tenant", ROOT)], [403, 403])
        self.assertEqual(self.ask(REMOVED, "GET", "/roots/k").status, 403)
        self.assertIn("listeners[5].accounts: there is no account 123456789012",
                      pathlib.Path(self.server.log_path).read_text())

    def test_headers_about_other_addresses_change_nothing(self):
        for header in ("x-forwarded-for", "x-real-ip", "forwarded"):
            value = f"for={ROOTS}" if header == "forwarded" else ROOTS
            self.assertEqual(self.signed(TENANT, ROOT, "GET", "/", {header: value}).status, 403, header)

    def test_anonymous_callers_are_an_account_of_their_own(self):
        got = {source: self.ask(source, "GET", "/roots/k").status for source in (ALL, TENANT, ROOTS, PUBLIC)}
        self.assertEqual(got, {ALL: 200, TENANT: 403, ROOTS: 403, PUBLIC: 200})
        self.assertEqual(self.ask(TENANT, "OPTIONS", "/roots/k", {"origin": "http://a", "access-control-request-method": "GET"}).code,
                         "AccessForbidden", "a preflight has no caller")

    def test_presigned_urls_are_their_signers(self):
        url = self.presign("GET", "/roots/k", 60)
        got = {source: self.ask(source, "GET", url).status for source in (ALL, TENANT, ROOTS, PUBLIC)}
        self.assertEqual(got, {ALL: 200, TENANT: 403, ROOTS: 200, PUBLIC: 403})

    def test_forms_are_their_signers(self):
        made = self.s3.generate_presigned_post("roots", "form")
        text = "".join(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                       for name, value in {**made["fields"], "file": "content"}.items()) + f"--{BOUNDARY}--\r\n"
        multipart = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
        got = {source: self.ask(source, "POST", "/roots", multipart, text.encode()).status
               for source in (TENANT, PUBLIC, ROOTS, ALL)}
        self.assertEqual(got, {ALL: 204, TENANT: 403, ROOTS: 204, PUBLIC: 403})
        # What only looks like a form is an unsigned request.
        for path in ("/roots?delete", "/roots/k?uploads", "/roots/k", "/.s3rdma-rc/connect"):
            reply = self.ask(TENANT, "POST", path, multipart, text.encode())
            self.assertIn(reply.status, (403, 501), path)
            self.assertNotIn(reply.code, ("MalformedXML", "NoSuchKey"), path)

    def test_calls_of_iam_and_sts_too(self):
        body = b"Action=GetCallerIdentity&Version=2011-06-15"
        form = {"content-type": "application/x-www-form-urlencoded"}
        got = self.outcomes(lambda source, who: self.signed(source, who, "POST", "/", form, body, "sts"))
        self.assertEqual(got, {ALL: (200, 200), TENANT: (200, 403), ROOTS: (403, 200), PUBLIC: (403, 403)})

    def test_a_role_of_another_account_is_used_and_assumed_where_that_account_may_be_used(self):
        role = self.iam.create_role(RoleName="visitor", AssumeRolePolicyDocument=trust(self.tenant["account_id"]))["Role"]
        self.iam.put_role_policy(RoleName="visitor", PolicyName="all", PolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}))
        taken = self.as_account(self.tenant, "sts").assume_role(RoleArn=role["Arn"], RoleSessionName="session")["Credentials"]
        token = {"x-amz-security-token": taken["SessionToken"]}
        headers = self.sign("GET", "/roots/k", token, key=taken["AccessKeyId"], secret=taken["SecretAccessKey"])
        got = {source: self.ask(source, "GET", "/roots/k", headers).status for source in (ALL, TENANT, ROOTS)}
        self.assertEqual(got, {ALL: 200, TENANT: 403, ROOTS: 200})
        body = urllib.parse.urlencode({"Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": role["Arn"],
                                       "RoleSessionName": "session"}).encode()
        form = {"content-type": "application/x-www-form-urlencoded"}
        asked = {source: self.signed(source, "tenant", "POST", "/", form, body, "sts") for source in (ALL, TENANT)}
        self.assertEqual({source: reply.status for source, reply in asked.items()}, {ALL: 200, TENANT: 403})
        self.assertEqual([b"<SecretAccessKey>" in asked[source].body for source in (ALL, TENANT)], [True, False])
        self.assertIn(b"may not be used from this network", asked[TENANT].body)

    def session(self, source, account):
        body = json.dumps({"version": 1, "client_nonce": self.nonce()}).encode()
        return self.signed(source, account, "POST", "/-/session", body=body, door=self.server.native)

    nonces = 0

    @classmethod
    def nonce(cls):
        cls.nonces += 1
        return f"{cls.nonces:032x}"

    def test_native_sessions_too(self):
        got = self.outcomes(self.session)
        self.assertEqual(got, {ALL: (200, 200), TENANT: (200, 403), ROOTS: (403, 200), PUBLIC: (403, 403)})
        self.assertEqual(self.session(TLS, ROOT).status, 200, "it is signed, and its endpoints are encrypted")

    def test_the_admin_listener_too(self):
        far = {"host": "server.example"}  # metrics need a signature under a name that is not loopback's
        asked = lambda source: self.signed(source, ROOT, "GET", "/-/metrics", far, door=self.admin).status  # noqa: E731
        self.assertEqual([asked(source) for source in (ALL, TENANT, ROOTS, TLS)], [200, 403, 200, 403])
        asked = lambda source: self.signed(source, ROOT, "GET", "/roots/k", door=self.admin).status  # noqa: E731
        self.assertEqual([asked(source) for source in (ALL, TENANT, ROOTS, TLS)], [200, 403, 200, 403])

    def test_token_requests_too(self):
        token = {"x-amz-rdma-token": "0:4:ofi2:tcp:00:1"}  # of no dialect: where it is served, by a body
        self.assertEqual(self.signed(TENANT, ROOT, "GET", "/roots/k", token).status, 403)
        reply = self.signed(ROOTS, ROOT, "GET", "/roots/k", token)
        self.assertEqual((reply.status, reply.body), (200, b"bytes"))

    def test_where_encryption_is_required_plain_http_is_answered_by_health_alone(self):
        self.assertEqual(self.ask(TLS, "GET", "/-/health").body, b"ok\n")
        for reply in (self.signed(TLS, ROOT, "GET", "/roots/k"), self.ask(TLS, "GET", "/roots/k"),
                      self.ask(TLS, "GET", self.presign("GET", "/roots/k", 60)),
                      self.ask(TLS, "OPTIONS", "/roots/k"),
                      self.ask(TLS, "GET", "/-/health", {"host": "roots.localhost"}),
                      self.signed(TLS, ROOT, "POST", "/", {"content-type": "application/x-www-form-urlencoded"},
                                  b"Action=GetCallerIdentity&Version=2011-06-15", "sts")):
            self.assertEqual(reply.status, 403)
            self.assertIn(b"AccessDenied", reply.body)
            self.assertIn(b"use https", reply.body)
        self.assertEqual(self.signed(PLAIN, ROOT, "GET", "/roots/k").status, 200)

    def test_an_address_of_its_own_is_for_its_network_alone(self):
        asked = lambda source, who: self.signed(source, who, "GET", "/roots/k", door=self.roots_only)  # noqa: E731
        self.assertEqual(asked(ROOTS, ROOT).body, b"bytes")
        for source in (ALL, TENANT, PLAIN):
            reply = asked(source, ROOT)
            self.assertEqual((reply.status, reply.code), (403, "AccessDenied"), source)
        self.assertEqual(asked(ROOTS, "tenant").status, 403)
        self.assertEqual(self.ask(ALL, "GET", "/-/health", door=self.roots_only).status, 200)

    def test_the_client_library_is_denied_by_tcp_and_by_shared_memory(self):
        """Its sessions come from 127.0.0.1: a server whose rule holds that."""
        with Server(args=["--set", 'listeners=[{networks: ["127.0.0.1"], accounts: ["anonymous"]}]']) as server:
            for provider in ("tcp", "local"):
                self.run_program("stat", "s3://roots/k", "--endpoint", server.http, "--native", server.native, "--via",
                                 "native", "--provider", provider, expect=DENIED)

    def refusal(self, entries, *more):
        with tempfile.TemporaryDirectory() as directory:
            arguments = ["--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0", "--set", "listeners=" + json.dumps(entries), *more]
            done = subprocess.run([self.program(), "server", directory, *arguments], env=self.server.env, timeout=60,
                                  capture_output=True)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr.decode()

    @staticmethod
    def program():
        import verbena_server
        return verbena_server.program()

    def test_what_cannot_be_meant_stops_the_start_and_is_named(self):
        self.assertIn("listeners[0].networks: '10.0.0.0/40' is not a network", self.refusal([{"networks": ["10.0.0.0/40"]}]))
        self.assertIn("listeners[1].networks: 10.1.0.0/16 is inside a network of entry [0]",
                      self.refusal([{"networks": ["10.0.0.0/8"]}, {"networks": ["10.1.0.0/16"]}]))
        self.assertIn("listeners[0].address 192.0.2.1:9000", self.refusal([{"networks": ["10.0.0.0/8"], "address": "192.0.2.1:9000"}]))

    def test_rdma_in_a_vlan_or_partition_that_is_not_there_stops_the_start(self):
        self.assertIn("rdma.vlan 4000: lo has the address 127.0.0.1 and is not a VLAN's interface",
                      self.refusal([], "--set", "rdma.vlan=4000"))
        self.assertIn("rdma.pkey 0x7ffe: this machine's RDMA devices: no port is a member of this partition",
                      self.refusal([], "--set", "rdma.pkey=0x7ffe"))


class Https(unittest.TestCase):
    """A server with TLS whose storage network is plain."""

    def test_a_storage_network_may_be_plain_and_everything_else_encrypted(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = f"{folder}/cert.pem", f"{folder}/key.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                            "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                           check=True, capture_output=True)
            rules = [{"networks": [PLAIN], "encryption": "off", "address": "127.0.0.1:0"},
                     {"networks": ["127.0.0.0/8"], "encryption": "required"}]
            arguments = ["--set", f"tls.certificate={certificate}", "--set", f"tls.key={key}", "--set",
                         "listeners=" + json.dumps(rules)]
            with Server(args=arguments) as server:
                log = pathlib.Path(server.log_path).read_text()
                plain = re.findall(r"listeners\[0\]: S3 at http://([\d.]+:\d+)", log)[-1]
                trusted = ssl.create_default_context(cafile=certificate)
                https = urllib.parse.urlsplit(server.http).netloc

                def ask(source, door, **tls):
                    kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
                    connection = kind(door, timeout=30, source_address=(source, 0), **tls)
                    try:
                        connection.request("GET", "/bucket/k")
                        return Reply(connection.getresponse())
                    finally:
                        connection.close()

                self.assertEqual(ask(PLAIN, plain).code, "NoSuchBucket")
                self.assertEqual(ask(ALL, plain).code, "AccessDenied")
                self.assertEqual(ask(ALL, https, context=trusted).code, "NoSuchBucket")
                self.assertEqual(ask(PLAIN, https, context=trusted).code, "NoSuchBucket", "it may use TLS, too")


if __name__ == "__main__":
    unittest.main()
