"""Where the bytes of a sweep lie, and what is known of the page cache.

    store.read(name, offset, size) -> bytes

A name is a file of one flat folder. A store that is `cold` tells the kernel to forget what was read,
so that a second pass over a small data set is as slow as the first over a large one.
"""

import ctypes
import http.client
import mmap
import os
import subprocess
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
KEPT_OPEN = 64


class Files:
    """A folder read through the page cache."""

    local = True

    def __init__(self, folder, cold=False):
        self.folder, self.cold = folder, cold
        self.handles = {}

    def __getstate__(self):
        return self.folder, self.cold

    def __setstate__(self, state):
        self.__init__(*state)

    flags = os.O_RDONLY

    def handle(self, name):
        """An open file; a few are kept, each process its own."""
        mine = self.handles.setdefault(os.getpid(), {})
        if name not in mine:
            if len(mine) >= KEPT_OPEN:
                os.close(mine.pop(next(iter(mine))))
            mine[name] = os.open(os.path.join(self.folder, name), self.flags)
        return mine[name]

    def read(self, name, offset, size):
        """Some bytes of a file that stays open."""
        return self.part(self.handle(name), offset, size)

    def whole(self, name, size):
        """All of a file that is opened and closed for it."""
        file = os.open(os.path.join(self.folder, name), self.flags)
        try:
            return self.part(file, 0, size)
        finally:
            os.close(file)

    def part(self, file, offset, size):
        data = os.pread(file, size, offset)
        while len(data) < size:
            more = os.pread(file, size - len(data), offset + len(data))
            if not more:
                raise OSError(f"expected {size} bytes at {offset}, found {len(data)}")
            data += more
        if self.cold:
            os.posix_fadvise(file, offset, size, os.POSIX_FADV_DONTNEED)
        return data

    def settle(self, names):
        """Brings the page cache to the state in which a run begins: all of the files in it, or none."""
        for name in names:
            file = os.open(os.path.join(self.folder, name), os.O_RDONLY)
            try:
                if self.cold:
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                else:
                    while os.read(file, 1 << 22):
                        pass
            finally:
                os.close(file)

    def resident(self, names):
        """Share of the files that is in the page cache; None where that cannot be told."""
        pages = found = 0
        for name in names:
            path = os.path.join(self.folder, name)
            size = os.path.getsize(path)
            if not size:
                continue
            try:
                with open(path, "rb") as file, mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE) as area:
                    found += count_resident(area, size)
            except (OSError, ValueError):
                return None
            pages += (size + PAGE - 1) // PAGE
        return found / pages if pages else None


def count_resident(area, size):
    """Pages of a mapping that are in memory (mincore)."""
    count = (size + PAGE - 1) // PAGE
    flags = (ctypes.c_ubyte * count)()
    # A private writable mapping may be borrowed as a buffer; nothing is written to it.
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    if LIBC.mincore(ctypes.c_void_p(start), ctypes.c_size_t(size), flags) != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(flag & 1 for flag in flags)


class Direct(Files):
    """A folder read past the page cache (O_DIRECT), in whole blocks."""

    flags = os.O_RDONLY | os.O_DIRECT

    def __init__(self, folder, cold=True):
        super().__init__(folder, cold)
        self.buffers = threading.local()

    def part(self, file, offset, size):
        first = offset & ~(PAGE - 1)
        wanted = offset + size - first
        length = (wanted + PAGE - 1) & ~(PAGE - 1)
        buffer = getattr(self.buffers, "buffer", None)
        if buffer is None or len(buffer) < length:
            # A mapping, for its address is that of a page.
            buffer = self.buffers.buffer = mmap.mmap(-1, length)
        with memoryview(buffer) as view:
            done = 0
            while done < wanted:
                with view[done:length] as rest:
                    count = os.preadv(file, [rest], first + done)
                if count <= 0:
                    raise OSError(f"expected {size} bytes at {offset}, found {done}")
                done += count
            return bytes(view[offset - first : offset - first + size])


class Remote(Files):
    """A mount: nothing of it is kept in the page cache."""

    local = False

    def settle(self, names):
        pass

    def resident(self, names):
        return None


class Objects:
    """An object store over HTTP; each thread of each process has its own connection."""

    local = False
    cold = False

    def __init__(self, address, port):
        self.about = (address, port)
        self.mine = threading.local()

    def __getstate__(self):
        return self.about

    def __setstate__(self, about):
        self.__init__(*about)

    def read(self, name, offset, size):
        kept = getattr(self.mine, "kept", None)
        if kept is None or kept[0] != os.getpid():
            kept = self.mine.kept = (os.getpid(), http.client.HTTPConnection(*self.about, timeout=60))
        kept[1].request("GET", f"/bucket/{name}", headers={"Range": f"bytes={offset}-{offset + size - 1}"})
        answer = kept[1].getresponse()
        data = answer.read()
        if answer.status != 206 or len(data) != size:
            raise OSError(f"/bucket/{name}: expected 206 and {size} bytes, found {answer.status} and {len(data)}")
        return data

    def whole(self, name, size):
        return self.read(name, 0, size)

    def settle(self, names):
        pass

    def resident(self, names):
        return None


def mounted(point, folder, latency_ms, mb_s, alive):
    """A slow file system of ours that shows a folder; needs root."""
    os.makedirs(point, exist_ok=True)
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slowfs.py")
    read, write = os.pipe()
    command = [sys.executable, "-B", here, point, folder, str(latency_ms), str(mb_s * 1e6), "0"]
    starter = subprocess.Popen(command, stdin=read, stdout=subprocess.PIPE, start_new_session=True)
    os.close(read)
    alive.append(write)
    if starter.stdout.readline() != b"serving\n":
        raise OSError(f"{point}: the slow file system did not start")
    starter.stdout.close()
    starter.wait()
    return Remote(point)


def opened(setting, folder, point, alive):
    """The store of a setting; what keeps its server alive goes to `alive`."""
    kind = setting["storage"]
    if kind in ("cache", "tmpfs"):
        return Files(folder)
    if kind in ("disk", "throttled"):
        return Files(folder, cold=True)
    if kind == "direct":
        return Direct(folder)
    if kind == "fuse":
        return mounted(point, folder, setting["latency_ms"], setting["mb_s"], alive)
    if kind == "objects":
        import objects

        address, port, end = objects.start(folder, setting["latency_ms"], setting["mb_s"] * 1e6, setting["link_mbit"])
        alive.append(end)
        return Objects(address, port)
    raise SystemExit(f"storage `{kind}`: expected cache, tmpfs, disk, direct, throttled, fuse or objects")
