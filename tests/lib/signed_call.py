"""Signed requests that boto3 has no name for, to a server of the tests."""
import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.httpsession

from verbena_server import ACCESS_KEY, SECRET_KEY


def call(server, method, path, body=b"", headers=None):
    """Status and text of the answer."""
    request = botocore.awsrequest.AWSRequest(method, server.http + path, data=body, headers=headers)
    keys = botocore.credentials.Credentials(ACCESS_KEY, SECRET_KEY)
    botocore.auth.S3SigV4Auth(keys, "s3", "us-east-1").add_auth(request)
    return sent(request)


def sent(request):
    session = botocore.httpsession.URLLib3Session()
    answer = session.send(request.prepare())
    session.close()
    return answer.status_code, answer.text
