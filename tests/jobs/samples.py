"""Samples: a photograph read from somewhere and decoded, as loader workers do."""

import glob
import io
import os
import random
import time

import numpy
from PIL import Image, ImageFilter

import dial as dials
import sources
import stamps

DECODES = ("tiny", "normal", "heavy")
SIDE = 224


def paths(folder):
    """The photographs of a folder, in order."""
    found = sorted(glob.glob(os.path.join(folder, "*.jpg")))
    if not found:
        raise SystemExit(f"{folder}: expected JPEG files, found none")
    return found


class Samples:
    """A map-style data set: index in, (pixels, label) out; pixels are uint8, 3 × side × side.

    `slow`: every so many samples of one worker one takes `slow_seconds` more, all of it decoding
    on a CPU; with a `dial` so is each with the chance that it says. `copies`: how often the pixels are
    repeated, for large batches.
    """

    def __init__(self, folder, decode="normal", source=None, slow=0, slow_seconds=0.0, copies=1, dial=None):
        self.paths = paths(folder)
        self.decode = decode
        self.source = source or sources.Local()
        self.slow, self.slow_seconds, self.copies = slow, slow_seconds, copies
        self.dial = dials.maybe(dial)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        data = sources.read(self.source, self.paths[index % len(self.paths)])
        with stamps.phase("decode"):
            pixels = self.pixels(data)
            chance = self.dial.get("slow")
            if (self.slow and random.randrange(self.slow) == 0) or (chance and random.random() < chance):
                self.pixels_of_a_giant(data)
        return pixels, index % 10

    def pixels(self, data):
        """A photograph as an array."""
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
        pixels = numpy.asarray(photo).transpose(2, 0, 1)
        return numpy.tile(pixels, (1, self.copies, 1)) if self.copies > 1 else pixels.copy()

    def pixels_of_a_giant(self, data):
        """Decodes again and again, as one giant photograph would take."""
        end = time.monotonic() + self.slow_seconds
        while time.monotonic() < end:
            self.pixels(data)

    def batch(self, indices):
        """Many samples as two arrays, and the stamps of their making."""
        stamps.begin()
        pixels, labels = zip(*(self[index] for index in indices))
        with stamps.phase("decode"):
            made = numpy.stack(pixels), numpy.asarray(labels)
        return (*made, stamps.take())
