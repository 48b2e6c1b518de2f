use super::*;
use proptest::prelude::*;

const LIB: &str = "/usr/lib/python3.11";
const TORCH: &str = "/usr/lib/python3/dist-packages/torch";

/// A stack written from the outermost frame to the innermost, one `path:function` each; `$` is the
/// standard library and `@` PyTorch.
fn stack(text: &str) -> Vec<Frame> {
    let frames = text.split_whitespace().map(|frame| {
        let (file, function) = frame.rsplit_once(':').unwrap();
        Frame { file: file.replace('$', LIB).replace('@', TORCH), function: function.into() }
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
    use Site::{Device, Host, Io, Loader};
    const NEXT: &str =
        "/job/train.py:<module> /job/train.py:main @/utils/data/dataloader.py:_BaseDataLoaderIter.__next__";
    let cases = [
        // PyTorch with workers, with a pin thread, and without workers.
        (format!("{NEXT} @/utils/data/dataloader.py:_next_data $/multiprocessing/queues.py:Queue.get $/selectors.py:select"), State::Poll, Loader),
        (format!("{NEXT} @/utils/data/dataloader.py:_next_data $/queue.py:Queue.get $/threading.py:Condition.wait"), State::Futex, Loader),
        (format!("{NEXT} @/utils/data/_utils/fetch.py:fetch /job/data.py:__getitem__ {LIB}/dist-packages/PIL/Image.py:convert"), State::Running, Loader),
        ("/job/train.py:<module> @/utils/data/dataloader.py:__iter__ $/multiprocessing/process.py:start $/multiprocessing/popen_fork.py:_launch".into(), State::Running, Loader),
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
        // Waiting for the device and for other ranks.
        ("/job/train.py:<module> @/cuda/__init__.py:synchronize".into(), State::Running, Device),
        ("/job/train.py:<module> @/cuda/amp/grad_scaler.py:step @/cuda/amp/grad_scaler.py:<genexpr>".into(), State::Running, Device),
        ("/job/train.py:<module> @/distributed/c10d_logger.py:wrapper @/distributed/distributed_c10d.py:all_reduce".into(), State::Futex, Device),
        // Checkpoints: also when they wait on a future of their own.
        ("/job/train.py:<module> @/serialization.py:save @/serialization.py:_save".into(), State::Write, Io),
        ("/job/train.py:<module> @/distributed/checkpoint/state_dict_saver.py:save $/concurrent/futures/_base.py:Future.result".into(), State::Futex, Io),
        // Other files.
        ("/job/train.py:<module> $/json/__init__.py:dump".into(), State::Write, Io),
        ("/job/train.py:<module> /job/log.py:report $/logging/__init__.py:StreamHandler.emit".into(), State::Write, Io),
        // Reads have no frame of their own.
        ("/job/train.py:<module> /job/train.py:load".into(), State::Disk, Io),
        ("/job/train.py:<module> /job/train.py:load".into(), State::Running, Host),
        // Waiting for a process to end.
        ("/job/train.py:<module> $/multiprocessing/process.py:BaseProcess.join $/multiprocessing/popen_fork.py:wait $/multiprocessing/connection.py:wait".into(), State::Poll, Host),
        // A trainer that a launcher forked from within a loader of its own.
        ("/job/l.py:<module> @/utils/data/dataloader.py:__iter__ $/multiprocessing/process.py:BaseProcess._bootstrap $/multiprocessing/process.py:run /job/t.py:step".into(), State::Running, Host),
        (String::new(), State::Running, Host),
        // TensorFlow, JAX and loaders of their own.
        ("/job/t.py:<module> /x/site-packages/tensorflow/python/data/ops/iterator_ops.py:OwnedIterator.__next__".into(), State::Futex, Loader),
        ("/job/t.py:<module> /x/site-packages/grain/_src/python/data_loader.py:DataLoaderIterator.__next__".into(), State::Futex, Loader),
        ("/job/t.py:<module> /x/site-packages/jax/_src/array.py:ArrayImpl.block_until_ready".into(), State::Futex, Device),
        ("/job/t.py:<module> /x/site-packages/nvidia/dali/plugin/pytorch/__init__.py:DALIGenericIterator.__next__".into(), State::Futex, Loader),
    ];
    for (text, state, site) in cases {
        assert_eq!(decide(Role::Trainer, state, &text).0, site, "{text}");
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
    assert_eq!(site("/job/t.py:<module> /x/ours/feed.py:Other.take @/serialization.py:save"), Site::Io);
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
