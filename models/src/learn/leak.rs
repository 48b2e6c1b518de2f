//! Inputs that give the outcome away: copies, changes of unit, monotone functions, products with
//! another input, and whatever shares its timer. The published predictor of throughput had its
//! target among its inputs three times over; here that is an error.

use std::fmt;

use feedline_traces::Result;

use super::frame::{Frame, Kind};
use super::stats;
use super::task::Task;

/// Why an input gives the outcome away.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// It has the outcome's name.
    SameName,
    /// It was measured by the same timer.
    SameTimer(String),
    /// It is the outcome in this many rows, all where both are known.
    Equal(usize),
    /// Their ratio is the same in this many rows.
    Ratio(usize),
    /// It is a line over the outcome in this many rows.
    Affine(usize),
    /// It rises or falls with the outcome: the rank correlation.
    Monotone(f64),
    /// Within every value of this group or input their ratio is the same.
    RatioWithin(String),
    /// The outcome is its product or quotient with this other input.
    With(String),
}

/// An input that gives the outcome away.
#[derive(Debug, Clone, PartialEq)]
pub struct Leak {
    /// The input.
    pub input: String,
    /// Why.
    pub why: Why,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.input)?;
        match &self.why {
            Why::SameName => write!(f, "is the outcome by name"),
            Why::SameTimer(timer) => write!(f, "shares the outcome's timer `{timer}`"),
            Why::Equal(rows) => write!(f, "equals the outcome in {rows} rows"),
            Why::Ratio(rows) => write!(f, "is the outcome in another unit in {rows} rows"),
            Why::Affine(rows) => write!(f, "lies on a line with the outcome in {rows} rows"),
            Why::Monotone(rank) => write!(f, "follows the outcome, rank correlation {rank:.4}"),
            Why::RatioWithin(group) => write!(f, "is the outcome in another unit within each {group}"),
            Why::With(other) => write!(f, "gives the outcome when multiplied or divided with {other}"),
        }
    }
}

/// From this rank correlation on an input follows the outcome.
const RANK: f64 = 0.999;
/// The fewest rows over which rank correlation and lines are judged.
const ROWS: usize = 20;
/// The fewest rows, and distinct outcomes among them, over which equality is judged.
const FEW: usize = 5;
/// How far ratios may be apart and yet the same: figures are printed with six digits or so.
const CLOSE: f64 = 2e-4;

/// All inputs of the task that give its outcome away in these rows.
///
/// # Errors
/// When the frame lacks a column of the task.
pub fn find(frame: &Frame, task: &Task, rows: &[usize]) -> Result<Vec<Leak>> {
    let target = frame.target(&task.target)?;
    let mut leaks = Vec::new();
    for name in &task.features {
        let feature = frame.feature(name)?;
        if let Some(why) = told(&feature.name, &feature.timer, &target.name, &target.timer) {
            leaks.push(Leak { input: name.clone(), why });
            continue;
        }
        if feature.kind != Kind::Numeric {
            continue;
        }
        let pairs = pairs(&feature.values, &target.values, rows);
        if let Some(why) = of_pairs(&pairs, true).or_else(|| within(frame, task, &feature.values, &target.values, rows))
        {
            leaks.push(Leak { input: name.clone(), why });
        }
    }
    if let Some(name) = &task.baseline {
        let baseline = frame.baseline(name)?;
        let told = told(&baseline.name, &baseline.timer, &target.name, &target.timer);
        // A good model of the outcome may well follow it; a copy of it is none.
        let why = told.or_else(|| of_pairs(&pairs(&baseline.values, &target.values, rows), false));
        leaks.extend(why.map(|why| Leak { input: name.clone(), why }));
    }
    products(frame, task, &target.values, rows, &mut leaks)?;
    Ok(leaks)
}

/// What names and timers say.
fn told(name: &str, timer: &str, target: &str, target_timer: &str) -> Option<Why> {
    if name == target {
        Some(Why::SameName)
    } else if !timer.is_empty() && timer == target_timer {
        Some(Why::SameTimer(timer.to_owned()))
    } else {
        None
    }
}

fn pairs(inputs: &[f64], outcomes: &[f64], rows: &[usize]) -> Vec<(f64, f64)> {
    let both = rows.iter().map(|&row| (inputs[row], outcomes[row]));
    both.filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
}

