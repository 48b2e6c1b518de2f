//! Where fetched bytes come from: a device, memory, or a network.

use super::super::kind::{On, State};
use super::super::mix::Kind;
use super::super::site::{TASKS, Task, Tasks};
use super::Cause;

/// Bytes and CPU time of a process, or of several, over a span. Seconds are process seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Flow {
    /// Seconds seen.
    pub(crate) seconds: f64,
    /// Bytes that read calls returned, from wherever.
    pub(crate) read: f64,
    /// Bytes that its reads brought in from storage.
    pub(crate) storage: f64,
    /// Read calls.
    pub(crate) calls: f64,
    /// Page faults that waited for storage, as of files mapped into memory.
    pub(crate) faults: f64,
    /// CPU seconds in user space.
    pub(crate) user: f64,
    /// CPU seconds in the kernel.
    pub(crate) system: f64,
    /// Bytes received over TCP.
    pub(crate) received: f64,
    /// Times that the main thread began to wait, and seconds over which they were counted.
    pub(crate) switches: f64,
    pub(crate) counted: f64,
    /// Reads of files timed in the kernel, and seconds in them.
    pub(crate) timed: (f64, f64),
}

/// Slowest copying of cached bytes, in bytes a second, and what a read call and a page fault that
/// waits for storage cost beside it, in seconds of CPU: they bound how much of the kernel's time
/// reading can explain.
const SLOW_COPY: f64 = 0.3e9;
const CALL: f64 = 20e-6;
const FAULT: f64 = 60e-6;
/// Bytes a second from a device below which a process is not reading from one.
const TRICKLE: f64 = 65_536.0;
/// Part of the bytes read from which a source counts.
const COUNTS: f64 = 0.05;

impl Flow {
    pub(crate) fn add(&mut self, other: &Self, weight: f64) {
        self.seconds += weight * other.seconds;
        self.read += weight * other.read;
        self.storage += weight * other.storage;
        self.calls += weight * other.calls;
        self.faults += weight * other.faults;
        self.user += weight * other.user;
        self.system += weight * other.system;
        self.received += weight * other.received;
        self.switches += weight * other.switches;
        self.counted += weight * other.counted;
        self.timed.0 += weight * other.timed.0;
        self.timed.1 += weight * other.timed.1;
    }

    /// What each of so many threads of the process did, were they alike: seconds are then theirs.
    pub(crate) fn shared_by(self, threads: f64) -> Self {
        Self { seconds: self.seconds * threads.max(1.0), ..self }
    }

    /// Times a second that the main thread began to wait; `None` where they are not counted.
    pub(crate) fn switch_rate(&self) -> Option<f64> {
        (self.seconds > 0.0 && self.counted > 0.5 * self.seconds).then(|| self.switches / self.counted)
    }

    /// Part of the bytes read that came from a device; `None` when nothing was read.
    pub(crate) fn device_part(&self) -> Option<f64> {
        let all = self.bytes();
        (all > 0.0).then(|| (self.storage / all).clamp(0.0, 1.0))
    }

    /// Whether it reads from a device at all.
    fn uses_device(&self) -> bool {
        self.seconds > 0.0 && self.storage / self.seconds > TRICKLE && self.device_part().is_some_and(|p| p > 0.01)
    }

    /// Whether a good part of what it reads comes over TCP.
    pub(super) fn uses_network(&self) -> bool {
        self.seconds > 0.0 && self.received / self.seconds > TRICKLE && self.received > COUNTS * self.read
    }

    /// Whether it reads anything at all.
    fn reads(&self) -> bool {
        self.seconds > 0.0 && self.read / self.seconds > TRICKLE
    }

    /// What blocks threads that cannot be seen, when they read and do not queue for a core: a device
    /// if bytes come from one; else something far away, as reading from memory blocks nobody.
    pub(super) fn blocks_in(&self) -> Cause {
        match (self.uses_device(), self.reads()) {
            (true, _) => Cause::FetchStorage,
            (false, true) => Cause::FetchNetwork,
            (false, false) => Cause::Unknown,
        }
    }

    /// Bytes that it got, from wherever: by read calls, or by page faults on mapped files, which
    /// only storage counts.
    pub(super) fn bytes(&self) -> f64 {
        self.read.max(self.storage)
    }

