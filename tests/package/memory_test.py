#!/usr/bin/python3
"""The store for tests as users get it: deploy/ci's job, and the npm package (packed, unpacked, used; not published).

usage: memory_test.py ci | npm
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from verbena_server import program  # noqa: E402

CI = ROOT / "deploy" / "ci"
RESIDENT_MAX = 40_000_000
READ_MAX = 1_000_000  # bytes at a start: libfabric's search for RDMA devices reads 5 MB of the kernel's symbols
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("VERBENA_", "AWS_", "GITHUB_"))}


def wait_for_end(pid):
    subprocess.run(["tail", f"--pid={pid}", "-s", "0.05", "-f", "/dev/null"], check=True, timeout=30)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="verbena-memory-")
        self.addCleanup(folder.cleanup)
        self.base = pathlib.Path(folder.name)
        (self.base / "seed" / "fixtures").mkdir(parents=True)
        (self.base / "seed" / "fixtures" / "hello.txt").write_text("hello")

    def read_fixture(self, variables):
        env = {**CLEAN, **variables}
        done = subprocess.run([program(), "get", "s3://fixtures/hello.txt", "-", "--via", "http"], env=env, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, b"hello"), done.stderr.decode())


class Ci(Folder):
    def variables(self, text):
        return dict(line.split("=", 1) for line in text.splitlines())

    def test_the_action_starts_a_server_that_later_steps_find(self):
        action = yaml.safe_load((CI / "action.yml").read_text())
        self.assertEqual(action["runs"]["using"], "composite")
        step = next(step for step in action["runs"]["steps"] if "start.sh" in step["run"])
        values = {name: item["default"] for name, item in action["inputs"].items()}
        values.update(buckets="one two", seed=str(self.base / "seed"), region="eu-test-1")
        env = {}
        for name, text in step["env"].items():
            for known, value in values.items():
                text = text.replace("${{ inputs.%s }}" % known, value)
            self.assertNotIn("${{", text)
            env[name] = text
        github = self.base / "github_env"
        subprocess.run(["bash", "-e", "-c", step["run"]], check=True, timeout=60, cwd=self.base,
                       env={**CLEAN, **env, "GITHUB_ENV": str(github), "GITHUB_ACTION_PATH": str(CI), "RUNNER_TEMP": str(self.base),
                            "PROGRAM": program()})
        found = self.variables(github.read_text())
        self.addCleanup(lambda: wait_for_end(found["S3_TEST_SERVER_PID"]))
        self.addCleanup(os.kill, int(found["S3_TEST_SERVER_PID"]), signal.SIGTERM)
        self.assertEqual(found["AWS_REGION"], "eu-test-1")
        self.read_fixture(found)
        listed = subprocess.run([program(), "ls", "--via", "http"], env={**CLEAN, **found}, capture_output=True, text=True, timeout=60)
        for bucket in ("one", "two", "fixtures"):
            self.assertIn(f"s3://{bucket}", listed.stdout)

    def test_the_gitlab_job_does_too(self):
        job = yaml.safe_load((CI / "gitlab.yml").read_text())[".verbena"]
        tools = self.base / "bin"
        tools.mkdir()
        (tools / "verbena-start.sh").symlink_to(CI / "start.sh")
        (tools / "verbena").symlink_to(program())
        variables = {**job["variables"], "VARIABLES_FILE": str(self.base / "variables"),
                     "S3_TEST_SERVER_FLAGS": f"--seed {self.base}/seed"}
        script = "\n".join([*job["before_script"], "verbena get s3://fixtures/hello.txt - --via http", *job["after_script"]])
        done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, timeout=60, cwd=self.base,
                              env={**CLEAN, **variables, "PATH": f"{tools}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("hello", done.stdout)
        wait_for_end(self.variables((self.base / "variables").read_text())["S3_TEST_SERVER_PID"])

    def test_a_server_that_cannot_start_fails_the_job_and_says_why(self):
        done = subprocess.run([str(CI / "start.sh"), "--seed", str(self.base / "nothing")], capture_output=True, text=True, timeout=60,
                              env={**CLEAN, "PROGRAM": program(), "LOG": str(self.base / "log")})
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing", done.stderr)


    def test_a_small_arena_makes_a_small_server_that_leaves_nothing_behind(self):
        home = self.base / "home"
        home.mkdir()
        process = subprocess.Popen([program(), "server", "--memory", "--print-ready", "--http", "127.0.0.1:0", "--rdma", "127.0.0.1:0", "--set",
                                    "arena_size=16MiB"], env={**CLEAN, "HOME": str(home), "TMPDIR": str(home)}, cwd=home,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self.assertEqual(json.loads(process.stdout.readline())["pid"], process.pid)
            read = int(re.search(r"^rchar: (\d+)$", pathlib.Path(f"/proc/{process.pid}/io").read_text(), re.M).group(1))
            pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        finally:
            process.terminate()
            process.wait(30)
            process.stdout.close()
        resident = pages * os.sysconf("SC_PAGE_SIZE")
        print(f"resident: {resident / 1e6:.1f} MB")
        self.assertLess(resident, RESIDENT_MAX)
        if not list(pathlib.Path("/sys/class").glob("infiniband/*")):
            self.assertLess(read, READ_MAX)
        self.assertEqual(list(home.iterdir()), [])


class Npm(Folder):
    def test_the_packed_package_serves_a_program_that_uses_it(self):
        out = self.base / "out"
        subprocess.run([str(ROOT / "tools/npm.sh"), program(), str(out)], check=True, capture_output=True, timeout=120)
        packed = next(out.glob("verbena-server-*.tgz"))
        print(f"{packed.name}: {packed.stat().st_size / 1e6:.1f} MB")
        user = self.base / "user"
        user.mkdir()
        (user / "package.json").write_text('{"name": "user", "private": true}')
        subprocess.run(["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", str(packed)], cwd=user, check=True,
                       timeout=120, capture_output=True)
        (user / "use.js").write_text("""
