//! One training job, as the step model sees it.

use feedline_traces::{Error, Result};

use super::dist::Dist;

/// The most loader workers that are simulated.
pub const MOST_WORKERS: u32 = 4096;
/// The most batches ahead, all workers together.
pub const MOST_AHEAD: u32 = 1 << 16;
/// The most samples of a batch.
pub const MOST_SAMPLES: u32 = 1 << 20;

/// In which order batches are handed to the trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they were asked for: worker `i` of `n` makes batch `k` with `k mod n = i`, as PyTorch's
    /// `DataLoader` does. One slow batch holds back all behind it.
    #[default]
    Strict,
    /// As they are ready, and the next one goes to whichever worker is free, as loaders of threads
    /// and a queue do. (`DataLoader(in_order=False)` keeps a task with the worker it was given to, and
    /// so lies between the two.)
    Ready,
}

/// Where samples are read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// Seconds from asking to the first byte, while nothing else is asked.
    pub latency: Dist,
    /// Bytes a second, all readers together. Infinite where it is not known to bind.
    pub bandwidth: f64,
    /// Bytes a second that one reader gets at most.
    pub stream: f64,
    /// Reads that are served at a time; 0 for no limit.
    pub depth: u32,
    /// Core-seconds of one read: all that a read from the page cache costs, and the copies and calls
    /// of any other.
    pub cpu: Dist,
}

impl Default for Storage {
    fn default() -> Self {
        Self { latency: Dist::ZERO, bandwidth: f64::INFINITY, stream: f64::INFINITY, depth: 0, cpu: Dist::ZERO }
    }
}

/// The link between storage and the job.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Seconds there and back.
    pub latency: Dist,
    /// Bytes a second, all readers together.
    pub bandwidth: f64,
}

/// One training job. All times are in seconds, all sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Samples of a batch.
    pub batch: u32,
    /// Loader workers; with 0 the trainer makes batches itself.
    pub workers: u32,
    /// Batches ahead per worker (`prefetch_factor`).
    pub prefetch: u32,
    /// How batches are handed over.
    pub order: Order,
    /// Cores that the job may use; a quota may make it a fraction.
    pub cores: f64,
    /// Where samples are read from.
    pub storage: Storage,
    /// The link to it, where there is one.
    pub network: Option<Network>,
    /// Bytes read for a sample.
    pub sample: Dist,
    /// Samples that one read brings: 1 for a file each, more for shards that are read ahead.
    pub samples_per_read: u32,
    /// Core-seconds to decode and transform a sample.
    pub decode: Dist,
    /// Core-seconds to put a batch together and to put it into the queue.
    pub collate: Dist,
    /// Core-seconds of the trainer to take a batch out of the queue.
    pub handover: Dist,
    /// Seconds of the pin-memory thread for a batch, where there is one.
    pub pin: Option<Dist>,
    /// Seconds of a copy to the device that the trainer waits for.
    pub copy: Dist,
    /// Core-seconds of the trainer's own work in a step.
    pub host: Dist,
    /// Seconds of the accelerator for a step.
    pub step: Dist,
    /// Steps that the trainer may be ahead of the accelerator; 0: it waits for each.
    pub ahead: u32,
    /// Bytes of a decoded batch.
    pub batch_bytes: f64,
}

impl Default for Job {
    /// A loader without workers of 32 samples that cost nothing, on one core, and a step of nothing.
    fn default() -> Self {
        Self {
            batch: 32,
            workers: 0,
            prefetch: 2,
            order: Order::Strict,
            cores: 1.0,
            storage: Storage::default(),
            network: None,
            sample: Dist::ZERO,
            samples_per_read: 1,
            decode: Dist::ZERO,
            collate: Dist::ZERO,
            handover: Dist::ZERO,
            pin: None,
            copy: Dist::ZERO,
            host: Dist::ZERO,
            step: Dist::ZERO,
            ahead: 0,
            batch_bytes: 0.0,
        }
    }
}

impl Job {
    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// Where a count is out of range, a capacity is not above 0, a distribution is none, or all of it
    /// takes no time.
    pub fn check(&self) -> Result<()> {
        count("batch", self.batch, 1, MOST_SAMPLES)?;
        count("workers", self.workers, 0, MOST_WORKERS)?;
        count("prefetch", self.prefetch, 1, MOST_AHEAD / self.workers.max(1))?;
        count("samples_per_read", self.samples_per_read, 1, MOST_SAMPLES)?;
        count("ahead", self.ahead, 0, MOST_AHEAD)?;
        count("storage.depth", self.storage.depth, 0, MOST_AHEAD)?;
        capacity("cores", self.cores)?;
        capacity("storage.bandwidth", self.storage.bandwidth)?;
        capacity("storage.stream", self.storage.stream)?;
        for (what, dist) in self.parts() {
            dist.check(what)?;
        }
        if let Some(network) = &self.network {
            capacity("network.bandwidth", network.bandwidth)?;
        }
        if !(0.0..=1e15).contains(&self.batch_bytes) {
            return Err(Error::new(format!("batch_bytes: expected 0 to 1e15, found {}", self.batch_bytes)));
        }
        if self.seconds() == 0.0 {
            let error = Error::new("step model: nothing of the job takes any time");
            return Err(error.hint("give at least the time of a step"));
        }
        Ok(())
    }

    /// Reads that a batch needs.
    #[must_use]
    pub fn reads(&self) -> u32 {
        self.batch.div_ceil(self.samples_per_read.max(1))
    }

    /// Mean seconds of a batch and its step, each part alone on an idle machine.
    fn seconds(&self) -> f64 {
        let bytes = self.sample.mean() * f64::from(self.batch);
        let link = self.network.as_ref().map_or(0.0, |n| bytes / n.bandwidth);
        self.parts().filter(|(what, _)| *what != "sample").map(|(_, dist)| dist.mean()).sum::<f64>()
            + bytes / self.storage.bandwidth.min(self.storage.stream)
            + link
    }

    fn parts(&self) -> impl Iterator<Item = (&'static str, &Dist)> {
        let fixed = [
            ("storage.latency", &self.storage.latency),
            ("storage.cpu", &self.storage.cpu),
            ("sample", &self.sample),
            ("decode", &self.decode),
            ("collate", &self.collate),
            ("handover", &self.handover),
            ("copy", &self.copy),
            ("host", &self.host),
            ("step", &self.step),
        ];
        let pin = self.pin.iter().map(|dist| ("pin", dist));
        let network = self.network.iter().map(|network| ("network.latency", &network.latency));
        fixed.into_iter().chain(pin).chain(network)
    }
}

fn count(what: &str, found: u32, least: u32, most: u32) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Error::new(format!("{what}: expected {least} to {most}, found {found}")))
}

fn capacity(what: &str, found: f64) -> Result<()> {
    if found >= 1e-3 {
        return Ok(());
    }
    Err(Error::new(format!("{what}: expected a capacity of at least 0.001 a second, found {found}")))
}
