"""The channel: counters in shared memory that Feedline reads while the job runs.

One memory file (`memfd`) a process, named `feedline`, that a reader with the right to look into
the process opens through `/proc/PID/fd`. Nothing is written to disk, nothing is left behind, and
nothing waits for the reader. The layout is in `docs/in-process.md`.

Only the thread that a slot belongs to writes to it, one aligned 8-byte word at a time, so that no
lock is needed: the clock of a region is one word, either the nanoseconds it has run for, or, while
it runs, the time at which it would have begun had it never paused, with the top bit set.
"""

import mmap
import os
import sys
import threading
import time
from typing import Callable, Dict, List, Optional, Sequence

MAGIC = b"FEEDLINE"
VERSION = 1
HEADER = 128  # bytes
SLOT = 128  # bytes
SLOTS = 256
NAME = 88  # bytes of a name in a slot

# Words of the header.
_USED, _OVERFLOW, _FAILURES, _LISTEN = 5, 6, 7, 8
# Words of a slot.
_THREAD, _TIMES, _CLOCK = 0, 1, 2
_SLOT_WORDS = SLOT // 8
_HEADER_WORDS = HEADER // 8
RUNNING = 1 << 63
FOR_EVER = (1 << 63) - 1

now = time.monotonic_ns

# The words of the channel. Without one, zeros: nobody listens, nothing is used. A process that has
# not made its own yet has a 1 where it says until when somebody listens, so that it looks.
_NONE: Sequence[int] = (0,) * _HEADER_WORDS
_UNMADE: Sequence[int] = (0,) * _LISTEN + (1,) + (0,) * (_HEADER_WORDS - _LISTEN - 1)
words = _UNMADE
_lock = threading.Lock()
_always = os.environ.get("FEEDLINE_HOOKS") == "1"
# A process is born without a channel and makes one when it first asks whether anybody listens.
_made = False


class _Local(threading.local):
    """What a thread is in: open regions by slot, and the slots it has by name."""

    def __init__(self) -> None:
        self.stack: List[int] = []
        self.within: List[int] = []
        self.slots: Dict[str, int] = {}
        self.stepping = False
        self.source: Optional[Callable[[], Optional[object]]] = None


local = _Local()


def _start_time() -> int:
    """When this process began, in clock ticks since boot, as the kernel tells it."""
    with open("/proc/self/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC
    try:
        return os.memfd_create("feedline", flags | 0x8)  # MFD_NOEXEC_SEAL: some kernels insist
    except OSError:
        return os.memfd_create("feedline", flags)


def _open() -> None:
    """Makes the channel of this process, once. Where that fails nobody will ever seem to listen."""
    global words, _made
    if not _lock.acquire(blocking=False):
        return  # another thread is about to; or this one, under a signal handler
    try:
        if _made:
            return
        _made, words = True, _NONE
        if not hasattr(os, "memfd_create") or sys.byteorder != "little":
            return
        try:
            fd = _memory_file()
            try:
                size = HEADER + SLOTS * SLOT
                os.ftruncate(fd, size)
                shared = mmap.mmap(fd, size)  # it keeps a descriptor of its own
            finally:
                os.close(fd)
            view = memoryview(shared).cast("Q")
            view[1] = VERSION | SLOTS << 32
            view[2] = os.getpid()
            view[3] = _start_time()
            view[4] = now()
            view[_LISTEN] = FOR_EVER if _always else 0
            shared[0:8] = MAGIC  # last: without it nobody reads the rest
            words = view
        except (OSError, ValueError, IndexError):
            pass  # nobody will ever seem to listen
    finally:
        _lock.release()


def listening() -> bool:
    """Whether anybody reads. It costs a look at the clock and at one word."""
    if not _made:
        _open()
    return words[_LISTEN] > now()


def failed() -> None:
    """Counts an error of Feedline's own that the job never saw."""
    if len(words) > _HEADER_WORDS:
        words[_FAILURES] += 1  # type: ignore[index]


def _slot(name: str) -> int:
    """The first word of this thread's slot for a region; -1 where all are taken."""
    found = local.slots.get(name)
    if found is not None:
        if found < 0:
            words[_OVERFLOW] += 1  # type: ignore[index]
        return found
    # Never waits: a signal handler may run on the very thread that holds the lock. What is not timed
    # for that is counted, and has its slot the next time.
    if not _lock.acquire(blocking=False):
        words[_OVERFLOW] += 1  # type: ignore[index]
        return -1
    try:
        used = words[_USED]
        if used >= SLOTS:
            words[_OVERFLOW] += 1  # type: ignore[index]
            # A thread remembers few names that have no slot: names may be made up without end.
            if len(local.slots) < 2 * SLOTS:
                local.slots[name] = -1
            return -1
        at = _HEADER_WORDS + used * _SLOT_WORDS
        raw = name.encode("utf-8", "replace")[:NAME].ljust(NAME, b"\0")
        for index in range(NAME // 8):
            words[at + 5 + index] = int.from_bytes(raw[index * 8 : index * 8 + 8], "little")  # type: ignore[index]
        words[at + _THREAD] = threading.get_native_id()  # type: ignore[index]
        words[_USED] = used + 1  # type: ignore[index]
    finally:
        _lock.release()
    local.slots[name] = at
    return at


def begin(name: str, stack: List[int]) -> int:
    """Enters a region: the one it lies in pauses. What to end it with; -1 where it is not timed."""
    at = local.slots.get(name, -1)
    if at < 0:
        at = _slot(name)
        if at < 0:
            return -1
    moment = now()
    if stack:
        outer = stack[-1] + _CLOCK
        words[outer] = moment - (words[outer] & FOR_EVER)  # type: ignore[index]
    words[at + _CLOCK] = RUNNING | (moment - words[at + _CLOCK])  # type: ignore[index]
    stack.append(at)
    return at


def end(at: int, stack: List[int], counts: int = 1) -> None:
    """Leaves a region, and any that was left open within it. One that is not open is left alone."""
    if not stack:
        return
    depth = len(stack) - 1
    inner = stack[depth]
    if inner != at:
        while depth >= 0 and stack[depth] != at:
            depth -= 1
        if depth < 0:
            return
    moment = now()
    words[inner + _CLOCK] = moment - (words[inner + _CLOCK] & FOR_EVER)  # type: ignore[index]
    words[at + _TIMES] += counts  # type: ignore[index]
    del stack[depth:]
    if stack:
        outer = stack[-1] + _CLOCK
        words[outer] = RUNNING | (moment - words[outer])  # type: ignore[index]


def step() -> None:
    """The boundary between two steps of this thread."""
    stack, at = local.stack, _slot("step")
    if at < 0:
        return
    if at in stack:
        words[at + _TIMES] += 1  # type: ignore[index]
    elif stack:
        stack.insert(0, at)  # it runs once what is open now has ended
    else:
        begin("step", stack)


def end_step() -> None:
    """The last step of a loop is over."""
    stack, at = local.stack, local.slots.get("step", -1)
    if at < 0 or at not in stack:
        return
    if stack[-1] == at:
        end(at, stack)
    else:
        words[at + _TIMES] += 1  # type: ignore[index]
        stack.remove(at)


def _forked() -> None:
    """A forked child has none of its parent's regions, and a channel of its own once it needs one."""
    global words, _made, _lock, local
    _lock, local = threading.Lock(), _Local()
    words, _made = _UNMADE, False  # the parent's is unmapped and closed with the last reference to it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
