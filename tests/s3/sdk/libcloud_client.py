"""Apache Libcloud's S3 driver. Prints "ok"."""
import io
import os
import sys
import tempfile
import urllib.parse

from libcloud.storage.drivers.s3 import S3StorageDriver
from libcloud.storage.types import ObjectDoesNotExistError

endpoint = urllib.parse.urlsplit(sys.argv[1])


driver = S3StorageDriver(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], secure=False, host=endpoint.hostname,
                         port=endpoint.port, region="us-east-1")
container = driver.create_container("libcloud")
small = driver.upload_object_via_stream(io.BytesIO(b"hello"), container, "dir/a key",
                                        extra={"content_type": "text/plain", "meta_data": {"a": "b"}})
assert b"".join(driver.download_object_as_stream(small)) == b"hello"
assert driver.get_object("libcloud", "dir/a key").meta_data["a"] == "b"
large = b"0123456789abcdef" * (11 << 16)   # 11 MiB, sent in parts
driver.upload_object_via_stream((large[at:at + 65536] for at in range(0, len(large), 65536)), container, "large")
with tempfile.TemporaryDirectory() as folder:
    back = os.path.join(folder, "back")
    assert driver.download_object(driver.get_object("libcloud", "large"), back)
    with open(back, "rb") as file:
        assert file.read() == large
    assert driver.download_object_range(small, os.path.join(folder, "range"), 1, 4)
    with open(os.path.join(folder, "range"), "rb") as file:
        assert file.read() == b"ell"
    file_object = driver.upload_object(back, container, "from a file", verify_hash=True)
    assert file_object.size == len(large)
assert [one.name for one in driver.iterate_container_objects(container, prefix="dir/")] == ["dir/a key"]
try:
    driver.get_object("libcloud", "none")
    raise SystemExit("an object that is not there was found")
except ObjectDoesNotExistError:
    pass
for one in driver.iterate_container_objects(container):
    assert driver.delete_object(one)
assert driver.delete_container(container)
print("ok")
