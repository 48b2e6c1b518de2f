//! Advice for reading.

use std::fmt::Write as _;

use feedline_traces::unit::Unit;

use super::{Advised, Effort, Plan, Price, Range};
use crate::verdict::percent;

/// Width of a line of evidence.
const WIDTH: usize = 96;

/// All of it, as a text.
#[must_use]
pub fn page(advised: &Advised) -> String {
    let mut out = String::new();
    let who = advised.trainer.split('@').next().filter(|pid| !pid.is_empty());
    let who = who.map_or_else(|| "the job".to_owned(), |pid| format!("trainer {pid}"));
    let _ = writeln!(out, "{who}: {} of its time is no step", percent(advised.stall));
    for (number, plan) in advised.plans.iter().enumerate() {
        out.push('\n');
        one(&mut out, number + 1, plan);
    }
    if let Some(nothing) = &advised.nothing {
        let _ = write!(out, "\n{}", wrapped(nothing, ""));
    }
    if let Some(said) = &advised.elsewhere {
        let head = if advised.plans.is_empty() { "What it is" } else { "Most is lost elsewhere" };
        let _ = write!(out, "\n{}", wrapped(&format!("{head}: {}", said.text), ""));
        out.push_str(&wrapped(&said.advice, "  "));
    }
    let mut told: Vec<&str> = Vec::new();
    let refused: Vec<String> = advised
        .refused
        .iter()
        .filter(|refused| {
            // The first of a knob says enough here.
            let new = !told.contains(&refused.step.knob);
            told.push(refused.step.knob);
            new
        })
        .map(|refused| format!("{} {}: {}", refused.step.knob, refused.step.to, refused.reason))
        .collect();
    if !refused.is_empty() && !advised.plans.is_empty() {
        let _ = write!(out, "\n{}", wrapped(&format!("Not advised: {}", refused.join("; ")), ""));
    }
    if !advised.assumed.is_empty() {
        let _ = write!(out, "\n{}", wrapped(&format!("Taken for granted: {}", advised.assumed.join("; ")), ""));
    }
    out
}

fn one(out: &mut String, number: usize, plan: &Plan) {
    let steps: Vec<String> =
        plan.steps.iter().map(|step| format!("{} {} → {}", step.knob, step.from, step.to)).collect();
    let _ = writeln!(out, "{number}. {}", steps.join(" and "));
    for line in plan.line.lines() {
        let _ = writeln!(out, "     {line}");
    }
    let _ = writeln!(
        out,
        "   stall {} → {}, speed {} (80 % intervals), confidence {}",
        percent(plan.stall_before),
        share(&plan.stall),
        times(&plan.gain),
        trust(plan.confidence)
    );
    if plan.gain.low <= 0.0 {
        let _ = writeln!(out, "   may gain nothing: its interval holds × 1");
    }
    let price = price(&plan.price);
    let work = match plan.effort {
        Effort::Argument => "",
        Effort::Little => "some work",
        Effort::Much => "much work",
    };
    let costs: Vec<&str> = [work, &price].into_iter().filter(|part| !part.is_empty()).collect();
    let _ = writeln!(out, "   costs {}", if costs.is_empty() { "nothing more".to_owned() } else { costs.join(", ") });
    out.push_str(&wrapped(&format!("because it {}", plan.evidence), "   "));
}

/// A plan in a few words.
#[must_use]
pub fn short(plan: &Plan) -> String {
    let steps: Vec<String> = plan.steps.iter().map(|step| format!("{} {}", step.knob, step.to)).collect();
    format!(
        "{}: stall {} → {}, speed {}",
        steps.join(" and "),
        percent(plan.stall_before),
        share(&plan.stall),
        times(&plan.gain)
    )
}

fn share(range: &Range) -> String {
    format!("{} ({} to {})", percent(range.guess), bare(range.low.min(range.high)), bare(range.high.max(range.low)))
}

fn times(range: &Range) -> String {
    format!("× {:.2} ({:.2} to {:.2})", 1.0 + range.guess, 1.0 + range.low, 1.0 + range.high)
}

/// A share in percent without its sign.
fn bare(share: f64) -> String {
    percent(share).trim_end_matches(" %").to_owned()
}

fn trust(confidence: f64) -> &'static str {
    match confidence {
        c if c >= 0.7 => "high",
        c if c >= 0.4 => "fair",
        _ => "low",
    }
}

fn price(price: &Price) -> String {
    let mut parts = Vec::new();
    let size = |bytes: f64| Unit::Bytes.show(bytes);
    match price.memory {
        Some(bytes) if bytes >= 1e6 => parts.push(format!("up to {} of memory", size(bytes))),
        Some(bytes) if bytes <= -1e6 => parts.push(format!("gives {} of memory back", size(-bytes))),
        _ => (),
    }
    if price.shm >= 1e6 {
        parts.push(format!("{} of /dev/shm", size(price.shm)));
    }
    if price.cores >= 0.05 {
        parts.push(format!("{:.1} cores", price.cores));
    }
    if let Some(bytes) = price.disk.filter(|bytes| *bytes >= 1e6) {
        parts.push(format!("{} of disk", size(bytes)));
    }
    parts.extend(price.open());
    parts.join(", ")
}

/// A text in lines of limited width, each with an indent.
fn wrapped(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + word.chars().count() + 1 > WIDTH {
            let _ = writeln!(out, "{indent}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        let _ = writeln!(out, "{indent}{line}");
    }
    out
}
