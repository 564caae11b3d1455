#!/usr/bin/python3
"""Refused requests, their errors, and that they are refused early: signatures, dates, lengths, documents, hostile
input."""
import pathlib
import socket
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case  # noqa: E402
from verbena_server import ACCESS_KEY, boto3_client  # noqa: E402


class Errors(S3Case):
    def setUp(self):
        self.bucket = self.new_bucket()

    def test_an_error_says_what_aws_says(self):
        reply = self.request("GET", f"/{self.bucket}/none")
        self.assertEqual((reply.status, reply.code, reply.text("Key"), reply.text("Resource")),
                         (404, "NoSuchKey", "none", f"/{self.bucket}/none"))
        self.assertEqual(reply.text("RequestId"), reply.headers["x-amz-request-id"])
        self.assertEqual(reply.text("HostId"), reply.headers["x-amz-id-2"])
        self.assertEqual(reply.headers["content-type"], "application/xml")
        ids = {self.request("HEAD", f"/{self.bucket}").headers["x-amz-request-id"] for _ in range(10)}
        self.assertEqual(len(ids), 10)

    def test_head_has_no_body(self):
        for path in (f"/{self.bucket}/none", "/no-such-bucket", f"/{self.bucket}?inventory"):
            reply = self.request("HEAD", path)
            self.assertGreaterEqual(reply.status, 400)
            self.assertEqual(reply.body, b"")
            self.assertIn("x-amz-request-id", reply.headers)

    def test_signatures(self):
        path = f"/{self.bucket}"
        good = self.sign("GET", path)
        def with_authorization(value, **more):
            return self.request("GET", path, dict(good, Authorization=value, **more), signed=False)
        authorization = good["Authorization"]
        self.assertEqual(with_authorization(authorization).status, 200)
        flipped = authorization[:-1] + ("0" if authorization[-1] != "0" else "1")
        self.assertEqual((with_authorization(flipped).status, with_authorization(flipped).code), (403, "SignatureDoesNotMatch"))
        self.assertEqual(with_authorization(authorization.replace(ACCESS_KEY, "NOBODY")).code, "InvalidAccessKeyId")
        self.assertEqual(with_authorization(authorization.split(",")[0]).code, "AuthorizationHeaderMalformed")
        self.assertEqual(with_authorization("AWS4-HMAC-SHA256").code, "AuthorizationHeaderMalformed")
        self.assertEqual(with_authorization("Basic abc").code, "InvalidArgument")
        self.assertEqual(with_authorization(f"AWS {ACCESS_KEY}:c2ln").code, "SignatureDoesNotMatch")
        self.assertEqual(with_authorization("AWS HAHAHA").code, "InvalidArgument")
        self.assertEqual(with_authorization(authorization.replace("/s3/", "/ec2/")).code, "AuthorizationHeaderMalformed")
        anonymous = self.request("GET", path, signed=False)
        self.assertEqual((anonymous.status, anonymous.code), (403, "AccessDenied"))

    def test_a_browser_may_read_why_it_was_refused(self):
        self.s3.put_bucket_cors(Bucket=self.bucket, CORSConfiguration={
            "CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["https://app.example"]}]})
        path = f"/{self.bucket}/k"
        def refused(origin, method="GET"):
            headers = self.sign(method, path, secret="wrong")
            reply = self.request(method, path, dict(headers, Origin=origin), signed=False)
            self.assertEqual((reply.status, reply.code), (403, "SignatureDoesNotMatch"))
            return reply.headers.get("access-control-allow-origin")
        self.assertEqual(refused("https://app.example"), "https://app.example")
        self.assertIsNone(refused("https://other.example"))
        self.assertIsNone(refused("https://app.example", "PUT"))
        other = self.presign("GET", path, 60).replace("/k?", "/other?")
        reply = self.request("GET", other, {"origin": "https://app.example"}, signed=False)
        self.assertEqual((reply.status, reply.headers.get("access-control-allow-origin")), (403, "https://app.example"))

    def test_dates(self):
        path = f"/{self.bucket}"
        for date, status, code in (("20100707T215304Z", 403, "RequestTimeTooSkewed"), ("20990707T215304Z", 403, "RequestTimeTooSkewed"),
                                   ("Bad Date", 403, "AccessDenied"), ("", 403, "AccessDenied")):
            good = self.sign("GET", path)
            authorization = good["Authorization"].replace(good["X-Amz-Date"][:8], date[:8]) if date[:1] == "2" else good["Authorization"]
            reply = self.request("GET", path, dict(good, **{"X-Amz-Date": date, "Authorization": authorization}), signed=False)
            self.assertEqual((reply.status, reply.code), (status, code), date)

    def test_presigned_urls(self):
        self.s3.put_object(Bucket=self.bucket, Key="k", Body=b"x")
        good = self.presign("GET", f"/{self.bucket}/k", 600)
        self.assertEqual(self.request("GET", good, signed=False).body, b"x")
        self.assertEqual(self.request("PUT", good, body=b"y", signed=False).code, "SignatureDoesNotMatch")
        self.assertEqual(self.request("GET", good.replace("/k?", "/j?"), signed=False).code, "SignatureDoesNotMatch")
        for seconds, code in ((0, "AccessDenied"), (-7, "AuthorizationQueryParametersError"), (604801, "AuthorizationQueryParametersError")):
            self.assertEqual(self.request("GET", self.presign("GET", f"/{self.bucket}/k", seconds), signed=False).code, code)
        lacking = good.replace("X-Amz-Expires=600&", "")
        self.assertEqual(self.request("GET", lacking, signed=False).code, "AuthorizationQueryParametersError")
        self.assertEqual(self.request("GET", good, {"x-amz-acl": "private"}, signed=False).code, "AccessDenied")

    def test_version_2_of_boto3(self):
        old = boto3_client(self.server.http, signature_version="s3")
        old.put_object(Bucket=self.bucket, Key="a b/\u00e9", Body=b"x", Metadata={"m": "1"})
        got = old.get_object(Bucket=self.bucket, Key="a b/\u00e9", ResponseContentType="text/x-y")
        self.assertEqual((got["Body"].read(), got["ContentType"], got["Metadata"]), (b"x", "text/x-y", {"m": "1"}))
        # Debian 12's botocore signs the query of an operation twice ("?uploads?uploads"): no sub-resources here.
        self.assertEqual([o["Key"] for o in old.list_objects(Bucket=self.bucket, Prefix="a b")["Contents"]], ["a b/\u00e9"])
        old.copy_object(Bucket=self.bucket, Key="copy", CopySource=f"{self.bucket}/a b/\u00e9")
        for method in ("get_object", "delete_object"):
            url = old.generate_presigned_url(method, Params={"Bucket": self.bucket, "Key": "a b/\u00e9"}, ExpiresIn=600)
            self.assertIn("AWSAccessKeyId=", url)
            path = url.removeprefix(self.server.http)
            self.assertEqual(self.request("PUT", path, signed=False).code, "SignatureDoesNotMatch")
            verb = "GET" if method == "get_object" else "DELETE"
            self.assertIn(self.request(verb, path, signed=False).status, (200, 204))
        expired = old.generate_presigned_url("get_object", Params={"Bucket": self.bucket, "Key": "k"}, ExpiresIn=-10)
        self.assertEqual(self.request("GET", expired.removeprefix(self.server.http), signed=False).code, "AccessDenied")

    def test_bodies_and_lengths(self):
        put = f"/{self.bucket}/k"
        signed = self.sign("PUT", put, {}, b"data")
        self.assertEqual(self.request("PUT", put, signed, b"tada", signed=False).code, "XAmzContentSHA256Mismatch")
        self.assertEqual(self.raw(put, signed, "Content-Length: \r\n")[:12], "HTTP/1.1 400")
        self.assertEqual(self.raw(put, signed, "Content-Length: -1\r\n")[:12], "HTTP/1.1 400")
        self.assertEqual(self.raw(put, signed, "Content-Length: 4\r\nContent-Length: 5\r\n")[:12], "HTTP/1.1 400")
        self.assertEqual(self.raw(put, signed, "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")[:12], "HTTP/1.1 400")
        self.assertIn("EntityTooLarge", self.raw(put, self.sign("PUT", put, {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}),
                                                 f"Content-Length: {6 << 30}\r\n"))
        self.assert_error("404", 404, self.s3.head_object, Bucket=self.bucket, Key="k")

    def raw(self, path, headers, more, body=b""):
        """Sends a PUT with its own header lines; returns the first bytes of the answer."""
        lines = "".join(f"{n}: {v}\r\n" for n, v in headers.items() if n.lower() not in ("content-length", "host"))
        host, port = self.address.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(f"PUT {path} HTTP/1.1\r\nHost: {self.address}\r\n{lines}{more}\r\n".encode() + body)
            return connection.recv(65536).decode(errors="replace")

    def test_a_refusal_comes_instead_of_100_continue(self):
        put = f"/{self.bucket}/k"
        expect = "Content-Length: 4\r\nExpect: 100-continue\r\n"
        self.assertEqual(self.raw(put, {}, expect)[:12], "HTTP/1.1 403")
        self.assertEqual(self.raw(put, self.sign("PUT", put, {}, b"data"), expect)[:12], "HTTP/1.1 100")
        for odd in ("200", ""):
            self.assertEqual(self.raw(put, self.sign("PUT", put, {}, b"data"), f"Content-Length: 4\r\nExpect: {odd}\r\n", b"data")[:12],
                             "HTTP/1.1 200", odd)

    def test_documents_that_are_none(self):
        path = f"/{self.bucket}?delete="
        bomb = '<!DOCTYPE a [<!ENTITY b "' + "x" * 1000 + '"><!ENTITY c "&b;&b;&b;">]><Delete><Object><Key>&c;</Key></Object></Delete>'
        deep = "<Delete>" + "<a>" * 10_000 + "</a>" * 10_000 + "</Delete>"
        many = "<Delete>" + "<Object><Key>k</Key></Object>" * 1001 + "</Delete>"
        for text in ("", "x", "<Delete>", "<Delete/>", "<Other/>", bomb, deep, many, "<Delete><Object/></Delete>",
                     "<Delete><Object><Key>\x00</Key></Object></Delete>"):
            reply = self.request("POST", path, {"x-amz-checksum-crc32": self.crc32(text)}, text.encode())
            self.assertEqual((reply.status, reply.code), (400, "MalformedXML"), text[:60])
        good = "<Delete><Object><Key>k</Key></Object></Delete>"
        self.assertEqual(self.request("POST", path, {}, good.encode()).code, "InvalidRequest")
        self.assertEqual(self.request("POST", path, {"x-amz-checksum-crc32": self.crc32("other")}, good.encode()).code, "BadDigest")

    @staticmethod
    def crc32(text):
        import base64
        import zlib
        return base64.b64encode(zlib.crc32(text.encode()).to_bytes(4, "big")).decode()

    def test_what_does_not_exist_is_said_so(self):
        self.assertEqual(self.request("GET", f"/{self.bucket}?inventory").code, "NotImplemented")
        self.assertEqual(self.request("GET", f"/{self.bucket}?unheard-of").status, 200)
        self.assertEqual(self.request("PUT", f"/{self.bucket}/k", {"x-amz-server-side-encryption-context": "e30="}, b"x").code,
                         "NotImplemented")
        reply = self.request("PATCH", f"/{self.bucket}/k")
        self.assertEqual((reply.status, reply.code), (405, "MethodNotAllowed"))

    def test_headers_without_end_are_refused_and_the_server_lives(self):
        for more in ("x-a: " + "y" * 100_000 + "\r\n", "".join(f"x-{n}: y\r\n" for n in range(5000))):
            self.assertIn(self.raw(f"/{self.bucket}/k", {}, more)[:12], ("HTTP/1.1 431", "HTTP/1.1 400"))
        self.assertEqual(self.raw("/" + "a" * 100_000, {}, "")[:10], "HTTP/1.1 4")
        self.s3.head_bucket(Bucket=self.bucket)

    def test_smuggled_shapes_are_refused(self):
        put = f"/{self.bucket}/k"
        for more in ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: xchunked\r\n",
                     "Transfer-Encoding : chunked\r\n", "Content-Length: 4\r\n Content-Length: 5\r\n", "Host: other\r\n",
                     "Content-Length: 0x4\r\n", "Content-Length: 4, 4\r\n", "X: a\nContent-Length: 4\r\n"):
            self.assertIn(self.raw(put, {}, more)[:12], ("HTTP/1.1 400", "HTTP/1.1 501"), more)


if __name__ == "__main__":
    unittest.main()
