"""A test case of the command line: a server, and the program in an environment and a home of its own."""
import contextlib
import os
import pathlib
import subprocess
import tempfile
import unittest

from verbena_server import Server, client_environment, program

OK, FAILURE, USAGE, NOT_FOUND, DENIED, CONNECTION, CONFLICT = range(7)


class CommandLineCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="verbena-cli-")
        cls.home = pathlib.Path(cls.folder.name)
        cls.server = Server().start()
        cls.env = dict(client_environment(cls.home), AWS_ENDPOINT_URL=cls.server.http)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        cls.server.__exit__(ValueError, None, None)  # removes the folder
        cls.folder.cleanup()
        assert status == 0, status

    def run_program(self, *args, expect=OK, env=None, input=None, native=True, stdout=subprocess.PIPE, under=()):
        more = ["--native", self.server.native] if native else []
        done = subprocess.run([*under, program(), *args, *more], env=env or self.env, input=input, stdout=stdout, stderr=subprocess.PIPE,
                              timeout=120, stdin=subprocess.DEVNULL if input is None else None)
        self.assertEqual(done.returncode, expect, f"{args}\n{done.stdout!r}\n{done.stderr.decode()}")
        return done

    def on_terminal(self, *args, stream, check=False):
        """What the program writes to a terminal, which is its `stream`: stdout or stderr."""
        seen, end = os.openpty()
        try:
            subprocess.run([program(), *args, "--native", self.server.native], env=self.env, timeout=60, check=check,
                           **{"stdout": subprocess.DEVNULL if stream == "stderr" else None, stream: end})
        finally:
            os.close(end)
        text = b""
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while more := os.read(seen, 65536):
                text += more
        os.close(seen)
        return text

    def bucket(self, name):
        self.run_program("mb", f"s3://{name}")
        return f"s3://{name}"
