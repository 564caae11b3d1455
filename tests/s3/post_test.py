#!/usr/bin/python3
"""POST of an object: a browser's form, with boto3's own policies (signature version 4) and version 2's."""
import base64
import datetime
import hashlib
import hmac
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY  # noqa: E402

BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW"


def form(fields, file, file_name="a file.txt"):
    out = b""
    for name, value in fields.items():
        out += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    out += (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{file_name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n").encode()
    return out + file + f"\r\n--{BOUNDARY}--\r\n".encode()


def version2(conditions, minutes=10):
    expiration = datetime.datetime.utcnow() + datetime.timedelta(minutes=minutes)
    policy = base64.b64encode(json.dumps({"expiration": expiration.strftime("%Y-%m-%dT%H:%M:%SZ"),
                                          "conditions": conditions}).encode())
    mac = hmac.new(SECRET_KEY.encode(), policy, hashlib.sha1).digest()
    return {"AWSAccessKeyId": ACCESS_KEY, "policy": policy.decode(), "signature": base64.b64encode(mac).decode()}


class Post(S3Case):
    def setUp(self):
        self.bucket = self.new_bucket()

    def post(self, fields, file=b"content", **arguments):
        return self.request("POST", f"/{self.bucket}", {"content-type": f"multipart/form-data; boundary={BOUNDARY}"},
                            form(fields, file, **arguments), signed=False)

    def body(self, key):
        return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def test_boto3s_presigned_post_uploads_a_file(self):
        presigned = self.s3.generate_presigned_post(
            self.bucket, "dir/${filename}", Fields={"x-amz-meta-a": "b", "Content-Type": "text/plain", "success_action_status": "201"},
            Conditions=[{"x-amz-meta-a": "b"}, ["starts-with", "$Content-Type", "text/"], {"success_action_status": "201"},
                        ["content-length-range", 1, 20 << 20]])
        content = bytes(range(256)) * 40_000   # about 10 MiB: several reads
        reply = self.post(presigned["fields"], content)
        self.assertEqual((reply.status, reply.text("Key")), (201, "dir/a file.txt"), reply.body)
        got = self.s3.get_object(Bucket=self.bucket, Key="dir/a file.txt")
        self.assertEqual(got["Body"].read(), content)
        self.assertEqual((got["ContentType"], got["Metadata"], got["ETag"]),
                         ("text/plain", {"a": "b"}, reply.headers["etag"]))

    def test_version_2_signatures_are_taken(self):
        signed = version2([{"bucket": self.bucket}, ["starts-with", "$key", "foo"], {"acl": "private"}])
        self.assertEqual(self.post({"key": "foo.txt", "acl": "private", **signed}).status, 204)
        self.assertEqual(self.body("foo.txt"), b"content")
        self.assertEqual(self.post({"key": "bar.txt", "acl": "private", **signed}).code, "AccessDenied")
        self.assertEqual(self.post({"key": "foo.txt", "acl": "private", "extra": "x", **signed}).code, "AccessDenied")
        self.assertEqual(self.post({"key": "foo.txt", "acl": "private", "x-ignore-extra": "x", **signed}).status, 204)
        sums = {name: base64.b64encode(hashlib.sha256(name).digest()).decode() for name in (b"content", b"other")}
        for name, status in ((b"content", 204), (b"other", 400)):
            self.assertEqual(self.post({"key": "foo.txt", "acl": "private", "x-amz-checksum-sha256": sums[name], **signed}).status, status)

    def test_forms_that_may_not(self):
        conditions = [{"bucket": self.bucket}, ["starts-with", "$key", ""]]
        self.assertEqual(self.post({"key": "k"}).code, "AccessDenied")
        self.assertEqual(self.post({"key": "k", **version2(conditions, minutes=-10)}).code, "AccessDenied")
        signed = version2(conditions)
        self.assertEqual(self.post({"key": "k", **dict(signed, signature=signed["signature"][::-1])}).code,
                         "SignatureDoesNotMatch")
        self.assertEqual(self.post({"key": "k", **dict(signed, AWSAccessKeyId="NOBODY")}).code, "InvalidAccessKeyId")
        self.assertEqual(self.post({"key": "k", **{n: v for n, v in signed.items() if n != "signature"}}).code,
                         "InvalidArgument")
        self.assertEqual(self.post(signed).code, "InvalidArgument")
        self.assert_error("404", 404, self.s3.head_object, Bucket=self.bucket, Key="k")

    def test_the_size_is_the_policys(self):
        for low, high, code in ((0, 6, "EntityTooLarge"), (8, 9, "EntityTooSmall"), (7, 7, None)):
            signed = version2([{"bucket": self.bucket}, {"key": "k"}, ["content-length-range", low, high]])
            self.assertEqual(self.post({"key": "k", **signed}).code, code)

    def test_a_browser_is_sent_on(self):
        target = "https://example.org/done"
        signed = version2([{"bucket": self.bucket}, {"key": "k"}, ["eq", "$success_action_redirect", target]])
        reply = self.post({"key": "k", "success_action_redirect": target, **signed})
        self.assertEqual(reply.status, 303)
        self.assertTrue(reply.headers["location"].startswith(f"{target}?bucket={self.bucket}&key=k&etag=%22"))

    def test_bodies_that_are_no_forms(self):
        self.assertEqual(self.request("POST", f"/{self.bucket}", {"content-type": "text/plain"}, b"x", signed=False).status, 412)
        typed = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
        for body in (b"", b"x", f"--{BOUNDARY}\r\n\r\n".encode(), form({}, b"x")[:-30]):
            reply = self.request("POST", f"/{self.bucket}", typed, body, signed=False)
            self.assertIn(reply.status, (400, 403), body)


if __name__ == "__main__":
    unittest.main()
