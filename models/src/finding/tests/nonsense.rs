//! Any numbers in any tables: no panic, and shares stay shares.

use feedline_traces::{Derive as _, Rows, Tick};
use proptest::prelude::*;

use super::world::{Totals, healthy, schema, tick};
use crate::finding::Find;

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(0.0), Just(-1.0), Just(1e300), 0.0..2.0, any::<f64>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_breaks_and_severities_are_shares(
        numbers in prop::collection::vec(number(), 1..20), ranks in 0_usize..4, workers in 0_usize..6,
        seconds in 1_usize..30,
    ) {
        let schema = schema();
        let mut find = Find::bind(&schema);
        let mut totals = Totals::default();
        for s in 1..=seconds {
            let n = |k: usize| numbers[(s + k) % numbers.len()];
            let mut second = healthy();
            (second.ranks, second.workers, second.crew) = (ranks, workers, s / 3);
            second.worker.cores = n(0);
            second.worker.threads = n(1);
            second.worker.cpu = n(2);
            second.worker.queued = n(3);
            second.worker.storage = n(4);
            second.worker.remote = n(5);
            second.data = n(6);
            second.sites = vec![("startup", n(7)), ("gc", n(8)), ("checkpoint", n(9))];
            second.causes = vec![("contention", n(10)), ("startup", n(11))];
            second.quota = Some((n(12), n(13)));
            second.shm = Some((n(14), n(15)));
            second.copies = Some((n(16), n(17), n(18)));
            second.wait = Some(n(0));
            let tick = tick(&schema, &mut totals, s, &second);
            let mut rows = Rows::new(&schema, tick.at);
            find.derive(&tick, &mut rows).unwrap();
            let out = Tick { at: tick.at, batches: rows.finish() };
            let severity = schema.find("finding.severity").unwrap();
            if let Some(batch) = out.batch(severity.table) {
                for row in 0..batch.len() {
                    let share = batch.columns[severity.column].number(row);
                    prop_assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{share:?}");
                }
            }
        }
    }
}
