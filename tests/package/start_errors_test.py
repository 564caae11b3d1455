#!/usr/bin/python3
"""Failing starts: one clear line, the exit code of docs/install.md, and nothing changed on disk."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, boto3_client, program  # noqa: E402

FAILURE, USAGE = 1, 2


def everything(folder):
    """Names, owners, modes and contents of all files in a folder."""
    out = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        about = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        out[str(path.relative_to(folder))] = (about.st_uid, about.st_mode, content)
    return out


class Refused(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-refused-")
        self.addCleanup(self.folder.cleanup)
        self.base = pathlib.Path(self.folder.name)
        self.base.chmod(0o755)
        self.data = self.base / "data"

    def start(self, *args, env=None, prefix=(), directory=None, http="127.0.0.1:0", binary=None):
        keys = {"VERBENA_ROOT_ACCESS_KEY": ACCESS_KEY, "VERBENA_ROOT_SECRET_KEY": SECRET_KEY}
        clean = {k: v for k, v in os.environ.items() if not k.startswith("VERBENA_")}
        return subprocess.run([*prefix, str(binary or program()), "server", str(directory or self.data), "--http", http, "--rdma",
                               "127.0.0.1:0", *args], env={**clean, **(keys if env is None else env)}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)

    def refused(self, done, code, *words):
        """The error: one line, which begins with the program's name; log lines may come before it."""
        self.assertEqual(done.returncode, code, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("verbena: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])
        self.assertEqual(done.stdout, "")

    def server(self):
        self.data.mkdir(0o700)
        return Server(directory=self.data)

    def store(self):
        """A stopped server's directory with an object."""
        with self.server() as server:
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="kept")
            s3.put_object(Bucket="kept", Key="k", Body=b"kept")
        return everything(self.data)

    def test_a_variable_of_the_clients_is_none_of_the_servers(self):
        self.data.mkdir(0o700)
        with Server(directory=self.data, env={"VERBENA_NATIVE": "127.0.0.1:1"}) as server:
            s3 = boto3_client(server.http)
            s3.create_bucket(Bucket="kept")
            s3.put_object(Bucket="kept", Key="k", Body=b"kept")
            env = {**os.environ, "AWS_ENDPOINT_URL": server.http, "VERBENA_NATIVE": server.native, "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                   "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
            got = subprocess.run([program(), "get", "--via", "native", "s3://kept/k", "-"], env=env, capture_output=True, timeout=60)
            self.assertEqual((got.returncode, got.stdout), (0, b"kept"), got.stderr)

    def test_a_wrong_key_names_file_line_and_the_nearest_key(self):
        config = self.base / "verbena.yaml"
        config.write_text("rdma:\n  prot: 9100\n")
        self.refused(self.start("--config", str(config)), USAGE, f"{config}:2:", "rdma.prot", "did you mean rdma.port?")
        self.assertFalse(self.data.exists())
        checked = subprocess.run([program(), "config", "--check", str(config)], capture_output=True, text=True, timeout=60)
        self.assertEqual(checked.returncode, USAGE)
        self.assertIn("did you mean rdma.port?", checked.stderr)

    def test_a_configuration_that_is_not_there(self):
        self.refused(self.start("--config", str(self.base / "none")), USAGE, "cannot read")
        self.assertFalse(self.data.exists())

    def test_secrets_come_from_files_and_a_line_break_at_their_end_is_none_of_theirs(self):
        access, secret = self.base / "access", self.base / "secret"
        access.write_text(ACCESS_KEY + "\n")
        secret.write_text(SECRET_KEY + "\r\n")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("VERBENA_ROOT")}
        server = self.server()
        server.env = {**clean, "VERBENA_ROOT_ACCESS_KEY_FILE": str(access), "VERBENA_ROOT_SECRET_KEY_FILE": str(secret)}
        with server:
            boto3_client(server.http).list_buckets()

    def test_a_secret_that_is_none_is_refused_and_not_shown(self):
        secret = self.base / "secret"
        files = {"VERBENA_ROOT_ACCESS_KEY": ACCESS_KEY, "VERBENA_ROOT_SECRET_KEY_FILE": str(secret)}
        self.refused(self.start(env=files), USAGE, "VERBENA_ROOT_SECRET_KEY_FILE", "No such file")
        secret.write_text("hush hush hush\nhush hush\n")
        done = self.start(env=files)
        self.refused(done, USAGE, "more than one line")
        self.assertNotIn("hush", done.stderr)
        broken = {"VERBENA_ROOT_ACCESS_KEY": ACCESS_KEY, "VERBENA_ROOT_SECRET_KEY": SECRET_KEY + "\n"}
        done = self.start(env=broken)
        self.refused(done, USAGE, "line break")
        self.assertNotIn(SECRET_KEY, done.stderr)
        self.refused(self.start(env={**broken, **files}), USAGE, "both set")
        self.assertFalse(self.data.exists())

    def test_two_servers_on_one_directory(self):
        with self.server() as first:
            self.refused(self.start(), FAILURE, "is in use by another server")
            boto3_client(first.http).list_buckets()

    def test_a_missing_device_is_named(self):
        before = self.store()
        self.refused(self.start("--set", "rdma.device_name=mlx5_9", "--set", "rdma.provider=verbs"), FAILURE, "rdma.device_name",
                     "no such RDMA device")
        self.assertEqual(everything(self.data), before)

    def test_a_port_that_another_program_has(self):
        before = self.store()
        with Server() as other:
            taken = other.http.removeprefix("http://")
            self.refused(self.start(http=taken), FAILURE, taken, "in use")
        self.assertEqual(everything(self.data), before)

    def test_an_older_program_leaves_a_newer_store_alone(self):
        self.store()
        version = self.data / "VERSION"
        head, _, _ = version.read_text().strip().rpartition(" ")
        version.write_text(f"{head} 999\n")
        before = everything(self.data)
        self.refused(self.start(), FAILURE, "newer")
        self.assertEqual(everything(self.data), before)

    @unittest.skipUnless(os.geteuid() == 0, "needs root: another user is what it is about")
    def test_a_directory_of_another_user(self):
        before = self.store()
        # Other users cannot enter /root, so a build below it is copied, with its library beside it.
        linked = subprocess.run(["ldd", program()], check=True, capture_output=True, text=True).stdout
        for file in (program(), re.search(r"libfabric\.so\.1 => (\S+)", linked).group(1)):
            shutil.copy(file, self.base)
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"LD_LIBRARY_PATH={self.base}"]
        self.refused(self.start(prefix=nobody, binary=self.base / pathlib.Path(program()).name), FAILURE, str(self.data), "Permission denied")
        self.assertEqual(everything(self.data), before)
        # Root could, and the store's own user could then not open the files that root had created.
        for path in [self.data, *self.data.rglob("*")]:
            os.lchown(path, 65534, 65534)
        before = everything(self.data)
        self.refused(self.start(), FAILURE, "belongs to user 65534", "this is user 0")
        self.assertEqual(everything(self.data), before)

    @unittest.skipUnless(os.geteuid() == 0, "needs root: it mounts")
    def test_a_volume_that_is_mounted_read_only(self):
        before = self.store()
        mounted = ["unshare", "--mount", "sh", "-c", f'mount --bind -o ro "{self.data}" "{self.data}" && exec "$@"', "sh"]
        self.refused(self.start(prefix=mounted), FAILURE, str(self.data), "Read-only file system")
        self.assertEqual(everything(self.data), before)

    @unittest.skipUnless(os.geteuid() == 0, "needs root: it mounts")
    def test_a_full_disk(self):
        self.store()
        # A copy on a file system that is full with it. It is checked before the unmount.
        other, after = self.base / "full", self.base / "after"
        other.mkdir()
        script = ('mount -t tmpfs -o size=64m,mode=0700 none "$2" && cp -a "$1/." "$2" && store=$2 after=$3; shift 3; '
                  'head -c 70000000 /dev/zero >"$store/fill" 2>/dev/null; "$@"; code=$?; '
                  'rm "$store/fill"; cp -a "$store" "$after"; exit $code')
        prefix = ["unshare", "--mount", "sh", "-c", script, "sh", str(self.data), str(other), str(after)]
        self.refused(self.start(prefix=prefix, directory=other), FAILURE, "No space left on device")
        # RocksDB may have begun files before the error; acknowledged data is untouched, and the next start has all of
        # it.
        with Server(directory=after) as server:
            self.assertEqual(boto3_client(server.http).get_object(Bucket="kept", Key="k")["Body"].read(), b"kept")


unittest.main(verbosity=2)
