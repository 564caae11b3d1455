#!/usr/bin/python3
"""The console in a browser: console_test.py served | built | browser [unittest's arguments]

served   how the page is served: its headers, where it is and where not, and that objects beside it run nothing
built    the files in src/admin/console are what ./dev console makes (skipped without npm's modules)
browser  Chromium signs in and works (skipped without chromium); with
         CONSOLE_PICTURES=docs/console it also takes the pictures of docs/console.md,
         CONSOLE_UPLOAD_BYTES=1073741824 uploads so much, CONSOLE_KEYS=1000000 scrolls through so many
"""
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import boto3

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
sys.path.insert(0, str(ROOT / "tests" / "console"))
from browser import Browser, chromium  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client  # noqa: E402

MODULES = pathlib.Path(os.environ.get("VERBENA_CACHE", pathlib.Path.home() / ".cache" / "verbena")) / "console" / "node_modules"
PICTURES = os.environ.get("CONSOLE_PICTURES")
UPLOAD_BYTES = int(os.environ.get("CONSOLE_UPLOAD_BYTES", 50_000_000))
KEYS = int(os.environ.get("CONSOLE_KEYS", 3500))
SKIPPED = 77
FILES = {"": "text/html", "console.js": "text/javascript", "console.css": "text/css", "mark.svg": "image/svg+xml"}

# Names that try to be something else: HTML, quotes, controls, directions, paths, references.
HOSTILE = ["<script>document.title='hit'</script>", "<img src=x onerror=\"window.hit=1\">", "\"><svg onload=window.hit=1>", "'quoted' \"twice\" `thrice`",
           "control\x01\x02\x1b[31mred", "tab\tand\nline", "&lt;b&gt;&amp;", "javascript:window.hit=1", "gpj.\u202eexe", "zero\u200bwidth",
           "100% %2e%2e %00?x=1#y", "back\\slash", "a+b c", "\u00fcml\u00e4ut \u65e5\u672c\u8a9e \U0001f338", "${window.hit=1}{{7*7}}",
           "folder <b>/inner </script>", "x" * 900]


def admin_of(server):
    """The admin listener's address."""
    return re.findall(r"admin=(http://[\d.]+:\d+)", pathlib.Path(server.log_path).read_text())[-1]


def ask(base, path, method="GET", headers=None):
    """(status, headers, body), redirects as they are."""
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
            status, headers, body = ask(self.admin, f"/-/console/{name}")
            self.assertEqual(status, 200, name)
            self.assertTrue(headers["content-type"].startswith(kind), headers)
            self.assertEqual(headers["content-encoding"], "gzip")
            self.assertEqual(body[:2], b"\x1f\x8b")
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


