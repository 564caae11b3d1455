"""A test case of the Python client: one server, the built package."""
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, os.environ.get("CLIENT_PYTHON") or str(HERE.parents[1] / "build" / "python"))

from verbena_server import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


class PythonCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.start()
        cls.keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
        cls.client = cls.connect()
        cls.client.make_bucket("bucket")

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__(None, None, None)

    @classmethod
    def connect(cls, **options):
        import verbena
        return verbena.connect(cls.server.http, native_endpoint=cls.server.native, **{**cls.keys, **options})
