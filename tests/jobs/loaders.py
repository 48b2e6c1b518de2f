"""Loaders: endless iterators of batches, each the way people build them.

Every loader is a generator function of the job's arguments and a data set, so that `next()` on it
is all the trainer does to be fed, epoch starts included. A batch ends with the stamps of its making.
"""

import concurrent.futures
import ctypes
import multiprocessing
import queue
import random
import signal
import threading

PR_SET_PDEATHSIG = 1


def end_with_the_trainer():
    """Has the kernel end this worker when the trainer goes, even by SIGKILL."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def indices(samples, args, seed):
    """Endless batches of indices, shuffled anew each epoch; an epoch is `args.epoch` batches."""
    order = random.Random(seed)
    while True:
        yield from epoch(samples, args, order)


def epoch(samples, args, order):
    """The batches of one epoch."""
    return [[order.randrange(len(samples)) for _ in range(args.batch)] for _ in range(args.epoch)]


def dataloader(samples, args):
    """A PyTorch DataLoader; with `--restart` its workers start anew each epoch."""
    import torch_pin
    from torch.utils.data import DataLoader

    import tensors

    start = tensors.Start(args.worker_start_ms / 1e3, args.worker_core, args.worker_threads)
    loader = DataLoader(
        tensors.Tensors(samples, args.batch * args.epoch, args.worker_work),
        batch_size=args.batch,
        collate_fn=tensors.collate,
        worker_init_fn=start if args.workers else None,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=args.pin == "torch",
        persistent_workers=args.workers > 0 and not args.restart,
        multiprocessing_context=args.context if args.workers else None,
        **({"prefetch_factor": args.prefetch} if args.workers else {}),
    )
    with torch_pin.stand_in(args.pin == "torch"):
        if args.pin == "thread":
            yield from moved(loader, args)
        while True:
            yield from loader


def moved(loader, args):
    """A pin-memory-like thread: takes batches from the loader, copies them, puts them in a queue."""
    ready = queue.Queue(maxsize=2)

    def move():
        while True:
            for batch in loader:
                ready.put([part if isinstance(part, bytes) else part.clone() for part in batch])

    threading.Thread(target=move, name="pin", daemon=True).start()
    while True:
        yield ready.get()


def plain(samples, args):
    """A loader of `multiprocessing` alone: worker processes and two queues."""
    context = multiprocessing.get_context(args.context)
    wanted, ready = context.Queue(maxsize=args.workers * args.prefetch), context.Queue(maxsize=args.prefetch * args.workers)
    for _ in range(args.workers):
        context.Process(target=plain_worker, args=(samples, wanted, ready), daemon=True).start()
    threading.Thread(target=feed, args=(indices(samples, args, 1), wanted), daemon=True).start()
    while True:
        yield ready.get()


def feed(batches, wanted):
    for batch in batches:
        wanted.put(batch)


def plain_worker(samples, wanted, ready):
    end_with_the_trainer()
    while True:
        ready.put(samples.batch(wanted.get()))


def pool(samples, args):
    """A `multiprocessing.Pool` whose `imap` makes the batches of an epoch in order."""
    context = multiprocessing.get_context(args.context)
    order = random.Random(1)
    with context.Pool(args.workers, initializer=pool_start, initargs=(samples,)) as workers:
        while True:
            yield from workers.imap(pool_batch, epoch(samples, args, order))


def pool_start(samples):
    global SAMPLES
    end_with_the_trainer()
    SAMPLES = samples


def pool_batch(wanted):
    return SAMPLES.batch(wanted)


def threads(samples, args):
    """Threads and a `queue.Queue`, all in the trainer's process."""
    ready = queue.Queue(maxsize=args.prefetch * args.workers)

    def load(seed):
        for wanted in indices(samples, args, seed):
            ready.put(samples.batch(wanted))

    for number in range(args.workers):
        threading.Thread(target=load, args=(number,), name=f"loader-{number}", daemon=True).start()
    while True:
        yield ready.get()


def futures(samples, args):
    """A prefetcher of `concurrent.futures`: a window of futures, the oldest awaited."""
    with concurrent.futures.ThreadPoolExecutor(args.workers, thread_name_prefix="prefetch") as executor:
        wanted = indices(samples, args, 1)
        window = [executor.submit(samples.batch, next(wanted)) for _ in range(args.prefetch * args.workers)]
        try:
            while True:
                window.append(executor.submit(samples.batch, next(wanted)))
                yield window.pop(0).result()
        finally:
            for future in window:
                future.cancel()


def none(samples, args):
    """No loader: the same small batch again and again, at once."""
    batch = samples.batch(range(args.batch))[:-1]
    while True:
        yield (*batch, b"")


def ordered(args):
    """Whether batches come in the order in which they were asked for."""
    return args.kind in ("dataloader", "pool", "futures")


def lag(args):
    """How many batches may be complete while an earlier one is awaited."""
    return args.epoch if args.kind == "pool" else args.workers * args.prefetch + args.workers


KINDS = {
    "none": none,
    "dataloader": dataloader,
    "queue": plain,
    "pool": pool,
    "threads": threads,
    "futures": futures,
}
