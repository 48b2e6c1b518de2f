//! A whole run in a few values by trainer, read back from the derived rows: for reports.

use std::collections::BTreeMap;

use feedline_traces::{ColumnRef, Result, Schema, Symbol, TableId, Tick};

/// Trainers summed up at most.
const TRAINERS: usize = 4096;

/// The last verdict on a trainer, and its mean shares.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// The trainer, `PID@START`.
    pub process: String,
    /// What is in the way.
    pub cause: Option<String>,
    /// Share of wall time waiting for data over the run.
    pub data: Option<f64>,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// A rating of the evidence from 0 to 1.
    pub confidence: Option<f64>,
    /// The verdict in one sentence.
    pub text: Option<String>,
    /// What to do about it.
    pub advice: Option<String>,
    /// Share of time in which the accelerator was idle.
    pub accelerator_idle: Option<f64>,
    /// Group and share, each the mean over the windows of the run.
    pub shares: Vec<(String, f64)>,
    /// The last known time from step to step, in nanoseconds.
    pub period: Option<f64>,
}

/// Gathers [`Summary`]s from ticks.
#[derive(Debug, Clone)]
pub struct Summaries {
    verdict: [ColumnRef; 9],
    stall: [ColumnRef; 3],
    step: [ColumnRef; 2],
    trainers: BTreeMap<Symbol, Gathered>,
}

#[derive(Debug, Clone, Default)]
struct Gathered {
    last: Summary,
    shares: BTreeMap<Symbol, (f64, f64)>,
}

impl Summaries {
    /// Binds to a schema that has the derived tables.
    ///
    /// # Errors
    /// When a table or a column is missing; the hint names the nearest.
    pub fn bind(schema: &Schema) -> Result<Self> {
        let find = |path: &str| schema.find(path);
        Ok(Self {
            verdict: [
                find("verdict.process")?,
                find("verdict.cause")?,
                find("verdict.data")?,
                find("verdict.low")?,
                find("verdict.high")?,
                find("verdict.confidence")?,
                find("verdict.text")?,
                find("verdict.advice")?,
                find("verdict.accelerator_idle")?,
            ],
            stall: [find("stall.process")?, find("stall.cause")?, find("stall.share")?],
            step: [find("step.process")?, find("step.period")?],
            trainers: BTreeMap::new(),
        })
    }

    /// Takes the derived rows of a tick.
    pub fn accept(&mut self, tick: &Tick) {
        let (verdict, stall, step) = (self.verdict, self.stall, self.step);
        each(tick, verdict[0].table, |text, number| {
            let Some(process) = text(verdict[0]) else { return };
            let Some(gathered) = self.trainer(&process) else { return };
            let said = |column| text(column).map(|s| s.to_string());
            gathered.last = Summary {
                process: process.to_string(),
                cause: said(verdict[1]),
                data: number(verdict[2]),
                low: number(verdict[3]),
                high: number(verdict[4]),
                confidence: number(verdict[5]),
                text: said(verdict[6]),
                advice: said(verdict[7]),
                accelerator_idle: number(verdict[8]),
                shares: Vec::new(),
                period: gathered.last.period,
            };
        });
        each(tick, stall[0].table, |text, number| {
            let (Some(process), Some(cause), Some(share)) = (text(stall[0]), text(stall[1]), number(stall[2])) else {
                return;
            };
            if let Some(gathered) = self.trainer(&process) {
                let entry = gathered.shares.entry(cause).or_default();
                *entry = (entry.0 + share, entry.1 + 1.0);
            }
        });
        each(tick, step[0].table, |text, number| {
            let (Some(process), Some(period)) = (text(step[0]), number(step[1])) else { return };
            if let Some(gathered) = self.trainer(&process) {
                gathered.last.period = Some(period);
            }
        });
    }

    fn trainer(&mut self, process: &Symbol) -> Option<&mut Gathered> {
        if self.trainers.len() >= TRAINERS && !self.trainers.contains_key(process) {
            return None;
        }
        Some(self.trainers.entry(process.clone()).or_default())
    }

    /// One summary a trainer, the one that waits most for data first.
    #[must_use]
    pub fn finish(self) -> Vec<Summary> {
        let mut all: Vec<Summary> = self
            .trainers
            .into_values()
            .filter(|gathered| !gathered.last.process.is_empty())
            .map(|gathered| Summary {
                shares: gathered.shares.iter().map(|(cause, (sum, n))| (cause.to_string(), sum / n)).collect(),
                ..gathered.last
            })
            .collect();
        all.sort_by(|a, b| b.data.unwrap_or(-1.0).total_cmp(&a.data.unwrap_or(-1.0)));
        all
    }
}

/// Runs `with` on each row of a table: a reader of texts and a reader of numbers.
fn each(
    tick: &Tick,
    table: TableId,
    mut with: impl FnMut(&dyn Fn(ColumnRef) -> Option<Symbol>, &dyn Fn(ColumnRef) -> Option<f64>),
) {
    let Some(batch) = tick.batch(table) else { return };
    for row in 0..batch.len() {
        let text = |c: ColumnRef| batch.columns.get(c.column)?.text(row).cloned();
        let number = |c: ColumnRef| batch.columns.get(c.column)?.number(row).filter(|x| x.is_finite());
        with(&text, &number);
    }
}
