#!/usr/bin/python3
"""Buckets and objects in the console: upload, sharing, previews, listings of any length, names of all kinds.

CONSOLE_UPLOAD_BYTES=1073741824 sets the size of the upload, CONSOLE_KEYS=1000000 the number of listed keys."""
import hashlib
import json
import os
import socket
import threading
import time
import urllib.parse
import urllib.request
import zlib

from browser import peak_of
from console_case import InBrowser, main

UPLOAD_BYTES = int(os.environ.get("CONSOLE_UPLOAD_BYTES", 50_000_000))
KEYS = int(os.environ.get("CONSOLE_KEYS", 3500))
# Names that resemble markup: HTML, quotes, controls, directions, paths, references.
HOSTILE = ["<script>document.title='hit'</script>", "<img src=x onerror=\"window.hit=1\">", "\"><svg onload=window.hit=1>", "'quoted' \"twice\" `thrice`",
           "control\x01\x02\x1b[31mred", "tab\tand\nline", "&lt;b&gt;&amp;", "javascript:window.hit=1", "gpj.\u202eexe", "zero\u200bwidth",
           "100% %2e%2e %00?x=1#y", "back\\slash", "a+b c", "\u00fcml\u00e4ut \u65e5\u672c\u8a9e \U0001f338", "${window.hit=1}{{7*7}}",
           "folder <b>/inner </script>", "x" * 900]


