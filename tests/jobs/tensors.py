"""Samples as PyTorch tensors; apart, so that jobs without PyTorch never import it."""

import os
import time

import torch
from torch.utils.data import Dataset, default_collate

import stamps


class Tensors(Dataset):
    """Normalised float tensors of `length` samples, more than there are files if need be.

    `work`: elements of a tensor that PyTorch's own threads work through for each sample.
    """

    def __init__(self, samples, length, work=0):
        self.samples = samples
        self.length = length
        self.work = work
        self.worked = None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        pixels, label = self.samples[index]
        with stamps.phase("decode"):
            tensor = torch.from_numpy(pixels).float().div_(127.5).sub_(1.0)
            if self.work:
                if self.worked is None:
                    self.worked = torch.ones(self.work)
                # In place: all of it is for PyTorch's threads, nothing for the main one alone.
                tensor = tensor.add_(self.worked.sin_()[0])
        return tensor, label


class Start:
    """What a worker does when it starts: takes its time, its core, and as many threads as it is told."""

    def __init__(self, seconds, core, threads):
        self.seconds, self.core, self.threads = seconds, core, threads

    def __call__(self, worker):
        del worker
        if self.core >= 0:
            os.sched_setaffinity(0, {self.core})
        if self.threads:
            torch.set_num_threads(self.threads)
            stamps.STORM = True
        # Half asleep, half at work: an index is read and a codec is set up.
        time.sleep(self.seconds / 2)
        end = time.monotonic() + self.seconds / 2
        while time.monotonic() < end:
            pass


def collate(samples):
    """PyTorch's own collating, with the stamps of the batch beside it."""
    with stamps.phase("decode"):
        made = default_collate(samples)
    return [*made, stamps.take()]
