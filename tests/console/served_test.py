#!/usr/bin/python3
"""How the console is served: its headers and paths; objects beside it cannot run scripts; its files equal the output
of ./dev console (skipped without npm's modules)."""
import gzip
import http.client
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from console_case import MODULES, ROOT, admin_of, main
from verbena_server import Server, boto3_client

FILES = {"": "text/html", "console.js": "text/javascript", "console.css": "text/css", "mark.svg": "image/svg+xml"}


def ask(base, path, method="GET", headers=None):
    """(status, headers, body), without following redirects."""
    connection = http.client.HTTPConnection(base.split("//")[1], timeout=30)
    connection.request(method, path, headers=headers or {})
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, {name.lower(): value for name, value in reply.getheaders()}, body


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(memory=True).start()
        cls.admin = admin_of(cls.server)
        cls.open = Server(memory=True, args=["--set", "admin.console=true"]).start()
        for server in (cls.server, cls.open):
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="public")
            s3.put_object(Bucket="public", Key="page.html", Body=b"<script>1</script>", ContentType="text/html", ACL="public-read")
            s3.close()

    @classmethod
    def tearDownClass(cls):
        for server in (cls.server, cls.open):
            server.stop()
            os.unlink(server.log_path)
            shutil.rmtree(server.directory, ignore_errors=True)

    def test_each_file_is_there_packed_and_under_the_policy(self):
        for name, kind in FILES.items():
            status, headers, body = ask(self.admin, f"/-/console/{name}", headers={"Accept-Encoding": "gzip"})
            self.assertEqual(status, 200, name)
            self.assertTrue(headers["content-type"].startswith(kind), headers)
            self.assertEqual(headers["content-encoding"], "gzip")
            self.assertEqual(gzip.decompress(body), ask(self.admin, f"/-/console/{name}")[2])
            policy = headers["content-security-policy"]
            for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "form-action 'none'"):
                self.assertIn(rule, policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(headers["x-content-type-options"], "nosniff")
            self.assertEqual(headers["cross-origin-opener-policy"], "same-origin")
            self.assertEqual(headers["x-frame-options"], "DENY")
            self.assertNotIn("set-cookie", headers)

    def test_a_file_that_has_not_changed_is_not_sent_again(self):
        etag = ask(self.admin, "/-/console/console.js")[1]["etag"]
        status, headers, body = ask(self.admin, "/-/console/console.js", headers={"If-None-Match": etag})
        self.assertEqual((status, body), (304, b""))
        self.assertIn("content-security-policy", headers)
        self.assertEqual(ask(self.admin, "/-/console/console.js", headers={"If-None-Match": '"other"'})[0], 200)

    def test_a_head_has_no_body_and_other_names_are_not_there(self):
        status, headers, body = ask(self.admin, "/-/console/", "HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["content-length"]), 100)
        for path in ("/-/console/nothing", "/-/console/../../etc/passwd", "/-/console/%2e%2e/x"):
            self.assertEqual(ask(self.admin, path)[0], 404, path)
        self.assertGreaterEqual(ask(self.admin, "/-/console/", "POST")[0], 400)

    def test_browsers_find_the_page_by_itself(self):
        for base, path in ((self.admin, "/"), (self.admin, "/-/console"), (self.open.http, "/console"), (self.open.http, "/-/console")):
            status, headers, _ = ask(base, path, headers={"Accept": "text/html,*/*"})
            self.assertEqual((status, headers.get("location")), (307, "/-/console/"), path)

    def test_the_s3_door_has_it_only_where_that_was_said(self):
        self.assertNotEqual(ask(self.server.http, "/-/console/")[0], 200)
        self.assertEqual(ask(self.open.http, "/-/console/")[0], 200)
        self.assertEqual(ask(self.server.http, "/console", headers={"Accept": "text/html"})[0], 404)

    def test_a_bucket_called_console_stays_a_bucket(self):
        s3 = boto3_client(self.open.http)
        s3.create_bucket(Bucket="console")
        s3.put_object(Bucket="console", Key="key", Body=b"here")
        self.assertEqual([one["Key"] for one in s3.list_objects_v2(Bucket="console")["Contents"]], ["key"])
        self.assertEqual(s3.get_object(Bucket="console", Key="key")["Body"].read(), b"here")
        s3.close()

    def test_an_object_beside_the_console_runs_nothing(self):
        for base in (self.admin, self.open.http):
            status, headers, body = ask(base, "/public/page.html")
            self.assertEqual((status, body), (200, b"<script>1</script>"))
            self.assertEqual(headers["content-security-policy"], "sandbox; default-src 'none'")
            self.assertEqual(headers["x-content-type-options"], "nosniff")
            self.assertIn("sandbox", ask(base, "/public/missing")[1]["content-security-policy"])
        self.assertNotIn("content-security-policy", ask(self.server.http, "/public/page.html")[1])

    def test_metrics_at_the_s3_door_want_a_signature_behind_a_proxy_too(self):
        self.assertEqual(ask(self.admin, "/-/metrics")[0], 200)
        self.assertEqual(ask(self.open.http, "/-/metrics")[0], 403)
        self.assertEqual(ask(self.open.http, "/-/health")[0], 200)

    def test_s3_is_there_for_the_page_and_asks_for_signatures(self):
        self.assertEqual(ask(self.admin, "/public?list-type=2")[0], 403)
        s3 = boto3_client(self.admin)
        self.assertEqual([one["Name"] for one in s3.list_buckets()["Buckets"]], ["public"])
        s3.close()


class Built(unittest.TestCase):
    def setUp(self):
        if not (MODULES / "esbuild").is_dir() or not shutil.which("node"):
            self.skipTest("npm's modules are not there (./dev setup)")

    def test_the_files_are_what_dev_console_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["node", ROOT / "console" / "build.mjs", folder], env=dict(os.environ, CONSOLE_MODULES=str(MODULES)), check=True, timeout=120)
            made = {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
        kept = {path.name: path.read_bytes() for path in (ROOT / "src" / "admin" / "console").iterdir()}
        self.assertEqual(sorted(made), sorted(kept))
        for name in made:
            self.assertTrue(made[name] == kept[name], f"{name} differs: run ./dev console")


if __name__ == "__main__":
    main()
