//! Shares of wall time by cause, with their 95 % intervals: post-stratified ratio estimation over
//! thread states. `docs/attribution.md` derives it.
//!
//! ```text
//! share(cause) = Σ_state  P(state) · P(cause | state)
//!                         ^ exact on-CPU time, fast samples for the rest
//!                                    ^ slow stacks, counted within the state
//! ```

use super::evidence::{self, Evidence};
use super::kind::{GROUPS, STATES, State};
use super::rules::Rules;
use super::site::SITES;

/// Two-sided 95 % point of the normal distribution.
pub(super) const Z: f64 = 1.96;
/// Weight, in stacks, of the rules against the stacks of a state.
const RULES_WEIGHT: f64 = 0.5;
/// Stacks that a rule stands for in the interval where there are none: the interval then holds as
/// far as the rule does, and how far that is stands in the confidence.
const RULES_STACKS: f64 = 30.0;
/// How much more likely than others a stack of one cause may be to be missed, as a standard
/// deviation.
const SELECTION: f64 = 0.25;
/// Stacks that a window may borrow from the history before it, by state.
const BORROWED: f64 = 40.0;
/// What no sample size removes: edges of ticks, a state read a moment beside its stack.
pub(super) const FLOOR: f64 = 0.002;
/// Above this part of missing stacks in a state, the part beyond is unknown.
const MISSED_TOO_OFTEN: f64 = 0.8;
/// Distance between the states of the samples and of the stacks from which they disagree.
const DISAGREEMENT: f64 = 0.25;
/// Fewer stacks than this say nothing about agreement.
const FEW_STACKS: f64 = 20.0;
/// Samples of an episode from which it was seen as one.
const LONG: f64 = 2.0;
/// Samples below which a horizon says nothing.
const FEW_SAMPLES: f64 = 5.0;

/// Where the time of one thread went over one horizon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate<const N: usize = GROUPS> {
    /// Share by class; they add up to one.
    pub share: [f64; N],
    /// Lower ends of the 95 % intervals.
    pub low: [f64; N],
    /// Upper ends; the share of `unknown` is counted in, since unknown time may be any class's.
    pub high: [f64; N],
    /// A rating of the evidence from 0 to 1.
    pub confidence: f64,
    /// Share by state.
    pub states: [f64; STATES],
    /// Share of time that belongs to a class while the thread was in a state.
    pub joint: [[f64; N]; STATES],
    /// Time that no sample stands for.
    pub unseen: f64,
    /// Distance between the states of the samples and of the stacks, from 0 to 1, where it is too
    /// large to be chance.
    pub disagreement: Option<f64>,
}

/// Share and variance of each state.
struct Mix {
    share: [f64; STATES],
    variance: [f64; STATES],
    unseen: f64,
    exact: bool,
}

/// Stacks by state and class over a horizon, and what came before it. The last class is `unknown`.
struct Counts<'a, const N: usize> {
    own: &'a [[f64; N]; STATES],
    before: Option<&'a [[f64; N]; STATES]>,
    prior: &'a [[f64; N]; STATES],
    cap: f64,
}

/// The shares of the groups over a horizon. `history` is what came before it, for horizons too
/// short to know P(group | state) themselves; `rules` say what a state means where no stack tells.
/// `None` while there is too little to say anything.
#[must_use]
pub fn estimate(evidence: &Evidence, history: Option<&Evidence>, rules: &Rules) -> Option<Estimate> {
    let (own, before) = (evidence.by_group(), history.map(Evidence::by_group));
    shares(evidence, &Counts { own: &own, before: before.as_ref(), prior: &rules.prior, cap: rules.cap })
}

/// The shares of the sites, likewise. They add up to those of their groups, as both are linear in
/// the counts.
#[must_use]
pub fn estimate_sites(evidence: &Evidence, history: Option<&Evidence>, rules: &Rules) -> Option<Estimate<SITES>> {
    let prior = rules.by_site();
    let before = history.map(|h| &h.stacks);
    shares(evidence, &Counts { own: &evidence.stacks, before, prior: &prior, cap: rules.cap })
}

