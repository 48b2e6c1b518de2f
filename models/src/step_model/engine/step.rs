//! What each step of a program does.

use crate::step_model::dist::Dist;

use super::{Actor, Demand, End, Engine, Op, Place, Stays, Token};

impl Engine {
    /// Takes the step that an actor is at; false where it must wait.
    pub(super) fn step(&mut self, actor: u32) -> bool {
        let at = self.actors[actor as usize].at;
        let goes_on = match self.plan.ops[at as usize] {
            Op::Delay(demand) => {
                let time = self.now + self.drawn(actor, at, demand);
                self.over(actor);
                self.calendar.set(actor, time);
                return false;
            }
            Op::Share(share, demand) => {
                let amount = self.drawn(actor, at, demand);
                if self.shares[share as usize].is_endless() {
                    true
                } else {
                    let slot = self.count() + share;
                    let next = self.shares[share as usize].enter(self.now, actor, amount);
                    self.calendar.set(slot, next);
                    false
                }
            }
            Op::Acquire(slots) => self.acquire(actor, slots),
            Op::Release(slots) => self.release(slots),
            Op::Put(place, token) => self.put(actor, place, token),
            Op::Take(place) => self.take(actor, place),
            Op::Repeat { back, times } => return self.repeat(actor, back, times),
            Op::Log => self.log(actor),
            simple => self.simple(actor, simple),
        };
        if goes_on {
            self.over(actor);
        }
        goes_on
    }

    /// Steps that only change the actor or the gauge.
    fn simple(&mut self, actor: u32, op: Op) -> bool {
        let mine = &mut self.actors[actor as usize];
        match op {
            Op::Fresh => {
                mine.item = mine.fresh;
                mine.fresh += mine.role.stride;
            }
            Op::Start => mine.started = self.now,
            Op::Gauge(by) => self.gauge.add(self.now, f64::from(by)),
            _ => {}
        }
        true
    }

    fn repeat(&mut self, actor: u32, back: u32, times: u32) -> bool {
        let mine = &mut self.actors[actor as usize];
        mine.lap += 1;
        if mine.lap < times {
            mine.at -= back;
        } else {
            mine.lap = 0;
            self.over(actor);
        }
        true
    }

    /// The amount of a demand for what the actor works on.
    fn drawn(&self, actor: u32, at: u32, demand: Demand) -> f64 {
        let dist = &self.plan.dists[demand.dist as usize];
        let Actor { item, lap, .. } = self.actors[actor as usize];
        let dice = self.dice[at as usize];
        let first = u64::from(lap) * u64::from(demand.count);
        let sum: f64 = match dist {
            Dist::Constant(value) => value * f64::from(demand.count),
            _ => (0..u64::from(demand.count)).map(|n| dist.draw(dice.bits(item, first + n))).sum(),
        };
        sum * demand.scale
    }

    fn acquire(&mut self, actor: u32, slots: u32) -> bool {
        let station = &mut self.slots[slots as usize];
        if station.free > 0 {
            station.free -= 1;
            station.busy.add(self.now, 1.0);
            station.waits.count += 1;
            return true;
        }
        station.waiting.add(self.now, 1.0);
        station.line.push(&mut self.next, actor);
        self.waits(actor)
    }

    fn release(&mut self, slots: u32) -> bool {
        let station = &mut self.slots[slots as usize];
        match station.line.pop(&self.next) {
            Some(heir) => {
                station.waiting.add(self.now, -1.0);
                station.waits.end(self.now, self.actors[heir as usize].since, self.began);
                self.wakes(heir);
            }
            None => {
                station.free += 1;
                station.busy.add(self.now, -1.0);
            }
        }
        true
    }

    fn put(&mut self, actor: u32, place: Place, token: Token) -> bool {
        let mine = &mut self.actors[actor as usize];
        let token = match token {
            Token::Item => mine.item,
            Token::Fresh => {
                let token = mine.fresh;
                mine.fresh += mine.role.stride;
                token
            }
        };
        let number = self.place(actor, place, token);
        let buffer = &mut self.buffers[number as usize];
        if let Some(taker) = buffer.takers.pop(&self.next) {
            // Straight through: it stays for no time, and counts.
            buffer.stays.count += 1;
            self.hand(taker, token);
        } else if buffer.is_full() {
            buffer.putters.push(&mut self.next, actor);
            self.actors[actor as usize].holding = token;
            return self.waits(actor);
        } else {
            buffer.push(self.now, token);
        }
        true
    }

    fn take(&mut self, actor: u32, place: Place) -> bool {
        let number = self.place(actor, place, 0);
        let buffer = &mut self.buffers[number as usize];
        let Some(token) = buffer.pop(self.now, self.began) else {
            buffer.takers.push(&mut self.next, actor);
            return self.waits(actor);
        };
        if let Some(putter) = buffer.putters.pop(&self.next) {
            buffer.push(self.now, self.actors[putter as usize].holding);
            let since = self.actors[putter as usize].since;
            self.actors[putter as usize].blocked += self.now - since.max(self.began);
            self.wakes(putter);
        }
        self.actors[actor as usize].item = token;
        true
    }

    /// Gives a token to an actor that waits for one.
    fn hand(&mut self, taker: u32, token: u64) {
        let theirs = &mut self.actors[taker as usize];
        theirs.item = token;
        theirs.starved += self.now - theirs.since.max(self.began);
        self.wakes(taker);
    }

    /// The buffer meant; one that is taken in turn moves on.
    fn place(&mut self, actor: u32, place: Place, token: u64) -> u32 {
        let mine = &mut self.actors[actor as usize];
        match place {
            Place::One(number) => number,
            Place::Own(first) => first + mine.role.number,
            Place::Turn { first, count } => {
                let turn = mine.turn;
                mine.turn = if turn + 1 == count { 0 } else { turn + 1 };
                first + turn
            }
            #[expect(clippy::cast_possible_truncation, reason = "less than a count that is u32")]
            Place::ByToken { first, count } => first + (token % u64::from(count)) as u32,
        }
    }

    fn waits(&mut self, actor: u32) -> bool {
        let mine = &mut self.actors[actor as usize];
        (mine.waiting, mine.since) = (true, self.now);
        false
    }

    fn wakes(&mut self, actor: u32) {
        self.actors[actor as usize].waiting = false;
        self.over(actor);
        self.ready.push(&mut self.next, actor);
    }

    fn log(&mut self, actor: u32) -> bool {
        let (skipped, kept) = self.plan.logs;
        self.logged += 1;
        if self.logged > skipped {
            self.log.push(self.now - self.actors[actor as usize].started);
        }
        if self.logged == skipped {
            self.begin();
        }
        if self.logged == skipped.saturating_add(kept) {
            self.end = Some(End::Enough);
        }
        true
    }

    /// Begins the statistics anew: what was before was filling up.
    fn begin(&mut self) {
        let now = self.now;
        self.began = now;
        for buffer in &mut self.buffers {
            buffer.level.begin(now);
            buffer.stays = Stays::default();
        }
        for slots in &mut self.slots {
            slots.busy.begin(now);
            slots.waiting.begin(now);
            slots.waits = Stays::default();
        }
        self.shares.iter_mut().for_each(|share| share.begin(now));
        self.gauge.begin(now);
        for actor in &mut self.actors {
            (actor.starved, actor.blocked) = (0.0, 0.0);
        }
    }
}
