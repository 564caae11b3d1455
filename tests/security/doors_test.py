#!/usr/bin/python3
"""Attacks at the doors: sessions used beyond their rights, pages under another host name, and requests extended after
they were signed.

usage: doors_test.py [unittest arguments]
"""
import base64
import hashlib
import hmac
import http.client
import pathlib
import re
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "express"))
from express_case import DOCUMENT, ZONE, Express  # noqa: E402
from s3_case import Reply, S3Case  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY  # noqa: E402

FAR = 4_000_000_000  # seconds since the epoch: when URLs of version 2 end


class Doors(S3Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        log = pathlib.Path(cls.server.log_path).read_text()
        cls.admin = re.findall(r"admin=http://([\d.]+:\d+)", log)[-1]

    def ask_admin(self, headers, path="/-/metrics"):
        connection = http.client.HTTPConnection(self.admin, timeout=30)
        try:
            connection.putrequest("GET", path, skip_host=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def test_a_session_of_one_bucket_is_good_for_no_metrics(self):
        bucket = f"worker--{ZONE}--x-s3"
        root = Express(self.server.http)
        self.assertEqual(root.call("PUT", f"/{bucket}", DOCUMENT.format(ZONE)).status, 200)
        worker = root.open_session(bucket, "ReadOnly")
        # By a name other than loopback's, so that the signature is required.
        signed = worker.signed("GET", "/-/metrics", host="server.example")
        self.assertEqual(self.ask_admin(signed).status, 403)
        signed = self.sign("GET", "/-/metrics", {"host": "server.example"})
        self.assertEqual(self.ask_admin(signed).status, 200)

    def test_a_page_whose_name_leads_here_gets_no_metrics(self):
        port = self.admin.split(":")[1]
        for host in (f"evil.example:{port}", "evil.example", f"127.0.0.1.evil.example:{port}"):
            self.assertEqual(self.ask_admin({"Host": host}).status, 403, host)
        self.assertEqual(self.ask_admin({"Host": self.admin, "Origin": "http://evil.example"}).status, 403)
        for host in (self.admin, f"localhost:{port}", f"[::1]:{port}"):
            self.assertEqual(self.ask_admin({"Host": host}).status, 200, host)

    def test_a_header_that_was_added_after_signing_is_refused_and_named(self):
        for name, value in (("x-verbena-durability", "memory"), ("x-verbena-append", "enabled"), ("x-amz-acl", "public-read")):
            signed = self.sign("PUT", "/added")
            reply = self.request("PUT", "/added", {**signed, name: value}, signed=False)
            self.assertEqual((reply.status, reply.code, reply.text("HeadersNotSigned")), (403, "AccessDenied", name))
            url = self.presign("PUT", "/added", 60)
            reply = self.request("PUT", url, {name: value}, signed=False)
            self.assertEqual((reply.status, reply.code, reply.text("HeadersNotSigned")), (403, "AccessDenied", name))
        self.assertEqual(self.request("HEAD", "/added").status, 404)
        self.assertEqual(self.request("PUT", "/added", {"x-verbena-durability": "memory"}).status, 200)

    def version2(self, method, path, resource, query):
        text = f"{method}\n\n\n{FAR}\n{path}{resource}"
        signature = base64.b64encode(hmac.new(SECRET_KEY.encode(), text.encode(), hashlib.sha1).digest()).decode()
        asked = urllib.parse.urlencode({"AWSAccessKeyId": ACCESS_KEY, "Expires": FAR, "Signature": signature})
        return self.request(method, f"{path}?{asked}&{query}", signed=False)

    def test_a_url_of_version_2_is_that_of_one_request(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"text", Tagging="secret=1")
        path = f"/{bucket}/k"
        text = "?response-content-disposition=x&tagging"
        for query in ("response-content-disposition=x%26tagging", "response-content-disposition=x&tagging"):
            reply = self.version2("GET", path, text, query)
            self.assertEqual((reply.status, reply.code), (403, "AccessDenied"), query)
            self.assertNotIn(b"secret", reply.body)
        reply = self.version2("GET", path, '?response-content-disposition=a; filename="b&c=d"',
                              "response-content-disposition=" + urllib.parse.quote('a; filename="b&c=d"'))
        self.assertEqual((reply.status, reply.headers["content-disposition"]), (200, 'a; filename="b&c=d"'))

    def test_an_argument_that_is_there_twice_is_refused(self):
        bucket = self.new_bucket()
        reply = self.request("GET", f"/{bucket}?prefix=a&prefix=b")
        self.assertEqual((reply.status, reply.code), (403, "AccessDenied"))


if __name__ == "__main__":
    unittest.main()
