#!/usr/bin/python3
"""Listings, version 1 and 2, of uploads and of parts: every parameter and its edge cases."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from s3_case import S3Case, quote  # noqa: E402


class Listing(S3Case):
    def bucket_with(self, *keys):
        bucket = self.new_bucket()
        for key in keys:
            self.s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
        return bucket

    def both(self, bucket, **arguments):
        """(keys, prefixes, truncated) by version 1, after a check that version 2 returns the same."""
        one = self.s3.list_objects(Bucket=bucket, **arguments)
        two = self.s3.list_objects_v2(Bucket=bucket, **arguments)
        shape = [([o["Key"] for o in r.get("Contents", [])], [p["Prefix"] for p in r.get("CommonPrefixes", [])],
                  r["IsTruncated"]) for r in (one, two)]
        self.assertEqual(shape[0], shape[1])
        self.assertEqual(two["KeyCount"], len(shape[1][0]) + len(shape[1][1]))
        return shape[0]

    def test_delimiters_of_any_kind(self):
        cases = [
            ("/", "", ["asdf", "foo/bar", "foo/baz/x", "quux/t"], ["asdf"], ["foo/", "quux/"]),
            ("/", "foo/", ["asdf", "foo/bar", "foo/baz/x"], ["foo/bar"], ["foo/baz/"]),
            ("/", "asdf/", ["asdf/"], ["asdf/"], []),
            ("a", "", ["bar", "baz", "cab", "foo"], ["foo"], ["ba", "ca"]),
            ("a", "ba", ["bar", "bazar", "cab"], ["bar"], ["baza"]),
            ("%", "", ["b%ar", "b%az", "c%ab", "foo"], ["foo"], ["b%", "c%"]),
            (" ", "", ["b ar", "b az", "foo"], ["foo"], ["b "]),
            ("\n", "", ["a\nb", "foo"], ["foo"], ["a\n"]),
            ("--", "", ["a-b", "a--b", "a--c", "a---d"], ["a-b"], ["a--"]),
            ("\u00e9", "", ["caf\u00e9/1", "caf\u00e9/2", "the"], ["the"], ["caf\u00e9"]),
            ("z", "b", ["b/a", "b/c", "g"], ["b/a", "b/c"], []),
            ("", "", ["a/b", "c"], ["a/b", "c"], []),
            ("/", "none", ["a/b", "c"], [], []),
        ]
        for delimiter, prefix, keys, expected, prefixes in cases:
            bucket = self.bucket_with(*keys)
            found = self.both(bucket, Delimiter=delimiter, Prefix=prefix)
            self.assertEqual(found, (expected, prefixes, False), (delimiter, prefix))

    def test_pages_hold_keys_and_prefixes_in_order(self):
        bucket = self.bucket_with("asdf", "boo/bar", "boo/baz/xyzzy", "cquux/bla", "cquux/thud", "z")
        for size in (1, 2, 3, 5):
            seen, marker = [], ""
            while True:
                page = self.s3.list_objects(Bucket=bucket, Delimiter="/", MaxKeys=size, Marker=marker)
                names = [o["Key"] for o in page.get("Contents", [])] + [p["Prefix"] for p in page.get("CommonPrefixes", [])]
                self.assertLessEqual(len(names), size)
                seen += sorted(names)
                if not page["IsTruncated"]:
                    self.assertNotIn("NextMarker", page)
                    break
                marker = page["NextMarker"]
                self.assertEqual(marker, max(names))
            self.assertEqual(seen, ["asdf", "boo/", "cquux/", "z"], size)

    def test_next_marker_is_there_with_a_delimiter_only(self):
        bucket = self.bucket_with("a", "b")
        self.assertNotIn("NextMarker", self.s3.list_objects(Bucket=bucket, MaxKeys=1))
        self.assertEqual(self.s3.list_objects(Bucket=bucket, MaxKeys=1, Delimiter="/")["NextMarker"], "a")

    def test_max_keys(self):
        bucket = self.bucket_with("a", "b", "c")
        self.assertEqual(self.both(bucket, MaxKeys=0), ([], [], False))
        self.assertEqual(self.both(bucket, MaxKeys=2), (["a", "b"], [], True))
        self.assertEqual(self.s3.list_objects_v2(Bucket=bucket)["MaxKeys"], 1000)
        self.assertEqual(self.s3.list_objects_v2(Bucket=bucket, MaxKeys=5000)["MaxKeys"], 1000)
        for version in ("", "list-type=2&"):
            for bad in ("-1", "blah", "%0A", "1.5", "2147483648", "99999999999999999999", "%2B1"):
                reply = self.request("GET", f"/{bucket}?{version}max-keys={bad}")
                self.assertEqual((reply.status, reply.code), (400, "InvalidArgument"), bad)
            self.assertEqual(self.request("GET", f"/{bucket}?{version}max-keys=").status, 200)

    def test_an_unordered_listing_is_a_listing(self):
        bucket = self.bucket_with("a/1", "a/2", "b")
        for version in ("", "list-type=2&"):
            reply = self.request("GET", f"/{bucket}?{version}allow-unordered=true&max-keys=2")
            self.assertEqual((reply.status, reply.text("IsTruncated")), (200, "true"))
            refused = self.request("GET", f"/{bucket}?{version}allow-unordered=true&delimiter=%2F")
            self.assertEqual((refused.status, refused.code), (400, "InvalidArgument"))

    def test_markers(self):
        bucket = self.bucket_with("bar", "baz", "foo", "quxx")
        for marker, expected in (("", ["bar", "baz", "foo", "quxx"]), ("bar", ["baz", "foo", "quxx"]), ("\n", ["bar", "baz", "foo", "quxx"]),
                                 ("blah", ["foo", "quxx"]), ("zzz", [])):
            one = self.s3.list_objects(Bucket=bucket, Marker=marker)
            self.assertEqual(([o["Key"] for o in one.get("Contents", [])], one["Marker"]), (expected, marker))
            two = self.s3.list_objects_v2(Bucket=bucket, StartAfter=marker)
            self.assertEqual([o["Key"] for o in two.get("Contents", [])], expected)
            self.assertEqual(two.get("StartAfter", ""), marker)
        inside = self.bucket_with("a/1", "a/2", "b/1")
        found = self.s3.list_objects(Bucket=inside, Delimiter="/", Marker="a/")   # as NextMarker gives it
        self.assertEqual([p["Prefix"] for p in found["CommonPrefixes"]], ["b/"])

    def test_a_continuation_token_goes_before_start_after(self):
        bucket = self.bucket_with("bar", "baz", "foo", "quxx")
        first = self.s3.list_objects_v2(Bucket=bucket, StartAfter="bar", MaxKeys=1)
        self.assertEqual([o["Key"] for o in first["Contents"]], ["baz"])
        second = self.s3.list_objects_v2(Bucket=bucket, StartAfter="bar", ContinuationToken=first["NextContinuationToken"])
        self.assertEqual([o["Key"] for o in second["Contents"]], ["foo", "quxx"])
        self.assertEqual((second["StartAfter"], second["ContinuationToken"]), ("bar", first["NextContinuationToken"]))
        empty = self.s3.list_objects_v2(Bucket=bucket, ContinuationToken="")
        self.assertEqual((empty["ContinuationToken"], empty["KeyCount"]), ("", 4))
        self.assert_error("InvalidArgument", 400, self.s3.list_objects_v2, Bucket=bucket, ContinuationToken="nonsense")

    def test_owners_are_fetched_when_asked(self):
        bucket = self.bucket_with("a")
        self.assertIn("Owner", self.s3.list_objects(Bucket=bucket)["Contents"][0])
        self.assertNotIn("Owner", self.s3.list_objects_v2(Bucket=bucket)["Contents"][0])
        self.assertNotIn("Owner", self.s3.list_objects_v2(Bucket=bucket, FetchOwner=False)["Contents"][0])
        self.assertIn("Owner", self.s3.list_objects_v2(Bucket=bucket, FetchOwner=True)["Contents"][0])

    def test_names_are_encoded_when_asked(self):
        bucket = self.bucket_with("foo+1/bar", "foo/bar/xyzzy", "quux ab/thud", "asdf+b")
        for version in ("", "list-type=2&"):
            reply = self.request("GET", f"/{bucket}?{version}encoding-type=url&delimiter=%2F")
            prefixes = [e[0].text for e in reply.xml() if e.tag.endswith("CommonPrefixes")]
            self.assertEqual((reply.text("Key"), prefixes), ("asdf%2Bb", ["foo%2B1/", "foo/", "quux%20ab/"]))
            self.assertEqual((reply.text("EncodingType"), reply.text("Delimiter")), ("url", "/"))
            self.assertEqual(self.request("GET", f"/{bucket}?{version}encoding-type=none").code, "InvalidArgument")

    def test_keys_that_xml_cannot_carry_come_encoded(self):
        bucket = self.bucket_with("\x01", "\n", "a\x7fb")
        self.assertEqual(self.both(bucket)[0], ["\x01", "\n", "a\x7fb"])   # boto3 asks for encoding-type=url

    def test_a_list_type_that_is_none_is_refused(self):
        bucket = self.new_bucket()
        self.assertEqual(self.request("GET", f"/{bucket}?list-type=3").code, "InvalidArgument")
        self.assert_error("NoSuchBucket", 404, self.s3.list_objects_v2, Bucket="no-such-bucket")


class Uploads(S3Case):
    def test_uploads_are_listed_by_key_with_markers_and_delimiters(self):
        bucket = self.new_bucket()
        keys = ["a", "a", "b/1", "b/2", "c"]
        made = [(key, self.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]) for key in keys]
        listed = self.s3.list_multipart_uploads(Bucket=bucket)
        self.assertEqual([(u["Key"], u["UploadId"]) for u in listed["Uploads"]], made)
        self.assertFalse(listed["IsTruncated"])
        by_folder = self.s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
        self.assertEqual([u["Key"] for u in by_folder["Uploads"]], ["a", "a", "c"])
        self.assertEqual([p["Prefix"] for p in by_folder["CommonPrefixes"]], ["b/"])
        self.assertEqual([u["Key"] for u in self.s3.list_multipart_uploads(Bucket=bucket, Prefix="b")["Uploads"]], ["b/1", "b/2"])
        seen, markers = [], {}
        while True:
            page = self.s3.list_multipart_uploads(Bucket=bucket, MaxUploads=1, **markers)
            seen += [(u["Key"], u["UploadId"]) for u in page["Uploads"]]
            if not page["IsTruncated"]:
                break
            markers = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
        self.assertEqual(seen, made)
        after = self.s3.list_multipart_uploads(Bucket=bucket, KeyMarker="a")
        self.assertEqual([u["Key"] for u in after["Uploads"]], ["b/1", "b/2", "c"])
        self.assertNotIn("Uploads", self.s3.list_multipart_uploads(Bucket=bucket, MaxUploads=0))
        self.assertEqual(self.request("GET", f"/{bucket}?uploads&max-uploads=x").code, "InvalidArgument")

    def test_parts_are_listed_in_pages(self):
        bucket = self.new_bucket()
        upload = self.s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
        for number in (9, 1, 5):
            self.s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, Body=b"x" * number)
        page = self.s3.list_parts(Bucket=bucket, Key="k", UploadId=upload, MaxParts=2)
        self.assertEqual([(p["PartNumber"], p["Size"]) for p in page["Parts"]], [(1, 1), (5, 5)])
        self.assertEqual((page["IsTruncated"], page["NextPartNumberMarker"], page["MaxParts"]), (True, 5, 2))
        rest = self.s3.list_parts(Bucket=bucket, Key="k", UploadId=upload, PartNumberMarker=5)
        self.assertEqual([p["PartNumber"] for p in rest["Parts"]], [9])
        self.assert_error("NoSuchUpload", 404, self.s3.list_parts, Bucket=bucket, Key="k", UploadId="none")
        for query in ("max-parts=-1", "max-parts=x", "part-number-marker=x"):
            self.assertEqual(self.request("GET", f"/{bucket}/k?uploadId={quote(upload)}&{query}").code, "InvalidArgument")


if __name__ == "__main__":
    unittest.main()
