"""Slow storage: a file server on a Unix socket that answers late, and no faster than it may.

A loader worker that reads from it blocks in `recv` for real, as it would on a network store. It is
a server, not a disk: reads show up neither in disk counters nor as uninterruptible sleep.

    store.py SOCKET LATENCY_MS BYTES_PER_SECOND [DIAL]

The protocol: the client sends a path and a newline; the server waits the latency, then for its
token bucket (shared by all clients), and sends eight bytes of length and the file. The server ends
when its standard input does, that is, with the job that started it.
"""

import os
import socket
import struct
import subprocess
import sys
import threading
import time

import dial as dials


class Bucket:
    """Tokens of one byte each: takers wait until the bytes they want have been paid for. A dial that
    gives a rate has the last word."""

    def __init__(self, bytes_per_second, dial=None):
        self._rate = bytes_per_second
        self._dial = dials.maybe(dial)
        self._free_at = 0.0
        self._lock = threading.Lock()

    def take(self, count):
        rate = self._dial.get("rate") * 1e6 or self._rate
        if rate <= 0:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + count / rate
            wait = self._free_at - now
        time.sleep(wait)


def answer(client, latency, bucket, dial):
    """Serves one client until it goes."""
    with client, client.makefile("rb") as asked:
        for line in asked:
            with open(line.decode().rstrip("\n"), "rb") as file:
                data = file.read()
            time.sleep(latency + dial.get("latency") / 1e3)
            bucket.take(len(data))
            client.sendall(struct.pack("<q", len(data)) + data)


def serve(path, latency, bytes_per_second, dial=None):
    """Accepts clients for ever."""
    bucket, dial = Bucket(bytes_per_second, dial), dials.maybe(dial)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(64)
        print("serving", flush=True)
        while True:
            client, _ = server.accept()
            threading.Thread(target=answer, args=(client, latency, bucket, dial), daemon=True).start()


def start(path, latency_ms, bytes_per_second, dial=None):
    """Starts a server in another session, not as a child; returns what keeps it alive.

    Storage is no part of a job, so its processes must not be children of the job either: the
    process started here hands over to its own child and ends.
    """
    read, write = os.pipe()
    command = [sys.executable, "-B", os.path.abspath(__file__), path, str(latency_ms), str(bytes_per_second)]
    command += [dial] if dial else []
    starter = subprocess.Popen(command, stdin=read, stdout=subprocess.PIPE, start_new_session=True)
    os.close(read)
    starter.stdout.readline()
    starter.stdout.close()
    starter.wait()
    return write


class Client:
    """Reads files from a store; connects on first use, so that each worker has its own connection."""

    def __init__(self, path):
        self.path = path
        self._local = threading.local()

    def __getstate__(self):
        return self.path

    def __setstate__(self, path):
        self.__init__(path)

    def read(self, path):
        """The bytes of a file."""
        mine = getattr(self._local, "mine", None)
        if mine is None or mine[0] != os.getpid():
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self.path)
            mine = self._local.mine = (os.getpid(), connection)
        mine[1].sendall(path.encode() + b"\n")
        (length,) = struct.unpack("<q", self._exactly(mine[1], 8))
        return self._exactly(mine[1], length)

    @staticmethod
    def _exactly(connection, count):
        data = bytearray()
        while len(data) < count:
            part = connection.recv(count - len(data))
            if not part:
                raise OSError(f"store: expected {count} bytes, found the end after {len(data)}")
            data += part
        return bytes(data)


def main():
    if os.fork():
        # The parent ends once the server has said that it serves; its output is the child's.
        os._exit(0)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    serve(sys.argv[1], float(sys.argv[2]) / 1e3, float(sys.argv[3]), *sys.argv[4:5])


if __name__ == "__main__":
    main()
