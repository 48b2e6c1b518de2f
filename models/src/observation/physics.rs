//! A row's configuration and probe as a job of the step model.

use feedline_traces::{Error, Gauge, Result};

use super::{ObservationRow, SIMULATED};
use crate::step_model::{Dist, Job, LARGEST, Network, Order, Outcome, Run, Storage, simulate};

/// Reads this far above those of an idle storage were queueing for bandwidth or depth.
const QUEUED: f64 = 1.3;

impl ObservationRow {
    /// The job that the step model would simulate for this row: its configuration, and what the probe
    /// says of storage and decoding. Nothing of the outcome is used.
    ///
    /// # Errors
    /// Where the configuration or the probe is missing a number that the model needs.
    pub fn job(&self) -> Result<Job> {
        let number = |what: &str, gauge: f64| {
            let error = || Error::new(format!("observation {:?}: expected `{what}`, found none", self.row.0));
            if gauge.is_finite() && gauge >= 0.0 { Ok(gauge) } else { Err(error()) }
        };
        let bytes = number("sample_bytes", self.sample_bytes.0)?.min(LARGEST);
        let cores = number("cores", self.cores.0)?;
        let cpu = number("read_cpu", seconds(&self.read_cpu))?;
        let mut collate = number("collate_cpu", seconds(&self.collate_cpu))?;
        let mut handover = 0.0;
        if self.workers.0 > 0.0 && self.handover.0.is_finite() {
            handover = number("handover_cpu", seconds(&self.handover_cpu))?;
            // The worker is the slower of the two, and on one core they take turns.
            let wall = seconds(&self.handover);
            collate = collate.max(if cores < 2.0 { less(wall, handover) } else { wall });
        }
        let job = Job {
            batch: whole(number("batch", self.batch.0)?),
            workers: whole(number("workers", self.workers.0)?),
            prefetch: whole(number("prefetch", self.prefetch.0)?).max(1),
            order: Order::Strict,
            cores,
            storage: self.store(bytes, cores, cpu)?,
            network: None::<Network>,
            sample: Dist::Constant(bytes),
            samples_per_read: 1,
            decode: Dist::Constant(number("decode_cpu", seconds(&self.decode_cpu))?),
            collate: Dist::Constant(collate),
            handover: Dist::Constant(handover),
            host: if &*self.step_kind.0 == "spin" { Dist::Constant(seconds(&self.step)) } else { Dist::ZERO },
            step: if &*self.step_kind.0 == "spin" { Dist::ZERO } else { Dist::Constant(seconds(&self.step)) },
            batch_bytes: number("tensor_bytes", self.tensor_bytes.0)? * self.batch.0,
            ..Job::default()
        };
        job.check()?;
        Ok(job)
    }

    /// The storage that the probe describes. Time of a read that is no CPU is latency; bytes a second
    /// at depth are a cap only where reads became slower there and cores were not what was short.
    fn store(&self, bytes: f64, cores: f64, cpu: f64) -> Result<Storage> {
        let wait = |gauge: &Gauge<feedline_traces::unit::Nanos>| less(seconds(gauge), cpu);
        let pairs = [
            (0.1, wait(&self.read_p10_1)),
            (0.5, wait(&self.read_p50_1)),
            (0.9, wait(&self.read_p90_1)),
            (0.99, wait(&self.read_p99_1)),
        ];
        let alone = seconds(&self.read_mean_1);
        let mean = less(alone, cpu);
        let mut latency = with_mean(&pairs, mean)
            .ok_or_else(|| Error::new(format!("observation {:?}: expected `read_p50_1`, found none", self.row.0)))?;
        let rates = [self.rate_1.0, self.rate_4.0, self.rate_16.0];
        let most = rates.iter().copied().filter(|r| r.is_finite()).fold(0.0, f64::max);
        // What reading alone costs in CPU bounds the probe too: one process, and so one core at most.
        let by_cpu = bytes / cpu.max(1e-9) * cores.min(1.0);
        let queued = seconds(&self.read_mean_16) > QUEUED * 4.0 * alone && most < 0.7 * by_cpu;
        let bandwidth = if queued && most > 0.0 { most.max(1.0) } else { f64::INFINITY };
        if bandwidth.is_finite() {
            // The transfer is in the time of a read alone; what is left is latency.
            let transfer = (bytes / bandwidth).min(alone);
            let pairs = pairs.map(|(p, time)| (p, less(time, transfer)));
            latency = with_mean(&pairs, less(mean, transfer)).unwrap_or_default();
        }
        if &*self.access.0 != "shuffled" && self.rate_in_order.0 > 1.5 * self.rate_1.0 {
            // Neighbours are read ahead: what one read costs is what a sample costs in order.
            let each = less(bytes / self.rate_in_order.0, cpu);
            latency = Dist::Constant(each.min(LARGEST));
        }
        Ok(Storage { latency, bandwidth, stream: f64::INFINITY, depth: 0, cpu: Dist::Constant(cpu) })
    }
}

/// The row that the step model gives for the configuration and the probe of another.
///
/// # Errors
/// Where the row cannot be made a job ([`ObservationRow::job`]), or the simulation fails.
pub fn simulated(row: &ObservationRow, run: &Run) -> Result<ObservationRow> {
    let seen: Outcome = simulate(&row.job()?, run)?;
    let nanos = |seconds: f64| Gauge::from(seconds * 1e9);
    Ok(ObservationRow {
        origin: SIMULATED.into(),
        samples_rate: seen.samples_per_second.into(),
        bytes_rate: (seen.samples_per_second * row.sample_bytes.0).into(),
        stall: seen.stall.into(),
        period: nanos(seen.period),
        wait_mean: nanos(seen.waits.mean),
        wait_p50: nanos(seen.waits.p50),
        wait_p90: nanos(seen.waits.p90),
        wait_p99: nanos(seen.waits.p99),
        wait_most: nanos(seen.waits.most),
        memory: seen.memory.1.into(),
        steps: u64::from(seen.steps).into(),
        span: nanos(seen.period * f64::from(seen.steps)),
        ..row.clone()
    })
}

/// The distribution of some quantiles, stretched to the mean that was measured beside them: what lies
/// beyond the outermost quantile is known by it alone.
fn with_mean(pairs: &[(f64, f64)], mean: f64) -> Option<Dist> {
    let dist = Dist::from_quantiles(pairs)?;
    let factor = mean / dist.mean();
    if !(0.2..5.0).contains(&factor) {
        return Some(if mean.is_finite() { Dist::Constant(mean.min(LARGEST)) } else { dist });
    }
    let pairs: Vec<(f64, f64)> = pairs.iter().map(|&(p, value)| (p, value * factor)).collect();
    Dist::from_quantiles(&pairs)
}

/// What is left of `a` without `b`: never below 0, and missing where either is.
fn less(a: f64, b: f64) -> f64 {
    let left = a - b;
    if left < 0.0 { 0.0 } else { left }
}

fn seconds(gauge: &Gauge<feedline_traces::unit::Nanos>) -> f64 {
    gauge.0 / 1e9
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count that was checked to be finite")]
fn whole(x: f64) -> u32 {
    x.round().clamp(0.0, f64::from(u32::MAX)) as u32
}
