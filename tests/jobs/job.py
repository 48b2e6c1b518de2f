"""A training job that logs its own truth; see README.md for its kinds.

    job.py --kind dataloader --workers 2 --data PHOTOS --truth FILE --seconds 15

Prints `ready PID` when warm. Ends with 0 after `--seconds` or `--steps`, or at the end of the step
in which SIGTERM came; with 77 and a reason where it cannot run here.
"""

import argparse
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time

WARM_UP = 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", required=True, choices=("dataloader", "queue", "pool", "threads", "futures"))
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
    loader.add_argument("--context", choices=("fork", "forkserver", "spawn"), default="fork")
    loader.add_argument("--pin", choices=("none", "thread", "torch"), default="none")
    loader.add_argument("--decode", choices=("tiny", "normal", "heavy"), default="normal")
    loader.add_argument("--storage", choices=("local", "store", "cold"), default="local")
    loader.add_argument("--latency-ms", type=float, default=10.0, help="of the store")
    loader.add_argument("--mb-s", type=float, default=0.0, help="of the store, all workers together; 0: no limit")
    loader.add_argument("--cold-mb", type=int, default=8, help="read from the disk per sample")
    step = parser.add_argument_group("step")
    step.add_argument("--step-kind", choices=("cpu", "sleep", "device"), default="sleep")
    step.add_argument("--step-ms", type=float, default=40.0)
    step.add_argument("--step-work", type=int, default=0, help="matrix products instead of a time (cpu)")
    step.add_argument("--checkpoint-every", type=int, default=0, help="steps between checkpoints")
    step.add_argument("--checkpoint-mb", type=int, default=16)
    return parser.parse_args()


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


def source(args, folder):
    """Where samples are read from: a function from path to bytes."""
    import samples

    if args.storage == "store":
        import store

        path = os.path.join(folder, "store.sock")
        args.alive = store.start(path, args.latency_ms, args.mb_s * 1e6)
        return store.Client(path).read
    if args.storage == "cold":
        return samples.Cold(folder, args.cold_mb << 20).read
    return samples.local


def train(args, log, folder):
    """The training loop, every step of it logged."""
    import loaders
    import samples
    import steps

    told = told_to_end()
    batches = loaders.KINDS[args.kind](samples.Samples(args.data, args.decode, source(args, folder)), args)
    step = steps.make(args.step_kind, args.step_ms, args.step_work)
    count, deadline, last = 0, None, None
    while not told and count != last and (deadline is None or time.monotonic() < deadline):
        log.fetch()
        fetched = next(batches)
        log.step()
        batch = fetched  # lets go of the batch before: work of the step, not a wait for data
        step(batch)
        if args.checkpoint_every and count % args.checkpoint_every == args.checkpoint_every - 1:
            steps.checkpoint(os.path.join(folder, "checkpoint"), args.checkpoint_mb)
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
    require(["numpy", "PIL"] + (["torch"] if args.kind == "dataloader" else []))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    import truth

    folder = tempfile.mkdtemp(prefix="job-")
    owner = os.getpid()
    log = truth.Log(args.truth, args.kind, argv=sys.argv[1:])
    try:
        train(args, log, folder)
    finally:
        if os.getpid() == owner:
            log.close()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
