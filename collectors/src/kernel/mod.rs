//! What only the kernel sees: latencies of block requests, what threads wait for while they are
//! off their CPU, reads and opens by kind of file, and calls into the device's libraries.
//!
//! Programs in the kernel (`bpf/kernel.bpf.c`) count; once a second the counts are read. Nothing
//! is sent one by one, so that 100,000 requests a second cost the same rows as one. Every map has
//! a fixed size, and `kernel_loss` says what had no room. It is opt-in (`--kernel`) and takes
//! root, or CAP_BPF and CAP_PERFMON; where the kernel refuses, the time off the CPU is read from
//! perf's rings instead, without its reasons. See `docs/kernel-events.md`.

mod elf;
mod layout;
mod meter;
mod probes;
mod programs;
mod ring;
mod symbols;
mod tallies;

use std::collections::HashMap;

use feedline_traces::unit::{Bytes, Count, Nanos};
use feedline_traces::{Background, Collector, Counter, Key, Result, Row as _, Rows, Symbol, Table, table};

use crate::absent::{AbsentRow, Reasons};
use crate::monotonic::monotonic;
use crate::{Context, Host, Process, Role, Target};
use meter::Meter;
use probes::Probes;
use programs::{Part, Programs};
use ring::Ring;
use tallies::Tallies;

table! {
    /// Latencies of block requests from issue to completion, of the whole machine, as a histogram:
    /// one row per device, operation and bucket that has any. Counted by programs in the kernel.
    pub block_latency: BlockLatencyRow {
        /// The device, as in `disk.device`.
        device: Key,
        /// `read`, `write`, `flush`, `discard` or `other`.
        operation: Key,
        /// Upper bound of the latencies in the bucket, in nanoseconds: a power of two. The lower
        /// bound is half of it.
        bucket: Key,
        /// Requests that completed with such a latency.
        requests: Counter<Count>,
        /// Their latencies in all, exact.
        time: Counter<Nanos>,
    }
}

table! {
    /// Time that threads of trainers and workers spent off their CPU, by reason, exact. One row per
    /// thread and reason: of main threads, and of the busiest others.
    pub off_cpu: OffCpuRow {
        /// The process, as in `process.process`.
        process: Key,
        /// Thread id.
        thread: Key,
        /// `io` (uninterruptible, as waits for storage and file systems are), `fault` (a page fault
        /// that waited), `futex`, `poll`, `read`, `write`, `sleep`, `wait`, `stopped`, `queue`
        /// (ready, but no CPU was free), `other`; `unknown` where the kernel does not tell, and
        /// `blocked` from perf's rings, which tell no reason.
        reason: Key,
        /// Time, a wait that is still going on included.
        time: Counter<Nanos>,
        /// Times that such a wait ended.
        times: Counter<Count>,
    }
}

table! {
    /// Read and open calls of the job's processes, by kind of file: `read`, `pread` and their
    /// vectored forms; not `recv`, io_uring or memory-mapped files.
    pub file_io: FileIoRow {
        /// The process, as in `process.process`.
        process: Key,
        /// `read` or `open`.
        operation: Key,
        /// What it was on: `file`, `remote` (a network or FUSE file system), `shm`, `pipe`,
        /// `socket`, `other`; empty for what could not be opened.
        on: Key,
        /// Calls.
        calls: Counter<Count>,
        /// Time inside the calls.
        time: Counter<Nanos>,
        /// Bytes that reads returned.
        bytes: Counter<Bytes>,
    }
}

table! {
    /// Calls of trainers into the device's libraries, by thread: what the job's own code does with
    /// its device. A call within a call counts as part of the outer one.
    pub device_call: DeviceCallRow {
        /// The process, as in `process.process`.
        process: Key,
        /// Thread id.
        thread: Key,
        /// `launch`, `copy_h2d`, `copy_d2h`, `copy_other`, `sync`, `collective` or `alloc`.
        call: Key,
        /// Calls that returned.
        calls: Counter<Count>,
        /// Time inside the calls, one that has not returned yet included.
        time: Counter<Nanos>,
        /// Bytes, as far as the arguments tell them; two-dimensional copies do not.
        bytes: Counter<Bytes>,
    }
}

table! {
    /// What the kernel's programs could not keep because a map was full, or perf because a ring was.
    pub kernel_loss: KernelLossRow {
        /// What was lost.
        what: Key,
        /// How much of it, since Feedline attached.
        lost: Counter<Count>,
    }
}

/// What there is at the moment.
enum Source {
    /// Nothing, and why.
    Off(String),
    /// Nothing was tried yet: loading takes some tenths of a second, so the first reading does it.
    Unopened,
    /// The programs.
    Programs(Box<Programs>),
    /// Perf's rings, because the programs were refused.
    Rings(Ring),
}

