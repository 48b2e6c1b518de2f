"""What is hooked: for each module, functions and methods, and the region their time goes to.

A module that is never imported costs nothing, and a name that a release does not have is left out.
A path of `""` is for the module itself. `data` is the loader's `next()`, `startup` its creation and
that of its workers, `device` a wait for the device that Python can see.
"""

from typing import Any, Callable, Dict, List, Tuple

from ._hooks import after_init, batches, follow_compiler, hook_collate, hook_step, timed, within

_checkpoint, _collective, _copy = timed("checkpoint"), timed("collective"), timed("copy")
_device, _pipeline, _startup = timed("device"), timed("pipeline"), timed("startup")

_COLLECTIVES = (
    "all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_reduce all_reduce_coalesced "
    "all_to_all all_to_all_single barrier broadcast broadcast_object_list gather gather_object monitored_barrier "
    "reduce reduce_scatter reduce_scatter_tensor scatter scatter_object_list"
).split()
_PEERS = "send recv isend irecv batch_isend_irecv send_object_list recv_object_list".split()

TARGETS: Dict[str, List[Tuple[str, Callable[[Any], Any]]]] = {
    # Loaders.
    "torch.utils.data.dataloader": [
        ("_BaseDataLoaderIter.__next__", batches),
        ("DataLoader.__iter__", _startup),
        ("_MultiProcessingDataLoaderIter._shutdown_workers", _startup),
    ],
    "torch.utils.data._utils.fetch": [
        ("_BaseDatasetFetcher.__init__", after_init(hook_collate)),
        ("_MapDatasetFetcher.fetch", within("worker.fetch")),
        ("_IterableDatasetFetcher.fetch", within("worker.fetch")),
    ],
    "torchdata.stateful_dataloader.stateful_dataloader": [
        ("_StatefulBaseDataLoaderIter.__next__", batches),
        ("StatefulDataLoader.__iter__", _startup),
        ("_StatefulMultiProcessingDataLoaderIter._shutdown_workers", _startup),
    ],
    "tensorflow.python.data.ops.iterator_ops": [("OwnedIterator.__next__", batches)],
    "tensorflow.python.data.ops.dataset_ops": [("DatasetV2.__iter__", _startup)],
    "grain._src.python.data_loader": [
        ("DataLoaderIterator.__next__", batches),
        ("DataLoader.__iter__", _startup),
    ],
    "nvidia.dali.plugin.pytorch": [("DALIGenericIterator.__next__", batches)],
    "nvidia.dali.plugin.jax.iterator": [("DALIGenericIterator.__next__", batches)],
    "ffcv.loader.epoch_iterator": [("EpochIterator.__next__", batches)],
    "spdl.pipeline._pipeline": [("PipelineIterator.__next__", batches)],
    # The step.
    "torch.optim.optimizer": [("Optimizer.__init__", after_init(hook_step))],
    "torch.compiler": [("", follow_compiler)],
    "torch.cuda": [("synchronize", _device)],
    "torch.cuda.streams": [("Stream.synchronize", _device), ("Event.synchronize", _device)],
    "jax._src.api": [("block_until_ready", _device), ("device_put", _copy)],
    "accelerate.utils.operations": [("send_to_device", _copy)],
    "lightning.fabric.utilities.apply_func": [("move_data_to_device", _copy)],
    "lightning_fabric.utilities.apply_func": [("move_data_to_device", _copy)],
    "torch.distributed.distributed_c10d": [
        *((name, _collective) for name in _COLLECTIVES),
        *((name, _pipeline) for name in _PEERS),
        ("Work.wait", _collective),
    ],
    # Checkpoints.
    "torch.serialization": [("save", _checkpoint), ("load", _checkpoint)],
    "torch.distributed.checkpoint.state_dict_saver": [("save", _checkpoint), ("async_save", _checkpoint)],
    "torch.distributed.checkpoint.state_dict_loader": [("load", _checkpoint)],
    "safetensors.torch": [("save_file", _checkpoint), ("load_file", _checkpoint)],
    "orbax.checkpoint._src.checkpointers.checkpointer": [
        ("Checkpointer.save", _checkpoint),
        ("Checkpointer.restore", _checkpoint),
    ],
    "orbax.checkpoint._src.checkpointers.async_checkpointer": [
        ("AsyncCheckpointer.save", _checkpoint),
        ("AsyncCheckpointer.restore", _checkpoint),
    ],
}
