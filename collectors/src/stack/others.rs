//! The threads of a trainer beside its main one: which of them feed it, and where they are.
//!
//! One reading of a process gives the stacks of all its threads, so theirs cost little more than the
//! looks at their kernel states. Those are taken at every third reading, of a few threads in turn.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use feedline_traces::{Symbol, Ts};

use super::rules::{Frame, Rules, Site, Verdict};
use super::spy::{Other, Root};
use super::tally::Tally;
use crate::Host;
use crate::process::parse::status;
use crate::thread::{Known, Look, Probe, State, ThreadId};

/// Threads of one process that are looked at in one reading.
const AT_ONCE: usize = 16;
/// Threads of one process that are followed.
pub(super) const MOST: usize = 64;
/// They are looked at in one of so many readings.
const EVERY: u32 = 3;
/// Functions remembered in which a trainer awaits a batch.
const PLACES: usize = 8;
/// Between two readings of the names of threads, and of their ids in another namespace.
const NAME_EVERY: Duration = Duration::from_secs(5);
/// Names are looked for among all modules of the program, which takes half a second where there are
/// thousands: then seldom, so that it takes a thousandth of a core.
const NAME_SHARE: u32 = 1000;
/// A thread that no reading shows for so long is gone.
const GONE: Duration = Duration::from_secs(10);
/// Stacks that speak for loading from which a thread is known to feed the trainer.
const KNOWN: u32 = 2;

/// The other threads of one trainer.
#[derive(Debug)]
pub(super) struct Others {
    process: ThreadId,
    /// The main thread's id within the process's own namespace, where that is another.
    inner: Option<u32>,
    of: BTreeMap<u32, Thread>,
    /// The last thread that was looked at.
    last: u32,
    turn: u32,
    /// When names may be read again.
    names_at: Ts,
    /// Where the trainer awaits batches: the file, and the class or function within it.
    places: Vec<(String, String)>,
    /// Whether it awaits them in futures.
    futures: bool,
    /// Ids as seen from here by those within another namespace, and when they were read.
    outer: HashMap<u32, u32>,
    outer_at: Ts,
}

#[derive(Debug)]
struct Thread {
    probe: Probe,
    root: Root,
    name: Option<Symbol>,
    seen: Ts,
    /// Stacks that speak for loading, and for something else.
    loads: u32,
    elsewhere: u32,
}

impl Thread {
    fn new(id: ThreadId, now: Ts) -> Self {
        let (probe, root) = (Probe::new(id), Root::default());
        Self { probe, root, name: None, seen: now, loads: 0, elsewhere: 0 }
    }

    fn feeds(&self) -> bool {
        self.loads >= KNOWN && self.loads > self.elsewhere
    }
}

/// A thread that was looked at around a reading, and its states then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Looked {
    thread: u32,
    before: State,
    after: State,
}

/// Where another thread was, between two looks at it.
#[derive(Debug)]
pub(super) struct Sighting {
    pub(super) thread: u32,
    pub(super) before: State,
    pub(super) after: State,
    /// The stack and where it is; `None` when it could not be read.
    pub(super) place: Option<(Vec<Frame>, Verdict)>,
}

impl Sighting {
    /// Counts it.
    pub(super) fn count(&self, tally: &mut Tally) {
        match &self.place {
            Some((frames, verdict)) => tally.see(self.before, self.after, frames, verdict),
            None => tally.miss(self.before),
        }
    }
}

impl Others {
    /// None known yet.
    pub(super) fn new(process: ThreadId, inner: Option<u32>, now: Ts) -> Self {
        let long_ago = Ts(now.0.saturating_sub(i64::MAX / 2));
        Self {
            process,
            inner,
            of: BTreeMap::new(),
            last: 0,
            turn: 0,
            names_at: now,
            places: Vec::new(),
            futures: false,
            outer: HashMap::new(),
            outer_at: long_ago,
        }
    }

    /// Whether this reading is one of those that look at them, and whether it should give names.
    pub(super) fn wanted(&mut self, now: Ts) -> (bool, bool) {
        self.turn = (self.turn + 1) % EVERY;
        let due = self.turn == 1;
        let unnamed = self.of.values().any(|thread| thread.name.is_none());
        let names = due && unnamed && now >= self.names_at;
        if names {
            self.names_at = now.plus(NAME_EVERY);
        }
        (due, names)
    }

    /// Reading the names at `now` took so much CPU time.
    pub(super) fn named(&mut self, now: Ts, cost: Duration) {
        self.names_at = self.names_at.max(now.plus(cost.saturating_mul(NAME_SHARE)));
    }

