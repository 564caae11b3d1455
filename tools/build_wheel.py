#!/usr/bin/python3
"""Makes the Python client's wheel: the package, its extension module, and the shared libraries that these need.

usage: build_wheel.py BUILD_FOLDER OUTPUT_FOLDER [PYTHON]

One wheel serves CPython 3.11 and every later release. With a PYTHON that is 3.9 or 3.10 it is one for that release, whose extension module is
compiled here with that interpreter's headers.

libssl and libcrypto stay the system's: Python itself needs them, and two of them in one process do not mix. RDMA libraries come along,
but the machine's own are preferred where it has them (verbena/_load.py).
"""
import base64
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SYSTEM = re.compile(r"(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|libssl|libcrypto|libz|libresolv)\.so")
RDMA = ("libnl-3.so", "libnl-route-3.so", "libibverbs.so", "libefa.so", "librdmacm.so")


def run(*command):
    return subprocess.run([str(one) for one in command], check=True, capture_output=True, text=True).stdout


def needed(library):
    found = {}
    for line in run("ldd", library).splitlines():
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and not SYSTEM.match(match[1]):
            found[match[1]] = match[2]
    return found


def release_of(python):
    """(3, 10) and its headers; None for those that the build's own extension module serves."""
    if python is None:
        return None
    major, minor, headers = run(python, "-c", "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_paths()['include'])").split(maxsplit=2)
    release = int(major), int(minor)
    if release < (3, 9):
        sys.exit(f"{python} is {major}.{minor}: the client is for 3.9 and later")
    return None if release >= (3, 11) else (release, headers.strip())


def compile_for(headers, build, package):
    (package / "_native.abi3.so").unlink()
    run("gcc", "-O2", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{ROOT / 'include'}", f"-I{headers}",
        *sorted((ROOT / "clients" / "python" / "src").glob("*.c")), "-o", package / "_native.so", f"-L{build / 'lib'}", "-lverbena", f"-Wl,-rpath,{build / 'lib'}")
    return package / "_native.so"


def collect(build, package, headers):
    """The package's files as installed."""
    shutil.copytree(build / "python" / "verbena", package, ignore=shutil.ignore_patterns("__pycache__"))
    native = compile_for(headers, build, package) if headers else package / "_native.abi3.so"
    libraries = package / "_libs"
    (libraries / "rdma").mkdir(parents=True)
    for name, path in needed(native).items():
        place = libraries / "rdma" if name.startswith(RDMA) else libraries
        shutil.copy(path, place / name)
        run("strip", "--strip-unneeded", place / name)
        run("patchelf", "--set-rpath", "$ORIGIN" if place != libraries else "$ORIGIN:$ORIGIN/rdma", place / name)
    run("strip", "--strip-unneeded", native)
    run("patchelf", "--set-rpath", "$ORIGIN/_libs", native)


def metadata(version, tag):
    readme = (ROOT / "clients" / "python" / "README.md").read_text()
    return {"METADATA": f"Metadata-Version: 2.1\nName: verbena\nVersion: {version}\nSummary: Client of Verbena, an S3-compatible object store "
                        f"over RDMA\nRequires-Python: >=3.9\nProvides-Extra: kv\nDescription-Content-Type: text/markdown\n\n{readme}",
            "WHEEL": f"Wheel-Version: 1.0\nGenerator: verbena\nRoot-Is-Purelib: false\nTag: {tag}\n",
            "entry_points.txt": "[fsspec.specs]\nverbena = verbena.fs:VerbenaFileSystem\n\n[pytest11]\nverbena = pytest_verbena\n"}


def main():
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    version = re.search(r"project\(verbena VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    glibc = platform.libc_ver()[1].replace(".", "_")
    older = release_of(sys.argv[3] if len(sys.argv) > 3 else None)
    kind = "cp311-abi3" if older is None else "cp{0}{1}-cp{0}{1}".format(*older[0])
    tag = f"{kind}-manylinux_{glibc}_{platform.machine()}"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        collect(build, place / "verbena", older and older[1])
        shutil.copy(build / "python" / "pytest_verbena.py", place)
        info = place / f"verbena-{version}.dist-info"
        info.mkdir()
        for name, text in metadata(version, tag).items():
            (info / name).write_text(text)
        shutil.copy(ROOT / "LICENSE", info / "LICENSE")
        shutil.copy(ROOT / "deploy" / "debian" / "copyright", info / "LICENSE.linked")  # of what is linked in
        record = []
        wheel = out / f"verbena-{version}-{tag}.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(one for one in place.rglob("*") if one.is_file()):
                name, data = path.relative_to(place).as_posix(), path.read_bytes()
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                record.append(f"{name},sha256={digest},{len(data)}")
                archive.write(path, name)
            record.append(f"{info.name}/RECORD,,")
            archive.writestr(f"{info.name}/RECORD", "\n".join(record) + "\n")
    print(wheel)


main()
