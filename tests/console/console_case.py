"""Shared by the console's tests: a server, Chromium signed in on its page, axe-core and screenshots.

CONSOLE_PICTURES=docs/console also takes the pictures of docs/console.md."""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import boto3

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from browser import Browser, chromium  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client  # noqa: E402

MODULES = pathlib.Path(os.environ.get("VERBENA_CACHE", pathlib.Path.home() / ".cache" / "verbena")) / "console" / "node_modules"
PICTURES = os.environ.get("CONSOLE_PICTURES")
SKIPPED = 77


def admin_of(server):
    """The admin listener's address."""
    return re.findall(r"admin=(http://[\d.]+:\d+)", pathlib.Path(server.log_path).read_text())[-1]


class InBrowser(unittest.TestCase):
    """The tests share a server and a browser; each begins signed in on the first page."""

    trusts = ()  # Browser's

    @classmethod
    def server_args(cls, home):
        return ()

    @classmethod
    def setUpClass(cls):
        if not chromium():
            raise unittest.SkipTest("chromium is not there (./dev setup)")
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="verbena-console-"))
        cls.server = Server(directory=cls.home / "data", args=cls.server_args(cls.home))
        (cls.home / "data").mkdir()
        cls.server.start()
        cls.admin = admin_of(cls.server)
        cls.s3 = boto3_client(cls.server.http)
        cls.browser = Browser(trusts=cls.trusts)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.s3.close()
        cls.server.stop()
        shutil.rmtree(cls.home, ignore_errors=True)

    def setUp(self):
        self.browser.dark(False)
        self.browser.open("about:blank")
        self.browser.open(self.admin + "/")
        self.sign_in()

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def sign_in(self, secret=SECRET_KEY):
        self.browser.fill("Access key", ACCESS_KEY)
        self.browser.fill("Secret key", secret)
        self.browser.click("Sign in")
        if secret == SECRET_KEY:
            self.browser.wait("Boolean(document.querySelector('.frame'))", "the console")

    def go(self, place):
        self.browser.run(f"location.hash = {json.dumps(place)}")

    def bucket(self, name, **more):
        self.s3.create_bucket(Bucket=name, **more)
        return name

    def client(self, key, secret, token=None):
        """An S3 client with these keys."""
        return boto3.client("s3", endpoint_url=self.server.http, aws_access_key_id=key, aws_secret_access_key=secret, aws_session_token=token, region_name="us-east-1")

    def tell(self, text):
        """Prints a figure, for runs by hand."""
        print(text, file=sys.stderr, flush=True)

    def picture(self, name):
        if PICTURES:
            self.browser.picture(ROOT / PICTURES / f"{name}.png")

    def assert_accessible(self, what):
        """No serious or critical finding of axe-core, in light and dark."""
        source = MODULES / "axe-core" / "axe.min.js"
        if not source.is_file():
            return
        for dark in (False, True):
            self.browser.dark(dark)
            self.browser.run(source.read_text() + "; 1")
            found = self.browser.run("axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.filter((v) => ['serious', 'critical'].includes(v.impact))"
                                     ".map((v) => v.id + ': ' + v.nodes.map((n) => n.html.slice(0, 160) + ' ' + (n.failureSummary || '')).slice(0, 3).join(' | ')))")
            self.assertEqual(found, [], f"{what}, {'dark' if dark else 'light'}")
        self.browser.dark(False)


def main():
    """Runs the tests of the program's file; with arguments only those with one of them in their names."""
    if PICTURES:
        (ROOT / PICTURES).mkdir(parents=True, exist_ok=True)
    suite = unittest.TestLoader().loadTestsFromModule(sys.modules["__main__"])
    tests = [test for case in suite for test in case]
    wanted = sys.argv[1:]
    chosen = unittest.TestSuite(test for test in tests if not wanted or any(word in test.id() for word in wanted))
    result = unittest.TextTestRunner(verbosity=2).run(chosen)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and len(result.skipped) >= result.testsRun else 0)
