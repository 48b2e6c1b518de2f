//! What to do about a verdict: simple rules, tried in order, each with the fact it rests on. No gain
//! is promised: at this level none is known.

use super::{Findings, WORTH, percent};
use crate::attribute::Cause;

/// A worker crew that does one thing for this share of its time is bound by it.
const BOUND: f64 = 0.5;
/// Workers that queue for a core this much are too many for their cores.
const QUEUED: f64 = 0.25;
/// Cores used above this part are all busy; below `SPARE` there are cores to spare.
const FULL: f64 = 0.85;
const SPARE: f64 = 0.7;
/// Workers on a CPU this much leave nothing to overlap.
const SATURATED: f64 = 0.75;
/// Of the wait for data, the part burnt by the main thread from which that is the matter.
const BURNT: f64 = 0.6;

/// The rule that spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// All loading is on the main thread and there are cores or waits to overlap.
    UseWorkers,
    /// All loading is CPU work on the only core.
    MoreCores,
    /// Workers exist but what they do cannot be seen.
    SeeWorkers,
    /// Runnable workers queue while cores are idle.
    Affinity,
    /// More runnable workers than cores, or all cores busy decoding.
    CheaperDecode,
    /// Workers mostly wait for storage.
    Storage,
    /// Workers saturate their cores and there are more.
    MoreWorkers,
    /// The main thread burns the wait itself.
    CheaperHandover,
    /// Workers idle while the trainer waits.
    Handoff,
    /// Other I/O on the main thread.
    OtherIo,
    /// The loader keeps up.
    Nothing,
    /// Not enough is known.
    SeeMore,
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The rule that spoke.
    pub rule: Rule,
    /// What to do and why.
    pub text: String,
}

/// The advice for a verdict.
#[must_use]
pub fn advise(findings: &Findings, cause: Cause) -> Advice {
    let (rule, text) = match cause {
        Cause::Data => data(findings),
        Cause::Io => io(findings),
        Cause::Device | Cause::Host => nothing(findings, cause),
        Cause::Unknown => unknown(findings),
    };
    Advice { rule, text }
}

fn data(f: &Findings) -> (Rule, String) {
    let usage = &f.usage;
    let workers = usage.processes + usage.threads;
    if workers == 0 {
        return alone(f);
    }
    if f.data_on_cpu() >= BURNT {
        let text = format!(
            "Make the hand-over cheaper: {} of the wait is CPU time of the main thread inside the fetch \
             (unpickling, collating), not waiting for workers. Collate in the workers and send few large arrays.",
            percent(f.data_on_cpu())
        );
        return (Rule::CheaperHandover, text);
    }
    let (Some(cpu), Some(storage)) = (usage.on_cpu, usage.storage) else {
        let text = "See what the workers do first: their states cannot be read. `feedline doctor` says which right is \
                    missing.";
        return (Rule::SeeWorkers, text.to_owned());
    };
    let queued = usage.queued.unwrap_or(0.0);
    let spare = f.cores_busy().is_some_and(|busy| busy < SPARE);
    if queued >= QUEUED && spare {
        let text = format!(
            "Check the job's CPU affinity and quota (`taskset -cp`, cpu.max): workers queue for a core {} of their time \
             while the job uses {}.",
            percent(queued),
            cores(f)
        );
        return (Rule::Affinity, text);
    }
    if storage >= BOUND && storage >= cpu {
        let text = format!(
            "Storage is the limit: workers wait {} of their time for it. More workers or deeper prefetch overlap more \
             reads; else faster storage, or larger sequential files.",
            percent(storage)
        );
        return (Rule::Storage, text);
    }
    if cpu + queued >= SATURATED {
        return decode(f, cpu, queued);
    }
    if let Some(idle) = usage.idle.filter(|idle| *idle >= BOUND) {
        let text = format!(
            "Look at the hand-over: workers are idle {} of their time while the trainer waits, so neither storage nor \
             decoding is the limit. A slow sample that holds back ready ones, a shallow prefetch or a slow transfer \
             between processes does this.",
            percent(idle)
        );
        return (Rule::Handoff, text);
    }
    let asleep = usage.asleep.filter(|x| *x >= 0.1).map(|x| format!(", asleep {}", percent(x))).unwrap_or_default();
    let mix = format!("workers are on a CPU {}, in storage {}{asleep} of their time", percent(cpu), percent(storage));
    match f.cores_busy() {
        Some(busy) if busy >= FULL => (
            Rule::CheaperDecode,
            format!("Make each sample cheaper or add cores: {mix}, and the job uses {}.", cores(f)),
        ),
        _ => (
            Rule::MoreWorkers,
            format!("Try more workers: {mix}; neither is a limit yet, and more of them overlap more."),
        ),
    }
}

