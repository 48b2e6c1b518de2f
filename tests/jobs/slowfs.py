"""A file system of ours that is slow on purpose: FUSE, spoken with the kernel directly.

    slowfs.py MOUNT FOLDER LATENCY_MS BYTES_PER_SECOND FAULT_EVERY [DIAL]

Shows the files of FOLDER, read-only, under MOUNT. Each read is answered after the latency and when
the token bucket (one for all) has paid for it; every FAULT_EVERY-th read (0: none) fails with EIO.
Nothing is kept in the page cache, as with a network mount opened for direct reads. Mounting needs
root. It says `serving` when mounted, and unmounts and ends when its standard input does.
"""

import concurrent.futures
import ctypes
import errno
import itertools
import os
import stat
import struct
import sys
import threading
import time

import dial as dials
from store import Bucket

IN, OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
ATTRIBUTES = struct.Struct("<6Q10I")
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 25, 26, 27, 28, 29, 34, 36, 38, 42
DIRECT_IO, ASYNC_READ, MAX_PAGES = 1, 1, 1 << 22
MS_RDONLY, MNT_DETACH = 1, 2
ROOT = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class Slow:
    """The file system, without how it is spoken with."""

    def __init__(self, folder, latency, bytes_per_second, fault_every, dial=None):
        self.folder, self.latency, self.fault_every = folder, latency, fault_every
        self.bucket, self.dial = Bucket(bytes_per_second, dial), dials.maybe(dial)
        self.nodes = {ROOT: ""}
        self.reads = itertools.count(1)

    def path(self, node):
        return os.path.join(self.folder, self.nodes[node])

    def attributes(self, node):
        found = os.stat(self.path(node))
        mode = (stat.S_IFDIR | 0o555) if stat.S_ISDIR(found.st_mode) else (stat.S_IFREG | 0o444)
        times = (int(found.st_atime), int(found.st_mtime), int(found.st_ctime))
        return ATTRIBUTES.pack(node, found.st_size, (found.st_size + 511) // 512, *times, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def lookup(self, node, name):
        path = os.path.join(self.nodes[node], name.rstrip(b"\0").decode())
        number = os.stat(os.path.join(self.folder, path)).st_ino + ROOT
        self.nodes[number] = path
        return struct.pack("<QQQQII", number, 0, 60, 60, 0, 0) + self.attributes(number)

    def read(self, handle, offset, size):
        time.sleep(self.latency + self.dial.get("latency") / 1e3)
        if self.fault_every and next(self.reads) % self.fault_every == 0:
            raise OSError(errno.EIO, "as asked for")
        data = os.pread(handle, size, offset)
        self.bucket.take(len(data))
        return data

    def answer(self, code, node, body):
        """The body of the reply; OSError for an error."""
        if code == INIT:
            flags = struct.unpack_from("<4I", body)[3] & (ASYNC_READ | MAX_PAGES)
            return struct.pack("<4IHHIIHH8I", 7, 31, 1 << 20, flags, 64, 48, 1 << 20, 1, 256, 0, *[0] * 8)
        if code == LOOKUP:
            return self.lookup(node, body)
        if code == GETATTR:
            return struct.pack("<QII", 60, 0, 0) + self.attributes(node)
        if code == OPEN:
            return struct.pack("<QII", os.open(self.path(node), os.O_RDONLY), DIRECT_IO, 0)
        if code == READ:
            return self.read(*struct.unpack_from("<QQI", body))
        if code == RELEASE:
            os.close(struct.unpack_from("<Q", body)[0])
            return b""
        if code == OPENDIR:
            return struct.pack("<QII", 0, 0, 0)
        if code == STATFS:
            return struct.pack("<5Q10I", 1 << 20, 0, 0, 1 << 10, 0, 4096, 255, 4096, *[0] * 7)
        if code in (FLUSH, RELEASEDIR, ACCESS, DESTROY, READDIR):
            return b""
        raise OSError(errno.ENOSYS, "not spoken here")


def serve(device, slow):
    """Answers the kernel until the file system is unmounted."""
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        while True:
            try:
                message = os.read(device, (1 << 20) + 4096)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return
            _, code, unique, node, *_ = IN.unpack_from(message)
            if code not in (FORGET, BATCH_FORGET, INTERRUPT):
                work = (reply, device, slow, code, unique, node, message[IN.size:])
                if code == READ:
                    pool.submit(*work)
                else:
                    work[0](*work[1:])


def reply(device, slow, code, unique, node, body):
    """Answers one request."""
    failed, data = 0, b""
    try:
        data = slow.answer(code, node, body)
    except OSError as error:
        failed = -(error.errno or errno.EIO)
    except KeyError:
        failed = -errno.ESTALE
    try:
        os.write(device, OUT.pack(OUT.size + len(data), failed, unique) + data)
    except OSError:
        # Whoever asked has gone.
        pass


def mount(point):
    """Mounts at `point`; returns the device to speak through."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,max_read={1 << 20}".encode()
    if LIBC.mount(b"slowfs", point.encode(), b"fuse.slowfs", MS_RDONLY, options) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount {point}: {os.strerror(code)}")
    return device


def main():
    point, folder = sys.argv[1:3]
    latency, rate, fault_every = float(sys.argv[3]) / 1e3, float(sys.argv[4]), int(sys.argv[5])
    device = mount(point)
    print("serving", flush=True)
    if os.fork():
        # The parent ends at once; what serves is nobody's child (store.py says why).
        os._exit(0)

    def end():
        sys.stdin.read()
        LIBC.umount2(point.encode(), MNT_DETACH)
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()
    serve(device, Slow(folder, latency, rate, fault_every, *sys.argv[6:7]))


if __name__ == "__main__":
    main()
