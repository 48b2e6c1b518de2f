#!/usr/bin/env python3
"""Runs one real job for each framework, lets Feedline judge it, and compares with what it logged.

    run.py --feedline target/debug/feedline [--only NAME ...] [--seconds 15] [--write docs/frameworks.md]

Each framework has an environment of its own under ~/.cache/feedline/frameworks, made once; those
that need PyTorch share one. Installing all of them takes some 10 GB. Nothing here runs in CI.
"""

import argparse
import dataclasses
import datetime
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "jobs"))

import truth  # noqa: E402

CACHE = os.path.expanduser("~/.cache/feedline/frameworks")
PYTHON = "/usr/bin/python3"
# Environment: whether it builds on the one with PyTorch, and its packages.
ENVIRONMENTS = {
    "torch": (False, ["torch", "torchvision", "numpy", "pillow"]),
    "torchdata": (True, ["torchdata"]),
    "webdataset": (True, ["webdataset"]),
    "datasets": (True, ["datasets"]),
    "streaming": (True, ["mosaicml-streaming"]),
    "litdata": (True, ["litdata"]),
    "tensorflow": (False, ["tensorflow-cpu"]),
    "grain": (False, ["grain", "jax", "pillow"]),
    "spdl": (False, ["spdl-core", "spdl-io", "numpy", "pillow"]),
    "dali": (False, ["nvidia-dali-cuda120", "numpy"]),
    "savers": (True, ["safetensors", "orbax-checkpoint"]),
    "deepspeed": (True, ["deepspeed", "ninja"]),
}


@dataclasses.dataclass
class Job:
    """A job, and what is known of it."""

    # What it is, in the page.
    about: str
    # Its environment, and the distribution whose version counts.
    environment: str
    package: str
    # Options of job.py.
    argv: list
    # Data of prepare.py that it needs beside the photographs.
    data: str = ""
    # The first-level cause that its truth is a share of.
    cause: str = "data"


def loader(about, environment, package, name, workers, step, data=""):
    argv = ["--loader", name, "--workers", str(workers), "--step-ms", str(step)]
    return Job(about, environment, package, argv, data)


def other(about, environment, package, name, cause, step):
    return Job(about, environment, package, ["--cause", name, "--step-ms", str(step)], cause=cause)


JOBS = [
    loader("DataLoader, no workers", "torch", "torch", "pytorch", 0, 60),
    loader("DataLoader, 2 workers anew each pass", "torch", "torch", "pytorch", 2, 25),
    loader("DataLoader, 2 persistent workers", "torch", "torch", "pytorch-persistent", 2, 25),
    loader("DataLoader, 2 workers and the pin thread", "torch", "torch", "pytorch-pinned", 2, 25),
    loader("StatefulDataLoader, 2 workers", "torchdata", "torchdata", "torchdata-stateful", 2, 25),
    loader("torchdata.nodes, 2 threads", "torchdata", "torchdata", "torchdata-nodes", 2, 25),
    loader("WebDataset in the trainer", "webdataset", "webdataset", "webdataset", 0, 60, "shards"),
    loader("WebLoader, 2 workers", "webdataset", "webdataset", "webdataset", 2, 25, "shards"),
    loader("Dataset behind a DataLoader, 2 workers", "datasets", "datasets", "hf-map", 2, 25, "hf"),
    loader("IterableDataset in the trainer", "datasets", "datasets", "hf-iterable", 0, 60, "hf"),
    loader("StreamingDataset, 2 workers", "streaming", "mosaicml-streaming", "streaming", 2, 25, "mds"),
    loader("StreamingDataLoader, 2 workers", "litdata", "litdata", "litdata", 2, 25, "litdata"),
    loader("tf.data, sequential", "tensorflow", "tensorflow-cpu", "tf-data", 0, 60),
    loader("tf.data, 2 parallel calls and prefetch", "tensorflow", "tensorflow-cpu", "tf-data", 2, 10),
    loader("grain.DataLoader in the trainer", "grain", "grain", "grain", 0, 60),
    loader("grain.DataLoader, 2 processes", "grain", "grain", "grain", 2, 25),
    loader("grain.MapDataset, 2 threads, into JAX", "grain", "grain", "grain-dataset", 2, 25),
    loader("PipelineBuilder, 2 threads, Pillow", "spdl", "spdl-core", "spdl", 2, 25),
    loader("SPDL DataLoader, 2 threads, its own decoder", "spdl", "spdl-io", "spdl-io", 2, 10),
    loader("CPU pipeline, 2 threads", "dali", "nvidia-dali-cuda120", "dali", 2, 10),
    other("torch.save", "torch", "torch", "checkpoint-torch", "io", 150),
    other("torch.distributed.checkpoint", "torch", "torch", "checkpoint-dcp", "io", 150),
    other("safetensors", "savers", "safetensors", "checkpoint-safetensors", "io", 150),
    other("Orbax", "savers", "orbax-checkpoint", "checkpoint-orbax", "io", 150),
    other("all-reduce over gloo with a slow rank", "torch", "torch", "collective-gloo", "device", 25),
    other("receiving from a slow stage over gloo", "torch", "torch", "pipeline-gloo", "device", 25),
    other("EmbeddingBag on the CPU", "torch", "torch", "embedding-torch", "device", 25),
    other("DeepSpeedCPUAdam", "deepspeed", "deepspeed", "offload-deepspeed", "device", 60),
]


