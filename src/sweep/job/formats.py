"""Data sets of a sweep: how samples lie in files, and what it takes to make a tensor of one.

A data set is a list of `(name, offset, size)`, one a sample, in the order in which they lie.
"""

import glob
import hashlib
import io
import json
import os
import random
import tarfile

import numpy
import torch
from PIL import Image
from torch.utils.data import Dataset, Sampler

FORMATS = ("files", "tar", "raw", "tokens")
# Bytes of a data set, and the most samples of one.
SIZE, MOST, LEAST = 48 << 20, 2048, 64
SHARD = 128
BLOCK = b"\x5a" * (64 << 10)
SIDE = 224


def contents(content, size, photos):
    """Endless samples as bytes, the same each time."""
    dice = random.Random(size)
    if content == "photo":
        paths = sorted(glob.glob(os.path.join(photos, str(size), "*.jpg")))
        number = 0
        while True:
            with open(paths[number % len(paths)], "rb") as file:
                yield file.read()
            number += 1
    noise = dice.randbytes(1 << 22)
    while True:
        at = dice.randrange(0, max(1, len(noise) - size))
        yield (noise[at : at + size] * (size // max(1, len(noise) - at) + 1))[:size]


def made(folder, config, photos):
    """The data set of a configuration, written unless it is there; its index, and its file names."""
    name = f"{config['format']}-{config['content']}-{config['bytes']}"
    index = os.path.join(folder, f"{name}.json")
    if not os.path.exists(index):
        count = min(MOST, max(LEAST, SIZE // config["bytes"]))
        samples = contents(config["content"], config["bytes"], photos)
        items = WRITERS[config["format"]](folder, name, samples, count, config["bytes"])
        with open(f"{index}.part", "w", encoding="utf-8") as file:
            json.dump(items, file)
        os.rename(f"{index}.part", index)
    with open(index, encoding="utf-8") as file:
        items = [tuple(item) for item in json.load(file)]
    return items, sorted({item[0] for item in items})


def written(folder, name, write):
    """A file that is on the disk when this returns."""
    with open(os.path.join(folder, name), "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def files(folder, name, samples, count, size):
    items = []
    for number in range(count):
        data = next(samples)
        written(folder, f"{name}-{number:05}.bin", lambda file, data=data: file.write(data))
        items.append((f"{name}-{number:05}.bin", 0, len(data)))
    return items


def tar(folder, name, samples, count, size):
    """Shards of some samples each, as WebDataset reads them; the index is that of the archive."""
    items = []
    for shard in range(0, count, SHARD):
        path = f"{name}-{shard // SHARD:04}.tar"

        def write(file, shard=shard):
            with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
                for number in range(shard, min(count, shard + SHARD)):
                    data = next(samples)
                    about = tarfile.TarInfo(f"{number:06}.bin")
                    about.size = len(data)
                    archive.addfile(about, io.BytesIO(data))

        written(folder, path, write)
        with tarfile.open(os.path.join(folder, path)) as archive:
            items += [(path, member.offset_data, member.size) for member in archive]
    return items


def raw(folder, name, samples, count, size):
    """Records of one size in one file."""

    def write(file):
        for _ in range(count):
            file.write(next(samples)[:size].ljust(size, b"\0"))

    written(folder, f"{name}.bin", write)
    return [(f"{name}.bin", number * size, size) for number in range(count)]


def tokens(folder, name, samples, count, size):
    """A stream of two-byte tokens in one file; samples are windows that begin anywhere in it."""
    raw(folder, name, samples, count, size)
    dice = random.Random(size)
    windows = sorted(dice.randrange(0, (count - 1) * size // 2) * 2 for _ in range(count))
    return [(f"{name}.bin", at, size) for at in windows]


WRITERS = {"files": files, "tar": tar, "raw": raw, "tokens": tokens}


class Samples(Dataset):
    """A map-style data set over a store. `rounds`: how often a block is hashed to decode a sample."""

    def __init__(self, store, items, config, rounds):
        self.store, self.items, self.rounds = store, items, rounds
        self.apart = config["format"] == "files"
        self.photo = config["content"] == "photo"
        self.tokens = config["format"] == "tokens"

    def __len__(self):
        return len(self.items)

    def fetch(self, index):
        """The bytes of a sample."""
        name, offset, size = self.items[index]
        return self.store.whole(name, size) if self.apart else self.store.read(name, offset, size)

    def decode(self, data):
        """A tensor of the bytes of a sample."""
        for _ in range(self.rounds):
            hashlib.sha256(BLOCK).digest()
        if self.photo:
            with Image.open(io.BytesIO(data)) as photo:
                pixels = photo.convert("RGB").resize((SIDE, SIDE), Image.BILINEAR)
            return torch.from_numpy(numpy.asarray(pixels).copy()).permute(2, 0, 1).contiguous()
        values = numpy.frombuffer(data, dtype=numpy.uint16 if self.tokens else numpy.uint8)
        return torch.from_numpy(values.astype(numpy.int64) if self.tokens else values.copy())

    def __getitem__(self, index):
        return self.decode(self.fetch(index))


class Endless(Sampler):
    """The order of samples, without an end: `sequential`, `shuffled` anew each time round, or
    `shards`: blocks of neighbours in shuffled order."""

    def __init__(self, count, access, seed):
        self.count, self.access, self.seed = count, access, seed

    def __iter__(self):
        dice = random.Random(self.seed)
        block = SHARD if self.access == "shards" else 1
        # Somewhere, so that what the run before has left behind it does not decide.
        start = dice.randrange(self.count)
        while True:
            if self.access == "sequential":
                yield from range(start, self.count)
                start = 0
                continue
            blocks = list(range(0, self.count, block))
            dice.shuffle(blocks)
            for first in blocks:
                yield from range(first, min(self.count, first + block))

    def __len__(self):
        return self.count
