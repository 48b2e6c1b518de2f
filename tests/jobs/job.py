"""A training job that logs its own truth; see README.md for its kinds.

    job.py --kind dataloader --workers 2 --data PHOTOS --truth FILE --seconds 15

Prints `ready PID` when warm. Ends with 0 after `--seconds` or `--steps`, or at the end of the step
in which SIGTERM came; with 77 and a reason where it cannot run here.
"""

import argparse
import contextlib
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time

WARM_UP = 5
STORAGES = ("local", "store", "objects", "mount", "cold", "mapped", "warm", "dialled", "shards")


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", required=True, choices=("dataloader", "queue", "pool", "threads", "futures", "none"))
    parser.add_argument("--data", required=True, help="folder of JPEG files")
    parser.add_argument("--truth", required=True, help="file to log the truth to")
    parser.add_argument("--seconds", type=float, default=60.0, help="after ready; 0: until SIGTERM")
    parser.add_argument("--steps", type=int, default=0, help="after ready; 0: no limit")
    loader = parser.add_argument_group("loader")
    loader.add_argument("--workers", type=int, default=2)
    loader.add_argument("--batch", type=int, default=16)
    loader.add_argument("--prefetch", type=int, default=2, help="batches ahead, per worker")
    loader.add_argument("--epoch", type=int, default=60, help="batches in an epoch")
    loader.add_argument("--restart", action="store_true", help="start DataLoader workers anew each epoch")
    loader.add_argument("--keep-workers", dest="restart", action="store_false", help="the opposite, where both are given the last one counts")
    loader.add_argument("--context", choices=("fork", "forkserver", "spawn"), default="fork")
    loader.add_argument("--pin", choices=("none", "thread", "torch"), default="none")
    loader.add_argument("--decode", choices=("tiny", "normal", "heavy"), default="normal")
    loader.add_argument("--storage", choices=STORAGES, default="local")
    loader.add_argument("--latency-ms", type=float, default=10.0, help="of storage that is a server")
    loader.add_argument("--mb-s", type=float, default=0.0, help="of such storage, all workers together; 0: no limit")
    loader.add_argument("--link-mbit", type=int, default=0, help="shaped link to the object store; 0: none (root)")
    loader.add_argument("--fault-every", type=int, default=0, help="reads of the mount between two that fail")
    loader.add_argument("--read-mb", type=int, default=8, help="read besides per sample (cold, mapped, warm), or per shard (shards)")
    loader.add_argument("--shard", type=int, default=300, help="samples of a worker from one shard to the next (shards)")
    loader.add_argument("--dial", help="a file of numbers that somebody turns while the job runs (dial.py)")
    loader.add_argument("--slow-sample", type=int, default=0, help="one sample of so many is slow")
    loader.add_argument("--slow-ms", type=float, default=500.0, help="how slow")
    loader.add_argument("--copies", type=int, default=1, help="how often a sample's pixels are repeated")
    loader.add_argument("--worker-start-ms", type=float, default=0.0, help="that a worker takes to start")
    loader.add_argument("--worker-core", type=int, default=-1, help="the one core of all workers")
    loader.add_argument("--worker-threads", type=int, default=0, help="threads of each worker for --worker-work")
    loader.add_argument("--worker-work", type=int, default=0, help="elements worked through per sample by PyTorch's threads")
    loader.add_argument("--contended", action="store_true", help="what was injected takes the cores (exposed.py)")
    step = parser.add_argument_group("step")
    step.add_argument("--step-kind", choices=("cpu", "sleep", "device", "cuda"), default="sleep")
    step.add_argument("--step-ms", type=float, default=40.0)
    step.add_argument("--step-work", type=int, default=0, help="matrix products instead of a time (cpu)")
    step.add_argument("--gpu", help="folder for a stub NVML that shows how busy the step's device is")
    also = parser.add_argument_group("what else a step does")
    kinds = ("gc", "python", "checkpoint", "checkpoint-thread", "embedding", "offload", "copy", "copy-visible", "copy-device")
    also.add_argument("--also", choices=kinds)
    also.add_argument("--every", type=int, default=1, help="steps from one to the next (gc, checkpoint)")
    also.add_argument("--size", type=int, default=16, help="MB, or thousands of objects (gc)")
    also.add_argument("--rows", type=int, default=1024, help="looked up (embedding)")
    also.add_argument("--ms", type=float, default=50.0, help="of Python (python)")
    also.add_argument("--gb-s", type=float, default=6.0, help="of the device's link (copy)")
    ranks = parser.add_argument_group("ranks")
    ranks.add_argument("--ranks", type=int, default=0, help="0: one process")
    ranks.add_argument("--judge", type=int, default=0, help="the rank whose truth is FILE")
    ranks.add_argument("--for-rank", action="append", default=[], metavar="RANK:ARGUMENTS", help="more arguments of one rank")
    ranks.add_argument("--together", choices=("reduce", "pipeline"), default="reduce")
    ranks.add_argument("--reduce-mb", type=float, default=1.0)
    ranks.add_argument("--micro", type=int, default=2, help="microbatches of a step (pipeline)")
    ranks.add_argument("--stage-ms", type=float, default=20.0, help="of a stage for one microbatch, either way (pipeline)")
    ranks.add_argument("--torchrun", action="store_true", help="this is a rank that torchrun started")
    ranks.add_argument("--board", help="what the ranks share; set by the launcher")
    return parser.parse_args(argv)


