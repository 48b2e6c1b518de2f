//! What to do about a verdict: simple rules, tried in order, each with the fact it rests on. No gain
//! is promised: at this level none is known.

use super::causes;
use super::cores::{Who, shortage, used as cores};
use super::rule::{Advice, Rule};
use super::{Does, Findings, WORTH, percent};
use crate::attribute::cause::Cause;
use crate::attribute::kind::Group;
use crate::attribute::supply::{FULL, SPARE};

/// A worker crew that does one thing for this share of its time is bound by it.
const BOUND: f64 = 0.5;
/// Workers that queue for a core this much are too many for their cores.
const QUEUED: f64 = 0.25;
/// The largest part of the workers' time is worth advice from here on.
const FIRST: f64 = 0.35;
/// Workers on a CPU this much leave nothing to overlap.
const SATURATED: f64 = 0.75;
/// Of the wait for data, the part burnt by the main thread from which that is the matter.
const BURNT: f64 = 0.6;
/// Seconds after which more of them hardly change a verdict, if its interval is no wider than `WIDE`.
const LONG: f64 = 10.0;
const WIDE: f64 = 0.1;

/// The advice for a verdict.
#[must_use]
pub fn advise(findings: &Findings, cause: Cause) -> Advice {
    let group = findings.group();
    if let Some((rule, text)) = causes::advice(findings, cause) {
        return Advice { rule, text };
    }
    let queued = findings.queues().filter(|share| *share > worth_more(findings, group));
    let (rule, text) = match group {
        Group::Data | Group::Io | Group::Device | Group::Host if queued.is_some() => {
            contended(findings, queued.unwrap_or(0.0))
        }
        Group::Data => data(findings),
        Group::Io => io(findings),
        Group::Device | Group::Host => nothing(findings, group),
        Group::Unknown => unknown(findings),
    };
    Advice { rule, text }
}

/// The share that the main thread's queueing has to exceed to be what the advice is about. Work of
/// its own is what queues, so only sleep is weighed against it there.
fn worth_more(f: &Findings, cause: Group) -> f64 {
    if cause == Group::Host { f.sleeps() } else { f.share(cause) }
}

fn data(f: &Findings) -> (Rule, String) {
    let usage = &f.usage;
    let workers = usage.processes + usage.threads;
    if workers == 0 && f.hidden {
        let text = "Load in worker processes, or see what the loader's threads do: they cannot be seen here (Python before \
                    3.11, or no stacks), and they share one interpreter lock with the training loop.";
        return (Rule::SeeWorkers, text.to_owned());
    }
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
    let largest = usage.parts().first().copied().unwrap_or((Does::Cpu, cpu));
    match largest {
        (Does::Queue, share) if share >= QUEUED => {
            shortage(f, Who::Workers, share).unwrap_or_else(|| decode(f, cpu, queued))
        }
        (Does::Storage, share) if share >= FIRST => {
            let limit = if share >= BOUND { "Storage is the limit" } else { "Storage comes first" };
            let text = format!(
                "{limit}: workers wait {} of their time for it. More workers or deeper prefetch overlap more reads; \
                 else faster storage, or larger sequential files.",
                percent(share)
            );
            (Rule::Storage, text)
        }
        (Does::Sleep, share) if share >= FIRST => {
            let place = f.sleeper.as_ref().map(|leaf| format!(" (most often in {leaf})")).unwrap_or_default();
            let text = format!(
                "Look for what makes workers sleep{place}: they are asleep {} of their time, in a timed sleep in the \
                 dataset, a rate limit, or retries. It is no wait for storage.",
                percent(share)
            );
            (Rule::Asleep, text)
        }
        (Does::Idle, share) if share >= BOUND => {
            let text = format!(
                "Look at the hand-over: workers are idle {} of their time while the trainer waits, so neither storage \
                 nor decoding is the limit. A slow sample that holds back ready ones, a shallow prefetch or a slow \
                 transfer between processes does this.",
                percent(share)
            );
            (Rule::Handoff, text)
        }
        _ if cpu + queued >= SATURATED => decode(f, cpu, queued),
        _ => mixed(f, cpu, storage),
    }
}

