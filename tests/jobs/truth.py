"""What a job knows about itself: when it fetched, and when it computed.

A truth file is JSON lines. One line a step:

    {"step": 7, "fetch_start_ns": 100, "fetch_end_ns": 160, "step_end_ns": 200, "mono_ns": 5}

`fetch_start_ns` is taken before `next()`, `fetch_end_ns` when the batch is in hand, `step_end_ns`
when the step on it is done; all three are wall-clock nanoseconds since the epoch. `mono_ns` is the
monotonic clock at `fetch_start_ns`, by which a reader sees that the wall clock moved. Lines
without `step` (the header, events) are for people.

Lines wait in memory and are written about once a second between two steps, so that logging takes
no time from the fetch or the step it logs.
"""

import json
import os
import sys
import time


class Log:
    """Writes a truth file: `fetch()`, `step()`, `end()`, once each per step."""

    def __init__(self, path, job, **about):
        self._file = open(path, "w", encoding="ascii")
        os.chmod(path, 0o644)
        self._lines = [json.dumps({"truth": 1, "job": job, "pid": os.getpid(), **about})]
        self._steps = 0
        self._flushed = time.monotonic_ns()
        self._mono = self._start = self._got = 0

    def fetch(self):
        """The next thing the job does is ask for a batch."""
        self._mono = time.monotonic_ns()
        self._start = time.time_ns()

    def step(self):
        """The batch is here, the step begins."""
        self._got = time.time_ns()

    def end(self):
        """The step is done."""
        end = time.time_ns()
        self._lines.append(
            f'{{"step": {self._steps}, "fetch_start_ns": {self._start}, "fetch_end_ns": {self._got},'
            f' "step_end_ns": {end}, "mono_ns": {self._mono}}}'
        )
        self._steps += 1
        if self._mono - self._flushed > 1_000_000_000:
            self.flush()

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
        self.flush()
        self._file.close()


def read(path):
    """The steps of a truth file, oldest first, as (fetch_start, fetch_end, step_end, mono) in ns.

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
                steps.append((value["fetch_start_ns"], value["fetch_end_ns"], value["step_end_ns"], value.get("mono_ns")))
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


def share(path, t0_ns, t1_ns):
    """The true share of [t0, t1) that the trainer spent waiting for data, 0 to 1; None if unknown."""
    found = window(path, t0_ns, t1_ns)
    return None if found is None else found["share"]


if __name__ == "__main__":
    # truth.py FILE [T0_NS T1_NS]: the truth about a window, or about the whole file.
    bounds = [int(text) for text in sys.argv[2:4]] or [0, 1 << 62]
    print(json.dumps(window(sys.argv[1], *bounds)))