def require(names):
    """Ends with 77 where a module is missing."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}", file=sys.stderr)
        sys.exit(77)


def told_to_end():
    """A list that is no longer empty once SIGTERM came; in forked children SIGTERM just ends them."""
    told = []

    def end(*_):
        told.append(True)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, end)
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    return told


def made(args, folder, alive):
    """The loader of the arguments, already a generator."""
    import loaders
    import samples
    import sources

    source = sources.open_source(args, folder, alive)
    data = samples.Samples(args.data, args.decode, source, args.slow_sample, args.slow_ms / 1e3, args.copies, args.dial)
    return loaders.KINDS[args.kind](data, args)


def clean(folder, alive):
    """Ends what served the job, and removes its folder once nothing is mounted there."""
    for end in alive:
        os.close(end)
    for _ in range(40):
        if not os.path.ismount(os.path.join(folder, "mount")):
            break
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def train(args, log, folder, alive):
    """The training loop, every step of it logged."""
    import inject
    import steps

    told = told_to_end()
    batches = made(args, folder, alive)
    step = steps.make(args.step_kind, args.step_ms, args.step_work)
    device = contextlib.nullcontext
    if args.gpu:
        import accel

        device = accel.Meter(args.gpu).busy
    also = inject.KINDS[args.also](args, folder) if args.also else lambda log: None
    board = together = None
    if args.board:
        import ranks

        board, together = ranks.join(args)
    count, deadline, last = 0, None, None
    while True:
        over = bool(told) or count == last or (deadline is not None and time.monotonic() >= deadline)
        if board and over and board.rank == 0 and board.end() is None:
            # Ranks are never two steps apart, so that none has passed this one.
            board.end_after(count + 3)
        if count == board.end() if board else over:
            break
        log.fetch()
        fetched = next(batches)
        log.step(fetched[-1])
        batch = fetched  # lets go of the batch before: work of the step, not a wait for data
        with device():
            step(batch)
        also(log)
        if together:
            together(log)
        log.end()
        count += 1
        if count == WARM_UP:
            log.event("ready")
            print("ready", os.getpid(), flush=True)
            deadline = time.monotonic() + args.seconds if args.seconds > 0 else None
            last = WARM_UP + args.steps if args.steps else None
    batches.close()


def main():
    args = arguments()
    without = (None, "gc", "python", "copy", "copy-visible", "copy-device")
    torch = args.kind == "dataloader" or args.ranks or args.torchrun or args.also not in without
    require(["numpy", "PIL"] + (["torch"] if torch else []))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    import loaders
    import ranks
    import stamps
    import truth

    stamps.CONTENDED = args.contended

    if args.torchrun:
        args = arguments([*sys.argv[1:], *ranks.of_rank(args, int(os.environ["RANK"]), f"{args.truth}.board")])
    elif args.ranks and not args.board:
        sys.exit(ranks.launch(args, sys.argv[1:]))
    folder, alive = tempfile.mkdtemp(prefix="job-"), []
    owner = os.getpid()
    log = truth.Log(args.truth, args.kind, loaders.ordered(args), args.contended, loaders.lag(args), argv=sys.argv[1:])
    try:
        train(args, log, folder, alive)
    finally:
        if os.getpid() == owner:
            log.close()
            clean(folder, alive)


if __name__ == "__main__":
    main()
