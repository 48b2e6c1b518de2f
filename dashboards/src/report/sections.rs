//! The page of a report: the verdict first and in words, then what stands behind it.

use feedline_traces::unit::Unit;

use super::page::Block;
use super::wording::{ROWS, interval, left_out, mix, percent, plain, table, trainer, unit};
use super::{Entry, Report, Section, Verdict, inside, story};
use crate::bind::{MISSING, plain as pid};

/// The parts of the page.
pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut out = vec![Block::Title(format!("feedline report: {}", report.title))];
    match (&report.started, &report.ended) {
        (Some(started), Some(ended)) => {
            out.push(Block::Line(format!("{started} to {ended} UTC, {:.0} s, {} ticks", report.seconds, report.ticks)))
        }
        _ => out.push(Block::Line("The run has no ticks.".to_owned())),
    }
    headline(report, &mut out);
    story::findings(report, &mut out);
    story::causes(report, &mut out);
    shares(report, &mut out);
    steps(report, &mut out);
    story::workers(report, &mut out);
    inside::threads(report, &mut out);
    let trainers: Vec<&Entry> = report.trainers.iter().map(|t| &t.entry).filter(|e| !e.cells.is_empty()).collect();
    if !trainers.is_empty() {
        out.push(Block::Heading("Trainers".to_owned()));
        entries(&trainers, &mut out);
    }
    for (name, table, heading) in [
        ("workers", "process", "Workers"),
        ("regions", "region", "Regions of the program"),
        ("disks", "disk", "Disks"),
        ("mounts", "mount", "Mounts"),
        ("network", "interface", "Network"),
        ("accelerators", "accelerator", "Accelerators"),
        ("pressure", "pressure", "Pressure"),
        ("cgroup", "cgroup", "Control group"),
    ] {
        // Most jobs mark no regions: nothing is missing then.
        let unmarked = |section: &&Section| name == "regions" && section.entries.is_empty();
        if let Some(section) = report.sections.get(name).filter(|section| !unmarked(section)) {
            out.push(Block::Heading(heading.to_owned()));
            let reason = report.absent.iter().find(|reason| reason.what == table);
            section_block(section, reason.map(|r| r.reason.as_str()), &mut out);
        }
    }
    absent(report, &mut out);
    own(report, &mut out);
    if !report.notes.is_empty() {
        out.push(Block::Heading("Notes".to_owned()));
        out.push(Block::List(report.notes.clone()));
    }
    out
}

fn headline(report: &Report, out: &mut Vec<Block>) {
    out.push(Block::Heading("Verdict".to_owned()));
    let Some(verdict) = &report.verdict else {
        out.push(Block::Lead("No verdict: nothing was concluded of this run.".to_owned()));
        return;
    };
    let Verdict { data, low, high, confidence, accelerator_idle, text, advice, cause, .. } = verdict;
    let said = text.clone().or_else(|| cause.clone()).unwrap_or_else(|| "No cause stands out.".to_owned());
    let who = trainer(report, &verdict.process);
    out.push(Block::Lead(format!("Trainer {who}: {said}")));
    let mut numbers = format!(
        "Waiting for data: {} of wall time ({}, 95 %), confidence {}",
        percent(*data),
        interval(*low, *high),
        plain(*confidence)
    );
    if let Some(idle) = accelerator_idle {
        numbers.push_str(&format!(", accelerator idle {}", percent(Some(*idle))));
    }
    let trainers = report.trainers.len();
    if trainers > 1 && report.slow.is_none() {
        numbers.push_str(&format!("; of {trainers} trainers this one ({who}) waits longest"));
    }
    out.push(Block::Line(numbers + "."));
    if let Some(slow) = &report.slow {
        let rank = slow.rank.map(|rank| format!(" (rank {rank})")).unwrap_or_default();
        let why =
            slow.cause.as_ref().map(|cause| format!("; most of what it loses itself is {cause}")).unwrap_or_default();
        out.push(Block::Line(format!(
            "Trainer {}{rank} is the slow one: others wait up to {} of the run for it{why}.",
            trainer(report, &slow.process),
            percent(Some(slow.lost))
        )));
    }
    if let Some(advice) = advice {
        out.push(Block::Line(format!("Advice: {advice}")));
    }
}

fn shares(report: &Report, out: &mut Vec<Block>) {
    let fine = report.trainers.iter().any(|t| !t.causes.is_empty());
    out.push(Block::Heading(if fine { "At the first level" } else { "Where the time went" }.to_owned()));
    let rows: Vec<Vec<String>> = report
        .trainers
        .iter()
        .flat_map(|trainer| {
            trainer.stall.iter().map(|stall| {
                vec![
                    self::trainer(report, &trainer.entry.entity).to_owned(),
                    stall.cause.clone(),
                    percent(stall.share),
                    interval(stall.low, stall.high),
                    plain(stall.confidence),
                    stall.windows.to_string(),
                ]
            })
        })
        .collect();
    table(&["trainer", "cause", "share", "interval of a window", "confidence", "windows"], 2, rows, out);
}