/// What the values say; `shape` asks for lines and ranks too.
fn of_pairs(pairs: &[(f64, f64)], shape: bool) -> Option<Why> {
    if pairs.len() < FEW || distinct(pairs.iter().map(|p| p.1)) < 3 {
        return None;
    }
    if pairs.iter().all(|(x, y)| same(*x, *y, 1e-9)) {
        return Some(Why::Equal(pairs.len()));
    }
    if constant_ratio(pairs) {
        return Some(Why::Ratio(pairs.len()));
    }
    if !shape || pairs.len() <= ROWS || distinct(pairs.iter().map(|p| p.0)) < 3 {
        return None;
    }
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    if stats::correlation(&x, &y).abs() > 1.0 - 1e-8 {
        return Some(Why::Affine(pairs.len()));
    }
    let rank = stats::correlation(&stats::ranks(&x), &stats::ranks(&y));
    (rank.abs() >= RANK).then_some(Why::Monotone(rank))
}

fn constant_ratio(pairs: &[(f64, f64)]) -> bool {
    let mut ratios = pairs.iter().map(|(x, y)| y / x);
    let Some(first) = ratios.next().filter(|r| r.is_finite() && *r != 0.0) else { return false };
    ratios.all(|ratio| same(ratio, first, CLOSE))
}

fn same(a: f64, b: f64, close: f64) -> bool {
    (a - b).abs() <= close * a.abs().max(b.abs())
}

fn distinct(values: impl Iterator<Item = f64>) -> usize {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.dedup();
    sorted.len()
}

/// Samples and bytes differ by the size of a sample, which is one within a data set: a change of
/// unit that only shows within groups.
fn within(frame: &Frame, task: &Task, inputs: &[f64], outcomes: &[f64], rows: &[usize]) -> Option<Why> {
    let mut columns: Vec<(&str, Vec<Vec<usize>>)> = Vec::new();
    for group in &frame.groups {
        columns.push((&group.name, group.members(rows).into_iter().map(|(_, rows)| rows).collect()));
    }
    for feature in frame.features.iter().filter(|f| task.features.contains(&f.name)) {
        let mut members = vec![Vec::new(); feature.levels().len()];
        for &row in rows {
            if let Some(level) = super::frame::level(feature.values[row], members.len()) {
                members[level].push(row);
            }
        }
        columns.push((&feature.name, members));
    }
    for (name, members) in columns {
        let mut judged = 0;
        let mut all = true;
        for rows in &members {
            let pairs = pairs(inputs, outcomes, rows);
            if pairs.len() < FEW
                || distinct(pairs.iter().map(|p| p.1)) < FEW
                || distinct(pairs.iter().map(|p| p.0)) < FEW
            {
                continue;
            }
            judged += 1;
            all &= constant_ratio(&pairs);
        }
        if judged > 0 && all {
            return Some(Why::RatioWithin(name.to_owned()));
        }
    }
    None
}

/// Pairs of numeric inputs whose product or quotient is the outcome, up to a constant.
fn products(frame: &Frame, task: &Task, outcomes: &[f64], rows: &[usize], leaks: &mut Vec<Leak>) -> Result<()> {
    let mut logs: Vec<(&str, Vec<f64>)> = Vec::new();
    for name in &task.features {
        let feature = frame.feature(name)?;
        if feature.kind == Kind::Numeric && !leaks.iter().any(|l| &l.input == name) {
            logs.push((name, rows.iter().map(|&row| feature.values[row].ln()).collect()));
        }
    }
    let y: Vec<f64> = rows.iter().map(|&row| outcomes[row].ln()).collect();
    for (i, (a, first)) in logs.iter().enumerate() {
        for (b, second) in &logs[i + 1..] {
            for (s, t) in [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0)] {
                if is_shift(&y, first, s, second, t) {
                    leaks.push(Leak { input: (*a).to_owned(), why: Why::With((*b).to_owned()) });
                }
            }
        }
    }
    Ok(())
}

