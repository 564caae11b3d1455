"""Arguments and settings for podman on this machine: crun's and podman's requirements that CI machines often lack."""
import os
import pathlib
import resource
import sys


def in_a_namespace():
    """crun fails on a machine with cgroups of both versions mounted: runs the script again in a mount namespace with
    one of them."""
    if os.path.ismount("/sys/fs/cgroup/unified"):
        os.execvp("unshare", ["unshare", "--mount", "sh", "-c", 'umount /sys/fs/cgroup/unified && exec "$@"', "sh", sys.executable, *sys.argv])


def limits():
    """podman requests limits for open files and processes that root may be unable to set. For processes it already
    falls back to the highest process id by itself."""
    pid_max = int(pathlib.Path("/proc/sys/kernel/pid_max").read_text())
    found = []
    for name, which, most in (("nofile", resource.RLIMIT_NOFILE, None), ("nproc", resource.RLIMIT_NPROC, pid_max)):
        limit = resource.getrlimit(which)[1]
        if limit > 0:
            limit = min(limit, most or limit)
            found.append(f"--ulimit={name}={limit}:{limit}")
    return found
