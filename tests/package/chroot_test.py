#!/usr/bin/python3
"""The packages in a clean Debian (by hand, as root: ./dev package --test): install, first object by the unit's own
command line, upgrade from an earlier version, the engine over Ceph with and without its package, purge.

Where Ceph's daemons are installed, the engine's server stores its first object in a cluster on loopback.

usage: chroot_test.py PACKAGES_FOLDER CODENAME
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import ceph_cluster  # noqa: E402

PACKAGES, RELEASE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
KEYS = {"VERBENA_ROOT_ACCESS_KEY": "chroottest", "VERBENA_ROOT_SECRET_KEY": "chroot-test-secret",
        "AWS_ACCESS_KEY_ID": "chroottest", "AWS_SECRET_ACCESS_KEY": "chroot-test-secret"}
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", **KEYS}
START_S = 60
PACKAGE_NAMES = ("verbena", "libverbena0", "libverbena-dev", "verbena-rados", "libverbena-compat", "verbena-nixl", "s3rdma-conformance")


def debs(pattern):
    found = sorted(PACKAGES.glob(pattern))
    assert found, f"no {pattern} in {PACKAGES}"
    return found


class Chroot:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def run(self, *command, expect=0, **more):
        done = subprocess.run(["chroot", str(self.folder), *command], env=ENV, capture_output=True, text=True, timeout=600, **more)
        assert expect is None or done.returncode == expect, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def fails(self, code, *command):
        done = subprocess.run(["chroot", str(self.folder), *command], env=ENV, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stderr

    def apt(self, *command):
        self.run("apt-get", "-qq", "-y", "--no-install-recommends", *command)

    def files(self):
        kept = ("/proc/", "/sys/", "/dev/", "/var/cache/", "/var/lib/apt/", "/var/lib/dpkg/", "/var/log/", "/packages/", "/tmp/")
        return {line for line in self.run("find", "/", "-xdev").splitlines() if not line.startswith(kept)}

    def has(self, package):
        return "ok installed" in self.run("sh", "-c", "dpkg-query -W -f='${Status}' \"$1\" || true", "sh", package)

    def depends(self, package):
        return self.run("dpkg-query", "-W", "-f=${Depends}", package).split(", ")

    def serve(self, *more):
        """The unit's own command line, as the unit's user, with the folders that tmpfiles makes."""
        unit = (self.folder / "lib/systemd/system/verbena.service").read_text()
        line = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1).split()
        user = re.search(r"^User=(.*)$", unit, re.M).group(1)
        log = open(self.folder / "tmp/log", "w")
        flags = ["--http", "127.0.0.1:19000", "--rdma", "127.0.0.1:19100", "--set", "admin.port=0"]
        process = subprocess.Popen(["chroot", str(self.folder), "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *line,
                                    *flags, *more], env=ENV, stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        until = time.monotonic() + START_S
        while subprocess.run(["chroot", str(self.folder), "verbena", "health", "--endpoint", "http://127.0.0.1:19000"], env=ENV,
                             capture_output=True).returncode != 0:
            assert process.poll() is None and time.monotonic() < until, (self.folder / "tmp/log").read_text()
            time.sleep(0.1)
        return process

    def stop(self, process):
        process.terminate()
        assert process.wait(60) == 0, (self.folder / "tmp/log").read_text()

    def verbena(self, *command, **more):
        return self.run("verbena", *command, "--endpoint", "http://127.0.0.1:19000", "--native", "127.0.0.1:19100", **more)


def older(deb, into):
    """The same package with an earlier version number, for the upgrade: there is no release yet."""
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["dpkg-deb", "-R", str(deb), work], check=True)
        control = pathlib.Path(work, "DEBIAN/control")
        text = control.read_text()
        version = re.search(r"^Version: (.*)$", text, re.M).group(1)
        control.write_text(text.replace(version, "0.0.9-1"))
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", work, str(into / deb.name.replace(version, "0.0.9-1"))], check=True,
                       stdout=subprocess.DEVNULL)


def check_no_engine(there):
    """Without the engine's package the error names it; everything else works."""
    for code, command in ((1, ("rados", "status")), (2, ("server", "/tmp/none", "--engine", "rados"))):
        said = there.fails(code, "verbena", *command)
        assert "install the package verbena-rados (looked for /usr/bin/verbena-rados, /usr/libexec/verbena/verbena-rados)" in said, said
    assert not there.has("librados2"), "verbena itself brings librados"


def check_engine(there):
    version = there.run("dpkg-query", "-W", "-f=${Version}", "verbena")
    depends = there.depends("verbena-rados")
    assert f"verbena (= {version})" in depends and any(name.split()[0].startswith("librados2") for name in depends), depends
    # The engine is installed, and finds no cluster.
    for code, command in ((5, ("rados", "status")), (1, ("server", "/tmp/none", "--engine", "rados"))):
        said = there.fails(code, "verbena", *command, "--set", "rados.conf=/none")
        assert "verbena-rados" not in said and "/none" in said, said
    if not ceph_cluster.available():
        print("no server over Ceph: its daemons are not installed here")
        return
    with ceph_cluster.CephCluster(osds=1) as ceph:
        shutil.copy(ceph.conf, there.folder / "tmp/ceph.conf")
        cluster = ("--set", "rados.conf=/tmp/ceph.conf")
        there.run("verbena", "rados", "init", "--copies", "1", "--failure-domain", "osd", "--pg", "8", *cluster)
        process = there.serve("--engine", "rados", *cluster)
        program = pathlib.Path(f"/proc/{process.pid}/exe").readlink()
        assert str(program).endswith("/usr/libexec/verbena/verbena-rados"), program
        there.verbena("mb", "s3://over-ceph")
        there.verbena("put", "-", "s3://over-ceph/object", input="stored in the cluster")
        got = there.verbena("get", "s3://over-ceph/object", "-")
        assert got == "stored in the cluster", got
        there.stop(process)
        there.run("verbena", "rados", "fsck", *cluster)
    print("the server over Ceph stored its first object")


