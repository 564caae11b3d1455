#!/usr/bin/python3
"""The packages' man pages and completions work in man, zsh and fish (by hand: ./dev package --test installs them).

usage: shells_test.py PACKAGES_FOLDER
"""
import pathlib
import subprocess
import sys
import tempfile


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0 and not done.stderr, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def main():
    with tempfile.TemporaryDirectory(prefix="verbena-shells-") as work:
        deb = next(pathlib.Path(sys.argv[1]).glob("verbena_*.deb"))
        subprocess.run(["dpkg-deb", "-x", str(deb), work], check=True)
        share = pathlib.Path(work, "usr/share")
        pages = sorted((share / "man/man1").iterdir())
        assert len(pages) > 20, pages
        for page in pages:
            text = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page), env={"MANWIDTH": "100", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
            assert text
        print(f"man: {len(pages)} pages without a warning")
        run("zsh", "-n", str(share / "zsh/vendor-completions/_verbena"))
        script = share / "fish/vendor_completions.d/verbena.fish"
        run("fish", "-n", str(script))
        home = {"HOME": work, "PATH": "/usr/bin:/bin"}
        offered = run("fish", "--no-config", "-c", f"source {script}; complete -C 'verbena user pol'", env=home)
        assert offered.startswith("policy\t"), offered
        offered = run("fish", "--no-config", "-c", f"source {script}; complete -C 'verbena server --conf'", env=home)
        assert offered.startswith("--config\t"), offered
        print("zsh, fish: completions are taken")


main()
