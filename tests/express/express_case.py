"""Requests in a session of a directory bucket, signed by hand with botocore's signer: Debian 12's boto3 has no
sessions."""
import http.client
import json
import pathlib
import re
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY  # noqa: E402

from botocore.auth import S3SigV4Auth  # noqa: E402
from botocore.awsrequest import AWSRequest  # noqa: E402
from botocore.credentials import Credentials  # noqa: E402

ZONE = "local1-az1"
DOCUMENT = ("<CreateBucketConfiguration><Location><Name>{}</Name><Type>AvailabilityZone</Type></Location><Bucket>"
            "<DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket></CreateBucketConfiguration>")


class Answer:
    def __init__(self, reply):
        self.status, self.headers = reply.status, {k.lower(): v for k, v in reply.getheaders()}
        self.body = reply.read()

    def element(self, name):
        found = re.search(f"<{name}>(.*?)</{name}>", self.body.decode(errors="replace"), re.S)
        return found.group(1) if found else None

    @property
    def code(self):
        return self.element("Code")


class Express:
    """One connection. `session`: (access key, secret key, token), or None for long-term keys."""

    def __init__(self, endpoint, session=None, service="s3express", keys=(ACCESS_KEY, SECRET_KEY)):
        self.endpoint, self.session, self.service, self.keys = endpoint, session, service, keys
        self.host = urllib.parse.urlsplit(endpoint).netloc
        self.connection = http.client.HTTPConnection(self.host, timeout=30)

    def signed(self, method, path, body=b"", headers=(), host=None):
        request = AWSRequest(method=method, url=self.endpoint + path, data=body, headers=dict(headers))
        request.headers["host"] = host or self.host
        access, secret = self.session[:2] if self.session else self.keys
        if self.session:
            request.headers["x-amz-s3session-token"] = self.session[2]
        S3SigV4Auth(Credentials(access, secret), self.service, "us-east-1").add_auth(request)
        return dict(request.headers.items())

    def call(self, method, path, body=b"", headers=(), host=None):
        body = body.encode() if isinstance(body, str) else body
        headers = self.signed(method, path, body, headers, host)
        for attempt in (1, 2):
            try:
                self.connection.request(method, path, body=body, headers=headers)
                return Answer(self.connection.getresponse())
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.connection.close()
                if attempt == 2:
                    raise

    def make_bucket(self, bucket):
        answer = self.call("PUT", f"/{bucket}", DOCUMENT.format(ZONE))
        assert answer.status == 200, answer.body

    def open_session(self, bucket, mode="ReadWrite"):
        """A client in a session."""
        answer = self.call("GET", f"/{bucket}?session", headers={"x-amz-create-session-mode": mode})
        assert answer.status == 200, answer.body
        return Express(self.endpoint, (answer.element("AccessKeyId"), answer.element("SecretAccessKey"),
                                       answer.element("SessionToken")))


def iam_call(endpoint, action, **arguments):
    body = urllib.parse.urlencode({"Action": action, "Version": "2010-05-08", **arguments})
    answer = Express(endpoint, service="iam").call("POST", "/", body, {"content-type": "application/x-www-form-urlencoded"})
    assert answer.status == 200, answer.body
    return answer


def make_user(endpoint, name, policy):
    """The keys of a new user of the root's account with this policy (an object)."""
    iam_call(endpoint, "CreateUser", UserName=name)
    iam_call(endpoint, "PutUserPolicy", UserName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
    made = iam_call(endpoint, "CreateAccessKey", UserName=name)
    return made.element("AccessKeyId"), made.element("SecretAccessKey")
