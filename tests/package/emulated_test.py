#!/usr/bin/python3
"""Cross-built programs run by qemu-user (by hand, as root: ./dev package --arch arm64): unit tests of the rooms that
a server and a client consist of, the same objects through every door (the matrix) on `tcp` and `local`, and the packages:
installed by apt, a server by the unit's own command line, the first object. And the instructions that checksums, hashes
and ciphers take for a byte, with and without the processor's own for them (docs/dpu.md).

It runs in the chroot in which they were built. usage: emulated_test.py BUILD_FOLDER PACKAGES_FOLDER
"""
import os
import pathlib
import re
import subprocess
import sys
import time

BUILD, PACKAGES = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
PROGRAMS = ("base", "memory", "auth", "store", "fabric_local", "fabric_tcp", "fabric_sealed", "native_wire", "native", "s3",
            "s3_http", "admin", "server", "client", "matrix")
CPU = {"arm64": "aarch64"}
# Tests of what the emulator lacks. qemu-user does not pass SIOCETHTOOL on, so that what a network device encrypts cannot be
# told. A program that it runs cannot execute itself (/proc/self/exe) where the kernel knows no interpreter for it.
LACKS = {"admin": ["LinkEncryption.AnInterfacesFeaturesAreTheKernels", "DoctorOfEncryption.DoesNotTakeTheMacForThePhy",
                   "DoctorOfEncryption.SaysWhereAnInterfaceSendsThroughWhatIsNotNamed"],
         "client": ["*.AClientKilledInMidTransferCostsNoLeaseAndNobodyElse/*"]}
TESTS_S, START_S = 1800, 120
KEYS = {"VERBENA_ROOT_ACCESS_KEY": "emulated", "VERBENA_ROOT_SECRET_KEY": "emulated-secret",
        "AWS_ACCESS_KEY_ID": "emulated", "AWS_SECRET_ACCESS_KEY": "emulated-secret"}
# Instructions are counted as the difference of two runs of digest_cost.
LITTLE, MUCH = 16 << 10, 48 << 10
# OpenSSL looks at this variable in place of the processor.
WITHOUT = {"OPENSSL_armcap": "1"}
HTTP, NATIVE = "127.0.0.1:19200", "127.0.0.1:19201"


def architecture():
    return re.search(r"_([a-z0-9]+)\.deb$", next(PACKAGES.glob("verbena_*.deb")).name).group(1)


QEMU = f"/usr/bin/qemu-{CPU[architecture()]}"


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, **{"stdin": subprocess.DEVNULL, **more})


def test(name):
    """Runs all tests of a program in one process; false when one of them failed."""
    command = [QEMU, BUILD / "bin" / f"verbena_{name}_test", "--gtest_brief=1"]
    if name in LACKS:
        command.append("--gtest_filter=-" + ":".join(LACKS[name]))
    began = time.monotonic()
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=TESTS_S)
    summary = re.search(r"\d+ tests? from \d+ test suites? ran", done.stdout)
    passed = re.search(r"\[  PASSED  \] (\d+) test", done.stdout)
    skipped = re.search(r"\[  SKIPPED \] (\d+) test", done.stdout)
    print(f"{name}: {'passed' if done.returncode == 0 else f'FAILED ({done.returncode})'}: {passed.group(1) if passed else 0} tests"
          f"{f', {skipped.group(1)} skipped' if skipped else ''}, {time.monotonic() - began:.0f} s", flush=True)
    if done.returncode != 0 or not summary:
        print(done.stdout[-8000:], flush=True)
        return False
    return True


def verbena(*command, **more):
    """The output of a command of the installed program."""
    return run(QEMU, "/usr/bin/verbena", *command, "--endpoint", f"http://{HTTP}", "--native", NATIVE, stdout=subprocess.PIPE, text=True,
               env={**os.environ, **KEYS}, **more).stdout


def packages():
    apt = ("apt-get", "-qq", "-y", "--no-install-recommends")
    run(*apt, "update")
    run(*apt, "install", *(PACKAGES / next(PACKAGES.glob(f"{name}_*.deb")).name for name in ("verbena", "libverbena0")),
        stdout=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    said = run("file", "-L", "/usr/bin/verbena", capture_output=True, text=True).stdout
    assert CPU[architecture()] in said, said
    unit = pathlib.Path("/usr/lib/systemd/system/verbena.service").read_text()
    line = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1).split()
    user = re.search(r"^User=(.*)$", unit, re.M).group(1)
    server = subprocess.Popen(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", QEMU, *line, "--http", HTTP, "--rdma", NATIVE,
                               "--set", "admin.port=0"], env={**os.environ, **KEYS}, stdin=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START_S
        while subprocess.run([QEMU, "/usr/bin/verbena", "health", "--endpoint", f"http://{HTTP}"], capture_output=True).returncode != 0:
            assert server.poll() is None and time.monotonic() < until, "the server did not start"
            time.sleep(0.5)
        verbena("mb", "s3://first")
        stored = "stored by another architecture's code"
        verbena("put", "-", "s3://first/object", stdin=None, input=stored)
        got = verbena("get", "s3://first/object", "-")
        assert got == stored, got
    finally:
        server.terminate()
        ended = server.wait(60)
    assert ended == 0, ended
    print("packages: installed by apt; first object stored and read by the unit's own command line")


def instructions(name, size, environment):
    """Of a whole run: with a block for each instruction the emulator logs one line for each."""
    command = [QEMU, "-one-insn-per-tb", "-d", "nochain,exec", BUILD / "bin" / "digest_cost", name, size]
    emulated = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, env=environment)
    counted = subprocess.run(["grep", "-c", "^Trace"], stdin=emulated.stderr, stdout=subprocess.PIPE, text=True)
    emulated.stderr.close()
    assert emulated.wait() == 0, (name, size)
    return int(counted.stdout)


def costs():
    """Prints a table of instructions for a byte."""
    clean = {key: value for key, value in os.environ.items() if key not in WITHOUT}
    names = run(QEMU, BUILD / "bin" / "digest_cost", stdout=subprocess.PIPE, text=True).stdout.split()

    def a_byte(name, environment):
        return (instructions(name, MUCH, environment) - instructions(name, LITTLE, environment)) / (MUCH - LITTLE)

    print("| work | instructions a byte | without the processor's AES and SHA |\n| --- | --- | --- |")
    for name in names:
        without = ""
        if name.startswith(("aes", "chacha", "sha")):
            without = f"{a_byte(name, {**clean, **WITHOUT}):.2f}"
        print(f"| `{name}` | {a_byte(name, clean):.2f} | {without} |", flush=True)


def main():
    jobs = os.environ.get("NINJAFLAGS", "").split()
    run("ninja", "-C", BUILD, *jobs, *(f"verbena_{name}_test" for name in PROGRAMS), "digest_cost", stdout=subprocess.DEVNULL)
    failed = [name for name in PROGRAMS if not test(name)]
    packages()
    costs()
    if failed:
        sys.exit(f"emulated {architecture()}: failed: {' '.join(failed)}")
    print(f"emulated {architecture()}: passed")


main()
