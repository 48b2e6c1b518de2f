//! One sentence about a trainer's run so far, and one piece of advice, each with its evidence.

mod advice;
mod causes;
mod cores;
mod rule;
mod summary;

pub use advice::advise;
pub use rule::{Advice, Rule};
pub use summary::{Summaries, Summary};

use crate::attribute::cause::{CAUSES, Cause};
use crate::attribute::crew::CrewUse;
use crate::attribute::kind::{Group, State};
use crate::attribute::share::Estimate;
use crate::attribute::supply::Supply;

/// Seconds before which nothing is concluded.
const EARLY: f64 = 3.0;
/// Time of unknown cause that outweighs the largest stall by this makes not knowing the verdict.
const DOUBT: f64 = 1.5;
/// Share of time from which waiting for data or other I/O is worth a verdict.
pub const WORTH: f64 = 0.05;
/// Share of time above which not knowing is the verdict.
const IN_THE_DARK: f64 = 0.4;
/// Share of its time that the main thread queues for a core from which that is said.
const QUEUES: f64 = 0.15;

/// The run so far at the second level.
#[derive(Debug, Clone, PartialEq)]
pub struct Fine {
    /// Share of wall time by cause, in the order of [`Cause::ALL`].
    pub share: [f64; CAUSES],
    /// The facts behind each.
    pub facts: Vec<Option<String>>,
}

/// Everything a verdict rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Shares over the run so far.
    pub shares: Estimate,
    /// The same by cause; `None` where only groups are known.
    pub fine: Option<Fine>,
    /// Seconds seen.
    pub seconds: f64,
    /// Stacks of the main thread read.
    pub stacks: f64,
    /// What the loader's workers do.
    pub usage: CrewUse,
    /// Whether the trainer mostly waits in a queue that nobody who can be seen fills: threads of its
    /// own, which are not sampled.
    pub hidden: bool,
    /// CPU cores that the trainer may use.
    pub cores: Option<f64>,
    /// CPU cores that the job uses, on average.
    pub cores_used: Option<f64>,
    /// The most frequent frame by cause, in the order of [`Group::ALL`].
    pub frame: [Option<String>; 5],
    /// The most frequent innermost frame by cause, and its share of the cause's stacks.
    pub leaf: [Option<(String, f64)>; 5],
    /// The function in which workers most often sleep.
    pub sleeper: Option<String>,
    /// Share of its time that the main thread queues for a core.
    pub queued: Option<f64>,
    /// What limits the cores, and who else wants them.
    pub supply: Supply,
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
    pub(crate) fn share(&self, cause: Group) -> f64 {
        self.shares.share[cause as usize]
    }

    /// Of the time waiting for data, the part that the main thread is on a CPU.
    pub(crate) fn data_on_cpu(&self) -> f64 {
        let data = self.share(Group::Data);
        let running = self.shares.joint[State::Running as usize][Group::Data as usize];
        if data > 0.0 { running / data } else { 0.0 }
    }

    /// Share of time that the main thread queues for a core, where that is much.
    pub(crate) fn queues(&self) -> Option<f64> {
        self.queued.filter(|share| *share >= QUEUES)
    }

    /// Share of time that the main thread sleeps outside the loader.
    pub(crate) fn sleeps(&self) -> f64 {
        self.shares.joint[State::Sleep as usize][Group::Host as usize]
    }

    /// Part of the allowed cores that the job uses.
    pub(crate) fn cores_busy(&self) -> Option<f64> {
        Some(self.cores_used? / self.cores.filter(|c| *c > 0.0)?)
    }

    /// Share of a cause, where causes are known.
    pub(crate) fn part(&self, cause: Cause) -> f64 {
        self.fine.as_ref().map_or(0.0, |fine| fine.share[cause as usize])
    }

    /// The largest stall once stalls matter, else `compute`; `unknown` where most has no known cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        if self.fine.is_none() {
            return match self.group() {
                Group::Io => Cause::Io,
                Group::Device | Group::Host => Cause::Compute,
                Group::Data | Group::Unknown => Cause::Unknown,
            };
        }
        let unknown = self.part(Cause::Unknown);
        let stalls = Cause::ALL.into_iter().filter(|cause| cause.stalls());
        let lost: f64 = stalls.clone().map(|cause| self.part(cause)).sum();
        let worst = stalls.max_by(|a, b| self.part(*a).total_cmp(&self.part(*b))).unwrap_or(Cause::Unknown);
        let most = self.part(worst);
        if lost < WORTH {
            let open = self.share(Group::Data) >= WORTH || unknown > IN_THE_DARK.max(self.part(Cause::Compute));
            return if open && unknown > most { Cause::Unknown } else { Cause::Compute };
        }
        if unknown > DOUBT * most { Cause::Unknown } else { worst }
    }

    /// What stands in the way most, at the first level.
    #[must_use]
    pub fn group(&self) -> Group {
        let unknown = self.share(Group::Unknown);
        let (data, io) = (self.share(Group::Data), self.share(Group::Io));
        let worst = if data >= io { (Group::Data, data) } else { (Group::Io, io) };
        if unknown > IN_THE_DARK && unknown > worst.1 {
            return Group::Unknown;
        }
        if worst.1 >= WORTH {
            return worst.0;
        }
        let rest = [Group::Device, Group::Host, Group::Unknown];
        rest.into_iter().max_by(|a, b| self.share(*a).total_cmp(&self.share(*b))).unwrap_or(Group::Unknown)
    }
}

