"""Makes the data of one framework's job, once: prepare.py KIND FOLDER.

`photos` are JPEG files of noise over gradients, so that decoding them costs what photographs cost;
the other kinds hold the same photographs in a framework's own format.
"""

import glob
import os
import sys

COUNT = 480
WIDTH, HEIGHT = 480, 360


def photos(folder):
    import numpy
    from PIL import Image

    os.makedirs(folder)
    chance = numpy.random.default_rng(7)
    across, down = numpy.linspace(0, 1, WIDTH), numpy.linspace(0, 1, HEIGHT)[:, None]
    for index in range(COUNT):
        base = numpy.stack([across * down, across * (1 - down), (1 - across) * down], axis=-1) * chance.uniform(80, 220, 3)
        pixels = base + chance.normal(0, 18, (HEIGHT, WIDTH, 3))
        Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(os.path.join(folder, f"{index:04}.jpg"), quality=88)


def shards(folder):
    import tarfile

    os.makedirs(folder)
    paths = originals(folder)
    for shard in range(8):
        with tarfile.open(os.path.join(folder, f"{shard:02}.tar"), "w") as tar:
            for path in paths[shard::8]:
                tar.add(path, arcname=os.path.basename(path))


def hf(folder):
    import datasets

    dataset = datasets.Dataset.from_dict({"image": originals(folder)}).cast_column("image", datasets.Image())
    # The bytes go into the Arrow files, as on a hub.
    rows = [{"image": {"bytes": open(path, "rb").read(), "path": None}} for path in originals(folder)]
    datasets.Dataset.from_list(rows, features=dataset.features).save_to_disk(folder)


def mds(folder):
    from PIL import Image
    from streaming import MDSWriter

    with MDSWriter(out=folder, columns={"image": "jpeg"}, size_limit=1 << 21) as writer:
        for path in originals(folder):
            writer.write({"image": Image.open(path)})


def row(path):
    with open(path, "rb") as file:
        return {"image": file.read()}


def litdata(folder):
    from litdata import optimize

    optimize(fn=row, inputs=originals(folder), output_dir=folder, num_workers=1, chunk_bytes="2MB")


def originals(folder):
    return sorted(glob.glob(os.path.join(os.path.dirname(folder), "photos", "*.jpg")))


if __name__ == "__main__":
    kind, root = sys.argv[1:]
    made = os.path.join(root, kind)
    if not os.path.exists(os.path.join(root, f".{kind}")):
        if os.path.exists(made):
            sys.exit(f"error: {made} is half made\nhint: remove it")
        globals()[kind](made)
        open(os.path.join(root, f".{kind}"), "w").close()
