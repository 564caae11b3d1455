"""boto 2, still used by old programs, with signature versions 2 and 4. Prints "ok"."""
import io
import os
import sys
import urllib.parse
import urllib.request

import boto
import boto.s3.connection
import boto.s3.tagging

endpoint = urllib.parse.urlsplit(sys.argv[1])


def round_trip(version):
    os.environ.pop("S3_USE_SIGV4", None)
    if version == 4:
        os.environ["S3_USE_SIGV4"] = "True"
    s3 = boto.s3.connection.S3Connection(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], is_secure=False,
                                         host=endpoint.hostname, port=endpoint.port,
                                         calling_format=boto.s3.connection.OrdinaryCallingFormat())
    s3.auth_region_name = "us-east-1"   # otherwise taken from AWS's host names
    bucket = s3.create_bucket(f"boto-{version}")
    key = bucket.new_key("dir/a key")
    key.set_metadata("a", "b")
    key.set_contents_from_string("hello", headers={"Content-Type": "text/plain"}, policy="public-read")
    assert bucket.get_key("dir/a key").get_contents_as_string() == b"hello"
    assert bucket.get_key("dir/a key").get_metadata("a") == "b"
    first = bucket.get_key("dir/a key").get_acl().acl.grants[0]
    assert (first.id, first.permission) == ("root", "FULL_CONTROL"), "the owner's grant comes first"
    tags = boto.s3.tagging.Tags()
    names = boto.s3.tagging.TagSet()
    names.add_tag("k", "v")
    tags.add_tag_set(names)
    assert bucket.set_tags(tags)
    assert bucket.get_tags()[0][0].value == "v"

    piece = b"0123456789abcdef" * (5 << 16)
    upload = bucket.initiate_multipart_upload("large")
    for number, data in enumerate((piece, piece, b"tail"), 1):
        upload.upload_part_from_file(io.BytesIO(data), number)
    upload.complete_upload()
    assert bucket.get_key("large").get_contents_as_string() == piece + piece + b"tail"
    bucket.copy_key("copy", bucket.name, "dir/a key")
    assert [one.name for one in bucket.list("dir/")] == ["dir/a key"]
    if version == 2:   # in URLs of version 4 it signs the port twice
        assert urllib.request.urlopen(bucket.get_key("copy").generate_url(60)).read() == b"hello"
    assert bucket.get_key("none") is None
    assert not bucket.delete_keys([one.name for one in bucket.list()]).errors
    bucket.delete()


round_trip(2)
round_trip(4)
print("ok")
