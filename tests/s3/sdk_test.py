#!/usr/bin/python3
"""SDKs of other languages, one round trip each: small and large objects, parts, listings, presigned URLs, errors.

Where a release lacks the package the test skips with exit code 77.
usage: sdk_test.py aws_sdk_go|libs3|net_amazon_s3|aws_sdk_s3|fog_aws|libcloud|boto
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from go_program import build  # noqa: E402
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, client_environment, tool  # noqa: E402

SKIP = 77
MIB = 1024 * 1024


class Skip(Exception):
    pass


def run(command, env, **arguments):
    done = subprocess.run([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=240,
                          **arguments)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise AssertionError(f"{command} ended with {done.returncode}:\n{said[:2000]}\n...\n{said[-2000:]}")
    return done.stdout.decode(errors="replace")


def runs(command):
    """True if an interpreter has a library."""
    return shutil.which(command[0]) and subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def script(interpreter, file, probe, package):
    def test(endpoint, home):
        if not runs([interpreter, *probe]):
            raise Skip(f"no {package}")
        printed = run([interpreter, HERE / "sdk" / file, endpoint], client_environment(home))
        assert printed.strip().endswith("ok"), printed
    return test


def aws_sdk_go(endpoint, home):
    program = build(HERE / "sdk" / "aws_sdk_go.go", needs="github.com/aws/aws-sdk-go")
    if program is None:
        raise Skip("no golang-github-aws-aws-sdk-go-dev")
    assert run([program, endpoint], client_environment(home)).strip() == "ok"


def libs3(endpoint, home):
    """libs3's own program, which takes positional arguments."""
    if not os.access(tool("s3"), os.X_OK):
        raise Skip("no libs3-2")
    env = dict(client_environment(home), S3_ACCESS_KEY_ID=ACCESS_KEY, S3_SECRET_ACCESS_KEY=SECRET_KEY,
               S3_HOSTNAME=endpoint.split("//")[1])
    s3 = lambda *words: run([tool("s3"), "-u", *words], env)   # noqa: E731
    small, large, back = (pathlib.Path(home) / name for name in ("small", "large", "back"))
    small.write_bytes(b"hello")
    large.write_bytes(os.urandom(20 * MIB))   # above 15 MiB it is sent in parts
    s3("create", "libs3")
    s3("put", "libs3/dir/small", f"filename={small}", "contentType=text/plain", "x-amz-meta-a=b")
    s3("put", "libs3/large", f"filename={large}")
    for key, file in (("dir/small", small), ("large", large)):
        s3("get", f"libs3/{key}", f"filename={back}")
        assert back.read_bytes() == file.read_bytes(), key
        back.unlink()
    assert "x-amz-meta-a: b" in s3("head", "libs3/dir/small")
    s3("copy", "libs3/dir/small", "libs3/copy")
    assert "large" in s3("list", "libs3") and "dir/small" not in s3("list", "libs3", "prefix=la")
    for key in ("dir/small", "large", "copy"):
        s3("delete", f"libs3/{key}")
    s3("delete", "libs3")


PERL, RUBY, PYTHON = "/usr/bin/perl", "/usr/bin/ruby", "/usr/bin/python3"   # Debian's: they have Debian's libraries
SDKS = {
    "aws_sdk_go": aws_sdk_go,
    "libs3": libs3,
    "net_amazon_s3": script(PERL, "net_amazon_s3.pl", ["-MNet::Amazon::S3", "-e", "1"], "libnet-amazon-s3-perl"),
    "aws_sdk_s3": script(RUBY, "aws_sdk_s3.rb", ["-raws-sdk-s3", "-e", "1"], "ruby-aws-sdk-s3"),
    "fog_aws": script(RUBY, "fog_aws.rb", ["-rfog/aws", "-e", "1"], "ruby-fog-aws"),
    "libcloud": script(PYTHON, "libcloud_client.py", ["-c", "import libcloud"], "python3-libcloud"),
    "boto": script(PYTHON, "boto_client.py", ["-c", "import boto"], "python3-boto"),
}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in SDKS:
        sys.exit(f"usage: sdk_test.py {'|'.join(SDKS)}")
    with tempfile.TemporaryDirectory() as home, Server() as server:
        try:
            SDKS[sys.argv[1]](server.http, home)
        except Skip as reason:
            print(f"SKIPPED: this release has {reason}")
            return SKIP
        except Exception:
            print(server.log())
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
