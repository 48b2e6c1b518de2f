//! What the step model expects of a row, and the limits that it sees, as columns to learn from: of the
//! configuration and the probe alone.

use feedline_traces::Result;

use super::ObservationRow;
use crate::learn::declare::{Raw, Table, column};
use crate::step_model::{Dist, FED, Job, estimate};

/// What the step model expects of a row. Rates are samples a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Of the job.
    pub samples_rate: f64,
    /// Share of the time waiting for data.
    pub stall: f64,
    /// What binds the job.
    pub binding: &'static str,
    /// Of the loader, for a trainer that takes no time.
    pub loader_rate: f64,
    /// What binds that.
    pub loader_binding: &'static str,
    /// Of the trainer, if it never waits.
    pub demand_rate: f64,
    /// Of the workers, each alone on an idle machine.
    pub worker_rate: f64,
    /// Of the cores, if they do nothing else.
    pub core_rate: f64,
    /// The most that the storage gave in the probe.
    pub storage_rate: f64,
}

/// Columns that [`expect`] adds and that are known before a run, numbers first, then names.
pub const EXPECTED: [&str; 9] = [
    "expected_samples_rate",
    "expected_stall",
    "loader_rate",
    "demand_rate",
    "worker_rate",
    "core_rate",
    "storage_rate",
    "expected_binding",
    "loader_binding",
];

/// The column that says what held a job back, which is known only after its run: `step` where it
/// hardly waited, else what binds the loader by the step model.
pub const BINDS: &str = "binds";

impl ObservationRow {
    /// What the step model expects of this row.
    ///
    /// # Errors
    /// As [`ObservationRow::job`].
    pub fn expected(&self) -> Result<Expected> {
        let job = self.job()?;
        let found = estimate(&job)?;
        // A step that takes nothing shows what binds the loader, whether the job waits for it or not.
        let idle = Job { step: Dist::Constant(1e-9), host: Dist::ZERO, ..job.clone() };
        let batch = f64::from(job.batch);
        let bytes = job.sample.mean();
        let cpu = job.storage.cpu.mean() + job.decode.mean() + job.collate.mean() / batch;
        let alone = job.storage.latency.mean() + bytes / job.storage.bandwidth + cpu;
        let trainer = job.step.mean() + job.host.mean() / job.cores.min(1.0);
        let seen = [self.rate_1.0, self.rate_4.0, self.rate_16.0];
        let in_order = if &*self.access.0 == "shuffled" { f64::NAN } else { self.rate_in_order.0 };
        let most = seen.into_iter().chain([in_order]).filter(|rate| rate.is_finite()).fold(f64::NAN, f64::max);
        Ok(Expected {
            samples_rate: found.samples_per_second,
            stall: found.stall,
            binding: found.binding.name(),
            loader_rate: found.loader,
            loader_binding: estimate(&idle)?.binding.name(),
            demand_rate: batch / trainer,
            worker_rate: f64::from(job.workers.max(1)) / alone,
            core_rate: job.cores / (cpu + (job.handover.mean() + job.host.mean()) / batch),
            storage_rate: most / bytes,
        })
    }
}

/// Adds to a table of observations the columns [`EXPECTED`] and [`BINDS`]. A row of which the step model
/// can say nothing has them missing.
///
/// # Errors
/// When the table lacks a column that the step model needs.
pub fn expect(table: &mut Table) -> Result<()> {
    let rows = rows(table)?;
    let expected: Vec<Option<Expected>> = rows.iter().map(|row| row.expected().ok()).collect();
    let number = |of: fn(&Expected) -> f64| {
        Raw::Numbers(expected.iter().map(|e| e.as_ref().map_or(f64::NAN, of)).map(finite).collect())
    };
    let text = |of: fn(&Expected) -> &'static str| {
        Raw::Texts(expected.iter().map(|e| e.as_ref().map_or("", of).to_owned()).collect())
    };
    let numbers: [fn(&Expected) -> f64; 7] = [
        |e| e.samples_rate,
        |e| e.stall,
        |e| e.loader_rate,
        |e| e.demand_rate,
        |e| e.worker_rate,
        |e| e.core_rate,
        |e| e.storage_rate,
    ];
    let texts: [fn(&Expected) -> &'static str; 2] = [|e| e.binding, |e| e.loader_binding];
    let made = numbers.into_iter().map(number).chain(texts.into_iter().map(text)).collect::<Vec<_>>();
    let binds = |(row, expected): (&ObservationRow, &Option<Expected>)| match expected {
        _ if !row.stall.0.is_finite() => String::new(),
        _ if row.stall.0 < FED => "step".to_owned(),
        Some(expected) => expected.loader_binding.to_owned(),
        None => String::new(),
    };
    let binds = rows.iter().zip(&expected).map(binds).collect();
    table.extend(EXPECTED.map(str::to_owned).into_iter().zip(made));
    table.insert(BINDS.to_owned(), Raw::Texts(binds));
    Ok(())
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { f64::NAN }
}

/// The rows of a table, with what the step model looks at.
pub(crate) fn rows(table: &Table) -> Result<Vec<ObservationRow>> {
    let (access, step_kind) = (column(table, "access")?.texts(), column(table, "step_kind")?.texts());
    let mut rows: Vec<ObservationRow> = access
        .iter()
        .zip(&step_kind)
        .map(|(access, kind)| ObservationRow {
            access: access.as_str().into(),
            step_kind: kind.as_str().into(),
            ..ObservationRow::default()
        })
        .collect();
    for (name, set) in NEEDED {
        rows.iter_mut().zip(column(table, name)?.numbers()).for_each(|(row, value)| set(row, value));
    }
    Ok(rows)
}

type Setter = fn(&mut ObservationRow, f64);

/// The numbers that are read, and where they go; `stall` only says, afterwards, whether a job waited.
const NEEDED: [(&str, Setter); 24] = [
    ("batch", |row, v| row.batch = v.into()),
    ("workers", |row, v| row.workers = v.into()),
    ("prefetch", |row, v| row.prefetch = v.into()),
    ("step", |row, v| row.step = v.into()),
    ("sample_bytes", |row, v| row.sample_bytes = v.into()),
    ("cores", |row, v| row.cores = v.into()),
    ("read_p10_1", |row, v| row.read_p10_1 = v.into()),
    ("read_p50_1", |row, v| row.read_p50_1 = v.into()),
    ("read_p90_1", |row, v| row.read_p90_1 = v.into()),
    ("read_p99_1", |row, v| row.read_p99_1 = v.into()),
    ("read_mean_1", |row, v| row.read_mean_1 = v.into()),
    ("read_mean_4", |row, v| row.read_mean_4 = v.into()),
    ("read_mean_16", |row, v| row.read_mean_16 = v.into()),
    ("rate_1", |row, v| row.rate_1 = v.into()),
    ("rate_4", |row, v| row.rate_4 = v.into()),
    ("rate_16", |row, v| row.rate_16 = v.into()),
    ("rate_in_order", |row, v| row.rate_in_order = v.into()),
    ("read_cpu", |row, v| row.read_cpu = v.into()),
    ("decode_cpu", |row, v| row.decode_cpu = v.into()),
    ("collate_cpu", |row, v| row.collate_cpu = v.into()),
    ("handover", |row, v| row.handover = v.into()),
    ("handover_cpu", |row, v| row.handover_cpu = v.into()),
    ("tensor_bytes", |row, v| row.tensor_bytes = v.into()),
    ("stall", |row, v| row.stall = v.into()),
];
