//! One sentence about a trainer's run so far, and one piece of advice, each with its evidence.

mod advice;
mod summary;

pub use advice::{Advice, Rule, advise};
pub use summary::{Summaries, Summary};

use crate::attribute::{Cause, CrewUse, Estimate, State};

/// Seconds before which nothing is concluded.
const EARLY: f64 = 3.0;
/// Share of time from which waiting for data or other I/O is worth a verdict.
pub const WORTH: f64 = 0.05;
/// Share of time above which not knowing is the verdict.
const IN_THE_DARK: f64 = 0.4;

/// Everything a verdict rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Shares over the run so far.
    pub shares: Estimate,
    /// Seconds seen.
    pub seconds: f64,
    /// Stacks of the main thread read.
    pub stacks: f64,
    /// What the loader's workers do.
    pub usage: CrewUse,
    /// CPU cores that the trainer may use.
    pub cores: Option<f64>,
    /// CPU cores that the job uses, on average.
    pub cores_used: Option<f64>,
    /// The most frequent frame by cause, in the order of [`Cause::ALL`].
    pub frame: [Option<String>; 5],
    /// Share of time in which the accelerator was idle.
    pub accelerator_idle: Option<f64>,
    /// The rule that stands in for stacks, when none could be read.
    pub rule: Option<String>,
}

/// What is in a trainer's way and what to do about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// What is in the way.
    pub cause: Cause,
    /// In one sentence.
    pub text: String,
    /// What to do; `None` while it is too early to say.
    pub advice: Option<Advice>,
}

impl Findings {
    pub(crate) fn share(&self, cause: Cause) -> f64 {
        self.shares.share[cause as usize]
    }

    /// Of the time waiting for data, the part that the main thread is on a CPU.
    pub(crate) fn data_on_cpu(&self) -> f64 {
        let data = self.share(Cause::Data);
        let running = self.shares.joint[State::Running as usize][Cause::Data as usize];
        if data > 0.0 { running / data } else { 0.0 }
    }

    /// Part of the allowed cores that the job uses.
    pub(crate) fn cores_busy(&self) -> Option<f64> {
        Some(self.cores_used? / self.cores.filter(|c| *c > 0.0)?)
    }

    /// What stands in the way most.
    #[must_use]
    pub fn cause(&self) -> Cause {
        let unknown = self.share(Cause::Unknown);
        let (data, io) = (self.share(Cause::Data), self.share(Cause::Io));
        let worst = if data >= io { (Cause::Data, data) } else { (Cause::Io, io) };
        if unknown > IN_THE_DARK && unknown > worst.1 {
            return Cause::Unknown;
        }
        if worst.1 >= WORTH {
            return worst.0;
        }
        let rest = [Cause::Device, Cause::Host, Cause::Unknown];
        rest.into_iter().max_by(|a, b| self.share(*a).total_cmp(&self.share(*b))).unwrap_or(Cause::Unknown)
    }
}

/// The verdict on a run so far.
#[must_use]
pub fn judge(findings: &Findings) -> Verdict {
    let cause = findings.cause();
    if findings.seconds < EARLY {
        let text = format!("Too early to say: {:.0} s seen.", findings.seconds);
        return Verdict { cause: Cause::Unknown, text, advice: None };
    }
    let said = said(findings, cause);
    let mut text = match cause {
        Cause::Data => format!("Waits {said} of its time for data{}", loaders(findings)),
        Cause::Io => format!("Spends {said} of its time in other file or network work{}", at(findings, cause)),
        Cause::Device => format!("Waits {said} of its time for the device or other ranks{}", spared(findings)),
        Cause::Host => format!("Its main thread is at its own work {said} of the time{}", spared(findings)),
        Cause::Unknown => format!("Where {said} of its time goes is not known{}", why_unknown(findings)),
    };
    if cause != Cause::Unknown && findings.rule.is_some() {
        text.push_str("; judged from thread states alone, without stacks");
    }
    if let Some(idle) = findings.accelerator_idle {
        text.push_str(&format!("; its accelerator is idle {} of the time", percent(idle)));
    }
    text.push('.');
    Verdict { cause, text, advice: Some(advise(findings, cause)) }
}

/// `41 % ± 3`, or `41 % (35 to 60)` where the interval is lopsided.
fn said(findings: &Findings, cause: Cause) -> String {
    let c = cause as usize;
    let s = &findings.shares;
    let (share, below, above) = (s.share[c], s.share[c] - s.low[c], s.high[c] - s.share[c]);
    if (above - below).abs() < 0.01 {
        format!("{} ± {}", percent(share), points(above.max(below)))
    } else {
        format!("{} ({} to {})", percent(share), points(s.low[c]), points(s.high[c]))
    }
}

fn loaders(findings: &Findings) -> String {
    let usage = &findings.usage;
    let many = usage.processes + usage.threads;
    let inside = match findings.data_on_cpu() {
        part if part >= 0.2 => format!("; {} of that on a CPU inside the fetch", percent(part)),
        _ => String::new(),
    };
    if many == 0 {
        return format!(", which its main thread loads itself{inside}");
    }
    let what = match (usage.processes, many) {
        (0, 1) => "its loader thread is".to_owned(),
        (0, n) => format!("the busiest of its {n} loader threads is"),
        (_, 1) => "its worker is".to_owned(),
        (_, n) => format!("its {n} workers are"),
    };
    let mut parts = Vec::new();
    for (share, does) in [(usage.on_cpu, "on a CPU"), (usage.queued, "queueing for a core")] {
        parts.extend(share.filter(|x| *x >= 0.1).map(|x| format!("{does} {}", percent(x))));
    }
    parts.extend(usage.storage.filter(|x| *x >= 0.1).map(|x| format!("waiting for storage {}", percent(x))));
    parts.extend(usage.asleep.filter(|x| *x >= 0.1).map(|x| format!("asleep {}", percent(x))));
    parts.extend(usage.idle.filter(|x| *x >= 0.2).map(|x| format!("idle {}", percent(x))));
    if parts.is_empty() {
        return inside;
    }
    let whose = if many == 1 || usage.processes == 0 { "its time" } else { "theirs" };
    format!("; {what} {} of {whose}{inside}", parts.join(", "))
}

