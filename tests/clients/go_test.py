#!/usr/bin/python3
"""The Go client: go vet, its tests under the race detector, docs/go.md from top to bottom in a module outside of the
repository, and minio-go and aws-sdk-go over its transport.

usage: go_test.py LIBRARY_FOLDER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client  # noqa: E402

LIBRARIES = pathlib.Path("/usr/share/gocode/src")


def block(kind, number=0):
    return re.findall(rf"^```{kind}\n(.*?)^```", (ROOT / "docs" / "go.md").read_text(), re.S | re.M)[number]


def shell_of_page(libraries):
    """The page's shell commands, with this build's folder."""
    return block("sh").replace("$(realpath ../verbena)", str(ROOT)).replace("$verbena/build/lib", str(libraries))


def follow_the_page(run, server, folder):
    """The page's module, outside of the repository."""
    outside = pathlib.Path(folder) / "hello"
    outside.mkdir()
    (outside / "go.mod").write_text(block("").replace("../verbena/", f"{ROOT}/"))
    (outside / "main.go").write_text(block("go").replace("127.0.0.1:9100", server.native).replace("http://127.0.0.1:9000", server.http))
    return run(outside)


def main():
    go = shutil.which("go")
    if go is None:
        print("skipped: no Go")
        sys.exit(77)
    libraries = pathlib.Path(sys.argv[1]).resolve()
    cache = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache" / "verbena") / "go"
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    env.update(GO111MODULE="on", GOFLAGS="-mod=mod", GOPROXY="off", GOCACHE=str(cache / "cache"), CGO_ENABLED="1",
               CGO_CFLAGS=f"-O2 -g -I{ROOT / 'include'}", CGO_LDFLAGS=f"-L{libraries} -Wl,-rpath,{libraries}")

    def run(*command, cwd, **more):
        done = subprocess.run(command, cwd=cwd, env=dict(env, **more), capture_output=True, text=True, timeout=900)
        print(done.stdout, done.stderr, sep="")
        assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}"
        return done.stdout

    module = ROOT / "clients" / "go"
    # A small limit for watches, so that an unread one soon has a gap.
    with Server(args=["--set", "rdma.watch_bytes_max=1MiB"]) as server, tempfile.TemporaryDirectory() as folder:
        s3 = boto3_client(server.http)
        s3.create_bucket(Bucket="go-example")
        s3.close()
        own = {"AWS_ENDPOINT_URL": server.http, "VERBENA_NATIVE": server.native, "AWS_ACCESS_KEY_ID": ACCESS_KEY,
               "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "VERBENA_SERVER_PID": str(server.process.pid)}
        assert not run("gofmt", "-l", "rdma", cwd=module).strip(), "gofmt would change these"
        run(go, "vet", "./...", cwd=module)
        run(go, "test", "-race", "-count=1", "./...", cwd=module, **own)

        with Server() as doomed:
            run(go, "test", "-race", "-count=1", "-run", "TestAServerThatDies", "-v", "./...", cwd=module,
                **{**own, "AWS_ENDPOINT_URL": doomed.http, "VERBENA_NATIVE": doomed.native, "VERBENA_SERVER_PID": str(doomed.process.pid), "VERBENA_MAY_KILL": "1"})
            doomed.kill()

        certificate, key = f"{folder}/cert.pem", f"{folder}/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "1",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        plain = ["--set", f"tls.certificate={certificate}", "--set", f"tls.key={key}", "--set", "rdma.tcp_encryption=off"]
        with Server(memory=True, args=plain) as secret:
            run(go, "test", "-count=1", "-run", "TestATransport", "-v", "./...", cwd=module,
                **{**own, "AWS_ENDPOINT_URL": secret.http, "VERBENA_NATIVE": secret.native, "VERBENA_CA_FILE": certificate})

        def type_it(where):
            return run("sh", "-c", shell_of_page(libraries), cwd=where, GOFLAGS="", CGO_CFLAGS="", CGO_LDFLAGS="", **own)
        said = follow_the_page(type_it, server, folder)
        assert said.strip() == "Hello, RDMA! by native local", said

        path = pathlib.Path(folder) / "path"
        (path / "src").mkdir(parents=True)
        (path / "src" / "verbena").symlink_to(module)
        for needs, program in (("github.com/minio/minio-go/v7", "minio_transport.go"), ("github.com/aws/aws-sdk-go", "aws_transport.go")):
            if (LIBRARIES / needs).is_dir():
                run(go, "run", str(HERE / "go" / program), cwd=folder, GO111MODULE="off", GOFLAGS="", GOPATH=f"{path}:/usr/share/gocode", **own)


main()