const { start } = require('verbena-server');
(async () => {
  const server = await start({ buckets: ['made'], seed: process.argv[2], region: 'eu-test-1' });
  console.log(JSON.stringify(server));
  await new Promise((resolve) => process.stdin.once('data', resolve));
  const { code } = await server.stop();
  process.exit(code);
})();
""")
        child = subprocess.Popen(["node", "use.js", str(self.base / "seed")], cwd=user, env=CLEAN, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        ready = json.loads(child.stdout.readline())
        self.assertEqual(ready["region"], "eu-test-1")
        self.read_fixture({"AWS_ENDPOINT_URL": ready["endpoint"], "AWS_ACCESS_KEY_ID": ready["accessKeyId"],
                           "AWS_SECRET_ACCESS_KEY": ready["secretAccessKey"], "AWS_REGION": ready["region"]})
        child.communicate("stop\n", timeout=60)
        self.assertEqual(child.returncode, 0)
        version = subprocess.run(["npx", "--offline", "verbena", "--version"], cwd=user, env=CLEAN, capture_output=True, text=True, timeout=60)
        self.assertRegex(version.stdout, r"^verbena \d")

    def test_a_server_that_cannot_start_rejects(self):
        layout = self.base / "layout"
        shutil.copytree(ROOT / "deploy/npm", layout)
        (layout / "program").mkdir()
        (layout / "program" / "verbena").symlink_to(program())
        script = f"require({json.dumps(str(layout))}).start({{seed: '/nonexistent'}}).catch((e) => {{ console.log(e.message); process.exit(7) }})"
        done = subprocess.run(["node", "-e", script], env=CLEAN, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("nonexistent", done.stdout)


if sys.argv[1] == "npm" and not shutil.which("npm"):
    print("no npm on this machine")
    sys.exit(77)
CHOSEN = {"ci": Ci, "npm": Npm}[sys.argv.pop(1)]
for unchosen in {Ci, Npm} - {CHOSEN}:
    del globals()[unchosen.__name__]
del Folder, unchosen
unittest.main(verbosity=2, defaultTest=CHOSEN.__name__)
