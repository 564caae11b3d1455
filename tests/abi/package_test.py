#!/usr/bin/python3
"""An installed library is found by pkg-config and by CMake's find_package, and a program built that way runs.

usage: package_test.py BUILD_FOLDER
"""
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = '#include <stdio.h>\n#include <verbena/verbena.h>\nint main(void) { puts(verbena_version()); return 0; }\n'
PROJECT = """cmake_minimum_required(VERSION 3.20)
project(user C)
find_package(verbena 0.1 REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE verbena::verbena)
"""


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        place, user = pathlib.Path(folder) / "installed", pathlib.Path(folder) / "user"
        run("cmake", "--install", sys.argv[1], "--component", "library", "--prefix", str(place))
        libraries = next(place.glob("**/libverbena.so.0")).parent
        assert list(place.glob("**/man3/verbena.3")), "no man page"
        user.mkdir()
        (user / "user.c").write_text(PROGRAM)
        (user / "CMakeLists.txt").write_text(PROJECT)
        env = dict(os.environ, PKG_CONFIG_PATH=str(libraries / "pkgconfig"), LD_LIBRARY_PATH=str(libraries))
        flags = run("pkg-config", "--define-variable=prefix=" + str(place), "--cflags", "--libs", "verbena", env=env).split()
        run("cc", str(user / "user.c"), "-o", str(user / "by-pkg-config"), *flags)
        run("cmake", "-S", str(user), "-B", str(user / "build"), "-DCMAKE_PREFIX_PATH=" + str(place))
        run("cmake", "--build", str(user / "build"))
        for program in (user / "by-pkg-config", user / "build" / "user"):
            assert run(str(program), env=env).strip(), program


main()
