//! What is simulated, as data: actors that run small programs over stations.

use crate::step_model::dist::Dist;

/// An amount to draw: the sum of `count` draws, times `scale`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// Position in [`Plan::dists`].
    pub(crate) dist: u32,
    /// Which stream of randomness: demands of one meaning share one.
    pub(crate) stream: u64,
    /// Draws that are summed.
    pub(crate) count: u32,
    /// What the sum is multiplied with.
    pub(crate) scale: f64,
}

/// Which buffer of several.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// This one.
    One(u32),
    /// The one of the actor: this and its number.
    Own(u32),
    /// One after the other, as the actor comes by: `first` to `first + count - 1`.
    Turn {
        /// The first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// By the token: `first + token % count`.
    ByToken {
        /// The first.
        first: u32,
        /// How many.
        count: u32,
    },
}

/// What is put into a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Token {
    /// What the actor works on.
    Item,
    /// The next number of the actor's own.
    Fresh,
}

/// One step of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Takes its time, whoever else does what.
    Delay(Demand),
    /// Gets an amount of work done at a station that is shared.
    Share(u32, Demand),
    /// Takes a slot, in the order of asking.
    Acquire(u32),
    /// Gives a slot back.
    Release(u32),
    /// Puts a token into a buffer, when there is room.
    Put(Place, Token),
    /// Takes a token out of a buffer, when there is one; the actor works on it from then on.
    Take(Place),
    /// Works on the next number of its own.
    Fresh,
    /// Goes `back` steps until they were done `times` times.
    Repeat {
        /// Steps.
        back: u32,
        /// Times in all.
        times: u32,
    },
    /// Remembers the time.
    Start,
    /// Notes the time since [`Op::Start`]; the run ends when it has enough of them.
    Log,
    /// Changes a gauge.
    Gauge(i32),
}

/// An actor: a program that it runs for ever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Role {
    /// First step, a position in [`Plan::ops`].
    pub(crate) first: u32,
    /// One past the last.
    pub(crate) end: u32,
    /// Its number among those that share the program.
    pub(crate) number: u32,
    /// Where its own numbers begin.
    pub(crate) fresh: u64,
    /// How far they are apart.
    pub(crate) stride: u64,
}

/// Everything that is simulated.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    /// The programs, one after the other.
    pub(crate) ops: Vec<Op>,
    /// Who runs them.
    pub(crate) actors: Vec<Role>,
    /// What demands are drawn from.
    pub(crate) dists: Vec<Dist>,
    /// Shared stations: capacity, and what one user gets at most; both per second.
    pub(crate) shares: Vec<(f64, f64)>,
    /// Slots of each station that has slots.
    pub(crate) slots: Vec<u32>,
    /// Room of each buffer, and the tokens in it at the start.
    pub(crate) buffers: Vec<(u32, Vec<u64>)>,
    /// Logged times that are thrown away, and those that are kept.
    pub(crate) logs: (u32, u32),
}

impl Plan {
    /// Adds a program; gives where it lies.
    #[expect(clippy::cast_possible_truncation, reason = "programs have a few steps")]
    pub(crate) fn program(&mut self, ops: &[Op]) -> (u32, u32) {
        let first = self.ops.len() as u32;
        self.ops.extend_from_slice(ops);
        (first, self.ops.len() as u32)
    }

    /// Adds an actor that runs a program; its own numbers are 0, 1, 2, ….
    pub(crate) fn actor(&mut self, program: (u32, u32), number: u32) {
        self.actors.push(Role { first: program.0, end: program.1, number, fresh: 0, stride: 1 });
    }

    /// Adds a distribution, as one draw of a stream.
    #[expect(clippy::cast_possible_truncation, reason = "a plan has a few distributions")]
    pub(crate) fn demand(&mut self, dist: &Dist, stream: u64) -> Demand {
        self.dists.push(dist.clone());
        Demand { dist: self.dists.len() as u32 - 1, stream, count: 1, scale: 1.0 }
    }
}
