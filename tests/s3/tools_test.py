#!/usr/bin/python3
"""Tools in real use: a tree synchronised, mounted and edited, backed up and restored.

usage: tools_test.py aws|s3cmd|rclone|s3fs|restic
s3fs needs /dev/fuse and the right to mount; otherwise the test skips with exit code 77.
"""
import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, client_environment, tool  # noqa: E402

BUCKET = "tool-bucket"
SKIP = 77
MIB = 1024 * 1024


class Skip(Exception):
    pass


class Bench:
    """One server, one bucket, a tree of files, and a way to run programs."""

    def __init__(self, server, home):
        self.endpoint, self.home = server.http, pathlib.Path(home)
        self.env = client_environment(home)
        self.s3 = boto3_client(server.http)
        self.s3.create_bucket(Bucket=BUCKET)
        self.tree, self.back = self.home / "tree", self.home / "back"
        self.grow()

    def grow(self):
        for index in range(30):
            path = self.tree / f"dir {index % 3}" / "sub+folder" / f"file-{index:02} \u00e9.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(index * 1000))
        (self.tree / "big.bin").write_bytes(os.urandom(18 * MIB))
        (self.tree / "empty").touch()

    def change(self):
        """An edit, an addition, a removal."""
        time_ahead = time.time() + 5   # a changed file must be newer, whatever the clock's resolution
        edited = self.tree / "big.bin"
        edited.write_bytes(os.urandom(17 * MIB))
        os.utime(edited, (time_ahead, time_ahead))
        (self.tree / "new file").write_bytes(b"new")
        (self.tree / "empty").unlink()

    def run(self, *command, stdin=None):
        done = subprocess.run([str(c) for c in command], env=self.env, capture_output=True, timeout=300,
                              **({"input": stdin} if stdin else {"stdin": subprocess.DEVNULL}))
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout.decode()}\n{done.stderr.decode()}"
        return done.stdout.decode()

    def keys(self):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {o["Key"] for page in pages for o in page.get("Contents", []) if not o["Key"].endswith("/")}

    def local(self, folder):
        return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}

    def check_same(self, left, right):
        assert self.local(left) == self.local(right), (self.local(left) ^ self.local(right))
        for name in self.local(left):
            assert filecmp.cmp(left / name, right / name, shallow=False), f"{name}: bytes differ"

    def synchronise(self, up, down):
        """Upload, the same again, upload after a change, download into an empty folder."""
        up()
        assert self.keys() == self.local(self.tree)
        before = {key: self.s3.head_object(Bucket=BUCKET, Key=key)["LastModified"] for key in list(self.keys())[:3]}
        up()
        after = {key: self.s3.head_object(Bucket=BUCKET, Key=key)["LastModified"] for key in before}
        assert before == after, "a second run without a change sent something again"
        self.change()
        up()
        assert self.keys() == self.local(self.tree)
        self.back.mkdir()
        down()
        self.check_same(self.tree, self.back)


def aws(bench):
    def sync(source, target):
        bench.run(tool("aws"), "--endpoint-url", bench.endpoint, "s3", "sync", "--delete", "--no-progress", source, target)
    bench.synchronise(lambda: sync(bench.tree, f"s3://{BUCKET}"), lambda: sync(f"s3://{BUCKET}", bench.back))


def s3cmd(bench):
    host = bench.endpoint.split("//")[1]
    config = bench.home / "s3cfg"
    config.write_text(f"[default]\naccess_key = {ACCESS_KEY}\nsecret_key = {SECRET_KEY}\nhost_base = {host}\n"
                      f"host_bucket = {host}\nuse_https = False\nbucket_location = us-east-1\n")
    def sync(source, target):
        bench.run(tool("s3cmd"), "-c", config, "--no-progress", "sync", "--delete-removed", f"{source}/", target)
    bench.synchronise(lambda: sync(bench.tree, f"s3://{BUCKET}/"), lambda: sync(f"s3://{BUCKET}", f"{bench.back}/"))
    bench.run(tool("s3cmd"), "-c", config, "del", "--recursive", "--force", f"s3://{BUCKET}/")
    assert bench.keys() == set()