/// Counts in the kernel, where asked to.
pub struct KernelEvents {
    host: Host,
    target: Target,
    reasons: Reasons,
    source: Source,
    probes: Probes,
    tallies: Tallies,
    meter: Meter,
    /// CPU time of the programs that `health` was not told yet.
    cpu: u64,
    drops: u64,
    lost: HashMap<&'static str, u64>,
}

impl KernelEvents {
    /// The kernel's events of a job, if [`crate::Settings::kernel`] asks for them.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        let source = if !context.settings.kernel {
            Source::Off("not asked for; `--kernel` counts them, as root".into())
        } else if !context.host.is_live() {
            Source::Off("a captured machine has no kernel to ask".into())
        } else {
            Source::Unopened
        };
        Self {
            host: context.host.clone(),
            target: context.target.clone(),
            reasons: Reasons::default(),
            source,
            probes: Probes::default(),
            tallies: Tallies::default(),
            meter: Meter::default(),
            cpu: 0,
            drops: 0,
            lost: HashMap::new(),
        }
    }

    fn open(&mut self) {
        raise_descriptors();
        self.source = match Programs::load(&self.host) {
            Ok(programs) => Source::Programs(Box::new(programs)),
            Err(error) => Source::Rings(Ring::new(error.message)),
        };
    }

    fn explain(&mut self, out: &mut Rows<'_>) {
        for part in Part::ALL {
            let reason = match &self.source {
                Source::Off(why) => Some(why.clone()),
                Source::Unopened => None,
                Source::Programs(programs) => programs.refused.get(&part).cloned(),
                Source::Rings(ring) if part == Part::Off => Some(ring.degraded()),
                Source::Rings(ring) => Some(ring.refused().to_owned()),
            };
            self.reasons.say(out, part.table(), "", reason.as_deref());
        }
        let programs = matches!(self.source, Source::Programs(_));
        let unmeasured = "this kernel does not measure what its programs cost (Linux 5.8 is the first that does)";
        self.reasons.say(out, "health.cost", "kernel", (programs && !self.meter.measures()).then_some(unmeasured));
        if let Source::Programs(programs) = &self.source
            && !programs.refused.contains_key(&Part::Calls)
        {
            for (process, reason) in self.probes.reasons() {
                self.reasons.say(out, Part::Calls.table(), process, reason.as_deref());
            }
        }
    }

    fn account(&mut self, out: &mut Rows<'_>, losses: Vec<(&'static str, u64)>) {
        for (what, lost) in losses {
            let before = self.lost.insert(what, lost).unwrap_or(0);
            self.drops += lost.saturating_sub(before);
            out.push(KernelLossRow { what: what.into(), lost: lost.into() });
        }
    }
}

/// Each probe holds a descriptor: as many as the limit lets this process have.
fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const WANTED: u64 = 4096;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
    if limit.current.is_some_and(|current| current < most) {
        // Where that is refused, fewer probes are set, and `absent` says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}

/// Whose threads are watched, beside files: trainers and workers.
fn has_threads(process: &Process) -> bool {
    matches!(process.role, Role::Trainer | Role::Worker)
}

impl Collector for KernelEvents {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn tables(&self) -> Vec<Table> {
        vec![
            BlockLatencyRow::table(),
            OffCpuRow::table(),
            FileIoRow::table(),
            DeviceCallRow::table(),
            KernelLossRow::table(),
            AbsentRow::table(),
        ]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        if matches!(self.source, Source::Unopened) {
            self.open();
        }
        let processes = self.target.processes();
        let losses = match &mut self.source {
            Source::Off(_) | Source::Unopened => Vec::new(),
            Source::Programs(programs) => {
                if !programs.refused.contains_key(&Part::Calls) {
                    self.probes.update(&self.host, programs, &processes);
                }
                let losses = self.tallies.read(&self.host, programs, &processes, out)?;
                self.cpu += self.meter.spent(programs, monotonic());
                for (process, call, rate) in self.tallies.too_often() {
                    self.probes.shed(process, call, rate);
                }
                losses
            }
            Source::Rings(ring) => ring.read(&processes, out),
        };
        self.account(out, losses);
        self.explain(out);
        Ok(())
    }

    fn background(&mut self) -> Background {
        Background { cpu: std::mem::take(&mut self.cpu), drops: std::mem::take(&mut self.drops), skipped: 0 }
    }
}

fn keys(names: &HashMap<u32, Symbol>, tgid: u32) -> Option<Key> {
    names.get(&tgid).map(|name| Key(name.clone()))
}

#[cfg(test)]
mod tests;
