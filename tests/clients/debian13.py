#!/usr/bin/python3
"""By hand: the wheel on Debian 13, whose torch has torch.distributed.checkpoint, with that release's own Python, torch,
boto3 and pandas. Runs the Python client's tests, with the S3 tests plain and accelerated, against the server of `./dev
package`'s packages for it. mmdebstrap makes a chroot in a temporary folder (1.3 GB, from Debian's mirror; eight minutes
with the tests, as root), which is removed at the end.

usage: tests/clients/debian13.py WHEEL PACKAGES [TEST...] [--mirror URL]
as in: debian13.py build/wheel/verbena-*.whl build-package/trixie [python_test ...]
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ("python_test", "python_fsspec_test", "python_misuse_test", "python_torch_test", "python_checkpoint_test", "python_boto_test",
         "python_pytest_test", "python_s3_test")
WANTED = ("awscli", "ca-certificates", "procps", "python3-boto3", "python3-dask", "python3-fsspec", "python3-numpy", "python3-pandas", "python3-pip",
          "python3-pytest", "python3-torch", "python3-venv")
# Run in the chroot: /proc and /dev are of a mount namespace that ends with it.
MOUNTED = 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$@"'
INSTALL = """
apt-get update -qq
apt-get install -y -qq --no-install-recommends /given/verbena_*.deb /given/libverbena0_*.deb >/dev/null
python3 -m venv --system-site-packages /venv
/venv/bin/pip install -q --no-index /given/verbena-*.whl
# The package as the tests take it: a folder, without what tells pytest of its plugin.
mkdir /package
cd /venv/lib/python3*/site-packages
cp -r verbena* pytest_verbena.py /package/
rm -rf /package/*.dist-info
python3 -c 'import sys, torch, boto3, numpy; print(sys.version.split()[0], "torch", torch.__version__, "boto3", boto3.__version__, "numpy", numpy.__version__)'
"""


def inside(folder, *command, env=None):
    return subprocess.run(["unshare", "--mount", "sh", "-c", MOUNTED, "sh", folder, *command], stdin=subprocess.DEVNULL,
                          env={"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", **(env or {})}).returncode


def make(folder, mirror, given):
    subprocess.run(["mmdebstrap", "--mode=root", "--variant=apt", f"--include={','.join(WANTED)}", "--aptopt=APT::Install-Recommends \"false\"",
                    "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*", "trixie", folder, mirror],
                   check=True, stdin=subprocess.DEVNULL)
    for file in given:
        (pathlib.Path(folder) / "given").mkdir(exist_ok=True)
        shutil.copy(file, pathlib.Path(folder) / "given")
    for part in ("tests", "clients", "docs", "README.md"):
        here, there = ROOT / part, pathlib.Path(folder) / "source" / part
        there.parent.mkdir(exist_ok=True)
        shutil.copytree(here, there, symlinks=True) if here.is_dir() else shutil.copy(here, there)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("wheel", type=pathlib.Path)
    arguments.add_argument("packages", type=pathlib.Path)
    arguments.add_argument("tests", nargs="*", default=TESTS)
    arguments.add_argument("--mirror", default="http://deb.debian.org/debian")
    given = arguments.parse_args()
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        print("SKIPPED: needs root and mmdebstrap")
        return 77
    packages = [*given.packages.glob("verbena_*.deb"), *given.packages.glob("libverbena0_*.deb")]
    if len(packages) != 2 or not given.wheel.is_file():
        sys.exit("no wheel, or no packages for Debian 13 (./dev wheel; ./dev package --test makes them)")
    failed = []
    with tempfile.TemporaryDirectory(prefix="verbena-trixie-", dir="/var/tmp") as folder:
        make(folder, given.mirror, [given.wheel, *packages])
        if inside(folder, "sh", "-euc", INSTALL) != 0:
            sys.exit("the packages or the wheel do not install")
        for test in given.tests:
            print(f"== {test}", flush=True)
            if inside(folder, "python3", f"/source/tests/clients/{test}.py", env={"VERBENA": "/usr/bin/verbena", "CLIENT_PYTHON": "/package"}) != 0:
                failed.append(test)
    print("failed: " + ", ".join(failed) if failed else f"{len(given.tests)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
