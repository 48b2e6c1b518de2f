"""Runs scenarios alone, one after another, and prints what their truth says.

    survey.py --data PHOTOS [--list jobs.json] [--set causes] [--seconds 15] [--feedline PROGRAM] [NAME…]

For each: the true data-wait share of the whole run after `ready` and of its thirds, the steps, the
true shares of the causes (largest first, from 1 %), and how the job ended when told to by SIGTERM
(half of the jobs) or by its own clock. Where a scenario claims a cause, it says whether the truth
bears that out: the largest besides `compute`, at least 15 % if mild and 40 % if strong.
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
LEAST = {"mild": 0.15, "strong": 0.40}


def judged(scenario, shares):
    """Whether the scenario has the cause that it claims."""
    top = max((cause for cause in shares if cause != "compute"), key=shares.get, default=None)
    if scenario.get("decoy"):
        data = [cause for cause in shares if cause.startswith("fetch") or cause in ("decode", "handoff", "startup")]
        return "decoy" if all(shares[cause] < 0.05 for cause in data) else "NO DECOY"
    if "cause" not in scenario:
        return ""
    held = top == scenario["cause"] and shares[top] >= LEAST[scenario["severity"]]
    return "as claimed" if held else f"NOT {scenario['cause']} {scenario['severity']}"


def run(scenario, args, folder, terminate):
    """The truth of one run as a line of the table."""
    path = os.path.join(folder, scenario["name"] + ".jsonl")
    gpu = os.path.join(folder, scenario["name"] + ".gpu")
    os.mkdir(gpu)
    values = {
        "python": sys.executable, "jobs": HERE, "data": args.data, "truth": path, "gpu": gpu,
        "seconds": str(0 if terminate else args.seconds), "feedline": args.feedline or "",
    }
    argv = [part.format(**values) for part in scenario["argv"]]
    job = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = job.stdout.readline()
    if not said.startswith("ready"):
        return f"ended {job.wait()}: {job.stderr.read().strip().splitlines()[-1:]}"
    start = time.time_ns()
    if terminate:
        time.sleep(args.seconds)
        os.kill(int(said.split()[1]), signal.SIGTERM)
    asked = time.time_ns()
    code = job.wait(args.seconds + 60)
    end = truth.read(path)[-1][2]
    third = (end - start) // 3
    shares = [truth.share(path, start + i * third, start + (i + 1) * third) for i in range(3)]
    whole = truth.window(path, start, end)
    causes = truth.causes(path, start, end) or {}
    shown = ", ".join(f"{c} {100 * s:.1f}" for c, s in sorted(causes.items(), key=lambda pair: -pair[1]) if s >= 0.01)
    told = f"SIGTERM, {(time.time_ns() - asked) / 1e9:.1f} s" if terminate else "its clock"
    parts = " ".join(f"{share:.3f}" for share in shares)
    return (
        f"{whole['share']:.3f} | {parts} | {whole['steps']} | {whole['period_ns'] / 1e6:.1f} | {shown}"
        f" | {judged(scenario, causes)} | {code} by {told}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--list", default=os.path.join(HERE, "jobs.json"))
    parser.add_argument("--set", default="", help="only scenarios of this set")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--feedline", help="program for the embedded job; left out without it")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    with open(args.list, encoding="utf-8") as file:
        scenarios = json.load(file)["scenarios"]
    folder = tempfile.mkdtemp(prefix="survey-")
    print("job | share | thirds | steps | period ms | causes | claim | ended\n--- | --- | --- | --- | --- | --- | --- | ---")
    try:
        for number, scenario in enumerate(scenarios):
            embedded = scenario["argv"][0] == "{feedline}"
            other = args.set and scenario["set"] != args.set
            if other or (args.names and scenario["name"] not in args.names) or (embedded and not args.feedline):
                continue
            if scenario.get("root") and os.geteuid() != 0:
                print(scenario["name"], "| left out: needs root", flush=True)
                continue
            print(scenario["name"], "|", run(scenario, args, folder, number % 2 == 0), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
