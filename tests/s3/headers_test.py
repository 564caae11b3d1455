#!/usr/bin/python3
"""The table of headers (src/s3_http/header_table.cc), compared with botocore's model of S3 by requests to a server:
each header with each operation. $BOTOCORE_S3_MODEL may name a file with a newer model (service-2.json).

Requests are unsigned: an unsupported header is refused before authentication.
"""
import base64
import gzip
import hashlib
import http.client
import json
import os
import pathlib
import re
import sys
import unittest

import botocore

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Headers of S3 that are always refused here, with the reason in docs/s3.md.
REFUSED = {"x-amz-mfa", "x-amz-server-side-encryption-context", "x-amz-object-if-match",
           "x-amz-if-match-initiated-time"}  # the last one is not for general purpose buckets
# Headers accepted on more operations than on AWS. The table has the reasons.
MORE = {"CompleteMultipartUpload": {"x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id",
                                    "x-amz-server-side-encryption-bucket-key-enabled", "x-amz-checksum-algorithm"},
        "UploadPart": {"x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id",
                       "x-amz-server-side-encryption-bucket-key-enabled", "x-amz-checksum-algorithm", "x-amz-checksum-type"},
        "UploadPartCopy": {"x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id",
                           "x-amz-server-side-encryption-bucket-key-enabled"},
        "GetObject": {"x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id",
                      "x-amz-server-side-encryption-bucket-key-enabled"},
        "HeadObject": {"x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id",
                       "x-amz-server-side-encryption-bucket-key-enabled"},
        "PutObject": {"x-amz-checksum-algorithm", "x-amz-checksum-type", "x-amz-grant-write"},
        "CreateMultipartUpload": {"if-match", "if-none-match", "x-amz-grant-write"},
        "CopyObject": {"x-amz-grant-write"}}
# Headers that AWS has added since, for an older installed model.
SINCE = {"PutObject": {"if-match", "if-none-match"}, "CompleteMultipartUpload": {"if-match", "if-none-match"},
         "CopyObject": {"if-match", "if-none-match"}, "DeleteObject": {"if-match"}}
VALUES = {"x-amz-bucket-namespace": "global", "x-amz-checksum-type": "FULL_OBJECT", "x-amz-metadata-directive": "COPY",
          "x-amz-tagging-directive": "COPY", "x-amz-storage-class": "STANDARD"}
# Their documents are compared with a checksum, too; in CompleteMultipartUpload it is the object's.
SUMMED_HERE = {"CreateBucket", "PutBucketNotificationConfiguration", "CompleteMultipartUpload"}
# Answered with 501 for a general purpose bucket, whatever the headers.
OF_DIRECTORY_BUCKETS = {"CreateSession", "RenameObject"}
ON_EVERY_REQUEST = {"x-amz-request-payer", "x-amz-expected-bucket-owner", "x-amz-sdk-checksum-algorithm"}
# A read may ignore these: its answer is the whole object.
ON_READS = {"if-none-match", "if-modified-since"}


def model():
    path = os.environ.get("BOTOCORE_S3_MODEL")
    if path:
        return json.loads(pathlib.Path(path).read_text())
    folder = pathlib.Path(botocore.__file__).parent / "data/s3/2006-03-01"
    plain = folder / "service-2.json"
    return json.loads(plain.read_text() if plain.exists() else gzip.decompress((folder / "service-2.json.gz").read_bytes()))


def table():
    """The names in header_table.cc."""
    return re.findall(r'^    \{"([a-z0-9-]+)"', (ROOT / "src/s3_http/header_table.cc").read_text(), re.M)


def routed():
    text = (ROOT / "src/s3_http/routing/router.cc").read_text()
    return set(re.findall(r'Operation\{Scope::(\w+),\s*"(\w+)",\s*"([^"]*)"', text))


class Operation:
    def __init__(self, name, described, shapes):
        self.name, self.method = name, described["http"]["method"]
        uri, _, query = described["http"]["requestUri"].partition("?")
        scope = "object" if "{Key" in uri else "bucket" if "{Bucket}" in uri else "service"
        shape = shapes[described["input"]["shape"]] if "input" in described else {"members": {}}
        members = shape["members"]
        self.headers = {m["locationName"].lower() for m in members.values() if m.get("location") == "header"}
        if any(m.get("location") == "headers" for m in members.values()):
            self.headers.add("x-amz-meta-a")
        # True if AWS verifies a checksum of the request's body, under either name in the model.
        self.summed = "httpChecksum" in described or described.get("httpChecksumRequired", False)
        needed = {members[m]["locationName"] for m in shape.get("required", ()) if members[m].get("location") == "querystring"}
        query = query.split("&")[0] if query else ""
        self.selector = query.partition("=")[0] or ("uploadId" if "uploadId" in needed else "")
        path = {"object": "/headers/k", "bucket": "/headers", "service": "/"}[scope]
        parameters = [query] if query else []
        parameters += [f"{name}={'1' if name == 'partNumber' else 'x'}" for name in sorted(needed)]
        self.target = path + ("?" + "&".join(parameters) if parameters else "")
        self.copies = name in ("CopyObject", "UploadPartCopy")
        self.served = (scope, self.method, self.selector) in routed()


def operations():
    described = model()
    # Deprecated operations are old names of requests that the model has under a new name, with all their headers.
    made = [Operation(name, one, described["shapes"]) for name, one in described["operations"].items()
            if not one.get("deprecated")]
    return [one for one in made if one.served and one.name != "ListDirectoryBuckets"]


