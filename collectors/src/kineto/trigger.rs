//! When a trace is wanted: a trainer begins to wait for data.

use std::collections::BTreeMap;

use feedline_traces::{Result, Schema, Sink, Symbol, Tick, Ts};

use super::Orders;

/// The share of waiting for data from which on a trainer stalls, and below which it no longer does.
const STALLS: f64 = 0.25;
const FLOWS: f64 = 0.15;
/// The least time from one trace of a trainer to the next, in nanoseconds: a trace costs the job.
const REST: i64 = 120_000_000_000;

/// Watches the shares of waiting, and wants a trace when one rises. It binds the table `stall` by
/// name, and does nothing where there is none.
pub struct Trigger {
    orders: Orders,
    trainers: BTreeMap<Symbol, Seen>,
}

#[derive(Default)]
struct Seen {
    stalls: bool,
    ordered: Option<Ts>,
}

impl Trigger {
    /// Gives orders to those who asked the daemon.
    #[must_use]
    pub fn new(orders: Orders) -> Self {
        Self { orders, trainers: BTreeMap::new() }
    }

    fn see(&mut self, process: &Symbol, share: f64, at: Ts) {
        let seen = self.trainers.entry(process.clone()).or_default();
        let rises = !seen.stalls && share >= STALLS;
        if rises && seen.ordered.is_none_or(|before| at.since(before) >= REST) {
            seen.ordered = Some(at);
            self.orders.want(process);
        }
        seen.stalls = if seen.stalls { share >= FLOWS } else { rises };
    }
}

impl Sink for Trigger {
    fn accept(&mut self, schema: &Schema, tick: &Tick) -> Result<()> {
        let find = |name: &str| schema.find(&format!("stall.{name}"));
        let (Ok(process), Ok(cause), Ok(share)) = (find("process"), find("cause"), find("share")) else {
            return Ok(());
        };
        for batch in tick.batches.iter().filter(|batch| batch.table == process.table) {
            for row in 0..batch.len() {
                let is_data = batch.columns[cause.column].text(row).is_some_and(|cause| &**cause == "data");
                let share = batch.columns[share.column].number(row);
                if let (true, Some(key), Some(share)) = (is_data, batch.columns[process.column].text(row), share) {
                    self.see(key, share, batch.at[row]);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_orders_one_trace_when_it_begins_and_another_only_after_a_rest() {
        let orders = Orders::default();
        let mut trigger = Trigger::new(orders.clone());
        let key: Symbol = "7@1".into();
        let mut wanted = |seconds: i64, share: f64| {
            trigger.see(&key, share, Ts(seconds * 1_000_000_000));
            orders.lock().wanted.remove(&key)
        };
        let seen = [(1, 0.1), (2, 0.3), (3, 0.6), (9, 0.2), (10, 0.3), (20, 0.1), (30, 0.9), (140, 0.0), (141, 0.5)];
        let ordered: Vec<i64> = seen.into_iter().filter(|(at, share)| wanted(*at, *share)).map(|(at, _)| at).collect();
        assert_eq!(ordered, [2, 141]);
    }
}