/// Everything is loaded on the main thread.
fn alone(f: &Findings) -> (Rule, String) {
    let cpu = f.data_on_cpu();
    if cpu >= BURNT && f.cores.is_some_and(|cores| cores < 2.0) {
        let text = format!(
            "Make each sample cheaper or add cores: {} of the loading is CPU work, and the job may use one core only, \
             so workers would compete with training.",
            percent(cpu)
        );
        return (Rule::MoreCores, text);
    }
    let text = "Load in worker processes (for PyTorch `num_workers` of 1 or more): all loading happens on the main thread, \
                so training stands still meanwhile.";
    (Rule::UseWorkers, text.to_owned())
}

/// Workers saturate the CPU they get.
fn decode(f: &Findings, cpu: f64, queued: f64) -> (Rule, String) {
    let at_work = match f.usage.decode {
        Some(decode) if decode >= BOUND => format!("on a CPU {} of their time, mostly decoding", percent(cpu)),
        _ => format!("on a CPU {} of their time", percent(cpu)),
    };
    match f.cores_busy() {
        Some(busy) if busy < SPARE && queued < QUEUED => {
            (Rule::MoreWorkers, format!("Use more workers: they are {at_work} and the job uses {}.", cores(f)))
        }
        Some(busy) if busy >= FULL => {
            let text = format!(
                "Make each sample cheaper (decode smaller, resize ahead of time, cache decoded samples) or add cores: \
                 workers are {at_work} and the job uses {}; more workers would not help.",
                cores(f)
            );
            (Rule::CheaperDecode, text)
        }
        _ if queued >= QUEUED => {
            let text = format!(
                "Make each sample cheaper or add cores: workers are {at_work} and queue for a core {} of it.",
                percent(queued)
            );
            (Rule::CheaperDecode, text)
        }
        _ => {
            let text =
                format!("Use more workers if cores are free, else make each sample cheaper: workers are {at_work}.");
            (Rule::MoreWorkers, text)
        }
    }
}

fn io(f: &Findings) -> (Rule, String) {
    let place = f.frame[Cause::Io as usize].as_ref().map(|frame| format!(" ({frame})")).unwrap_or_default();
    let text = format!(
        "Move it off the main thread (asynchronous checkpoints, buffered logs) or do it less often: {} of the time goes \
         into file or network work outside the loader{place}.",
        percent(f.share(Cause::Io))
    );
    (Rule::OtherIo, text)
}

fn nothing(f: &Findings, cause: Cause) -> (Rule, String) {
    let high = f.shares.high[Cause::Data as usize];
    let by_rule = f.rule.is_some() && f.share(Cause::Data) + f.share(Cause::Unknown) < WORTH;
    if !by_rule && high > WORTH + f.share(Cause::Unknown).min(WORTH) {
        let text = format!(
            "Watch longer: waiting for data takes up to {} of the time, too little is seen yet.",
            percent(high)
        );
        return (Rule::SeeMore, text);
    }
    let pace = if cause == Cause::Device { "the device or another rank" } else { "the main thread's own work" };
    let idle = match f.usage.idle {
        Some(idle) if idle >= BOUND => format!(" The workers are idle {} of their time.", percent(idle)),
        _ => String::new(),
    };
    let told = if by_rule { ", as far as thread states tell" } else { "" };
    (Rule::Nothing, format!("Nothing to gain from the loader here{told}: {pace} sets the pace.{idle}"))
}

fn unknown(f: &Findings) -> (Rule, String) {
    let text = if f.shares.disagreement.is_some() {
        "Record longer: thread states and stacks do not tell the same story, so nothing is concluded from them."
    } else if f.stacks < 1.0 {
        "Let Feedline read the job's stacks: run it as the job's user or as root. `feedline doctor` says what is missing."
    } else {
        "Record longer, or raise the stack rate: too much of the time has no stack."
    };
    (Rule::SeeMore, text.to_owned())
}

