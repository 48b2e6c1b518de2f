//! The sections that tell why: findings, causes of the second level, and what workers did.

use feedline_traces::unit::Unit;

use super::fine::SHARES;
use super::page::Block;
use super::wording::{interval, percent, plain, table, trainer, unit};
use super::{Finding, Report, Saves};
use crate::bind::{MISSING, plain as pid};

/// Findings on the page; JSON has them all.
const FINDINGS: usize = 20;
/// Causes below this share of the run are left out of the page.
const SMALL: f64 = 0.001;
/// Causes from this share on are told with their facts.
const TOLD: f64 = 0.02;

/// Known patterns that held; nothing at all where none did.
pub(crate) fn findings(report: &Report, out: &mut Vec<Block>) {
    if report.findings.is_empty() {
        return;
    }
    out.push(Block::Heading("Findings".to_owned()));
    let said = report.findings.iter().take(FINDINGS).map(|finding| said(report, finding));
    out.push(Block::List(said.collect()));
    if report.findings.len() > FINDINGS {
        out.push(Block::Line(format!("{} more are left out here.", report.findings.len() - FINDINGS)));
    }
}

fn said(report: &Report, finding: &Finding) -> String {
    let mut about = vec![finding.kind.clone()];
    if !finding.process.is_empty() && report.trainers.len() > 1 {
        about.push(format!("trainer {}", trainer(report, &finding.process)));
    }
    about.extend(finding.severity.map(|share| format!("costs {}", percent(Some(share)))));
    let times = if finding.times > 1 { format!(" in {} stretches", finding.times) } else { String::new() };
    about.push(format!("held for {}{times}", Unit::Nanos.show(finding.seconds * 1e9)));
    about.extend(finding.holds.then(|| "at the end too".to_owned()));
    format!("{} ({}) Seen: {}. To do: {}", finding.text, about.join(", "), finding.evidence, finding.advice)
}

/// Shares of the run by cause, and the facts behind the larger ones.
pub(crate) fn causes(report: &Report, out: &mut Vec<Block>) {
    let mut rows = Vec::new();
    let mut facts = Vec::new();
    let several = report.trainers.len() > 1;
    for one in &report.trainers {
        let who = trainer(report, &one.process).to_owned();
        let rank = one.rank.map_or(MISSING.to_owned(), |rank| rank.to_string());
        for cause in one.causes_detail.iter().filter(|c| c.share.is_some_and(|share| share >= SMALL)) {
            rows.push(vec![
                who.clone(),
                rank.clone(),
                cause.cause.clone(),
                percent(cause.share),
                interval(cause.low, cause.high),
                plain(cause.confidence),
            ]);
            if let Some(evidence) = cause.evidence.as_ref().filter(|_| cause.share.is_some_and(|share| share >= TOLD)) {
                let of = if several { format!("{who}, ") } else { String::new() };
                let saves = one.saves.as_ref().filter(|_| cause.cause == "checkpoint").map(saves).unwrap_or_default();
                facts.push(format!("{of}{} {}: {evidence}{saves}", cause.cause, percent(cause.share)));
            }
        }
    }
    if rows.is_empty() {
        return;
    }
    out.push(Block::Heading("Where the time went".to_owned()));
    table(&["trainer", "rank", "cause", "share of the run", "95 %", "confidence"], 3, rows, out);
    if !facts.is_empty() {
        facts.truncate(FINDINGS);
        out.push(Block::List(facts));
    }
}

/// How often it saved, and for how long each time.
fn saves(saves: &Saves) -> String {
    let length = saves.length.map(|length| format!(" of {} on average", Unit::Nanos.show(length)));
    format!("; at least {} saves{}", saves.times, length.unwrap_or_default())
}

/// What each worker did with its time.
pub(crate) fn workers(report: &Report, out: &mut Vec<Block>) {
    let several = report.trainers.len() > 1;
    let keys = || report.trainers.iter().flat_map(|t| &t.workers).map(|w| w.process.as_str());
    let mut rows = Vec::new();
    for (one, worker) in report.trainers.iter().flat_map(|t| t.workers.iter().map(move |w| (t, w))) {
        // A thread of the trainer itself has no pid of its own.
        let inside = worker.process == one.process;
        let thread = if inside { format!("/{}", worker.thread) } else { String::new() };
        let mut row = vec![format!("{}{thread}", pid(&worker.process, keys()))];
        row.extend(several.then(|| trainer(report, &one.process).to_owned()));
        row.extend(SHARES.iter().map(|name| percent(worker.shares.get(*name).copied().flatten())));
        row.push(worker.read_rate.map_or(MISSING.to_owned(), |rate| unit(Unit::Bytes, Some(rate)) + "/s"));
        row.push(worker.mount.clone().unwrap_or(MISSING.to_owned()));
        rows.push(row);
    }
    if rows.is_empty() {
        return;
    }
    out.push(Block::Heading("What the workers did".to_owned()));
    let mut heads = vec!["pid"];
    heads.extend(several.then_some("trainer"));
    heads.extend([
        "storage", "cache", "network", "decode", "collate", "put", "idle", "queued", "other", "read", "mount",
    ]);
    table(&heads, if several { 2 } else { 1 }, rows, out);
}
