//! What is said of a cause, and what to do about it.

use super::cores::{Who, shortage};
use super::rule::Rule;
use super::{Findings, percent};
use crate::attribute::cause::Cause;
use crate::attribute::kind::Group;

/// Causes smaller than this are left out of a list.
const SMALL: f64 = 0.01;
/// Most causes listed.
const MOST: usize = 3;

/// A cause in plain words.
fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::FetchStorage => "reading from storage",
        Cause::FetchCache => "reading from the page cache",
        Cause::FetchNetwork => "reading over the network or FUSE",
        Cause::Decode => "decoding and transforming",
        Cause::Handoff => "handing batches over",
        Cause::Startup => "starting workers",
        Cause::Contention => "queueing for cores",
        Cause::Copy => "copies between host and device",
        Cause::Offload => "offloaded state",
        Cause::Bubble => "gaps of the pipeline",
        Cause::Collective => "collectives",
        Cause::Embedding => "embedding lookups",
        Cause::Imbalance => "a slower rank",
        Cause::Checkpoint => "checkpoints",
        Cause::Host => "the main thread's own work",
        Cause::Io => "other file or network work",
        Cause::Compute => "the step itself",
        Cause::Unknown => "nothing that is known",
    }
}

/// Whether a cause is a part of the wait for data.
fn of_data(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::FetchStorage
            | Cause::FetchCache
            | Cause::FetchNetwork
            | Cause::Decode
            | Cause::Handoff
            | Cause::Startup
            | Cause::Contention
    )
}

/// ` (reading from storage 30 %, decoding and transforming 8 %)`: what the wait for data is made of.
pub(super) fn split(f: &Findings) -> String {
    let mut parts: Vec<(Cause, f64)> =
        Cause::ALL.into_iter().filter(|c| of_data(*c)).map(|c| (c, f.part(c))).filter(|x| x.1 >= SMALL).collect();
    // Queueing for cores is no part of this wait alone: what the others leave of it is, the rest lies in the step.
    let others: f64 = parts.iter().filter(|(cause, _)| *cause != Cause::Contention).map(|x| x.1).sum();
    let room = (f.share(Group::Data) - others).max(0.0);
    parts.iter_mut().filter(|(cause, _)| *cause == Cause::Contention).for_each(|part| part.1 = part.1.min(room));
    parts.retain(|(_, share)| *share >= SMALL);
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let list: Vec<String> =
        parts.iter().take(MOST).map(|(cause, share)| format!("{} {}", words(*cause), percent(*share))).collect();
    if list.is_empty() { String::new() } else { format!(" ({})", list.join(", ")) }
}

/// The sentence about a cause that is no part of the wait for data; `None` for the others, of which
/// the sentence about their group tells more.
pub(super) fn sentence(f: &Findings, cause: Cause) -> Option<String> {
    if !cause.stalls() || of_data(cause) && (cause != Cause::Contention || f.group() == Group::Data) {
        return None;
    }
    let fine = f.fine.as_ref()?;
    let share = percent(f.part(cause));
    let what = match cause {
        Cause::Copy => format!("Spends {share} of its time in copies between host and device"),
        Cause::Offload => {
            format!("Spends {share} of its time moving optimizer or parameter state off and on the device")
        }
        Cause::Bubble => format!("Waits {share} of its time for other stages of its pipeline"),
        Cause::Collective => format!("Spends {share} of its time in collectives that no rank could leave earlier"),
        Cause::Embedding => format!("Spends {share} of its time looking up embeddings"),
        Cause::Imbalance => format!("Waits {share} of its time for a slower rank"),
        Cause::Checkpoint => format!("Spends {share} of its time saving or loading checkpoints"),
        Cause::Host => format!("Its accelerator waits {share} of the time for the main thread's own work"),
        Cause::Contention => format!("Is ready to run but kept from a core {share} of its time"),
        _ => format!("Spends {share} of its time in other file or network work"),
    };
    let facts = fine.facts.get(cause as usize).cloned().flatten();
    let facts = facts.map(|facts| format!("; {facts}")).unwrap_or_default();
    let data = percent(f.share(Group::Data));
    Some(format!("{what}{facts}; waits {data} for data"))
}

