"""Real training jobs, recorded by pid, against what they logged: the few that stand for all.

Limits are wider than those of the benches, which want a quiet machine: here a verdict has to hold
beside whatever else runs. Needs root or nothing, Debian's PyTorch, and the program: its path is in
FEEDLINE, and without it there is nothing to try.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FEEDLINE = os.environ.get("FEEDLINE", "")


def bench(*args):
    """The figures of a bench and its rows."""
    with tempfile.TemporaryDirectory() as folder:
        command = [FEEDLINE, "bench", *args, "--json", "--jobs", HERE, "--out", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.stdout.strip():
            raise AssertionError(f"{' '.join(args)}: {done.stderr.strip()}")
        said = json.loads(done.stdout)
        with open(said["rows"], encoding="utf-8") as file:
            return said["figures"], [json.loads(line) for line in file]


def record(pid, span, run):
    """What `record --json` reports of a job."""
    done = subprocess.run([FEEDLINE, "record", str(pid), "--for", span, "--out", run, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)["report"]


def draw(folder):
    """A few pictures to decode."""
    import numpy
    from PIL import Image

    os.mkdir(folder)
    noise = numpy.random.default_rng(7)
    for n in range(16):
        pixels = noise.integers(0, 255, (60, 80, 3), dtype="uint8")
        Image.fromarray(pixels).resize((320, 240)).save(os.path.join(folder, f"{n}.jpg"))


def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@unittest.skipUnless(FEEDLINE, "FEEDLINE names no program to try")
class Lab(unittest.TestCase):
    def test_the_share_of_time_that_a_job_waits_for_data(self):
        for name, ahead in [("slow-store", False), ("heavy-decode", False), ("ahead-device", True)]:
            with self.subTest(name):
                figures, rows = bench("attribution", "--only", name, "--for", "12s")
                self.assertGreaterEqual(figures["jobs"], 1, rows)
                self.assertLessEqual(figures["worst_error_points"], 8.0, rows)
                if ahead:
                    self.assertLessEqual(figures["ahead_points"], 4.0, rows)

    def test_the_cause_of_the_wait(self):
        # In ten seconds a decoy with a true wait of 3.5 % reads above 5 % now and then.
        figures, rows = bench("causes", "--set", "short", "--for", "20s")
        self.assertEqual(figures["left_out"], 0, rows)
        self.assertEqual(figures["top_cause_pct"], 100.0, rows)
        self.assertEqual(figures["false_data_stalls"], 0, rows)
        self.assertLessEqual(figures["share_error_median_points"], 4.0, rows)

    def test_the_slow_rank_of_a_job_of_four_that_torchrun_started(self):
        with tempfile.TemporaryDirectory() as folder:
            photos, truth = os.path.join(folder, "photos"), os.path.join(folder, "truth.jsonl")
            draw(photos)
            job = [os.path.join(HERE, "job.py"), "--torchrun", "--kind", "none", "--batch", "4", "--decode", "tiny"]
            job += ["--data", photos, "--truth", truth, "--seconds", "120", "--step-ms", "60", "--reduce-mb", "0.5"]
            job += ["--for-rank", "2:--kind dataloader --workers 1 --storage store --latency-ms 30"]
            # PyTorch 1.13 on Python 3.11 knows no `redirects` of none: the output goes through its tee.
            torchrun = [sys.executable, "-B", "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1"]
            torchrun += ["--nproc_per_node", "4", "--master_port", port()]
            with subprocess.Popen([*torchrun, *job], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as ranks:
                try:
                    self.assertTrue(any("ready" in line for line in ranks.stdout))
                    time.sleep(1)
                    report = record(ranks.pid, "15s", os.path.join(folder, "run"))
                finally:
                    ranks.terminate()
                    ranks.stdout.read()
            slow = report["slow"]
            self.assertEqual(slow["rank"], 2, slow)
            slowest = next(one for one in report["trainers"] if one["rank"] == 2)
            self.assertEqual(slowest["verdict"]["cause"], "fetch.network", slowest)
            others = [one["verdict"]["cause"] for one in report["trainers"] if one["rank"] != 2]
            self.assertEqual(others, ["imbalance"] * 3)


if __name__ == "__main__":
    unittest.main()
