#!/usr/bin/python3
"""Objects as AWS's documentation specifies them: headers, ranges, conditions, checksums, copies, parts."""
import base64
import concurrent.futures
import hashlib
import pathlib
import sys
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case, quote  # noqa: E402

MIB = 1024 * 1024
PAST = "Sat, 29 Oct 1994 19:43:31 GMT"
FUTURE = "Sat, 29 Oct 2095 19:43:31 GMT"
XXHASHS_OF_DATA = {"xxhash64": "b7119b48552d1da3", "xxhash3": "e4b7943fd57d5d1e", "xxhash128": "c044be4073bb71f1340036b3f23aa86d"}


def b64(raw):
    return base64.b64encode(raw).decode()


def crc32(data):
    return b64(zlib.crc32(data).to_bytes(4, "big"))


def crc64nvme(data):
    """Reflected 0xad93d23594c93659, byte by byte."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x9a6c9329ac4bc9b5 if byte & 1 else 0)
        table.append(byte)
    crc = 0xffffffffffffffff
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xff]
    return b64((crc ^ 0xffffffffffffffff).to_bytes(8, "big"))


class Headers(S3Case):
    def test_system_headers_and_metadata_come_back_as_they_were_given(self):
        bucket = self.new_bucket()
        given = {"CacheControl": "max-age=60", "ContentDisposition": 'attachment; filename="a b"',
                 "ContentEncoding": "deflate, gzip", "ContentLanguage": "de", "ContentType": "text/x-test"}
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"Mixed-Case": "Value", "empty": ""}, **given)
        for reply in (self.s3.head_object(Bucket=bucket, Key="k"), self.s3.get_object(Bucket=bucket, Key="k")):
            self.assertEqual({name: reply[name] for name in given}, given)
            self.assertEqual(reply["Metadata"], {"mixed-case": "Value", "empty": ""})

    def test_aws_chunked_is_no_encoding_of_the_object(self):
        bucket = self.new_bucket()
        for sent, kept in (("gzip, aws-chunked", "gzip"), ("aws-chunked,gzip", "gzip"), ("aws-chunked", None)):
            self.request("PUT", f"/{bucket}/k", {"content-encoding": sent}, b"x")
            self.assertEqual(self.request("HEAD", f"/{bucket}/k").headers.get("content-encoding"), kept, sent)

    def test_user_metadata_ends_at_2_kib(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="k", Metadata={"name": "v" * (2048 - 4)})
        self.assert_error("MetadataTooLarge", 400, self.s3.put_object, Bucket=bucket, Key="k",
                          Metadata={"name": "v" * (2048 - 3)})

    def test_metadata_beyond_ascii_is_mail_safe(self):
        bucket = self.new_bucket()
        value = "caf\u00e9"
        headers = self.sign("PUT", f"/{bucket}/k", {"x-amz-meta-drink": value}, b"x")
        headers["x-amz-meta-drink"] = value.encode()   # UTF-8 on the wire, as it was signed
        reply = self.request("PUT", f"/{bucket}/k", headers, b"x", signed=False)
        self.assertEqual(reply.status, 200, reply.body)
        self.assertEqual(self.request("HEAD", f"/{bucket}/k").headers["x-amz-meta-drink"],
                         f"=?UTF-8?B?{b64(value.encode())}?=")

    def test_a_signed_reader_chooses_some_headers_of_the_answer(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="a/b")
        reply = self.s3.get_object(Bucket=bucket, Key="k", ResponseContentType="c/d", ResponseCacheControl="no-store",
                                   ResponseContentDisposition="inline", ResponseContentLanguage="fr",
                                   ResponseContentEncoding="x-y")
        self.assertEqual((reply["ContentType"], reply["CacheControl"], reply["ContentDisposition"],
                          reply["ContentLanguage"], reply["ContentEncoding"]), ("c/d", "no-store", "inline", "fr", "x-y"))

    def test_a_storage_class_is_kept_and_told(self):
        bucket = self.new_bucket()
        self.s3.put_object(Bucket=bucket, Key="ia", StorageClass="STANDARD_IA")
        self.s3.put_object(Bucket=bucket, Key="std", StorageClass="STANDARD")
        self.assertEqual(self.s3.head_object(Bucket=bucket, Key="ia")["StorageClass"], "STANDARD_IA")
        self.assertNotIn("StorageClass", self.s3.head_object(Bucket=bucket, Key="std"))
        listed = {o["Key"]: o["StorageClass"] for o in self.s3.list_objects_v2(Bucket=bucket)["Contents"]}
        self.assertEqual(listed, {"ia": "STANDARD_IA", "std": "STANDARD"})
        self.assert_error("InvalidStorageClass", 400, self.s3.put_object, Bucket=bucket, Key="k", StorageClass="NONE_SUCH")
        self.assert_error("NotImplemented", 501, self.s3.put_object, Bucket=bucket, Key="k", StorageClass="DEEP_ARCHIVE")


class Reads(S3Case):
    def setUp(self):
        self.bucket = self.new_bucket()
        self.data = bytes(range(100))
        self.etag = self.s3.put_object(Bucket=self.bucket, Key="k", Body=self.data)["ETag"]

    def get(self, **arguments):
        return self.s3.get_object(Bucket=self.bucket, Key="k", **arguments)

    def test_one_range_is_served(self):
        for sent, first, last in (("bytes=4-9", 4, 9), ("bytes=90-", 90, 99), ("bytes=-7", 93, 99), ("bytes=0-500", 0, 99)):
            reply = self.get(Range=sent)
            self.assertEqual(reply["Body"].read(), self.data[first:last + 1], sent)
            self.assertEqual(reply["ContentRange"], f"bytes {first}-{last}/100")
            self.assertEqual(reply["ResponseMetadata"]["HTTPStatusCode"], 206)

    def test_a_range_outside_the_object_is_416(self):
        for sent in ("bytes=100-", "bytes=100-200", "bytes=-0"):
            reply = self.assert_error("InvalidRange", 416, self.get, Range=sent)
            self.assertEqual(reply["ResponseMetadata"]["HTTPHeaders"]["content-range"], "bytes */100")
        self.s3.put_object(Bucket=self.bucket, Key="empty")
        self.assert_error("InvalidRange", 416, self.s3.get_object, Bucket=self.bucket, Key="empty", Range="bytes=0-1")

    def test_ranges_that_are_none_are_ignored(self):
        for sent in ("lines=1-2", "bytes=9-4", "bytes=a-b", "bytes=0-1,5-6"):
            reply = self.get(Range=sent)
            self.assertEqual((reply["Body"].read(), reply["ResponseMetadata"]["HTTPStatusCode"]), (self.data, 200), sent)

    def test_conditions_on_reads(self):
        self.get(IfMatch=self.etag)
        self.get(IfNoneMatch='"other"')
        self.get(IfModifiedSince=PAST)
        self.get(IfUnmodifiedSince=FUTURE)
        self.get(IfMatch=self.etag, IfUnmodifiedSince=PAST)       # the ETag condition decides
        self.assert_error("PreconditionFailed", 412, self.get, IfMatch='"other"')
        self.assert_error("PreconditionFailed", 412, self.get, IfUnmodifiedSince=PAST)
        self.assert_error("304", 304, self.get, IfNoneMatch=self.etag)
        self.assert_error("304", 304, self.get, IfModifiedSince=FUTURE)
        self.assert_error("304", 304, self.get, IfNoneMatch=self.etag, IfModifiedSince=PAST)
        self.assert_error("412", 412, self.s3.head_object, Bucket=self.bucket, Key="k", IfMatch='"other"')

    def test_part_numbers_of_an_object_in_one_piece(self):
        reply = self.get(PartNumber=1)
        self.assertEqual((reply["Body"].read(), reply["ContentRange"]), (self.data, "bytes 0-99/100"))
        self.assert_error("InvalidPartNumber", 416, self.get, PartNumber=2)
        self.assert_error("InvalidArgument", 400, self.get, PartNumber=0)
        self.assert_error("InvalidRequest", 400, self.get, PartNumber=1, Range="bytes=0-1")


class Writes(S3Case):
    def setUp(self):
        self.bucket = self.new_bucket()

    def put(self, headers=None, body=b"data", key="k"):
        return self.request("PUT", f"/{self.bucket}/{key}", headers, body)

    def test_content_md5(self):
        good = b64(hashlib.md5(b"data").digest())
        self.assertEqual(self.put({"content-md5": good}).status, 200)
        self.assertEqual(self.put({"content-md5": b64(hashlib.md5(b"other").digest())}).code, "BadDigest")
        for bad in ("YWJyYWNhZGFicmE=", "AWS HAHAHA", ""):
            self.assertEqual(self.put({"content-md5": bad}).code, "InvalidDigest", bad)

    def test_checksums_in_headers(self):
        # The XXHASH values as xxhsum prints them.
        sums = {"crc32": crc32(b"data"), "sha1": b64(hashlib.sha1(b"data").digest()),
                "sha256": b64(hashlib.sha256(b"data").digest()), "sha512": b64(hashlib.sha512(b"data").digest()),
                "md5": b64(hashlib.md5(b"data").digest())}
        sums |= {name: b64(bytes.fromhex(value)) for name, value in XXHASHS_OF_DATA.items()}
        for name, value in sums.items():
            header = f"x-amz-checksum-{name}"
            reply = self.put({header: value, "x-amz-sdk-checksum-algorithm": name.upper()})
            self.assertEqual((reply.status, reply.headers[header], reply.headers["x-amz-checksum-type"]),
                             (200, value, "FULL_OBJECT"))
            plain = self.request("HEAD", f"/{self.bucket}/k")
            self.assertNotIn(header, plain.headers)
            asked = self.request("GET", f"/{self.bucket}/k", {"x-amz-checksum-mode": "ENABLED"})
            self.assertEqual(asked.headers[header], value)
            wrong = self.put({header: value}, b"atad")
            self.assertEqual((wrong.status, wrong.code), (400, "BadDigest"), name)
        self.assertEqual(self.put({"x-amz-checksum-crc32": "short"}).code, "BadDigest")
        self.assertEqual(self.put({"x-amz-checksum-crc32": sums["crc32"], "x-amz-checksum-sha1": sums["sha1"]}).code,
                         "InvalidRequest")
        self.assertEqual(self.put({"x-amz-sdk-checksum-algorithm": "CRC32"}).code, "InvalidRequest")
        self.assertEqual(self.put({"x-amz-checksum-crc32": sums["crc32"], "x-amz-sdk-checksum-algorithm": "NONE"}).code,
                         "InvalidRequest")

    def test_what_comes_without_a_checksum_gets_crc64nvme(self):
        self.assertEqual(crc64nvme(b"123456789"), b64(bytes.fromhex("ae8b14860a799888")))  # the algorithm's check value
        for body in (b"data", b""):
            header, expected = "x-amz-checksum-crc64nvme", crc64nvme(body)
            reply = self.put({}, body)
            self.assertEqual((reply.status, reply.headers[header], reply.headers["x-amz-checksum-type"]),
                             (200, expected, "FULL_OBJECT"))
            for method in ("HEAD", "GET"):
                self.assertNotIn(header, self.request(method, f"/{self.bucket}/k").headers)
                asked = self.request(method, f"/{self.bucket}/k", {"x-amz-checksum-mode": "ENABLED"})
                self.assertEqual((asked.headers[header], asked.headers["x-amz-checksum-type"]), (expected, "FULL_OBJECT"))
        part = self.request("GET", f"/{self.bucket}/k", {"x-amz-checksum-mode": "ENABLED", "range": "bytes=0-0"})
        self.assertNotIn(header, part.headers)
        self.put()
        attributes = self.request("GET", f"/{self.bucket}/k?attributes", {"x-amz-object-attributes": "Checksum"})
        self.assertEqual((attributes.text("ChecksumCRC64NVME"), attributes.text("ChecksumType")),
                         (crc64nvme(b"data"), "FULL_OBJECT"))
        listed = self.request("GET", f"/{self.bucket}?list-type=2")
        self.assertEqual((listed.text("ChecksumAlgorithm"), listed.text("ChecksumType")), ("CRC64NVME", "FULL_OBJECT"))
        copied = self.request("PUT", f"/{self.bucket}/copy", {"x-amz-copy-source": f"/{self.bucket}/k"})
        self.assertEqual(copied.text("ChecksumCRC64NVME"), crc64nvme(b"data"))
        own = self.put({"x-amz-checksum-crc32": crc32(b"data")})
        self.assertNotIn(header, own.headers)
        asked = self.request("GET", f"/{self.bucket}/k", {"x-amz-checksum-mode": "ENABLED"})
        self.assertNotIn(header, asked.headers)

    def test_conditional_writes(self):
        self.assertEqual(self.put({"if-match": '"x"'}, key="new").status, 404)
        self.assertEqual(self.put({"if-none-match": "*"}).status, 200)
        self.assertEqual(self.put({"if-none-match": "*"}).code, "PreconditionFailed")
        etag = self.put().headers["etag"]
        self.assertEqual(self.put({"if-match": etag}, b"next").status, 200)
        self.assertEqual(self.put({"if-match": etag}, b"lost").status, 412)
        self.assertEqual(self.put({"if-match": "*"}, b"more").status, 200)
        now = self.request("HEAD", f"/{self.bucket}/k").headers["etag"]
        self.assertEqual(self.put({"if-none-match": now}, b"lost").status, 412)
        self.assertEqual(self.put({"if-none-match": '"other"'}, b"won").status, 200)
        self.assertEqual(self.request("GET", f"/{self.bucket}/k").body, b"won")
        self.assertEqual(self.put({"if-unmodified-since": FUTURE}).code, "NotImplemented")

    def test_keys_of_every_kind_come_back(self):
        keys = ["\n", " ", "__", "'", '"', "%", "%25", "+", "a+b c", "a//b", "/leading", "../up", "./here", "a/./b/../c", "<&>",
                "caf\u00e9", "\U0001f600", "\x01", "?x=y", "#", "k" * 1024, "trailing/"]
        for key in keys:
            reply = self.request("PUT", f"/{self.bucket}/{quote(key)}", {}, key.encode())
            self.assertEqual(reply.status, 200, repr(key))
        for key in keys:
            self.assertEqual(self.request("GET", f"/{self.bucket}/{quote(key)}").body, key.encode())
        listed = self.s3.list_objects_v2(Bucket=self.bucket)["Contents"]
        self.assertEqual([o["Key"] for o in listed], sorted(keys, key=str.encode))
        self.assertEqual(self.request("PUT", f"/{self.bucket}/{'k' * 1025}", {}, b"x").code, "KeyTooLongError")
        self.assertEqual(self.request("PUT", f"/{self.bucket}/%ff%fe", {}, b"x").code, "InvalidURI")


class Copies(S3Case):
    def setUp(self):
        self.bucket = self.new_bucket()
        self.etag = self.s3.put_object(Bucket=self.bucket, Key="from", Body=b"data", ContentType="a/b",
                                       Metadata={"m": "1"})["ETag"]

    def copy(self, key="to", source=None, **arguments):
        return self.s3.copy_object(Bucket=self.bucket, Key=key, CopySource=source or f"{self.bucket}/from", **arguments)

    def test_metadata_is_copied_or_replaced(self):
        self.assertEqual(self.copy()["CopyObjectResult"]["ETag"], self.etag)
        head = self.s3.head_object(Bucket=self.bucket, Key="to")
        self.assertEqual((head["ContentType"], head["Metadata"]), ("a/b", {"m": "1"}))
        self.copy(MetadataDirective="REPLACE", Metadata={"n": "2"})
        head = self.s3.head_object(Bucket=self.bucket, Key="to")
        self.assertEqual((head["ContentType"], head["Metadata"]), ("binary/octet-stream", {"n": "2"}))
        self.assert_error("InvalidArgument", 400, self.copy, MetadataDirective="PERHAPS")

    def test_a_copy_to_itself_must_change_something(self):
        self.assert_error("InvalidRequest", 400, self.copy, key="from")
        self.copy(key="from", MetadataDirective="REPLACE", Metadata={"n": "2"})
        self.assertEqual(self.s3.head_object(Bucket=self.bucket, Key="from")["Metadata"], {"n": "2"})
        self.copy(key="from", StorageClass="STANDARD_IA")
        head = self.s3.head_object(Bucket=self.bucket, Key="from")
        self.assertEqual((head["StorageClass"], head["Metadata"]), ("STANDARD_IA", {"n": "2"}))

    def test_conditions_on_the_source(self):
        self.copy(CopySourceIfMatch=self.etag)
        self.copy(CopySourceIfNoneMatch='"other"')
        self.copy(CopySourceIfModifiedSince=PAST)
        self.copy(CopySourceIfUnmodifiedSince=FUTURE)
        for condition in ({"CopySourceIfMatch": '"other"'}, {"CopySourceIfNoneMatch": self.etag},
                          {"CopySourceIfModifiedSince": FUTURE}, {"CopySourceIfUnmodifiedSince": PAST}):
            self.assert_error("PreconditionFailed", 412, self.copy, **condition)

    def test_sources_that_are_not_there(self):
        self.assert_error("NoSuchKey", 404, self.copy, source=f"{self.bucket}/none")
        self.assert_error("NoSuchBucket", 404, self.copy, source="no-such-bucket/from")
        for bad in ("nonsense", "/", f"{self.bucket}/", "%zz/k"):
            reply = self.request("PUT", f"/{self.bucket}/to", {"x-amz-copy-source": bad})
            self.assertEqual(reply.status, 400, bad)

    def test_a_source_is_named_in_percent_encoding(self):
        for key in ("a b", "a+b", "a%20b", "caf\u00e9", "?versionId=x"):
            self.s3.put_object(Bucket=self.bucket, Key=key, Body=key.encode())
            reply = self.request("PUT", f"/{self.bucket}/to", {"x-amz-copy-source": f"/{self.bucket}/{quote(key)}"})
            self.assertEqual(reply.status, 200, key)
            self.assertEqual(self.s3.get_object(Bucket=self.bucket, Key="to")["Body"].read(), key.encode())

    def test_parts_are_copied_by_range(self):
        data = bytes(range(256)) * (6 * MIB // 256)
        self.s3.put_object(Bucket=self.bucket, Key="big", Body=data)
        upload = self.s3.create_multipart_upload(Bucket=self.bucket, Key="to")["UploadId"]
        cuts = [(0, 5 * MIB - 1), (5 * MIB, 6 * MIB - 1)]
        parts = []
        for number, (first, last) in enumerate(cuts, 1):
            reply = self.s3.upload_part_copy(Bucket=self.bucket, Key="to", UploadId=upload, PartNumber=number,
                                             CopySource=f"{self.bucket}/big", CopySourceRange=f"bytes={first}-{last}")
            parts.append({"PartNumber": number, "ETag": reply["CopyPartResult"]["ETag"]})
        for bad in ("bytes=0-", "0-2", "bytes=2-0", "bytes=0-2,3-5", "nonsense"):
            self.assert_error("InvalidArgument", 400, self.s3.upload_part_copy, Bucket=self.bucket, Key="to", UploadId=upload,
                              PartNumber=3, CopySource=f"{self.bucket}/big", CopySourceRange=bad)
        self.assert_error("InvalidRange", 416, self.s3.upload_part_copy, Bucket=self.bucket, Key="to", UploadId=upload,
                          PartNumber=3, CopySource=f"{self.bucket}/from", CopySourceRange="bytes=0-21")
        self.s3.complete_multipart_upload(Bucket=self.bucket, Key="to", UploadId=upload, MultipartUpload={"Parts": parts})
        self.assertEqual(self.s3.get_object(Bucket=self.bucket, Key="to")["Body"].read(), data)


class Multipart(S3Case):
    def setUp(self):
        self.bucket = self.new_bucket()

    def begin(self, **arguments):
        return self.s3.create_multipart_upload(Bucket=self.bucket, Key="k", **arguments)["UploadId"]

    def upload(self, upload, number, body, **arguments):
        return self.s3.upload_part(Bucket=self.bucket, Key="k", UploadId=upload, PartNumber=number, Body=body, **arguments)

    def complete(self, upload, parts, **arguments):
        return self.s3.complete_multipart_upload(Bucket=self.bucket, Key="k", UploadId=upload,
                                                 MultipartUpload={"Parts": parts}, **arguments)

    def test_parts_that_do_not_fit_are_refused(self):
        upload = self.begin()
        etag = self.upload(upload, 1, b"a")["ETag"]
        second = self.upload(upload, 2, b"b")["ETag"]
        one, two = {"PartNumber": 1, "ETag": etag}, {"PartNumber": 2, "ETag": second}
        self.assert_error("EntityTooSmall", 400, self.complete, upload=upload, parts=[one, two])
        self.assert_error("InvalidPartOrder", 400, self.complete, upload=upload, parts=[two, one])
        self.assert_error("InvalidPart", 400, self.complete, upload=upload, parts=[{"PartNumber": 3, "ETag": etag}])
        self.assert_error("InvalidPart", 400, self.complete, upload=upload, parts=[{"PartNumber": 1, "ETag": "wrong"}])
        self.assert_error("MalformedXML", 400, self.complete, upload=upload, parts=[])
        self.assert_error("InvalidArgument", 400, self.upload, upload=upload, number=10001, body=b"x")
        self.complete(upload, [one])
        self.assert_error("NoSuchUpload", 404, self.upload, upload=upload, number=1, body=b"x")
        self.assert_error("NoSuchUpload", 404, self.s3.abort_multipart_upload, Bucket=self.bucket, Key="k", UploadId="none")

    def test_completions_at_once_get_one_answer(self):
        """A retry that overtakes the first request, as SDKs send it after a timeout."""
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            for round in range(20):
                headers = {"if-none-match": "*"} if round % 2 else {}
                upload = self.begin()
                etag = self.upload(upload, 1, b"small")["ETag"]
                body = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
                asked = [threads.submit(self.request, "POST", f"/{self.bucket}/k?uploadId={upload}", headers, body.encode()) for _ in range(2)]
                replies = [one.result() for one in asked]
                self.assertEqual([reply.status for reply in replies], [200, 200], [reply.body for reply in replies])
                self.assertEqual(replies[0].text("ETag"), replies[1].text("ETag"))
                self.s3.delete_object(Bucket=self.bucket, Key="k")

    def test_parts_keep_their_numbers(self):
        upload = self.begin()
        data = {1: b"a" * 5 * MIB, 3: b"tail"}
        parts = [{"PartNumber": n, "ETag": self.upload(upload, n, part)["ETag"]} for n, part in data.items()]
        self.complete(upload, parts)
        self.assertEqual(self.s3.get_object(Bucket=self.bucket, Key="k", PartNumber=3)["Body"].read(), b"tail")
        self.assert_error("InvalidPartNumber", 416, self.s3.get_object, Bucket=self.bucket, Key="k", PartNumber=2)
        told = self.s3.get_object_attributes(Bucket=self.bucket, Key="k", ObjectAttributes=["ObjectParts"])["ObjectParts"]
        self.assertEqual((told["TotalPartsCount"], [part["PartNumber"] for part in told["Parts"]]), (2, [1, 3]))

    def test_composite_checksums(self):
        data = [b"a" * 5 * MIB, b"tail"]
        upload = self.begin(ChecksumAlgorithm="SHA256")
        sums = [hashlib.sha256(part).digest() for part in data]
        etags = [self.upload(upload, n, part, ChecksumAlgorithm="SHA256")["ETag"] for n, part in enumerate(data, 1)]
        bare = [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(etags, 1)]
        wrong = [dict(part, ChecksumSHA256=b64(bytes(32))) for part in bare]
        self.assert_error("InvalidPart", 400, self.complete, upload=upload, parts=wrong)
        full = [dict(part, ChecksumSHA256=b64(raw)) for part, raw in zip(bare, sums)]
        self.assert_error("BadDigest", 400, self.complete, upload=upload, parts=full, ChecksumSHA256=b64(bytes(32)) + "-2")
        expected = b64(hashlib.sha256(b"".join(sums)).digest()) + "-2"
        reply = self.complete(upload, bare, ChecksumSHA256=expected)
        self.assertEqual(reply["ChecksumSHA256"], expected)
        again = self.complete(upload, full, ChecksumSHA256=expected)   # the first answer may have been lost
        self.assertEqual((again["ETag"], again["ChecksumSHA256"]), (reply["ETag"], expected))
        attributes = self.request("GET", f"/{self.bucket}/k?attributes", {
            "x-amz-object-attributes": "Checksum,ObjectParts,ObjectSize,ETag,StorageClass", "x-amz-max-parts": "1"})
        self.assertEqual(attributes.text("ChecksumSHA256"), expected)
        self.assertEqual(attributes.text("ChecksumType"), "COMPOSITE")
        self.assertEqual((attributes.text("PartsCount"), attributes.text("IsTruncated"), attributes.text("NextPartNumberMarker")),
                         ("2", "true", "1"))
        part = self.s3.get_object(Bucket=self.bucket, Key="k", PartNumber=2)
        self.assertEqual((part["Body"].read(), part["PartsCount"]), (b"tail", 2))
        self.assert_error("InvalidPartNumber", 416, self.s3.get_object, Bucket=self.bucket, Key="k", PartNumber=3)

    def test_full_object_checksums(self):
        data = [b"a" * 5 * MIB, b"tail"]
        reply = self.request("POST", f"/{self.bucket}/k?uploads=",
                             {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "FULL_OBJECT"})
        upload = reply.text("UploadId")
        etags = [self.upload(upload, n, part)["ETag"] for n, part in enumerate(data, 1)]
        parts = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{e}</ETag></Part>" for n, e in enumerate(etags, 1))
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        path = f"/{self.bucket}/k?uploadId={upload}"
        self.assertEqual(self.request("POST", path, {"x-amz-checksum-crc32": crc32(b"x")}, body).code, "BadDigest")
        done = self.request("POST", path, {"x-amz-checksum-crc32": crc32(b"".join(data)),
                                           "x-amz-checksum-type": "FULL_OBJECT"}, body)
        self.assertEqual((done.status, done.text("ChecksumType")), (200, "FULL_OBJECT"), done.body)
        bad = self.request("POST", f"/{self.bucket}/k?uploads=",
                           {"x-amz-checksum-algorithm": "SHA256", "x-amz-checksum-type": "FULL_OBJECT"})
        self.assertEqual(bad.code, "InvalidRequest")

    def test_parts_without_checksums_make_an_object_with_crc64nvme(self):
        data = [b"ab" * (5 * MIB // 2), b"tail"]
        upload = self.request("POST", f"/{self.bucket}/k?uploads=").text("UploadId")
        path = f"/{self.bucket}/k?uploadId={upload}"
        parts = ""
        for number, part in enumerate(data, 1):
            sent = self.request("PUT", f"{path}&partNumber={number}", {}, part)
            parts += f"<Part><PartNumber>{number}</PartNumber><ETag>{sent.headers['etag']}</ETag></Part>"
        self.assertEqual(sent.headers["x-amz-checksum-crc64nvme"], crc64nvme(b"tail"))
        done = self.request("POST", path, {}, f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode())
        expected = crc64nvme(b"".join(data))
        self.assertEqual((done.text("ChecksumCRC64NVME"), done.text("ChecksumType")), (expected, "FULL_OBJECT"), done.body)
        asked = self.request("HEAD", f"/{self.bucket}/k", {"x-amz-checksum-mode": "ENABLED"})
        self.assertEqual(asked.headers["x-amz-checksum-crc64nvme"], expected)

    def test_completion_takes_conditions(self):
        self.s3.put_object(Bucket=self.bucket, Key="k", Body=b"there")
        upload = self.begin()
        etag = self.upload(upload, 1, b"part")["ETag"]
        body = (f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
                "</CompleteMultipartUpload>").encode()
        path = f"/{self.bucket}/k?uploadId={upload}"
        self.assertEqual(self.request("POST", path, {"if-none-match": "*"}, body).code, "PreconditionFailed")
        self.assertEqual(self.request("POST", path, {"if-match": '"other"'}, body).code, "PreconditionFailed")
        self.assertEqual(self.request("POST", path, {"x-amz-mp-object-size": "5"}, body).code, "InvalidRequest")
        self.assertEqual(self.request("POST", path, {"if-match": "*"}, body).status, 200)


if __name__ == "__main__":
    unittest.main()