fn shares<const N: usize>(evidence: &Evidence, counts: &Counts<'_, N>) -> Option<Estimate<N>> {
    let mix = mix(evidence)?;
    let disagreement = disagreement(evidence, &mix);
    let causes: Vec<Causes<N>> =
        (0..STATES).map(|s| causes_in(s, evidence, counts, &mix, disagreement.is_some())).collect();
    let mut joint = [[0.0; N]; STATES];
    let mut share = [0.0; N];
    for s in 0..STATES {
        for c in 0..N {
            joint[s][c] = mix.share[s] * causes[s].mean[c];
            share[c] += joint[s][c];
        }
    }
    let known: f64 = share[..N - 1].iter().sum();
    share[N - 1] = (1.0 - known).max(0.0);
    let (low, high) = interval(&share, &mix, &causes);
    let confidence = confidence(&share, &mix, &causes, disagreement);
    Some(Estimate { share, low, high, confidence, states: mix.share, joint, unseen: mix.unseen, disagreement })
}

/// P(state): exact for `running` where the counters were read, the rest split as sampled. Where the
/// samples found it running more or less often than the counters say, the difference belongs to
/// the states that it changes to and from most often: a look that falls on a change tells one for
/// the other (a thread that wakes up from one page fault after another is nearly always found
/// awake), and a long sleep has no part in that.
fn mix(e: &Evidence) -> Option<Mix> {
    let samples: f64 = e.samples.iter().sum();
    let sampled: f64 = e.sampled.iter().sum();
    if e.time <= 0.0 || !e.time.is_finite() || !sampled.is_finite() || (samples < FEW_SAMPLES && e.exact <= 0.0) {
        return None;
    }
    let running = State::Running as usize;
    let exact = e.exact >= 0.5 * e.time;
    let mut share = e.sampled.map(|t| t / e.time);
    let mut unseen = (e.unseen / e.time).clamp(0.0, 1.0);
    let mut group = 1.0 - unseen;
    let mut group_samples = samples;
    if exact {
        let counted = ((e.on_cpu + e.run_queue) / e.exact).clamp(0.0, 1.0);
        let found = if sampled > 0.0 { e.sampled[running] / sampled } else { counted };
        let rate = (e.counted >= 0.5 * e.time).then(|| e.switches / e.counted);
        share[running] = evidence::running(found, samples, counted, rate);
        unseen = unseen.min(1.0 - share[running]);
        group = 1.0 - share[running] - unseen;
        group_samples = samples - e.samples[running];
        let blocked = corrected(e, share[running] / (1.0 - unseen).max(f64::MIN_POSITIVE));
        for s in (0..STATES).filter(|s| *s != running) {
            share[s] = group * blocked[s];
        }
        if blocked.iter().sum::<f64>() <= 0.0 {
            unseen += group;
        }
    }
    let variance = std::array::from_fn(|s| {
        if exact && s == running { 0.0 } else { group * group * state_variance(e, s, group_samples) }
    });
    Some(Mix { share, variance, unseen, exact })
}

/// Parts of the blocked time by state, adding up to one, or all zero where nothing was seen blocked.
/// `exact` is what the counters say of running, as a part of the time that samples stand for.
fn corrected(e: &Evidence, exact: f64) -> [f64; STATES] {
    let running = State::Running as usize;
    let sampled: f64 = e.sampled.iter().sum();
    let began = changes(e);
    let changes: f64 = began.iter().sum();
    let excess = if sampled > 0.0 && changes > 0.0 { e.sampled[running] / sampled - exact } else { 0.0 };
    let part = |s: usize| {
        if s == running || sampled <= 0.0 {
            return 0.0;
        }
        (e.sampled[s] / sampled + excess * began[s] / changes.max(f64::MIN_POSITIVE)).max(0.0)
    };
    let parts: [f64; STATES] = std::array::from_fn(part);
    let sum: f64 = parts.iter().sum();
    if sum > 0.0 { parts.map(|part| part / sum) } else { parts }
}

/// How often each blocked state began: as the samples saw it, where its episodes outlast them. Of
/// those that come and go between two samples most are not seen; where the kernel counts how often
/// the thread began to wait, they share what the others leave.
fn changes(e: &Evidence) -> [f64; STATES] {
    let blocked = |s: &usize| *s != State::Running as usize && e.episodes[*s] > 0.0;
    let is_long = |s: &usize| e.samples[*s] >= LONG * e.episodes[*s];
    let sum = |pick: &dyn Fn(&usize) -> f64| (0..STATES).filter(blocked).map(|s| pick(&s)).sum::<f64>();
    let known = sum(&|s| if is_long(s) { e.episodes[*s] } else { 0.0 });
    let short = sum(&|s| if is_long(s) { 0.0 } else { e.samples[*s] });
    let all = if e.counted > 0.0 { e.switches / e.counted * e.time } else { 0.0 };
    std::array::from_fn(|s| match s {
        s if !blocked(&s) => 0.0,
        s if is_long(&s) || short <= 0.0 => e.episodes[s],
        s => e.episodes[s].max((all - known) * e.samples[s] / short),
    })
}

