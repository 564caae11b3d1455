#!/usr/bin/python3
"""Signing in by a certificate: AssumeRoleWithCertificate, with certificates of all kinds, from Python's own TLS, openssl, boto3 and
aws-cli."""
import datetime
import http.client
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import xml.etree.ElementTree as tree

import botocore.exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from directory import free_port  # noqa: E402
from iam_case import IamCase, policy  # noqa: E402
from oidc_provider import Authority, pem  # noqa: E402
from verbena_server import client_environment, program, tool  # noqa: E402

ACCOUNT = "000000000000"
ARN = f"arn:aws:iam::{ACCOUNT}:certificate/machines"
STS = "{https://sts.amazonaws.com/doc/2011-06-15/}"
QUERY = "Action=AssumeRoleWithCertificate&Version=2011-06-15"
CLIENT, SERVER, ANY = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
DAY = datetime.timedelta(days=1)


class Machines:
    """An authority, an intermediate one, and the certificates that they sign."""

    def __init__(self, folder):
        self.folder, self.made = pathlib.Path(folder), 0
        self.root = self.make("Machines", authority=True, signer=None)
        self.file = self.root[0]

    def make(self, common_name, signer="root", usages=(CLIENT,), authority=False, begins=-DAY, ends=DAY, key=None, names=(),
             common_names=None, digest=hashes.SHA256()):
        """(certificate file, key file, certificate, key). `signer`: another such tuple; None: itself."""
        self.made += 1
        key = key or ec.generate_private_key(ec.SECP256R1())
        if signer == "root":
            signer = self.root
        subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "example")] + [
            x509.NameAttribute(NameOID.COMMON_NAME, one) for one in (common_names if common_names is not None else [common_name])])
        now = datetime.datetime.utcnow()
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(signer[2].subject if signer else subject)
        made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
        made = made.not_valid_before(now + begins).not_valid_after(now + ends)
        made = made.add_extension(x509.BasicConstraints(authority, None), critical=True)
        if usages and not authority:
            made = made.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
        signing = signer[3] if signer else key
        made = made.sign(signing, None if isinstance(signing, ed25519.Ed25519PrivateKey) else digest)
        stem = self.folder / f"m{self.made}"
        stem.with_suffix(".crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        stem.with_suffix(".key").write_bytes(pem(key))
        return str(stem.with_suffix(".crt")), str(stem.with_suffix(".key")), made, key

    def revoked(self, *certificates, signer=None, ends=DAY):
        signer = signer or self.root
        now = datetime.datetime.utcnow()
        made = x509.CertificateRevocationListBuilder().issuer_name(signer[2].subject).last_update(now - DAY).next_update(now + ends)
        for one in certificates:
            made = made.add_revoked_certificate(x509.RevokedCertificateBuilder().serial_number(one[2].serial_number)
                                                .revocation_date(now - DAY / 2).build())
        return made.sign(signer[3], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class CertificateCase(IamCase):
    @classmethod
    def setUpClass(cls):
        cls.tls, cls.files = Authority(), tempfile.TemporaryDirectory(prefix="verbena-machines-")
        cls.machines = Machines(cls.files.name)
        cls.port = free_port()
        certificate, key = cls.tls.certificate("127.0.0.1")
        # One core: each has its own TLS session secrets, and connections are spread over cores at random.
        cls.server_args = ["--set", "cores=1", "--set", f"tls.certificate={certificate}", "--set", f"tls.key={key}", "--set",
                           f"sign_in.certificates.ca_file={cls.machines.file}", "--set", f"sign_in.certificates.port={cls.port}",
                           *cls.more_args()]
        cls.before = dict(os.environ)
        os.environ["AWS_CA_BUNDLE"] = cls.tls.file
        super().setUpClass()

    @classmethod
    def more_args(cls):
        return []

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        os.environ.clear()
        os.environ.update(cls.before)
        cls.tls.__exit__()
        cls.files.cleanup()

    def role(self, *policies, conditions=None, name=None, principal=ARN, actions="sts:AssumeRoleWithCertificate"):
        return self.federated_role(principal, actions, *policies, conditions=conditions, name=name)

    def context(self, shown=None, version=None):
        context = ssl.create_default_context(cafile=self.tls.file)
        if version:
            context.minimum_version = context.maximum_version = version
        if shown:
            context.set_ciphers("DEFAULT@SECLEVEL=0")  # the server must reject weak keys
            context.load_cert_chain(shown[0], shown[1])
        return context

    def post(self, shown, role=None, body=None, port=None, context=None, source="127.0.0.1", **more):
        form = {"RoleArn": role["Arn"]} if role else {}
        query = QUERY + "&" + urllib.parse.urlencode({**form, **more})
        connection = http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=60, context=context or self.context(shown),
                                                 source_address=(source, 0))
        try:
            if body is None:
                connection.request("POST", "/?" + query)
            else:
                connection.request("POST", "/", query, {"Content-Type": "application/x-www-form-urlencoded"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, {e.tag.removeprefix(STS): e.text for e in tree.fromstring(text).iter()}

    def sign_in(self, shown, role=None, **more):
        status, answer = self.post(shown, role, **more)
        self.assertEqual(status, 200, answer)
        return answer

    def refused(self, why, shown, role, **more):
        status, answer = self.post(shown, role, **more)
        self.assertEqual((status, answer.get("Code")), (403, "AccessDenied"), answer)
        self.assertIn(why, answer["Message"])

    def as_machine(self, answer, service="s3"):
        return self.client(service, answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"])


class Certificates(CertificateCase):
    def test_a_machine_does_what_its_role_may(self):
        role, bucket = self.role(policy("s3:*"), conditions={"StringEquals": {"certificate:subject-cn": "loader"}}), self.new_bucket()
        loader = self.machines.make("loader")
        for answer in (self.sign_in(loader, role), self.sign_in(loader, role, body=True), self.sign_in(loader, role, DurationSeconds="900")):
            self.assertIn("AssumeRoleWithCertificateResult", answer)
            self.assertEqual(answer["Arn"], f"arn:aws:sts::{ACCOUNT}:assumed-role/{role['RoleName']}/loader")
            s3 = self.as_machine(answer)
            s3.put_object(Bucket=bucket, Key="k", Body=b"a machine's")
            self.assertEqual(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"a machine's")
        env = dict(client_environment(self.home), AWS_CA_BUNDLE=self.tls.file, AWS_ACCESS_KEY_ID=answer["AccessKeyId"],
                   AWS_SECRET_ACCESS_KEY=answer["SecretAccessKey"], AWS_SESSION_TOKEN=answer["SessionToken"])
        # The sign-in port serves everything else, too.
        done = subprocess.run([tool("aws"), "--endpoint-url", f"https://127.0.0.1:{self.port}", "s3", "ls", f"s3://{bucket}/"], env=env,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
        self.assertIn(" k", done.stdout.decode(), done.stderr)
        self.refused("sts:AssumeRoleWithCertificate", self.machines.make("another"), role)

    def test_without_a_role_it_is_the_one_of_the_machines_name(self):
        self.role(policy("s3:*"), name="indexer")
        self.assertTrue(self.sign_in(self.machines.make("indexer"))["Arn"].endswith(":assumed-role/indexer/indexer"))
        self.iam.create_role(RoleName="private", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "sts:*", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}]}))
        for name in ("private", "nobody"):
            self.refused("Not authorized", self.machines.make(name), None)

    def test_keys_of_every_usual_kind_are_taken_and_costly_ones_are_not(self):
        role = self.role(policy("s3:*"))
        for key in (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()):
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                shown = self.machines.make("kind", key=key)
                self.sign_in(shown, role, context=self.context(shown, version))
        shown = self.machines.make("costly", key=rsa.generate_private_key(65537, 6144))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.assertRaises(OSError):
                self.post(shown, role, context=self.context(shown, version))

    def test_certificates_that_are_not_good_are_refused(self):
        role, make = self.role(policy("s3:*")), self.machines.make
        other = make("Machines", authority=True, signer=None)  # with the same name
        leaf = make("leaf")
        for why, shown in (("without a client certificate", None), ("expired", make("m", ends=-DAY / 24)),
                           ("not yet valid", make("m", begins=DAY / 24)), ("purpose", make("m", usages=(SERVER,))),
                           ("not for clients", make("m", usages=())), ("not trusted", make("m", usages=(ANY,))),
                           ("not trusted", make("m", signer=None)), ("not trusted", make("m", signer=other)),
                           ("not trusted", make("m", signer=leaf)), ("not for clients", self.machines.root),
                           ("common name", make("m", common_names=[])), ("common name", make("m", common_names=["a", "b"])),
                           ("common name", make("m", common_names=["a b"])), ("common name", make("m", common_names=["a\x00b"])),
                           ("not trusted", make("m", digest=hashes.SHA1()))):
            with self.subTest(why=why):
                self.refused(why, shown, role)
        # The certificate of the server's own authority, which is not trusted for machines.
        self.refused("not trusted", (*self.tls.certificate("127.0.0.1"), None, None), role)

    def test_an_authority_between_is_shown_along(self):
        role = self.role(policy("s3:*"))
        between = self.machines.make("Between", authority=True)
        below = self.machines.make("below", signer=between)
        self.refused("not trusted", below, role)
        chain = pathlib.Path(self.files.name) / "chain.pem"
        chain.write_text(pathlib.Path(below[0]).read_text() + pathlib.Path(between[0]).read_text())
        self.sign_in((str(chain), below[1]), role)

    def test_the_certificate_itself_and_who_issued_it_are_conditions(self):
        shown = self.machines.make("loader")
        digest = shown[2].fingerprint(hashes.SHA256()).hex()
        for key, value, may in (("sha256", digest, True), ("sha256", digest[:-1] + "x", False), ("issuer", "CN=Machines,O=example", True),
                                ("issuer", "CN=Machines", False)):
            role = self.role(conditions={"StringEquals": {f"certificate:{key}": value}})
            if may:
                self.sign_in(shown, role)
            else:
                self.refused("Not authorized", shown, role)

    def test_roles_that_a_session_goes_on_to_end_with_the_certificate_too(self):
        role = self.role(policy("sts:AssumeRole", "s3:*"), name="chain")
        trusting = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {
            "AWS": f"arn:aws:iam::{ACCOUNT}:root"}}]}
        for name in ("chain2", "chain3"):
            self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trusting))
            self.iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=policy("sts:AssumeRole", "s3:*"))
        shown = self.machines.make("chained", ends=datetime.timedelta(seconds=1200))
        answer = self.sign_in(shown, role)
        for name in ("chain2", "chain3"):
            made = self.as_machine(answer, "sts").assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/{name}", RoleSessionName="on")["Credentials"]
            self.assertEqual(made["Expiration"].replace(tzinfo=None), shown[2].not_valid_after)
            answer = made
        self.as_machine(answer).list_buckets()

    def test_chains_without_end_and_connections_without_end_are_not_held(self):
        shown = self.machines.make("m")
        large = self.machines.make("Large", authority=True, key=rsa.generate_private_key(65537, 4096))
        chain = pathlib.Path(self.files.name) / "long.pem"
        chain.write_text(pathlib.Path(shown[0]).read_text() + pathlib.Path(large[0]).read_text() * 12)
        self.assertGreater(len(chain.read_text()) * 3 // 4, 8192)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.assertRaises(OSError):
                self.post((str(chain), shown[1]), None, context=self.context((str(chain), shown[1]), version))
        # This many connections of one address here, and an unchanged limit at the other port.
        held = []
        try:
            context = self.context()
            for _ in range(100):
                plain = socket.create_connection(("127.0.0.1", self.port), 60)
                held.append(plain)
                try:
                    held[-1] = context.wrap_socket(plain, server_hostname="127.0.0.1")
                except OSError:
                    break
            self.assertLessEqual(len(held), 65)
            for _ in range(3):
                connection = http.client.HTTPSConnection(*self.address.split(":"), timeout=60, context=context)
                connection.request("GET", "/")
                self.assertEqual(connection.getresponse().status, 403)
                connection.close()
        finally:
            for one in held:
                one.close()

    def test_alternative_names_are_conditions(self):
        spiffe = "spiffe://example.org/loader"
        shown = self.machines.make("loader", names=[x509.DNSName("loader.example.org"), x509.UniformResourceIdentifier(spiffe)])
        for key, value, may in (("san-uri", spiffe, True), ("san-uri", spiffe + "x", False), ("san-dns", "loader.example.org", True),
                                ("san-dns", "example.org", False), ("serial", f"{shown[2].serial_number:x}", True)):
            role = self.role(conditions={"StringEquals": {f"certificate:{key}": value.rjust(len(value) + len(value) % 2, "0")
                                                          if key == "serial" else value}})
            if may:
                self.sign_in(shown, role)
            else:
                self.refused("Not authorized", shown, role)
        bad = self.machines.make("loader", names=[x509.DNSName("a b")])
        self.refused("alternative names", bad, self.role())

    def test_a_session_does_not_outlive_the_certificate(self):
        role = self.role(policy("s3:*"))
        shown = self.machines.make("short", ends=datetime.timedelta(seconds=1200))
        ends = datetime.datetime.strptime(self.sign_in(shown, role)["Expiration"], "%Y-%m-%dT%H:%M:%SZ")
        self.assertEqual(ends, shown[2].not_valid_after)
        brief = self.machines.make("brief", ends=datetime.timedelta(seconds=8))
        answer = self.sign_in(brief, role)
        self.as_machine(answer).list_buckets()
        # On a connection that is still open when the certificate has expired.
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.context(brief))
        path = "/?" + QUERY + "&" + urllib.parse.urlencode({"RoleArn": role["Arn"]})
        for expected in (200, 403):
            connection.request("POST", path)
            reply = connection.getresponse()
            text = reply.read()
            self.assertEqual(reply.status, expected, text)
            if expected == 200:
                time.sleep(max(0.0, (brief[2].not_valid_after - datetime.datetime.utcnow()).total_seconds()) + 1.2)
        connection.close()
        self.assert_error("ExpiredToken", 400, self.as_machine(answer).list_buckets)

    def test_a_connection_does_not_go_on_from_another(self):
        role, shown = self.role(policy("s3:*")), self.machines.make("again")
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(shown, version)
            first = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
            first.request("POST", "/?" + QUERY)
            first.getresponse().read()
            session = first.sock.session
            with socket.create_connection(("127.0.0.1", self.port)) as plain:
                with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as second:
                    self.assertFalse(second.session_reused)
            first.close()
        # The other listener still accepts TLS 1.2, and requests no certificate.
        context = self.context(version=ssl.TLSVersion.TLSv1_2)
        with socket.create_connection(self.address.split(":")) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as first:
                session = first.session
        with socket.create_connection(self.address.split(":")) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as second:
                self.assertTrue(second.session_reused)

    def test_others_are_not_asked_and_need_none(self):
        def asked(port):
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", self.tls.file], input=b"",
                                  capture_output=True, timeout=60)
            self.assertIn(b"No client certificate CA names sent", done.stdout)
            return b"Requested Signature Algorithms" in done.stdout

        self.assertTrue(asked(self.port))
        self.assertFalse(asked(self.address.split(":")[1]))
        shown, role = self.machines.make("elsewhere"), self.role(policy("s3:*"))
        self.refused("without a client certificate", shown, role, port=int(self.address.split(":")[1]))
        # A proxy's header with a certificate is ignored.
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.context())
        der = ssl.PEM_cert_to_DER_cert(pathlib.Path(shown[0]).read_text())
        connection.request("POST", "/?" + QUERY, headers={"X-SSL-Client-Cert": urllib.parse.quote(pathlib.Path(shown[0]).read_text()),
                                                          "X-Forwarded-Client-Cert": f"Cert={der.hex()}", "SSL-Client-Verify": "SUCCESS"})
        self.assertEqual(connection.getresponse().status, 403)
        connection.close()
        # A client with any certificate, or none, and a key is served as before.
        for context in (self.context(), self.context(self.machines.make("self", signer=None))):
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
            bucket = self.new_bucket()
            headers = self.sign("GET", f"/{bucket}")
            headers["Host"] = self.address
            connection.request("GET", f"/{bucket}", headers=headers)
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()

    def test_what_the_document_says_works(self):
        """The commands of docs/sign-in.md, verbatim."""
        text = (HERE.parents[1] / "docs" / "sign-in.md").read_text()
        scripts = re.findall(r"```sh\n(.*?)```", text[text.index("## By certificate"):], re.S)
        shown = self.machines.make("loader")
        for source, name in zip(shown, ("loader.crt", "loader.key")):
            (self.home / name).write_bytes(pathlib.Path(source).read_bytes())
        env = dict(self.env, STORE=self.server.http, MACHINES=f"https://127.0.0.1:{self.port}", CA=self.tls.file, PATH="/usr/bin:/bin",
                   AWS_CA_BUNDLE=self.tls.file)
        for script in scripts:
            done = subprocess.run(["bash", "-euc", script], env=env, cwd=self.home, capture_output=True, timeout=240, text=True,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stderr)
        bucket = self.new_bucket()
        s3 = self.as_machine({e.tag.removeprefix(STS): e.text for e in tree.fromstring(done.stdout).iter()})
        s3.put_object(Bucket=bucket, Key="k", Body=b"a machine's")
        self.assertEqual(s3.get_object(Bucket=bucket, Key="k")["Body"].read(), b"a machine's")

    def test_the_role_must_name_the_authority(self):
        shown = self.machines.make("m")
        for principal, actions in ((ARN + "x", "sts:*"), (ARN.replace("certificate", "ldap"), "sts:*"), ("*", "sts:*"),
                                   (ARN, "sts:AssumeRoleWithWebIdentity"), (ARN, "sts:AssumeRole")):
            self.refused("Not authorized", shown, self.role(principal=principal, actions=actions))
        status, answer = self.post(shown, self.role(), LDAPPassword="x")
        self.assertEqual((status, answer["Code"]), (400, "ValidationError"))