    /// Of a share of its time on a CPU, the part that the kernel works on its reads.
    fn copied(&self, on_cpu: f64) -> f64 {
        if on_cpu > 0.0 { (self.copying() / on_cpu).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Stacks by state and task, those of a thread on a CPU (`on_cpu`: for this share of its time) put
    /// right where they are few: the kernel counts for how long it worked on reads, and no less of the
    /// time is fetching.
    pub(super) fn reading_at_least(&self, mut tasks: Tasks, on_cpu: f64) -> Tasks {
        let row = &mut tasks[State::Running as usize];
        let fetches = |task: &usize| *task == Task::Fetch as usize || *task == Task::Other as usize;
        let stacks: f64 = row.iter().sum();
        let fetching: f64 = (0..TASKS).filter(fetches).map(|t| row[t]).sum();
        let least = self.copied(on_cpu) * stacks;
        if fetching < least {
            let rest = (stacks - least) / (stacks - fetching);
            (0..TASKS).filter(|t| !fetches(t)).for_each(|t| row[t] *= rest);
            row[Task::Fetch as usize] += least - fetching;
        }
        tasks
    }

    /// Share of time that the kernel works on its reads: its time in the kernel, as far as so many
    /// bytes, calls and faults can explain.
    fn copying(&self) -> f64 {
        if self.seconds <= 0.0 {
            return 0.0;
        }
        let explained = self.bytes() / SLOW_COPY + self.calls * CALL + self.faults * FAULT;
        self.system.min(explained) / self.seconds
    }
}

/// Where bytes come from on this machine, as far as the job's mounts tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Origin {
    /// Mounts over a network or FUSE that serve the job's files, as `/data (fuse.sshfs)`.
    pub(crate) remote: Vec<String>,
    /// Part of the looked-at files that the page cache holds.
    pub(crate) resident: Option<f64>,
}

/// What fetching means for one crew: its bytes and its blocked calls.
pub(super) struct Fetch<'a> {
    flow: Flow,
    origin: &'a Origin,
    /// Of its running time in a fetch, the part that the kernel works on the read.
    copying: f64,
    /// Of its blocked time in a fetch, the part on a network.
    remote: f64,
}

impl<'a> Fetch<'a> {
    /// `running`: share of time on a CPU in a fetch; `blocked`: calls and shares blocked in one.
    pub(super) fn new(flow: Flow, origin: &'a Origin, running: f64, blocked: &[(Kind, f64)]) -> Self {
        let all: f64 = blocked.iter().map(|x| x.1).sum();
        let far = blocked.iter().filter(|(kind, _)| matches!(kind.1, On::Remote | On::Socket)).map(|x| x.1);
        let remote = if all > 0.0 { far.sum::<f64>() / all } else { 0.0 };
        Self { flow, origin, copying: flow.copied(running), remote }
    }

    /// What a kind of state at a task stands for, in parts that add up to one. Neither waiting in a
    /// queue nor handing over is asked for here.
    pub(super) fn causes(&self, kind: Kind, task: Task) -> Vec<(Cause, f64)> {
        match (kind.0, task) {
            (State::Running, Task::Decode | Task::Collate) => vec![(Cause::Decode, 1.0)],
            (State::Running, _) => self.running(),
            // Reading is often lazy: an image is read while it is decoded.
            (State::Disk | State::Read | State::Poll, _) => vec![(self.blocked(kind), 1.0)],
            (_, Task::Decode | Task::Collate) if !matches!(kind.1, On::Remote | On::Socket) => {
                vec![(Cause::Decode, 1.0)]
            }
            _ => vec![(self.blocked(kind), 1.0)],
        }
    }

    /// A fetch on a CPU: the kernel copies what was read, the rest makes the sample.
    fn running(&self) -> Vec<(Cause, f64)> {
        let device = if self.flow.uses_device() { self.flow.device_part().unwrap_or(0.0) } else { 0.0 };
        let network = if self.flow.uses_network() { 1.0 } else { self.remote };
        let copying = self.copying;
        vec![
            (Cause::FetchStorage, copying * device),
            (Cause::FetchNetwork, copying * (1.0 - device) * network),
            (Cause::FetchCache, copying * (1.0 - device) * (1.0 - network)),
            (Cause::Decode, 1.0 - copying),
        ]
    }

