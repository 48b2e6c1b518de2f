//! Bytes and CPU time of processes: what reading costs them, and where the bytes come from.

use super::kind::State;
use super::site::{TASKS, Task, Tasks};

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
    pub(super) fn uses_device(&self) -> bool {
        self.seconds > 0.0 && self.storage / self.seconds > TRICKLE && self.device_part().is_some_and(|p| p > 0.01)
    }

    /// Whether a good part of what it reads comes over TCP.
    pub(super) fn uses_network(&self) -> bool {
        self.seconds > 0.0 && self.received / self.seconds > TRICKLE && self.received > COUNTS * self.read
    }

    /// Whether it reads anything at all.
    pub(super) fn reads(&self) -> bool {
        self.seconds > 0.0 && self.read / self.seconds > TRICKLE
    }

    /// Bytes that it got, from wherever: by read calls, or by page faults on mapped files, which
    /// only storage counts.
    pub(super) fn bytes(&self) -> f64 {
        self.read.max(self.storage)
    }

    /// Of a share of its time on a CPU, the part that the kernel works on its reads.
    pub(super) fn copied(&self, on_cpu: f64) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1e6;

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
}
