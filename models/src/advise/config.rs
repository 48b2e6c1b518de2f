//! A job before its first run: a configuration and a short probe, written in a file.

use std::collections::BTreeMap;

use feedline_traces::{Error, Result};
use serde::Deserialize;

use super::facts::{Crew, Facts, Machine, Reads, Said, Setting, Share};
use crate::step_model::{Dist, Job, Storage, estimate};

/// Squared coefficient of variation of what samples take.
const SPREAD: f64 = 0.5;

/// What the file says. Sizes are in bytes, times in milliseconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The loader.
    pub loader: Loader,
    /// One sample.
    pub sample: Sample,
    /// One step.
    pub step: StepTime,
    /// The machine; without it one core, and no limit of memory.
    #[serde(default)]
    pub machine: Room,
    /// Where samples are read from; without it memory.
    #[serde(default)]
    pub storage: Probe,
}

/// The loader's arguments.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loader {
    /// `num_workers`.
    pub workers: u32,
    /// `prefetch_factor`.
    #[serde(default)]
    pub prefetch: Option<u32>,
    /// `batch_size`.
    pub batch: u32,
    /// `pin_memory`.
    #[serde(default)]
    pub pin_memory: bool,
}

/// What one sample is and costs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Bytes as it is stored.
    pub bytes: f64,
    /// Milliseconds of one core to decode and transform it.
    pub decode_ms: f64,
    /// Bytes as it is handed over.
    #[serde(default)]
    pub tensor_bytes: Option<f64>,
}

/// What one step takes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepTime {
    /// Milliseconds of the accelerator.
    pub ms: f64,
    /// Milliseconds of the main thread's own work.
    #[serde(default)]
    pub host_ms: f64,
}

/// What the machine has.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Room {
    /// Cores that the job may use.
    pub cores: Option<f64>,
    /// Bytes of memory that are free.
    pub memory: Option<f64>,
    /// Bytes of `/dev/shm`.
    pub shm: Option<f64>,
}

/// A short probe of the storage.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// Milliseconds to read one sample while nothing else is read.
    pub latency_ms: f64,
    /// Megabytes a second that it gives at most, whoever asks.
    pub mb_s: Option<f64>,
    /// `disk`, `network` or `memory`.
    pub class: Option<String>,
    /// Bytes of the data set.
    pub dataset: Option<f64>,
}

impl Config {
    /// The facts that a run of this job would give, as the step model expects it.
    ///
    /// # Errors
    /// Where a number is out of range; the place names it.
    pub fn facts(&self) -> Result<Facts> {
        for (name, value) in [
            ("sample.bytes", self.sample.bytes),
            ("sample.decode_ms", self.sample.decode_ms),
            ("step.ms", self.step.ms),
            ("step.host_ms", self.step.host_ms),
            ("storage.latency_ms", self.storage.latency_ms),
            ("machine.cores", self.machine.cores.unwrap_or(1.0)),
        ] {
            if !(0.0..=1e12).contains(&value) {
                return Err(Error::new(format!("{name}: expected a number from 0, found {value}")));
            }
        }
        let job = self.job();
        job.check()?;
        let found = estimate(&job)?;
        let wait = found.stall;
        let facts = Facts {
            period: Some(found.period),
            wait: Share { share: wait, low: wait, high: wait },
            causes: self.causes(&job, wait),
            host: self.step.host_ms / 1e3 / found.period,
            crew: self.crew(&job, found.period),
            machine: Machine {
                cores: self.machine.cores,
                allowed: self.machine.cores,
                ranks: 1.0,
                available: self.machine.memory,
                shm: self.machine.shm.map(|total| (total, 0.0)),
                ..Machine::default()
            },
            reads: Reads {
                rate: Some(self.sample.bytes * found.samples_per_second),
                bytes: Some(self.sample.bytes),
                class: self.storage.class.clone(),
                dataset: self.storage.dataset,
                limit: Some(self.storage.mb_s.map_or(f64::MAX, |mb| mb * 1e6)),
                ..Reads::default()
            },
            setting: Setting {
                prefetch: Some(self.loader.prefetch.unwrap_or(super::USUAL_PREFETCH)),
                batch: Some(self.loader.batch),
                pins: self.loader.pin_memory,
                framework: Some("pytorch".to_owned()),
                batch_bytes: self.sample.tensor_bytes.map(|bytes| bytes * f64::from(self.loader.batch)),
            },
            verdict: Some(Said {
                cause: String::new(),
                text: format!(
                    "The step model expects {} of the time to be spent waiting for data.",
                    crate::verdict::percent(wait)
                ),
                advice: format!("It is bound by `{}`.", found.binding.name()),
            }),
            ..Facts::default()
        };
        Ok(facts)
    }

    fn job(&self) -> Job {
        let spread = |mean: f64| Dist::Lognormal { mean, scv: SPREAD };
        Job {
            batch: self.loader.batch,
            workers: self.loader.workers,
            prefetch: self.loader.prefetch.unwrap_or(super::USUAL_PREFETCH),
            cores: self.machine.cores.unwrap_or(1.0),
            storage: Storage {
                latency: spread(self.storage.latency_ms / 1e3),
                bandwidth: self.storage.mb_s.map_or(f64::INFINITY, |mb| mb * 1e6),
                ..Storage::default()
            },
            sample: Dist::Constant(self.sample.bytes),
            decode: spread(self.sample.decode_ms / 1e3),
            handover: Dist::Constant(if self.loader.workers > 0 { 1e-3 } else { 0.0 }),
            host: Dist::Constant(self.step.host_ms / 1e3),
            step: Dist::Constant(self.step.ms / 1e3),
            ..Job::default()
        }
    }

    /// The wait by cause, in proportion to what a sample takes.
    fn causes(&self, job: &Job, wait: f64) -> BTreeMap<String, f64> {
        let (read, decode) = (self.reading(job), job.decode.mean());
        let all = (read + decode).max(1e-12);
        let from = match self.storage.class.as_deref() {
            Some("network" | "fuse") => "fetch.network",
            Some("memory") => "fetch.cache",
            _ => "fetch.storage",
        };
        [(from, wait * read / all), ("decode", wait * decode / all)]
            .map(|(name, share)| (name.to_owned(), share))
            .into()
    }

    /// Seconds to read a sample.
    fn reading(&self, job: &Job) -> f64 {
        let transfer = if job.storage.bandwidth.is_finite() { self.sample.bytes / job.storage.bandwidth } else { 0.0 };
        job.storage.latency.mean() + transfer
    }

    fn crew(&self, job: &Job, period: f64) -> Crew {
        let workers = f64::from(job.workers);
        if workers == 0.0 {
            return Crew::default();
        }
        let part = |seconds: f64| (seconds * f64::from(job.batch) / (workers * period)).min(1.0);
        let (read, decode) = (part(self.reading(job)), part(job.decode.mean()));
        let remote = matches!(self.storage.class.as_deref(), Some("network" | "fuse"));
        Crew {
            processes: workers,
            cpu: Some(decode),
            storage: if remote { 0.0 } else { read },
            remote: if remote { read } else { 0.0 },
            decode,
            idle: (1.0 - read - decode).max(0.0),
            ..Crew::default()
        }
    }
}
