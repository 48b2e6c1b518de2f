//! Stations: buffers with room for so many, slots that are taken in turn, and capacity that is
//! shared. Each keeps the area under its occupancy and, apart from it, the sum of stays, so that
//! Little's law can be held against every run.

use super::calendar::Calendar;

/// No actor.
pub(super) const NOBODY: u32 = u32::MAX;

/// A number over time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Level {
    /// Now.
    pub(crate) value: f64,
    /// Its integral.
    pub(crate) area: f64,
    /// The largest since the statistics began.
    pub(crate) most: f64,
    last: f64,
}

impl Level {
    pub(super) fn add(&mut self, now: f64, by: f64) {
        self.area += self.value * (now - self.last);
        self.last = now;
        self.value += by;
        self.most = self.most.max(self.value);
    }

    pub(super) fn begin(&mut self, now: f64) {
        *self = Self { value: self.value, area: 0.0, most: self.value, last: now };
    }
}

/// Stays of those that came and went.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stays {
    /// Their sum in seconds, only what lies after the statistics began.
    pub(crate) sum: f64,
    /// How many ended.
    pub(crate) count: u64,
}

impl Stays {
    pub(super) fn end(&mut self, now: f64, entered: f64, began: f64) {
        self.sum += now - entered.max(began);
        self.count += 1;
    }
}

/// Actors that wait, first come first served: a list threaded through `next`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    head: u32,
    tail: u32,
}

impl Line {
    pub(super) const EMPTY: Self = Self { head: NOBODY, tail: NOBODY };

    pub(super) fn push(&mut self, next: &mut [u32], actor: u32) {
        next[actor as usize] = NOBODY;
        if self.head == NOBODY {
            self.head = actor;
        } else {
            next[self.tail as usize] = actor;
        }
        self.tail = actor;
    }

    pub(super) fn pop(&mut self, next: &[u32]) -> Option<u32> {
        let first = self.head;
        if first == NOBODY {
            return None;
        }
        self.head = next[first as usize];
        Some(first)
    }
}

/// A bounded queue of tokens.
#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    ring: Vec<(u64, f64)>,
    head: usize,
    filled: usize,
    pub(super) takers: Line,
    pub(super) putters: Line,
    /// Tokens in it.
    pub(crate) level: Level,
    /// How long tokens stay.
    pub(crate) stays: Stays,
}

impl Buffer {
    pub(super) fn new(room: u32, tokens: &[u64]) -> Self {
        let room = (room as usize).max(tokens.len()).max(1);
        let mut buffer = Self {
            ring: vec![(0, 0.0); room],
            head: 0,
            filled: 0,
            takers: Line::EMPTY,
            putters: Line::EMPTY,
            level: Level::default(),
            stays: Stays::default(),
        };
        tokens.iter().for_each(|&token| buffer.push(0.0, token));
        buffer
    }

    pub(super) fn is_full(&self) -> bool {
        self.filled == self.ring.len()
    }

    pub(super) fn push(&mut self, now: f64, token: u64) {
        let mut at = self.head + self.filled;
        if at >= self.ring.len() {
            at -= self.ring.len();
        }
        self.ring[at] = (token, now);
        self.filled += 1;
        self.level.add(now, 1.0);
    }

    pub(super) fn pop(&mut self, now: f64, began: f64) -> Option<u64> {
        if self.filled == 0 {
            return None;
        }
        let (token, entered) = self.ring[self.head];
        self.head = if self.head + 1 == self.ring.len() { 0 } else { self.head + 1 };
        self.filled -= 1;
        self.level.add(now, -1.0);
        self.stays.end(now, entered, began);
        Some(token)
    }

    /// When those that are in it came.
    pub(super) fn inside(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.filled).map(|i| self.ring[(self.head + i) % self.ring.len()].1)
    }
}

