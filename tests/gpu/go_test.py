#!/usr/bin/python3
"""The Go client and the memory of a device, over the double of the driver.

usage: go_test.py LIBRARY_FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402

MODULE = "module device\n\ngo 1.19\n\nrequire verbena v0.0.0\n\nreplace verbena => {}\n"


def main():
    go = shutil.which("go")
    if go is None:
        print("skipped: no Go")
        sys.exit(77)
    libraries = pathlib.Path(sys.argv[1]).resolve()
    cache = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache" / "verbena") / "go"
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, GO111MODULE="on", GOFLAGS="-mod=mod", GOPROXY="off", GOCACHE=str(cache / "cache"), CGO_ENABLED="1",
                   CGO_CFLAGS=f"-O2 -g -I{ROOT / 'include'}", CGO_LDFLAGS=f"-L{libraries} -Wl,-rpath,{libraries} -ldl",
                   AWS_ENDPOINT_URL=server.http, VERBENA_NATIVE=server.native, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY)
        pathlib.Path(folder, "go.mod").write_text(MODULE.format(ROOT / "clients" / "go"))
        shutil.copy(HERE / "go" / "device.go", pathlib.Path(folder, "main.go"))
        done = subprocess.run([go, "run", "."], cwd=folder, env=env, capture_output=True, text=True, timeout=280)
        print(done.stdout, done.stderr, sep="")
        assert done.returncode == 0 and done.stdout.strip().endswith("all bytes are right"), done.returncode


main()