class LeftOut(Exception):
    """Why a job has no figures."""


def said(error):
    """The last line of what a program said, or what happened to it."""
    lines = [line.strip() for line in (error.stderr or "").splitlines() if line.strip()] if hasattr(error, "stderr") else []
    return lines[-1][:200] if lines else str(error)[:200]


def call(argv, seconds, **more):
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=seconds, **more).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise LeftOut(said(error)) from error


def environment(name):
    """The interpreter of an environment, made if it is not there."""
    based, packages = ENVIRONMENTS[name]
    folder = os.path.join(CACHE, name)
    python, stamp = os.path.join(folder, "bin", "python"), os.path.join(folder, ".feedline-packages")
    wanted = " ".join(packages)
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == wanted:
        return python
    print(f"installing {wanted} …", file=sys.stderr)
    if based:
        environment("torch")
    call([PYTHON, "-m", "venv", "--clear", folder], 300)
    if based:
        site = os.path.join("lib", f"python{platform_version(python)}", "site-packages")
        with open(os.path.join(folder, site, "torch.pth"), "w", encoding="utf-8") as file:
            file.write(os.path.join(CACHE, "torch", site) + "\n")
    call([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], 1800)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted)
    return python


def platform_version(python):
    return call([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], 60).strip()


def version(python, distribution):
    code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    return call([python, "-c", code], 60).strip()


def prepare(python, kind, data):
    call([environment("torch"), os.path.join(HERE, "prepare.py"), "photos", data], 600)
    if kind:
        call([python, os.path.join(HERE, "prepare.py"), kind, data], 600)


