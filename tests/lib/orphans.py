"""What a test has started ends with the test, however that ends: kill -9 and ctest's time limit leave nothing behind.

A process of its own waits until the test is gone, and ends then what is left: Ceph's daemons of a folder, and servers.

    orphans.watch(folder)   # from now on; the folder goes, too
    orphans.add(pid), orphans.remove(pid)   # nothing, where nobody watches
"""
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys

_LOOK_EVERY_S = 0.5
_watcher = None


def watch(folder):
    global _watcher
    if _watcher is None:
        # A session of its own: Ctrl-C in a terminal goes to the test, which ends things in order.
        _watcher = subprocess.Popen([sys.executable, __file__, str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, start_new_session=True, cwd="/")
    _tell("folder", folder)


def add(pid):
    _tell("add", pid)


def remove(pid):
    _tell("remove", pid)


def _tell(what, whom):
    if _watcher is not None:
        try:
            os.write(_watcher.stdin.fileno(), f"{what} {whom}\n".encode())
        except OSError:  # the watcher was killed: the test goes on without
            pass


def daemons(folder):
    """Process ids of Ceph's daemons, by their pid files. One that has died may have left its number to somebody else."""
    found = []
    for path in (pathlib.Path(folder) / "run").glob("*.pid"):
        try:
            pid = int(path.read_text())
            if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith("ceph-"):
                found.append(pid)
        except (OSError, ValueError):
            pass
    return found


def kill_daemons(folder):
    for pid in daemons(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def _began(pid):
    """When it was started: with its number that is who it is."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return None


def _wait(parent, pids, folders):
    """Until the test is gone."""
    text = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], _LOOK_EVERY_S)[0]:
            continue
        more = os.read(0, 4096)
        if not more:
            return
        *lines, text = (text + more).split(b"\n")
        for line in lines:
            what, whom = line.decode().split(" ", 1)
            if what == "folder":
                folders.append(whom)
            elif what == "add":
                pids[int(whom)] = _began(whom)
            else:
                pids.pop(int(whom), None)


def main(parent):
    pids, folders = {}, []
    _wait(parent, pids, folders)
    for pid, began in pids.items():
        if began is not None and _began(pid) == began:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
    for folder in folders:
        if os.path.isdir(folder):  # else it was ended in order
            kill_daemons(folder)
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
