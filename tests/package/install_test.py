#!/usr/bin/python3
"""`cmake --install` below DESTDIR: all files installed, none elsewhere, and they work from there.

usage: install_test.py BUILD_FOLDER
"""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from verbena_server import ACCESS_KEY, SECRET_KEY, Server  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
STRIPPED_MAX = 25_000_000


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, timeout=120, **more).stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="verbena-install-")
        cls.dest = pathlib.Path(cls.folder.name)
        run("cmake", "--install", BUILD, env=dict(os.environ, DESTDIR=str(cls.dest)))
        cls.usr = next(cls.dest.rglob("bin/verbena")).parent.parent  # for any prefix of the build
        cls.libdir = next(cls.usr.glob("lib/**/libverbena.so.0")).parent
        cls.program = cls.usr / "bin" / "verbena"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_everything_is_there(self):
        have = {str(path.relative_to(self.usr)) for path in self.usr.rglob("*") if not path.is_dir()}
        for wanted in ("bin/verbena", "libexec/verbena/verbena-rados", "include/verbena/client.h", "include/verbena/verbena.h",
                       "share/man/man1/verbena.1", "share/man/man1/verbena-user-policy-attach.1",
                       "share/bash-completion/completions/verbena", "share/zsh/vendor-completions/_verbena",
                       "share/fish/vendor_completions.d/verbena.fish", "lib/systemd/system/verbena.service",
                       "lib/sysusers.d/verbena.conf", "lib/tmpfiles.d/verbena.conf", "bin/s3rdma-conformance"):
            self.assertIn(wanted, have)
        for wanted in ("libs3rdma.so", "libs3rdma.so.0", "libcuobjclient.so", "libcuobjclient.so.1"):
            self.assertTrue((self.libdir / "verbena-compat" / wanted).exists(), wanted)
        self.assertEqual([path.name for path in (self.libdir / "verbena-nixl").iterdir()], ["libplugin_VERBENA.so"])
        everything = [path for path in self.dest.rglob("*") if not path.is_dir()]
        self.assertEqual([path for path in everything if not path.is_relative_to(self.usr)],
                         [] if self.usr.name == "local" else [self.dest / "etc/verbena/verbena.yaml"])
        text = (self.usr / "lib/systemd/system/verbena.service").read_text()
        self.assertNotIn("@", re.sub(r"SystemCallFilter=.*", "", text))

    def test_the_program_starts_from_there_and_names_no_folder_of_the_build(self):
        self.assertRegex(run(self.program, "--version", env={}), r"^verbena \d")
        for file in (self.program, self.usr / "libexec/verbena/verbena-rados", self.libdir / "libverbena.so.0",
                     *(self.libdir / "verbena-compat").glob("*.so")):
            dynamic = run("readelf", "-d", file)
            self.assertNotIn(str(pathlib.Path.home()), dynamic)
            self.assertNotIn(str(BUILD), dynamic)
            linked = run("ldd", file)
            self.assertNotIn("not found", linked)
            fabric = os.path.realpath(re.search(r"libfabric\.so\.1 => (\S+)", linked).group(1))
            self.assertTrue(fabric.startswith(str(self.libdir.resolve())) or fabric.startswith(("/lib/", "/usr/lib/")), fabric)

    def test_each_file_goes_into_one_package(self):
        debian = ROOT / "deploy/debian"
        lists = {path.stem: path.read_text().split() for path in debian.glob("*.install")}
        lists["nothing"] = (debian / "not-installed").read_text().split()
        lists["libverbena0"].append("usr/lib/*/verbena")  # rules: where there is a private libfabric
        declared = re.findall(r"^Package: (.*)$", (debian / "control").read_text(), re.M)
        self.assertEqual(sorted(declared), sorted(set(lists) - {"nothing"}))
        matched = {name: set() for name in lists}
        for path in self.dest.rglob("*"):
            if path.is_dir():
                continue
            found = [(name, line) for name, lines in lists.items() for line in lines if self.is_in(line, self.debian_path(path))]
            self.assertEqual(len(found), 1, f"{path}: {found}")
            matched[found[0][0]].add(found[0][1])
        unused = {name: set(lines) - matched[name] - {"usr/lib/*/verbena"} for name, lines in lists.items()}
        self.assertFalse([(name, lines) for name, lines in unused.items() if lines and name != "nothing"], unused)

    def debian_path(self, path):
        """Where a package has this file: below /usr, libraries in a folder of the architecture."""
        if not path.is_relative_to(self.usr):
            return str(path.relative_to(self.dest))
        inside = path.relative_to(self.usr)
        if inside.parts[0] == "etc":
            return str(inside)
        parts = list(inside.parts)
        if parts[0] == "lib" and self.libdir == self.usr / "lib" and parts[1] not in ("systemd", "sysusers.d", "tmpfiles.d"):
            parts.insert(1, "architecture")
        return "/".join(["usr", *parts])

    @staticmethod
    def is_in(pattern, path):
        """As dh_install matches: a star stays within a part of the path, and a folder has what is below it."""
        wanted, have = pattern.split("/"), path.split("/")
        return len(have) >= len(wanted) and all(fnmatch.fnmatchcase(a, b) for a, b in zip(have, wanted))

    def test_the_conformance_suite_lists_its_cases_from_there(self):
        listed = run(self.usr / "bin/s3rdma-conformance", "--list", env={"PATH": "/usr/bin:/bin"})
        self.assertGreater(len(re.findall(r"^\s*\d{3}\b", listed, re.M)), 100, listed[:400])
        self.assertEqual(list((self.usr / "share/s3rdma-conformance").rglob("__pycache__")), [])
        sources = {path.relative_to(ROOT / "conformance") for path in (ROOT / "conformance/s3rdma_conformance").rglob("*.py")}
        there = self.usr / "share/s3rdma-conformance"
        self.assertEqual({path.relative_to(there) for path in there.rglob("*") if not path.is_dir()}, sources)

    def test_the_conformance_suites_page_has_every_option(self):
        page = (ROOT / (ROOT / "deploy/debian/s3rdma-conformance.manpages").read_text().strip()).read_text().replace("\\-", "-")
        said = run(self.usr / "bin/s3rdma-conformance", "--help")
        self.assertEqual(set(re.findall(r"--[a-z][a-z-]+", page)), set(re.findall(r"--[a-z][a-z-]+", said)))

    def test_other_vendors_names_and_the_plugin_load_from_there(self):
        """In a process of its own, with the folders that the documents name."""
        load = "import ctypes, sys; [ctypes.CDLL(name) for name in sys.argv[1:]]"
        compat, plugins = self.libdir / "verbena-compat", self.libdir / "verbena-nixl"
        env = {"LD_LIBRARY_PATH": f"{compat}:{self.libdir}"}
        run(sys.executable, "-c", load, *sorted({path.name for path in compat.iterdir()}), env=env)
        run(sys.executable, "-c", load, plugins / "libplugin_VERBENA.so", env=env)

    def test_the_engine_over_ceph_costs_other_commands_nothing(self):
        self.assertNotIn("librados", run("readelf", "-d", self.program))
        self.assertNotIn("librados", run("ldd", self.program))

    def test_the_program_becomes_the_one_with_the_engine_over_ceph(self):
        def said(*command):
            done = subprocess.run([str(self.program), *command], capture_output=True, text=True, timeout=120, env={})
            return done.returncode, done.stderr

        status = ("rados", "status", "--set", "rados.conf=/nonexistent")
        server = ("server", str(self.dest / "data"), "--engine", "rados", "--set", "rados.conf=/nonexistent")
        for command in (status, server):
            code, text = said(*command)
            self.assertNotEqual(code, 0)
            self.assertIn("/nonexistent", text)
            self.assertNotIn("verbena-rados", text)
        engine = self.usr / "libexec/verbena/verbena-rados"
        aside = engine.with_name("aside")
        engine.rename(aside)
        self.addCleanup(aside.rename, engine)
        for command, expected in ((status, 1), (server, 2)):
            code, text = said(*command)
            self.assertEqual(code, expected)
            self.assertIn("install the package verbena-rados", text)
            self.assertIn(str(engine), text)

    def test_the_stripped_program_is_small(self):
        stripped = self.dest.parent / (self.dest.name + ".stripped")
        run("strip", "-o", stripped, self.program)
        size = stripped.stat().st_size
        stripped.unlink()
        print(f"stripped: {size / 1e6:.1f} MB")
        self.assertLess(size, STRIPPED_MAX)

    def test_the_library_shows_its_public_face_alone(self):
        names = [line.split(maxsplit=2)[2] for line in
                 run("nm", "-D", "-C", "--defined-only", self.libdir / "libverbena.so.0").splitlines()]
        for name in names:
            self.assertRegex(name, r"^(verbena_|verbena::(Client|Buffer|Watch)::[a-z]|verbena::TraceScope::|"
                                   r"verbena::(to_string|parse_via)\(|VERBENA_0)")
        for declared in re.findall(r"^[\w ]+\*?\b(verbena_\w+)\(", (ROOT / "include/verbena/verbena.h").read_text(), re.M):
            self.assertIn(f"{declared}@@VERBENA_0", names)

    def test_programs_are_built_against_it_by_pkg_config_and_by_cmake(self):
        work = self.dest.parent / (self.dest.name + ".work")
        work.mkdir()
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", str(work)], check=True))
        pc = next(self.dest.rglob("verbena.pc"))
        flags = run("pkg-config", "--cflags", "--libs", "verbena",
                    env=dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), PKG_CONFIG_SYSROOT_DIR=str(self.dest))).split()
        examples = ROOT / "tests" / "examples"
        run("gcc", "-std=c11", "-o", work / "c", examples / "example.c", *flags)
        (work / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(use CXX)\nfind_package(verbena REQUIRED CONFIG)\n"
            f"add_executable(cc {examples / 'example.cc'})\ntarget_compile_features(cc PRIVATE cxx_std_23)\n"
            "target_link_libraries(cc PRIVATE verbena::verbena)\n")
        run("cmake", "-S", work, "-B", work / "b", f"-Dverbena_DIR={next(self.dest.rglob('verbenaConfig.cmake')).parent}")
        run("cmake", "--build", work / "b")
        with Server() as server:
            for program in (work / "c", work / "b" / "cc"):
                said = run(program, env={"LD_LIBRARY_PATH": str(self.libdir), "AWS_ENDPOINT_URL": server.http,
                                         "VERBENA_NATIVE": server.native, "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                                         "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "HOME": "/nonexistent"})
                self.assertIn("bytes by native", said)

    def test_the_configuration_that_is_installed_has_every_key_and_is_one(self):
        path = next(self.dest.rglob("verbena.yaml"))
        run(self.program, "config", "--check", path)
        text = path.read_text()
        self.assertEqual(text, run(self.program, "config"))
        # The table of the reference has the same keys (a test of base/ compares it with the parser's).
        for key in re.findall(r"^\| `([a-z0-9_.]+)` \| `VERBENA_", (ROOT / "docs/configuration.md").read_text(), re.M):
            *sections, name = key.split(".")
            self.assertRegex(text, rf"(?m)^#{'  ' * len(sections)}{name}:", key)

    def test_bash_completes_commands_options_and_their_commands(self):
        script = self.usr / "share/bash-completion/completions/verbena"

        def complete(*words):
            quoted = " ".join(f"'{word}'" for word in words)
            return run("bash", "--norc", "-c", f"set -eu; source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
                       "_verbena; printf '%s\\n' \"${COMPREPLY[@]}\"").split()

        self.assertEqual(complete("verbena", "serv"), ["server"])
        self.assertIn("--config", complete("verbena", "server", "--"))
        self.assertEqual(complete("verbena", "user", "policy", "att"), ["attach"])
        self.assertIn("--json", complete("verbena", "-q", "user", "policy", "attach", "--j"))

    def test_every_command_has_a_page_that_says_what_help_says(self):
        pages = {page.name for page in (self.usr / "share/man/man1").iterdir()}
        for path in ((), ("server",), ("user", "key", "add"), ("fsck",)):
            name = "-".join(("verbena", *path)) + ".1"
            self.assertIn(name, pages)
            page = (self.usr / "share/man/man1" / name).read_text().replace("\\-", "-")
            for flag in re.findall(r"--[a-z][a-z-]+", run(self.program, *path, "--help").split("\n\n", 1)[-1]):
                self.assertIn(flag, page)


unittest.main(verbosity=2)
