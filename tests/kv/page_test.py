#!/usr/bin/python3
"""docs/kv.md from top to bottom: its pieces of Python are one program, and what it prints is what the page says."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

import kv_case

import verbena  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "kv.md"


class Page(unittest.TestCase):
    def test_it_is_true_from_top_to_bottom(self):
        text = "".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
        wanted = re.findall(r"print\(.*\) +# (.*)", text)
        self.assertGreaterEqual(len(wanted), 5)
        with kv_case.CacheServer() as server:
            keys = {"access_key": kv_case.ACCESS_KEY, "secret_key": kv_case.SECRET_KEY}
            with verbena.connect(server.http, native_endpoint=server.native, **keys) as client:
                client.make_bucket("blocks")
            text = re.sub(r"verbena\.connect\(.*\)", f"verbena.connect({server.http!r}, native_endpoint={server.native!r}, **{keys!r})", text)
            path = os.pathsep.join(sys.path)
            done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = done.stdout.splitlines()
        for line in wanted:
            self.assertIn(line, said)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