    /// Looks at as many as go into one reading, each in its turn.
    pub(super) fn before(&mut self, host: &Host) -> Vec<Looked> {
        let later = self.of.range(self.last.saturating_add(1)..).map(|(id, _)| *id);
        let turn: Vec<u32> = later.chain(self.of.range(..=self.last).map(|(id, _)| *id)).take(AT_ONCE).collect();
        let mut looked = Vec::new();
        for thread in turn {
            self.last = thread;
            match self.of.get_mut(&thread).map(|thread| thread.probe.look(host)) {
                Some(Look::Seen(state)) => looked.push(Looked { thread, before: state, after: state }),
                Some(Look::Gone) => drop(self.of.remove(&thread)),
                Some(Look::Failed) | None => {}
            }
        }
        looked
    }

    /// Looks at them once more, just after the reading.
    pub(super) fn after(&mut self, host: &Host, looked: &mut [Looked]) {
        for one in looked {
            if let Some(Look::Seen(state)) = self.of.get_mut(&one.thread).map(|thread| thread.probe.look(host)) {
                one.after = state;
            }
        }
    }

    /// What a reading says of those that were looked at around it. Threads that are new are looked at
    /// from the next one on.
    pub(super) fn judge(
        &mut self,
        host: &Host,
        rules: &mut Rules,
        now: Ts,
        looked: &[Looked],
        read: Vec<Other>,
    ) -> Vec<Sighting> {
        let mut out = Vec::new();
        for other in read {
            let Some(id) = self.id(host, other.id, now).filter(|id| *id != self.process.pid) else { continue };
            if !self.of.contains_key(&id) && self.of.len() >= MOST {
                continue;
            }
            let new = ThreadId { tid: id, ..self.process };
            let thread = self.of.entry(id).or_insert_with(|| Thread::new(new, now));
            thread.seen = now;
            let name = other.name.map(|name| Symbol::from(name.chars().take(64).collect::<String>()));
            thread.name = name.or(thread.name.take());
            let whole = !other.frames.is_empty() && thread.root.is_whole(&other.frames);
            let Some(Looked { before, after, .. }) = looked.iter().find(|looked| looked.thread == id).copied() else {
                continue;
            };
            let place = whole.then(|| {
                let verdict = rules.decide_thread(before, &other.frames);
                match speaks_for_loading(&verdict, &other.frames, &self.places, self.futures) {
                    Some(true) => thread.loads = thread.loads.saturating_add(1),
                    Some(false) => thread.elsewhere = thread.elsewhere.saturating_add(1),
                    None => {}
                }
                (other.frames, verdict)
            });
            out.push(Sighting { thread: id, before, after, place });
        }
        self.of.retain(|_, thread| now < thread.seen.plus(GONE));
        out
    }

    /// Takes in where the main thread is: in which function, and in what, it awaits a batch.
    pub(super) fn main(&mut self, frames: &[Frame], verdict: &Verdict) {
        let (Site::Loader, Some(at)) = (verdict.site, verdict.frame) else { return };
        self.futures |= frames.iter().skip(at).any(|frame| frame.file.ends_with("concurrent/futures/_base.py"));
        let Some(caller) = at.checked_sub(1).and_then(|at| frames.get(at)) else { return };
        let place = (caller.file.clone(), outer_name(caller).to_owned());
        if self.places.len() < PLACES && !self.places.contains(&place) {
            self.places.push(place);
        }
    }

    /// Those that feed the trainer first.
    pub(super) fn known(&self) -> Vec<Known> {
        let known =
            |(tid, thread): (&u32, &Thread)| Known { tid: *tid, name: thread.name.clone(), feeds: thread.feeds() };
        let mut all: Vec<Known> = self.of.iter().map(known).collect();
        all.sort_by_key(|known| !known.feeds);
        all
    }

    /// The id of a thread as seen from here.
    fn id(&mut self, host: &Host, id: u32, now: Ts) -> Option<u32> {
        if self.inner.is_none() {
            return Some(id);
        }
        if !self.outer.contains_key(&id) && now >= self.outer_at.plus(NAME_EVERY) {
            self.outer_at = now;
            let folder = format!("proc/{}/task", self.process.pid);
            self.outer.clear();
            for name in host.names(&folder).into_iter().take(4 * MOST) {
                let text = host.read(format!("{folder}/{name}/status")).unwrap_or_default();
                if let (Ok(outer), Some(inner)) = (name.parse(), status(&text).inner()) {
                    self.outer.insert(inner, outer);
                }
            }
        }
        self.outer.get(&id).copied()
    }
}

/// Whether a stack of a thread speaks for feeding the trainer (`true`) or for something else: it makes,
/// puts together or hands over samples by a rule that knows; it works in a pool whose futures the
/// trainer awaits; or it was begun where the trainer awaits its batches. An idle thread says nothing.
fn speaks_for_loading(verdict: &Verdict, frames: &[Frame], places: &[(String, String)], futures: bool) -> Option<bool> {
    let by_default = verdict.framework.as_deref() == Some("threads");
    match verdict.site {
        Site::WorkerIdle => None,
        Site::WorkerDecode | Site::WorkerCollate | Site::WorkerPut => Some(true),
        Site::WorkerFetch if !by_default => Some(true),
        Site::WorkerFetch if futures && frames.iter().any(in_pool) => Some(true),
        Site::WorkerFetch => None,
        Site::Host if verdict.frame.is_none() => belongs(frames, places).then_some(true),
        _ => Some(false),
    }
}