def start(python, argv, data, folder):
    """A running job that is warm: the process, and the file of its truth."""
    log = os.path.join(folder, "truth.jsonl")
    argv = [python, os.path.join(HERE, "job.py"), *argv, "--data", data, "--truth", log]
    with open(os.path.join(folder, "job.log"), "w", encoding="utf-8") as errors:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
    for text in process.stdout:
        if text.startswith("ready "):
            return process, log
    process.wait()
    with open(os.path.join(folder, "job.log"), encoding="utf-8", errors="replace") as file:
        lines = [text.strip() for text in file if text.strip()]
    raise LeftOut("the job ended before it was warm: " + (lines[-1][:160] if lines else f"status {process.returncode}"))


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measure(feedline, seconds, job):
    """One row of figures."""
    python = environment(job.environment)
    data = os.path.join(CACHE, "data")
    os.makedirs(data, exist_ok=True)
    prepare(python, job.data, data)
    with tempfile.TemporaryDirectory() as folder:
        process, log = start(python, job.argv, data, folder)
        try:
            run = os.path.join(folder, "run")
            argv = [feedline, "record", str(process.pid), "--json", "--for", f"{seconds}s", "--out", run]
            report = json.loads(call(argv, seconds + 60))["report"]
        finally:
            stop(process)
        with open(os.path.join(run, "run.json"), encoding="utf-8") as file:
            meta = json.load(file)
        told = truth.window(log, meta["started"], meta["ended"])
    if told is None or told["covered"] < 0.95:
        raise LeftOut("the job's log does not cover the recording")
    share = estimate(report, job.cause)
    if share is None or share["share"] is None:
        raise LeftOut(f"no share of {job.cause} was estimated")
    text = (report["verdict"] or {}).get("text")
    return {"version": version(python, job.package), "true": told["share"], "text": text, **share}


def estimate(report, cause):
    """The share of the trainer's time that went to a cause: of data the verdict's, which is over the
    whole run; of the others the mean of the windows."""
    if cause == "data":
        verdict = report["verdict"]
        return verdict and {"share": verdict["data"], "low": verdict["low"], "high": verdict["high"]}
    stalls = [stall for trainer in report["trainers"] for stall in trainer["stall"] if stall["cause"] == cause]
    return stalls[0] if stalls else None


def line(job, row):
    if "left_out" in row:
        return f"| {job.about} | {job.package} | {job.cause} | – | – | – | left out: {row['left_out']} |"
    points = [f"{100 * row[key]:.1f}" for key in ("true", "share", "low", "high")]
    error = 100 * abs(row["share"] - row["true"])
    return (
        f"| {job.about} | {job.package} {row['version']} | {job.cause} | {points[0]} "
        f"| {points[1]} ({points[2]} to {points[3]}) | {error:.1f} | |"
    )


def page(rows, seconds):
    errors = sorted(100 * abs(row["share"] - row["true"]) for _, row in rows if "true" in row)
    head = [
        "# Frameworks",
        "",
        "Generated by `make test-frameworks`: one real job for each framework, of its current release, watched by pid as a",
        f"stranger for {seconds} s. The truth is the job's own log of the time in its fetches, as in `tests/jobs/README.md`, or",
        "in what it waits for instead; `tests/frameworks/frameworks.py` has the loaders, `causes.py` the rest. Shares of wall",
        "time in %, with the 95 % interval; errors in points.",
        "",
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, Python {platform_version(PYTHON)},"
        f" {datetime.date.today().isoformat()}.",
        "",
    ]
    if errors:
        head += [f"{len(errors)} jobs: median error {errors[len(errors) // 2]:.1f}, worst {errors[-1]:.1f}.", ""]
    table = ["| job | package | cause | true | estimated | error | |", "|---|---|---|---|---|---|---|"]
    return "\n".join(head + table + [line(job, row) for job, row in rows]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--feedline", required=True)
    parser.add_argument("--only", nargs="*", help="names of loaders and causes")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--write", help="the page to write")
    args = parser.parse_args()
    feedline = shutil.which(args.feedline) or sys.exit(f"error: no program {args.feedline}\nhint: cargo build first")
    rows = []
    for job in JOBS:
        if args.only and job.argv[1] not in args.only:
            continue
        try:
            row = measure(feedline, args.seconds, job)
        except LeftOut as error:
            row = {"left_out": str(error).replace("|", "/")}
        rows.append((job, row))
        print(line(job, row), flush=True)
        if row.get("text"):
            print(f"    {row['text']}", flush=True)
    if args.write:
        with open(args.write, "w", encoding="utf-8") as file:
            file.write(page(rows, args.seconds))


if __name__ == "__main__":
    main()
