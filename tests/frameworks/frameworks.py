"""One loader a framework, over the same photographs: each function takes the folder that
`prepare.py` filled and a number of workers, and gives a function that begins a pass and returns an
iterable of batches. Everything heavy is imported inside, as each framework has an environment of
its own. All decode JPEG with Pillow and resize, so that there is real work to wait for, but for
those that bring a decoder.
"""

import glob
import io
import os

BATCH = 16
SIDE = 224


def decode(data):
    """A photograph as an array of SIDE x SIDE x 3."""
    import numpy
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB").resize((SIDE, SIDE), Image.BILINEAR)
    return numpy.asarray(image)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def photos(data):
    return sorted(glob.glob(os.path.join(data, "photos", "*.jpg")))


class Photos:
    """A map-style data set, for whoever indexes one."""

    def __init__(self, data):
        self.paths = photos(data)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return decode(read(self.paths[index]))


def numpy_collate(samples):
    import numpy

    return numpy.stack(samples)


def pytorch(data, workers, **more):
    from torch.utils.data import DataLoader

    loader = DataLoader(Photos(data), batch_size=BATCH, shuffle=True, num_workers=workers, **more)
    return lambda: loader


def pytorch_persistent(data, workers):
    return pytorch(data, workers, persistent_workers=True)


def pytorch_pinned(data, workers):
    """With PyTorch's own pin thread: without an accelerator it believes in one, and copies."""
    import torch

    if not torch.accelerator.is_available():
        torch.accelerator.is_available = lambda: True
        torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
        torch.accelerator.current_device_index = lambda: 0
        torch.accelerator.set_device_index = lambda device: None
        torch.Tensor.pin_memory = lambda tensor, device=None: tensor.clone()
    return pytorch(data, workers, pin_memory=True)


def torchdata_stateful(data, workers):
    from torchdata.stateful_dataloader import StatefulDataLoader

    loader = StatefulDataLoader(Photos(data), batch_size=BATCH, shuffle=True, num_workers=workers)
    return lambda: loader


def torchdata_nodes(data, workers):
    from torch.utils.data import RandomSampler
    from torchdata import nodes

    photos = Photos(data)
    node = nodes.SamplerWrapper(RandomSampler(photos))
    method = {"num_workers": max(workers, 1), "method": "thread"} if workers else {"num_workers": 0}
    node = nodes.ParallelMapper(node, photos.__getitem__, **method)
    node = nodes.Batcher(node, BATCH)
    node = nodes.Mapper(node, numpy_collate)
    loader = nodes.Loader(nodes.Prefetcher(node, 2) if workers else node)
    return lambda: loader


def webdataset(data, workers):
    import webdataset as wds

    shards = sorted(glob.glob(os.path.join(data, "shards", "*.tar")))
    # Everything from Pillow up is the framework's: it decodes, and puts batches together.
    dataset = wds.WebDataset(shards, shardshuffle=len(shards), nodesplitter=wds.split_by_node, empty_check=False)
    dataset = dataset.to_tuple("jpg").map_tuple(decode).batched(BATCH)
    if not workers:
        return lambda: dataset
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=workers)
    return lambda: loader


def hf_map(data, workers):
    import datasets
    import numpy

    dataset = datasets.load_from_disk(os.path.join(data, "hf"))

    def transform(batch):
        return {"image": [numpy.asarray(image.convert("RGB").resize((SIDE, SIDE))) for image in batch["image"]]}

    dataset = dataset.with_transform(transform)
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=workers)
    return lambda: loader


def hf_iterable(data, workers):
    import datasets
    import numpy

    dataset = datasets.load_from_disk(os.path.join(data, "hf")).to_iterable_dataset(num_shards=8)
    dataset = dataset.map(lambda row: {"pixels": numpy.asarray(row["image"].convert("RGB").resize((SIDE, SIDE)))})
    dataset = dataset.remove_columns("image")
    if not workers:
        return lambda: dataset.batch(BATCH)
    from torch.utils.data import DataLoader

    loader = DataLoader(dataset.with_format("torch"), batch_size=BATCH, num_workers=workers)
    return lambda: loader


