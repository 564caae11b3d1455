"""How podman is called on this machine: what crun and podman want of it, and machines of continuous integration often do not have."""
import os
import pathlib
import resource
import sys


def in_a_namespace():
    """crun takes no machine that has cgroups of both versions mounted: runs the script again in a mount namespace that has one of them."""
    if os.path.ismount("/sys/fs/cgroup/unified"):
        os.execvp("unshare", ["unshare", "--mount", "sh", "-c", 'umount /sys/fs/cgroup/unified && exec "$@"', "sh", sys.executable, *sys.argv])


def limits():
    """podman asks for more open files and processes than there may be where root may not raise limits. For processes it has gone down to
    the highest process id by itself before."""
    pid_max = int(pathlib.Path("/proc/sys/kernel/pid_max").read_text())
    found = []
    for name, which, most in (("nofile", resource.RLIMIT_NOFILE, None), ("nproc", resource.RLIMIT_NPROC, pid_max)):
        limit = resource.getrlimit(which)[1]
        if limit > 0:
            limit = min(limit, most or limit)
            found.append(f"--ulimit={name}={limit}:{limit}")
    return found