/// Advice that a cause gives by itself; `None` where the rules of its group say more.
pub(super) fn advice(f: &Findings, cause: Cause) -> Option<(Rule, String)> {
    f.fine.as_ref()?;
    if cause == Cause::Contention {
        return contended(f, cause);
    }
    let share = percent(f.part(cause));
    of_loading(cause, &share).or_else(|| of_the_step(cause, &share))
}

fn contended(f: &Findings, cause: Cause) -> Option<(Rule, String)> {
    let workers = f.usage.queued.filter(|_| f.usage.processes > 0);
    let who = if workers.is_some_and(|queued| queued >= f.queued.unwrap_or(0.0)) { Who::Workers } else { Who::Main };
    shortage(f, who, f.part(cause)).or_else(|| {
        let share = percent(f.part(cause));
        let text = format!(
            "Leave the job its cores: it is ready to run but waits for one {share} of the time. Limit the threads of each \
             worker (`torch.set_num_threads(1)`, OMP_NUM_THREADS, `cv2.setNumThreads(0)`), and look at its affinity."
        );
        Some((Rule::Contended, text))
    })
}

/// Causes of waiting for data.
fn of_loading(cause: Cause, share: &str) -> Option<(Rule, String)> {
    let found = match cause {
        Cause::FetchNetwork => (
            Rule::Network,
            format!(
                "Hide or shorten the round trips: reading over the network or FUSE takes {share} of the time. More \
                 workers or deeper prefetch overlap them; fewer, larger files (shards) or a local copy remove them."
            ),
        ),
        Cause::FetchCache => (
            Rule::Cached,
            format!(
                "Read less: copying what the page cache holds already takes {share} of the time, so faster storage would \
                 not help. Map the files, read only the part that is used, or use more workers."
            ),
        ),
        Cause::Startup => (
            Rule::KeepWorkers,
            format!(
                "Keep the workers (for PyTorch `persistent_workers=True`): making them and waiting for their first \
                 batch takes {share} of the time."
            ),
        ),
        _ => return None,
    };
    Some(found)
}

/// Causes within the step.
fn of_the_step(cause: Cause, share: &str) -> Option<(Rule, String)> {
    let found = match cause {
        Cause::Copy => (
            Rule::Copies,
            format!(
                "Copy from pinned memory and beside the step (`pin_memory=True`, `non_blocking=True`): copies take {share} \
                 of the time."
            ),
        ),
        Cause::Offload => (
            Rule::Offloaded,
            format!(
                "Move less state per step: offloaded optimizer or parameter state takes {share} of the time. Keep more of \
                 it on the device, or overlap its transfer with the backward pass."
            ),
        ),
        Cause::Bubble => (
            Rule::Bubbles,
            format!(
                "Use more micro-batches or an interleaved schedule: this stage waits {share} of the time for others, and \
                 its loader is not what it waits for."
            ),
        ),
        Cause::Collective => (
            Rule::Overlap,
            format!(
                "Overlap or shrink the collectives (larger buckets, gradient accumulation, lower precision): they take \
                 {share} of the time on the fastest rank too."
            ),
        ),
        Cause::Embedding => (
            Rule::Lookups,
            format!("Cache or shard the embeddings differently: looking them up takes {share} of the time."),
        ),
        Cause::Imbalance => (
            Rule::SlowRank,
            format!("Look at the rank it waits for, not at this one: {share} of the time goes into waiting for it."),
        ),
        Cause::Checkpoint => (
            Rule::Checkpoints,
            format!(
                "Save checkpoints beside the training (asynchronously, from a copy in memory) or less often: they take \
                 {share} of the time."
            ),
        ),
        Cause::Host => (
            Rule::HostBound,
            format!(
                "Give the accelerator work earlier: the main thread's own work keeps it idle {share} of the time. Fewer \
                 synchronous reads (`.item()`), larger kernels (compile, CUDA graphs), and rare garbage collection help."
            ),
        ),
        _ => return None,
    };
    Some(found)
}