class Revoked(CertificateCase):
    @classmethod
    def more_args(cls):
        cls.list = pathlib.Path(cls.files.name) / "crl.pem"
        cls.list.write_bytes(cls.machines.revoked())
        return ["--set", f"sign_in.certificates.crl_file={cls.list}"]

    def put(self, data):
        beside = self.list.with_suffix(".new")
        beside.write_bytes(data)
        beside.rename(self.list)

    def test_who_is_revoked_stays_out_from_then_on(self):
        role, good, bad = self.role(policy("s3:*")), self.machines.make("good"), self.machines.make("bad")
        self.sign_in(bad, role)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.context(bad))
        connection.connect()
        self.put(self.machines.revoked(bad))
        self.refused("revoked", bad, role)
        connection.request("POST", "/?" + QUERY)
        self.assertEqual(connection.getresponse().status, 403)
        connection.close()
        self.sign_in(good, role)
        # An outdated list admits no certificate.
        self.put(self.machines.revoked(ends=-DAY / 24))
        self.refused("CRL has expired", good, role)
        self.put(b"no list")
        status, answer = self.post(good, role)
        self.assertEqual((status, answer["Code"]), (400, "IDPCommunicationError"))
        self.put(self.machines.revoked(signer=self.machines.make("Machines", authority=True, signer=None)))
        self.refused("CRL", good, role)
        self.put(self.machines.revoked(bad))
        self.sign_in(good, role)


