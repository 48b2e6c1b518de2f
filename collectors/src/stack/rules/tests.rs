use super::*;
use proptest::prelude::*;

const LIB: &str = "/usr/lib/python3.11";
const PACKAGES: &str = "/usr/local/lib/python3.11/site-packages";
const TORCH: &str = "/usr/lib/python3/dist-packages/torch";

/// A stack written from the outermost frame to the innermost, one `path:function` each; `$` is the
/// standard library, `@` PyTorch and `&` the folder of other packages.
fn stack(text: &str) -> Vec<Frame> {
    let frames = text.split_whitespace().map(|frame| {
        let (file, function) = frame.rsplit_once(':').unwrap();
        Frame { file: file.replace('$', LIB).replace('@', TORCH).replace('&', PACKAGES), function: function.into() }
    });
    frames.collect()
}

fn decide(role: Role, state: State, text: &str) -> (Site, Option<String>, Option<String>) {
    let frames = stack(text);
    let verdict = Rules::load(None).unwrap().decide(role, state, &frames);
    let frame = verdict.frame.map(|index| frames[index].label());
    (verdict.site, frame, verdict.framework.map(|f| f.to_string()))
}

#[test]
fn trainers_are_where_their_frames_say() {
    use Site::{Host, Io, Loader, Startup};
    const NEXT: &str =
        "/job/train.py:<module> /job/train.py:main @/utils/data/dataloader.py:_BaseDataLoaderIter.__next__";
    let cases = [
        // PyTorch with workers, with a pin thread, and without workers.
        (format!("{NEXT} @/utils/data/dataloader.py:_next_data $/multiprocessing/queues.py:Queue.get $/selectors.py:select"), State::Poll, Loader),
        (format!("{NEXT} @/utils/data/dataloader.py:_next_data $/queue.py:Queue.get $/threading.py:Condition.wait"), State::Futex, Loader),
        (format!("{NEXT} @/utils/data/_utils/fetch.py:fetch /job/data.py:__getitem__ {LIB}/dist-packages/PIL/Image.py:convert"), State::Running, Loader),
        // A dataset that loads tensors is the loader's all the same.
        (format!("{NEXT} @/utils/data/_utils/fetch.py:fetch /job/data.py:__getitem__ @/serialization.py:load"), State::Read, Loader),
        // Workers that are started at the beginning of a pass, or within `next()`, where they also end.
        ("/job/train.py:<module> @/utils/data/dataloader.py:__iter__ $/multiprocessing/process.py:start $/multiprocessing/popen_fork.py:_launch".into(), State::Running, Startup),
        (format!("{NEXT} @/utils/data/dataloader.py:_next_data @/utils/data/dataloader.py:_shutdown_workers $/multiprocessing/process.py:BaseProcess.join $/multiprocessing/popen_fork.py:wait"), State::Poll, Startup),
        (format!("{NEXT} /job/data.py:respawn $/multiprocessing/process.py:BaseProcess.start"), State::Running, Startup),
        // Before Python 3.11 a function comes without its class.
        ("/job/train.py:<module> @/utils/data/dataloader.py:__next__".into(), State::Running, Loader),
        // Home-made loaders on queues, pools and futures.
        ("/job/train.py:<module> $/multiprocessing/queues.py:Queue.get $/multiprocessing/connection.py:_ConnectionBase.poll".into(), State::Poll, Loader),
        ("/job/train.py:<module> $/multiprocessing/pool.py:IMapIterator.next $/threading.py:Condition.wait".into(), State::Futex, Loader),
        ("/job/train.py:<module> $/concurrent/futures/_base.py:Future.result $/threading.py:Condition.wait".into(), State::Futex, Loader),
        ("/job/train.py:<module> /root/.pyenv/versions/3.12.1/lib/python3.12/queue.py:Queue.get".into(), State::Futex, Loader),
        // A file of the user's own that happens to be called so.
        ("/job/train.py:<module> /job/queue.py:get".into(), State::Futex, Host),
        // Compute, emulated or not.
        ("/job/train.py:<module> /job/train.py:step".into(), State::Sleep, Host),
        ("/job/train.py:<module> @/nn/modules/module.py:_call_impl @/nn/modules/linear.py:forward".into(), State::Running, Host),
        ("/job/train.py:<module> @/_tensor.py:backward @/autograd/__init__.py:backward".into(), State::Futex, Host),
        // Other files.
        ("/job/train.py:<module> $/json/__init__.py:dump".into(), State::Write, Io),
        ("/job/train.py:<module> /job/log.py:report $/logging/__init__.py:StreamHandler.emit".into(), State::Write, Io),
        // Reads have no frame of their own.
        ("/job/train.py:<module> /job/train.py:load".into(), State::Disk, Io),
        ("/job/train.py:<module> /job/train.py:load".into(), State::Running, Host),
        // Processes that are not the loader's.
        ("/job/train.py:<module> $/multiprocessing/process.py:BaseProcess.start".into(), State::Running, Host),
        ("/job/train.py:<module> $/multiprocessing/process.py:BaseProcess.join $/multiprocessing/popen_fork.py:wait $/multiprocessing/connection.py:wait".into(), State::Poll, Host),
        // A trainer that a launcher forked from within a loader of its own.
        ("/job/l.py:<module> @/utils/data/dataloader.py:__iter__ $/multiprocessing/process.py:BaseProcess._bootstrap $/multiprocessing/process.py:run /job/t.py:step".into(), State::Running, Host),
        (String::new(), State::Running, Host),
    ];
    for (text, state, site) in cases {
        assert_eq!(decide(Role::Trainer, state, &text).0, site, "{text}");
    }
}

