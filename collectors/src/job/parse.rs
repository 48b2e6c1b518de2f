//! Command lines, environments, memory maps and thread names as values. Pure, and forgetful on
//! purpose: arguments, environments and paths can hold secrets, so only what is named here stays.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::Ranks;

/// Programs that start ranks and train nothing themselves.
const LAUNCHERS: &[&str] = &[
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "accelerate-launch",
    "accelerate.commands.launch",
    "deepspeed",
    "deepspeed.launcher.launch",
    "deepspeed.launcher.runner",
    "composer",
    "colossalai",
    "horovodrun",
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "hydra_pmi_proxy",
    "orterun",
    "prterun",
    "prte",
    "orted",
    "srun",
    "slurmstepd",
];

/// Programs that run another one and wait for it.
const SHELLS: &[&str] = &[
    "bash",
    "sh",
    "dash",
    "zsh",
    "fish",
    "ksh",
    "busybox",
    "make",
    "env",
    "sudo",
    "su",
    "doas",
    "runuser",
    "setpriv",
    "nohup",
    "timeout",
    "time",
    "nice",
    "ionice",
    "chrt",
    "numactl",
    "taskset",
    "stdbuf",
    "setsid",
    "unshare",
    "chroot",
    "tini",
    "dumb-init",
    "docker-init",
    "catatonit",
    "init",
    "systemd",
    "containerd-shim-runc-v2",
    "conmon",
    "uv",
    "uvx",
    "poetry",
    "pipenv",
    "conda",
    "mamba",
    "pixi",
    "script",
    "tmux",
    "screen",
    "ssh",
    "sshd",
    "systemd-run",
    "xvfb-run",
    "strace",
    "perf",
    "nsys",
    "ncu",
    "cargo",
    "run-parts",
    "cron",
    "crond",
];

/// How a Python process came to be, as far as its command line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// A program of its own, or a fork of one.
    #[default]
    Program,
    /// Started by `multiprocessing` with the spawn method.
    Spawned,
    /// The `multiprocessing` fork server, or a process that it forked.
    Forkserver,
    /// The `multiprocessing` resource tracker.
    Tracker,
}

/// What remains of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// File name of the script or program, or the name of the Python module.
    pub name: String,
    /// Interpreter and script, such as `python3 train.py`; never other arguments.
    pub shown: String,
    /// Whether the program is a Python interpreter by name.
    pub python: bool,
    /// How it was started.
    pub kind: Kind,
    /// Equal for equal command lines: a forked child has its parent's.
    pub digest: u64,
}

impl Command {
    /// Whether it starts ranks and trains nothing itself.
    #[must_use]
    pub fn is_launcher(&self) -> bool {
        LAUNCHERS.contains(&self.name.as_str())
    }

    /// Whether it only runs other programs.
    #[must_use]
    pub fn is_wrapper(&self) -> bool {
        self.is_launcher() || SHELLS.contains(&self.name.as_str())
    }
}

/// Reads `/proc/PID/cmdline`. A kernel thread has none, and gets an empty name.
#[must_use]
pub fn command(bytes: &[u8]) -> Command {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    let words: Vec<String> = bytes.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
    let program = file_name(words.first().map_or("", String::as_str));
    let python = is_python(&program);
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let mut out =
        Command { python, digest: hasher.finish(), shown: program.clone(), name: program, ..Command::default() };
    if !python {
        return out;
    }
    match entry(&words[1..]) {
        Entry::Script(path) => out.name = file_name(path),
        Entry::Module(module) => out.name = file_name(module),
        Entry::Code(code) => {
            out.kind = started_by(code, &words);
            out.shown.push_str(" -c");
            return out;
        }
        Entry::None => return out,
    }
    out.shown = format!("{} {}", out.shown, out.name);
    out
}

