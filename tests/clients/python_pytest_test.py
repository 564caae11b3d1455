#!/usr/bin/python3
"""The pytest plugin in a project: a server if a test needs one, none otherwise, and a clear error when it cannot
start."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from python_case import skip
from verbena_server import program

try:
    import pytest  # noqa: F401
except ImportError:
    skip("no pytest")
PACKAGE = os.environ.get("CLIENT_PYTHON") or str(pathlib.Path(__file__).resolve().parents[2] / "build" / "python")

USES = """
import pathlib

def test_boto3_and_the_own_client_see_the_same(pytest_verbena, verbena_bucket):
    import boto3
    boto3.client("s3", **pytest_verbena.boto3).put_object(Bucket=verbena_bucket, Key="k", Body=b"by boto3")
    with pytest_verbena.connect() as client:
        got = client.get(verbena_bucket, "k")
        assert (bytes(got), got.reply.door) == (b"by boto3", "native")

def test_each_test_has_a_bucket_of_its_own(pytest_verbena, verbena_bucket):
    with pytest_verbena.connect() as client:
        assert list(client.list(verbena_bucket)) == []
        assert bytes(client.get("photos", "a/b.txt")) == b"from the seed"
        assert pytest_verbena.region == "eu-test-1"

def test_programs_find_it_by_its_environment(pytest_verbena, verbena_bucket):
    import os, subprocess
    env = {"PATH": os.environ["PATH"], **pytest_verbena.environment}
    listed = subprocess.run([os.environ["VERBENA"], "ls"], env=env, check=True, capture_output=True, text=True).stdout
    assert "s3://photos" in listed and verbena_bucket in listed

def test_its_secret_is_in_no_traceback(pytest_verbena):
    assert pytest_verbena.secret_key not in repr(pytest_verbena)
    pathlib.Path("pid").write_text(str(pytest_verbena.pid))
"""
SETTINGS = "[pytest]\nverbena_flags = --seed seed --region eu-test-1\n"


class Plugin(unittest.TestCase):
    def pytest(self, test, *flags, settings="[pytest]\n", expect=0):
        folder = tempfile.TemporaryDirectory(prefix="verbena-pytest-")
        self.addCleanup(folder.cleanup)
        self.base = pathlib.Path(folder.name)
        (self.base / "seed/photos/a").mkdir(parents=True)
        (self.base / "seed/photos/a/b.txt").write_text("from the seed")
        (self.base / "pytest.ini").write_text(settings)
        (self.base / "test_it.py").write_text(test)
        # The machine's settings do not reach the test server, which would refuse this one.
        env = {**os.environ, "PYTHONPATH": PACKAGE, "VERBENA": program(), "VERBENA_REGION": "not-this-one"}
        done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_verbena", *flags], cwd=self.base, env=env,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout

    def test_a_server_for_those_who_ask_and_gone_afterwards(self):
        said = self.pytest(USES, "-o", f"verbena_program={program()}", settings=SETTINGS)
        self.assertIn("4 passed", said)
        self.assertFalse(pathlib.Path("/proc", (self.base / "pid").read_text()).exists())

    def test_nobody_asks_and_nothing_is_loaded(self):
        self.pytest("import sys\ndef test_nothing():\n    assert 'verbena' not in sys.modules\n", "-o", "verbena_program=/nonexistent")

    def test_no_program_is_said_in_one_line(self):
        said = self.pytest("def test_it(pytest_verbena):\n    pass\n", settings="[pytest]\nverbena_program = /nonexistent/verbena\n", expect=1)
        self.assertIn("pytest_verbena: no program /nonexistent/verbena", said)
        self.assertNotIn("Traceback", said)

    def test_a_server_that_cannot_start_says_why(self):
        said = self.pytest("def test_it(pytest_verbena):\n    pass\n", "-o", f"verbena_program={program()}",
                           settings="[pytest]\nverbena_flags = --seed nothing-there\n", expect=1)
        self.assertIn("nothing-there", said)
        self.assertIn("the server did not start", said)


unittest.main(verbosity=2)