/// What the main thread does outside of a loader, by its frames and its state.
const OUTSIDE: &[(&str, State, Site)] = {
    use Site::{Checkpoint, Collective, Copy, Device, Embedding, Gc, Host, Offload, Pipeline};
    use State::{Disk, Futex, Poll, Read, Running, Write};
    &[
        // Waiting for the device.
        ("@/cuda/__init__.py:synchronize", Running, Device),
        ("@/cuda/amp/grad_scaler.py:step @/cuda/amp/grad_scaler.py:<genexpr>", Running, Device),
        (
            "@/amp/grad_scaler.py:GradScaler.step @/amp/grad_scaler.py:GradScaler._maybe_opt_step @/optim/adam.py:Adam.step",
            Running,
            Host,
        ),
        ("@/_tensor.py:Tensor.__format__", Running, Device),
        ("&/jax/_src/array.py:ArrayImpl.block_until_ready", Futex, Device),
        ("&/jax/_src/array.py:ArrayImpl.__float__ &/jax/_src/array.py:ArrayImpl._value", Futex, Device),
        ("&/tensorflow/python/framework/ops.py:_EagerTensorBase.numpy", Futex, Device),
        // Collectives, and the stages of a pipeline.
        ("@/distributed/c10d_logger.py:wrapper @/distributed/distributed_c10d.py:all_reduce", Futex, Collective),
        (
            "@/distributed/distributed_c10d.py:all_gather_object @/distributed/distributed_c10d.py:_object_to_tensor",
            Running,
            Collective,
        ),
        ("@/nn/parallel/distributed.py:DistributedDataParallel._sync_buffers", Futex, Collective),
        (
            "&/horovod/torch/optimizer.py:_DistributedOptimizer.synchronize &/horovod/torch/mpi_ops.py:synchronize",
            Poll,
            Collective,
        ),
        (
            "&/deepspeed/comm/comm.py:log_wrapper &/deepspeed/comm/comm.py:all_reduce @/distributed/distributed_c10d.py:all_reduce",
            Futex,
            Collective,
        ),
        ("&/mpi4py/util/pkl5.py:Intracomm.bcast", Poll, Collective),
        ("&/jax/experimental/multihost_utils.py:sync_global_devices", Futex, Collective),
        ("@/distributed/c10d_logger.py:wrapper @/distributed/distributed_c10d.py:recv", Futex, Pipeline),
        (
            "&/megatron/core/pipeline_parallel/p2p_communication.py:P2PCommunicator.recv_forward @/distributed/distributed_c10d.py:batch_isend_irecv",
            Futex,
            Pipeline,
        ),
        (
            "&/deepspeed/runtime/pipe/p2p.py:recv &/deepspeed/comm/comm.py:recv @/distributed/distributed_c10d.py:recv",
            Futex,
            Pipeline,
        ),
        (
            "@/distributed/pipelining/schedules.py:Schedule1F1B._step_microbatches @/distributed/pipelining/schedules.py:_wait_batch_p2p",
            Futex,
            Pipeline,
        ),
        (
            "@/distributed/pipelining/schedules.py:Schedule1F1B._step_microbatches @/distributed/pipelining/stage.py:forward_one_chunk @/nn/modules/linear.py:forward",
            Running,
            Host,
        ),
        // Embeddings, with the exchange that they need.
        ("@/nn/modules/sparse.py:EmbeddingBag.forward @/nn/functional.py:embedding_bag", Running, Embedding),
        (
            "&/torchrec/distributed/dist_data.py:KJTAllToAll.forward @/distributed/distributed_c10d.py:all_to_all_single",
            Futex,
            Embedding,
        ),
        // Copies that a frame shows.
        (
            "&/accelerate/data_loader.py:DataLoaderShard.__iter__ &/accelerate/utils/operations.py:send_to_device",
            Running,
            Copy,
        ),
        (
            "&/lightning/fabric/utilities/apply_func.py:move_data_to_device &/lightning_utilities/core/apply_func.py:apply_to_collection",
            Running,
            Copy,
        ),
        ("&/jax/_src/api.py:device_put", Running, Copy),
        ("@/nn/modules/module.py:Module.to @/nn/modules/module.py:Module._apply", Running, Copy),
        // Checkpoints: also when they wait on a future of their own.
        ("@/serialization.py:save @/serialization.py:_save", Write, Checkpoint),
        ("@/serialization.py:load @/serialization.py:_load", Read, Checkpoint),
        (
            "@/distributed/checkpoint/state_dict_saver.py:save $/concurrent/futures/_base.py:Future.result",
            Futex,
            Checkpoint,
        ),
        ("&/safetensors/torch.py:save_file", Write, Checkpoint),
        (
            "&/orbax/checkpoint/_src/checkpointers/checkpointer.py:Checkpointer.save $/threading.py:Thread.join",
            Futex,
            Checkpoint,
        ),
        ("&/transformers/trainer.py:Trainer._save_checkpoint @/serialization.py:save", Write, Checkpoint),
        ("&/accelerate/accelerator.py:Accelerator.save_state", Running, Checkpoint),
        (
            "&/lightning/pytorch/plugins/io/torch_plugin.py:TorchCheckpointIO.save_checkpoint $/json/__init__.py:dump",
            Write,
            Checkpoint,
        ),
        (
            "&/deepspeed/runtime/engine.py:DeepSpeedEngine.save_checkpoint @/distributed/distributed_c10d.py:barrier",
            Futex,
            Checkpoint,
        ),
        ("&/tensorflow/python/checkpoint/checkpoint_management.py:CheckpointManager.save", Write, Checkpoint),
        // Optimizer state elsewhere.
        ("&/deepspeed/runtime/swap_tensor/partitioned_optimizer_swapper.py:swap_in_optimizer_state", Read, Offload),
        ("&/deepspeed/ops/adam/cpu_adam.py:DeepSpeedCPUAdam.step", Running, Offload),
        (
            "&/deepspeed/runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._optimizer_states_and_gradient_swap_in",
            Futex,
            Offload,
        ),
        (
            "&/bitsandbytes/optim/optimizer.py:Optimizer8bit.step &/bitsandbytes/optim/optimizer.py:Optimizer8bit.prefetch_state",
            Running,
            Offload,
        ),
        ("@/optim/optimizer.py:wrapper /job/opt.py:MappedAdam.step", Disk, Offload),
        ("@/optim/optimizer.py:wrapper /job/opt.py:MappedAdam.step &/numpy/lib/npyio.py:load", Read, Offload),
        ("@/optim/optimizer.py:wrapper @/optim/adam.py:step", Running, Host),
        // Collections that a library asks for.
        ("&/lightning/pytorch/utilities/memory.py:garbage_collection_cuda", Running, Gc),
        ("/job/train.py:step &/jax/_src/lib/__init__.py:_xla_gc_callback", Running, Gc),
    ]
};