class Below(CertificateCase):
    """The trusted authority is an intermediate one; its root does not matter."""

    @classmethod
    def more_args(cls):
        cls.root, cls.between = cls.machines.root, cls.machines.make("Between", authority=True)
        return ["--set", f"sign_in.certificates.ca_file={cls.between[0]}"]

    def test_who_is_below_it_comes_in_and_nobody_else(self):
        role = self.role(policy("s3:*"))
        self.sign_in(self.machines.make("m", signer=self.between), role)
        self.refused("not trusted", self.machines.make("m"), role)
        beside = self.machines.make("Beside", authority=True)
        shown = self.machines.make("m", signer=beside)
        chain = pathlib.Path(self.files.name) / "beside.pem"
        chain.write_text("".join(pathlib.Path(one[0]).read_text() for one in (shown, beside, self.root)))
        self.refused("not trusted", (str(chain), shown[1]), role)
        # With the chain above it sent along, and with one more intermediate.
        lower = self.machines.make("Lower", authority=True, signer=self.between)
        shown = self.machines.make("m", signer=lower)
        chain.write_text("".join(pathlib.Path(one[0]).read_text() for one in (shown, lower, self.between, self.root)))
        self.sign_in((str(chain), shown[1]), role)


class BelowRevoked(Below):
    """With revocation lists of the intermediate authority."""

    @classmethod
    def more_args(cls):
        args = super().more_args()
        cls.list = pathlib.Path(cls.files.name) / "below.pem"
        cls.put(cls.machines.revoked(signer=cls.between))
        return args + ["--set", f"sign_in.certificates.crl_file={cls.list}"]

    @classmethod
    def put(cls, *lists):
        beside = cls.list.with_suffix(".new")
        beside.write_bytes(b"".join(lists))
        beside.rename(cls.list)

    def test_who_is_below_it_comes_in_and_nobody_else(self):
        lower = self.machines.make("Lower", authority=True, signer=self.between)
        role, shown = self.role(policy("s3:*")), self.machines.make("m", signer=lower)
        chain = pathlib.Path(self.files.name) / "lower.pem"
        chain.write_text("".join(pathlib.Path(one[0]).read_text() for one in (shown, lower)))
        self.refused("CRL", (str(chain), shown[1]), role)  # the intermediate has no list yet
        self.put(self.machines.revoked(signer=self.between), self.machines.revoked(signer=lower))
        self.sign_in((str(chain), shown[1]), role)
        self.put(self.machines.revoked(lower, signer=self.between), self.machines.revoked(signer=lower))
        self.refused("revoked", (str(chain), shown[1]), role)
        self.put(self.machines.revoked(signer=self.between), self.machines.revoked(signer=lower))

    def test_who_is_revoked_stays_out_whatever_the_root_says(self):
        role, good, bad = (self.role(policy("s3:*")), self.machines.make("good", signer=self.between),
                           self.machines.make("bad", signer=self.between))
        for root in (b"", self.machines.revoked(), self.machines.revoked(ends=-DAY / 24)):
            self.put(self.machines.revoked(bad, signer=self.between), root)
            self.sign_in(good, role)
            self.refused("revoked", bad, role)
        self.put(self.machines.revoked())
        self.refused("CRL", good, role)
        self.put(self.machines.revoked(signer=self.between, ends=-DAY / 24))
        self.refused("CRL has expired", good, role)
        self.put(self.machines.revoked(signer=self.between))
        self.sign_in(good, role)


