#!/usr/bin/python3
"""The wheel installs without an index into an empty environment and contains its libraries; the README's lines work
there, and so does docs/python.md from top to bottom."""
import ast
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from python_case import ACCESS_KEY, SECRET_KEY, Server, skip
from verbena_server import program

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, timeout=250, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def check_sources():
    """Only syntax and modules of CPython 3.9."""
    sources = list((ROOT / "clients" / "python").rglob("*.py"))
    assert len(sources) > 8
    for path in sources:
        ast.parse(path.read_text(), str(path), feature_version=(3, 9))


def follow_the_page(python, env, server, folder):
    """docs/python.md from top to bottom: each piece is a program. Pieces with missing packages are listed."""
    pieces = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.S)
    ran = 0
    for number, piece in enumerate(pieces):
        if "def test_" in piece:
            continue  # pytest's: below
        path = pathlib.Path(folder, f"piece{number}.py")
        path.write_text(piece.replace("http://127.0.0.1:9000", server.http).replace("127.0.0.1:9100", server.native)
                        .replace("verbena.accelerate(s3)", f"verbena.accelerate(s3, native_endpoint={server.native!r})"))
        done = subprocess.run([python, str(path)], env=env, cwd=folder, capture_output=True, text=True, timeout=120)
        missing = re.search(r"ModuleNotFoundError: No module named '(\S+)'\s*$", done.stderr)
        assert done.returncode == 0 or (missing and not missing[1].startswith("verbena")), f"{piece}\n{done.stdout}{done.stderr}"
        print(f"piece {number}: " + (f"no {missing[1]}" if missing else f"{len(done.stdout.splitlines())} lines"))
        assert missing or done.stdout, f"{piece}\nsaid nothing"
        ran += not missing
    assert ran >= 3 and len(pieces) >= 9, f"{ran} of {len(pieces)} pieces"


def older_releases():
    """Interpreters of 3.9 and 3.10 with headers, where the machine has them."""
    for release in ("3.9", "3.10"):
        for python in filter(None, [shutil.which(f"python{release}"), *sorted(map(str, pathlib.Path.home().glob(f".pyenv/versions/{release}.*/bin/python")))]):
            said = subprocess.run([python, "-c", "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_paths()['include'])"], capture_output=True, text=True)
            found, _, headers = said.stdout.strip().partition(" ")
            if found == release and pathlib.Path(headers, "Python.h").exists():
                yield release, python
                break


def main():
    check_sources()
    if not os.access("/usr/bin/patchelf", os.X_OK):
        skip("no patchelf")
    build = pathlib.Path(os.environ.get("CLIENT_PYTHON") or ROOT / "build" / "python").parent
    lines = [re.search(r"```python\n(.*?)```", readme.read_text(), re.S).group(1)
             for readme in (ROOT / "README.md", ROOT / "clients" / "python" / "README.md")]
    with tempfile.TemporaryDirectory() as folder:
        run("/usr/bin/python3", ROOT / "tools" / "build_wheel.py", build, folder)
        wheel = next(pathlib.Path(folder).glob("verbena-*.whl"))
        run("/usr/bin/python3", "-m", "venv", f"{folder}/venv")
        run(f"{folder}/venv/bin/pip", "install", "--no-index", wheel)
        clean = {"PATH": "/usr/bin:/bin", "HOME": folder}
        loaded = run(f"{folder}/venv/bin/python", "-c",
                     "import verbena, re; print(verbena.__version__); print(*set(re.findall(r'/\\S+\\.so\\S*', open('/proc/self/maps').read())))",
                     env=clean, cwd=folder)
        outside = [name for name in loaded.split() if str(ROOT) in name or ".cache/verbena" in name]
        assert not outside, f"not of the wheel: {outside}"
        for some in lines:
            with Server() as server:
                env = dict(clean, AWS_ENDPOINT_URL=server.http, VERBENA_NATIVE=server.native, AWS_ACCESS_KEY_ID=ACCESS_KEY,
                           AWS_SECRET_ACCESS_KEY=SECRET_KEY)
                said = run(f"{folder}/venv/bin/python", "-c", some, env=env, cwd=folder)
                assert "by native" in said, said
        points = run(f"{folder}/venv/bin/python", "-c",
                     "import importlib.metadata as m; print([e.value for e in m.distribution('verbena').entry_points])", env=clean, cwd=folder)
        assert "verbena.fs:VerbenaFileSystem" in points, points
        for release, python in older_releases():
            run("/usr/bin/python3", ROOT / "tools" / "build_wheel.py", build, f"{folder}/{release}", python)
            run(python, "-m", "venv", f"{folder}/venv{release}")
            run(f"{folder}/venv{release}/bin/pip", "install", "--no-index", next(pathlib.Path(folder, release).glob("*.whl")))
            with Server() as server:
                env = dict(clean, AWS_ENDPOINT_URL=server.http, VERBENA_NATIVE=server.native, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY)
                said = run(f"{folder}/venv{release}/bin/python", "-c", lines[0], env=env, cwd=folder)
                assert "by native" in said, said
            print(f"Python {release}: {said.strip()}")
        run("/usr/bin/python3", "-m", "venv", "--system-site-packages", f"{folder}/with-packages")
        run(f"{folder}/with-packages/bin/pip", "install", "--no-index", "--no-deps", wheel)
        with Server() as server:
            env = dict(clean, AWS_ENDPOINT_URL=server.http, VERBENA_NATIVE=server.native, AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY)
            follow_the_page(f"{folder}/with-packages/bin/python", env, server, folder)
        if not importlib.util.find_spec("pytest"):
            return
        piece = next(piece for piece in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.S) if "def test_" in piece)
        pathlib.Path(folder, "test_it.py").write_text(piece)
        said = run(f"{folder}/with-packages/bin/python", "-m", "pytest", "-o", f"verbena_program={program()}", f"{folder}/test_it.py", env=clean, cwd=folder)
        assert "1 passed" in said, said


main()
