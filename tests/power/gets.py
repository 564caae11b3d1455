"""GETs by one kept connection, signed here: a cut reads some sixty objects, and boto3 spends most of a cut's time on them.
"""
import datetime
import hashlib
import hmac
import http.client
import sys
import pathlib
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY  # noqa: E402

REGION, PAYLOAD = "us-east-1", "UNSIGNED-PAYLOAD"
SIGNED = "host;x-amz-content-sha256;x-amz-date"


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Gets:
    def __init__(self, endpoint):
        self.host = urllib.parse.urlsplit(endpoint).netloc
        self.connection = http.client.HTTPConnection(self.host, timeout=60)
        self.day, self.key = None, None

    def signature(self, path, query, now):
        day = now[:8]
        if day != self.day:
            self.day, self.key = day, mac(("AWS4" + SECRET_KEY).encode(), day)
            for word in (REGION, "s3", "aws4_request"):
                self.key = mac(self.key, word)
        asked = "\n".join(["GET", path, query, f"host:{self.host}", f"x-amz-content-sha256:{PAYLOAD}", f"x-amz-date:{now}", "",
                           SIGNED, PAYLOAD])
        scope = f"{day}/{REGION}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
        return f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={SIGNED}, Signature={mac(self.key, text).hex()}"

    def get(self, bucket, key, version=None):
        """(status, ETag, body)"""
        path = urllib.parse.quote(f"/{bucket}/{key}", safe="/~")
        query = f"versionId={urllib.parse.quote(version, safe='~')}" if version else ""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        headers = {"x-amz-content-sha256": PAYLOAD, "x-amz-date": now, "Authorization": self.signature(path, query, now)}
        self.connection.request("GET", f"{path}?{query}" if query else path, headers=headers)
        reply = self.connection.getresponse()
        return reply.status, reply.getheader("ETag"), reply.read()