#[test]
fn what_is_no_loader_is_told_apart() {
    for &(text, state, site) in OUTSIDE {
        let text = format!("/job/train.py:<module> {text}");
        assert_eq!(decide(Role::Trainer, state, &text).0, site, "{text}");
    }
}

#[test]
fn every_framework_s_loader_is_known_and_what_it_does_without_workers() {
    use Site::{Loader, Startup, WorkerCollate, WorkerDecode, WorkerFetch, WorkerIdle, WorkerPut};
    const NEXT: &str = "@/utils/data/dataloader.py:_BaseDataLoaderIter.__next__";
    let cases = [
        // PyTorch, without and with workers.
        (format!("{NEXT} @/utils/data/_utils/fetch.py:fetch /job/data.py:__getitem__"), Loader, Some(WorkerFetch)),
        (format!("{NEXT} @/utils/data/_utils/fetch.py:fetch /job/data.py:__getitem__ &/PIL/ImageFile.py:load"), Loader, Some(WorkerDecode)),
        (format!("{NEXT} @/utils/data/_utils/fetch.py:fetch @/utils/data/_utils/collate.py:default_collate"), Loader, Some(WorkerCollate)),
        (format!("{NEXT} @/utils/data/_utils/pin_memory.py:pin_memory"), Loader, Some(WorkerPut)),
        (format!("{NEXT} $/multiprocessing/queues.py:Queue.get $/multiprocessing/connection.py:poll $/selectors.py:select"), Loader, Some(WorkerIdle)),
        (format!("{NEXT} $/multiprocessing/queues.py:Queue.get @/multiprocessing/reductions.py:rebuild_storage_fd $/multiprocessing/reduction.py:detach"), Loader, Some(WorkerPut)),
        (format!("{NEXT} @/utils/data/dataloader.py:_process_data"), Loader, None),
        ("&/torchdata/stateful_dataloader/stateful_dataloader.py:_StatefulBaseDataLoaderIter.__next__".into(), Loader, None),
        ("&/torchdata/nodes/loader.py:LoaderIterator.__next__ &/torchdata/nodes/batch.py:Batcher.next".into(), Loader, Some(WorkerCollate)),
        // Loaders of their own.
        ("&/webdataset/pipeline.py:DataPipeline.__iter__ &/webdataset/pipeline.py:iterator &/webdataset/filters.py:_map &/webdataset/tariterators.py:tar_file_iterator".into(), Loader, Some(WorkerFetch)),
        ("&/webdataset/pipeline.py:DataPipeline.__iter__ &/webdataset/filters.py:_decode &/webdataset/autodecode.py:Decoder.__call__".into(), Loader, Some(WorkerDecode)),
        ("&/datasets/iterable_dataset.py:IterableDataset.__iter__ &/datasets/iterable_dataset.py:ArrowExamplesIterable.__iter__".into(), Loader, Some(WorkerFetch)),
        ("&/datasets/arrow_dataset.py:Dataset.__getitem__ &/datasets/formatting/formatting.py:format_table &/datasets/features/image.py:Image.decode_example".into(), Loader, Some(WorkerDecode)),
        ("&/streaming/base/dataset.py:StreamingDataset.__iter__ $/threading.py:Event.wait".into(), Loader, Some(WorkerFetch)),
        (format!("&/streaming/base/dataloader.py:StreamingDataLoader.__iter__ {NEXT}"), Loader, None),
        (format!("&/litdata/streaming/dataloader.py:StreamingDataLoader.__iter__ {NEXT} &/litdata/streaming/reader.py:BinaryReader.read"), Loader, Some(WorkerFetch)),
        ("&/litdata/streaming/dataloader.py:StreamingDataLoader.__iter__ @/utils/data/dataloader.py:DataLoader.__iter__".into(), Startup, None),
        ("&/tensorflow/python/data/ops/iterator_ops.py:OwnedIterator.__next__ &/tensorflow/python/data/ops/iterator_ops.py:OwnedIterator._next_internal".into(), Loader, None),
        ("&/tensorflow/python/data/ops/dataset_ops.py:DatasetV2.__iter__ &/tensorflow/python/data/ops/iterator_ops.py:OwnedIterator._create_iterator".into(), Startup, None),
        ("&/grain/_src/python/data_loader.py:DataLoaderIterator.__next__ &/grain/_src/python/dataset/transformations/map.py:MapDatasetIterator.__next__".into(), Loader, Some(WorkerDecode)),
        ("&/grain/_src/python/data_loader.py:DataLoaderIterator.__next__ &/grain/_src/python/dataset/transformations/process_prefetch.py:ProcessPrefetchDatasetIterator.start_prefetch $/multiprocessing/process.py:BaseProcess.start".into(), Startup, None),
        ("&/spdl/pipeline/_pipeline.py:PipelineIterator.__next__ &/spdl/pipeline/_pipeline.py:Pipeline.get_item $/concurrent/futures/_base.py:Future.result".into(), Loader, None),
        ("&/nvidia/dali/plugin/pytorch/__init__.py:DALIGenericIterator.__next__ &/nvidia/dali/pipeline.py:Pipeline.share_outputs".into(), Loader, None),
        ("&/ray/data/_internal/block_batching/iter_batches.py:BatchIterator._iter_batches $/queue.py:Queue.get".into(), Loader, Some(WorkerIdle)),
        // A queue that feeds the trainer.
        ("$/queue.py:Queue.get $/threading.py:Condition.wait".into(), Loader, Some(WorkerIdle)),
    ];
    for (text, site, task) in cases {
        let text = format!("/job/train.py:<module> {text}");
        let verdict = Rules::load(None).unwrap().decide(Role::Trainer, State::Running, &stack(&text));
        assert_eq!((verdict.site, verdict.task), (site, task), "{text}");
    }
}

