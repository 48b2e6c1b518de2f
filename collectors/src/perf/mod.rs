//! Performance counters of trainer and worker threads.

use std::collections::BTreeMap;

use feedline_traces::unit::{Count, Nanos};
use feedline_traces::{Background, Collector, Counter, Key, Result, Row as _, Rows, Symbol, Table, table};

use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host, Role, Target};

mod counters;
pub mod parse;

use counters::{DESCRIPTORS, Scope, Watch};

/// File descriptors that the counters of all threads may take, where the limit allows.
const BUDGET: u64 = 512;

table! {
    /// Performance counters of the threads of trainers and workers, per tick, since Feedline saw
    /// the thread. Main threads come first where not all can be counted.
    pub perf: PerfRow {
        /// The process, as in `process.process`.
        process: Key,
        /// Thread id.
        thread: Key,
        /// Time on a CPU.
        task_clock: Counter<Nanos>,
        /// Page faults.
        page_faults: Counter<Count>,
        /// Times that the thread left its CPU, of itself or not.
        context_switches: Counter<Count>,
        /// Times that it moved to another CPU.
        migrations: Counter<Count>,
        /// Instructions retired; to be scaled by `enabled` over `running`.
        instructions: Counter<Count>,
        /// Processor cycles; to be scaled likewise.
        cycles: Counter<Count>,
        /// Misses of the last-level cache; to be scaled likewise.
        cache_misses: Counter<Count>,
        /// Time on a CPU in which the processor's counters were to count.
        enabled: Counter<Nanos>,
        /// Time in which they did; several groups share the few that there are.
        running: Counter<Nanos>,
    }
}

/// Counts trainer and worker threads; one set of counters a thread, because counters opened on a
/// process see only its main thread.
pub struct Perf {
    host: Host,
    target: Target,
    reasons: Reasons,
    watches: BTreeMap<(Symbol, u32), Watch>,
    scope: Scope,
    /// Why the processor's counters are not to be had, once that is known.
    processor: Option<String>,
    /// Why nothing is to be had, once that is known.
    refused: Option<String>,
    drops: u64,
}

impl Perf {
    /// The counters of a job's threads.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        let captured = (!context.host.is_live()).then(|| "a captured machine has no counters".to_owned());
        Self {
            host: context.host.clone(),
            target: context.target.clone(),
            reasons: Reasons::default(),
            watches: BTreeMap::new(),
            scope: Scope::Everything,
            processor: None,
            refused: captured,
            drops: 0,
        }
    }

    /// The threads to count, the most telling first: main threads, then the others of trainers.
    fn threads(&self) -> Vec<(Symbol, u32)> {
        let mut threads = Vec::new();
        for process in self.target.processes().iter() {
            let rank = match process.role {
                Role::Trainer => 1,
                Role::Worker => 2,
                Role::Forkserver | Role::Helper => continue,
            };
            for name in self.host.names(format!("proc/{}/task", process.pid)) {
                let Ok(thread) = name.parse::<u32>() else { continue };
                let rank = if thread == process.pid { 0 } else { rank };
                threads.push((rank, process.key.clone(), thread));
            }
        }
        threads.sort();
        threads.into_iter().map(|(_, process, thread)| (process, thread)).collect()
    }

    /// Opens the counters of a thread, with less where the kernel allows less.
    fn open(&mut self, process: &Symbol, thread: u32) {
        let paranoid = || self.host.read("proc/sys/kernel/perf_event_paranoid").ok();
        let refusal = |error: &std::io::Error| {
            let level = paranoid().and_then(|text| parse::paranoid(&text));
            parse::refusal(error.raw_os_error().unwrap_or(0), level)
        };
        let mut outcome = Watch::open(process, thread, self.scope, self.processor.is_none());
        if let Err(error) = &outcome
            && matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
            && self.scope == Scope::Everything
        {
            self.scope = Scope::User;
            outcome = Watch::open(process, thread, self.scope, self.processor.is_none());
        }
        match outcome {
            Ok((watch, processor)) => {
                if let Some(error) = processor.filter(|error| error.raw_os_error() != Some(libc::ESRCH)) {
                    self.processor = Some(refusal(&error));
                }
                self.watches.insert((process.clone(), thread), watch);
            }
            // It is gone already.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => {
                // What holds for the first holds for all; a later one may only lack a descriptor.
                if self.watches.is_empty() {
                    self.refused = Some(refusal(&error));
                }
                self.drops += 1;
            }
        }
    }

    fn explain(&mut self, out: &mut Rows<'_>) {
        let nothing = self.watches.is_empty().then_some(self.refused.as_deref()).flatten();
        self.reasons.say(out, "perf", "", nothing);
        if self.watches.is_empty() {
            return;
        }
        let processor = self.processor.as_deref();
        self.reasons.say(out, "perf.instructions", "", processor);
        let user = "only user space may be counted; run as root or with CAP_PERFMON";
        self.reasons.say(out, "perf.context_switches", "", (self.scope == Scope::User).then_some(user));
    }
}

