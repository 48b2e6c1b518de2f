"""What a job knows about itself: when it fetched, and when it computed.

A truth file is JSON lines. One line a step:

    {"step": 7, "fetch_start_ns": 100, "fetch_end_ns": 160, "step_end_ns": 200, "mono_ns": 5}

`fetch_start_ns` is taken before `next()`, `fetch_end_ns` when the batch is in hand, `step_end_ns`
when the step on it is done; all three are wall-clock nanoseconds since the epoch. `mono_ns` is the
monotonic clock at `fetch_start_ns`, by which a reader sees that the wall clock moved. Lines
without `step` (the header, events) are for people.

A job that knows why also gives `spans`, the causes of the parts of its step that were no compute:

    "spans": [["fetch.storage", 100, 150], ["handoff", 150, 160], ["checkpoint", 180, 200]]

They lie between `fetch_start_ns` and `step_end_ns`, in order, without overlap. What no span covers
is `compute`. The names are those of `stamps.CAUSES`.

Lines wait in memory and are written about once a second between two steps, so that logging takes
no time from the fetch or the step it logs. A step whose cause depends on batches that come later
waits for them.
"""

import collections
import contextlib
import json
import os
import sys
import time

import exposed
import stamps


class Step:
    """One step while it is logged; spans are in monotonic time."""

    def __init__(self, number):
        self.number = number
        self.batch, self.spans = None, []
        self.queued = self.waiting = stamps.queued()[0]
        self.mono, self.start = time.monotonic_ns(), time.time_ns()
        self.got = self.end = self.start

    def line(self, waits):
        """Its line, with the causes of its wait."""
        shift = self.start - self.mono
        found = [[cause, a + shift, b + shift] for cause, a, b in waits + self.spans if cause != "compute"]
        return json.dumps({
            "step": self.number, "fetch_start_ns": self.start, "fetch_end_ns": self.got, "step_end_ns": self.end,
            "mono_ns": self.mono, "spans": found,
        })


class Log:
    """Writes a truth file: `fetch()`, `step()`, `end()`, once each per step.

    `ordered` says that batches come in the order in which they were asked for, `contended` that
    the job's cores are taken by what was injected (`exposed.py`), and `lag` how many later batches
    may be complete while one is awaited.
    """

    def __init__(self, path, job, ordered=True, contended=False, lag=0, **about):
        self._file = open(path, "w", encoding="ascii")
        os.chmod(path, 0o644)
        self._lines = [json.dumps({"truth": 1, "job": job, "pid": os.getpid(), **about})]
        self._ordered, self._contended, self._lag = ordered, contended, lag
        self._count = 0
        self._now = None
        self._waiting, self._before = collections.deque(), collections.deque(maxlen=max(lag, 1))
        self._flushed = time.monotonic_ns()

    def fetch(self):
        """The next thing the job does is ask for a batch."""
        self._now = Step(self._count)
        self._count += 1

    def step(self, batch=None):
        """The batch is here, the step begins; `batch` is what `stamps.take` packed, if it has any."""
        self._now.got = time.time_ns()
        self._now.batch = batch
        self._now.waiting = stamps.queued()[0]
        self._now.queued = self._now.waiting - self._now.queued

    @contextlib.contextmanager
    def span(self, cause):
        """What happens inside, in the step, has this cause."""
        start = time.monotonic_ns()
        yield
        self.add(cause, start, time.monotonic_ns())

    def add(self, cause, start, end):
        """A span of the step whose monotonic times are known."""
        if end > start:
            self._now.spans.append((cause, start, end))

    def end(self):
        """The step is done."""
        step = self._now
        step.end = time.time_ns()
        if self._contended:
            # A step that is held up for want of a core is held up by what took the cores.
            late = stamps.queued()[0] - step.waiting
            over = step.mono + step.end - step.start
            self.add("contention", max(over - late, step.mono + step.got - step.start), over)
        if isinstance(step.batch, bytes):
            step.batch = stamps.unpack(step.batch)
        self._waiting.append(step)
        if len(self._waiting) > self._lag:
            self._settle()
        if step.mono - self._flushed > 1_000_000_000:
            self.flush()

    def _settle(self):
        """Judges the oldest step, now that enough of the later ones are known."""
        step = self._waiting.popleft()
        others = [(-1, before) for before in self._before]
        others += [(number, later.batch) for number, later in enumerate(self._waiting, 1)]
        length = step.got - step.start
        waits = exposed.spans(
            step.mono, step.mono + length, step.batch, others, self._ordered, self._contended, step.queued
        )
        self._before.append(step.batch)
        self._lines.append(step.line(waits))

    def event(self, name):
        """Something a reader may want to see beside the steps."""
        self._lines.append(json.dumps({"event": name, "at_ns": time.time_ns()}))

    def flush(self):
        """Writes the lines that wait."""
        self._flushed = time.monotonic_ns()
        if self._lines:
            self._file.write("\n".join(self._lines) + "\n")
            self._file.flush()
            self._lines.clear()

    def close(self):
        """Writes what is left and ends the file."""
        while self._waiting:
            self._settle()
        self.flush()
        self._file.close()


