"""Runs configurations of a sweep in one setting, each with a fresh DataLoader.

    sweep.py SETTING    (JSON: storage, latency_ms, mb_s, link_mbit, affinity, data, photos, mount)

Says `ready`, then answers each line on standard input (a configuration as JSON) with one line: what
was seen, or `{"failed": REASON}`. It ends when its standard input does.
"""

import ctypes
import hashlib
import json
import os
import signal
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import torch
from torch.utils.data import DataLoader

import formats
import probe
import stores

PR_SET_PDEATHSIG = 1
# A run is over after its seconds, but not before so many steps, unless they take too long.
FEWEST_STEPS, LONGEST = 8, 4.0


def end_with_the_trainer(worker):
    """Has the kernel end a worker when the trainer goes, even by SIGKILL."""
    del worker
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def round_seconds():
    """CPU seconds to hash a block once."""
    for _ in range(20):
        hashlib.sha256(formats.BLOCK).digest()
    began = time.process_time()
    for _ in range(200):
        hashlib.sha256(formats.BLOCK).digest()
    return (time.process_time() - began) / 200


def sleep(seconds):
    """A step of an accelerator: the host waits."""
    time.sleep(seconds)


def spin(seconds):
    """A step of the host: a core is busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


STEPS = {"sleep": sleep, "spin": spin}


def loader_of(samples, config):
    """The DataLoader of a configuration, endless."""
    workers = config["workers"]
    return DataLoader(
        samples,
        batch_size=config["batch"],
        sampler=formats.Endless(len(samples), config["access"], config["seed"]),
        num_workers=workers,
        worker_init_fn=end_with_the_trainer if workers else None,
        drop_last=True,
        **({"prefetch_factor": config["prefetch"]} if workers else {}),
    )


def trained(batches, step, seconds, config):
    """Trains for a while; seconds waited in each step, and seconds in all.

    The first steps do not count: until each worker has made its share of what may be ahead, the
    loader is catching up with its own start. Batches of the workers tend to come together, so the steps
    that count are whole rounds of them.
    """
    round_of = max(1, config["workers"])
    warm = max(3, config["workers"] * (config["prefetch"] + 1))
    waits, began, count = [], time.perf_counter(), 0
    settled = time.perf_counter() + 0.5 * seconds
    first = None
    while True:
        asked = time.perf_counter()
        if first is None and count >= 2 and (count >= warm or asked >= settled):
            first = asked
        if first is not None:
            over = asked - first
            whole = len(waits) >= FEWEST_STEPS and len(waits) % round_of == 0
            if over >= seconds and waits and (whole or over >= LONGEST * seconds):
                return waits, over
        batch = next(batches)
        if first is not None:
            waits.append(time.perf_counter() - asked)
        step(config["step_ms"] / 1e3)
        del batch
        count += 1
        if time.perf_counter() - began > 20 * seconds:
            raise TimeoutError(f"{count} steps in {20 * seconds:.0f} s")


def observed(store, setting, config, round_cost):
    """One observation: the probe first, then the run."""
    items, names = formats.made(setting["data"], config, setting["photos"])
    rounds = round(config["decode_us"] / 1e6 / round_cost)
    samples = formats.Samples(store, items, config, rounds)
    store.settle(names)
    found = {"resident": store.resident(names), "available": probe.available(), "busy": probe.busy()}
    found.update(probe.storage(samples, config["seed"]))
    found["rate_in_order"] = probe.in_order(samples, config["seed"])
    decode, collate, tensor = probe.decoding(samples, config["batch"], config["seed"])
    found.update(decode_cpu=decode, collate_cpu=collate, tensor_bytes=tensor.element_size() * tensor.nelement())
    if config["workers"]:
        wall, cpu = probe.handing_over(tensor, config["batch"], end_with_the_trainer)
        found.update(handover=wall, handover_cpu=cpu)
    store.settle(names)
    found.update(samples=len(items), dataset=sum(item[2] for item in items))
    before = set(probe.children())
    batches = iter(loader_of(samples, config))
    try:
        waits, seconds = trained(batches, STEPS[config["step_kind"]], config["seconds"], config)
        # Queues are as full as they get; the time is not counted any more.
        found["memory"] = probe.proportional([os.getpid(), *(set(probe.children()) - before)])
    finally:
        del batches
    found.update(steps=len(waits), span=seconds, wait_mean=sum(waits) / len(waits), wait_most=max(waits))
    for name, p in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        found[f"wait_{name}"] = probe.quantile(waits, p)
    return found


def main():
    setting = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    alive = []
    store = stores.opened(setting, setting["data"], setting["mount"], alive)
    if setting["affinity"]:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: setting["affinity"]])
    round_cost = round_seconds()
    print("ready", flush=True)
    for line in sys.stdin:
        config = json.loads(line)
        try:
            answer = observed(store, setting, config, round_cost)
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    for end in alive:
        os.close(end)


if __name__ == "__main__":
    main()