/// The verdict on a run so far.
#[must_use]
pub fn judge(findings: &Findings) -> Verdict {
    let (cause, group) = (findings.cause(), findings.group());
    if findings.seconds < EARLY {
        let text = format!("Too early to say: {:.0} s seen.", findings.seconds);
        return Verdict { cause: Cause::Unknown, text, advice: None };
    }
    let mut text = causes::sentence(findings, cause).unwrap_or_else(|| by_group(findings, group));
    if group != Group::Unknown && findings.rule.is_some() {
        text.push_str("; judged from thread states alone, without stacks");
    }
    if let Some(queued) = findings.queues() {
        text.push_str(&format!("; its main thread queues for a core {} of the time", percent(queued)));
    }
    if let Some(idle) = findings.accelerator_idle {
        text.push_str(&format!("; its accelerator is idle {} of the time", percent(idle)));
    }
    text.push('.');
    Verdict { cause, text, advice: Some(advise(findings, cause)) }
}

/// The sentence about a group.
fn by_group(findings: &Findings, group: Group) -> String {
    let said = said(findings, group);
    match group {
        Group::Data => {
            format!("Waits {said} of its time for data{}{}", causes::split(findings), loaders(findings))
        }
        Group::Io => format!("Spends {said} of its time in other file or network work{}", at(findings, group)),
        Group::Device => format!("Waits {said} of its time for the device or other ranks{}", spared(findings)),
        Group::Host => {
            format!("Its main thread is at its own work {said} of the time{}{}", own(findings), spared(findings))
        }
        Group::Unknown => format!("Where {said} of its time goes is not known{}", why_unknown(findings)),
    }
}

