"""Processes that never outlive the run and never make it wait for ever.

Output goes to files, not pipes: a grandchild that keeps a pipe open cannot hold up a wait. Every wait has an end.
"""
import os
import pathlib
import signal
import subprocess
import tempfile
import time

STOP_S = 5.0


class BenchError(Exception):
    """A step failed; the text says which."""


class Skip(Exception):
    """This cannot be measured here; the text says why."""


def _enter(namespace, command):
    return (["ip", "netns", "exec", namespace] if namespace else []) + [str(word) for word in command]


def read(path):
    return pathlib.Path(path).read_text(errors="replace")


class Process:
    """A background process. `ip netns exec` replaces itself, so the process id is the command's own."""
    running = []
    root = None  # where outputs are kept; the run's folder

    def __init__(self, command, namespace=None, name=None, environment=None, directory=None):
        self.name = name or os.path.basename(str(command[0]))
        self.folder = tempfile.mkdtemp(prefix="out-", dir=Process.root)
        self.out, self.err = f"{self.folder}/out", f"{self.folder}/err"
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.handle = subprocess.Popen(
                _enter(namespace, command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=directory,
                env=dict(os.environ, LC_ALL="C", **(environment or {})), start_new_session=True)
        Process.running.append(self)

    @property
    def pid(self):
        return self.handle.pid

    def is_alive(self):
        return self.handle.poll() is None

    def send(self, number):
        try:
            os.killpg(self.handle.pid, number)
        except ProcessLookupError:
            pass

    def wait(self, timeout):
        """The exit code; kills the process and raises when it takes longer than `timeout` seconds."""
        try:
            code = self.handle.wait(timeout)
        except subprocess.TimeoutExpired:
            said = self.said()
            self.stop(grace=0)
            raise BenchError(f"{self.name} did not end within {timeout:g} s{said}") from None
        self._forget()
        return code

    def output(self, timeout):
        """Standard output of a process that ends by itself, with success."""
        code = self.wait(timeout)
        if code != 0:
            raise BenchError(f"{self.name} ended with {code}{self.said()}")
        return read(self.out)

    def said(self):
        lines = (read(self.err) + read(self.out)).strip().splitlines()[-4:]
        return ": " + " / ".join(lines) if lines else ""

    def wait_ready(self, timeout=10, word="ready"):
        wait_for(lambda: word in read(self.err) or not self.is_alive(), timeout, f"{self.name} to be ready")
        if not self.is_alive() and word not in read(self.err):
            raise BenchError(f"{self.name} did not start{self.said()}")
        return self

    def stop(self, grace=STOP_S, number=signal.SIGTERM):
        """Asks, then forces. Returns False when force was needed."""
        asked = True
        if self.is_alive():
            self.send(number)
            try:
                self.handle.wait(grace)
            except subprocess.TimeoutExpired:
                asked = False
                self.send(signal.SIGCONT)
                self.send(signal.SIGKILL)
                try:
                    self.handle.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    pass
        self._forget()
        return asked

    def _forget(self):
        if self in Process.running:
            Process.running.remove(self)

    @classmethod
    def stop_all(cls):
        for process in list(reversed(cls.running)):
            process.send(signal.SIGCONT)
            process.send(signal.SIGTERM)
        for process in list(reversed(cls.running)):
            process.stop(grace=2)


def run(command, namespace=None, timeout=20, text=None, check=True, name=None):
    """Standard output of a short command; BenchError when it fails or takes longer than `timeout` seconds."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, tempfile.TemporaryFile("w+") as given:
        given.write(text or "")
        given.seek(0)
        words = _enter(namespace, command)
        handle = subprocess.Popen(words, stdin=given, stdout=out, stderr=err, env=dict(os.environ, LC_ALL="C"),
                                  start_new_session=True)
        try:
            code = handle.wait(timeout)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{name or ' '.join(words)} took longer than {timeout:g} s") from None
        finally:
            if handle.poll() is None:
                os.killpg(handle.pid, signal.SIGKILL)
                handle.wait(STOP_S)
        out.seek(0)
        err.seek(0)
        if check and code != 0:
            raise BenchError(f"{name or ' '.join(words)} ended with {code}: {err.read().strip()[-400:]}")
        return out.read()


def wait_for(condition, timeout, what):
    """Polls until the condition holds; BenchError after `timeout` seconds."""
    end = time.monotonic() + timeout
    while not (result := condition()):
        if time.monotonic() > end:
            raise BenchError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(0.02)
    return result
