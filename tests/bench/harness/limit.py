"""Holds processes to a share of one processor: by cgroup (version 1 or 2), else by stopping and continuing them in turn."""
import os
import pathlib
import re
import signal
import threading
import time

from .process import BenchError, wait_for

PERIOD_US = 20_000
SHORTEST_QUOTA_US = 1000  # the kernel's
VERSION_1, VERSION_2 = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")


def _cgroup_root():
    if (VERSION_1 / "cpu.cfs_quota_us").exists() or (VERSION_1 / "cpu.shares").exists():
        return VERSION_1
    try:
        if "cpu" in (VERSION_2 / "cgroup.subtree_control").read_text().split():
            return VERSION_2
        (VERSION_2 / "cgroup.subtree_control").write_text("+cpu")
        return VERSION_2
    except OSError:
        return None


class CpuLimit:
    """Each of `pids` on its own, while in the context. `how` says by what."""
    live = []
    serial = 0

    def __init__(self, pids, share):
        self.pids, self.share = list(pids), share
        self.groups, self.stopper = [], None
        self.over = threading.Event()

    def __enter__(self):
        CpuLimit.live.append(self)
        root = _cgroup_root()
        self.how = "cgroup"
        try:
            if root is None:
                raise OSError("no cpu controller")
            for pid in self.pids:
                self._hold(root, pid)
        except OSError:
            self._release()
            self.how = "stopping and continuing"
            self.stopper = threading.Thread(target=self._take_turns, daemon=True)
            self.stopper.start()
        return self

    def _hold(self, root, pid):
        CpuLimit.serial += 1
        group = root / f"ctnb-{os.getpid()}-{CpuLimit.serial}"
        group.mkdir()
        self.groups.append(group)
        quota = max(SHORTEST_QUOTA_US, int(PERIOD_US * self.share))
        if root is VERSION_1:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        (group / "cgroup.procs").write_text(str(pid))

    def _take_turns(self):
        on = PERIOD_US * self.share / 1e6
        while not self.over.is_set():
            self._send(signal.SIGCONT)
            time.sleep(on)
            self._send(signal.SIGSTOP)
            time.sleep(PERIOD_US / 1e6 - on)
        self._send(signal.SIGCONT)

    def _send(self, number):
        for pid in self.pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def _release(self):
        for group in self.groups:
            remove_group(group)
        self.groups = []

    def __exit__(self, *_):
        self.over.set()
        if self.stopper:
            self.stopper.join(2)
        self._release()
        if self in CpuLimit.live:
            CpuLimit.live.remove(self)

    @classmethod
    def close_all(cls):
        for limit in list(cls.live):
            limit.__exit__()


def remove_group(group):
    """Its processes go back to the parent."""
    def try_it():
        try:
            for pid in (group / "cgroup.procs").read_text().split():
                (group.parent / "cgroup.procs").write_text(pid)
            group.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True
    try:
        wait_for(try_it, 3, f"{group} to be empty")
    except BenchError:
        pass  # the next run tries again


def remove_stale():
    """Groups of runs that no longer exist."""
    for root in (VERSION_1, VERSION_2):
        for group in root.glob("ctnb-*-*"):
            match = re.fullmatch(r"ctnb-(\d+)-\d+", group.name)
            if match and not os.path.exists(f"/proc/{match[1]}"):
                remove_group(group)
