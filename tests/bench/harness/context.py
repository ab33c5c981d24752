"""What a run of the harness knows: options, where programs are, notes for the result."""
import os
import shutil
import sys
import tempfile

from .report import ROOT, Built


class Context:
    def __init__(self, options):
        self.bin = os.path.abspath(options.bin)
        self.load = f"{self.bin}/bench_load"
        self.peers = os.path.abspath(options.peers)
        self.data = os.path.abspath(options.data) if options.data else None
        self.uncounted = os.path.abspath(options.uncounted) if getattr(options, "uncounted", None) else None
        self.quick = options.quick
        self.folder = tempfile.mkdtemp(prefix=f"ctnb-{os.getpid()}-")
        self.built = Built(self.bin)
        self.peer_versions = {}
        self.disturbed = 0
        self.notes = []
        self.has_failed = False
        self._serial = 0

    def new_folder(self, name):
        self._serial += 1
        path = f"{self.folder}/{self._serial}-{name.replace(' ', '-').replace('/', '-')}"
        os.makedirs(path)
        return path

    def note(self, text):
        print(f"note: {text}", flush=True)
        if text not in self.notes:
            self.notes.append(text)

    def progress(self, text):
        """A sign of life on a terminal; nothing in a log."""
        if sys.stderr.isatty():
            print(f"\r\033[K... {text}\r", end="", file=sys.stderr, flush=True)

    def fail(self, text):
        """A note that makes the run fail in the end: something of ours did not work."""
        self.has_failed = True
        self.note(text)

    def begin_bench(self):
        self.has_failed = False
        self.disturbed = 0
        self.notes = []
        self.peer_versions = {}

    def pick(self, full, quick):
        return quick if self.quick else full

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
