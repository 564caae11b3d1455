#!/usr/bin/python3
"""Signing in by a directory: AssumeRoleWithLDAPIdentity against OpenLDAP's slapd, and against fake directories.
Skips (exit 77) where slapd is not installed."""
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import xml.etree.ElementTree as tree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from directory import BASE, GROUPS, LOOKUP, PEOPLE, Directory, FakeDirectory, ber, entry_of, result  # noqa: E402
from go_program import build  # noqa: E402
from iam_case import IamCase, policy  # noqa: E402
from oidc_provider import Authority  # noqa: E402
from verbena_server import Server, boto3_client, program  # noqa: E402

ACCOUNT = "000000000000"
LDAP_ARN = f"arn:aws:iam::{ACCOUNT}:ldap/directory"
STS = "{https://sts.amazonaws.com/doc/2011-06-15/}"


class LdapCase(IamCase):
    """One slapd and one server for all tests of a class."""
    with_lookup = True
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.authority = Authority()
        cls.directory = Directory(cls.authority).start()
        cls.password_file = pathlib.Path(cls.directory.folder) / "lookup"
        cls.password_file.write_text(LOOKUP[1] + "\n")
        cls.password_file.chmod(0o600)
        settings = {"ldap.url": cls.directory.ldaps, "ldap.ca_file": cls.authority.file, "ldap.group_base": f"ou=groups,{BASE}",
                    "ldap.timeout": "3", "ldap.tries": "16"}
        if cls.with_lookup:
            settings.update({"ldap.lookup_dn": LOOKUP[0], "ldap.lookup_password_file": cls.password_file,
                             "ldap.user_base": f"ou=people,{BASE}", "ldap.user_filter": "(|(uid=%s)(mail=%s))"})
        else:
            settings["ldap.user_dn"] = f"uid=%s,ou=people,{BASE}"
        settings.update(cls.own_settings())
        cls.server_args = [word for k, v in settings.items() for word in ("--set", f"sign_in.{k}={v}")]
        super().setUpClass()

    @classmethod
    def own_settings(cls):
        return cls.settings

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.directory.__exit__()
        cls.authority.__exit__()

    def role(self, *policies, conditions=None, name=None, principal=LDAP_ARN, actions="sts:AssumeRoleWithLDAPIdentity"):
        return self.federated_role(principal, actions, *policies, conditions=conditions, name=name)

    def post(self, form, query="", server=None):
        """The status, and the answer's values by element name."""
        connection = http.client.HTTPConnection(server or self.address, timeout=60)
        try:
            connection.request("POST", "/" + query, urllib.parse.urlencode(form) if isinstance(form, dict) else form,
                               {"Content-Type": "application/x-www-form-urlencoded"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        return answer.status, {e.tag.removeprefix(STS): e.text for e in tree.fromstring(body).iter()}, body

    def form(self, role, user, password, **more):
        out = {"Action": "AssumeRoleWithLDAPIdentity", "Version": "2011-06-15", "LDAPUsername": user, "LDAPPassword": password}
        if role is not None:
            out["RoleArn"] = role["Arn"]
        return {**out, **more}

    def sign_in(self, role, user, password=None, **more):
        status, answer, body = self.post(self.form(role, user, PEOPLE[user][0] if password is None else password, **more))
        self.assertEqual(status, 200, body)
        return answer

    def refused(self, role, user, password, **more):
        status, answer, _ = self.post(self.form(role, user, password, **more))
        self.assertNotEqual(status, 200)
        return status, answer["Code"], answer["Message"]

    def as_person(self, answer, service="s3"):
        return self.client(service, answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"])


WRONG = (403, "AccessDenied", "The name or the password is wrong.")


class People:
    """Tests for both ways of finding a person's entry."""

    def test_who_has_a_password_does_what_the_role_may(self):
        role, bucket = self.role(policy("s3:*")), self.new_bucket()
        answer = self.sign_in(role, "alice", DurationSeconds="900")
        self.assertIn("AssumeRoleWithLDAPIdentityResult", answer)
        self.assertEqual(answer["Arn"], f"arn:aws:sts::{ACCOUNT}:assumed-role/{role['RoleName']}/alice")
        s3 = self.as_person(answer)
        s3.put_object(Bucket=bucket, Key="k", Body=b"hers")
        self.assertEqual(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"hers")
        self.assertEqual(self.as_person(answer, "sts").get_caller_identity()["Arn"], answer["Arn"])
        limited = self.as_person(self.sign_in(role, "alice", Policy=policy("s3:ListBucket")))
        limited.list_objects_v2(Bucket=bucket)
        self.assert_error("AccessDenied", 403, limited.put_object, Bucket=bucket, Key="k", Body=b"")

    def test_wrong_passwords_and_people_that_there_are_not_look_alike(self):
        role = self.role(policy("s3:*"))
        for user, password in (("bob", "wrong"), ("nobody", "wrong"), ("bob", ""), ("nobody", ""), ("", "x"),
                               ("bob", PEOPLE["alice"][0]), ("b\xf6b", "x"), (" bob", PEOPLE["bob"][0]), ("bob", "x" * 2000)):
            self.assertEqual(self.refused(role, user, password), WRONG, user)
        self.sign_in(role, "bob")

    def test_names_stay_names(self):
        role, before = self.role(policy("s3:*")), self.directory.log()
        for user in ("*", "*)(uid=*", "alice)(|(uid=*", "alice,ou=people", f"alice,ou=people,{BASE}", "uid=alice", "alic?", "\\2a",
                     "alice\x00", "alice\n", "a" * 256, "+cn=alice", "#alice", "alice\\"):
            self.assertEqual(self.refused(role, user, PEOPLE["alice"][0]), WRONG, user)
        asked = self.directory.log().removeprefix(before)
        filters = re.findall(r'SRCH base="ou=people[^\n]* filter="([^"\n]*)"', asked)
        self.assertEqual([one for one in filters if "*" in one or one.count("(") != 3], [])
        self.assertEqual(len(filters) > 0, self.with_lookup)
        # An entry whose name needs every escape is found, but is not a valid session name.
        self.assertEqual(self.refused(role, "star*(name)", PEOPLE["star*(name)"][0])[1], "IDPCommunicationError")
        self.assertEqual(self.refused(role, "star*(name)", "wrong"), WRONG)

    def test_the_directory_says_how_somebody_is_called_and_not_who_types(self):
        role = self.role(policy("s3:*"), conditions={"StringEquals": {"ldap:user": "alice", "ldap:dn": entry_of("alice")}})
        for typed in ("alice", "ALICE", "Alice"):
            answer = self.sign_in(role, typed, PEOPLE["alice"][0])
            self.assertTrue(answer["Arn"].endswith("/alice"))
        self.assertEqual(self.refused(role, "two", PEOPLE["two"][0])[1], "IDPCommunicationError")

    def test_groups_are_conditions_of_trust_policies(self):
        groups = [f"cn={name},ou=groups,{BASE}" for name in GROUPS]
        dev = self.role(policy("s3:*"), conditions={"ForAnyValue:StringEquals": {"ldap:groups": groups[0]}})
        ops = self.role(policy("s3:*"), conditions={"ForAnyValue:StringEquals": {"ldap:groups": groups[1]}})
        for role, user, may in ((dev, "alice", True), (dev, "bob", True), (ops, "alice", True), (ops, "bob", False),
                                (dev, "dave", False)):
            if may:
                self.sign_in(role, user)
            else:
                status, code, message = self.refused(role, user, PEOPLE[user][0])
                self.assertEqual((status, code), (403, "AccessDenied"))
                self.assertIn("sts:AssumeRoleWithLDAPIdentity", message)

    def test_policies_know_who_signed_in(self):
        bucket = self.new_bucket()
        home = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:*Object", "Resource": f"arn:aws:s3:::{bucket}/${{ldap:user}}/*"}]}
        s3 = self.as_person(self.sign_in(self.role(json.dumps(home)), "bob"))
        s3.put_object(Bucket=bucket, Key="bob/k", Body=b"his")
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket=bucket, Key="alice/k", Body=b"")

    def test_a_trust_policy_must_name_the_directory(self):
        for principal, actions in ((LDAP_ARN + "x", "sts:*"), (f"arn:aws:iam::{ACCOUNT}:oidc-provider/directory", "sts:*"),
                                   (LDAP_ARN, "sts:AssumeRole"), (LDAP_ARN, "sts:AssumeRoleWithWebIdentity"), ("*", "sts:*")):
            role = self.role(principal=principal, actions=actions)
            self.assertEqual(self.refused(role, "alice", PEOPLE["alice"][0])[1], "AccessDenied")
        missing = {"Arn": f"arn:aws:iam::{ACCOUNT}:role/nobody"}
        self.assertEqual(self.refused(missing, "alice", PEOPLE["alice"][0])[1], "AccessDenied")
        self.assertEqual(self.refused({"Arn": "x"}, "alice", PEOPLE["alice"][0])[:2], (400, "ValidationError"))

    def test_a_role_of_another_account_trusts_the_directory_in_its_own_name(self):
        account = self.account()
        iam = self.as_account(account)
        its = self.as_account(account, "sts").get_caller_identity()["Account"]
        for principal, may in ((LDAP_ARN, False), (LDAP_ARN.replace(ACCOUNT, its), True)):
            made = iam.create_role(RoleName=self.name("r"), AssumeRolePolicyDocument=json.dumps(
                {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:*",
                                                         "Principal": {"Federated": principal}}]}))["Role"]
            if may:
                self.assertIn(its, self.sign_in(made, "alice")["Arn"])
            else:
                self.assertEqual(self.refused(made, "alice", PEOPLE["alice"][0])[1], "AccessDenied")

    def test_a_person_whom_the_directory_has_locked_stays_out(self):
        role = self.role(policy("s3:*"))
        self.sign_in(role, "carol")
        for _ in range(6):
            self.assertEqual(self.refused(role, "carol", "wrong"), WRONG)
        self.assertEqual(self.refused(role, "carol", PEOPLE["carol"][0]), WRONG)

    def test_parameters_and_passwords_in_urls(self):
        role = self.role(policy("s3:*"))
        form, connections = self.form(role, "alice", PEOPLE["alice"][0]), self.directory.connections()
        status, answer, _ = self.post("", "?" + urllib.parse.urlencode(form))
        self.assertEqual((status, answer["Code"]), (400, "ValidationError"))
        self.assertIn("URL", answer["Message"])
        for more, code in (({"RoleSessionName": "root"}, "ValidationError"), ({"SerialNumber": "1"}, "ValidationError"),
                           ({"Version": "2010-05-08"}, "MissingAuthenticationToken")):
            self.assertEqual(self.refused(role, "alice", PEOPLE["alice"][0], **more)[1], code)
        self.assertEqual(self.directory.connections(), connections)
        for more in ({"DurationSeconds": "1"}, {"DurationSeconds": "7200"}):
            self.assertEqual(self.refused(role, "alice", PEOPLE["alice"][0], **more)[1], "ValidationError")


class ByLookup(People, LdapCase):
    settings = {"ldap.role": f"arn:aws:iam::{ACCOUNT}:role/everybody"}

    def test_other_names_that_the_filter_knows_are_the_same_person(self):
        answer = self.sign_in(self.role(policy("s3:*")), "alice@example.org", PEOPLE["alice"][0])
        self.assertTrue(answer["Arn"].endswith("/alice"))

    def test_what_the_document_says_works(self):
        """The commands of docs/sign-in.md, verbatim."""
        text = (HERE.parents[1] / "docs" / "sign-in.md").read_text()
        prepare, sign_in = re.findall(r"```sh\n(.*?)```", text[text.index("## By a directory"):text.index("## By certificate")], re.S)
        self.s3.create_bucket(Bucket="homes")
        env = dict(self.env, STORE=self.server.http, PATH="/usr/bin:/bin", NAME="bob", PASSWORD=PEOPLE["bob"][0])
        out = ""
        for script in (prepare, sign_in):
            done = subprocess.run(["bash", "-euc", script], env=env, cwd=self.home, capture_output=True, timeout=240, text=True,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stderr)
            out = done.stdout
        s3 = self.as_person({e.tag.removeprefix(STS): e.text for e in tree.fromstring(out).iter()})
        s3.put_object(Bucket="homes", Key="bob/k", Body=b"his")
        self.assert_error("AccessDenied", 403, s3.put_object, Bucket="homes", Key="alice/k", Body=b"")

    def test_minio_go_signs_in_without_a_role(self):
        self.role(policy("s3:*"), name="everybody")
        self.new_bucket()
        self.assertTrue(self.sign_in(None, "bob")["Arn"].endswith(":assumed-role/everybody/bob"))
        built = build(HERE / "minio_ldap.go", needs="github.com/minio/minio-go/v7")
        if built is None:
            self.skipTest("no Go, or no minio-go")
        done = subprocess.run([str(built), self.address, "bob"], input=PEOPLE["bob"][0], env={"HOME": str(self.home)}, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.stdout.split(), [b["Name"] for b in self.s3.list_buckets()["Buckets"]], done.stderr)


class ByForm(People, LdapCase):
    """The entry's name is built from the user's name; by StartTLS."""
    with_lookup = False

    @classmethod
    def own_settings(cls):
        return {"ldap.url": cls.directory.ldap}

    def test_the_password_went_by_tls(self):
        before = self.directory.log()
        self.sign_in(self.role(policy("s3:*")), "alice")
        lines = self.directory.log().removeprefix(before).splitlines()
        # The log may contain the end of an earlier connection.
        its = re.search(r"conn=\d+ ", next(line for line in lines if f'BIND dn="{entry_of("alice")}"' in line))[0]
        asked = "\n".join(line for line in lines if its in line)
        self.assertLess(asked.index("TLS established"), asked.index("BIND"))


class PasswordGuesses(LdapCase):
    settings = {"ldap.tries": "4"}  # the default

    def test_a_password_is_not_guessed_and_others_still_come_in(self):
        role, codes = self.role(policy("s3:*")), []
        before = self.directory.log().count("BIND dn=\"uid=bob")
        for number in range(60):
            codes.append(self.refused(role, ("bob", "BOB", "boB")[number % 3], f"guess {number}")[1])
        self.assertEqual(codes[:4], ["AccessDenied"] * 4)
        self.assertGreaterEqual(codes.count("SlowDown"), 55)
        asked = self.directory.log().count("BIND dn=\"uid=bob") - before
        self.assertLessEqual(asked, 2 * (60 - codes.count("SlowDown")))
        # Fewer tries than lock an account in the directory: a direct bind still succeeds.
        with socket.create_connection(("127.0.0.1", self.directory.port), 60) as plain:
            plain.sendall(ber(0x30, ber(2, b"\x01"), ber(0x60, ber(2, b"\x03"), ber(4, entry_of("bob").encode()),
                                                         ber(0x80, PEOPLE["bob"][0].encode()))))
            self.assertEqual(plain.recv(4096), result(1, 0x61, 0))
        self.assertEqual(self.refused(role, "bob", PEOPLE["bob"][0])[1], "SlowDown")
        self.sign_in(role, "alice")
        # Successful sign-ins are not counted.
        for _ in range(40):
            self.sign_in(role, "alice")


class Untrusted(LdapCase):
    """Directories with untrusted certificates, and directories that would go on without TLS."""

    def expect_no_answer(self, url, **more):
        settings = {"url": url, "ca_file": self.authority.file, "user_dn": f"uid=%s,ou=people,{BASE}", "timeout": "3", **more}
        args = [word for k, v in settings.items() for word in ("--set", f"sign_in.ldap.{k}={v}")]
        with Server(args=args) as server:
            started = time.monotonic()
            status, answer, body = self.post(self.form({"Arn": f"arn:aws:iam::{ACCOUNT}:role/r"}, "alice", "very secret"),
                                             server=server.http.split("//")[1])
            self.assertEqual((status, answer["Code"]), (400, "IDPCommunicationError"), body)
            log = server.log()
        self.assertNotIn("very secret", log + body.decode())
        self.assertLess(time.monotonic() - started, 30)
        return log

    def test_certificates_of_other_authorities_and_names_are_not_taken(self):
        with Authority("Another one") as other, Directory(other) as strange, Directory(self.authority, "ldap.example.org") as named:
            for url in (strange.ldaps, strange.ldap, named.ldaps, named.ldap):
                self.assertIn("certificate is not trusted", self.expect_no_answer(url))
            for directory in (strange, named):
                self.assertGreaterEqual(directory.connections(), 4)  # two of them are readiness probes
                self.assertNotIn("BIND", directory.log())
            # The same certificate, by the name that it contains.
        self.assertIn("connect", self.expect_no_answer(strange.ldaps))

    def fake(self, serve):
        made = FakeDirectory(serve)
        self.addCleanup(made.close)
        return made

    def test_nothing_goes_on_without_tls(self):
        def refuses(fake, connection):
            fake.read(connection)
            connection.sendall(result(1, 0x78, 52))
            fake.read(connection)

        def goes_on_in_plain(fake, connection):
            fake.read(connection)
            # Also sends the answer to a bind before TLS, for clients that would read it afterwards.
            connection.sendall(result(1, 0x78, 0) + result(2, 0x61, 0))
            while fake.read(connection):
                connection.sendall(result(2, 0x61, 0))

        def says_bound(fake, connection):
            fake.read(connection)
            connection.sendall(result(1, 0x61, 0))
            fake.read(connection)

        for serve in (refuses, goes_on_in_plain, says_bound):
            fake = self.fake(serve)
            self.expect_no_answer(fake.url)
            self.assertEqual(fake.count, 1)
            self.assertIn(b"1.3.6.1.4.1.1466.20037", fake.hears())
            self.assertNotIn(b"very secret", fake.hears())

    def test_directories_that_answer_with_anything_are_left_in_time(self):
        def silent(fake, connection):
            fake.read(connection)
            fake.ended.wait(20)

        def drips(fake, connection):
            fake.read(connection)
            for byte in ber(0x30, ber(2, b"\x01"), ber(0x61, b"x" * 100)):
                if fake.ended.wait(0.5):
                    return
                connection.sendall(bytes([byte]))

        def closes(fake, connection):
            fake.read(connection)

        def begins_something_huge(fake, connection):
            fake.read(connection)
            connection.sendall(b"\x30\x84\x7f\xff\xff\xff" + b"x" * 100_000)
            fake.ended.wait(20)

        def garbage(fake, connection):
            fake.read(connection)
            connection.sendall(os.urandom(10_000))
            fake.ended.wait(20)

        def refers(fake, connection):
            fake.read(connection)
            connection.sendall(result(1, 0x61, 10, ber(0xa3, ber(4, b"ldap://127.0.0.1:%d/" % elsewhere.port))))
            fake.ended.wait(20)

        def entries_without_end(fake, connection):
            fake.read(connection)
            connection.sendall(result(1, 0x61, 0))
            fake.read(connection)
            one = ber(0x30, ber(2, b"\x02"), ber(0x64, ber(4, b"uid=a," + BASE.encode()),
                                                 ber(0x30, ber(0x30, ber(4, b"uid"), ber(0x31, ber(4, b"a"))))))
            while not fake.ended.is_set():
                connection.sendall(one * 100)

        elsewhere = self.fake(lambda fake, connection: fake.read(connection))
        for serve in (silent, drips, closes, begins_something_huge, garbage, refers, entries_without_end):
            fake = self.fake(serve)
            self.expect_no_answer(fake.url, insecure="true")
            self.assertGreaterEqual(fake.count, 1, serve.__name__)
            self.assertIn(b"very secret", fake.hears())  # as "insecure" implies; shows that the test sees passwords
        self.assertEqual(elsewhere.count, 0)

    def test_a_slow_directory_holds_up_nobody_but_those_who_ask_it(self):
        def silent(fake, connection):
            fake.read(connection)
            fake.ended.wait(30)

        fake = self.fake(silent)
        settings = {"url": fake.url, "insecure": "true", "user_dn": "uid=%s,o=x", "timeout": "4"}
        with Server(args=[word for k, v in settings.items() for word in ("--set", f"sign_in.ldap.{k}={v}")]) as server:
            codes, address = [], server.http.split("//")[1]

            def ask(number):
                codes.append(self.post(self.form({"Arn": f"arn:aws:iam::{ACCOUNT}:role/r"}, f"u{number}", "x"), server=address)[1]["Code"])

            threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
            for thread in threads:
                thread.start()
            s3 = boto3_client(server.http)
            for _ in range(50):
                s3.list_buckets()
            self.assertTrue(any(thread.is_alive() for thread in threads))
            self.assertLessEqual(fake.count, 8)
            s3.close()
            # The server stops while the directory hangs.
            self.assertEqual(server.stop(), 0)
            for thread in threads:
                thread.join(60)
        self.assertTrue(set(codes) <= {"IDPCommunicationError", "SlowDown"}, set(codes))


class Logged(LdapCase):
    @classmethod
    def own_settings(cls):
        cls.logs = tempfile.TemporaryDirectory(prefix="verbena-log-")
        return {}

    def test_the_log_says_who_signed_in_and_no_password(self):
        file = pathlib.Path(self.logs.name) / "access.log"
        environment = {"LDAPCONF": str(pathlib.Path(self.logs.name) / "ldap.conf")}
        # Settings that OpenLDAP's library would read: with them no entry would be found.
        pathlib.Path(environment["LDAPCONF"]).write_text("TIMELIMIT 1\nSIZELIMIT 1\nURI ldap://127.0.0.1:1\nDEREF always\n")
        with Server(args=(*self.server_args, "--set", f"access_log={file}"), env=environment) as server:
            address = server.http.split("//")[1]
            role = {"Arn": f"arn:aws:iam::{ACCOUNT}:role/none"}
            for form in (self.form(role, "alice", PEOPLE["alice"][0]), self.form(role, "alice", "a wrong secret")):
                self.assertEqual(self.post(form, server=address)[0], 403)
            self.assertEqual(self.post("", "?" + urllib.parse.urlencode(self.form(role, "alice", "a third secret")), server=address)[0], 400)
            text = server.log()
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual([line["action"] for line in lines], ["iam:AssumeRoleWithLDAPIdentity"] * 3)
        everything = urllib.parse.unquote_plus(file.read_text() + text)
        for secret in (PEOPLE["alice"][0], "a wrong secret", "a third secret", LOOKUP[1]):
            self.assertNotIn(secret, everything)
        self.logs.cleanup()


class Configured(unittest.TestCase):
    """An invalid configuration stops the start, with the key's name."""

    def refuse(self, key, **settings):
        with tempfile.TemporaryDirectory() as folder:
            args = [word for k, v in settings.items() for word in ("--set", f"sign_in.{k}={v}")]
            env = dict(os.environ, VERBENA_ROOT_ACCESS_KEY="VERBENATESTKEY0000AA", VERBENA_ROOT_SECRET_KEY="x" * 20)
            done = subprocess.run([program(), "server", folder, "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0", *args], env=env,
                                  capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(key, done.stderr)
            self.assertNotIn("hunter2", done.stderr)

    def test_each_key_is_checked(self):
        form = {"ldap.url": "ldaps://ldap.example.org", "ldap.user_dn": "uid=%s,o=x"}
        with tempfile.NamedTemporaryFile("w") as secret, tempfile.NamedTemporaryFile("w") as empty:
            secret.write("hunter2\n")
            secret.flush()
            os.chmod(secret.name, 0o644)
            lookup = {"ldap.url": "ldaps://h", "ldap.lookup_dn": "cn=l", "ldap.user_base": "o=x",
                      "ldap.lookup_password_file": secret.name}
            for key, settings in (("ldap.url", {**form, "ldap.url": "https://h"}), ("ldap.url", {**form, "ldap.url": "ldap://u:hunter2@h"}),
                                  ("ldap.url", {"ldap.url": "ldaps://h"}), ("ldap.url", {**form, **lookup}),
                                  ("ldap.user_dn", {**form, "ldap.user_dn": "uid=alice"}),
                                  ("ldap.user_dn", {**form, "ldap.user_dn": "uid=%s,o=%d"}),
                                  ("ldap.ca_file", {**form, "ldap.ca_file": empty.name}),
                                  ("ldap.lookup_password_file", lookup),
                                  ("ldap.lookup_password_file", {**lookup, "ldap.lookup_password_file": empty.name}),
                                  ("ldap.lookup_dn", {"ldap.url": "ldaps://h", "ldap.lookup_dn": "cn=l"}),
                                  ("ldap.group_filter", {**form, "ldap.group_filter": "(member=x)"}),
                                  ("ldap.group_filter", {**form, "ldap.group_filter": "(&(a=b)(member=%d)"}),
                                  ("ldap.tries", {**form, "ldap.tries": "0"}), ("ldap.tries_every", {**form, "ldap.tries_every": "0"}),
                                  ("ldap.user_dn needs sign_in.ldap.url", {"ldap.user_dn": "uid=%s,o=x"}),
                                  ("certificates.crl_file needs sign_in.certificates.ca_file", {"certificates.crl_file": empty.name}),
                                  ("ldap.user_attribute", {**form, "ldap.user_attribute": "a b"}),
                                  ("ldap.role", {**form, "ldap.role": "everybody"}),
                                  ("ldap.name", {**form, "ldap.name": "a/b"}), ("ldap.timeout", {**form, "ldap.timeout": "0"})):
                with self.subTest(key=key, settings=settings):
                    self.refuse("sign_in." + key, **settings)


if __name__ == "__main__":
    if not os.access("/usr/sbin/slapd", os.X_OK):
        print("slapd is not installed")
        sys.exit(77)
    unittest.main()