class Replaced(CertificateCase):
    def put(self, *authorities):
        beside = pathlib.Path(self.machines.file + ".new")
        beside.write_text("".join(pathlib.Path(one[0]).read_text() for one in authorities))
        beside.rename(self.machines.file)

    def test_sessions_end_with_the_authority_that_they_go_back_to(self):
        role, old = self.role(policy("s3:*")), self.machines.root
        old = (str(pathlib.Path(self.files.name) / "old.crt"), *old[1:])
        pathlib.Path(old[0]).write_text(pathlib.Path(self.machines.file).read_text())
        new = self.machines.make("Another", authority=True, signer=None)
        first = self.sign_in(self.machines.make("m", signer=old), role)
        self.as_machine(first).list_buckets()
        # Both authorities, while machines get new certificates. The server sends no names of authorities, so clients
        # that choose by them still send theirs.
        self.put(old, new)
        second = self.sign_in(self.machines.make("m", signer=new), role)
        for answer in (first, second):
            self.as_machine(answer).list_buckets()
        self.put(new)
        end = time.monotonic() + 30
        while True:  # the file is checked each second
            try:
                self.as_machine(first).list_buckets()
            except botocore.exceptions.ClientError as error:
                self.assertEqual(error.response["Error"]["Code"], "InvalidAccessKeyId")
                break
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        self.as_machine(second).list_buckets()
        self.refused("not trusted", self.machines.make("m", signer=old), role)
        self.put(old)
        third = self.sign_in(self.machines.make("m", signer=old), role)
        self.as_machine(third).list_buckets()
        self.assert_error("InvalidAccessKeyId", 403, self.as_machine(second).list_buckets)
        self.put(old, new)