fn in_pool(frame: &Frame) -> bool {
    frame.file.ends_with("concurrent/futures/thread.py")
}

/// Whether the function that a thread was begun with lies where the trainer awaits batches: in the
/// same class or enclosing function, as a home-made prefetcher and the method that takes from it.
fn belongs(frames: &[Frame], places: &[(String, String)]) -> bool {
    let begun = frames.iter().find(|frame| !frame.file.ends_with("/threading.py"));
    begun.is_some_and(|frame| places.iter().any(|(file, outer)| *file == frame.file && outer == outer_name(frame)))
}

/// The first part of a qualified name: a class, or the function that another is defined in.
fn outer_name(frame: &Frame) -> &str {
    frame.function.split('.').next().unwrap_or(&frame.function)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: &str = "threading.py:Thread._bootstrap threading.py:Thread._bootstrap_inner threading.py:Thread.run \
        concurrent/futures/thread.py:_worker";
    const OWN: &str = "threading.py:Thread._bootstrap threading.py:Thread._bootstrap_inner threading.py:Thread.run";

    fn stack(text: &str) -> Vec<Frame> {
        let frame = |part: &str| {
            let (file, function) = part.rsplit_once(':').unwrap();
            let file = if file.starts_with('/') { file.to_owned() } else { format!("/usr/lib/python3.11/{file}") };
            Frame { file, function: function.to_owned() }
        };
        text.split_whitespace().map(frame).collect()
    }

    /// Where a thread is, and whether its stack speaks for loading, beside a main thread that waits.
    fn seen(main: &str, state: State, text: &str) -> (Site, Option<bool>) {
        let mut rules = Rules::load(None).unwrap();
        let (frames, main) = (stack(text), stack(main));
        let id = ThreadId { pid: 7, start: 5, tid: 7 };
        let mut others = Others::new(id, None, Ts(0));
        let verdict = rules.decide(crate::Role::Trainer, State::Futex, &main);
        others.main(&main, &verdict);
        let verdict = rules.decide_thread(state, &frames);
        let speaks = speaks_for_loading(&verdict, &frames, &others.places, others.futures);
        (verdict.site, speaks)
    }

    #[test]
    fn threads_that_make_hand_over_or_fill_what_the_trainer_awaits_feed_it() {
        use Site::{Checkpoint, Host, WorkerDecode, WorkerFetch, WorkerIdle, WorkerPut};
        let queue = "/job/t.py:<module> /job/load.py:threads queue.py:Queue.get threading.py:Condition.wait";
        let futures = "/job/t.py:<module> /job/load.py:futures concurrent/futures/_base.py:Future.result";
        let cases = [
            (queue, format!("{OWN} /job/load.py:threads.<locals>.load /job/store.py:Client.read"), Host, Some(true)),
            (queue, format!("{OWN} /job/watch.py:beat"), Host, None),
            (queue, format!("{OWN} /job/a.py:f /x/PIL/ImageFile.py:load"), WorkerDecode, Some(true)),
            (queue, format!("{OWN} /job/a.py:f queue.py:Queue.put threading.py:Condition.wait"), WorkerPut, Some(true)),
            (queue, format!("{OWN} /job/a.py:f queue.py:Queue.get threading.py:Condition.wait"), WorkerIdle, None),
            (queue, POOL.to_owned(), WorkerIdle, None),
            (queue, format!("{POOL} concurrent/futures/thread.py:_WorkItem.run /job/s.py:read"), WorkerFetch, None),
            (
                futures,
                format!("{POOL} concurrent/futures/thread.py:_WorkItem.run /job/s.py:read"),
                WorkerFetch,
                Some(true),
            ),
            (futures, POOL.to_owned(), WorkerIdle, None),
            (
                futures,
                format!("{POOL} concurrent/futures/thread.py:_WorkItem.run /x/torch/serialization.py:save"),
                Checkpoint,
                Some(false),
            ),
            (queue, format!("{OWN} /x/wandb/sdk/sender.py:run /x/requests/api.py:post"), Host, Some(false)),
            (queue, format!("{OWN} multiprocessing/pool.py:worker"), WorkerIdle, None),
            (queue, format!("{OWN} multiprocessing/pool.py:worker /job/a.py:f"), WorkerFetch, None),
            (queue, format!("{OWN} /job/a.py:f threading.py:Event.wait threading.py:Condition.wait"), WorkerIdle, None),
        ];
        for (main, text, site, speaks) in cases {
            assert_eq!(seen(main, State::Read, &text), (site, speaks), "{text}");
        }
    }
}
