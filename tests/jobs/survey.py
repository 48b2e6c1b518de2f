"""Runs the scenarios of jobs.json alone, one after another, and prints what their truth says.

    survey.py --data PHOTOS [--seconds 15] [--feedline PROGRAM] [NAME…]

For each: the true data-wait share of the whole run after `ready` and of its thirds, the steps, and
how the job ended when told to by SIGTERM (half of the jobs) or by its own clock.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import truth

HERE = os.path.dirname(os.path.abspath(__file__))


def run(scenario, args, folder, terminate):
    """The truth of one run as a line of the table."""
    path = os.path.join(folder, scenario["name"] + ".jsonl")
    values = {
        "python": sys.executable, "jobs": HERE, "data": args.data, "truth": path,
        "seconds": str(0 if terminate else args.seconds), "feedline": args.feedline or "",
    }
    argv = [part.format(**values) for part in scenario["argv"]]
    job = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not job.stdout.readline().startswith("ready"):
        return f"ended {job.wait()}: {job.stderr.read().strip().splitlines()[-1:]}"
    start = time.time_ns()
    if terminate:
        time.sleep(args.seconds)
        job.send_signal(signal.SIGTERM)
    asked = time.time_ns()
    code = job.wait(args.seconds + 20)
    end = truth.read(path)[-1][2]
    third = (end - start) // 3
    shares = [truth.share(path, start + i * third, start + (i + 1) * third) for i in range(3)]
    whole = truth.window(path, start, end)
    told = f"SIGTERM, {(time.time_ns() - asked) / 1e9:.1f} s" if terminate else "its clock"
    parts = " ".join(f"{share:.3f}" for share in shares)
    return f"{whole['share']:.3f} | {parts} | {whole['steps']} | {whole['period_ns'] / 1e6:.1f} | {code} by {told}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--feedline", help="program for the embedded job; left out without it")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    with open(os.path.join(HERE, "jobs.json"), encoding="utf-8") as file:
        scenarios = json.load(file)["scenarios"]
    folder = tempfile.mkdtemp(prefix="survey-")
    print("job | share | thirds | steps | period ms | ended\n--- | --- | --- | --- | --- | ---")
    try:
        for number, scenario in enumerate(scenarios):
            embedded = scenario["argv"][0] == "{feedline}"
            if (args.names and scenario["name"] not in args.names) or (embedded and not args.feedline):
                continue
            print(scenario["name"], "|", run(scenario, args, folder, number % 2 == 0), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
