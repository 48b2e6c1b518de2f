//! Several ranks of one job: a collective takes as long as the last one to arrive. The least time
//! that any rank spends in it is what it costs; what the others spend beyond that they wait for the
//! slowest, whose own cause is the one to look at.

use super::super::site::Site;
use super::names::Cause;
use super::split::Split;

/// Less than this beyond the least is no imbalance: ranks are sampled, not timed.
const EVEN: f64 = 0.01;

/// A rank: what it is called, its split, and the facts by cause.
pub(in super::super) type Rank<'a> = (String, &'a mut Split, &'a mut Vec<Option<String>>);

/// Turns the excess of collective time over the least of all ranks into `imbalance`, and says on
/// whom they wait and for what.
pub(in super::super) fn reconcile(ranks: &mut [Rank<'_>]) {
    if ranks.len() < 2 {
        return;
    }
    let in_collective = |split: &Split| split.joint[Site::Collective as usize][Cause::Collective as usize];
    let slowest = ranks.iter().min_by(|a, b| in_collective(a.1).total_cmp(&in_collective(b.1)));
    let Some((least, name, why)) = slowest.map(|(name, split, _)| (in_collective(split), name.clone(), blamed(split)))
    else {
        return;
    };
    for (_, split, facts) in ranks.iter_mut() {
        let excess = in_collective(split) - least;
        if excess <= EVEN {
            continue;
        }
        let half = (split.high[Cause::Collective as usize] - split.low[Cause::Collective as usize]) / 2.0;
        split.shift(Site::Collective, Cause::Collective, Cause::Imbalance, excess);
        facts[Cause::Imbalance as usize] = Some(format!(
            "waits for {name}, which is in collectives {:.0} % of the time to its own {:.0} %{why}",
            least * 100.0,
            (least + excess) * 100.0
        ));
        for cause in [Cause::Imbalance, Cause::Collective] {
            let share = split.of_cause(cause);
            split.low[cause as usize] = (share - half).clamp(0.0, 1.0);
            split.high[cause as usize] = (share + half + split.of_cause(Cause::Unknown)).clamp(0.0, 1.0);
        }
    }
}

/// What holds the slowest rank up, for the others to read: the whole story is in its own rows.
fn blamed(split: &Split) -> String {
    let share = split.share();
    let worst = Cause::ALL
        .into_iter()
        .filter(|c| c.stalls() && !matches!(c, Cause::Collective | Cause::Imbalance))
        .max_by(|a, b| share[*a as usize].total_cmp(&share[*b as usize]));
    match worst.filter(|cause| share[*cause as usize] >= 0.03) {
        Some(cause) => format!("; there {} takes {:.0} %", cause.name(), share[cause as usize] * 100.0),
        None => "; there the step itself takes longer".to_owned(),
    }
}