/// Stacks captured from the real jobs of `tests/frameworks`, with what each job was doing.
#[test]
fn captured_stacks_of_real_jobs_are_where_the_job_was() {
    let mut rules = Rules::load(None).unwrap();
    let mut seen = 0;
    for line in include_str!("testdata/stacks").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (expected, text) = line.split_once(" | ").unwrap();
        let role = if expected.starts_with("trainer ") { Role::Trainer } else { Role::Worker };
        let verdict = rules.decide(role, State::Running, &stack(text));
        let task = verdict.task.and_then(Site::task).map(|task| format!(" {task}")).unwrap_or_default();
        let found = format!("{} {}{task}", role.name(), verdict.site.name());
        assert_eq!(found, expected, "{text}");
        seen += 1;
    }
    assert!(seen > 70, "only {seen} stacks");
}

#[test]
fn only_a_trainer_in_the_loader_has_a_task() {
    let mut rules = Rules::load(None).unwrap();
    let mut task = |role, text: &str| rules.decide(role, State::Running, &stack(text)).task;
    assert_eq!(task(Role::Trainer, "/job/t.py:<module> &/PIL/Image.py:open"), None);
    assert_eq!(task(Role::Trainer, "/job/t.py:<module> @/serialization.py:load &/PIL/Image.py:open"), None);
    assert_eq!(task(Role::Worker, "/job/w.py:<module> @/utils/data/_utils/fetch.py:fetch"), None);
    for site in Site::ALL {
        assert_eq!(site.is_task(), site.task().is_some(), "{site:?}");
    }
}