class InBrowser(unittest.TestCase):
    """The tests share a server and a browser, and each begins signed in at the first page."""

    @classmethod
    def setUpClass(cls):
        if not chromium():
            raise unittest.SkipTest("chromium is not there (./dev setup)")
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="verbena-console-"))
        cls.server = Server(directory=cls.home / "data")
        (cls.home / "data").mkdir()
        cls.server.start()
        cls.admin = admin_of(cls.server)
        cls.s3 = boto3_client(cls.server.http)
        cls.browser = Browser()

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
        """S3 as whoever these keys are."""
        return boto3.client("s3", endpoint_url=self.server.http, aws_access_key_id=key, aws_secret_access_key=secret, aws_session_token=token, region_name="us-east-1")

    def picture(self, name):
        if PICTURES:
            self.browser.picture(ROOT / PICTURES / f"{name}.png")

    def assert_accessible(self, what):
        """axe-core's findings that are serious or critical, in light and dark."""
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

    def test_a_bucket_is_made_filled_shared_from_and_deleted(self):
        browser = self.browser
        browser.click("Buckets")
        browser.click("New bucket")
        browser.fill("Name", "holiday")
        self.picture("new-bucket")
        self.assert_accessible("new bucket")
        browser.click("Make bucket")
        browser.click("holiday")
        browser.sees("Drop files or folders here")
        source = self.home / "film.bin"
        digest = hashlib.sha256()
        with open(source, "wb") as file:
            for at in range(0, UPLOAD_BYTES, 1_000_000):
                piece = os.urandom(min(1_000_000, UPLOAD_BYTES - at))
                digest.update(piece)
                file.write(piece)
        # Every picture of the bar that was painted: it must have gone up on the way.
        browser.run("window.seen = []; new MutationObserver(() => { const bar = document.querySelector('.tray progress'); if (bar) seen.push(bar.value) })"
                    ".observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true})")
        browser.give("input[type=file]", [source])
        browser.wait("seen.some((value) => value > 0)", "progress")
        self.picture("upload")
        browser.sees("Uploads are done", 600)
        seen = browser.run("seen")
        self.assertGreater(len({value for value in seen if 0 < value < UPLOAD_BYTES}), 0, "progress was shown on the way")
        browser.click("Close")
        body = self.s3.get_object(Bucket="holiday", Key="film.bin")
        self.assertEqual(body["ContentLength"], UPLOAD_BYTES)
        self.assertIn("-", body["ETag"], "it came in parts")
        stored = hashlib.sha256()
        for piece in body["Body"].iter_chunks(1 << 20):
            stored.update(piece)
        self.assertEqual(stored.hexdigest(), digest.hexdigest())
        browser.drop(".drop", {"notes.txt": "dropped"})
        browser.wait("Boolean(document.querySelector('[data-row=\"1\"]'))", "the dropped file")
        self.assertEqual(self.s3.get_object(Bucket="holiday", Key="notes.txt")["Body"].read(), b"dropped")
        self.s3.delete_object(Bucket="holiday", Key="notes.txt")
        browser.click("film.bin")
        browser.click("Share")
        url = browser.wait(f"{browser.field('Address')}.value", "an address")
        self.picture("share")
        got = hashlib.sha256()
        with urllib.request.urlopen(url, timeout=60) as reply:
            while piece := reply.read(1 << 20):
                got.update(piece)
        self.assertEqual(got.hexdigest(), digest.hexdigest())
        browser.press("Escape")
        browser.wait("document.querySelectorAll('dialog[open]').length === 1")
        browser.click("Delete")
        browser.wait("document.querySelectorAll('dialog[open]').length === 2")
        browser.click("Delete")
        browser.sees("Nothing here")
        self.assertEqual(self.s3.list_objects_v2(Bucket="holiday")["KeyCount"], 0)
        browser.click("Settings")
        browser.click("Delete bucket")
        browser.fill("Type its name", "holiday")
        browser.click("Delete bucket")
        browser.wait("location.hash === '#/buckets'")
        self.assertNotIn("holiday", [one["Name"] for one in self.s3.list_buckets()["Buckets"]])

    def test_hostile_names_are_text_and_nothing_else(self):
        browser = self.browser
        self.bucket("hostile")
        for key in HOSTILE:
            self.s3.put_object(Bucket="hostile", Key=key, Body=b"{\"<b>\": 1}", ContentType="application/json", Metadata={"note": "<i>x</i>"})
        self.go("#/buckets/hostile")
        browser.wait(f"document.querySelectorAll('.row').length === {len(HOSTILE) + 1}", "all rows")
        self.picture("hostile")
        elements = "['script', 'img', 'b', 'i', 'svg[onload]', '[onerror]'].map((s) => document.querySelectorAll('main ' + s + ', dialog ' + s).length).join()"
        self.assertEqual(browser.run(elements), "0,0,0,0,0,0")
        browser.sees("<script>document.title='hit'<")
        browser.sees("control\u2401\u2402\u241b[31mred")
        self.assertNotIn("\u202e", browser.run("document.body.innerText"))
        self.assert_accessible("objects")
        for row in range(len(HOSTILE)):
            folder = browser.run(f"document.querySelector('[data-row=\"{row}\"]').tagName === 'A'")
            browser.run(f"document.querySelector('[data-row=\"{row}\"]').click()")
            if not folder:
                browser.wait("Boolean(document.querySelector('pre.text'))", f"the preview of row {row}")
                browser.click("Details")
                browser.sees("<i>x</i>")
                browser.click("Tags")
                self.assertEqual(browser.run(elements), "0,0,0,0,0,0")
                browser.press("Escape")
                browser.wait("!document.querySelector('dialog[open]')")
            else:
                browser.wait("location.hash.includes('prefix=') && document.querySelectorAll('.row').length === 2", "what is in the folder")
                self.assertEqual(browser.run(elements), "0,0,0,0,0,0")
                browser.run("history.back()")
                browser.wait(f"document.querySelectorAll('.row').length === {len(HOSTILE) + 1}", "all rows again")
        self.assertEqual(browser.run("[document.title, window.hit].join()"), "Buckets \u2013 Verbena,")
        # All of them go again by the console.
        for row in range(len(HOSTILE)):
            browser.run(f"document.querySelectorAll('.rows .pick input')[{row}]?.click()")
        folders = sum("/" in key for key in HOSTILE)
        browser.click(f"Delete {len(HOSTILE) - folders}")
        browser.wait("Boolean(document.querySelector('dialog[open]'))")
        browser.click("Delete")
        browser.wait(f"document.querySelectorAll('.row').length === {folders + 1}", "only the folders are left")

    def test_a_page_in_a_bucket_has_no_hand_on_the_console(self):
        browser = self.browser
        self.bucket("pages")
        self.s3.put_object(Bucket="pages", Key="evil.html", ContentType="text/html", ACL="public-read",
                           Body=b"<title>quiet</title><script>document.title = 'it ran'</script><p>shown")
        browser.open(self.admin + "/pages/evil.html")
        browser.sees("shown")
        self.assertEqual(browser.run("document.title"), "quiet")
        self.assertEqual(browser.run("window.origin"), "null")
        self.assertTrue(any("sandboxed" in one or "Content Security Policy" in one for one in browser.complaints()))

    def test_many_keys_come_as_one_scrolls_and_few_rows_are_there(self):
        browser = self.browser
        self.bucket("many")
        for n in range(KEYS):
            self.s3.put_object(Bucket="many", Key=f"key-{n:07}", Body=b"")
        self.go("#/buckets/many")
        browser.sees("and more")
        self.assertEqual(browser.run("document.querySelectorAll('.row .name').length < 80"), True)
        browser.run("document.querySelector('.row .name').focus()")
        browser.press("ArrowDown")
        browser.wait("document.activeElement?.innerText.trim() === 'key-0000001'", "the next row, under the keyboard")
        browser.wait(f"(document.querySelector('.rows').scrollTop = 1e9, document.querySelector('.count').innerText.startsWith('{KEYS:,} entries') && "
                     f"Array.from(document.querySelectorAll('.row .name'), (e) => e.innerText.trim()).includes('key-{KEYS - 1:07}'))", "the last key", 600)
        self.assertEqual(browser.run("document.querySelectorAll('.row .name').length < 80"), True)
        browser.fill("Names that begin with", "key-00009")
        browser.press("Enter")
        browser.sees("100 entries")

    def test_what_is_in_an_object_is_shown(self):
        browser = self.browser
        self.bucket("look", ObjectLockEnabledForBucket=True)
        png = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082")
        self.s3.put_object(Bucket="look", Key="dot.png", Body=png, ContentType="image/png")
        self.s3.put_object(Bucket="look", Key="data.json", Body=b'{"rows":[1,2]}', ContentType="application/json", Tagging="team=blue")
        self.s3.put_object(Bucket="look", Key="data.json", Body=b'{"rows":[1,2,3]}', ContentType="application/json", Tagging="team=blue")
        self.s3.put_object(Bucket="look", Key="table.parquet", Body=parquet_file())
        self.s3.put_object(Bucket="look", Key="broken.parquet", Body=b"PAR1" + b"\xff" * 40 + (30).to_bytes(4, "little") + b"PAR1")
        self.go("#/buckets/look")
        browser.click("dot.png")
        browser.wait("document.querySelector('img.picture')?.naturalWidth === 1", "the picture")
        browser.press("Escape")
        browser.click("table.parquet")
        browser.sees("2 columns")
        browser.sees("temperature")
        browser.press("Escape")
        browser.click("broken.parquet")
        browser.sees("Parquet footer")
        browser.press("Escape")
        browser.click("data.json")
        browser.wait("document.querySelector('pre.text')?.innerText.includes('\"rows\": [')", "indented JSON")
        self.picture("object")
        self.assert_accessible("an object")
        browser.click("Tags")
        browser.sees("team")
        browser.fill("Key", "stage")
        browser.fill("Value", "test + go")
        browser.click("Set tag")
        browser.sees("test + go")
        self.assertEqual(self.s3.get_object_tagging(Bucket="look", Key="data.json")["TagSet"], [{"Key": "stage", "Value": "test + go"}, {"Key": "team", "Value": "blue"}])
        browser.click("Versions")
        browser.wait("document.querySelectorAll('dialog tbody tr').length === 2", "two versions")
        self.picture("versions")
        self.assert_accessible("versions")
        browser.run("document.querySelectorAll('dialog [aria-label=\"Delete this version for good\"]')[1].click()")
        # The object's own window has a "Delete", too: this one is of the window that asks.
        browser.wait("document.querySelectorAll('dialog[open]').length === 2", "the question")
        browser.click("Delete")
        browser.wait("document.querySelectorAll('dialog tbody tr').length === 1", "one version")
        self.assertEqual(len(self.s3.list_object_versions(Bucket="look", Prefix="data.json")["Versions"]), 1)
        browser.click("Lock")
        browser.wait(f"Boolean({browser.field('Legal hold')})")
        self.assert_accessible("lock")
        browser.run(f"{browser.field('Legal hold')}.click()")
        browser.click("Save")
        browser.wait("document.getElementById('announcer').textContent === 'Saved'")
        self.assertEqual(self.s3.get_object_legal_hold(Bucket="look", Key="data.json")["LegalHold"]["Status"], "ON")
        self.s3.put_object_legal_hold(Bucket="look", Key="data.json", LegalHold={"Status": "OFF"})

    def test_settings_are_edited_and_mistakes_are_shown_at_their_place(self):
        browser = self.browser
        self.bucket("rules")
        self.go("#/buckets/rules/settings")
        browser.choose("Writes are acknowledged", "memory")
        browser.wait("document.querySelector('.badge').innerText === 'memory'")
        self.assertEqual(self.s3.head_bucket(Bucket="rules")["ResponseMetadata"]["HTTPHeaders"]["x-verbena-durability"], "memory")
        browser.choose("Old versions", "Enabled")
        browser.wait("document.getElementById('announcer').textContent === 'Versions: Enabled'")
        self.assertEqual(self.s3.get_bucket_versioning(Bucket="rules")["Status"], "Enabled")
        browser.fill("The bucket's policy", '{\n  "Version": "2012-10-17",\n  "Statement": [,]\n}')
        browser.sees("line 3, column 17")
        browser.fill("The bucket's policy", '{\n  "Version": "2012-10-17",\n  "Statement": [{"Effect": "Allow", "Principal": "*",\n    "Action": "s3:NoSuchThing", "Resource": "arn:aws:s3:::rules/*"}]\n}')
        save = f"{browser.field('''The bucket's policy''')}.closest('section').querySelector('.button.main')"
        browser.wait(f"!{save}.disabled")
        browser.run(f"{save}.click()")
        browser.wait("Boolean(document.querySelector('.problem[role=alert]'))", "the server's refusal")
        self.picture("policy-error")
        browser.fill("The bucket's policy", json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
                                                                                              "Resource": "arn:aws:s3:::rules/*"}]}))
        browser.run(f"{save}.click()")
        browser.wait("document.getElementById('announcer').textContent === 'Saved'")
        self.assertIn("s3:GetObject", self.s3.get_bucket_policy(Bucket="rules")["Policy"])
        for what, read in (("lifecycle", lambda: self.s3.get_bucket_lifecycle_configuration(Bucket="rules")["Rules"]),
                           ("cors", lambda: self.s3.get_bucket_cors(Bucket="rules")["CORSRules"])):
            section = f"{browser.field(f'''The bucket's {what}''')}.closest('section')"
            browser.wait(f"Boolean({section})")
            browser.run("document.getElementById('announcer').textContent = ''")
            browser.run(f"Array.from({section}.querySelectorAll('button')).find((b) => b.innerText === 'Begin with an example').click()")
            browser.wait(f"!{section}.querySelector('.button.main').disabled")
            browser.run(f"{section}.querySelector('.button.main').click()")
            browser.wait("document.getElementById('announcer').textContent === 'Saved'", f"{what} saved")
            self.assertEqual(len(read()), 1)
        browser.run("scrollTo(0, 0); document.querySelector('main').scrollTop = 0")
        self.picture("settings")
        self.assert_accessible("settings")

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
        self.assert_accessible("policies")
        browser.click("Users")
        browser.click("alice")
        browser.click("New key")
        browser.sees("Shown once.")
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
        key, secret, token = browser.run("Array.from(document.querySelectorAll('.secret code'), (e) => e.textContent)")
        mine = self.client(key, secret, token)
        self.assertIn("Buckets", mine.list_buckets())
        mine.close()

    def test_the_doors_are_told_live(self):
        browser = self.browser
        self.bucket("busy")
        body = os.urandom(3_000_000)
        self.s3.put_object(Bucket="busy", Key="one", Body=body)
        self.s3.get_object(Bucket="busy", Key="one")["Body"].read()
        program = os.environ.get("VERBENA") or str(ROOT / "build" / "verbena")
        env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, AWS_ENDPOINT_URL=self.server.http, HOME=str(self.home))
        for _ in range(4):
            subprocess.run([program, "get", "s3://busy/one", self.home / "one", "--via", "native", "--native", self.server.native], env=env, check=True, timeout=60,
                           stdin=subprocess.DEVNULL, capture_output=True)
        browser.click("Live")
        browser.wait("Array.from(document.querySelectorAll('.hero tbody tr td:nth-child(3)')).every((e) => e.innerText !== '–')", "rates")
        share = browser.wait("parseFloat(document.querySelector('.hero b')?.innerText)", "a share above nothing")
        self.assertLess(share, 100)
        browser.sees("busy")
        self.picture("live")
        self.assert_accessible("live")
        browser.dark(True)
        self.picture("live-dark")

    def test_the_server_tells_of_itself_its_sessions_events_and_log(self):
        browser = self.browser
        self.bucket("held")
        program = os.environ.get("VERBENA") or str(ROOT / "build" / "verbena")
        env = dict(os.environ, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY, AWS_ENDPOINT_URL=self.server.http, HOME=str(self.home))
        # An upload whose bytes do not come holds its session.
        holder = subprocess.Popen([program, "put", "-", "s3://held/one", "--via", "native", "--native", self.server.native], env=env, stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            browser.click("Server")
            browser.sees("What it is")
            browser.sees("process")
            self.picture("server")
            self.assert_accessible("server")
            holder.stdin.write(b"x" * 20_000_000)
            holder.stdin.flush()
            browser.click("Sessions")
            browser.wait("document.querySelectorAll('main tbody tr').length > 0 || (Array.from(document.querySelectorAll('main button')).find((b) => b.title === 'Load again').click(), false)",
                         "the session that is held", 60)
            self.assertIn("local", browser.run("document.querySelector('main tbody').innerText"))
            self.picture("sessions")
            self.assert_accessible("sessions")
            browser.run("document.querySelector('main tbody .acts button').click()")
            browser.wait("Boolean(document.querySelector('dialog[open]'))", "the question")
            browser.click("End session")
            browser.wait("document.getElementById('announcer').textContent.endsWith('is ended')")
        finally:
            holder.kill()
            holder.wait()
            holder.stdin.close()
        browser.click("Events")
        browser.sees("No targets")
        self.assert_accessible("events")
        browser.click("Log")
        browser.sees("session opened")
        browser.fill("That say", "ended by an operator")
        browser.wait("document.querySelectorAll('main tbody tr').length === 1", "the one line")
        self.picture("log")
        self.assert_accessible("log")

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


def parquet_file():
    """The smallest footer with two columns, in Thrift's compact protocol."""
    def text(value):
        return bytes([len(value)]) + value.encode()

    def element(name, kind=None, children=None):
        out, last = b"", 0
        fields = ([(1, 5, bytes([kind * 2]))] if kind is not None else []) + [(4, 8, text(name))] + ([(5, 5, bytes([children * 2]))] if children else [])
        for number, form, value in fields:
            out += bytes([(number - last) << 4 | form]) + value
            last = number
        return out + b"\0"

    schema = element("schema", children=2) + element("city", kind=6) + element("temperature", kind=5)
    footer = b"\x15\x02" + b"\x19\x3c" + schema + b"\x16\x0e" + b"\0"
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


if __name__ == "__main__":
    part = {"served": Served, "built": Built, "browser": InBrowser}[sys.argv[1]]
    if PICTURES and part is InBrowser:
        (ROOT / PICTURES).mkdir(parents=True, exist_ok=True)
    suite = unittest.TestLoader().loadTestsFromTestCase(part)
    wanted = sys.argv[2:]
    if wanted:
        suite = unittest.TestSuite(test for test in suite if any(word in test.id() for word in wanted))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and len(result.skipped) >= result.testsRun else 0)