/// `41 % ± 3`, or `41 % (35 to 60)` where the interval is lopsided.
fn said(findings: &Findings, cause: Group) -> String {
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
    if many == 0 && findings.hidden {
        return format!(", in a queue that threads of its own fill{inside}");
    }
    if many == 0 {
        return format!(", which its main thread loads itself{inside}");
    }
    let what = match (usage.processes, many) {
        (0, 1) => "its loader thread is".to_owned(),
        (0, n) if usage.alike => format!("its {n} loader threads are"),
        (0, n) => format!("the busiest of its {n} loader threads is"),
        (_, 1) => "its worker is".to_owned(),
        (_, n) => format!("its {n} workers are"),
    };
    let parts = usage.parts().into_iter().filter(|(_, share)| *share >= 0.1);
    let remote =
        findings.part(Cause::FetchNetwork) > findings.part(Cause::FetchStorage) + findings.part(Cause::FetchCache);
    let name = |does: Does| if does == Does::Storage && remote { "waiting for the network" } else { does.name() };
    let does: Vec<(Does, String)> =
        parts.map(|(does, share)| (does, format!("{} {}", name(does), percent(share)))).collect();
    let one = many == 1 || usage.processes == 0 && !usage.alike;
    let whose = if one { "its time" } else { "theirs" };
    let Some((first, _)) = does.first() else { return inside };
    let asleep = match (first, does.len()) {
        (Does::Sleep, 1) => " (a timed sleep in the dataset, a rate limit, or retries)",
        (Does::Sleep, _) => " (asleep: a timed sleep in the dataset, a rate limit, or retries)",
        _ => "",
    };
    let list: Vec<String> = does.iter().map(|(_, text)| text.clone()).collect();
    format!("; {what} {} of {whose}{asleep}{inside}", list.join(", "))
}

/// What a worker does with a part of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Cpu,
    Queue,
    Storage,
    Sleep,
    Idle,
}

impl Does {
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "on a CPU",
            Self::Queue => "queueing for a core",
            Self::Storage => "waiting for storage",
            Self::Sleep => "asleep",
            Self::Idle => "idle",
        }
    }
}

impl CrewUse {
    /// What is known of their time, the largest part first.
    pub(crate) fn parts(&self) -> Vec<(Does, f64)> {
        let all = [
            (Does::Cpu, self.on_cpu),
            (Does::Queue, self.queued),
            (Does::Storage, self.storage),
            (Does::Sleep, self.asleep),
            (Does::Idle, self.idle),
        ];
        let mut parts: Vec<(Does, f64)> = all.into_iter().filter_map(|(does, share)| Some((does, share?))).collect();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        parts
    }
}

/// Where the main thread's own time goes: asleep, and in which function.
fn own(findings: &Findings) -> String {
    let asleep = match findings.sleeps() {
        share if share >= 0.1 => format!("; asleep {} of its time outside the loader", percent(share)),
        _ => String::new(),
    };
    let often = findings.leaf[Group::Host as usize].as_ref();
    let often = often.map(|(leaf, share)| format!("; most often in {leaf} ({} of those stacks)", percent(*share)));
    asleep + &often.unwrap_or_default()
}

