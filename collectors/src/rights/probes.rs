//! The questions, one a right or source. A new one is a line in [`PROBES`] and a function.

use aya::programs::ProgramType;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use perf_event::Builder;
use perf_event::events::{Hardware, Software};

use super::{ADMIN, Asked, BPF, PERFMON, PTRACE, State, calls, parse};
use crate::inprocess;

/// A question.
pub(super) struct Probe {
    pub(super) name: &'static str,
    pub(super) rung: u8,
    pub(super) ask: fn(&Asked<'_>) -> Answer,
}

/// An answer.
pub(super) enum Answer {
    /// It works.
    Works(String),
    /// It works in part; how to get the rest.
    Degraded(String, &'static str),
    /// It is missing; how to get it.
    Missing(String, &'static str),
    /// It is missing, and nothing can be done about that from here.
    Without(String),
}

use Answer::{Degraded, Missing, Without, Works};

impl Answer {
    pub(super) fn into_parts(self) -> (State, String, Option<&'static str>) {
        match self {
            Works(detail) => (State::Works, detail, None),
            Degraded(detail, how) => (State::Degraded, detail, Some(how)),
            Missing(detail, how) => (State::Missing, detail, Some(how)),
            Without(detail) => (State::Missing, detail, None),
        }
    }
}

/// All questions, by rung.
pub(super) const PROBES: &[Probe] = &[
    Probe { name: "attach", rung: 0, ask: attach },
    Probe { name: "processes visible", rung: 0, ask: hidepid },
    Probe { name: "pid namespace", rung: 0, ask: namespace },
    Probe { name: "thread states", rung: 0, ask: thread_states },
    Probe { name: "scheduler times", rung: 0, ask: schedstat },
    Probe { name: "process io", rung: 0, ask: process_io },
    Probe { name: "pressure", rung: 0, ask: pressure },
    Probe { name: "control groups", rung: 0, ask: cgroups },
    Probe { name: "page cache of files", rung: 0, ask: cachestat },
    Probe { name: "delay accounting", rung: 0, ask: delays },
    Probe { name: "infiniband", rung: 0, ask: infiniband },
    Probe { name: "nvidia gpus", rung: 1, ask: nvidia },
    Probe { name: "amd gpus", rung: 1, ask: amd },
    Probe { name: "process memory", rung: 2, ask: memory },
    Probe { name: "perf counters", rung: 3, ask: perf },
    Probe { name: "hardware counters", rung: 3, ask: hardware },
    Probe { name: "kernel programs", rung: 3, ask: bpf },
    Probe { name: "library probes", rung: 3, ask: uprobes },
    Probe { name: "switch rings", rung: 3, ask: rings },
    Probe { name: "exact timers", rung: 4, ask: timers },
    Probe { name: "code into a running python", rung: 4, ask: remote_code },
];

const SAME_USER: &str = "run as the job's user, or as root";
const PARANOID: &str = "as root: `sysctl kernel.perf_event_paranoid=1`, or run with CAP_PERFMON";
const YAMA: &str = "as root: `sysctl kernel.yama.ptrace_scope=0`, or run with CAP_SYS_PTRACE";

/// Whether `feedline attach` works as it is, which takes the system calls of the job's threads.
fn attach(asked: &Asked<'_>) -> Answer {
    const PARTLY: &str = "run as the job's user or as root; `--partial` records what needs no right";
    let scope = asked.number("proc/sys/kernel/yama/ptrace_scope").unwrap_or(0);
    match asked.of_process("syscall") {
        Ok(_) if asked.other => Works("attach works for this process".into()),
        Ok(_) if asked.may(PTRACE) => Works("attach works for the processes of all users".into()),
        Ok(_) if scope == 0 => Works("attach works for your own processes".into()),
        Ok(_) => Degraded(
            format!("attach works for jobs that Feedline started, not for other processes (ptrace_scope is {scope})"),
            YAMA,
        ),
        Err(why) if asked.of_process("stat").is_err() => Missing(why, "give the pid of a running process"),
        Err(why) => Missing(format!("attach does not work for this process: {why}"), PARTLY),
    }
}

fn hidepid(asked: &Asked<'_>) -> Answer {
    match parse::hidepid(&asked.mountinfo).as_deref() {
        Some("off" | "0") => Works("/proc shows the processes of all users".into()),
        Some(level) if asked.may(PTRACE) => Works(format!("/proc hides processes (hidepid={level}), not from here")),
        Some(level) => Degraded(format!("/proc hides other users' processes (hidepid={level})"), SAME_USER),
        None => Without("/proc is not mounted as expected".into()),
    }
}

fn namespace(asked: &Asked<'_>) -> Answer {
    let link = |path: &str| asked.host.link(path).ok().map(|l| l.to_string_lossy().into_owned());
    let own = link("proc/self/ns/pid").unwrap_or_default();
    let theirs = link(&format!("proc/{}/ns/pid", asked.pid));
    match theirs {
        Some(theirs) if asked.other && theirs != own => {
            Works("the job is in another pid namespace; it is watched by the pids seen from here".into())
        }
        _ if own.is_empty() => Without("/proc/self/ns/pid cannot be read".into()),
        _ if parse::is_first_pid_namespace(&own) => Works("the machine's own: every process can be seen".into()),
        _ => Degraded(
            "inside a container: only its own processes can be seen".into(),
            "run on the host, or in a container with the host's pid namespace (`--pid=host`)",
        ),
    }
}

fn thread_states(asked: &Asked<'_>) -> Answer {
    match asked.of_process("syscall") {
        Ok(_) if asked.other || asked.may(PTRACE) => {
            Works(format!("system calls of threads can be read {}", asked.scope()))
        }
        Ok(_) => yama(asked, "system calls of threads can be read"),
        Err(why) if asked.of_process("stat").is_err() => Missing(why, "give the pid of a running process"),
        Err(why) => {
            let how = if asked.number("proc/sys/kernel/yama/ptrace_scope").unwrap_or(0) > 0 { YAMA } else { SAME_USER };
            Degraded(format!("{why}; waits are told from running, not from each other"), how)
        }
    }
}

/// What Yama leaves of a right that the user has by ownership.
fn yama(asked: &Asked<'_>, what: &str) -> Answer {
    match asked.number("proc/sys/kernel/yama/ptrace_scope") {
        None | Some(0) => Works(format!("{what} {}", asked.scope())),
        Some(1) => Degraded(format!("{what} for jobs that Feedline started only (ptrace_scope is 1)"), YAMA),
        Some(scope) => Missing(format!("{what} by administrators only (ptrace_scope is {scope})"), YAMA),
    }
}

fn schedstat(asked: &Asked<'_>) -> Answer {
    match asked.of_process("schedstat") {
        Ok(text) if text.split_ascii_whitespace().next().is_some_and(|t| t != "0") => {
            Works("CPU and run-queue time to the nanosecond".into())
        }
        Ok(_) => {
            Degraded("all zero: the kernel may be without schedstats".into(), "boot a kernel with CONFIG_SCHED_INFO")
        }
        Err(why) => Missing(why, "boot a kernel with CONFIG_SCHED_INFO"),
    }
}

fn process_io(asked: &Asked<'_>) -> Answer {
    match asked.of_process("io") {
        Ok(_) => Works(format!("bytes read and written {}", asked.scope())),
        Err(why) => Missing(format!("{why}; bytes from cache and storage cannot be told apart"), SAME_USER),
    }
}

fn pressure(asked: &Asked<'_>) -> Answer {
    match asked.host.read("proc/pressure/io") {
        Ok(_) => Works("/proc/pressure".into()),
        Err(error) => Missing(error.message, "boot with `psi=1`"),
    }
}

fn cgroups(asked: &Asked<'_>) -> Answer {
    let mounts = crate::cgroup::parse::mounts(&asked.mountinfo);
    let old = mounts.iter().any(|m| m.controllers.iter().any(|c| c == "cpu" || c == "memory"));
    let new = mounts.iter().any(|m| m.controllers.is_empty());
    match (old, new) {
        (true, true) => Works("version 1 controllers, with version 2 mounted beside them".into()),
        (true, false) => Works("version 1".into()),
        (false, true) => Works("version 2".into()),
        (false, false) => {
            Missing("none mounted; limits and throttling stay unknown".into(), "mount /sys/fs/cgroup here")
        }
    }
}

/// The machine must be this one for a system call to speak of it.
fn live(asked: &Asked<'_>, ask: impl FnOnce() -> Answer) -> Answer {
    if asked.host.is_live() { ask() } else { Without("a captured machine answers no system calls".into()) }
}

fn cachestat(asked: &Asked<'_>) -> Answer {
    live(asked, || match calls::cachestat() {
        Ok(()) => Works("cachestat".into()),
        Err(error) => Degraded(
            format!("cachestat: {error}; `mincore` is asked instead, which costs more"),
            "Linux 6.5 or later, and a container filter that lets cachestat pass",
        ),
    })
}

fn delays(asked: &Asked<'_>) -> Answer {
    const HOW: &str = "as root, before the job starts: `sysctl kernel.task_delayacct=1`";
    match asked.number("proc/sys/kernel/task_delayacct") {
        Some(0) => {
            Missing("kernel.task_delayacct is 0; time waiting for blocks is not counted by the kernel".into(), HOW)
        }
        Some(_) => Works("kernel.task_delayacct is on".into()),
        None => Missing(
            "this kernel has no kernel.task_delayacct".into(),
            "Linux 5.14 or later with CONFIG_TASK_DELAY_ACCT",
        ),
    }
}

fn infiniband(asked: &Asked<'_>) -> Answer {
    match asked.host.names("sys/class/infiniband") {
        ports if ports.is_empty() => Without("no InfiniBand or RoCE device".into()),
        ports => Works(ports.join(", ")),
    }
}

fn nvidia(asked: &Asked<'_>) -> Answer {
    live(asked, || {
        let library = Nvml::init().or_else(|_| Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init());
        match library.map(|nvml| nvml.device_count()) {
            Ok(Ok(0)) => Without("the driver knows no device".into()),
            Ok(Ok(count)) => Works(format!("{count} known to the driver")),
            Ok(Err(error)) | Err(error) => {
                let nodes = asked.host.names("dev").iter().any(|n| n.starts_with("nvidia"));
                let why = match error {
                    NvmlError::LibloadingError(_) => "no driver library (libnvidia-ml.so.1)".to_owned(),
                    error => format!("libnvidia-ml.so.1: {error}").replace('\n', " "),
                };
                if nodes {
                    Missing(why, "install the NVIDIA driver's libraries, or set the library's path")
                } else {
                    Without(why)
                }
            }
        }
    })
}

fn amd(asked: &Asked<'_>) -> Answer {
    let cards = asked.host.names("sys/class/drm");
    let driver = |card: &String| asked.host.link(format!("sys/class/drm/{card}/device/driver")).ok();
    let is_amd = |card: &&String| driver(card).is_some_and(|d| d.ends_with("amdgpu"));
    match cards.iter().filter(|c| !c.contains('-') && c.starts_with("card")).filter(is_amd).count() {
        0 => Without("no device with the amdgpu driver".into()),
        count => Works(format!("{count} with the amdgpu driver")),
    }
}

fn memory(asked: &Asked<'_>) -> Answer {
    const SECCOMP: &str = "run with CAP_SYS_PTRACE, in a container with `--cap-add SYS_PTRACE`";
    live(asked, || {
        let python = "Python stacks can be read without stopping the job,";
        match calls::read_memory(asked.pid) {
            Ok(()) if asked.other || asked.may(PTRACE) => Works(format!("{python} {}", asked.scope())),
            Ok(()) => yama(asked, python),
            Err(error) => {
                let scope = asked.number("proc/sys/kernel/yama/ptrace_scope").unwrap_or(0);
                let why = format!("process_vm_readv: {error}; no Python stacks");
                let how = if asked.is_foreign() {
                    SAME_USER
                } else if scope > 0 {
                    YAMA
                } else {
                    SECCOMP
                };
                Missing(why, how)
            }
        }
    })
}

fn counts(asked: &Asked<'_>, builder: &mut Builder<'_>) -> std::io::Result<()> {
    let pid = i32::try_from(asked.pid).map_err(|_| std::io::Error::from_raw_os_error(libc::ESRCH))?;
    builder.observe_pid(pid).build().map(drop)
}

fn paranoid(asked: &Asked<'_>) -> String {
    let level = asked.number("proc/sys/kernel/perf_event_paranoid");
    level.map_or_else(|| "no perf in this kernel".into(), |level| format!("perf_event_paranoid is {level}"))
}

fn perf(asked: &Asked<'_>) -> Answer {
    live(asked, || match counts(asked, &mut Builder::new(Software::TASK_CLOCK)) {
        Ok(()) => Works(format!("{}; counted {}", paranoid(asked), asked.scope())),
        Err(error) => Missing(
            format!("{}; perf_event_open: {error}", paranoid(asked)),
            if asked.is_foreign() { SAME_USER } else { PARANOID },
        ),
    })
}

fn hardware(asked: &Asked<'_>) -> Answer {
    live(asked, || match counts(asked, &mut Builder::new(Hardware::CPU_CYCLES)) {
        Ok(()) => Works("cycles, instructions, cache misses".into()),
        // What the machine has not got no right can give.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)) => {
            Without(format!("this machine shows none (virtual machines often do not): {error}"))
        }
        Err(error) => Missing(
            format!("{}; perf_event_open: {error}", paranoid(asked)),
            if asked.is_foreign() { SAME_USER } else { PARANOID },
        ),
    })
}

/// What keeps programs out of the kernel, if anything does.
fn no_programs(asked: &Asked<'_>) -> Option<Answer> {
    const HOW: &str = "run as root, or with CAP_BPF and CAP_PERFMON";
    if !asked.host.path("sys/kernel/btf/vmlinux").exists() {
        let why = "this kernel carries no type information (BTF), so programs cannot be fitted to it";
        return Some(Missing(why.into(), "boot a kernel with CONFIG_DEBUG_INFO_BTF"));
    }
    if !(asked.may(ADMIN) || asked.may(BPF) && asked.may(PERFMON)) {
        let user = asked.user.map_or_else(String::new, |user| format!(" as user {user}"));
        return Some(Missing(format!("programs cannot be loaded{user}"), HOW));
    }
    // The right may be there and the call still refused: by a container's filter, or by lockdown.
    match asked.host.is_live().then(|| aya::sys::is_program_supported(ProgramType::RawTracePoint)) {
        None | Some(Ok(true)) => None,
        Some(Ok(false)) => Some(Missing("a trial program was refused".into(), HOW)),
        Some(Err(error)) => Some(Missing(format!("a trial program was refused: {error}"), HOW)),
    }
}

fn bpf(asked: &Asked<'_>) -> Answer {
    no_programs(asked).unwrap_or_else(|| {
        Works("type information and the right to load: `--kernel` counts requests, waits and file reads".into())
    })
}

fn uprobes(asked: &Asked<'_>) -> Answer {
    const SOURCE: &str = "sys/bus/event_source/devices/uprobe/type";
    if asked.host.read(SOURCE).is_err() {
        return Missing("this kernel sets no probes in user space".into(), "boot a kernel with CONFIG_UPROBE_EVENTS");
    }
    let release = asked.host.read("proc/sys/kernel/osrelease").unwrap_or_default();
    // The programs ask which probe they were called for, which the kernel tells since then.
    if parse::release(&release).is_some_and(|release| release < (5, 15)) {
        return Missing(format!("Linux {} tells programs no cookie", release.trim()), "Linux 5.15 or later");
    }
    no_programs(asked).unwrap_or_else(|| Works("`--kernel` counts calls into libcuda, libcudart and libnccl".into()))
}

fn rings(asked: &Asked<'_>) -> Answer {
    live(asked, || match counts(asked, Builder::new(Software::DUMMY).context_switch(true)) {
        Ok(()) => {
            Works("where programs are refused, `--kernel` takes time off the CPU from here, without reasons".into())
        }
        Err(error) => Missing(
            format!("{}; perf_event_open: {error}", paranoid(asked)),
            if asked.is_foreign() { SAME_USER } else { PARANOID },
        ),
    })
}

/// The Python that the asked process runs: `None` where it is none, or hides its version.
fn python(asked: &Asked<'_>) -> Option<(u32, u32)> {
    let exe = asked.host.link(format!("proc/{}/exe", asked.pid)).ok()?;
    let name = exe.file_name()?.to_str()?;
    // Programs that embed Python map its library.
    parse::python(name).or_else(|| asked.of_process("maps").ok()?.lines().find_map(parse::libpython))
}

fn timers(asked: &Asked<'_>) -> Answer {
    const HOW: &str = "start it with `feedline run -- COMMAND`, or mark it with `feedline.step()`";
    if !asked.other {
        return Works("`feedline run -- COMMAND` starts a job with them, `feedline.step()` marks one by hand".into());
    }
    match (inprocess::carried(asked.host, asked.pid), python(asked)) {
        (true, _) => Works("the job carries them".into()),
        (false, Some((3, minor))) if minor >= 8 => Missing(format!("Python 3.{minor} without hooks or marks"), HOW),
        (false, Some((major, minor))) => Without(format!("Python {major}.{minor} is older than 3.8")),
        (false, None) => Without("no Python, or one whose version cannot be read".into()),
    }
}

fn remote_code(asked: &Asked<'_>) -> Answer {
    match python(asked).filter(|_| asked.other) {
        Some((major, minor)) if (major, minor) < (3, 14) => {
            Without(format!("Python {major}.{minor} takes none (3.14 is the first that does)"))
        }
        _ => {
            Without("not used: Feedline puts nothing into a job that runs; `feedline run` starts one with hooks".into())
        }
    }
}
