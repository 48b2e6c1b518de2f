"""What else a trainer does in a step: each injection takes its share of it, and knows that it does.

An injection is called once a step with the log, and marks its own time with `log.span(cause)`.
"""

import ctypes
import gc
import io
import mmap
import os
import random
import subprocess
import sys
import threading
import time

import sources

HERE = os.path.dirname(os.path.abspath(__file__))


class Garbage:
    """The collector walks a big heap: every `every` steps `gc.collect()` over `size` objects."""

    def __init__(self, args, folder):
        self.heap = [[number] for number in range(args.size * 1000)]
        self.every, self.count = args.every, 0

    def __call__(self, log):
        self.count += 1
        if self.count % self.every == 0:
            with log.span("host"):
                gc.collect()


class Python:
    """Work of the main thread in Python for `ms`, while the accelerator stands idle."""

    def __init__(self, args, folder):
        self.seconds = args.ms / 1e3

    def __call__(self, log):
        with log.span("host"):
            end = time.monotonic() + self.seconds
            words = {}
            while time.monotonic() < end:
                word = str(random.random())[:4]
                words[word] = words.get(word, 0) + len(word)


class Checkpoint:
    """`torch.save` of `size` MB every `every` steps, to a file whose writes reach the disk (O_DSYNC)."""

    def __init__(self, args, folder):
        import torch

        self.save = torch.save
        self.state = {f"layer.{n}.weight": torch.rand(args.size << 16) for n in range(4)}
        self.path, self.every, self.count = os.path.join(folder, "checkpoint.pt"), args.every, 0

    def write(self):
        opened = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DSYNC, 0o644)
        with io.BufferedWriter(io.FileIO(opened, "wb"), 1 << 20) as file:
            self.save(self.state, file)

    def __call__(self, log):
        self.count += 1
        if self.count % self.every == 0:
            with log.span("checkpoint"):
                self.write()


class BackgroundCheckpoint(Checkpoint):
    """The same from a thread: nobody waits for it."""

    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.thread = None

    def __call__(self, log):
        self.count += 1
        if self.count % self.every == 0 and not (self.thread and self.thread.is_alive()):
            self.thread = threading.Thread(target=self.write, name="checkpoint", daemon=True)
            self.thread.start()


class Embedding:
    """An EmbeddingBag over a mapped table larger than what is kept of it: `rows` lookups a step."""

    def __init__(self, args, folder):
        import torch

        self.torch = torch
        size = args.size << 20
        self.file = open(sources.shard(folder, size, "table.bin"), "rb")
        self.view = mmap.mmap(self.file.fileno(), size, access=mmap.ACCESS_COPY)
        self.view.madvise(mmap.MADV_RANDOM)
        # One row a page.
        self.table = torch.frombuffer(self.view, dtype=torch.float32).view(-1, 1024)
        self.rows = args.rows

    def __call__(self, log):
        torch = self.torch
        with log.span("embedding"), torch.no_grad():
            wanted = torch.randint(0, len(self.table), (self.rows // 8, 8))
            torch.nn.functional.embedding_bag(wanted, self.table, mode="sum")
        self.view.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def streamed_optimizer(folder, megabytes):
    """An optimizer whose state lives on the disk: read, updated and written back by every step."""
    import torch

    class Streamed(torch.optim.Optimizer):
        """Momentum, one file for all, past the page cache."""

        def __init__(self, params):
            super().__init__(params, {})
            self.path = sources.shard(folder, megabytes << 20, "state.bin")
            self.file = os.open(self.path, os.O_RDWR | os.O_DIRECT)
            self.room = mmap.mmap(-1, 1 << 20)
            self.log = None

        @torch.no_grad()
        def step(self, closure=None):
            for at in range(0, megabytes << 20, 1 << 20):
                with self.log.span("offload"):
                    os.preadv(self.file, [self.room], at)
                with self.log.span("offload"):
                    os.pwritev(self.file, [self.room], at)
            for group in self.param_groups:
                for param in group["params"]:
                    param.add_(param.grad, alpha=-1e-3)

    return Streamed


class Offload:
    """An optimizer's state of `size` MB streamed from and to the disk in each step."""

    def __init__(self, args, folder):
        import torch

        self.weight = torch.nn.Parameter(torch.rand(64, 64))
        self.weight.grad = torch.rand(64, 64)
        self.optimizer = streamed_optimizer(folder, args.size)([self.weight])

    def __call__(self, log):
        self.optimizer.log = log
        self.optimizer.step()


class Copy:
    """Copies of `size` MB to the device with cuMemcpyHtoD_v2 of a stub libcuda.so.1 (`cuda_stub.c`)."""

    def __init__(self, args, folder):
        built = os.path.join(folder, "libcuda.so.1")
        compiler = ["cc", "-shared", "-fPIC", "-O1", "-o", built, os.path.join(HERE, "cuda_stub.c"), "-Wl,-soname,libcuda.so.1"]
        try:
            subprocess.run(compiler, check=True)
        except FileNotFoundError:
            print("skipped: no C compiler (cc)", file=sys.stderr)
            sys.exit(77)
        os.environ["STUB_GB_S"] = str(args.gb_s)
        self.cuda = ctypes.CDLL(built)
        self.cuda.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
        self.size = args.size << 20
        self.room = ctypes.create_string_buffer(self.size)
        device = ctypes.c_uint64()
        self.cuda.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(self.size))
        self.device = device.value

    def copy(self):
        self.cuda.cuMemcpyHtoD_v2(self.device, self.room, self.size)

    def __call__(self, log):
        with log.span("copy"):
            self.copy()


class DeviceCopy:
    """Copies of `size` MB of pageable memory to a real device, through its own libcuda."""

    def __init__(self, args, folder):
        import cuda

        del folder
        self.cuda = cuda.Cuda()
        self.size = args.size << 20
        self.room = ctypes.create_string_buffer(self.size)
        self.device = self.cuda.room(self.size)

    def __call__(self, log):
        with log.span("copy"):
            self.cuda.copy(self.device, self.room, self.size)


LIBRARY = """
def send_to_device(tensor, device, non_blocking=False):
    return tensor.to(device)
"""


class VisibleCopy(Copy):
    """The same under a frame that says so: `send_to_device` of accelerate/utils/operations.py."""

    def __init__(self, args, folder):
        super().__init__(args, folder)
        place = os.path.join(folder, "accelerate", "utils")
        os.makedirs(place)
        path = os.path.join(place, "operations.py")
        scope = {}
        with open(path, "w", encoding="ascii") as file:
            file.write(LIBRARY)
        exec(compile(LIBRARY, path, "exec"), scope)  # noqa: S102 (its own text, under the library's path)
        self.send_to_device = scope["send_to_device"]

    def to(self, device):
        del device
        self.copy()

    def __call__(self, log):
        with log.span("copy"):
            self.send_to_device(self, "cuda")


KINDS = {
    "gc": Garbage,
    "python": Python,
    "checkpoint": Checkpoint,
    "checkpoint-thread": BackgroundCheckpoint,
    "embedding": Embedding,
    "offload": Offload,
    "copy": Copy,
    "copy-visible": VisibleCopy,
    "copy-device": DeviceCopy,
}