def rclone(bench):
    prefix = "RCLONE_CONFIG_V_"
    bench.env.update({prefix + "TYPE": "s3", prefix + "PROVIDER": "Other", prefix + "ENDPOINT": bench.endpoint,
                      prefix + "ACCESS_KEY_ID": ACCESS_KEY, prefix + "SECRET_ACCESS_KEY": SECRET_KEY,
                      prefix + "REGION": "us-east-1", "RCLONE_CONFIG": str(bench.home / "rclone.conf")})
    def sync(source, target):
        bench.run(tool("rclone"), "--retries", "1", "sync", source, target)
    bench.synchronise(lambda: sync(bench.tree, f"v:{BUCKET}"), lambda: sync(f"v:{BUCKET}", bench.back))
    bench.run(tool("rclone"), "check", bench.tree, f"v:{BUCKET}", "--download")


def s3fs(bench):
    if not os.path.exists("/dev/fuse") or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Skip("no /dev/fuse")
    mount = bench.home / "mount"
    mount.mkdir()
    secret = bench.home / "passwd-s3fs"
    secret.touch(mode=0o600)
    secret.write_text(f"{ACCESS_KEY}:{SECRET_KEY}\n")
    command = [tool("s3fs"), BUCKET, mount, "-f", "-o", f"passwd_file={secret},url={bench.endpoint},use_path_request_style,"
               f"endpoint=us-east-1,tmpdir={bench.home},retries=1"]
    with open(bench.home / "s3fs.log", "wb") as log:
        process = subprocess.Popen([str(c) for c in command], env=bench.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while not os.path.ismount(mount):
            if process.poll() is not None:
                text = (bench.home / "s3fs.log").read_text()
                if "fuse" in text and ("ermitted" in text or "ermission" in text):
                    raise Skip(f"mounting is not allowed here: {text.strip()}")
                raise AssertionError(f"s3fs ended with {process.returncode}: {text}")
            assert time.monotonic() < deadline, "s3fs did not mount within 30 s"
            time.sleep(0.05)
        edit_mounted(bench, mount)
    finally:
        subprocess.run([shutil.which("fusermount3") or shutil.which("fusermount") or "umount", "-u", str(mount)],
                       capture_output=True, timeout=60)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def edit_mounted(bench, mount):
    (mount / "folder").mkdir()
    file = mount / "folder" / "notes.txt"
    file.write_text("one\n")
    with open(file, "a") as out:
        out.write("two\n")
    assert bench.s3.get_object(Bucket=BUCKET, Key="folder/notes.txt")["Body"].read() == b"one\ntwo\n"
    with open(file, "r+") as out:
        out.seek(4)
        out.write("2wo")
    assert file.read_text() == "one\n2wo\n"
    file.rename(mount / "folder" / "renamed.txt")
    os.chmod(mount / "folder" / "renamed.txt", 0o600)
    shutil.copyfile(bench.tree / "big.bin", mount / "big.bin")
    assert filecmp.cmp(bench.tree / "big.bin", mount / "big.bin", shallow=False)
    assert sorted(p.name for p in mount.rglob("*")) == ["big.bin", "folder", "renamed.txt"]
    bench.s3.put_object(Bucket=BUCKET, Key="from-outside", Body=b"seen")
    assert (mount / "from-outside").read_bytes() == b"seen"
    (mount / "folder" / "renamed.txt").unlink()
    (mount / "folder").rmdir()
    assert bench.keys() == {"big.bin", "from-outside"}


def restic(bench):
    bench.env.update(RESTIC_REPOSITORY=f"s3:{bench.endpoint}/{BUCKET}/backup", RESTIC_PASSWORD="x",
                     RESTIC_CACHE_DIR=str(bench.home / "cache"))
    run = lambda *arguments: bench.run(tool("restic"), "--quiet", *arguments)   # noqa: E731
    run("init")
    run("backup", bench.tree)
    bench.change()
    run("backup", bench.tree)
    run("check", "--read-data")
    run("restore", "latest", "--target", bench.back)
    bench.check_same(bench.tree, bench.back / bench.tree.relative_to("/"))
    run("forget", "--keep-last", "1", "--prune")
    run("check")


TOOLS = {f.__name__: f for f in (aws, s3cmd, rclone, s3fs, restic)}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in TOOLS:
        sys.exit(f"usage: tools_test.py {'|'.join(TOOLS)}")
    if not os.access(tool(sys.argv[1]), os.X_OK):
        sys.exit(f"{sys.argv[1]} is not installed: ./dev setup")
    with tempfile.TemporaryDirectory() as home, Server() as server:
        try:
            TOOLS[sys.argv[1]](Bench(server, home))
        except Skip as reason:
            print(f"SKIPPED: {reason}")
            return SKIP
        except Exception:
            print(server.log())
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