def read(path):
    """The steps of a truth file, oldest first, as (fetch_start, fetch_end, step_end, mono) in ns."""
    return [step for step, _ in read_all(path)]


def read_all(path):
    """The steps of a truth file with their spans, oldest first; spans are None where none are logged.

    A last line without a newline was cut short by the end of the job and is left out; any other
    line that does not parse is an error that names its place.
    """
    with open(path, encoding="ascii", errors="replace") as file:
        text = file.read()
    steps = []
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), 1):
        try:
            value = json.loads(line)
            if "step" in value:
                times = (value["fetch_start_ns"], value["fetch_end_ns"], value["step_end_ns"], value.get("mono_ns"))
                spans = value.get("spans")
                steps.append((times, spans and [(cause, int(a), int(b)) for cause, a, b in spans] or spans))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: expected a step as JSON, found `{line[:80]}`") from error
    return steps


def window(path, t0_ns, t1_ns):
    """The truth about [t0, t1): a dict, or None where no step of the file lies in the window.

    `share`: time in fetches over the covered time, fetches that begin before t0 or end after t1
    counting only with their part inside. `covered`: the part of the window between the first fetch
    and the end of the last step. `steps`: fetches begun in the window. `period_ns` and `wait_ns`:
    mean time from fetch to fetch and mean fetch, over those steps; None below two of them.
    `clock_moved_ns`: how far the wall clock moved against the monotonic one over the file.
    """
    steps = read(path)
    if not steps or t1_ns <= t0_ns:
        return None
    start, end = max(t0_ns, steps[0][0]), min(t1_ns, steps[-1][2])
    if end <= start:
        return None
    waited = sum(max(0, min(got, end) - max(begun, start)) for begun, got, _, _ in steps)
    inside = [step for step in steps if t0_ns <= step[0] < t1_ns]
    many = len(inside) > 1
    offsets = [begun - mono for begun, _, _, mono in steps if mono is not None]
    return {
        "share": waited / (end - start),
        "covered": (end - start) / (t1_ns - t0_ns),
        "steps": len(inside),
        "period_ns": (inside[-1][0] - inside[0][0]) // (len(inside) - 1) if many else None,
        "wait_ns": sum(step[1] - step[0] for step in inside) // len(inside) if many else None,
        "clock_moved_ns": max(offsets) - min(offsets) if offsets else None,
    }


def causes(path, t0_ns, t1_ns):
    """The true share of each cause in the covered part of [t0, t1), `compute` for what is left.

    None where the file logs no causes, or no step lies in the window. The shares add up to one.
    """
    steps = read_all(path)
    if not steps or all(spans is None for _, spans in steps):
        return None
    start, end = max(t0_ns, steps[0][0][0]), min(t1_ns, steps[-1][0][2])
    if end <= start:
        return None
    times = {"compute": end - start}
    for _, spans in steps:
        for cause, a, b in spans or ():
            inside = max(0, min(b, end) - max(a, start))
            if inside:
                times[cause] = times.get(cause, 0) + inside
                times["compute"] -= inside
    return {cause: time / (end - start) for cause, time in times.items()}


def share(path, t0_ns, t1_ns):
    """The true share of [t0, t1) that the trainer spent waiting for data, 0 to 1; None if unknown."""
    found = window(path, t0_ns, t1_ns)
    return None if found is None else found["share"]


if __name__ == "__main__":
    # truth.py FILE [T0_NS T1_NS]: the truth about a window, or about the whole file.
    bounds = [int(text) for text in sys.argv[2:4]] or [0, 1 << 62]
    print(json.dumps(window(sys.argv[1], *bounds)))