def streaming(data, workers):
    import numpy
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    class Resized(StreamingDataset):
        def __getitem__(self, index):
            return numpy.asarray(super().__getitem__(index)["image"].convert("RGB").resize((SIDE, SIDE)))

    dataset = Resized(local=os.path.join(data, "mds"), shuffle=True, batch_size=BATCH)
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=workers)
    return lambda: loader


def litdata(data, workers):
    from litdata import StreamingDataLoader, StreamingDataset

    class Resized(StreamingDataset):
        def __getitem__(self, index):
            return decode(super().__getitem__(index)["image"])

    dataset = Resized(os.path.join(data, "litdata"), shuffle=True)
    loader = StreamingDataLoader(dataset, batch_size=BATCH, num_workers=workers)
    return lambda: loader


def tf_data(data, workers):
    import tensorflow as tf

    def load(path):
        return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), (SIDE, SIDE))

    # So few files would end a pass several times a second, each time with the making and the joining of its threads.
    paths = tf.data.Dataset.from_tensor_slices(photos(data)).shuffle(1024).repeat(100)
    dataset = paths.map(load, num_parallel_calls=workers or None).batch(BATCH)
    if workers:
        dataset = dataset.prefetch(2)
    return lambda: dataset


def grain(data, workers):
    import grain.python as grain
    from absl import flags

    # Grain reads absl's flags in its workers; a program with `app.run` has parsed them.
    flags.FLAGS(["job"])

    class Decode(grain.MapTransform):
        def map(self, path):
            return decode(read(path))

    paths = photos(data)
    seed = iter(range(1 << 30))

    def one_pass():
        sampler = grain.IndexSampler(len(paths), grain.NoSharding(), shuffle=True, num_epochs=1, seed=next(seed))
        operations = [Decode(), grain.Batch(BATCH)]
        return grain.DataLoader(data_source=paths, sampler=sampler, operations=operations, worker_count=workers)

    return one_pass


def grain_dataset(data, workers):
    """Grain's other interface, whose threads read ahead in the trainer, with JAX as the consumer."""
    import grain.python as grain
    import jax

    dataset = grain.MapDataset.source(photos(data)).shuffle(seed=1).map(lambda path: decode(read(path)))
    options = grain.ReadOptions(num_threads=workers, prefetch_buffer_size=2 * BATCH if workers else 0)
    dataset = dataset.to_iter_dataset(options).batch(BATCH)
    return lambda: map(jax.device_put, dataset)


def spdl(data, workers):
    from spdl.pipeline import PipelineBuilder

    class Passes:
        def __iter__(self):
            builder = PipelineBuilder().add_source(photos(data))
            builder = builder.pipe(lambda path: decode(read(path)), concurrency=workers)
            pipeline = builder.aggregate(BATCH).pipe(numpy_collate).add_sink(4).build(num_threads=workers)
            with pipeline.auto_stop():
                yield from pipeline

    return Passes


def spdl_io(data, workers):
    """SPDL with its own decoder."""
    import spdl.io
    from spdl.dataloader import DataLoader

    def load(path):
        return spdl.io.decode_packets(spdl.io.demux_image(path), filter_desc=f"scale={SIDE}:{SIDE},format=rgb24")

    def transfer(frames):
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    loader = DataLoader(
        photos(data), preprocessor=load, batch_size=BATCH, aggregator=transfer, num_threads=workers, buffer_size=4
    )
    return lambda: loader


def dali(data, workers):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=max(workers, 1), device_id=types.CPU_ONLY_DEVICE_ID)
    def pipe():
        jpegs, _ = fn.readers.file(file_root=data, files=photos(data), random_shuffle=True, name="reader")
        return fn.resize(fn.decoders.image(jpegs), size=(SIDE, SIDE))

    pipeline = pipe()
    pipeline.build()

    class Endless:
        def __iter__(self):
            return self

        def __next__(self):
            return pipeline.run()

    endless = Endless()
    return lambda: endless
