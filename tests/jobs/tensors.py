"""Samples as PyTorch tensors; apart, so that jobs without PyTorch never import it."""

import torch
from torch.utils.data import Dataset


class Tensors(Dataset):
    """Normalised float tensors of `length` samples, more than there are files if need be."""

    def __init__(self, samples, length):
        self.samples = samples
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        pixels, label = self.samples[index]
        return torch.from_numpy(pixels).float().div_(127.5).sub_(1.0), label
