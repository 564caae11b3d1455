"""Ends a test's processes with the test, however that ends: kill -9 and ctest's time limit leave nothing behind.

A separate process waits until the test is gone, then ends the remaining processes: Ceph's daemons of a folder, and
servers.

    orphans.watch(folder)   # from now on; the folder is removed, too
    orphans.add(pid), orphans.remove(pid)   # without effect if no watcher runs
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
        # A session of its own: Ctrl-C in a terminal goes to the test, which ends its processes in order.
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
        except OSError:  # the watcher was killed: the test continues without it
            pass


def daemons(folder):
    """Process ids of Ceph's daemons, from their pid files. The id of a dead daemon may belong to another process."""
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
    """The process's start time: with its id it identifies the process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return None


def _wait(parent, pids, folders):
    """Waits until the test is gone."""
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
        if os.path.isdir(folder):  # else it has ended cleanly
            kill_daemons(folder)
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
