#!/usr/bin/python3
"""Signing in to the console by a directory of people: OpenLDAP's slapd."""
import json
import os
import unittest

import boto3

from console_case import InBrowser, main
from directory import BASE, PEOPLE, Directory
from oidc_provider import Authority
from verbena_server import ACCESS_KEY, SECRET_KEY

ROLE = "arn:aws:iam::000000000000:role/{}"
BUTTON = "Sign in by the directory"


class ByDirectory(InBrowser):
    @classmethod
    def setUpClass(cls):
        if not os.access("/usr/sbin/slapd", os.X_OK):
            raise unittest.SkipTest("slapd is not installed")
        cls.authority = Authority()
        cls.people = Directory(cls.authority).start()
        try:
            super().setUpClass()
            for name in ("people", "others"):
                cls.make_role(name)
        except BaseException:
            cls.end_directory()
            raise

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.end_directory()

    @classmethod
    def end_directory(cls):
        cls.people.__exit__()
        cls.authority.__exit__()

    @classmethod
    def server_args(cls, home):
        settings = {"url": cls.people.ldaps, "ca_file": cls.authority.file, "group_base": f"ou=groups,{BASE}", "user_dn": f"uid=%s,ou=people,{BASE}",
                    "role": ROLE.format("people"), "tries": "3", "timeout": "5"}
        return [word for key, value in settings.items() for word in ("--set", f"sign_in.ldap.{key}={value}")]

    @classmethod
    def make_role(cls, name):
        iam = boto3.client("iam", endpoint_url=cls.server.http, region_name="us-east-1", aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY)
        trust = {"Effect": "Allow", "Action": "sts:AssumeRoleWithLDAPIdentity", "Principal": {"Federated": "arn:aws:iam::000000000000:ldap/directory"}}
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
        allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
        iam.close()

    def setUp(self):
        self.browser.dark(False)
        self.browser.open("about:blank")
        self.browser.open(self.admin + "/-/console/")
        self.browser.sees(BUTTON)
        # Records each requested address, and stored values, during a sign-in.
        self.browser.run("(() => { const real = window.fetch; window.asked = []; window.fetch = (url, how) => { window.asked.push(String(url)); return real(url, how) } })()")

    def arrive(self, name, password):
        self.browser.fill("User name", name)
        self.browser.fill("Password", password)
        self.browser.click(BUTTON)

    def kept(self):
        return self.browser.run("JSON.stringify([document.cookie, Object.entries(localStorage), Object.entries(sessionStorage), location.href, window.asked])")

    def test_a_person_of_the_directory_signs_in_with_name_and_password(self):
        browser = self.browser
        self.bucket("theirs")
        browser.run("document.querySelector('form:nth-of-type(2)').scrollIntoView()")
        self.picture("sign-in-directory")
        self.assert_accessible("sign-in by a directory")
        password = PEOPLE["alice"][0]
        self.arrive("alice", password)
        browser.wait("Boolean(document.querySelector('.frame'))", "the console")
        self.assertEqual(browser.run("document.querySelector('.who span').innerText"), "assumed-role/people/alice")
        browser.sees("theirs")
        kept = self.kept()
        self.assertTrue(kept.startswith('["",[],[],'), kept)
        self.assertNotIn("correct", kept)
        self.assertEqual(browser.run("Array.from(document.querySelectorAll('input'), (e) => e.value).join()"), "")

    def test_a_wrong_password_is_told_and_not_kept_in_the_form(self):
        browser = self.browser
        self.arrive("bob", "hunter2")
        browser.sees("The name or the password is wrong.")
        self.assertEqual(browser.run("document.querySelector('[name=password]').value"), "")
        self.assertNotIn("hunter2", self.kept())
        self.assertFalse(browser.run("Boolean(document.querySelector('.frame'))"))
        for _ in range(3):  # a name has a limited number of tries
            self.arrive("bob", "hunter2")
            browser.wait("!document.querySelector('form:nth-of-type(2) button.wide').disabled", "an answer")
        browser.sees("too many wrong passwords")

    def test_another_role_may_be_named(self):
        browser = self.browser
        browser.click("Another role")
        browser.fill("Role ARN", ROLE.format("others"))
        self.arrive("carol", PEOPLE["carol"][0])
        browser.wait("Boolean(document.querySelector('.frame'))", "the console")
        self.assertEqual(browser.run("document.querySelector('.who span').innerText"), "assumed-role/others/carol")


if __name__ == "__main__":
    main()
