"""git on s3fs: a repository cloned, committed to, packed and checked in a mounted bucket."""
import os
import subprocess

from zoo import ACCESS_KEY, BUCKET, SECRET_KEY, Daemon, Zoo, install, run

install("s3fs", "git", "fuse3")
assert os.path.exists("/dev/fuse"), "s3fs needs /dev/fuse"
with Zoo() as zoo:
    source, mount, secret = zoo.home / "source", zoo.home / "mount", zoo.home / "passwd"
    mount.mkdir()
    secret.touch(mode=0o600)
    secret.write_text(f"{ACCESS_KEY}:{SECRET_KEY}\n")
    env = dict(zoo.env, GIT_CONFIG_GLOBAL=str(zoo.home / "gitconfig"), GIT_CONFIG_SYSTEM="/dev/null")
    git = lambda *words, at=None: run("git", *words, env=env, cwd=at)   # noqa: E731
    for name, value in (("user.name", "zoo"), ("user.email", "zoo@example.org"), ("safe.directory", "*"), ("init.defaultBranch", "main")):
        git("config", "--global", name, value)
    git("init", "-q", source)
    for index in range(60):
        (source / f"file {index}").write_bytes(os.urandom(3000))
        if index % 20 == 19:
            git("add", "-A", at=source)
            git("commit", "-q", "-m", f"{index}", at=source)
    options = f"passwd_file={secret},url={zoo.endpoint},use_path_request_style,endpoint=us-east-1,tmpdir={zoo.home},retries=1"
    with Daemon("s3fs", BUCKET, mount, "-f", "-o", options, env=zoo.env, log=zoo.home / "s3fs.log") as s3fs:
        try:
            s3fs.wait_for(lambda: os.path.ismount(mount))
            clone = mount / "clone"
            git("clone", "-q", source, clone)
            for index in range(5):
                (clone / f"new {index}").write_bytes(os.urandom(5000))
                git("add", "-A", at=clone)
                git("commit", "-q", "-m", f"new {index}", at=clone)
            git("gc", "-q", at=clone)
            git("fsck", "--strict", at=clone)
            assert git("status", "--porcelain", at=clone) == ""
            git("clone", "-q", clone, zoo.home / "back")
            assert git("log", "--format=%H", at=zoo.home / "back") == git("log", "--format=%H", at=clone)
        finally:
            subprocess.run(["fusermount3", "-u", str(mount)], capture_output=True, timeout=60)