/// Variance of a state's part of `n` samples: that of independent samples, or of regular ones where
/// runs of equal samples show that episodes outlast the interval. An episode of `k + f` intervals is
/// counted `k` or `k + 1` times, a variance of `f (1 - f)`: a quarter at most when it is long, up to
/// one for one that is seen once.
fn state_variance(e: &Evidence, s: usize, n: f64) -> f64 {
    if n <= 0.0 {
        return 0.25;
    }
    let p = (e.samples[s] + 1.0) / (n + 2.0);
    let independent = p * (1.0 - p) / (n + 2.0);
    let runs = e.episodes[s];
    if runs < 1.0 || e.samples[s] < 1.0 {
        return independent;
    }
    let length = (e.samples[s] / runs).max(1.0);
    independent.min((runs + 1.0) * (0.25 + 0.75 / length) / (n * n))
}

/// Total variation distance between the states seen by the samples and around the stacks, missing
/// ones counted, where it is more than chance.
fn disagreement(e: &Evidence, mix: &Mix) -> Option<f64> {
    let n: f64 = e.stacks_read() + e.missed.iter().sum::<f64>();
    if n < FEW_STACKS || mix.unseen > 0.5 {
        return None;
    }
    let seen = 1.0 - mix.unseen;
    let distance: f64 =
        (0..STATES).map(|s| (mix.share[s] / seen - (e.stacks_in(s) + e.missed[s]) / n).abs()).sum::<f64>() / 2.0;
    (distance > DISAGREEMENT + 1.0 / n.sqrt()).then_some(distance.min(1.0))
}

/// P(class | state), with what its interval needs.
struct Causes<const N: usize> {
    mean: [f64; N],
    variance: [f64; N],
    /// Stacks it rests on.
    stacks: f64,
    /// How far the rules can be trusted where there are none.
    cap: f64,
}

fn causes_in<const N: usize>(
    s: usize,
    e: &Evidence,
    counts: &Counts<'_, N>,
    mix: &Mix,
    sources_disagree: bool,
) -> Causes<N> {
    let own = e.stacks_in(s);
    let before = counts.before.map_or(0.0, |h| h[s].iter().sum());
    let borrowed = if before > 0.0 { BORROWED.min(before) / before } else { 0.0 };
    let n = own + borrowed * before;
    let mut mean = [0.0; N];
    let mut variance = [0.0; N];
    let prior = &counts.prior[s];
    let ruled = RULES_STACKS * (1.0 - prior[N - 1]) / (1.0 + n);
    let lost = if e.missed[s] > 0.0 { e.missed[s] / (e.missed[s] + own) } else { 0.0 };
    for c in 0..N {
        let count = counts.own[s][c] + counts.before.map_or(0.0, |h| borrowed * h[s][c]);
        mean[c] = (count + RULES_WEIGHT * prior[c]) / (n + RULES_WEIGHT);
        let p = (count + ruled * prior[c] + 2.0) / (n + ruled + 4.0);
        let selection = SELECTION * p * (1.0 - p) * lost;
        variance[c] = p * (1.0 - p) / (n + ruled + 4.0) + selection * selection;
    }
    let total = e.stacks_read() + e.missed.iter().sum::<f64>();
    let mut vague = ((lost - MISSED_TOO_OFTEN) / (1.0 - MISSED_TOO_OFTEN)).max(0.0);
    if sources_disagree && mix.share[s] > 0.0 {
        vague = vague.max(1.0 - (own + e.missed[s]) / (total * mix.share[s])).clamp(0.0, 1.0);
    }
    for (c, q) in mean.iter_mut().enumerate() {
        *q = *q * (1.0 - vague) + if c == N - 1 { vague } else { 0.0 };
    }
    Causes { mean, variance, stacks: n * (1.0 - vague), cap: counts.cap }
}

