#!/usr/bin/python3
"""By hand: Debian 13's own boto3 against a server, on loopback. mmdebstrap makes a chroot of that release in a
temporary folder (200 MB from Debian's mirror, a few minutes, as root), which is removed at the end.

usage: tests/express/boto3_debian13.py [--chroot FOLDER] [--mirror URL]     --chroot: an existing one, which is kept
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402


def make(folder, mirror):
    subprocess.run(["mmdebstrap", "--mode=root", "--variant=minbase", "--include=python3-boto3",
                    "--aptopt=APT::Install-Recommends \"false\"", "trixie", folder, mirror], check=True, stdin=subprocess.DEVNULL)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--chroot")
    arguments.add_argument("--mirror", default="http://deb.debian.org/debian")
    given = arguments.parse_args()
    if os.geteuid() != 0 or not (given.chroot or shutil.which("mmdebstrap")):
        print("SKIPPED: needs root and mmdebstrap")
        return 0
    with tempfile.TemporaryDirectory(prefix="verbena-trixie-", dir="/var/tmp") as own:
        if not given.chroot:
            make(own, given.mirror)
        with Server() as server:
            env = {"AWS_ENDPOINT_URL": server.http, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                   "HOME": "/", "PATH": "/usr/bin:/bin"}
            program = (HERE / "boto3_express.py").read_bytes()
            return subprocess.run(["/usr/sbin/chroot", given.chroot or own, "/usr/bin/python3", "-"], input=program, env=env, timeout=300).returncode


if __name__ == "__main__":
    sys.exit(main())
