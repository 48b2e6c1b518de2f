"""Steps: what a trainer does with a batch."""

import os
import threading
import time

import numpy

KINDS = ("cpu", "sleep", "device", "cuda")


class Cpu:
    """Matrix products on this machine's CPU: for `ms`, or exactly `work` of them if given."""

    def __init__(self, ms, work):
        self._seconds = ms / 1e3
        self._work = work
        self._left = numpy.random.default_rng(0).random((160, 160), dtype=numpy.float32) / 160
        self._state = self._left.copy()

    def __call__(self, batch):
        del batch
        end = time.monotonic() + self._seconds
        done = 0
        while done < self._work or (not self._work and time.monotonic() < end):
            self._state = self._left @ self._state + self._left
            done += 1


class Sleep:
    """Sleeping, where the arithmetic would be an accelerator's."""

    def __init__(self, ms, work):
        del work
        self._seconds = ms / 1e3

    def __call__(self, batch):
        time.sleep(self._seconds)


class Device:
    """A device that works by itself, on which the trainer waits: a wait, but not for data."""

    def __init__(self, ms, work):
        del work
        self._seconds = ms / 1e3
        self._work, self._done = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, name="device", daemon=True).start()

    def _run(self):
        while True:
            self._work.acquire()
            time.sleep(self._seconds)
            self._done.release()

    def __call__(self, batch):
        self._work.release()
        self.synchronize()

    def synchronize(self):
        self._done.acquire()


class CudaStep:
    """Kernels on a real device, and a wait for them."""

    def __init__(self, ms, work):
        import cuda

        del work
        self._seconds = ms / 1e3
        self._cuda = cuda.Cuda()

    def __call__(self, batch):
        del batch
        self._cuda.work(self._seconds)
        self._cuda.wait()


def make(kind, ms, work):
    """A step by name."""
    return {"cpu": Cpu, "sleep": Sleep, "device": Device, "cuda": CudaStep}[kind](ms, work)