class Objects(InBrowser):
    def test_a_bucket_is_made_filled_shared_from_and_deleted(self):
        browser = self.browser
        browser.click("Buckets")
        self.assert_accessible("buckets")
        browser.click("New bucket")
        browser.fill("Name", "holiday")
        self.picture("new-bucket")
        self.assert_accessible("new bucket")
        browser.click("Make bucket")
        browser.sees("holiday")
        self.picture("buckets")
        browser.click("holiday")
        browser.sees("Drop files or folders here")
        source = self.home / "film.bin"
        digest = hashlib.sha256()
        with open(source, "wb") as file:
            for at in range(0, UPLOAD_BYTES, 1_000_000):
                piece = os.urandom(min(1_000_000, UPLOAD_BYTES - at))
                digest.update(piece)
                file.write(piece)
        # Records every painted state of the bar: it must have risen step by step.
        browser.run("window.seen = []; new MutationObserver(() => { const bar = document.querySelector('.tray progress'); if (bar) seen.push(bar.value) })"
                    ".observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true})")
        browser.slow_uploads(50e6)  # on a fast loopback it may be over before the bar is painted
        memory, began = browser.watch_memory(), time.monotonic()
        browser.give("input[type=file]", [source])
        browser.wait("seen.some((value) => value > 0)", "progress")
        browser.slow_uploads(0)
        self.picture("upload")
        browser.sees("Uploads are done", 600)
        grown = memory()
        self.tell(f"uploaded {UPLOAD_BYTES / 1e6:.0f} MB in {time.monotonic() - began:.1f} s; the page took {grown / 1e6:.0f} MB of memory more for it, "
                  f"the server has had {peak_of(self.server.process.pid) / 1e6:.0f} MB at most")
        self.assertLess(grown, 200e6, "an upload is held in memory")
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
        # The console deletes all of them.
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

    def make_keys(self, bucket, count):
        """Empty objects by raw requests, many in flight: a client library takes a second for a thousand."""
        everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
        self.s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [everybody]}))
        address = urllib.parse.urlsplit(self.server.http)
        done = []

        def make(first, step):
            with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
                answers = connection.makefile("rb")
                numbers = range(first, count, step)
                for at in range(0, len(numbers), 100):
                    some = numbers[at:at + 100]
                    connection.sendall(b"".join(b"PUT /%b/key-%07d HTTP/1.1\r\nHost: %b\r\nContent-Length: 0\r\n\r\n" % (bucket.encode(), n, address.netloc.encode()) for n in some))
                    for _ in some:
                        assert answers.readline().startswith(b"HTTP/1.1 200"), "a key was not made"
                        while answers.readline() != b"\r\n":
                            pass
                done.append(len(numbers))
        threads = [threading.Thread(target=make, args=(first, 8)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(done), count)

    def test_many_keys_come_as_one_scrolls_and_few_rows_are_there(self):
        browser = self.browser
        quick = lambda request, **_: request.headers.add_header("x-verbena-durability", "memory")
        self.s3.meta.events.register("before-sign.s3.CreateBucket", quick)
        self.bucket("many")
        self.s3.meta.events.unregister("before-sign.s3.CreateBucket", quick)
        began = time.monotonic()
        self.make_keys("many", KEYS)
        made, memory = time.monotonic(), browser.watch_memory()
        self.go("#/buckets/many")
        browser.sees("and more")
        self.assertEqual(browser.run("document.querySelectorAll('.row .name').length < 80"), True)
        browser.run("document.querySelector('.row .name').focus()")
        browser.press("ArrowDown")
        browser.wait("document.activeElement?.innerText.trim() === 'key-0000001'", "the next row, under the keyboard")
        browser.wait(f"(document.querySelector('.rows').scrollTop = 1e9, document.querySelector('.count').innerText.startsWith('{KEYS:,} entries') && "
                     f"Array.from(document.querySelectorAll('.row .name'), (e) => e.innerText.trim()).includes('key-{KEYS - 1:07}'))", "the last key", 600)
        self.assertEqual(browser.run("document.querySelectorAll('.row .name').length < 80"), True)
        grown = memory()
        self.tell(f"{KEYS:,} keys made in {made - began:.1f} s, scrolled through in {time.monotonic() - made:.1f} s; the page took {grown / 1e6:.0f} MB of memory more, "
                  f"the server has had {peak_of(self.server.process.pid) / 1e6:.0f} MB at most")
        self.assertLess(grown, 200e6, "a listing is held in memory")
        # Dropped pages are loaded again.
        for at, key in ((0, 0), (0.5, None), (1, KEYS - 1)):
            browser.run(f"(() => {{ const rows = document.querySelector('.rows'); rows.scrollTop = rows.scrollHeight * {at} }})()")
            browser.wait("document.querySelectorAll('.row.missing').length === 0 && document.querySelectorAll('.row .name').length > 5", "rows again")
            if key is not None:
                browser.sees(f"key-{key:07}")
        browser.fill("Names that begin with", "key-00009")
        browser.press("Enter")
        browser.sees("100 entries")

    def test_what_is_in_an_object_is_shown(self):
        browser = self.browser
        self.bucket("look", ObjectLockEnabledForBucket=True)
        self.s3.put_object(Bucket="look", Key="flower.png", Body=png_file(64), ContentType="image/png")
        self.s3.put_object(Bucket="look", Key="notes.txt", Body=b"To do\n- water the verbena\n- <b>nothing</b> else\n", ContentType="text/plain")
        self.s3.put_object(Bucket="look", Key="data.json", Body=b'{"rows":[1,2]}', ContentType="application/json", Tagging="team=blue")
        self.s3.put_object(Bucket="look", Key="data.json", Body=b'{"rows":[1,2,3]}', ContentType="application/json", Tagging="team=blue")
        self.s3.put_object(Bucket="look", Key="table.parquet", Body=parquet_file())
        self.s3.put_object(Bucket="look", Key="broken.parquet", Body=b"PAR1" + b"\xff" * 40 + (30).to_bytes(4, "little") + b"PAR1")
        self.go("#/buckets/look")
        browser.click("flower.png")
        browser.wait("document.querySelector('img.picture')?.naturalWidth === 64", "the picture")
        self.picture("preview-picture")
        self.assert_accessible("a picture")
        browser.press("Escape")
        browser.click("table.parquet")
        browser.sees("2 columns")
        browser.sees("temperature")
        self.picture("preview-parquet")
        self.assert_accessible("a schema")
        browser.press("Escape")
        browser.click("broken.parquet")
        browser.sees("Parquet footer")
        browser.press("Escape")
        browser.click("notes.txt")
        browser.sees("water the verbena")
        self.picture("preview-text")
        self.assert_accessible("a text")
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
        self.picture("tags")
        self.assert_accessible("tags")
        self.assertEqual(self.s3.get_object_tagging(Bucket="look", Key="data.json")["TagSet"], [{"Key": "stage", "Value": "test + go"}, {"Key": "team", "Value": "blue"}])
        browser.click("Versions")
        browser.wait("document.querySelectorAll('dialog tbody tr').length === 2", "two versions")
        self.picture("versions")
        self.assert_accessible("versions")
        browser.run("document.querySelectorAll('dialog [aria-label=\"Delete this version for good\"]')[1].click()")
        # The object's own window has a "Delete", too: this one is in the confirmation.
        browser.wait("document.querySelectorAll('dialog[open]').length === 2", "the question")
        browser.click("Delete")
        browser.wait("document.querySelectorAll('dialog tbody tr').length === 1", "one version")
        self.assertEqual(len(self.s3.list_object_versions(Bucket="look", Prefix="data.json")["Versions"]), 1)
        browser.click("Lock")
        browser.wait(f"Boolean({browser.field('Legal hold')})")
        self.picture("lock")
        self.assert_accessible("lock")
        browser.run(f"{browser.field('Legal hold')}.click()")
        browser.click("Save")
        browser.wait("document.getElementById('announcer').textContent === 'Saved'")
        self.assertEqual(self.s3.get_object_legal_hold(Bucket="look", Key="data.json")["LegalHold"]["Status"], "ON")
        self.s3.put_object_legal_hold(Bucket="look", Key="data.json", LegalHold={"Status": "OFF"})


def png_file(size):
    """A disc in the colours of a verbena, `size` pixels wide and high."""
    middle, rows = (size - 1) / 2, b""
    for y in range(size):
        rows += b"\0" + b"".join(bytes((101, 53, 201) if (x - middle) ** 2 + (y - middle) ** 2 < (size / 2) ** 2 else (246, 245, 250)) for x in range(size))

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = size.to_bytes(4, "big") * 2 + bytes((8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


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
    main()
