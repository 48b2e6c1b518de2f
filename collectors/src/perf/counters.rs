//! The counters of one thread, in two groups: what the kernel counts, and what the processor does.

use std::io;

use feedline_traces::Symbol;
use perf_event::events::{Event, Hardware, Software};
use perf_event::{Builder, Counter, ReadFormat};

/// Counters that are read together. The first leads the group.
struct Group {
    counters: Vec<Counter>,
}

/// A reading of a group.
pub(super) struct Reading {
    /// Values in the order of the events.
    pub(super) values: Vec<u64>,
    /// Nanoseconds that the group was to count.
    pub(super) enabled: Option<u64>,
    /// Nanoseconds that it did count: several groups share the processor's few counters.
    pub(super) running: Option<u64>,
}

/// Whether what happens inside the kernel counts too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// It does.
    Everything,
    /// It does not: all that `perf_event_paranoid` of 2 allows.
    User,
}

impl Group {
    fn open<E: Event + Copy>(thread: u32, scope: Scope, events: &[E]) -> io::Result<Self> {
        let thread = i32::try_from(thread).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut counters: Vec<Counter> = Vec::with_capacity(events.len());
        for event in events {
            let mut builder = Builder::new(*event);
            builder.observe_pid(thread).any_cpu().enabled(true);
            if scope == Scope::Everything {
                builder.include_kernel();
            }
            let counter = match counters.first_mut() {
                None => {
                    let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
                    builder.read_format(ReadFormat::GROUP | ReadFormat::ID | times).build()
                }
                Some(leader) => builder.build_with_group(leader),
            };
            counters.push(counter?);
        }
        Ok(Self { counters })
    }

    fn read(&mut self) -> io::Result<Reading> {
        let Some(leader) = self.counters.first_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        let group = leader.read_group()?;
        let nanos = |span: Option<std::time::Duration>| span.and_then(|span| u64::try_from(span.as_nanos()).ok());
        let value = |counter: &Counter| group.get(counter).map(|entry| entry.value());
        Ok(Reading {
            values: self.counters.iter().filter_map(value).collect(),
            enabled: nanos(group.time_enabled()),
            running: nanos(group.time_running()),
        })
    }
}

/// The counters of one thread.
pub(super) struct Watch {
    /// The process it belongs to.
    pub(super) process: Symbol,
    /// Its number.
    pub(super) thread: u32,
    kernel: Group,
    processor: Option<Group>,
}

/// What the kernel counts, in the order of [`Watch::kernel`]'s values. Switches and migrations
/// happen inside the kernel, so that a count without it would be a false zero.
const KERNEL: [Software; 4] =
    [Software::TASK_CLOCK, Software::PAGE_FAULTS, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS];
const KERNEL_USER: [Software; 2] = [Software::TASK_CLOCK, Software::PAGE_FAULTS];
/// What the processor counts, in the order of [`Watch::processor`]'s values.
const PROCESSOR: [Hardware; 3] = [Hardware::INSTRUCTIONS, Hardware::CPU_CYCLES, Hardware::CACHE_MISSES];

/// File descriptors that one thread takes at most.
pub(super) const DESCRIPTORS: usize = KERNEL.len() + PROCESSOR.len();

impl Watch {
    /// Opens the counters of a thread, those of the processor where asked.
    ///
    /// # Errors
    /// When the kernel refuses its own counters. A refusal of the processor's is the second value.
    pub(super) fn open(
        process: &Symbol,
        thread: u32,
        scope: Scope,
        processor: bool,
    ) -> io::Result<(Self, Option<io::Error>)> {
        let kernel = match scope {
            Scope::Everything => Group::open(thread, scope, &KERNEL)?,
            Scope::User => Group::open(thread, scope, &KERNEL_USER)?,
        };
        let (processor, refusal) = match processor.then(|| Group::open(thread, scope, &PROCESSOR)).transpose() {
            Ok(group) => (group, None),
            Err(error) => (None, Some(error)),
        };
        Ok((Self { process: process.clone(), thread, kernel, processor }, refusal))
    }

    /// File descriptors it holds.
    pub(super) fn descriptors(&self) -> usize {
        self.kernel.counters.len() + self.processor.as_ref().map_or(0, |group| group.counters.len())
    }

    /// What the kernel counted: time, faults, switches and migrations, as far as counted.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub(super) fn kernel(&mut self) -> io::Result<Reading> {
        self.kernel.read()
    }

    /// What the processor counted: instructions, cycles and cache misses.
    pub(super) fn processor(&mut self) -> Option<Reading> {
        self.processor.as_mut()?.read().ok()
    }
}
