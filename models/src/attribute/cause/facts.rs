//! The facts behind a cause, in words that people can act on.

use feedline_traces::unit::Unit;

use super::super::kind::State;
use super::super::site::Task;
use super::names::Cause;
use super::split::{Part, Split};
use super::view::View;

/// Parts of the wait smaller than this are left out.
const SMALL: f64 = 0.02;
/// Timed reads from which their mean is told.
const MANY: f64 = 20.0;
/// Most parts named.
const MOST: usize = 3;

/// The facts behind one cause; `None` where there is none of it.
pub(in super::super) fn facts(cause: Cause, split: &Split, view: &View<'_>, frame: Option<&str>) -> Option<String> {
    if split.of_cause(cause) < 0.002 {
        return None;
    }
    let mut facts = waits(cause, split, view);
    if let Some(bytes) = bytes(cause, view) {
        facts.push(bytes);
    }
    facts.extend(split.notes.iter().filter(|(c, _)| *c == cause).map(|(_, text)| text.clone()));
    facts.extend(frame.map(|frame| format!("mostly {frame}")));
    (!facts.is_empty()).then(|| facts.join("; "))
}

/// What the bottleneck does in the part of the wait that is this cause's.
fn waits(cause: Cause, split: &Split, view: &View<'_>) -> Vec<String> {
    let mut parts: Vec<&Part> = split.parts.iter().filter(|p| p.cause == cause && p.weight >= SMALL).collect();
    parts.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    parts.truncate(MOST);
    let crew = view.crew.map_or(0.0, |crew| crew.count);
    let who = match (view.crew.is_some_and(|c| c.staged), crew) {
        (true, _) => "the busiest loader thread".to_owned(),
        (_, n) if view.crew.is_some_and(|c| c.threads) => {
            if n > 1.5 {
                format!("{n:.0} loader threads")
            } else {
                "its loader thread".to_owned()
            }
        }
        (_, n) if n > 1.5 => format!("{n:.0} workers"),
        _ => "its worker".to_owned(),
    };
    let mut out = Vec::new();
    for (own, who) in [(false, who.as_str()), (true, "the main thread")] {
        let mine = parts.iter().filter(|p| p.own == own);
        let list: Vec<String> = mine.map(|p| format!("{} {:.0} % of the wait", doing(p), p.weight * 100.0)).collect();
        if !list.is_empty() {
            out.push(format!("{who} {}", list.join(", ")));
        }
    }
    out
}

/// `in read on a remote file (fetch)`.
fn doing(part: &Part) -> String {
    let state = match part.kind.0 {
        State::Running if part.cause == Cause::Contention => "ready and queueing for a core".to_owned(),
        State::Running => "on a CPU".to_owned(),
        State::Disk => format!("blocked on a device or a page{}", part.kind.1.words()),
        State::Futex => "on a lock".to_owned(),
        State::Sleep => "in a timed sleep".to_owned(),
        state => format!("in {}{}", state.name(), part.kind.1.words()),
    };
    match part.task {
        Task::Other => state,
        Task::Idle => format!("{state} waiting for work"),
        Task::Put => format!("{state} handing over"),
        task => format!("{state} ({})", task.name()),
    }
}

/// Where the bytes come from.
fn bytes(cause: Cause, view: &View<'_>) -> Option<String> {
    let flow = view.crew.filter(|crew| !crew.staged).map_or(view.flow, |crew| crew.flow);
    let count = view.crew.filter(|crew| !crew.staged).map_or(1.0, |crew| crew.count);
    let rate = (flow.seconds > 0.0).then(|| flow.bytes() / flow.seconds * count / 1e6);
    let timed = Some(flow.timed).filter(|(calls, _)| *calls >= MANY).map(|(calls, time)| {
        format!("a read takes {} on average (timed in the kernel)", Unit::Nanos.show(time / calls * 1e9))
    });
    match cause {
        Cause::FetchNetwork if !view.origin.remote.is_empty() => {
            let timed = timed.map(|timed| format!(", {timed}"));
            Some(format!("from {}{}", view.origin.remote.join(", "), timed.unwrap_or_default()))
        }
        Cause::FetchStorage | Cause::FetchCache => {
            let part = flow.device_part()? * 100.0;
            let cached =
                view.origin.resident.map(|x| format!(", the page cache holds {:.0} % of the files", x * 100.0));
            let read = rate.map_or_else(|| "reads".to_owned(), |rate| format!("{rate:.1} MB/s read"));
            let timed = timed.map(|timed| format!("; {timed}"));
            let more = [cached, timed].into_iter().flatten().collect::<String>();
            Some(format!("{read}, {part:.0} % of it from a device{more}"))
        }
        _ => None,
    }
}
