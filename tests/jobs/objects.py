"""An object store like S3, over HTTP: GET with a Range of an object, no signatures.

    objects.py FOLDER LATENCY_MS BYTES_PER_SECOND LINK_MBIT [DIAL]

serves the files of FOLDER as `/bucket/NAME` and says `ADDRESS PORT`. Each answer begins after the
latency, and bytes are paid for from a token bucket, unless 0. With LINK_MBIT the server lives in a
network namespace of its own at the far end of a veth pair, and the link itself is the bucket: `tc`
shapes it (root only). It ends when its standard input does.
"""

import ctypes
import http.client
import http.server
import os
import subprocess
import sys
import threading
import time
import urllib.parse

import dial as dials
from store import Bucket

PART = 1 << 18
CLONE_NEWNET = 0x40000000
# Addresses set aside for measuring networks (RFC 2544): no real host has one.
NEAR, FAR = "198.18.77.1", "198.18.77.2"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers range requests."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: N802 (the name is the protocol's)
        path = os.path.join(self.server.folder, os.path.basename(urllib.parse.unquote(self.path)))
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                first, last = self.range_of(size)
                file.seek(first)
                data = file.read(last - first + 1)
        except OSError:
            self.send_error(404)
            return
        time.sleep(self.server.latency + self.server.dial.get("latency") / 1e3)
        self.send_response(206)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        for at in range(0, len(data), PART):
            part = data[at : at + PART]
            self.server.bucket.take(len(part))
            self.wfile.write(part)

    def range_of(self, size):
        """The first and the last byte wanted."""
        wanted = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")
        return int(wanted[0] or 0), min(int(wanted[1]) if wanted[1] else size - 1, size - 1)

    def log_message(self, *_):
        pass


class Client:
    """Reads objects; each thread of each process has its own connection. `amplify`: bytes read per
    sample besides, by range, from one large object."""

    cause = "fetch.network"

    def __init__(self, address, port, amplify=0, large="large.bin"):
        self.about = (address, port, amplify, large)
        self._local = threading.local()

    def __getstate__(self):
        return self.about

    def __setstate__(self, about):
        self.__init__(*about)

    def read(self, path):
        """The bytes of an object named as a file is."""
        _, _, amplify, large = self.about
        if amplify:
            self.get(large, amplify)
        return self.get(os.path.basename(path))

    def get(self, name, count=0):
        mine = getattr(self._local, "mine", None)
        if mine is None or mine[0] != os.getpid():
            address, port = self.about[:2]
            mine = self._local.mine = (os.getpid(), http.client.HTTPConnection(address, port, timeout=60))
        mine[1].request("GET", f"/bucket/{name}", headers={"Range": f"bytes=0-{count - 1 if count else ''}"})
        answer = mine[1].getresponse()
        data = answer.read()
        if answer.status != 206:
            raise OSError(f"/bucket/{name}: expected 206, found {answer.status}")
        return data


def link(name, mbit):
    """A namespace at the far end of a shaped veth pair; raises CalledProcessError where refused."""
    near, far = f"{name[:13]}-n", f"{name[:13]}-f"
    inside = ["ip", "netns", "exec", name]
    for command in (
        ["ip", "netns", "add", name],
        ["ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", name],
        ["ip", "addr", "add", f"{NEAR}/30", "dev", near],
        ["ip", "link", "set", near, "up"],
        inside + ["ip", "addr", "add", f"{FAR}/30", "dev", far],
        inside + ["ip", "link", "set", far, "up"],
        inside + ["tc", "qdisc", "add", "dev", far, "root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "200ms"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def unlink(name):
    """Takes the namespace away, and with it the link."""
    subprocess.run(["ip", "netns", "del", name], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def enter(name):
    """Moves this process, its network alone, into the namespace."""
    with open(f"/run/netns/{name}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {name}")


def start(folder, latency_ms, bytes_per_second, link_mbit=0, dial=None):
    """Starts a server that is no child of the job; returns (address, port, what keeps it alive)."""
    read, write = os.pipe()
    command = [sys.executable, "-B", os.path.abspath(__file__), folder, str(latency_ms), str(bytes_per_second), str(link_mbit)]
    command += [dial] if dial else []
    starter = subprocess.Popen(command, stdin=read, stdout=subprocess.PIPE, start_new_session=True)
    os.close(read)
    said = starter.stdout.readline().split()
    starter.stdout.close()
    starter.wait()
    if len(said) != 2:
        raise OSError("the object store did not start")
    return said[0].decode(), int(said[1]), write


def main():
    folder, latency_ms, rate, link_mbit = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    name = f"fl{os.getpid()}" if link_mbit else ""
    if name:
        link(name, link_mbit)
        enter(name)
    server = http.server.ThreadingHTTPServer((FAR if name else "127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.folder, server.latency, server.bucket = folder, latency_ms / 1e3, Bucket(rate, *sys.argv[5:6])
    server.dial = dials.maybe(sys.argv[5] if len(sys.argv) > 5 else None)
    print(*server.server_address, flush=True)
    if os.fork():
        # The parent ends at once; what serves is nobody's child (store.py says why).
        os._exit(0)

    def end():
        sys.stdin.read()
        if name:
            unlink(name)
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