#[test]
fn workers_are_where_their_innermost_known_frame_says() {
    use Site::{Host, WorkerCollate, WorkerDecode, WorkerFetch, WorkerIdle, WorkerPut};
    // A forked worker carries the frames of the trainer that forked it, its loader's too.
    const FORKED: &str = "/job/train.py:<module> @/utils/data/dataloader.py:__iter__ $/multiprocessing/process.py:start \
        $/multiprocessing/popen_fork.py:_launch $/multiprocessing/process.py:BaseProcess._bootstrap \
        $/multiprocessing/process.py:BaseProcess.run @/utils/data/_utils/worker.py:_worker_loop";
    let cases = [
        (format!("{FORKED} $/multiprocessing/queues.py:Queue.get $/multiprocessing/connection.py:poll $/selectors.py:select"), WorkerIdle),
        (format!("{FORKED} @/utils/data/_utils/fetch.py:fetch /job/data.py:__getitem__"), WorkerFetch),
        (format!("{FORKED} @/utils/data/_utils/fetch.py:fetch /job/data.py:__getitem__ /x/PIL/ImageFile.py:load"), WorkerDecode),
        (format!("{FORKED} @/utils/data/_utils/fetch.py:fetch /x/site-packages/torchvision/io/image.py:decode_jpeg"), WorkerDecode),
        (format!("{FORKED} @/utils/data/_utils/fetch.py:fetch @/utils/data/_utils/collate.py:default_collate"), WorkerCollate),
        (format!("{FORKED} $/multiprocessing/queues.py:Queue.put $/threading.py:Condition.notify"), WorkerPut),
        (FORKED.to_owned(), WorkerFetch),
        ("/job/w.py:<module> $/multiprocessing/process.py:_bootstrap $/multiprocessing/process.py:run $/multiprocessing/pool.py:worker $/multiprocessing/queues.py:SimpleQueue.get".into(), WorkerIdle),
        ("/job/w.py:<module> $/multiprocessing/process.py:_bootstrap $/multiprocessing/process.py:run /job/w.py:produce".into(), WorkerFetch),
        ("/job/w.py:<module> /job/w.py:produce".into(), Host),
    ];
    for (text, site) in cases {
        assert_eq!(decide(Role::Worker, State::Running, &text).0, site, "{text}");
    }
}