/// File descriptors to spend: a quarter of what the process may open.
fn budget() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    usize::try_from(limit.map_or(BUDGET, |limit| (limit / 4).min(BUDGET))).unwrap_or(0)
}

impl Collector for Perf {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn tables(&self) -> Vec<Table> {
        vec![PerfRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let threads = self.threads();
        // The counters of a thread that is gone are closed before new ones are opened.
        self.watches.retain(|(process, thread), _| threads.iter().any(|(p, t)| p == process && t == thread));
        let budget = budget();
        let mut held: usize = self.watches.values().map(Watch::descriptors).sum();
        for (process, thread) in threads {
            if self.refused.is_some() {
                break;
            }
            if self.watches.contains_key(&(process.clone(), thread)) {
                continue;
            }
            if held + DESCRIPTORS > budget {
                self.drops += 1;
                continue;
            }
            self.open(&process, thread);
            held += self.watches.get(&(process, thread)).map_or(0, Watch::descriptors);
        }
        self.explain(out);
        self.watches.values_mut().filter_map(row).for_each(|row| out.push(row));
        Ok(())
    }

    fn background(&mut self) -> Background {
        Background { drops: std::mem::take(&mut self.drops), ..Background::default() }
    }
}

fn row(watch: &mut Watch) -> Option<PerfRow> {
    let kernel = watch.kernel().ok()?;
    let processor = watch.processor();
    let kernel = |index: usize| kernel.values.get(index).copied();
    let count = |index: usize| processor.as_ref()?.values.get(index).copied();
    Some(PerfRow {
        process: watch.process.clone().into(),
        thread: watch.thread.to_string().into(),
        task_clock: kernel(0).into(),
        page_faults: kernel(1).into(),
        context_switches: kernel(2).into(),
        migrations: kernel(3).into(),
        instructions: count(0).into(),
        cycles: count(1).into(),
        cache_misses: count(2).into(),
        enabled: processor.as_ref().and_then(|p| p.enabled).into(),
        running: processor.as_ref().and_then(|p| p.running).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;
    use crate::readings::{Readings, captured};
    use std::sync::{Arc, mpsc};

    fn me() -> Vec<Process> {
        let pid = std::process::id();
        vec![Process { pid, key: "me".into(), role: Role::Trainer, ..Process::default() }]
    }

    fn live() -> Context {
        let context = Context::new(Host::this(), Arc::new(feedline_traces::SystemClock::anchored_now()));
        context.target.replace(me());
        context
    }

    #[test]
    fn a_capture_has_no_counters_and_says_why() {
        let context = captured("/nowhere");
        context.target.replace(me());
        let readings = Readings::of(&mut Perf::new(&context));
        assert!(readings.entities("perf").is_empty());
        assert!(readings.reason("perf", "").unwrap().contains("captured"));
    }

    #[test]
    fn each_thread_is_counted_by_itself_and_closed_when_it_ends() {
        let (say, hear) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            say.send(rustix::thread::gettid().as_raw_nonzero().get().to_string()).unwrap();
            let mut sum = 0_u64;
            while ended.try_recv().is_err() {
                sum = std::hint::black_box(sum.wrapping_add(1));
            }
        });
        let id = hear.recv().unwrap();
        let mut perf = Perf::new(&live());
        let mut readings = Readings::of(&mut perf);
        if readings.reason("perf", "").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(50));
            readings.again(&mut perf);
            assert!(readings.whole("perf.task_clock", &["me", &id]).unwrap() > 1_000_000);
            assert!(readings.entities("perf").len() >= 2);
        }
        end.send(()).unwrap();
        thread.join().unwrap();
        readings.again(&mut perf);
        assert!(!perf.watches.keys().any(|(_, thread)| thread.to_string() == id));
    }

    #[test]
    fn what_the_processor_does_not_count_is_missing_with_a_reason() {
        let readings = Readings::of(&mut Perf::new(&live()));
        for entity in readings.entities("perf") {
            let keys: Vec<&str> = entity.split(' ').collect();
            let counted = readings.whole("perf.instructions", &keys).is_some();
            assert_eq!(counted, readings.reason("perf.instructions", "").is_none());
        }
    }
}
