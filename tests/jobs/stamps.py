"""What loader workers were at: phases of their samples, stamped by the code that makes them.

A worker collects phases in the thread that makes a batch; `take()` packs and forgets them when the
batch is complete, and the bytes travel with the batch to the trainer, which unpacks them:

    with stamps.phase("fetch.storage"):
        data = read(path)

Times are the monotonic clock, which all processes of a machine share. A phase also knows how long
its thread queued for a core (`/proc/thread-self/schedstat`): what that time counts as is for the
job to say, because only the injector knows who took the cores.
"""

import collections
import contextlib
import os
import struct
import threading
import time

CAUSES = (
    "fetch.storage", "fetch.cache", "fetch.network", "decode", "handoff", "startup", "contention", "copy", "offload",
    "bubble", "collective", "embedding", "imbalance", "checkpoint", "host", "io", "compute", "unknown",
)

Phase = collections.namedtuple("Phase", "cause start end queued")
Phase.__doc__ = "What a worker was at from `start` to `end`, of which it queued for a core for `queued`, in ns."
Batch = collections.namedtuple("Batch", "worker first begun done phases beside", defaults=(0,))
Batch.__doc__ = """A batch: who made it, whether it was that worker's first, from when to when, and its phases.

`beside`: how long the other threads of its process, those that hand over, had queued by then, in ns."""

HEAD, ROW = struct.Struct("<qBq"), struct.Struct("<Bqqq")
MINE = threading.local()
# Set by the injector: cores are taken from the job; every thread of a worker makes its samples.
CONTENDED = STORM = False


def queued():
    """How long this thread has queued for a core so far, and how long it ran, in ns; in a storm all threads."""
    try:
        if STORM:
            return everybody()
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            ran, waited, _ = file.read().split()
        return int(waited), int(ran)
    except OSError:
        return 0, 0


def everybody():
    """The same of all threads of this process together."""
    waited = ran = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
            parts = file.read().split()
        ran, waited = ran + int(parts[0]), waited + int(parts[1])
    return waited, ran


@contextlib.contextmanager
def phase(cause):
    """Stamps what happens inside as `cause`."""
    waited, ran = queued()
    start = time.monotonic_ns()
    try:
        yield
    finally:
        end = time.monotonic_ns()
        more, longer = queued()
        in_queue = more - waited
        if STORM and in_queue:
            # Of many threads only their common part of queueing can be said: the share of their
            # time on or waiting for a core, of the time that this phase took.
            in_queue = (end - start) * in_queue // (in_queue + longer - ran)
        add(cause, start, end, min(in_queue, end - start))


def add(cause, start, end, in_queue=0):
    """Stamps a phase whose times are known."""
    if not hasattr(MINE, "phases"):
        MINE.phases = []
    MINE.phases.append((CAUSES.index(cause), start, end, in_queue))


def begin():
    """Forgets phases that belong to no batch, at the start of one."""
    MINE.phases = []


def take():
    """The phases since the last call as bytes, for a batch that is complete."""
    phases, MINE.phases = getattr(MINE, "phases", []), []
    me = threading.get_native_id()
    # A forked worker inherits the memory of its parent, hence the comparison.
    first = getattr(MINE, "made_by", None) != me
    MINE.made_by = me
    beside = everybody()[0] - queued()[0] if CONTENDED else 0
    return HEAD.pack(me, first, beside) + b"".join(ROW.pack(*row) for row in phases)


def unpack(data):
    """What `take` packed, as a Batch; None if it has no phase."""
    if len(data) <= HEAD.size:
        return None
    worker, first, beside = HEAD.unpack_from(data)
    rows = [ROW.unpack_from(data, at) for at in range(HEAD.size, len(data), ROW.size)]
    phases = [Phase(CAUSES[cause], start, end, in_queue) for cause, start, end, in_queue in rows]
    return Batch(worker, bool(first), phases[0].start, phases[-1].end, phases, beside)