def check_libraries_and_suite(there):
    """What other programs load is loaded by the names that they use, and the conformance suite starts."""
    load = "import ctypes, sys; [ctypes.CDLL(name) for name in sys.argv[1:]]"
    folder = next((there.folder / "usr/lib").glob("*/verbena-compat"))
    place = "/" + str(folder.relative_to(there.folder))
    there.run("env", f"LD_LIBRARY_PATH={place}", "python3", "-c", load, *sorted(path.name for path in folder.iterdir()))
    there.run("python3", "-c", load, str(pathlib.PurePath(place).parent / "verbena-nixl/libplugin_VERBENA.so"))
    assert " 101 " in there.run("s3rdma-conformance", "--list")
    print("libraries with other vendors' names and NIXL's plugin were loaded, and the conformance suite listed its cases")


def check(folder):
    there = Chroot(folder)
    packages = there.folder / "packages"
    (packages / "old").mkdir(parents=True)
    for deb in [deb for name in PACKAGE_NAMES for deb in debs(f"{name}_*.deb")]:
        shutil.copy(deb, packages)
        if deb.name.startswith(("verbena_", "libverbena0_", "verbena-rados_")):
            older(deb, packages / "old")
    there.apt("update")
    before = there.files()
    old = [f"/packages/old/{p.name}" for p in (packages / "old").iterdir()]
    there.apt("install", *(name for name in old if "verbena-rados" not in name))
    assert "0.0.9-1" in there.run("dpkg-query", "-W", "verbena")
    there.run("sh", "-c", "printf '\\nregion: eu-chroot-1\\n' >>/etc/verbena/verbena.yaml")
    process = there.serve()
    there.verbena("mb", "s3://first")
    there.verbena("put", "-", "s3://first/object", input="stored before the upgrade")
    there.stop(process)
    check_no_engine(there)
    there.apt("install", *old)
    assert there.has("verbena-rados") and there.has("librados2")
    print("installed; first object stored by the unit's own command line")

    there.apt("-o", "Dpkg::Options::=--force-confold", "install", *(f"/packages/{p.name}" for p in packages.glob("*.deb")))
    assert "0.0.9" not in there.run("dpkg-query", "-W", "verbena", "verbena-rados", "libverbena0")
    assert "eu-chroot-1" in (there.folder / "etc/verbena/verbena.yaml").read_text(), "the upgrade took the operator's change"
    process = there.serve()
    got = there.verbena("get", "s3://first/object", "-", "--verbose")
    assert got == "stored before the upgrade", got
    there.stop(process)
    assert (there.folder / "usr/include/verbena/verbena.h").exists()
    print("upgraded; the object is there, and so is the operator's configuration")

    check_engine(there)
    there.apt("remove", "verbena-rados")
    there.apt("autoremove")
    check_no_engine(there)
    process = there.serve()
    assert there.verbena("get", "s3://first/object", "-") == "stored before the upgrade"
    there.stop(process)
    there.apt("install", *(f"/packages/{p.name}" for p in packages.glob("verbena-rados_*.deb")))
    print("the engine's package was removed, the server went on without it, and it was installed again")

    check_libraries_and_suite(there)
    there.apt("purge", *PACKAGE_NAMES)
    there.apt("autoremove", "--purge")
    left = {path for path in there.files() - before if not path.startswith("/var/lib/verbena/")}
    left -= {path for path in left if re.match(r"/(etc/(passwd|group|shadow|gshadow|subuid|subgid|.*-)|run|var/lib/(systemd|dbus)|etc/systemd)\b", path)}
    ours = sorted(path for path in left if re.search("verbena|s3rdma", path) and path != "/var/lib/verbena")
    assert not ours, f"a purge left {ours}"
    assert (there.folder / "var/lib/verbena/VERSION").exists(), "a purge took the objects"
    others = sorted(left - {"/var/lib/verbena"})
    print("purged; what is left: /var/lib/verbena" + (f", and of other packages {others[:10]}" if others else ""))


def main():
    # Mounts live in a namespace of the inner call alone: the removal at the end deletes the chroot and nothing else.
    with tempfile.TemporaryDirectory(prefix="verbena-chroot-") as work:
        root = pathlib.Path(work, "root")
        subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", RELEASE, str(root)], check=True)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        inner = 'mount -t proc proc "$1/proc" && mount -t tmpfs none "$1/dev/shm" && shift && exec "$@"'
        done = subprocess.run(["unshare", "--mount", "sh", "-c", inner, "sh", str(root), sys.executable, __file__, str(PACKAGES), RELEASE,
                               str(root)])
    if done.returncode == 0:
        print(f"{RELEASE}: passed")
    sys.exit(done.returncode)


if len(sys.argv) == 4:
    check(sys.argv[3])
else:
    main()
