"""Runs a job whose surroundings change while it runs, at times drawn from a seed.

    regimes.py --kind store-latency --seed 1 -- job.py's arguments…

`regimes.json` says what each kind does, and how long it is calm and bad in turn. What may differ from
seed to seed (prefetch, step, epoch) is drawn from it too. The job starts undisturbed; once it says
`ready`, the changes begin. Ends with 77 and a reason where a kind cannot be had here.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import around
from dial import Dial

HERE = os.path.dirname(os.path.abspath(__file__))
# Seconds between two turns of the dial while something rises.
STEP = 0.5
# Changes are planned for this long; a job that runs on stays as it was left.
PLANNED = 600.0


def kinds():
    """What `regimes.json` lists, by name."""
    with open(os.path.join(HERE, "regimes.json"), encoding="ascii") as file:
        return {one["name"]: one for one in json.load(file)["scenarios"]}


def schedule(regime, seed, seconds=PLANNED):
    """The changes of a regime as (seconds after ready, value), in order; the value 0 is calm.

    What comes at random (`calm`, `bad`: the shortest and the mean time) has no memory: how long it has
    been calm says nothing of how long it will be. What recurs (`period`, `part`, `jitter`: ranges) has
    a period of its own in each run, which it keeps more or less. How bad each time is is drawn from
    `on`; with `rise` it gets bad step by step over so many seconds.
    """
    draw = random.Random(seed)
    changes, at = [], 0.0
    for calm, lasts in turns(regime, draw):
        at += calm
        if at >= seconds:
            break
        level = draw.uniform(*regime["on"])
        steps = int(draw.uniform(*regime.get("rise", (0.0, 0.0))) / STEP)
        changes += [(at + n * STEP, level * (n + 1) / (steps + 1)) for n in range(steps)]
        changes.append((at + steps * STEP, level))
        at += steps * STEP + lasts
        changes.append((at, 0.0))
    return [(when, value) for when, value in changes if when < seconds]


def turns(regime, draw):
    """Calm and bad times in turn, for ever; none where the job alone makes the changes."""
    if "period" in regime:
        period, part, jitter = (draw.uniform(*regime[name]) for name in ("period", "part", "jitter"))
        while True:
            calm, bad = (length * draw.uniform(1 - jitter, 1 + jitter) for length in (period * (1 - part), period * part))
            yield calm, bad
    while "calm" in regime:
        yield tuple(memoryless(draw, *regime[name]) for name in ("calm", "bad"))


def memoryless(draw, least, mean):
    """A time of at least `least` seconds, `mean` on average, at most four times that."""
    return min(least + draw.expovariate(1.0 / (mean - least)), 4.0 * mean)


def varied(vary, seed):
    """Arguments of the job that differ from seed to seed."""
    draw = random.Random(f"vary {seed}")
    found = []
    for name, values in vary.items():
        found += [name, str(draw.choice(values))]
    return found


class Neighbours:
    """As many neighbours that spin as the value says."""

    def __init__(self):
        self.running = []

    def turn(self, value):
        while len(self.running) < round(value):
            self.running.append(around.spinner(-1))
        while len(self.running) > round(value):
            gone = self.running.pop()
            gone.kill()
            gone.wait()

    def end(self):
        self.turn(0)


class Quota:
    """A CPU quota of so many cores; 0 is none."""

    def __init__(self):
        self.group = around.Group("cpu")
        self.group.enter()

    def turn(self, value):
        if value > 0:
            self.group.quota(value)
        else:
            self.group.put("-1" if self.group.v1 else "max", "cpu.cfs_quota_us" if self.group.v1 else "cpu.max")

    def end(self):
        self.turn(0)
        self.group.remove()


class Turned:
    """One number of a dial."""

    def __init__(self, dial, name):
        self.dial, self.name = dial, name

    def turn(self, value):
        self.dial.set(self.name, value)

    def end(self):
        pass


def injector(regime, dial):
    """What makes it bad."""
    what = regime.get("turns", "none")
    if what == "neighbours":
        return Neighbours()
    if what == "quota":
        return Quota()
    return Turned(dial, what if what != "none" else "latency")


def play(changes, injected, over):
    """Makes the changes at their times, until the job is over."""
    began = time.monotonic()
    for when, value in changes:
        if over.wait(max(0.0, began + when - time.monotonic())):
            return
        injected.turn(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("arguments", nargs="+", help="of job.py")
    args = parser.parse_args()
    entry = kinds()[args.kind]
    regime = entry["regime"]
    seed = f"{args.kind} {args.seed}"
    over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="regime-") as folder:
        os.chmod(folder, 0o755)
        dial = Dial(os.path.join(folder, "dial")).make()
        injected = injector(regime, dial)
        command = [sys.executable, "-B", os.path.join(HERE, "job.py"), *args.arguments, "--dial", dial.path]
        job = subprocess.Popen(command + varied(entry.get("vary", {}), seed), stdout=subprocess.PIPE, text=True)
        signal.signal(signal.SIGTERM, lambda *_: job.send_signal(signal.SIGTERM))
        changes = threading.Thread(target=play, args=(schedule(regime, seed), injected, over))
        try:
            for line in job.stdout:
                if line.startswith("ready "):
                    changes.start()
                    print(line, end="", flush=True)
                    threading.Thread(target=job.stdout.read, daemon=True).start()
                    break
            return job.wait()
        finally:
            over.set()
            if changes.is_alive():
                changes.join()
            if job.poll() is None:
                job.kill()
                job.wait()
            injected.end()


if __name__ == "__main__":
    sys.exit(main())
