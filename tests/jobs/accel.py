"""An accelerator that is not there: a stub NVML that says how busy the job's device was.

`build(folder)` compiles the management library that Feedline's own tests use (`stub_nvml.c`) into
the folder, and a `Meter` keeps its file of readings true: each tenth of a second the share of the
last second in which the job said that its device works.
"""

import collections
import contextlib
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = (
    os.path.join(HERE, "stub_nvml.c"),
    os.path.join(HERE, "..", "..", "collectors", "src", "accelerator", "testdata", "stub_nvml.c"),
)
READINGS = """driver 590.48.01
count 1
0.uuid GPU-00000000-0000-0000-0000-000000000000
0.name Stub
0.utilization.gpu {busy}
0.utilization.memory {half}
0.memory 85520809984 502267904 64238911488 20780679168
0.power 300000
0.temperature 50
0.clocks.sm 1980
0.clocks.memory 2619
0.throttle 0
0.pcie.tx 100
0.pcie.rx 100
0.process {pid} 1690646016
"""


def build(folder):
    """Compiles the stub into the folder."""
    source = next((path for path in SOURCES if os.path.exists(path)), None)
    if source is None:
        print("skipped: no stub_nvml.c here", file=sys.stderr)
        sys.exit(77)
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", os.path.join(folder, "libnvidia-ml.so.1"), source], check=True)
    except FileNotFoundError:
        print("skipped: no C compiler (cc)", file=sys.stderr)
        sys.exit(77)


class Meter:
    """Knows when the device works, and says how much it did."""

    SPAN = 1_000_000_000

    def __init__(self, folder):
        self.path = os.path.join(folder, "readings")
        self.work = collections.deque()
        self.since = None
        self.lock = threading.Lock()
        self.write(0)
        build(folder)
        threading.Thread(target=self.run, name="meter", daemon=True).start()

    @contextlib.contextmanager
    def busy(self):
        """The device works while inside."""
        self.since = start = time.monotonic_ns()
        yield
        with self.lock:
            self.work.append((start, time.monotonic_ns()))
            self.since = None

    def run(self):
        while True:
            time.sleep(0.1)
            now = time.monotonic_ns()
            with self.lock:
                while self.work and self.work[0][1] < now - self.SPAN:
                    self.work.popleft()
                spans = list(self.work) + ([(self.since, now)] if self.since else [])
            worked = sum(max(0, end - max(start, now - self.SPAN)) for start, end in spans)
            self.write(round(100 * worked / self.SPAN))

    def write(self, busy):
        part = f"{self.path}.part"
        with open(part, "w", encoding="ascii") as file:
            file.write(READINGS.format(busy=busy, half=busy // 2, pid=os.getpid()))
        os.replace(part, self.path)
