"""A training loop in small: waits on a queue, computes, sleeps. Says at its end what it did.

It runs until its input is closed, and then prints the share of time that it spent waiting on the
queue, computing, and sleeping, by its own clock.
"""
import queue
import sys
import threading
import time

spent = {"wait": 0.0, "compute": 0.0, "sleep": 0.0}
batches = queue.Queue(maxsize=1)
ended = threading.Event()


def produce():
    while not ended.is_set():
        time.sleep(0.03)
        batches.put(1)


def watch_input():
    sys.stdin.read()
    ended.set()


def timed(what, work):
    start = time.perf_counter()
    work()
    spent[what] += time.perf_counter() - start


def compute():
    end = time.perf_counter() + 0.01
    while time.perf_counter() < end:
        sum(range(200))


def main():
    for work in (produce, watch_input):
        threading.Thread(target=work, daemon=True).start()
    print("ready", flush=True)
    while not ended.is_set():
        timed("wait", batches.get)
        timed("compute", compute)
        timed("sleep", lambda: time.sleep(0.01))
    total = sum(spent.values())
    print(" ".join(f"{spent[what] / total:.4f}" for what in ("wait", "compute", "sleep")), flush=True)


main()