/// Where a Python interpreter's program comes from.
enum Entry<'a> {
    Script(&'a str),
    Module(&'a str),
    Code(&'a str),
    None,
}

/// Finds the script among an interpreter's arguments, past its options.
fn entry(arguments: &[String]) -> Entry<'_> {
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        let Some(flags) = argument.strip_prefix('-') else { return Entry::Script(argument) };
        if flags.is_empty() {
            return Entry::None;
        }
        if flags.starts_with('-') {
            if argument == "--check-hash-based-pycs" {
                rest.next();
            }
            continue;
        }
        for (i, flag) in flags.char_indices() {
            let attached = &flags[i + flag.len_utf8()..];
            let mut value = || if attached.is_empty() { rest.next().unwrap_or("") } else { attached };
            match flag {
                'c' => return Entry::Code(value()),
                'm' => return Entry::Module(value()),
                'W' | 'X' => {
                    value();
                    break;
                }
                _ => {}
            }
        }
    }
    Entry::None
}

fn started_by(code: &str, words: &[String]) -> Kind {
    if code.contains("multiprocessing.resource_tracker") || code.contains("multiprocessing.semaphore_tracker") {
        Kind::Tracker
    } else if code.contains("multiprocessing.forkserver") {
        Kind::Forkserver
    } else if code.contains("multiprocessing.spawn") || words.iter().any(|w| w == "--multiprocessing-fork") {
        Kind::Spawned
    } else {
        Kind::Program
    }
}

/// The last part of a path, up to the first blank: a process that renamed itself can have
/// anything after it. At most 64 characters.
fn file_name(path: &str) -> String {
    let word = path.split(|c: char| c.is_whitespace() || c.is_control()).next().unwrap_or("");
    let name = word.rsplit('/').find(|part| !part.is_empty()).unwrap_or("");
    name.trim_start_matches('-').trim_end_matches(':').chars().take(64).collect()
}

/// Whether a program of this file name is a Python interpreter.
#[must_use]
pub fn is_python(program: &str) -> bool {
    let rest = program.strip_prefix("python").or_else(|| program.strip_prefix("pypy"));
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 't' | 'd' | '-')))
}

/// Reads `/proc/PID/environ`, keeping a process's place among the ranks and nothing else.
#[must_use]
pub fn ranks(environ: &[u8]) -> Ranks {
    let mut slurm = Ranks::default();
    let mut out = Ranks::default();
    for entry in environ.split(|b| *b == 0) {
        let Some(split) = entry.iter().position(|b| *b == b'=') else { continue };
        let place = match &entry[..split] {
            b"RANK" => &mut out.rank,
            b"LOCAL_RANK" => &mut out.local,
            b"WORLD_SIZE" => &mut out.world,
            b"SLURM_PROCID" => &mut slurm.rank,
            b"SLURM_LOCALID" => &mut slurm.local,
            b"SLURM_NTASKS" => &mut slurm.world,
            _ => continue,
        };
        *place = std::str::from_utf8(&entry[split + 1..]).ok().and_then(|value| value.parse().ok());
    }
    // Slurm sets its own for one process a node too, from which torchrun starts the real ranks.
    if out == Ranks::default() { slurm } else { out }
}

/// One sign that a process trains, or could.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sign {
    /// A thread of PyTorch's backward engine.
    Autograd,
    /// A thread that watches collectives.
    Collective,
    /// A thread that pins loaded batches.
    Pin,
    /// A thread of the CUDA driver.
    DeviceThread,
    /// An open accelerator device.
    DeviceFile,
    /// A main thread that PyTorch named.
    TorchThread,
    /// A thread of TensorFlow or XLA.
    TensorflowThread,
    /// PyTorch is loaded. From here on signs are libraries.
    Torch,
    /// TensorFlow is loaded.
    Tensorflow,
    /// JAX is loaded.
    Jax,
    /// PaddlePaddle is loaded.
    Paddle,
    /// MXNet is loaded.
    Mxnet,
    /// A collectives library is loaded.
    Nccl,
    /// A CUDA or ROCm library is loaded.
    Gpu,
    /// An embedded Python interpreter is loaded.
    Python,
}