fn cores(f: &Findings) -> String {
    match (f.cores_used, f.cores) {
        (Some(used), Some(cores)) => format!("{used:.1} of {cores:.0} cores"),
        _ => "an unknown number of cores".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;
    use crate::attribute::{CrewUse, State};

    const STARVED: [f64; 5] = [0.4, 0.0, 0.5, 0.1, 0.0];

    fn crew(on_cpu: f64, queued: f64, storage: f64) -> CrewUse {
        let idle = (1.0 - on_cpu - queued - storage).max(0.0);
        CrewUse {
            processes: 4,
            threads: 0,
            on_cpu: Some(on_cpu),
            queued: Some(queued),
            storage: Some(storage),
            idle: Some(idle),
            asleep: None,
            decode: None,
        }
    }

    fn starved(usage: CrewUse, cores_used: f64) -> Findings {
        Findings { usage, cores_used: Some(cores_used), ..findings(STARVED) }
    }

    /// Of the data time, this part is on a CPU.
    fn burning(mut f: Findings, part: f64) -> Findings {
        f.shares.joint[State::Running as usize][Cause::Data as usize] = part * f.share(Cause::Data);
        f
    }

    #[test]
    fn each_situation_gets_its_own_advice() {
        let one_core = Findings { cores: Some(1.0), ..findings(STARVED) };
        let blind = CrewUse { processes: 2, ..CrewUse::default() };
        let steps_away = findings([0.004, 0.0, 0.9, 0.096, 0.0]);
        let vague = findings([0.04, 0.0, 0.8, 0.16, 0.0]);
        let native = Findings { rule: Some(String::new()), stacks: 0.0, ..findings([0.01, 0.0, 0.0, 0.99, 0.0]) };
        let cases = [
            ("no workers, reads block", findings(STARVED), Rule::UseWorkers),
            ("no workers, decoding, cores free", burning(findings(STARVED), 0.9), Rule::UseWorkers),
            ("no workers, decoding, one core", burning(one_core.clone(), 0.9), Rule::MoreCores),
            ("no workers, reads block, one core", one_core, Rule::UseWorkers),
            ("workers that cannot be seen", starved(blind, 3.0), Rule::SeeWorkers),
            ("workers in storage", starved(crew(0.2, 0.0, 0.7), 1.0), Rule::Storage),
            ("workers decode, all cores busy", starved(crew(0.95, 0.02, 0.01), 7.8), Rule::CheaperDecode),
            ("workers decode, cores free", starved(crew(0.95, 0.0, 0.02), 4.0), Rule::MoreWorkers),
            ("too many workers for the cores", starved(crew(0.5, 0.45, 0.02), 7.9), Rule::CheaperDecode),
            ("workers share one core of many", starved(crew(0.25, 0.72, 0.0), 1.1), Rule::Affinity),
            ("workers idle while trainer waits", starved(crew(0.2, 0.0, 0.05), 1.0), Rule::Handoff),
            ("unpickling takes the wait", burning(starved(crew(0.3, 0.0, 0.1), 2.0), 0.8), Rule::CheaperHandover),
            ("a bit of everything", starved(crew(0.4, 0.1, 0.3), 3.0), Rule::MoreWorkers),
            ("checkpoints", findings([0.01, 0.2, 0.6, 0.19, 0.0]), Rule::OtherIo),
            ("loader far ahead, device sets the pace", steps_away, Rule::Nothing),
            ("host sets the pace", findings([0.004, 0.0, 0.0, 0.99, 0.006]), Rule::Nothing),
            ("not seen well enough to acquit", vague, Rule::SeeMore),
            ("native, ahead", native, Rule::Nothing),
            ("no idea", findings([0.1, 0.0, 0.1, 0.1, 0.7]), Rule::SeeMore),
        ];
        let mut texts = Vec::new();
        for (name, findings, rule) in cases {
            let advice = advise(&findings, findings.cause());
            assert_eq!(advice.rule, rule, "{name}: {}", advice.text);
            texts.push(format!("{name}: {}", advice.text));
        }
        insta::assert_snapshot!(texts.join("\n"));
    }

    #[test]
    fn no_advice_promises_a_gain() {
        for usage in [crew(0.95, 0.0, 0.0), crew(0.1, 0.0, 0.8), crew(0.1, 0.0, 0.0)] {
            let text = advise(&starved(usage, 2.0), Cause::Data).text;
            assert!(!text.contains("faster by") && !text.contains("×"), "{text}");
        }
    }
}
