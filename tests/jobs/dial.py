"""A few numbers that one process turns while others read them: a file mapped into both.

    dial = Dial(path)
    dial.set("latency", 40.0)
    dial.get("latency")
"""

import mmap
import os
import struct

# What each number is, in its unit: ms more per read, MB/s at most (0: no limit), the chance of a slow
# sample, MB read from the disk per sample.
NAMES = ("latency", "rate", "slow", "cold")
NUMBER = struct.Struct("<d")


class Dial:
    """The numbers by name; 0 until they are set."""

    def __init__(self, path):
        self.path = path
        self._view = None

    def __getstate__(self):
        return self.path

    def __setstate__(self, path):
        self.__init__(path)

    def make(self):
        """Makes the file, all numbers 0; the servers that read it may be another user's."""
        with open(self.path, "wb") as file:
            file.write(bytes(NUMBER.size * len(NAMES)))
        os.chmod(self.path, 0o644)
        return self

    def get(self, name):
        if self._view is None:
            with open(self.path, "rb") as file:
                self._view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        return NUMBER.unpack_from(self._view, NUMBER.size * NAMES.index(name))[0]

    def set(self, name, value):
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(NUMBER.size * NAMES.index(name))
            file.write(NUMBER.pack(value))


def maybe(path):
    """The dial of a path; of none, one that never moves."""
    return Dial(path) if path else Still()


class Still:
    """No dial: all numbers stay 0."""

    def get(self, name):
        assert name in NAMES
        return 0.0