/// Intervals from the variance of both stages. An error in the split between states only matters
/// as far as the states differ in their causes.
fn interval<const N: usize>(share: &[f64; N], mix: &Mix, causes: &[Causes<N>]) -> ([f64; N], [f64; N]) {
    let sampled = |s: usize| !(mix.exact && s == State::Running as usize);
    let group: f64 = (0..STATES).filter(|s| sampled(*s)).map(|s| mix.share[s]).sum();
    let mut low = [0.0; N];
    let mut high = [1.0; N];
    for c in 0..N {
        let inside: f64 = (0..STATES).filter(|s| sampled(*s)).map(|s| mix.share[s] * causes[s].mean[c]).sum();
        let centre = if group > 0.0 { inside / group } else { 0.0 };
        let mut variance = FLOOR * FLOOR;
        for s in (0..STATES).filter(|s| mix.share[*s] > 0.0) {
            variance += mix.share[s].powi(2) * causes[s].variance[c];
            if sampled(s) {
                variance += (causes[s].mean[c] - centre).powi(2) * mix.variance[s];
            }
        }
        let half = Z * variance.sqrt();
        let hidden = if c == N - 1 { 0.0 } else { share[N - 1] };
        low[c] = (share[c] - half).clamp(0.0, 1.0);
        high[c] = (share[c] + half + hidden).clamp(0.0, 1.0);
    }
    (low, high)
}

