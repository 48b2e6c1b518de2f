"""Runs a job in surroundings that hold it back, and takes them away when the job is over.

    around.py [--quota CORES] [--read-mb-s N] [--spinners N] [--spin-core N] [--prober] -- COMMAND…

The job starts undisturbed; once it says `ready`, what was asked for begins: a CPU quota or a
throttle of the disk through control groups (v1 or v2; root only), neighbours that spin, each a
session of its own and no part of the job, or a profiler that reads the job's memory a hundred times
a second. Ends with 77 and a reason where that cannot be had.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading

ROOT = "/sys/fs/cgroup"
PROBER = """
import os, re, sys, time
pid = sys.argv[1]
memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
with open(f"/proc/{pid}/maps") as file:
    areas = [l for l in file if l.split()[1].startswith("rw") and len(l.split()) < 6 or "heap" in l or "stack" in l]
spans = [[int(part, 16) for part in area.split()[0].split("-")] for area in areas]
print("probing", flush=True)
while os.path.exists(f"/proc/{pid}"):
    for start, end in spans[:8]:
        try:
            os.pread(memory, min(65536, end - start), start)
        except OSError:
            pass
    time.sleep(0.01)
"""


def skip(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(77)


class Group:
    """A control group of one controller, v1 or v2."""

    def __init__(self, controller):
        name = f"feedline-lab-{os.getpid()}"
        self.v1 = os.path.isdir(f"{ROOT}/{controller}")
        unified = ROOT if os.path.exists(f"{ROOT}/cgroup.controllers") else f"{ROOT}/unified"
        self.path = f"{ROOT}/{controller}/{name}" if self.v1 else f"{unified}/{name}"
        try:
            if not self.v1:
                wanted = {"cpu": "cpu", "blkio": "io"}[controller]
                with open(f"{unified}/cgroup.controllers", encoding="ascii") as file:
                    if wanted not in file.read().split():
                        skip(f"no controller {wanted} here")
                self.put(f"+{wanted}", "../cgroup.subtree_control")
            os.mkdir(self.path)
        except OSError as error:
            skip(f"control groups: {error}")

    def put(self, value, name):
        path = os.path.join(os.path.dirname(self.path), name[3:]) if name.startswith("../") else os.path.join(self.path, name)
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(value)
        except OSError as error:
            skip(f"{path}: {error}")

    def enter(self):
        """Moves this process there, and so all that it starts."""
        self.put(str(os.getpid()), "cgroup.procs")

    def quota(self, cores):
        if self.v1:
            self.put("100000", "cpu.cfs_period_us")
            self.put(str(int(cores * 100000)), "cpu.cfs_quota_us")
        else:
            self.put(f"{int(cores * 100000)} 100000", "cpu.max")

    def read_limit(self, mb_s, folder):
        found = os.stat(folder).st_dev
        device = f"{os.major(found)}:{os.minor(found)}"
        if self.v1:
            self.put(f"{device} {int(mb_s * 1e6)}", "blkio.throttle.read_bps_device")
        else:
            self.put(f"{device} rbps={int(mb_s * 1e6)}", "io.max")

    def remove(self):
        """Takes it away; what is still in it goes to the group above."""
        above = os.path.join(os.path.dirname(self.path), "cgroup.procs")
        try:
            with open(os.path.join(self.path, "cgroup.procs"), encoding="ascii") as file:
                left = file.read().split()
            for pid in left:
                with open(above, "w", encoding="ascii") as file:
                    file.write(pid)
            os.rmdir(self.path)
        except OSError as error:
            print(f"{self.path}: {error}", file=sys.stderr)


def spinner(core):
    """A neighbour that burns a core, or what it gets of one."""
    command = ["sh", "-c", "while :; do :; done"]
    started = subprocess.Popen(command, start_new_session=True)
    if core >= 0:
        os.sched_setaffinity(started.pid, {core})
    return started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quota", type=float, default=0.0, help="cores")
    parser.add_argument("--read-mb-s", type=float, default=0.0)
    parser.add_argument("--spinners", type=int, default=0)
    parser.add_argument("--spin-core", type=int, default=-1)
    parser.add_argument("--prober", action="store_true")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    cpu = Group("cpu") if args.quota else None
    blkio = Group("blkio") if args.read_mb_s else None
    for group in filter(None, (cpu, blkio)):
        group.enter()
    job = subprocess.Popen(args.command, stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGTERM, lambda *_: job.send_signal(signal.SIGTERM))
    beside = []
    try:
        for line in job.stdout:
            if line.startswith("ready "):
                if cpu:
                    cpu.quota(args.quota)
                if blkio:
                    blkio.read_limit(args.read_mb_s, os.environ.get("TMPDIR", "/tmp"))
                beside += [spinner(args.spin_core) for _ in range(args.spinners)]
                if args.prober:
                    command = [sys.executable, "-c", PROBER, line.split()[1]]
                    beside.append(subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE))
                    if beside[-1].stdout.readline() != b"probing\n":
                        skip("the job's memory may not be read")
                print(line, end="", flush=True)
                threading.Thread(target=job.stdout.read, daemon=True).start()
                break
        return job.wait()
    finally:
        if job.poll() is None:
            job.kill()
            job.wait()
        for neighbour in beside:
            neighbour.kill()
            neighbour.wait()
        for group in filter(None, (cpu, blkio)):
            group.remove()


if __name__ == "__main__":
    sys.exit(main())
