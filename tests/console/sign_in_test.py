#!/usr/bin/python3
"""Signing in to the console by an OpenID Connect provider: npm's oidc-provider, a certified one, in a browser."""
import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import unittest

import boto3
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from console_case import ROOT, InBrowser, admin_of, main
from oidc_provider import Authority
from verbena_server import ACCESS_KEY, SECRET_KEY, Server

MODULES = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache" / "verbena") / "js"
ROLE = "arn:aws:iam::000000000000:role/people"


def pin(certificate):
    """The hash by which a browser is made to trust a certificate's key."""
    key = x509.load_pem_x509_certificate(pathlib.Path(certificate).read_bytes()).public_key()
    form = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(form).digest()).decode()


class SignIn(InBrowser):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("node") or not (MODULES / ".complete").exists() or not (MODULES / "node_modules" / "oidc-provider").exists():
            raise unittest.SkipTest("no node, or no packages (./dev setup installs them where npm is)")
        cls.authority = Authority()
        files = cls.authority.certificate("localhost")
        cls.trusts = (pin(files[0]),)
        placed = MODULES / "oidc_provider.mjs"
        shutil.copyfile(ROOT / "tests" / "sign_in" / "oidc_provider.mjs", placed)
        cls.provider = subprocess.Popen(["node", str(placed), "0", *files, "ES256"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)
        cls.url = cls.provider.stdout.readline().strip()
        cls.name = cls.url.removeprefix("https://")
        try:
            super().setUpClass()
            cls.make_role()
        except BaseException:
            cls.end_provider()
            raise

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.end_provider()

    @classmethod
    def end_provider(cls):
        cls.provider.kill()
        cls.provider.wait()
        cls.provider.stdout.close()
        cls.authority.__exit__()

    @classmethod
    def server_args(cls, home):
        settings = {"admin.console_provider": cls.url, "admin.console_client": "console", "admin.console_role": ROLE, "sign_in.networks": "127.0.0.0/8",
                    "sign_in.ca_file": cls.authority.file}
        return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]

    @classmethod
    def make_role(cls):
        iam = boto3.client("iam", endpoint_url=cls.server.http, region_name="us-east-1", aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)
        arn = iam.create_open_id_connect_provider(Url=cls.url, ClientIDList=["console"], ThumbprintList=["00" * 20])["OpenIDConnectProviderArn"]
        trust = {"Effect": "Allow", "Action": ["sts:AssumeRoleWithWebIdentity", "sts:TagSession"], "Principal": {"Federated": arn}, "Condition": {"StringEquals": {f"{cls.name}:aud": "console"}}}
        iam.create_role(RoleName="people", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
        allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        iam.put_role_policy(RoleName="people", PolicyName="all", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
        iam.close()

    def setUp(self):
        self.browser.dark(False)
        self.browser.open("about:blank")
        self.browser.open(self.admin + "/-/console/")

    def test_a_person_signs_in_at_the_provider_and_comes_back_with_nothing_in_the_address(self):
        browser = self.browser
        self.bucket("theirs")
        browser.sees(f"Sign in with {self.name}")
        self.picture("sign-in-provider")
        self.assert_accessible("sign-in by a provider")
        self.arrive()
        self.assertEqual(browser.run("document.querySelector('.who span').innerText"), "assumed-role/people/alice")
        self.assertEqual(browser.run("location.pathname + location.search"), "/-/console/")
        self.assertEqual(browser.run("JSON.stringify([document.cookie, Object.entries(localStorage), Object.entries(sessionStorage)])"), '["",[],[]]')
        browser.sees("theirs")
        self.go("#/buckets/theirs")
        browser.sees("Drop files or folders here")
        browser.drop(".drop", {"notes.txt": "hers"})
        browser.wait("Boolean(document.querySelector('[data-row=\"0\"]'))", "the dropped file")
        self.assertEqual(self.s3.get_object(Bucket="theirs", Key="notes.txt")["Body"].read(), b"hers")

    def arrive(self):
        """Signs in as alice at the provider."""
        browser = self.browser
        browser.click(f"Sign in with {self.name}")
        browser.wait("location.protocol === 'https:' && Boolean(document.querySelector('[type=submit]'))", "the provider's page")
        # The provider remembers the last user.
        browser.run("(() => { const login = document.querySelector('input[name=login]'); if (!login) return; "
                    "login.value = 'alice'; document.querySelector('input[name=password]').value = 'any'; document.querySelector('[type=submit]').click() })()")
        browser.wait("!document.querySelector('input[name=login]') && Boolean(document.querySelector('[type=submit]'))", "the provider's question")
        browser.run("document.querySelector('[type=submit]').click()")
        browser.wait("Boolean(document.querySelector('.frame'))", "the console")

    def test_who_is_back_and_cannot_sign_in_is_told_why(self):
        # A server without a configured provider.
        with Server(memory=True) as server:
            self.browser.open(admin_of(server) + "/-/console/?error=server_error&state=x")
            self.browser.sees("This server no longer names a provider")
            self.assertEqual(self.browser.run("location.pathname + location.search"), "/-/console/")
        self.browser.open(self.admin + "/-/console/?error=server_error")
        self.browser.sees("This sign-in did not begin here")

    def test_credentials_that_end_sign_out_with_the_reason_after_a_warning(self):
        browser = self.browser
        self.arrive()
        # Four minutes before expiry by the page's clock; the page checks every ten seconds.
        browser.run("(() => { const now = Date.now; window.skip = 3600_000 - 240_000; Date.now = () => now() + window.skip; "
                    "dispatchEvent(new KeyboardEvent('keydown')) })()")
        browser.sees("Your temporary credentials end in", 60)
        browser.run("window.skip = 0")
        browser.run("""(() => { const real = window.fetch
            window.fetch = async (url, how) => url.startsWith('/-/') ? real(url, how)
              : new Response('<Error><Code>ExpiredToken</Code><Message>over</Message></Error>', {status: 400}) })()""")
        self.go("#/people/users")
        browser.sees("Your temporary credentials have ended")
        self.assertFalse(browser.run("Boolean(document.querySelector('.frame'))"))

    def test_a_code_that_nobody_asked_for_here_signs_nobody_in(self):
        browser = self.browser
        browser.open(self.admin + "/-/console/?code=stolen&state=guessed")
        browser.sees("This sign-in did not begin here")
        self.assertEqual(browser.run("location.pathname + location.search"), "/-/console/")
        # A sign-in was begun, and the answer belongs to another one.
        browser.run("sessionStorage.setItem('verbena-sign-in', JSON.stringify({verifier: 'v', state: 'mine', nonce: 'n', role: 'r', until: Date.now() + 60000}))")
        browser.open(self.admin + "/-/console/?code=stolen&state=another")
        browser.sees("This sign-in did not begin here")
        self.assertEqual(browser.run("sessionStorage.length"), 0)


if __name__ == "__main__":
    main()
