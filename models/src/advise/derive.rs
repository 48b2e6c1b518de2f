//! Advice as rows of a trace: now and then, because what a job should change rarely changes.

use feedline_traces::{Derive, Result, Row as _, Rows, Schema, Table, Tick, Ts};

use super::{AdviceRow, Gather, Options, advise, row};

/// Seconds of a run before anything is advised, and from then on to the next time.
const FIRST: f64 = 30.0;
const EVERY: f64 = 60.0;
/// Trainers that are advised: those that wait most.
const TRAINERS: usize = 2;

/// Adds `advice` rows to ticks; it comes after what concludes causes and findings.
#[derive(Debug)]
pub struct Advise {
    gather: Gather,
    options: Options,
    began: Option<Ts>,
    last: Option<Ts>,
}

impl Advise {
    /// Binds to the tables that a source has; `cores` is what the machine has, where that is known.
    #[must_use]
    pub fn bind(schema: &Schema, cores: Option<u32>) -> Self {
        Self { gather: Gather::bind(schema, cores), options: Options::default(), began: None, last: None }
    }

    /// Whether it is time.
    fn due(&mut self, now: Ts) -> bool {
        let began = *self.began.get_or_insert(now);
        let due = match self.last {
            Some(last) => now.seconds_since(last) >= EVERY,
            None => now.seconds_since(began) >= FIRST,
        };
        if due {
            self.last = Some(now);
        }
        due
    }
}

impl Derive for Advise {
    fn tables(&self) -> Vec<Table> {
        vec![AdviceRow::table()]
    }

    fn derive(&mut self, tick: &Tick, out: &mut Rows<'_>) -> Result<()> {
        self.gather.accept(tick);
        if !self.due(tick.at) {
            return Ok(());
        }
        for facts in self.gather.facts().iter().take(TRAINERS) {
            // What cannot be modelled is not advised; the recording goes on all the same.
            let Ok(advised) = advise(facts, &self.options) else { continue };
            for (place, plan) in (1..).zip(&advised.plans) {
                out.push(row(&facts.trainer, place, plan));
            }
        }
        Ok(())
    }
}
