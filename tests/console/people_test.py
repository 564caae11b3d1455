#!/usr/bin/python3
"""Identity in the console: signing in, users, keys, accounts, temporary credentials."""
import json

from console_case import InBrowser, main
from verbena_server import SECRET_KEY


class People(InBrowser):
    def test_a_wrong_secret_is_told_and_the_right_one_is_kept_nowhere(self):
        self.browser.click("Sign out")
        self.browser.sees("Sign in with an access key")
        self.assert_accessible("sign-in")
        self.picture("sign-in")
        self.sign_in("not the secret")
        self.browser.sees("The secret key does not belong to this access key.")
        self.browser.run("document.querySelector('form').reset()")
        self.sign_in()
        kept = self.browser.run("JSON.stringify([document.cookie, Object.entries(localStorage), Object.entries(sessionStorage), location.href, document.documentElement.outerHTML])")
        self.assertNotIn(SECRET_KEY, kept)
        self.assertNotIn(json.dumps(SECRET_KEY)[1:-1], kept)
        self.assertTrue(kept.startswith('["",[],[],'))
        self.browser.open(self.admin + "/-/console/?again")
        self.browser.sees("Sign in with an access key")

    def test_people_get_keys_and_rights(self):
        browser = self.browser
        browser.click("People")
        browser.click("New user")
        browser.fill("Name", "alice")
        browser.click("Make user")
        browser.click("Groups")
        browser.click("New group")
        browser.fill("Name", "readers")
        browser.click("Make group")
        browser.click("Policies")
        browser.click("New policy")
        browser.fill("Name", "photos-read")
        self.assert_accessible("new policy")
        browser.click("Make policy")
        browser.sees("photos-read")
        self.picture("policies")
        self.assert_accessible("policies")
        browser.click("Groups")
        browser.sees("readers")
        self.picture("groups")
        self.assert_accessible("groups")
        browser.click("Users")
        browser.sees("alice")
        self.picture("users")
        self.assert_accessible("users")
        browser.click("alice")
        browser.click("New key")
        browser.sees("Shown once.")
        self.picture("new-key")
        self.assert_accessible("a new key")
        key, secret = browser.run("Array.from(document.querySelectorAll('.secret code'), (e) => e.innerText)")
        browser.click("Close")
        browser.wait(f"document.querySelectorAll('dialog[open]').length === 1 && document.body.innerText.includes({json.dumps(key)})")
        policy = "dialog section:nth-of-type(3)"
        browser.run(f"(() => {{ const s = document.querySelector('{policy} select'); s.value = 'arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess' }})()")
        browser.click("Add policy")
        browser.wait(f"document.querySelector('{policy} .tags')?.innerText.includes('AmazonS3ReadOnlyAccess')")
        browser.click("Add group")
        browser.wait("document.querySelector('dialog section:nth-of-type(2) .tags')?.innerText.includes('readers')")
        self.picture("user")
        self.assert_accessible("a user")
        mine = self.client(key, secret)
        self.assertIn("Buckets", mine.list_buckets())
        with self.assertRaises(mine.exceptions.ClientError):
            mine.create_bucket(Bucket="alices")
        mine.close()
        browser.press("Escape")
        browser.click("Accounts")
        browser.click("New account")
        browser.fill("Name", "acme")
        browser.click("Make account")
        browser.sees("Shown once.")
        browser.click("Close")
        browser.sees("acme")
        self.picture("accounts")
        self.assert_accessible("accounts")

    def test_temporary_credentials_are_made_and_good(self):
        browser = self.browser
        browser.click("Your access")
        self.assert_accessible("your access")
        self.picture("access")
        browser.click("Make credentials")
        browser.sees("Session token")
        self.picture("credentials")
        self.assert_accessible("credentials")
        key, secret, token = browser.run("Array.from(document.querySelectorAll('.secret code'), (e) => e.textContent)")
        mine = self.client(key, secret, token)
        self.assertIn("Buckets", mine.list_buckets())
        mine.close()

    def test_who_is_no_root_has_no_metrics_and_reads_what_he_is_refused(self):
        browser = self.browser
        browser.click("People")
        browser.click("New user")
        browser.fill("Name", "bob")
        browser.click("Make user")
        browser.click("bob")
        browser.click("New key")
        key, secret = browser.wait("document.querySelectorAll('.secret code').length === 2 && Array.from(document.querySelectorAll('.secret code'), (e) => e.innerText)")
        browser.click("Close")
        browser.press("Escape")
        browser.click("Sign out")
        browser.fill("Access key", key)
        browser.fill("Secret key", secret)
        browser.click("Sign in")
        browser.wait("Boolean(document.querySelector('.problem[role=alert]'))", "a refusal")
        self.assertEqual(browser.run("document.querySelectorAll('.frame nav li').length"), 3)
        browser.click("Sign out")


if __name__ == "__main__":
    main()
