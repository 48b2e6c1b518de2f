//! What the facts are when a part of them was never seen.

use feedline_traces::{Rows, Tick};

use super::*;
use crate::sim::{ProcessRow, TRAINER, schema, seconds};
use crate::tables::VerdictRow;

/// A second of a job with one trainer, and what its verdict says of the share of waiting.
fn second(at: f64, verdict: Option<Option<f64>>) -> Tick {
    let schema = schema();
    let mut rows = Rows::new(&schema, seconds(at));
    rows.push(ProcessRow { process: TRAINER.into(), role: "trainer".into(), ..ProcessRow::default() });
    if let Some(data) = verdict {
        rows.push(VerdictRow {
            process: TRAINER.into(),
            data: data.into(),
            text: "Too early to say.".into(),
            ..VerdictRow::default()
        });
    }
    Tick { at: seconds(at), batches: rows.finish() }
}

fn waits(ticks: &[Tick]) -> Vec<f64> {
    let mut gather = Gather::bind(&schema(), Some(4));
    ticks.iter().for_each(|tick| gather.accept(tick));
    gather.facts().iter().map(|facts| facts.wait.share).collect()
}

#[test]
fn a_trainer_whose_share_of_waiting_is_not_known_is_not_taken_for_one_that_never_waits() {
    assert_eq!(waits(&[second(1.0, None)]), [0.0; 0]);
    assert_eq!(waits(&[second(1.0, Some(None))]), [0.0; 0], "a verdict without a share");
    assert_eq!(waits(&[second(1.0, Some(Some(0.3)))]), [0.3]);
}

#[test]
fn what_was_known_last_stays_where_a_later_verdict_has_no_share() {
    assert_eq!(waits(&[second(1.0, Some(Some(0.3))), second(2.0, Some(None))]), [0.3]);
}
