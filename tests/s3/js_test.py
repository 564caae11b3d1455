#!/usr/bin/python3
"""The JavaScript SDKs: @aws-sdk/client-s3 and minio, from npm, installed into the cache by `./dev setup`.

Without npm, or if its registry was unreachable, the test skips with exit code 77.
usage: js_test.py aws_sdk|minio
"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server, client_environment  # noqa: E402

SKIP = 77


def modules():
    cache = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache" / "verbena")
    return cache / "js"


def main():
    script = HERE / "js" / f"{sys.argv[1]}.mjs"
    folder = modules()
    if shutil.which("node") is None or not (folder / ".complete").exists():
        print(f"SKIPPED: no node, or no packages in {folder} (./dev setup installs them where npm is)")
        return SKIP
    # Modules are resolved from the script's folder: it must be beside their node_modules.
    placed = folder / script.name
    shutil.copyfile(script, placed)
    with Server(args=["--set", "encryption.kms_keys=of-logs,another"]) as server:
        done = subprocess.run(["node", str(placed), server.http, ACCESS_KEY, SECRET_KEY], env=client_environment(folder),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if done.returncode != 0 or done.stdout.strip() != "ok":
            print(done.stdout, done.stderr, server.log(), sep="\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