fn confidence<const N: usize>(share: &[f64; N], mix: &Mix, causes: &[Causes<N>], disagreement: Option<f64>) -> f64 {
    let mut sum = 0.0;
    for (part, causes) in mix.share.iter().zip(causes) {
        let stacks = causes.stacks / (causes.stacks + 5.0);
        sum += part * (0.95 * stacks + causes.cap * (1.0 - stacks));
    }
    let known = 1.0 - share[N - 1];
    let counters = if mix.exact { 1.0 } else { 0.95 };
    (sum * known * counters * (1.0 - disagreement.unwrap_or(0.0))).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::kind::Group;
    use crate::attribute::site::Site;

    const RUNNING: usize = State::Running as usize;
    const FUTEX: usize = State::Futex as usize;
    const DATA: usize = Group::Data as usize;

    /// Forty seconds, half on a CPU; `stacks` are read in `running` and in `futex`.
    fn half_and_half(running: [f64; 2], futex: [f64; 2]) -> Evidence {
        let mut e = Evidence { time: 40.0, exact: 40.0, on_cpu: 20.0, ..Evidence::default() };
        for s in [RUNNING, FUTEX] {
            e.samples[s] = 5000.0;
            e.sampled[s] = 20.0;
            e.episodes[s] = 200.0;
        }
        e.stacks[RUNNING][Site::Loader as usize] = running[0];
        e.stacks[RUNNING][Site::Host as usize] = running[1];
        e.stacks[FUTEX][Site::Loader as usize] = futex[0];
        e.stacks[FUTEX][Site::Host as usize] = futex[1];
        e
    }

    #[test]
    fn cpu_burnt_inside_next_counts_as_data() {
        let e = half_and_half([40.0, 360.0], [400.0, 0.0]);
        let got = estimate(&e, None, &Rules::none()).unwrap();
        assert!((got.share[DATA] - 0.55).abs() < 0.003, "{:?}", got.share);
        assert!(got.low[DATA] > 0.52 && got.high[DATA] < 0.58, "{got:?}");
        assert!(got.confidence > 0.9, "{}", got.confidence);
    }

    #[test]
    fn stacks_missing_more_often_while_running_change_nothing() {
        let full = estimate(&half_and_half([40.0, 360.0], [400.0, 0.0]), None, &Rules::none()).unwrap();
        let mut e = half_and_half([20.0, 180.0], [400.0, 0.0]);
        e.missed[RUNNING] = 200.0;
        let halved = estimate(&e, None, &Rules::none()).unwrap();
        assert!((full.share[DATA] - halved.share[DATA]).abs() < 0.002);
        assert!(halved.high[DATA] - halved.low[DATA] > full.high[DATA] - full.low[DATA]);
    }

    #[test]
    fn a_sampler_that_sees_too_little_running_is_put_right_by_the_counters() {
        let mut e = half_and_half([0.0, 400.0], [400.0, 0.0]);
        e.samples[RUNNING] = 2500.0;
        e.sampled[RUNNING] = 13.0;
        e.sampled[FUTEX] = 27.0;
        let got = estimate(&e, None, &Rules::none()).unwrap();
        assert!((got.share[DATA] - 0.5).abs() < 0.003, "{:?}", got.share);
    }

    #[test]
    fn the_difference_to_the_counters_belongs_to_what_changes_often_and_not_to_a_long_sleep() {
        // An embedding table on a disk: a page fault every 100 µs, then a step of 40 ms.
        let (disk, sleep) = (State::Disk as usize, State::Sleep as usize);
        let mut e = Evidence { time: 100.0, exact: 100.0, on_cpu: 37.0, ..Evidence::default() };
        for (s, sampled, episodes) in [(RUNNING, 49.0, 3000.0), (disk, 23.0, 1700.0), (sleep, 28.0, 250.0)] {
            (e.samples[s], e.sampled[s], e.episodes[s]) = (100.0 * sampled, sampled, episodes);
        }
        let states = estimate(&e, None, &Rules::none()).unwrap().states;
        assert!((states[RUNNING] - 0.37).abs() < 1e-9 && (states[sleep] - 0.295).abs() < 0.003, "{states:?}");
        assert!((states.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{states:?}");
        // Where it is known that nearly all of its waits are too short to be seen as such.
        (e.switches, e.counted) = (680_000.0, 100.0);
        let states = estimate(&e, None, &Rules::none()).unwrap().states;
        assert!((states[sleep] - 0.28).abs() < 0.001 && (states[RUNNING] - 0.37).abs() < 1e-9, "{states:?}");
        (e.switches, e.counted) = (0.0, 0.0);
        e.on_cpu = 70.0;
        let states = estimate(&e, None, &Rules::none()).unwrap().states;
        assert!(states[disk] < 0.05 && states.iter().all(|share| *share >= 0.0), "{states:?}");
    }

    #[test]
    fn sources_that_disagree_make_unknown() {
        let got = estimate(&half_and_half([0.0, 800.0], [0.0, 0.0]), None, &Rules::none()).unwrap();
        assert!(got.disagreement.is_some());
        assert!(got.share[Group::Unknown as usize] > 0.45, "{:?}", got.share);
        assert!(got.confidence < 0.4);
    }

    #[test]
    fn a_state_whose_stacks_are_nearly_all_missing_is_partly_unknown() {
        let mut e = half_and_half([0.0, 20.0], [400.0, 0.0]);
        e.missed[RUNNING] = 380.0;
        let got = estimate(&e, None, &Rules::none()).unwrap();
        assert!(got.share[Group::Unknown as usize] > 0.3, "{:?}", got.share);
    }

    #[test]
    fn a_window_borrows_what_a_state_means_from_the_history() {
        let e = half_and_half([0.0, 2.0], [1.0, 1.0]);
        let history = half_and_half([0.0, 400.0], [400.0, 0.0]);
        let alone = estimate(&e, None, &Rules::none()).unwrap();
        let got = estimate(&e, Some(&history), &Rules::none()).unwrap();
        assert!(alone.share[DATA] < 0.3 && got.share[DATA] > 0.45);
    }

    #[test]
    fn time_without_samples_is_unknown() {
        let mut e = half_and_half([0.0, 400.0], [400.0, 0.0]);
        e.time = 80.0;
        e.unseen = 40.0;
        e.exact = 0.0;
        let got = estimate(&e, None, &Rules::none()).unwrap();
        assert!((got.share[Group::Unknown as usize] - 0.5).abs() < 0.01, "{:?}", got.share);
        assert!(got.high[DATA] > 0.7, "unknown time may be anybody's");
    }

    #[test]
    fn nothing_is_said_about_nothing() {
        assert_eq!(estimate(&Evidence::default(), None, &Rules::none()), None);
        let odd = Evidence { time: f64::NAN, ..Evidence::default() };
        assert_eq!(estimate(&odd, None, &Rules::none()), None);
    }

    #[test]
    fn an_event_never_seen_keeps_an_interval_about_as_wide_as_three_over_n() {
        let got = estimate(&half_and_half([0.0, 300.0], [300.0, 0.0]), None, &Rules::none()).unwrap();
        let io = Group::Io as usize;
        assert!(got.share[io] < 1e-9);
        assert!(got.high[io] > 0.005 && got.high[io] < 0.02, "{}", got.high[io]);
    }

    #[test]
    fn sites_add_up_to_their_groups() {
        let mut e = half_and_half([40.0, 360.0], [300.0, 0.0]);
        e.stacks[FUTEX][Site::LoaderIdle as usize] = 50.0;
        e.stacks[FUTEX][Site::Collective as usize] = 30.0;
        e.stacks[RUNNING][Site::Checkpoint as usize] = 7.0;
        let rules = Rules::of(&crate::attribute::Scene { processes: 2, busiest: Some(0.8), ..Default::default() });
        let (groups, sites) = (estimate(&e, None, &rules).unwrap(), estimate_sites(&e, None, &rules).unwrap());
        for group in Group::ALL {
            let sum: f64 = Site::ALL.into_iter().filter(|s| s.group() == group).map(|s| sites.share[s as usize]).sum();
            assert!((sum - groups.share[group as usize]).abs() < 1e-9, "{group:?}");
        }
    }
}
