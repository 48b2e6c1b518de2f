"""Several ranks of one job, over gloo: how they are started, and what they do together in a step.

The launcher starts `--ranks` processes of `job.py`, each with RANK, LOCAL_RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT in its environment, as `torchrun` does, and hands on SIGTERM. It says
`ready` with its own pid; the rank that is judged writes the truth file proper, with its pid in the
head, and each other one writes `TRUTH.rankN`. With `--torchrun` it is torchrun that starts them.

All ranks keep one board, a mapped file with the time at which each arrived at each collective, so
that each can tell, when a collective is over, how long it waited for the last to come (`imbalance`)
and how long the collective itself took (`collective`).
"""

import mmap
import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

SLOTS = 4096
MOST = 8


class Board:
    """What the ranks tell each other besides: arrivals, and the step after which all of them end."""

    def __init__(self, path, rank, ranks):
        self.rank, self.ranks, self.call = rank, ranks, 0
        size = 8 * (1 + MOST * SLOTS)
        with open(path, "r+b") as file:
            self.view = mmap.mmap(file.fileno(), size)

    @staticmethod
    def make(path):
        with open(path, "wb") as file:
            file.write(bytes(8 * (1 + MOST * SLOTS)))

    def place(self, rank):
        return 8 * (1 + rank * SLOTS + self.call % SLOTS)

    def arrive(self):
        """This rank is at the next collective; returns when that was."""
        now = time.monotonic_ns()
        struct.pack_into("<q", self.view, self.place(self.rank), now)
        return now

    def last(self):
        """When the last rank came to this collective, which is over."""
        came = max(struct.unpack_from("<q", self.view, self.place(rank))[0] for rank in range(self.ranks))
        self.call += 1
        return came

    def end_after(self, step):
        struct.pack_into("<q", self.view, 0, step)

    def end(self):
        """The step after which all end; None while nobody wants to."""
        return struct.unpack_from("<q", self.view, 0)[0] or None


class AllReduce:
    """One all_reduce of `mb` MB at the end of each step."""

    def __init__(self, board, mb):
        import torch
        import torch.distributed as group

        self.group, self.board = group, board
        self.gradient = torch.ones(max(1, int(mb * (1 << 18))))

    def __call__(self, log):
        came = self.board.arrive()
        self.group.all_reduce(self.gradient)
        end = time.monotonic_ns()
        last = min(max(came, self.board.last()), end)
        log.add("imbalance", came, last)
        log.add("collective", last, end)
        self.gradient.fill_(1.0)


class Pipeline:
    """Two stages and `micro` microbatches a step: forwards and backwards, each `ms` of work of a stage.

    The first stage fills and drains the pipe; what a stage waits for the other is `bubble`.
    """

    def __init__(self, board, micro, ms):
        import torch
        import torch.distributed as group

        self.torch, self.group, self.rank = torch, group, board.rank
        self.micro, self.seconds = micro, ms / 1e3
        self.room = torch.zeros(1 << 14)

    def send(self, log):
        with log.span("bubble"):
            self.group.send(self.room, dst=1 - self.rank)

    def receive(self, log):
        with log.span("bubble"):
            self.group.recv(self.room, src=1 - self.rank)

    def work(self):
        time.sleep(self.seconds)

    def __call__(self, log):
        if self.rank == 0:
            for _ in range(self.micro):
                self.work()
                self.send(log)
            for _ in range(self.micro):
                self.receive(log)
                self.work()
        else:
            for _ in range(self.micro):
                self.receive(log)
                self.work()
            for _ in range(self.micro):
                self.work()
                self.send(log)


def join(args):
    """Joins the group of ranks; returns (board, what they do together)."""
    import torch.distributed as group

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    group.init_process_group("gloo", rank=rank, world_size=ranks)
    if args.torchrun:
        if rank == 0:
            Board.make(args.board)
        group.barrier()
    board = Board(args.board, rank, ranks)
    if args.together == "pipeline":
        return board, Pipeline(board, args.micro, args.stage_ms)
    return board, AllReduce(board, args.reduce_mb)


def of_rank(args, rank, board):
    """The arguments that one rank has beside those of all."""
    its = [argument.split(":", 1)[1] for argument in args.for_rank if argument.startswith(f"{rank}:")]
    truth = args.truth if rank == args.judge else f"{args.truth}.rank{rank}"
    return [*shlex.split(" ".join(its)), "--truth", truth, "--board", board]


def launch(args, argv):
    """Starts the ranks, says when the judged one is warm, and waits for all of them."""
    folder = tempfile.mkdtemp(prefix="ranks-")
    path = os.path.join(folder, "board")
    Board.make(path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    started = []
    for rank in range(args.ranks):
        command = [sys.executable, "-B", sys.argv[0], *argv, *of_rank(args, rank, path)]
        environment = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(args.ranks)}
        environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}))
    signal.signal(signal.SIGTERM, lambda *_: [rank.send_signal(signal.SIGTERM) for rank in started if rank.poll() is None])
    if any(not rank.stdout.readline().startswith("ready") for rank in started):
        for rank in started:
            rank.kill()
        return max(rank.wait() for rank in started) or 1
    for rank in started:
        threading.Thread(target=rank.stdout.read, daemon=True).start()
    print("ready", os.getpid(), flush=True)
    codes = [rank.wait() for rank in started]
    os.unlink(path)
    os.rmdir(folder)
    return max(abs(code) for code in codes)