impl Sign {
    /// How much it alone says for training, from 0 to 1, and the words for it.
    #[must_use]
    pub fn weight(self) -> (f64, &'static str) {
        match self {
            Self::Autograd => (0.9, "a backward-engine thread"),
            Self::Collective => (0.9, "a collectives thread"),
            Self::Pin => (0.9, "a pin-memory thread"),
            Self::DeviceThread => (0.5, "a CUDA thread"),
            Self::DeviceFile => (0.5, "an open accelerator"),
            Self::TorchThread => (0.4, "a thread named by PyTorch"),
            Self::TensorflowThread => (0.4, "a TensorFlow or XLA thread"),
            Self::Torch => (0.4, "PyTorch loaded"),
            Self::Tensorflow => (0.4, "TensorFlow loaded"),
            Self::Jax => (0.4, "JAX loaded"),
            Self::Paddle => (0.4, "PaddlePaddle loaded"),
            Self::Mxnet => (0.4, "MXNet loaded"),
            Self::Nccl => (0.3, "a collectives library loaded"),
            Self::Gpu => (0.1, "a GPU library loaded"),
            Self::Python => (0.0, "an embedded Python"),
        }
    }

    /// Whether it is a library that is loaded.
    #[must_use]
    pub fn is_library(self) -> bool {
        self >= Self::Torch
    }

    /// Whether a process with this sign computes itself: a launcher can have the others too.
    #[must_use]
    pub fn is_strong(self) -> bool {
        matches!(self, Self::Autograd | Self::Collective | Self::Pin | Self::DeviceThread | Self::DeviceFile)
    }
}

/// The signs in thread names.
#[must_use]
pub fn threads<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<Sign> {
    let sign = |name: &str| match name.trim_end() {
        n if n.starts_with("pt_autograd") => Some(Sign::Autograd),
        n if n.starts_with("pt_nccl") || n.starts_with("pt_gloo") || n.starts_with("NCCL ") => Some(Sign::Collective),
        "pt_data_pin" => Some(Sign::Pin),
        n if n.starts_with("cuda-EvtHandlr") || n.starts_with("cuda0") => Some(Sign::DeviceThread),
        "pt_main_thread" => Some(Sign::TorchThread),
        n if n.starts_with("tf_") || n.starts_with("XLA") => Some(Sign::TensorflowThread),
        _ => None,
    };
    names.into_iter().filter_map(sign).collect()
}

/// The signs in `/proc/PID/maps`: libraries, by file name.
#[must_use]
pub fn maps(text: &str) -> BTreeSet<Sign> {
    let mut out = BTreeSet::new();
    let mut last = "";
    for path in text.lines().filter_map(|line| line.find('/').map(|at| &line[at..])) {
        // A library has several mappings, one after the other.
        if path != last {
            last = path;
            out.extend(library(path));
        }
    }
    out
}

fn library(path: &str) -> Option<Sign> {
    let (folder, name) = path.rsplit_once('/')?;
    match name {
        n if n.starts_with("libtorch") || n.starts_with("libc10") => Some(Sign::Torch),
        n if n.starts_with("libtensorflow") || n.starts_with("_pywrap_tensorflow") => Some(Sign::Tensorflow),
        n if n.starts_with("xla_extension") || n.starts_with("libjax") || folder.ends_with("/jaxlib") => {
            Some(Sign::Jax)
        }
        n if n.starts_with("libpaddle") => Some(Sign::Paddle),
        n if n.starts_with("libmxnet") => Some(Sign::Mxnet),
        n if n.starts_with("libnccl") || n.starts_with("librccl") => Some(Sign::Nccl),
        n if n.starts_with("libcuda") || n.starts_with("libamdhip64") => Some(Sign::Gpu),
        n if n.starts_with("libpython3") => Some(Sign::Python),
        _ => None,
    }
}

