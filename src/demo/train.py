"""Trains a small image classifier with PyTorch, and logs where each step's time went."""

import argparse
import ctypes
import glob
import json
import os
import signal
import time

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, folder):
        self.paths = sorted(glob.glob(os.path.join(folder, "*.jpg")))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as photo:
            photo = photo.convert("RGB").resize((224, 224), Image.BILINEAR)
        pixels = torch.from_numpy(numpy.array(photo)).permute(2, 0, 1)
        return pixels.float().div_(127.5).sub_(1.0), index % 10


class Net(torch.nn.Sequential):
    def __init__(self, width):
        super().__init__(
            torch.nn.Conv2d(3, width, 7, stride=4, padding=3),
            torch.nn.ReLU(),
            torch.nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(2 * width, 10),
        )


def forever(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--truth", required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--ends-with-parent", action="store_true")
    args = parser.parse_args()
    if args.ends_with_parent:  # a demo that is killed must leave no job behind
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG

    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    torch.set_num_threads(1)

    photos = Photos(args.data)
    loader = DataLoader(
        photos,
        batch_size=args.batch,
        shuffle=True,
        drop_last=len(photos) >= args.batch,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
    )
    model = Net(args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = torch.nn.CrossEntropyLoss()

    step, deadline, flushed = 0, None, time.monotonic()
    lines = [json.dumps({"truth": 1, "job": "pytorch", "pid": os.getpid(), "torch": torch.__version__})]
    with open(args.truth, "w", encoding="ascii") as truth:
        batches = forever(loader)
        while not ended and (deadline is None or time.monotonic() < deadline):
            mono, fetch_start = time.monotonic_ns(), time.time_ns()
            fetched = next(batches)
            fetch_end = time.time_ns()
            images, labels = fetched  # lets go of the batch before: work of the step, not a wait
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()
            lines.append(json.dumps({
                "step": step,
                "fetch_start_ns": fetch_start,
                "fetch_end_ns": fetch_end,
                "step_end_ns": time.time_ns(),
                "mono_ns": mono,
            }))
            step += 1
            if step == 5:
                print("ready", os.getpid(), flush=True)
                deadline = time.monotonic() + args.seconds if args.seconds > 0 else None
            if time.monotonic() - flushed > 1.0:
                truth.write("\n".join(lines) + "\n")
                truth.flush()
                lines, flushed = [], time.monotonic()
        truth.write("\n".join(lines + [""]))


if __name__ == "__main__":
    main()