#[test]
fn the_deciding_frame_and_its_framework_are_named() {
    let text = "/job/train.py:<module> @/utils/data/dataloader.py:_BaseDataLoaderIter.__next__ $/queue.py:Queue.get";
    let expected = (Site::Loader, Some("dataloader.py:__next__".to_owned()), Some("pytorch".to_owned()));
    assert_eq!(decide(Role::Trainer, State::Futex, text), expected);
    assert_eq!(decide(Role::Trainer, State::Running, "/job/train.py:<module>"), (Site::Host, None, None));
}

#[test]
fn a_rule_of_the_user_goes_before_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let text = "framework = \"ours\"\n[[rule]]\nsite = \"loader\"\nrole = \"trainer\"\nscope = \"claim\"\n\
        file = [\"ours/feed.py\"]\nfunction = [\"Feed.take\"]\n";
    fs::write(folder.path().join("ours.toml"), text).unwrap();
    let mut rules = Rules::load(Some(folder.path())).unwrap();
    let mut site = |text: &str| rules.decide(Role::Trainer, State::Write, &stack(text)).site;
    assert_eq!(site("/job/t.py:<module> /x/ours/feed.py:Feed.take @/serialization.py:save"), Site::Loader);
    assert_eq!(site("/job/t.py:<module> /x/ours/feed.py:take @/serialization.py:save"), Site::Loader);
    assert_eq!(site("/job/t.py:<module> /x/ours/feed.py:Other.take @/serialization.py:save"), Site::Checkpoint);
}

#[test]
fn a_file_that_is_no_rule_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.toml");
    fs::write(&path, "framework = \"x\"\n[[rule]]\nsite = \"lodaer\"\nfile = [\"a.py\"]\n").unwrap();
    let error = Rules::load(Some(folder.path())).unwrap_err();
    assert!(error.message.starts_with(&format!("{}:3: unknown variant `lodaer`", path.display())), "{error}");
    fs::write(&path, "framework = \"x\"\n[[fallback]]\nsite = \"io\"\nstate = [\"asleep\"]\n").unwrap();
    let error = Rules::load(Some(folder.path())).unwrap_err();
    assert!(error.message.ends_with("expected a thread state, found `asleep`"), "{error}");
    fs::write(&path, "framework = \"x\"\n[[rule]]\nsite = \"io\"\nstate = [\"asleep\"]\nfile = [\"a.py\"]\n").unwrap();
    let error = Rules::load(Some(folder.path())).unwrap_err();
    assert!(error.message.ends_with("expected a thread state, found `asleep`"), "{error}");
    assert!(Rules::load(Some(&folder.path().join("none"))).unwrap_err().hint.is_some());
}

#[test]
fn patterns_match_whole_components() {
    let cases = [
        ("queue.py", "/a/queue.py", true),
        ("queue.py", "/a/myqueue.py", false),
        ("b/queue.py", "/a/b/queue.py", true),
        ("PIL/", "/x/PIL/Image.py", true),
        ("PIL/", "/x/PIL", false),
        ("a/b/", "/a/b/c/d.py", true),
        ("a/b/", "/a/c/b/d.py", false),
        ("python3.*/queue.py", "/usr/lib/python3.13t/queue.py", true),
        ("python3.*/queue.py", "/usr/lib/python2.7/queue.py", false),
        ("", "/a.py", false),
        ("/", "/a.py", false),
    ];
    for (pattern, path, expected) in cases {
        assert_eq!(Pattern::new(pattern).fits(path), expected, "{pattern} on {path}");
    }
}

proptest! {
    #[test]
    fn any_rules_and_any_frames_have_an_answer(
        text in ".{0,200}",
        pattern in ".{0,20}",
        frames in prop::collection::vec((".{0,30}", ".{0,30}"), 0..8),
    ) {
        let mut rules = Rules::load(None).unwrap();
        let _ = rules.add("x.toml", &text);
        let frames: Vec<Frame> = frames.into_iter().map(|(function, file)| Frame { function, file }).collect();
        rules.decide(Role::Trainer, State::Running, &frames);
        rules.decide(Role::Worker, State::Running, &frames);
        for frame in &frames {
            Pattern::new(&pattern).fits(&frame.file);
            let _ = frame.label();
        }
    }
}
