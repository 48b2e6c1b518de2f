//! The causes, by their names.

use super::super::site::Site;

/// Number of causes.
pub(crate) const CAUSES: usize = 18;

/// What a trainer's time goes into, at the second level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Reading from a local device.
    FetchStorage,
    /// Reading what is in memory already.
    FetchCache,
    /// Reading over a network or through FUSE.
    FetchNetwork,
    /// Decoding and transforming on the CPU.
    Decode,
    /// Handing over: one slow batch before ready ones, pickling, receiving.
    Handoff,
    /// Making workers, and waiting for their first batch.
    Startup,
    /// Ready to run and kept from it by something other than the job's own legitimate work.
    Contention,
    /// Copies between host and device.
    Copy,
    /// Optimizer or parameter state on its way to or from host memory or disk.
    Offload,
    /// Waiting for another stage of a pipeline.
    Bubble,
    /// A collective, as far as no rank could be faster.
    Collective,
    /// Lookups of embeddings.
    Embedding,
    /// Waiting for a slower rank.
    Imbalance,
    /// Saving or loading a checkpoint.
    Checkpoint,
    /// The main thread's own work while the accelerator is idle, and garbage collection.
    Host,
    /// Other input and output.
    Io,
    /// The step itself.
    Compute,
    /// Not known.
    Unknown,
}

impl Cause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Self; CAUSES] = [
        Self::FetchStorage,
        Self::FetchCache,
        Self::FetchNetwork,
        Self::Decode,
        Self::Handoff,
        Self::Startup,
        Self::Contention,
        Self::Copy,
        Self::Offload,
        Self::Bubble,
        Self::Collective,
        Self::Embedding,
        Self::Imbalance,
        Self::Checkpoint,
        Self::Host,
        Self::Io,
        Self::Compute,
        Self::Unknown,
    ];

    /// The cause as it stands in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FetchStorage => "fetch.storage",
            Self::FetchCache => "fetch.cache",
            Self::FetchNetwork => "fetch.network",
            Self::Decode => "decode",
            Self::Handoff => "handoff",
            Self::Startup => "startup",
            Self::Contention => "contention",
            Self::Copy => "copy",
            Self::Offload => "offload",
            Self::Bubble => "bubble",
            Self::Collective => "collective",
            Self::Embedding => "embedding",
            Self::Imbalance => "imbalance",
            Self::Checkpoint => "checkpoint",
            Self::Host => "host",
            Self::Io => "io",
            Self::Compute => "compute",
            Self::Unknown => "unknown",
        }
    }

    /// Whether time that goes into it could be won.
    #[must_use]
    pub fn stalls(self) -> bool {
        !matches!(self, Self::Compute | Self::Unknown)
    }

    /// What a site outside the loader stands for.
    pub(in super::super) fn of_site(site: Site) -> Self {
        match site {
            Site::Startup => Self::Startup,
            Site::Io => Self::Io,
            Site::Checkpoint => Self::Checkpoint,
            Site::Device | Site::Host => Self::Compute,
            Site::Collective => Self::Collective,
            Site::Pipeline => Self::Bubble,
            Site::Embedding => Self::Embedding,
            Site::Copy => Self::Copy,
            Site::Offload => Self::Offload,
            Site::Gc => Self::Host,
            _ => Self::Unknown,
        }
    }
}
