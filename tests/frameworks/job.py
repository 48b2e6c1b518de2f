"""A training job on one framework's loader that logs its own truth.

    job.py --loader webdataset --workers 2 --data FOLDER --truth FILE
    job.py --cause checkpoint-torch --data FOLDER --truth FILE

The loop is that of tests/jobs: fetch, step, fetch, step; the truth is the time in fetches, the
start of each pass over the data included. The step sleeps, which stands for an accelerator's work.
With `--cause` the job waits for something else instead of data, and the truth is the time in that.
Prints `ready PID` when warm and trains until SIGTERM. `frameworks.py` makes the loaders, `causes.py`
the rest.
"""

import argparse
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "jobs"))
sys.path.insert(0, HERE)

WARM_UP = 5


def fetches(args):
    """Takes the next batch, from the next pass where one is over."""
    import frameworks

    passes = getattr(frameworks, args.loader.replace("-", "_"))(args.data, args.workers)
    batches = None

    def fetch():
        nonlocal batches
        for _ in range(2):
            if batches is None:
                batches = iter(passes())
            batch = next(batches, None)
            if batch is not None:
                return batch
            batches = None
        sys.exit("a pass over the data gave no batch")

    return fetch


def cause(args):
    import causes

    return getattr(causes, args.cause.replace("-", "_"))(args.data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--loader")
    what.add_argument("--cause")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--data", required=True, help="folder that prepare.py filled")
    parser.add_argument("--truth", required=True, help="file to log the truth to")
    parser.add_argument("--step-ms", type=float, default=25.0)
    args = parser.parse_args()

    told = []
    pid = os.getpid()
    # Forked workers inherit the handler; they end as they would without it.
    signal.signal(signal.SIGTERM, lambda *_: told.append(True) if os.getpid() == pid else os._exit(0))

    import truth

    fetch = fetches(args) if args.loader else cause(args)
    log = truth.Log(args.truth, f"{args.loader or args.cause} {args.workers}")
    steps = 0
    while not told:
        log.fetch()
        batch = fetch()
        log.step()
        time.sleep(args.step_ms / 1e3)
        del batch
        log.end()
        steps += 1
        if steps == WARM_UP:
            log.flush()
            print(f"ready {os.getpid()}", flush=True)
    log.close()
    # Frameworks that end their threads badly at exit have nothing to say about waiting for data.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