class Table(unittest.TestCase):
    def test_every_header_is_documented(self):
        text = (ROOT / "docs/s3.md").read_text()
        names = set(re.findall(r"`([a-z0-9*-]+)`", text[text.index("## Headers"):text.index("## With an RDMA token")]))
        prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
        self.assertGreater(len(table()), 80, "the table was not found")
        missing = [name for name in table() if name not in names and not name.startswith(prefixes)]
        self.assertEqual(missing, [], "in the table of headers, but not in docs/s3.md")

    def test_the_table_has_every_header_of_the_model(self):
        known = set(table()) | {"x-amz-meta-a"}
        for operation in operations():
            for header in operation.headers:
                if header.startswith(("x-amz-", "if-")):
                    self.assertIn(header, known, operation.name)


class Requests(S3Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.s3.create_bucket(Bucket="headers")
        cls.s3.put_object(Bucket="headers", Key="k", Body=b"x")
        cls.connection = http.client.HTTPConnection(cls.server.http.split("//")[1], timeout=30)

    @classmethod
    def tearDownClass(cls):
        cls.connection.close()
        super().tearDownClass()

    def is_taken(self, operation, header):
        headers = {header: VALUES.get(header, "x")}
        if operation.copies and header != "x-amz-copy-source":
            headers["x-amz-copy-source"] = "/headers/k"
        self.connection.request(operation.method, operation.target, None, headers)
        reply = self.connection.getresponse()
        body = reply.read()
        if reply.status != 501:
            return True
        if operation.method == "HEAD":
            return False
        if b"<Header>" in body:
            self.assertIn(f"<Header>{header}</Header>".encode(), body, operation.name)
            return False
        self.assertIn(operation.name, OF_DIRECTORY_BUCKETS, body)
        return True

    def test_what_an_operation_has_at_aws_is_taken(self):
        count = 0
        for operation in operations():
            for header in sorted(operation.headers):
                if header.startswith(("x-amz-", "if-")) and header not in REFUSED:
                    self.assertTrue(self.is_taken(operation, header), f"{operation.name}: {header}")
                    count += 1
        self.assertGreater(count, 250)

    def test_what_it_has_not_is_refused(self):
        described = operations()
        every = {header for one in described for header in one.headers if header.startswith(("x-amz-", "if-"))}
        every -= ON_EVERY_REQUEST | {"x-amz-meta-a"}
        for operation in described:
            taken = operation.headers | MORE.get(operation.name, set()) | SINCE.get(operation.name, set())
            if operation.method in ("GET", "HEAD"):
                taken = taken | ON_READS
            for header in sorted(every - (taken - REFUSED)):
                summed = operation.summed or operation.name in SUMMED_HERE
                if summed and re.match("x-amz-checksum-(crc|sha|md5|xxhash)", header):
                    continue
                if operation.copies and header == "x-amz-copy-source":
                    continue
                if operation.name in ("PutObject", "UploadPart") and header.startswith("x-amz-copy-source"):
                    if header == "x-amz-copy-source":
                        continue  # which makes it a copy
                self.assertFalse(self.is_taken(operation, header), f"{operation.name}: {header}")
            self.assertFalse(self.is_taken(operation, "x-amz-foo"), operation.name)
            self.assertFalse(self.is_taken(operation, "x-verbena-foo"), operation.name)

    def chunked(self, body, name, value):
        """A body in aws-chunked with a trailer, as SDKs send it."""
        frames = b"%x\r\n%s\r\n0\r\n%s:%s\r\n\r\n" % (len(body), body, name.encode(), value.encode())
        headers = {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "content-encoding": "aws-chunked",
                   "x-amz-decoded-content-length": str(len(body)), "x-amz-trailer": name}
        return self.request("PUT", "/headers/trailed", headers, frames)

    def test_the_newer_checksums_come_as_trailers_too(self):
        sums = {"sha512": hashlib.sha512(b"data").digest(), "md5": hashlib.md5(b"data").digest(),
                "xxhash3": bytes.fromhex("e4b7943fd57d5d1e")}
        for name, raw in sums.items():
            header, value = f"x-amz-checksum-{name}", base64.b64encode(raw).decode()
            self.assertEqual(self.chunked(b"atad", header, value).code, "BadDigest", name)
            reply = self.chunked(b"data", header, value)
            self.assertEqual((reply.status, reply.headers.get(header)), (200, value), name)
            read = self.request("GET", "/headers/trailed", {"x-amz-checksum-mode": "ENABLED"})
            self.assertEqual((read.body, read.headers.get(header)), (b"data", value), name)
        self.assertEqual(self.chunked(b"data", "x-amz-checksum-crc16", "AAA=").code, "InvalidRequest")

    def test_an_unknown_checksum_in_a_query_is_refused_too(self):
        """When SDKs sign a URL, they move the checksum of the body at that time into the query, which need not match
        the later body; the known ones are ignored there."""
        for name, code in (("crc16", "InvalidRequest"), ("", "InvalidRequest"), ("CRC32", None), ("sha512", None)):
            url = self.presign("PUT", f"/headers/hoisted?X-Amz-Checksum-{name}=AAAA", 60)
            self.assertEqual(self.request("PUT", url, {}, b"data", signed=False).code, code, name)

    def test_a_client_that_knows_them_verifies_what_it_reads(self):
        if "SHA512" not in model()["shapes"]["ChecksumAlgorithm"]["enum"] or os.environ.get("BOTOCORE_S3_MODEL"):
            self.skipTest("this botocore knows no SHA512")
        for algorithm in ("SHA512", "CRC32", "SHA1"):
            self.s3.put_object(Bucket="headers", Key="boto", Body=b"data", ChecksumAlgorithm=algorithm)
            reply = self.s3.get_object(Bucket="headers", Key="boto", ChecksumMode="ENABLED")
            self.assertEqual(reply["Body"].read(), b"data")
            self.assertIn(f"Checksum{algorithm}", reply)


if __name__ == "__main__":
    unittest.main()