fn spared(findings: &Findings) -> String {
    let data = Group::Data as usize;
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

/// The frame that decided, and the innermost one where that is another.
fn at(findings: &Findings, cause: Group) -> String {
    let c = cause as usize;
    let leaf = findings.leaf[c].as_ref().map(|(leaf, _)| leaf);
    match (&findings.frame[c], leaf) {
        (Some(frame), Some(leaf)) if frame != leaf => format!(", mostly {frame}, most often in {leaf}"),
        (Some(frame), _) => format!(", mostly {frame}"),
        (None, Some(leaf)) => format!(", most often in {leaf}"),
        (None, None) => String::new(),
    }
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

    /// A run of a minute: shares in the order of [`Group::ALL`], intervals of two points.
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
            fine: None,
            seconds: 60.0,
            stacks: 1000.0,
            usage: CrewUse::default(),
            hidden: false,
            cores: Some(8.0),
            cores_used: Some(3.0),
            frame: Default::default(),
            leaf: Default::default(),
            sleeper: None,
            queued: None,
            supply: Supply::default(),
            accelerator_idle: None,
            rule: None,
        }
    }

    #[test]
    fn what_stands_in_the_way_is_named_before_what_takes_most_time() {
        let cases = [
            ([0.30, 0.00, 0.60, 0.10, 0.0], Group::Data),
            ([0.06, 0.20, 0.60, 0.14, 0.0], Group::Io),
            ([0.01, 0.00, 0.80, 0.19, 0.0], Group::Device),
            ([0.01, 0.01, 0.10, 0.88, 0.0], Group::Host),
            ([0.10, 0.00, 0.10, 0.20, 0.6], Group::Unknown),
        ];
        for (share, cause) in cases {
            assert_eq!(findings(share).group(), cause, "{share:?}");
        }
    }

    #[test]
    fn what_workers_do_is_listed_by_size() {
        let mut f = findings([0.41, 0.0, 0.5, 0.09, 0.0]);
        f.usage =
            CrewUse { processes: 2, on_cpu: Some(0.22), queued: Some(0.31), storage: Some(0.45), ..CrewUse::default() };
        let text = judge(&f).text;
        assert!(text.contains("waiting for storage 45 %, queueing for a core 31 %, on a CPU 22 %"), "{text}");
    }

    #[test]
    fn the_sentence_carries_its_evidence() {
        let mut starved = findings([0.41, 0.0, 0.5, 0.09, 0.0]);
        starved.usage = CrewUse { processes: 4, on_cpu: Some(0.92), queued: Some(0.02), ..CrewUse::default() };
        starved.accelerator_idle = Some(0.55);
        let mut alone = findings([0.41, 0.0, 0.5, 0.09, 0.0]);
        alone.shares.joint[State::Running as usize][Group::Data as usize] = 0.3;
        let mut checkpoint = findings([0.01, 0.12, 0.7, 0.17, 0.0]);
        checkpoint.frame[Group::Io as usize] = Some("serialization.py:save".to_owned());
        let mut native = findings([0.41, 0.0, 0.0, 0.5, 0.09]);
        native.usage = CrewUse { threads: 3, on_cpu: Some(0.3), storage: Some(0.6), ..CrewUse::default() };
        native.rule = Some("no stacks".to_owned());
        native.shares.high[0] = 0.52;
        let mut early = findings([1.0, 0.0, 0.0, 0.0, 0.0]);
        early.seconds = 2.0;
        let mut dark = findings([0.1, 0.0, 0.0, 0.2, 0.7]);
        dark.rule = Some("no rule applies without stacks".to_owned());
        let mut sleeping = findings([0.41, 0.0, 0.5, 0.09, 0.0]);
        sleeping.usage = CrewUse { processes: 2, storage: Some(0.0), asleep: Some(0.99), ..CrewUse::default() };
        let mut stepping = findings([0.01, 0.0, 0.0, 0.99, 0.0]);
        stepping.shares.joint[State::Sleep as usize][Group::Host as usize] = 0.62;
        stepping.leaf[Group::Host as usize] = Some(("gen.py:mainwork".to_owned(), 0.33));
        stepping.queued = Some(0.2);
        let all = [
            sleeping,
            stepping,
            starved,
            alone,
            checkpoint,
            native,
            early,
            dark,
            findings([0.004, 0.0, 0.9, 0.096, 0.0]),
        ];
        let said: Vec<String> = all.iter().map(|f| judge(f).text).collect();
        insta::assert_snapshot!(said.join("\n"), @r#"
        Waits 41 % ± 2 of its time for data; its 2 workers are asleep 99 % of theirs (a timed sleep in the dataset, a rate limit, or retries).
        Its main thread is at its own work 99 % (97 to 100) of the time; asleep 62 % of its time outside the loader; most often in gen.py:mainwork (33 % of those stacks); waits 1.0 % (at most 3 %) for data; its main thread queues for a core 20 % of the time.
        Waits 41 % ± 2 of its time for data; its 4 workers are on a CPU 92 % of theirs; its accelerator is idle 55 % of the time.
        Waits 41 % ± 2 of its time for data, which its main thread loads itself; 73 % of that on a CPU inside the fetch.
        Spends 12 % ± 2 of its time in other file or network work, mostly serialization.py:save.
        Waits 41 % (39 to 52) of its time for data; the busiest of its 3 loader threads is waiting for storage 60 %, on a CPU 30 % of its time; judged from thread states alone, without stacks.
        Too early to say: 2 s seen.
        Where 70 % ± 2 of its time goes is not known: no rule applies without stacks.
        Waits 90 % ± 2 of its time for the device or other ranks; waits 0.4 % (at most 2 %) for data.
        "#);
    }
}
