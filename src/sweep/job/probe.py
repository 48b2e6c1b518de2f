"""What is looked at before a run: the storage at a few depths, the cost of decoding, the machine.

Nothing of the run itself is in it: no read is made by a loader, no sample decoded in one, no step done.
"""

import os
import random
import threading
import time

from torch.utils.data import DataLoader, Dataset, default_collate

DEPTHS = (1, 4, 16)
# Seconds at each depth, and the fewest and the most reads.
SPAN, LEAST, MOST = 0.12, 16, 400


def quantile(values, p):
    """The smallest value that a share of p is not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(-(-p * len(ordered) // 1)) - 1))]


def reads(samples, depth, seed):
    """Random samples read by `depth` threads: seconds of each read, bytes, and the time of it all."""
    times, sizes, lock = [], [], threading.Lock()
    deadline = time.perf_counter() + SPAN

    def work(number):
        dice = random.Random(seed * 100 + number)
        least, most = -(-LEAST // depth), -(-MOST // depth)
        mine, got = [], 0
        while len(mine) < least or (time.perf_counter() < deadline and len(mine) < most):
            began = time.perf_counter()
            got += len(samples.fetch(dice.randrange(len(samples))))
            mine.append(time.perf_counter() - began)
        with lock:
            times.extend(mine)
            sizes.append(got)

    began, cpu = time.perf_counter(), time.process_time()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(depth)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, sum(sizes), time.perf_counter() - began, time.process_time() - cpu


def storage(samples, seed):
    """Quantiles of the time of a read, and bytes a second, at each depth; CPU of a read."""
    found = {}
    for depth in DEPTHS:
        times, got, took, cpu = reads(samples, depth, seed)
        for name, p in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            found[f"read_{name}_{depth}"] = quantile(times, p)
        found[f"read_mean_{depth}"] = sum(times) / len(times)
        found[f"rate_{depth}"] = got / took
        if depth == 1:
            found["read_cpu"] = cpu / len(times)
    return found


def in_order(samples, seed):
    """Bytes a second of neighbours read one after the other."""
    start = random.Random(seed).randrange(len(samples))
    got, count, began = 0, 0, time.perf_counter()
    while count < LEAST or (time.perf_counter() - began < SPAN and count < MOST):
        got += len(samples.fetch((start + count) % len(samples)))
        count += 1
    return got / (time.perf_counter() - began)


def decoding(samples, batch, seed):
    """CPU seconds to decode a sample and to collate a batch, on one core."""
    dice = random.Random(seed)
    data = [samples.fetch(dice.randrange(len(samples))) for _ in range(8)]
    samples.decode(data[0])
    count, began = 0, time.process_time()
    while count < 8 or (time.process_time() - began < 0.1 and count < 200):
        decoded = samples.decode(data[count % len(data)])
        count += 1
    decode = (time.process_time() - began) / count
    default_collate([decoded] * batch)
    began = time.process_time()
    default_collate([decoded] * batch)
    return decode, time.process_time() - began, decoded


class Same(Dataset):
    """One tensor again and again."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return self.tensor


def handing_over(tensor, batch, started):
    """A worker that only puts batches of one tensor together, and a trainer that only takes them:
    seconds of a batch, and CPU seconds of the trainer."""
    sampler = range(1 << 30)
    batches = iter(DataLoader(Same(tensor), batch, sampler=sampler, num_workers=1, worker_init_fn=started))
    for _ in range(3):
        next(batches)
    count, began, cpu = 0, time.perf_counter(), time.process_time()
    while count < 4 or (time.perf_counter() - began < SPAN and count < MOST):
        next(batches)
        count += 1
    return (time.perf_counter() - began) / count, (time.process_time() - cpu) / count


def busy():
    """Share of the machine's CPU time that others use, over a tenth of a second."""

    def read():
        with open("/proc/stat", encoding="ascii") as file:
            numbers = [int(part) for part in file.readline().split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]

    total, idle = read()
    time.sleep(0.1)
    total, idle = (now - then for now, then in zip(read(), (total, idle)))
    return 1 - idle / total if total else None


def available():
    """Bytes of memory that could be had."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def proportional(pids):
    """Bytes of memory of some processes, shared pages divided by those who share them."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                total += sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
        except OSError:
            return None
    return total


def children():
    """Processes started by this one."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(part) for part in file.read().split()]
    except OSError:
        return []
