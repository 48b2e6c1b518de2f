//! The places that rules tell apart.

use serde::Deserialize;

/// Where in a program a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
pub enum Site {
    /// In the loader's `next()`, or in a queue get that feeds the trainer.
    #[serde(rename = "loader")]
    Loader,
    /// The loader starts its workers, or ends them.
    #[serde(rename = "startup")]
    Startup,
    /// Waiting for the device.
    #[serde(rename = "device")]
    Device,
    /// In a collective: waiting for the other ranks, or for the wire.
    #[serde(rename = "collective")]
    Collective,
    /// Sending to or receiving from another stage of a pipeline.
    #[serde(rename = "pipeline")]
    Pipeline,
    /// Looking up embeddings, the exchange of sparse features included.
    #[serde(rename = "embedding")]
    Embedding,
    /// Copying between host and device.
    #[serde(rename = "copy")]
    Copy,
    /// An optimizer step that reads or writes state kept on the host or on a disk.
    #[serde(rename = "offload")]
    Offload,
    /// Other file or network work of a trainer.
    #[serde(rename = "io")]
    Io,
    /// Saving or restoring the state of the training.
    #[serde(rename = "checkpoint")]
    Checkpoint,
    /// Collecting garbage.
    #[serde(rename = "gc")]
    Gc,
    /// Anything else.
    #[serde(rename = "host")]
    Host,
    /// A worker gets or makes a sample.
    #[serde(rename = "worker.fetch")]
    WorkerFetch,
    /// A worker decodes or transforms.
    #[serde(rename = "worker.decode")]
    WorkerDecode,
    /// A worker puts samples together.
    #[serde(rename = "worker.collate")]
    WorkerCollate,
    /// A worker hands over.
    #[serde(rename = "worker.put")]
    WorkerPut,
    /// A worker waits for work.
    #[serde(rename = "worker.idle")]
    WorkerIdle,
}

/// Sites that mean the same at the first level of causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Data,
    Io,
    Device,
    Host,
    Worker,
}

impl Site {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Loader,
        Self::Startup,
        Self::Device,
        Self::Collective,
        Self::Pipeline,
        Self::Embedding,
        Self::Copy,
        Self::Offload,
        Self::Io,
        Self::Checkpoint,
        Self::Gc,
        Self::Host,
        Self::WorkerFetch,
        Self::WorkerDecode,
        Self::WorkerCollate,
        Self::WorkerPut,
        Self::WorkerIdle,
    ];

    /// The site as it stands in tables and in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loader => "loader",
            Self::Startup => "startup",
            Self::Device => "device",
            Self::Collective => "collective",
            Self::Pipeline => "pipeline",
            Self::Embedding => "embedding",
            Self::Copy => "copy",
            Self::Offload => "offload",
            Self::Io => "io",
            Self::Checkpoint => "checkpoint",
            Self::Gc => "gc",
            Self::Host => "host",
            Self::WorkerFetch => "worker.fetch",
            Self::WorkerDecode => "worker.decode",
            Self::WorkerCollate => "worker.collate",
            Self::WorkerPut => "worker.put",
            Self::WorkerIdle => "worker.idle",
        }
    }

    /// What a worker there does, as it stands in `stack.task`: the name without `worker.`.
    #[must_use]
    pub fn task(self) -> Option<&'static str> {
        self.name().strip_prefix("worker.")
    }

    /// Whether a thread beside the main one that is there has nothing to do with loading.
    pub(super) fn is_beside_loading(self) -> bool {
        matches!(self.group(), Group::Device) || matches!(self, Self::Checkpoint | Self::Gc)
    }

    pub(super) fn is_task(self) -> bool {
        self.group() == Group::Worker
    }

    pub(super) fn group(self) -> Group {
        match self {
            Self::Loader | Self::Startup => Group::Data,
            Self::Io | Self::Checkpoint => Group::Io,
            Self::Device | Self::Collective | Self::Pipeline | Self::Embedding | Self::Copy | Self::Offload => {
                Group::Device
            }
            Self::Host | Self::Gc => Group::Host,
            Self::WorkerFetch | Self::WorkerDecode | Self::WorkerCollate | Self::WorkerPut | Self::WorkerIdle => {
                Group::Worker
            }
        }
    }
}