fn spared(findings: &Findings) -> String {
    let data = Cause::Data as usize;
    format!(
        "; waits {} (at most {}) for data",
        percent(findings.shares.share[data]),
        percent(findings.shares.high[data])
    )
}

fn why_unknown(findings: &Findings) -> String {
    if findings.shares.disagreement.is_some() {
        return ": thread states and stacks disagree".to_owned();
    }
    match &findings.rule {
        Some(rule) => format!(": {rule}"),
        None if findings.shares.unseen >= 0.1 => ": no samples for that time".to_owned(),
        None => String::new(),
    }
}

fn at(findings: &Findings, cause: Cause) -> String {
    findings.frame[cause as usize].as_ref().map(|frame| format!(", mostly {frame}")).unwrap_or_default()
}

/// A share as whole percents, with a decimal where it is small.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", points(share))
}

fn points(share: f64) -> String {
    let value = share * 100.0;
    if value < 0.05 {
        "0".to_owned()
    } else if value < 1.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run of a minute: shares in the order of [`Cause::ALL`], intervals of two points.
    pub(crate) fn findings(share: [f64; 5]) -> Findings {
        let shares = Estimate {
            share,
            low: share.map(|x| (x - 0.02).max(0.0)),
            high: share.map(|x| (x + 0.02).min(1.0)),
            confidence: 0.9,
            states: [0.0; 11],
            joint: [[0.0; 5]; 11],
            unseen: 0.0,
            disagreement: None,
        };
        Findings {
            shares,
            seconds: 60.0,
            stacks: 1000.0,
            usage: CrewUse::default(),
            cores: Some(8.0),
            cores_used: Some(3.0),
            frame: Default::default(),
            accelerator_idle: None,
            rule: None,
        }
    }

    #[test]
    fn what_stands_in_the_way_is_named_before_what_takes_most_time() {
        let cases = [
            ([0.30, 0.00, 0.60, 0.10, 0.0], Cause::Data),
            ([0.06, 0.20, 0.60, 0.14, 0.0], Cause::Io),
            ([0.01, 0.00, 0.80, 0.19, 0.0], Cause::Device),
            ([0.01, 0.01, 0.10, 0.88, 0.0], Cause::Host),
            ([0.10, 0.00, 0.10, 0.20, 0.6], Cause::Unknown),
        ];
        for (share, cause) in cases {
            assert_eq!(findings(share).cause(), cause, "{share:?}");
        }
    }

    #[test]
    fn the_sentence_carries_its_evidence() {
        let mut starved = findings([0.41, 0.0, 0.5, 0.09, 0.0]);
        starved.usage = CrewUse { processes: 4, on_cpu: Some(0.92), queued: Some(0.02), ..CrewUse::default() };
        starved.accelerator_idle = Some(0.55);
        let mut alone = findings([0.41, 0.0, 0.5, 0.09, 0.0]);
        alone.shares.joint[State::Running as usize][Cause::Data as usize] = 0.3;
        let mut checkpoint = findings([0.01, 0.12, 0.7, 0.17, 0.0]);
        checkpoint.frame[Cause::Io as usize] = Some("serialization.py:save".to_owned());
        let mut native = findings([0.41, 0.0, 0.0, 0.5, 0.09]);
        native.usage = CrewUse { threads: 3, on_cpu: Some(0.3), storage: Some(0.6), ..CrewUse::default() };
        native.rule = Some("no stacks".to_owned());
        native.shares.high[0] = 0.52;
        let mut early = findings([1.0, 0.0, 0.0, 0.0, 0.0]);
        early.seconds = 2.0;
        let mut dark = findings([0.1, 0.0, 0.0, 0.2, 0.7]);
        dark.rule = Some("no rule applies without stacks".to_owned());
        let all = [starved, alone, checkpoint, native, early, dark, findings([0.004, 0.0, 0.9, 0.096, 0.0])];
        let said: Vec<String> = all.iter().map(|f| judge(f).text).collect();
        insta::assert_snapshot!(said.join("\n"), @r#"
        Waits 41 % ± 2 of its time for data; its 4 workers are on a CPU 92 % of theirs; its accelerator is idle 55 % of the time.
        Waits 41 % ± 2 of its time for data, which its main thread loads itself; 73 % of that on a CPU inside the fetch.
        Spends 12 % ± 2 of its time in other file or network work, mostly serialization.py:save.
        Waits 41 % (39 to 52) of its time for data; the busiest of its 3 loader threads is on a CPU 30 %, waiting for storage 60 % of its time; judged from thread states alone, without stacks.
        Too early to say: 2 s seen.
        Where 70 % ± 2 of its time goes is not known: no rule applies without stacks.
        Waits 90 % ± 2 of its time for the device or other ranks; waits 0.4 % (at most 2 %) for data.
        "#);
    }
}
