#!/usr/bin/python3
"""A library under another vendor's name (clients/compat) shows the symbols and types that are on record, as libabigail
reads them; and a record that was changed is found to differ.

usage: vendor_abi_test.py LIBRARY NAME [--record]
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PRIVATE = ["--no-architecture", "--suppressions", str(HERE / "private.suppr")]
CHANGED = 4  # a bit of abidiff's exit status; 1 and 2 are errors of its own

# A change of the record for each way to break callers: (what it is, pattern, replacement).
PLANTED = {
    "s3rdma": [
        ("a function that is gone", r"\bs3rdma_client_ready\b", "s3rdma_client_gone"),
        ("another symbol version", r"S3RDMA_0", "S3RDMA_1"),
        ("a parameter more", r"(<function-decl name='s3rdma_client_free'[^>]*>\n)( *<parameter [^>]*>\n)", r"\1\2\2"),
        ("another type of a parameter", r"(<parameter type-id=')[^']*(' name='token')", r"\1type-id-1\2"),
    ],
    "cuobjclient": [
        ("a method that is gone", "isConnected", "isConnecteg"),
        ("a class of another size", "size-in-bits='576'", "size-in-bits='640'"),
        ("another value of an enumeration", "name='CUOBJ_PUT' value='1'", "name='CUOBJ_PUT' value='2'"),
        ("a member at another place", r"layout-offset-in-bits='64'>(\s*<var-decl name='desc_str')",
         r"layout-offset-in-bits='96'>\1"),
    ],
}


def record(library, into):
    subprocess.run(["abidw", *PRIVATE, "--exported-interfaces-only", "--no-show-locs", "--no-comp-dir-path",
                    "--no-corpus-path", "--no-elf-needed", "--out-file", str(into), library], check=True)


def differences(recorded, library):
    """None, or what abidiff says."""
    done = subprocess.run(["abidiff", *PRIVATE, str(recorded), library], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    assert done.returncode & CHANGED, f"abidiff ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def main():
    library, name = sys.argv[1:3]
    if shutil.which("abidiff") is None:
        print("skipped: abigail-tools is not installed")
        sys.exit(77)
    recorded = HERE / f"{name}.abi"
    if "--record" in sys.argv:
        record(library, recorded)
        return
    found = differences(recorded, library)
    assert found is None, f"the interface is not the recorded one; if callers of the record are served, --record:\n{found}"

    text = recorded.read_text()
    with tempfile.TemporaryDirectory() as folder:
        for what, pattern, replacement in PLANTED[name]:
            changed, count = re.subn(pattern, replacement, text)
            assert count > 0, f"{what}: the record has no such place"
            planted = pathlib.Path(folder) / "planted.abi"
            planted.write_text(changed)
            assert differences(planted, library) is not None, f"{what} was not found"
            print("found:", what)


main()