    fn blocked(&self, (state, on): Kind) -> Cause {
        let far = !self.origin.remote.is_empty();
        match (state, on) {
            (State::Futex | State::Wait | State::Stopped | State::Unreadable, _) => Cause::Unknown,
            (_, On::Remote | On::Socket) => Cause::FetchNetwork,
            (_, On::Memory) => Cause::FetchCache,
            (State::Disk, On::File) => Cause::FetchStorage,
            (State::Disk, _) if self.flow.uses_device() => Cause::FetchStorage,
            (State::Disk, _) if far && self.remote > 0.0 => Cause::FetchNetwork,
            (State::Disk, On::Unknown | On::Other) if far => Cause::FetchNetwork,
            (State::Disk, _) => Cause::FetchStorage,
            (State::Sleep, _) if self.flow.uses_network() => Cause::FetchNetwork,
            (State::Sleep, _) | (_, On::Pipe) => Cause::Unknown,
            (_, On::File) if self.flow.uses_device() => Cause::FetchStorage,
            (_, On::File) => Cause::FetchCache,
            (State::Poll, _) => Cause::FetchNetwork,
            _ if self.flow.uses_device() => Cause::FetchStorage,
            _ if far || self.flow.uses_network() => Cause::FetchNetwork,
            _ => Cause::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1e6;

    fn causes(flow: Flow, far: bool, running: f64, blocked: &[(Kind, f64)], kind: Kind, task: Task) -> (Cause, f64) {
        let origin = Origin { remote: far.then(|| "/data (fuse.x)".to_owned()).into_iter().collect(), resident: None };
        let all = Fetch::new(flow, &origin, running, blocked).causes(kind, task);
        assert!((all.iter().map(|x| x.1).sum::<f64>() - 1.0).abs() < 1e-9, "{all:?}");
        all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
    }

    #[test]
    fn bytes_and_calls_tell_where_a_fetch_waits() {
        let flow = |read: f64, storage: f64, system: f64| Flow {
            seconds: 10.0,
            read: read * MB,
            storage: storage * MB,
            calls: read,
            user: 1.0,
            system,
            ..Flow::default()
        };
        let disk = (State::Disk, On::Unknown);
        let read = |on| (State::Read, on);
        let run = (State::Running, On::Unknown);
        let cases = [
            ("disk state, bytes from a device", flow(900.0, 880.0, 1.0), false, disk, Cause::FetchStorage),
            ("disk state on FUSE", flow(900.0, 0.0, 1.0), true, disk, Cause::FetchNetwork),
            ("disk state, no bytes, no remote mount", flow(1.0, 0.0, 0.1), false, disk, Cause::FetchStorage),
            ("read on FUSE", flow(900.0, 0.0, 1.0), true, read(On::Remote), Cause::FetchNetwork),
            ("read on a socket", flow(900.0, 0.0, 1.0), false, read(On::Socket), Cause::FetchNetwork),
            ("read in memory", flow(900.0, 0.0, 1.0), false, read(On::Memory), Cause::FetchCache),
            ("read of nobody knows what", flow(900.0, 0.0, 1.0), false, read(On::Unknown), Cause::Unknown),
            ("a lock in a fetch", flow(900.0, 0.0, 1.0), false, (State::Futex, On::Unknown), Cause::Unknown),
            ("copies from the page cache", flow(20_000.0, 0.0, 9.0), false, run, Cause::FetchCache),
            ("copies from a device", flow(20_000.0, 19_000.0, 9.0), false, run, Cause::FetchStorage),
            ("few bytes, much CPU", flow(50.0, 0.0, 2.0), false, run, Cause::Decode),
        ];
        for (name, flow, far, kind, expected) in cases {
            let (cause, part) = causes(flow, far, 0.95, &[], kind, Task::Fetch);
            assert_eq!(cause, expected, "{name}");
            assert!(part > 0.8, "{name}: {part}");
        }
    }

    #[test]
    fn faults_on_a_mapped_file_are_reading_it() {
        // Two workers on an NVMe disk: 44 MB/s, a page at a time.
        let mapped = Flow { seconds: 20.0, storage: 440.0 * MB, faults: 113_000.0, system: 6.0, ..Flow::default() };
        let running = (State::Running, On::Unknown);
        let (cause, part) = causes(mapped, false, 0.34, &[], running, Task::Fetch);
        assert!(cause == Cause::FetchStorage && part > 0.8, "{cause:?} {part}");
        let few = Flow { faults: 50.0, storage: 1.0 * MB, ..mapped };
        assert_eq!(causes(few, false, 0.34, &[], running, Task::Fetch).0, Cause::Decode);
    }

    #[test]
    fn few_stacks_of_reading_do_not_outweigh_what_the_kernel_counted() {
        // Three workers that read 175 MB/s each from a disk: of 0.22 of their time on a CPU 0.18 in the kernel.
        let flow = Flow { seconds: 10.0, read: 1750.0 * MB, calls: 16_000.0, system: 1.8, ..Flow::default() };
        let running = State::Running as usize;
        let mut tasks: Tasks = [[0.0; TASKS]; 11];
        tasks[running][Task::Fetch as usize] = 4.0;
        tasks[running][Task::Decode as usize] = 3.0;
        tasks[running][Task::Collate as usize] = 1.0;
        let row = flow.reading_at_least(tasks, 0.22)[running];
        let part = |task: Task| row[task as usize] / row.iter().sum::<f64>();
        assert!((part(Task::Fetch) - 0.18 / 0.22).abs() < 1e-9, "{row:?}");
        assert!((part(Task::Decode) - 3.0 * part(Task::Collate)).abs() < 1e-9, "{row:?}");
        // A decoder that reads little keeps what its stacks say.
        let small = Flow { read: 20.0 * MB, calls: 600.0, user: 8.0, ..flow };
        assert_eq!(small.reading_at_least(tasks, 0.9), tasks);
        assert_eq!(flow.reading_at_least([[0.0; TASKS]; 11], 0.22), [[0.0; TASKS]; 11]);
    }

    #[test]
    fn decoding_is_decoding_however_many_bytes_are_read() {
        let flow = Flow { seconds: 10.0, read: 9e9, system: 5.0, ..Flow::default() };
        let running = (State::Running, On::Unknown);
        assert_eq!(causes(flow, false, 0.5, &[], running, Task::Decode), (Cause::Decode, 1.0));
        assert_eq!(causes(flow, false, 0.5, &[], (State::Futex, On::Unknown), Task::Decode).0, Cause::Decode);
        // A lazy read within a decode is a read.
        assert_eq!(causes(flow, false, 0.5, &[], (State::Read, On::Socket), Task::Decode).0, Cause::FetchNetwork);
    }
}
