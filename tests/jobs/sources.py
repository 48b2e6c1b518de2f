"""Where samples are read from; each source knows what reading from it costs (`cause`).

    source.read(path) -> bytes
"""

import mmap
import os
import random
import subprocess
import sys
import time

import numpy

import dial as dials
import stamps


class Local:
    """The bytes of a local file, from the page cache."""

    cause = "fetch.cache"

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()


def shard(folder, size, name="cold.shard"):
    """A large file of random bytes, written through to the disk."""
    path = os.path.join(folder, name)
    if not os.path.exists(path) or os.path.getsize(path) < size:
        part = f"{path}.{os.getpid()}"
        with open(part, "wb") as file:
            for _ in range(size >> 20):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
            # All of it: of a part, large folios that reach beyond it would stay.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.rename(part, path)
    return path


class Cold(Local):
    """The bytes of a local file, and much more of the disk: storage that really is read.

    Every sample also reads `amplify` bytes at a random place of a large file, and tells the kernel
    to forget them, so that the worker waits for the disk each time.
    """

    cause = "fetch.storage"

    def __init__(self, folder, amplify):
        self.shard = shard(folder, 256 << 20)
        self.amplify = amplify

    def read(self, path):
        file = os.open(self.shard, os.O_RDONLY)
        try:
            size = os.fstat(file).st_size
            at = random.randrange(0, max(1, size - self.amplify)) & ~0xFFFF
            os.posix_fadvise(file, at, self.amplify, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(file, at, self.amplify, os.POSIX_FADV_RANDOM)
            for offset in range(at, at + self.amplify, 1 << 17):
                os.pread(file, 1 << 17, offset)
            os.posix_fadvise(file, at, self.amplify, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
        return super().read(path)


class Dialled(Local):
    """The bytes of a local file; while the dial says so, much more of the disk as well."""

    def __init__(self, folder, dial):
        self.dial = dials.maybe(dial)
        self.cold = Cold(folder, 1 << 20)

    @property
    def cause(self):
        return Cold.cause if self.dial.get("cold") else Local.cause

    def read(self, path):
        megabytes = int(self.dial.get("cold"))
        if not megabytes:
            return super().read(path)
        self.cold.amplify = megabytes << 20
        return self.cold.read(path)


class Shards(Local):
    """The bytes of a local file; after so many of them the worker reads its next shard from the disk."""

    def __init__(self, folder, megabytes, samples):
        # The file is smaller than a shard may be: it is read several times, each time from the disk.
        self.cold, self.times = Cold(folder, min(megabytes, 256) << 20), max(1, megabytes // 256)
        self.samples, self.count = samples, 0

    @property
    def cause(self):
        return Local.cause if self.count % self.samples else Cold.cause

    def read(self, path):
        self.count += 1
        if self.count % self.samples == 1:
            for _ in range(self.times):
                self.cold.read(path)
        return super().read(path)


class Mapped(Local):
    """The bytes of a local file, and pages of a mapped one that are on the disk: page faults, no reads."""

    cause = "fetch.storage"

    def __init__(self, folder, amplify):
        self.shard = shard(folder, 256 << 20)
        self.amplify = amplify

    def read(self, path):
        with open(self.shard, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            at = random.randrange(0, max(1, size - self.amplify)) & ~0xFFFF
            os.posix_fadvise(file.fileno(), at, self.amplify, os.POSIX_FADV_DONTNEED)
            with mmap.mmap(file.fileno(), self.amplify, prot=mmap.PROT_READ, offset=at) as view:
                view.madvise(mmap.MADV_RANDOM)
                # NumPy lets other threads run while it waits for pages.
                touched = int(numpy.frombuffer(view, numpy.uint8)[:: mmap.PAGESIZE].max())
            os.posix_fadvise(file.fileno(), at, self.amplify, os.POSIX_FADV_DONTNEED)
        return super().read(path) if touched >= 0 else b""


class Warm(Local):
    """The bytes of a local file, and much more out of the page cache: copying is all it costs."""

    cause = "fetch.cache"

    def __init__(self, folder, amplify):
        self.shard = shard(folder, 256 << 20, "warm.shard")
        self.amplify = amplify
        with open(self.shard, "rb", buffering=0) as file:
            while file.read(1 << 22):
                pass

    def read(self, path):
        with open(self.shard, "rb", buffering=0) as file:
            buffer = memoryview(bytearray(1 << 22))
            left = self.amplify
            while left > 0:
                file.seek(random.randrange(0, (256 << 20) - (1 << 22)))
                left -= file.readinto(buffer)
        return super().read(path)


class Mounted(Local):
    """The bytes of a file on a slow file system of ours (`slowfs.py`); a read that fails is repeated."""

    cause = "fetch.network"

    def __init__(self, folder, data, latency_ms, bytes_per_second, fault_every, alive, dial=None):
        self.point = os.path.join(folder, "mount")
        os.mkdir(self.point)
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slowfs.py")
        read, write = os.pipe()
        command = [sys.executable, "-B", here, self.point, data, str(latency_ms), str(bytes_per_second), str(fault_every)]
        command += [dial] if dial else []
        starter = subprocess.Popen(command, stdin=read, stdout=subprocess.PIPE, start_new_session=True)
        os.close(read)
        alive.append(write)
        if starter.stdout.readline() != b"serving\n":
            raise OSError(f"{self.point}: the slow file system did not start")
        starter.stdout.close()
        starter.wait()

    def read(self, path):
        for _ in range(5):
            try:
                return super().read(os.path.join(self.point, os.path.basename(path)))
            except OSError:
                time.sleep(0.002)
        return super().read(path)


class Client:
    """A client of `store` or `objects`, with what its reads cost."""

    cause = "fetch.network"

    def __init__(self, client):
        self.client = client

    def read(self, path):
        return self.client.read(path)


def open_source(args, folder, alive):
    """The source that the arguments name; what must stay open while it is used goes to `alive`."""
    if args.storage == "store":
        import store

        path = os.path.join(folder, "store.sock")
        alive.append(store.start(path, args.latency_ms, args.mb_s * 1e6, args.dial))
        return Client(store.Client(path))
    if args.storage == "objects":
        import objects

        address, port, end = objects.start(args.data, args.latency_ms, args.mb_s * 1e6, args.link_mbit, args.dial)
        alive.append(end)
        return Client(objects.Client(address, port))
    if args.storage == "mount":
        return Mounted(folder, args.data, args.latency_ms, args.mb_s * 1e6, args.fault_every, alive, args.dial)
    if args.storage == "dialled":
        return Dialled(folder, args.dial)
    if args.storage == "shards":
        return Shards(folder, args.read_mb, args.shard)
    kinds = {"cold": Cold, "mapped": Mapped, "warm": Warm}
    if args.storage in kinds:
        return kinds[args.storage](folder, args.read_mb << 20)
    return Local()


def read(source, path):
    """The bytes of a file, stamped with what reading them costs."""
    with stamps.phase(source.cause):
        return source.read(path)
