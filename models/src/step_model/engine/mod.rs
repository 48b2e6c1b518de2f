//! The engine: actors run their programs until they must wait, and time jumps to whatever happens
//! next. Nothing is allocated once a run has begun.

mod calendar;
mod plan;
mod station;
mod step;

use calendar::Calendar;
pub(crate) use plan::{Demand, Op, Place, Plan, Role, Token};
pub(crate) use station::{Buffer, Level, Share, Slots, Stays};
use station::{Line, NOBODY};

use super::dice::Dice;

/// Steps that an actor may take without time passing before the run is given up: a program that
/// takes no time at all would never end.
const WITHOUT_TIME: u32 = 1 << 20;

#[derive(Debug, Clone)]
struct Actor {
    role: Role,
    at: u32,
    item: u64,
    fresh: u64,
    turn: u32,
    lap: u32,
    started: f64,
    /// Whether it waits for a token, for room or for a slot, and since when.
    waiting: bool,
    since: f64,
    holding: u64,
    starved: f64,
    blocked: f64,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It has logged enough.
    Enough,
    /// It has had as many events as it may.
    Limit,
    /// Everybody waits for somebody else.
    Deadlock,
    /// Somebody works without time passing.
    NoTime,
}

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    plan: Plan,
    dice: Vec<Dice>,
    now: f64,
    began: f64,
    calendar: Calendar,
    actors: Vec<Actor>,
    next: Vec<u32>,
    ready: Line,
    logged: u32,
    end: Option<End>,
    /// Times that were logged, after those that are thrown away.
    pub(crate) log: Vec<f64>,
    /// Buffers, as in the plan.
    pub(crate) buffers: Vec<Buffer>,
    /// Stations with slots, as in the plan.
    pub(crate) slots: Vec<Slots>,
    /// Shared stations, as in the plan.
    pub(crate) shares: Vec<Share>,
    /// The gauge.
    pub(crate) gauge: Level,
    /// Events so far: times at which something was over.
    pub(crate) events: u64,
}

impl Engine {
    /// A run that has not begun.
    pub(crate) fn new(plan: Plan, seed: u64) -> Self {
        let count = plan.actors.len();
        let actor = |role: &Role| Actor {
            role: *role,
            at: role.first,
            item: 0,
            fresh: role.fresh,
            turn: 0,
            lap: 0,
            started: 0.0,
            waiting: false,
            since: 0.0,
            holding: 0,
            starved: 0.0,
            blocked: 0.0,
        };
        let streams = plan.ops.iter().map(|op| match op {
            Op::Delay(demand) | Op::Share(_, demand) => demand.stream,
            _ => 0,
        });
        Self {
            dice: streams.map(|stream| Dice::new(seed, stream)).collect(),
            now: 0.0,
            began: 0.0,
            calendar: Calendar::new(count + plan.shares.len()),
            actors: plan.actors.iter().map(actor).collect(),
            next: vec![NOBODY; count],
            ready: Line::EMPTY,
            logged: 0,
            end: None,
            log: Vec::with_capacity(plan.logs.1 as usize),
            buffers: plan.buffers.iter().map(|(room, tokens)| Buffer::new(*room, tokens)).collect(),
            slots: plan.slots.iter().map(|&total| Slots::new(total)).collect(),
            shares: plan.shares.iter().map(|&(capacity, one)| Share::new(capacity, one, count)).collect(),
            gauge: Level::default(),
            events: 0,
            plan,
        }
    }

    /// Runs until enough is logged, or for at most so many events.
    pub(crate) fn run(&mut self, limit: u64) -> End {
        for actor in 0..self.count() {
            self.ready.push(&mut self.next, actor);
        }
        self.drain();
        while self.end.is_none() {
            if self.events >= limit {
                self.end = Some(End::Limit);
                break;
            }
            let Some((slot, time)) = self.calendar.pop() else {
                self.end = Some(End::Deadlock);
                break;
            };
            self.now = self.now.max(time);
            self.events += 1;
            if slot < self.count() {
                self.go(slot);
            } else {
                self.served(slot - self.count());
            }
            self.drain();
        }
        let now = self.now;
        self.buffers.iter_mut().for_each(|b| b.level.add(now, 0.0));
        self.shares.iter_mut().for_each(|s| s.settle(now));
        self.gauge.add(now, 0.0);
        for slots in &mut self.slots {
            slots.busy.add(now, 0.0);
            slots.waiting.add(now, 0.0);
        }
        self.end.unwrap_or(End::Deadlock)
    }

    /// Seconds that the statistics cover.
    pub(crate) fn span(&self) -> f64 {
        self.now - self.began
    }

    /// Seconds in which an actor waited for a token, and for room to put one.
    pub(crate) fn waited(&self, actor: u32) -> (f64, f64) {
        let waiter = &self.actors[actor as usize];
        let (mut starved, mut blocked) = (waiter.starved, waiter.blocked);
        if waiter.waiting {
            let open = self.now - waiter.since.max(self.began);
            match self.plan.ops[waiter.at as usize] {
                Op::Take(_) => starved += open,
                Op::Put(..) => blocked += open,
                _ => {}
            }
        }
        (starved, blocked)
    }

    /// For each station: the time average of who is there, and the sum of stays over the time. By
    /// Little's law (1961) the two are one, and they are counted apart.
    pub(crate) fn little(&self) -> Vec<(f64, f64)> {
        let (now, began, span) = (self.now, self.began, self.span());
        let open = |entered: f64| now - entered.max(began);
        let buffers = self.buffers.iter().map(|b| (b.level.area, b.stays.sum + b.inside().map(open).sum::<f64>()));
        let shares = self.shares.iter().map(|s| (s.level.area, s.stays.sum + s.inside().map(open).sum::<f64>()));
        let slots = self.slots.iter().enumerate().map(|(number, slots)| {
            let waits = |actor: &&Actor| {
                actor.waiting && matches!(self.plan.ops[actor.at as usize], Op::Acquire(s) if s as usize == number)
            };
            let inside: f64 = self.actors.iter().filter(waits).map(|actor| open(actor.since)).sum();
            (slots.waiting.area, slots.waits.sum + inside)
        });
        buffers.chain(shares).chain(slots).map(|(area, stays)| (area / span, stays / span)).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "actors are counted in u32")]
    fn count(&self) -> u32 {
        self.actors.len() as u32
    }

    fn drain(&mut self) {
        while self.end.is_none() {
            let Some(actor) = self.ready.pop(&self.next) else { return };
            self.go(actor);
        }
    }

    /// Somebody has been served at a shared station.
    fn served(&mut self, share: u32) {
        let slot = self.count() + share;
        if let Some((actor, next)) = self.shares[share as usize].leave(self.now, self.began) {
            if let Some(next) = next {
                self.calendar.set(slot, next);
            }
            self.over(actor);
            self.go(actor);
        }
    }

    /// An actor whose step is over goes on until it must wait.
    fn go(&mut self, actor: u32) {
        for _ in 0..WITHOUT_TIME {
            if self.end.is_some() || !self.step(actor) {
                return;
            }
        }
        self.end = Some(End::NoTime);
    }

    /// Moves an actor to the step after the one that is over.
    fn over(&mut self, actor: u32) {
        let actor = &mut self.actors[actor as usize];
        actor.at += 1;
        if actor.at == actor.role.end {
            actor.at = actor.role.first;
        }
    }
}
