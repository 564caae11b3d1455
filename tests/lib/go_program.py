"""Builds Go programs for tests from Debian's libraries, once: the compiler's cache is stored with the other built
dependencies."""
import os
import pathlib
import shutil
import subprocess

LIBRARIES = pathlib.Path("/usr/share/gocode/src")


def build(source, needs):
    """Builds `source`; None without a compiler or the library in `needs`."""
    go = shutil.which("go")
    if go is None or not (LIBRARIES / needs).is_dir():
        return None
    cache = pathlib.Path(os.environ.get("VERBENA_CACHE") or pathlib.Path.home() / ".cache" / "verbena") / "go"
    cache.mkdir(parents=True, exist_ok=True)
    program = cache / pathlib.Path(source).stem
    env = dict(os.environ, GOPATH="/usr/share/gocode", GO111MODULE="off", GOCACHE=str(cache / "cache"), GOFLAGS="",
               CGO_ENABLED="0")
    done = subprocess.run([go, "build", "-o", str(program), str(source)], env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise AssertionError(f"go build {source}:\n{done.stdout}{done.stderr}")
    return program