fn steps(report: &Report, out: &mut Vec<Block>) {
    out.push(Block::Heading("Steps".to_owned()));
    let rows: Vec<Vec<String>> = report
        .trainers
        .iter()
        .filter_map(|trainer| {
            let step = trainer.step.as_ref().filter(|step| step.period.is_some())?;
            Some(vec![
                self::trainer(report, &trainer.entry.entity).to_owned(),
                unit(Unit::Nanos, step.period),
                unit(Unit::Nanos, step.shortest),
                unit(Unit::Nanos, step.longest),
                unit(Unit::Nanos, step.wait),
                plain(step.confidence),
            ])
        })
        .collect();
    if !rows.is_empty() {
        let wait = "Wait: the part of a step from asking the loader for a batch to having it.";
        out.push(Block::Line(wait.to_owned()));
        let ends = "Least and most: of the means over ten seconds (medians over a minute where steps are not counted).";
        out.push(Block::Line(ends.to_owned()));
    }
    table(&["trainer", "mean", "least", "most", "wait", "confidence"], 1, rows, out);
    inside::waits(report, out);
}

fn section_block(section: &Section, reason: Option<&str>, out: &mut Vec<Block>) {
    if !section.recorded {
        out.push(Block::Line("Not recorded.".to_owned()));
    } else if section.entries.is_empty() {
        out.push(Block::Line(reason.map_or("None seen.".to_owned(), |reason| format!("None: {reason}."))));
    } else {
        entries(&section.entries.iter().collect::<Vec<_>>(), out);
    }
    left_out(usize::try_from(section.left_out).unwrap_or(usize::MAX), out);
}

/// Means of measured values; columns that no entry has are left out.
fn entries(entries: &[&Entry], out: &mut Vec<Block>) {
    let mut heads: Vec<(String, bool)> = Vec::new();
    for (head, cell, right) in entries.iter().flat_map(|e| &e.cells) {
        if cell != MISSING && !heads.iter().any(|(h, _)| h == head) {
            heads.push((head.clone(), *right));
        }
    }
    let cell = |entry: &Entry, head: &str| {
        entry.cells.iter().find(|(h, ..)| h == head).map_or(MISSING.to_owned(), |(_, cell, _)| cell.clone())
    };
    let states = entries.iter().any(|e| !e.states.is_empty());
    let mut right: Vec<bool> = heads.iter().map(|(_, right)| *right).collect();
    let rows = entries.iter().take(ROWS).map(|entry| {
        let mut row: Vec<String> = heads.iter().map(|(head, _)| cell(entry, head)).collect();
        row.extend(states.then(|| mix(&entry.states)));
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    right.extend(states.then_some(false));
    let mut heads: Vec<String> = heads.into_iter().map(|(head, _)| head).collect();
    heads.extend(states.then(|| "state %".to_owned()));
    out.push(Block::Table { heads, right, rows });
    left_out(entries.len().saturating_sub(ROWS), out);
}

fn absent(report: &Report, out: &mut Vec<Block>) {
    out.push(Block::Heading("Not known, and why".to_owned()));
    if report.absent.is_empty() {
        out.push(Block::Line("Nothing is missing.".to_owned()));
        return;
    }
    let points = report.absent.iter().take(ROWS).map(|reason| {
        let others = report.absent.iter().map(|other| other.entity.as_str());
        let of = if reason.entity.is_empty() { String::new() } else { format!(" of {}", pid(&reason.entity, others)) };
        format!("{}{of}: {}", reason.what, reason.reason)
    });
    out.push(Block::List(points.collect()));
    left_out(report.absent.len().saturating_sub(ROWS), out);
}

fn own(report: &Report, out: &mut Vec<Block>) {
    let own = &report.own;
    out.push(Block::Heading("Feedline's own cost".to_owned()));
    out.push(Block::Line(format!(
        "CPU: {} of a core. Memory: at most {}. Lost: {}. Failed calls: {}. Samples left out for the CPU budget: {}.",
        percent(own.cpu),
        unit(Unit::Bytes, own.rss_peak),
        own.drops,
        own.failures,
        own.skipped
    )));
    let rows: Vec<Vec<String>> = own
        .collectors
        .iter()
        .map(|c| {
            vec![
                c.collector.clone(),
                Unit::Nanos.show(c.cost),
                unit(Unit::Nanos, c.late_peak),
                c.rows.to_string(),
                c.drops.to_string(),
                c.failures.to_string(),
                c.skipped.to_string(),
                c.error.clone().unwrap_or_default(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let heads =
            ["collector", "cpu", "latest by", "rows", "drops", "failures", "skipped", "last error"].map(str::to_owned);
        let mut right = vec![true; heads.len()];
        right[0] = false;
        right[heads.len() - 1] = false;
        out.push(Block::Table { heads: heads.to_vec(), right, rows });
    }
}