/// Nothing that workers do takes most of their time.
fn mixed(f: &Findings, cpu: f64, storage: f64) -> (Rule, String) {
    let asleep = f.usage.asleep.filter(|x| *x >= 0.1).map(|x| format!(", asleep {}", percent(x))).unwrap_or_default();
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

/// The main thread itself queues for a core.
fn contended(f: &Findings, queued: f64) -> (Rule, String) {
    shortage(f, Who::Main, queued).unwrap_or_else(|| {
        let text = format!(
            "Leave the main thread a core: it queues for one {} of the time, and the job uses {}. Fewer workers or \
             compute threads, or more cores, do that.",
            percent(queued),
            cores(f)
        );
        (Rule::FewerThreads, text)
    })
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
            if let Some(advice) = shortage(f, Who::Workers, queued) {
                return advice;
            }
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
    let place = f.frame[Group::Io as usize].as_ref().map(|frame| format!(" ({frame})")).unwrap_or_default();
    let text = format!(
        "Move it off the main thread (asynchronous checkpoints, buffered logs) or do it less often: {} of the time goes \
         into file or network work outside the loader{place}.",
        percent(f.share(Group::Io))
    );
    (Rule::OtherIo, text)
}

fn nothing(f: &Findings, cause: Group) -> (Rule, String) {
    let high = f.shares.high[Group::Data as usize];
    let by_rule = f.rule.is_some() && f.share(Group::Data) + f.share(Group::Unknown) < WORTH;
    let width = high - f.shares.low[Group::Data as usize];
    let vague = high > WORTH + f.share(Group::Unknown).min(WORTH);
    if !by_rule && vague && (width > WIDE || f.seconds < LONG) {
        let text = format!(
            "Watch longer: waiting for data takes up to {} of the time, too little is seen yet.",
            percent(high)
        );
        return (Rule::SeeMore, text);
    }
    let asleep = f.sleeps();
    if cause == Group::Host && asleep > f.share(cause) / 2.0 {
        let leaf = f.leaf[cause as usize].as_ref().map(|(leaf, _)| format!(" (most often in {leaf})"));
        let text = format!(
            "Look for what makes the main thread sleep{}: it is asleep {} of its time outside the loader, so the loader \
             is not the limit{}.",
            leaf.unwrap_or_default(),
            percent(asleep),
            if by_rule { ", as far as thread states tell" } else { "" }
        );
        return (Rule::StepAsleep, text);
    }
    let pace = if cause == Group::Device { "the device or another rank" } else { "the main thread's own work" };
    let idle = match f.usage.idle {
        Some(idle) if idle >= BOUND => format!(" The workers are idle {} of their time.", percent(idle)),
        _ => String::new(),
    };
    let told = if by_rule { ", as far as thread states tell" } else { "" };
    let gain = match f.share(Group::Data) {
        data if data >= 0.02 => {
            format!("Little to gain from the loader, waiting for data is small ({})", percent(data))
        }
        _ => "Nothing to gain from the loader here".to_owned(),
    };
    (Rule::Nothing, format!("{gain}{told}: {pace} sets the pace.{idle}"))
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

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;
    use crate::attribute::{CrewUse, State, Supply};

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
            ..CrewUse::default()
        }
    }

    fn starved(usage: CrewUse, cores_used: f64) -> Findings {
        Findings { usage, cores_used: Some(cores_used), ..findings(STARVED) }
    }

    /// Of the data time, this part is on a CPU.
    fn burning(mut f: Findings, part: f64) -> Findings {
        f.shares.joint[State::Running as usize][Group::Data as usize] = part * f.share(Group::Data);
        f
    }

    #[test]
    fn each_situation_gets_its_own_advice() {
        let one_core = Findings { cores: Some(1.0), ..findings(STARVED) };
        let blind = CrewUse { processes: 2, ..CrewUse::default() };
        let steps_away = findings([0.004, 0.0, 0.9, 0.096, 0.0]);
        let vague = findings([0.04, 0.0, 0.8, 0.16, 0.0]);
        let native = Findings { rule: Some(String::new()), stacks: 0.0, ..findings([0.01, 0.0, 0.0, 0.99, 0.0]) };
        let short = Findings { seconds: 6.0, ..vague.clone() };
        let sleepers = CrewUse { asleep: Some(0.99), idle: Some(0.0), ..crew(0.01, 0.0, 0.0) };
        let sleepers = Findings { sleeper: Some("gen.py:__getitem__".to_owned()), ..starved(sleepers, 0.2) };
        let supply =
            |machine, pressure| Supply { machine: Some(machine), pressure: Some(pressure), ..Supply::default() };
        let queueing = starved(crew(0.25, 0.72, 0.0), 1.1);
        let pinned = Findings { cores: Some(1.0), supply: supply(8.0, 0.9), ..queueing.clone() };
        let crowded = Findings { supply: supply(8.0, 0.99), ..queueing };
        let host = [0.01, 0.0, 0.0, 0.98, 0.01];
        let main_queues = Findings { queued: Some(0.3), supply: supply(8.0, 0.99), ..findings(host) };
        let own_threads = Findings { cores_used: Some(7.9), ..main_queues.clone() };
        let mut step_sleeps = findings(host);
        step_sleeps.shares.joint[State::Sleep as usize][Group::Host as usize] = 0.62;
        let cases = [
            ("workers sleep in the dataset", sleepers, Rule::Asleep),
            ("workers confined to one core of many", pinned, Rule::Affinity),
            ("workers queue behind other processes", crowded, Rule::Others),
            ("the largest share leads", starved(crew(0.22, 0.31, 0.45), 1.0), Rule::Storage),
            ("the main thread queues behind other processes", main_queues, Rule::Others),
            ("the main thread queues behind the job's own threads", own_threads, Rule::FewerThreads),
            ("the step sleeps", step_sleeps, Rule::StepAsleep),
            ("seen for a short time only", short, Rule::SeeMore),
            ("no workers, reads block", findings(STARVED), Rule::UseWorkers),
            ("no workers, decoding, cores free", burning(findings(STARVED), 0.9), Rule::UseWorkers),
            ("no workers, decoding, one core", burning(one_core.clone(), 0.9), Rule::MoreCores),
            ("no workers, reads block, one core", one_core, Rule::UseWorkers),
            ("workers that cannot be seen", starved(blind, 3.0), Rule::SeeWorkers),
            ("workers in storage", starved(crew(0.2, 0.0, 0.7), 1.0), Rule::Storage),
            ("workers decode, all cores busy", starved(crew(0.95, 0.02, 0.01), 7.8), Rule::CheaperDecode),
            ("workers decode, cores free", starved(crew(0.95, 0.0, 0.02), 4.0), Rule::MoreWorkers),
            ("too many workers for the cores", starved(crew(0.5, 0.45, 0.02), 7.9), Rule::CheaperDecode),
            ("workers idle while trainer waits", starved(crew(0.2, 0.0, 0.05), 1.0), Rule::Handoff),
            ("unpickling takes the wait", burning(starved(crew(0.3, 0.0, 0.1), 2.0), 0.8), Rule::CheaperHandover),
            ("a bit of everything", starved(crew(0.4, 0.1, 0.3), 3.0), Rule::MoreWorkers),
            ("checkpoints", findings([0.01, 0.2, 0.6, 0.19, 0.0]), Rule::OtherIo),
            ("loader far ahead, device sets the pace", steps_away, Rule::Nothing),
            ("host sets the pace", findings([0.004, 0.0, 0.0, 0.99, 0.006]), Rule::Nothing),
            ("a small share well seen", vague, Rule::Nothing),
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
            let text = advise(&starved(usage, 2.0), Cause::Unknown).text;
            assert!(!text.contains("faster by") && !text.contains("×"), "{text}");
        }
    }
}
