"""Samples: a photograph read from somewhere and decoded, as loader workers do."""

import glob
import io
import os
import random

import numpy
from PIL import Image, ImageFilter

DECODES = ("tiny", "normal", "heavy")
SIDE = 224


def paths(folder):
    """The photographs of a folder, in order."""
    found = sorted(glob.glob(os.path.join(folder, "*.jpg")))
    if not found:
        raise SystemExit(f"{folder}: expected JPEG files, found none")
    return found


def local(path):
    """The bytes of a local file, most likely from the page cache."""
    with open(path, "rb") as file:
        return file.read()


class Cold:
    """The bytes of a local file, and much more of the disk: storage that really is read.

    Every sample also reads `amplify` bytes at a random place of a large file, and tells the kernel
    to forget them, so that the worker waits for the disk each time.
    """

    def __init__(self, folder, amplify):
        self.shard = os.path.join(folder, "cold.shard")
        self.amplify = amplify
        size = 256 << 20
        if not os.path.exists(self.shard) or os.path.getsize(self.shard) < size:
            part = f"{self.shard}.{os.getpid()}"
            with open(part, "wb") as file:
                for _ in range(size >> 20):
                    file.write(os.urandom(1 << 20))
                os.fsync(file.fileno())
            os.rename(part, self.shard)

    def read(self, path):
        file = os.open(self.shard, os.O_RDONLY)
        try:
            size = os.fstat(file).st_size
            at = random.randrange(0, max(1, size - self.amplify)) & ~0xFFF
            os.posix_fadvise(file, at, self.amplify, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(file, at, self.amplify, os.POSIX_FADV_RANDOM)
            for offset in range(at, at + self.amplify, 1 << 17):
                os.pread(file, 1 << 17, offset)
            os.posix_fadvise(file, at, self.amplify, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
        return local(path)


class Samples:
    """A map-style data set: index in, (pixels, label) out; pixels are uint8, 3 × side × side."""

    def __init__(self, folder, decode="normal", read=local):
        self.paths = paths(folder)
        self.decode = decode
        self.read = read

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        data = self.read(self.paths[index % len(self.paths)])
        with Image.open(io.BytesIO(data)) as photo:
            if self.decode == "tiny":
                photo.draft("RGB", (64, 64))
                photo = photo.convert("RGB").resize((64, 64), Image.NEAREST)
            else:
                photo = photo.convert("RGB")
                if self.decode == "heavy":
                    photo = photo.rotate(random.uniform(-20, 20), Image.BICUBIC)
                    photo = photo.filter(ImageFilter.GaussianBlur(2))
                photo = photo.resize((SIDE, SIDE), Image.BILINEAR)
        return numpy.asarray(photo).transpose(2, 0, 1).copy(), index % 10

    def batch(self, indices):
        """Many samples as two arrays."""
        pixels, labels = zip(*(self[index] for index in indices))
        return numpy.stack(pixels), numpy.asarray(labels)