/// Whether an open file is an accelerator: NVIDIA, AMD compute, Intel Habana, or Google TPU.
#[must_use]
pub fn is_accelerator(path: &str) -> bool {
    let numbered = |prefix: &str| {
        let rest = path.strip_prefix(prefix);
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    // Not `nvidiactl`: whoever counts devices has it open.
    path == "/dev/kfd"
        || path == "/dev/nvidia-uvm"
        || ["/dev/nvidia", "/dev/accel/accel", "/dev/accel"].iter().any(|p| numbered(p))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(line: &str) -> Command {
        command(format!("{}\0", line.replace(' ', "\0")).as_bytes())
    }

    #[test]
    fn the_script_is_found_past_the_options() {
        for (line, name, shown) in [
            ("/usr/bin/python3 -u train.py --lr 1", "train.py", "python3 train.py"),
            (
                "python -W ignore -X dev -m torch.distributed.run x.py",
                "torch.distributed.run",
                "python torch.distributed.run",
            ),
            ("python3.12 -um torch.distributed.run x.py", "torch.distributed.run", "python3.12 torch.distributed.run"),
            ("/opt/conda/bin/python /opt/conda/bin/torchrun --nproc=4 a/b/train.py", "torchrun", "python torchrun"),
            ("python3 -c import_secret", "python3", "python3 -c"),
            ("python3", "python3", "python3"),
            ("python3 -", "python3", "python3"),
            ("./solver --token=abc", "solver", "solver"),
            ("-bash", "bash", "bash"),
        ] {
            let found = of(line);
            assert_eq!((found.name.as_str(), found.shown.as_str()), (name, shown), "{line}");
        }
        assert!(of("python /x/torchrun t.py").is_launcher() && of("bash -c x").is_wrapper());
    }

    #[test]
    fn a_renamed_process_keeps_only_its_first_word() {
        assert_eq!(command(b"ray::train --password hunter2\0").name, "ray::train");
        assert_eq!(command(b"").name, "");
    }

    #[test]
    fn multiprocessing_children_are_known_by_their_code() {
        let of =
            |code: &str| command(format!("/usr/bin/python3\0-B\0-c\0{code}\0--multiprocessing-fork\0").as_bytes()).kind;
        assert_eq!(of("from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=6)"), Kind::Spawned);
        assert_eq!(of("from multiprocessing.forkserver import main; main(3, 5, [])"), Kind::Forkserver);
        assert_eq!(of("from multiprocessing.resource_tracker import main;main(3)"), Kind::Tracker);
    }

    #[test]
    fn of_an_environment_only_ranks_remain() {
        let found = ranks(b"SECRET=5\0RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0SLURM_PROCID=7\0");
        assert_eq!(found, Ranks { rank: Some(3), local: Some(1), world: Some(8) });
        assert_eq!(ranks(b"SLURM_PROCID=7\0SLURM_NTASKS=16").rank, Some(7));
        assert_eq!(ranks(b"RANK=hunter2\0RANKS=1\0=\0"), Ranks::default());
    }

    #[test]
    fn libraries_and_threads_are_signs() {
        let text = "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13\n\
            7f01-7f02 r--p 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13\n\
            7f03-7f04 rw-p 00000000 00:00 0 [heap]\n7f05-7f06 r-xp 0 08:01 3 /x/site-packages/jaxlib/_xla.so (deleted)\n";
        assert_eq!(maps(text), BTreeSet::from([Sign::Torch, Sign::Jax]));
        let names = ["python3", "pt_autograd_0\n", "pt_nccl_watchdg", "pt_data_pin", "cuda-EvtHandlr"];
        assert_eq!(threads(names), BTreeSet::from([Sign::Autograd, Sign::Collective, Sign::Pin, Sign::DeviceThread]));
    }

    #[test]
    fn accelerators_are_devices_and_not_their_control_file() {
        for path in ["/dev/nvidia0", "/dev/nvidia-uvm", "/dev/kfd", "/dev/accel3"] {
            assert!(is_accelerator(path), "{path}");
        }
        for path in ["/dev/nvidiactl", "/dev/nvidia", "/dev/null", "socket:[1]"] {
            assert!(!is_accelerator(path), "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in any::<Vec<u8>>(), flags in "(-{0,3}[cmWXué]{0,3}\0){0,5}") {
            for bytes in [&bytes[..], &[b"python3\0", flags.as_bytes()].concat()] {
                let text = String::from_utf8_lossy(bytes);
                let _ = (command(bytes), ranks(bytes), maps(&text), threads([text.as_ref()]), is_accelerator(&text));
            }
        }
    }
}