/// Whether `y` is `s*a + t*b` and a constant, over more than [`ROWS`] rows where all are known.
fn is_shift(y: &[f64], a: &[f64], s: f64, b: &[f64], t: f64) -> bool {
    let mut first = None;
    let mut rows = 0;
    for ((y, a), b) in y.iter().zip(a).zip(b) {
        let left = y - s * a - t * b;
        if !left.is_finite() {
            continue;
        }
        rows += 1;
        if (left - *first.get_or_insert(left)).abs() > CLOSE {
            return false;
        }
    }
    rows > ROWS
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Feature, Group, Target};
    use super::super::random::Random;
    use super::super::task::Scale;
    use super::*;

    fn frame(inputs: Vec<Feature>, outcomes: Vec<f64>) -> (Frame, Task) {
        let features = inputs.iter().map(|f| f.name.clone()).collect();
        let groups = vec![Group::new("dataset", &vec!["one"; outcomes.len()])];
        let target = Target { name: "rate".into(), unit: "1/s".into(), timer: "loop".into(), values: outcomes };
        let task = Task {
            target: "rate".into(),
            scale: Scale::Log,
            features,
            baseline: None,
            key: Vec::new(),
            last: None,
            rising: Vec::new(),
            falling: Vec::new(),
        };
        (Frame { features: inputs, targets: vec![target], groups, ..Frame::default() }, task)
    }

    fn random(rows: usize) -> (Vec<f64>, Vec<f64>) {
        let mut random = Random::new(1, 0);
        let x: Vec<f64> = (0..rows).map(|_| 1.0 + random.unit()).collect();
        let y = x.iter().map(|x| x * (5.0 + random.unit())).collect();
        (x, y)
    }

    fn why(input: Feature, outcomes: &[f64]) -> Option<Why> {
        let (frame, task) = frame(vec![input], outcomes.to_vec());
        let rows: Vec<usize> = (0..outcomes.len()).collect();
        find(&frame, &task, &rows).unwrap().pop().map(|l| l.why)
    }

    #[test]
    fn an_honest_input_is_let_through_however_good_it_is() {
        let (x, y) = random(200);
        assert_eq!(why(Feature::number("block", "", x), &y), None);
    }

    #[test]
    fn copies_units_lines_and_monotone_functions_are_refused() {
        let (_, y) = random(200);
        let of = |f: fn(f64) -> f64| Feature::number("x", "", y.iter().copied().map(f).collect());
        assert_eq!(why(of(|y| y), &y), Some(Why::Equal(200)));
        assert_eq!(why(of(|y| y / 1024.0), &y), Some(Why::Ratio(200)));
        assert_eq!(why(of(|y| 100.0 - y), &y), Some(Why::Affine(200)));
        assert!(matches!(why(of(f64::ln), &y), Some(Why::Monotone(r)) if r > 0.999));
        assert!(matches!(why(of(|y| 1.0 / y), &y), Some(Why::Monotone(r)) if r < -0.999));
        assert_eq!(why(Feature::number("rate", "", vec![1.0; 200]), &y), Some(Why::SameName));
        let timed = Feature::number("x", "", vec![1.0; 200]).measured_by("loop");
        assert_eq!(why(timed, &y), Some(Why::SameTimer("loop".into())));
    }

    #[test]
    fn a_copy_in_a_few_rows_only_is_refused() {
        // The published table: a column that is the outcome in five rows and empty in the rest.
        let (_, y) = random(141);
        let values = y.iter().enumerate().map(|(i, y)| if i < 5 { *y } else { f64::NAN }).collect();
        assert_eq!(why(Feature::number("aggregate", "", values), &y), Some(Why::Equal(5)));
    }

    #[test]
    fn a_change_of_unit_within_groups_and_by_another_input_is_refused() {
        let (x, _) = random(120);
        let size: Vec<f64> = (0..120).map(|i| [3.0, 50.0, 700.0][i % 3]).collect();
        let y: Vec<f64> = x.iter().zip(&size).map(|(x, s)| x * s).collect();
        let rows: Vec<usize> = (0..120).collect();
        let (mut frame, task) = frame(vec![Feature::number("samples", "", x), Feature::number("size", "", size)], y);
        let found = find(&frame, &task, &rows).unwrap();
        assert_eq!(found, vec![Leak { input: "samples".into(), why: Why::With("size".into()) }]);
        let names: Vec<String> = (0..120).map(|i| format!("model {}", i % 3)).collect();
        frame.groups.push(Group::new("model", &names));
        let found = find(&frame, &task, &rows).unwrap();
        assert_eq!(found, vec![Leak { input: "samples".into(), why: Why::RatioWithin("model".into()) }]);
    }

    #[test]
    fn the_task_refuses_with_every_leak_named() {
        let (_, y) = random(100);
        let copy = Feature::number("copy", "", y.clone());
        let unit = Feature::number("unit", "", y.iter().map(|y| y * 8.0).collect());
        let (frame, task) = frame(vec![copy, unit], y);
        let error = task.check(&frame).unwrap_err();
        assert!(error.message.contains("copy equals") && error.message.contains("unit is the outcome"), "{error}");
        assert!(error.hint.is_some());
    }
}