/// Slots, taken in the order of asking.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    pub(super) free: u32,
    pub(super) line: Line,
    /// How many there are.
    pub(crate) total: u32,
    /// Slots in use.
    pub(crate) busy: Level,
    /// Actors in line.
    pub(crate) waiting: Level,
    /// How long they wait in line; who waits not at all counts too.
    pub(crate) waits: Stays,
}

impl Slots {
    pub(super) fn new(total: u32) -> Self {
        Self {
            free: total,
            line: Line::EMPTY,
            total,
            busy: Level::default(),
            waiting: Level::default(),
            waits: Stays::default(),
        }
    }
}

/// Capacity shared evenly by all who use it, each getting no more than one may (processor sharing).
#[derive(Debug, Clone)]
pub(crate) struct Share {
    /// Units a second, all together.
    pub(crate) capacity: f64,
    one: f64,
    /// What each user has got since the station was last empty; all get the same.
    attained: f64,
    last: f64,
    finish: Calendar,
    entered: Vec<f64>,
    /// Users.
    pub(crate) level: Level,
    /// How long they stay.
    pub(crate) stays: Stays,
    /// Units done, from the rates at which they were done.
    pub(crate) done: f64,
    /// Units of the demands that were met.
    pub(crate) met: f64,
}

impl Share {
    pub(super) fn new(capacity: f64, one: f64, actors: usize) -> Self {
        Self {
            capacity,
            one,
            attained: 0.0,
            last: 0.0,
            finish: Calendar::new(actors),
            entered: vec![0.0; actors],
            level: Level::default(),
            stays: Stays::default(),
            done: 0.0,
            met: 0.0,
        }
    }

    /// Whether nobody ever waits for it.
    pub(super) fn is_endless(&self) -> bool {
        self.capacity.is_infinite() && self.one.is_infinite()
    }

    /// Units a second that each user gets.
    fn rate(&self) -> f64 {
        self.one.min(self.capacity / self.level.value)
    }

    fn advance(&mut self, now: f64) {
        if self.level.value > 0.0 {
            let got = self.rate() * (now - self.last);
            self.attained += got;
            self.done += got * self.level.value;
        }
        self.last = now;
    }

    /// A user comes; gives when the next one will be served.
    pub(super) fn enter(&mut self, now: f64, actor: u32, demand: f64) -> f64 {
        self.advance(now);
        self.finish.set(actor, self.attained + demand);
        self.entered[actor as usize] = now;
        self.level.add(now, 1.0);
        self.met += demand;
        self.next(now)
    }

    /// The one whose turn it is leaves; gives who that is, and when the next one will be served.
    pub(super) fn leave(&mut self, now: f64, began: f64) -> Option<(u32, Option<f64>)> {
        self.advance(now);
        let (actor, at) = self.finish.pop()?;
        self.attained = self.attained.max(at);
        self.level.add(now, -1.0);
        self.stays.end(now, self.entered[actor as usize], began);
        if self.level.value == 0.0 {
            // From zero again, so that small amounts are not lost against a large sum.
            self.attained = 0.0;
            return Some((actor, None));
        }
        Some((actor, Some(self.next(now))))
    }

    fn next(&self, now: f64) -> f64 {
        let at = self.finish.first().map_or(self.attained, |first| first.1);
        now + (at - self.attained).max(0.0) / self.rate()
    }

    /// Brings the counts up to a time.
    pub(super) fn settle(&mut self, now: f64) {
        self.advance(now);
        self.level.add(now, 0.0);
    }

    /// Units still owed to those inside.
    pub(crate) fn owed(&self) -> f64 {
        self.finish.slots().iter().map(|&a| (self.finish.time(a) - self.attained).max(0.0)).sum()
    }

    pub(super) fn begin(&mut self, now: f64) {
        self.settle(now);
        self.level.begin(now);
        self.stays = Stays::default();
        self.done = 0.0;
        self.met = self.owed();
    }

    /// When those that are in it came.
    pub(super) fn inside(&self) -> impl Iterator<Item = f64> + '_ {
        self.finish.slots().iter().map(|&actor| self.entered[actor as usize])
    }
}
