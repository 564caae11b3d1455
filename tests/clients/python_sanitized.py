#!/usr/bin/python3
"""The Python client's tests with its extension under the address and undefined-behaviour sanitizers, on a debug build of Python where there is one.
Without a name: all of them.

usage: python_sanitized.py BUILD_FOLDER [TEST...]
"""
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TESTS = ("python_test.py", "python_misuse_test.py", "python_fsspec_test.py", "python_boto_test.py")
FLAGS = ["-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-shared", "-fPIC",
         "-DPy_LIMITED_API=0x030b0000", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Wno-cast-function-type", "-Werror"]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if shutil.which("gcc") is None:
        print("skipped: no gcc")
        sys.exit(77)
    interpreter = shutil.which("python3-dbg") or "/usr/bin/python3"
    with tempfile.TemporaryDirectory(prefix="verbena-sanitized-") as folder:
        package = pathlib.Path(folder) / "verbena"
        shutil.copytree(build / "python" / "verbena", package)
        include = sysconfig.get_paths(vars={"base": "/usr"})["include"]
        subprocess.run(["gcc", *FLAGS, f"-I{ROOT / 'include'}", f"-I{include}", *map(str, (ROOT / "clients/python/src").glob("*.c")),
                        "-o", str(package / "_native.abi3.so"), f"-L{build / 'lib'}", "-lverbena", f"-Wl,-rpath,{build / 'lib'}"], check=True)
        preload = [subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
                   for name in ("libasan.so", "libubsan.so", "libstdc++.so")]
        # The test's programs, the server among them, run without it: only the interpreter needs it.
        env = dict(os.environ, CLIENT_PYTHON=folder, VERBENA=str(build / "verbena"), PYTHONMALLOC="malloc",
                   ASAN_OPTIONS="detect_leaks=0:abort_on_error=0:exitcode=99:allocator_may_return_null=1",
                   UBSAN_OPTIONS="print_stacktrace=1", LD_PRELOAD=":".join(preload))
        for test in sys.argv[2:] or TESTS:
            done = subprocess.run([interpreter, str(HERE / test)], env=env, capture_output=True, text=True, timeout=580)
            print(f"{test} on {interpreter}: {done.returncode}", *done.stderr.strip().splitlines()[-3:], sep="\n  ")
            if done.returncode != 0:
                sys.exit(f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}")


main()