class FromElsewhere(CertificateCase):
    @classmethod
    def more_args(cls):
        return ["--set", 'listeners=[{networks: ["127.0.0.2"], accounts: [anonymous]}]']

    def test_an_account_that_may_not_be_used_from_a_network_gives_no_credentials_there(self):
        role, loader = self.role(policy("s3:*")), self.machines.make("loader")
        self.sign_in(loader, role)
        for body in (None, True):
            status, answer = self.post(loader, role, body=body, source="127.0.0.2")
            answer = {name.rpartition("}")[2]: text for name, text in answer.items()}  # of IAM's namespace, as for a wrong key
            self.assertEqual((status, answer.get("Code")), (403, "AccessDenied"), answer)
            self.assertIn("may not be used from this network", answer["Message"])
            self.assertNotIn("SecretAccessKey", answer)


class Configured(unittest.TestCase):
    def test_each_key_is_checked(self):
        with tempfile.TemporaryDirectory() as folder:
            with Authority() as authority:
                certificate, key = authority.certificate("127.0.0.1")
                tls = {"tls.certificate": certificate, "tls.key": key}
                ca = {"sign_in.certificates.ca_file": authority.file}
                taken = socket.create_server(("127.0.0.1", 0))
                self.addCleanup(taken.close)
                port = taken.getsockname()[1]
                for names, settings in (("tls.certificate", ca), ("sign_in.certificates.ca_file", {**tls, "sign_in.certificates.ca_file": key}),
                                        ("sign_in.certificates.crl_file", {**tls, **ca, "sign_in.certificates.crl_file": key}),
                                        ("sign_in.certificates.address", {**tls, **ca, "sign_in.certificates.address": "nowhere"}),
                                        ("sign_in.certificates.port", {**tls, **ca, "sign_in.certificates.port": port, "admin.port": port}),
                                        ("sign_in.certificates.address", {**tls, **ca, "sign_in.certificates.port": port})):
                    args = [word for k, v in settings.items() for word in ("--set", f"{k}={v}")]
                    env = dict(os.environ, VERBENA_ROOT_ACCESS_KEY="VERBENATESTKEY0000AA", VERBENA_ROOT_SECRET_KEY="x" * 20)
                    done = subprocess.run([program(), "server", folder, "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0", *args], env=env,
                                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(names, done.stderr)


if __name__ == "__main__":
    unittest.main()
