//! The closed sets of places in a program: sites of a trainer's main thread, tasks of a worker.

use super::kind::{Group, STATES};

/// Number of sites.
pub(crate) const SITES: usize = 18;

/// Where a trainer's main thread is. `Unknown` is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// In the loader; what it does there is not said.
    Loader,
    /// In the loader, getting or making a sample itself.
    LoaderFetch,
    /// In the loader, decoding or transforming itself.
    LoaderDecode,
    /// In the loader, putting samples together itself.
    LoaderCollate,
    /// In the loader, handing over.
    LoaderPut,
    /// In the loader, waiting in a queue.
    LoaderIdle,
    /// Where a loader makes its workers.
    Startup,
    /// Other file or network work.
    Io,
    /// Saving or loading a checkpoint.
    Checkpoint,
    /// Waits for the device.
    Device,
    /// In a collective.
    Collective,
    /// Sends to or receives from another stage of a pipeline.
    Pipeline,
    /// Looks up embeddings.
    Embedding,
    /// Copies between host and device.
    Copy,
    /// Moves optimizer or parameter state to or from host memory or disk.
    Offload,
    /// Anything else: its own work.
    Host,
    /// In the garbage collector.
    Gc,
    /// Not known.
    Unknown,
}

impl Site {
    /// Every site, in the order of their numbers.
    pub const ALL: [Self; SITES] = [
        Self::Loader,
        Self::LoaderFetch,
        Self::LoaderDecode,
        Self::LoaderCollate,
        Self::LoaderPut,
        Self::LoaderIdle,
        Self::Startup,
        Self::Io,
        Self::Checkpoint,
        Self::Device,
        Self::Collective,
        Self::Pipeline,
        Self::Embedding,
        Self::Copy,
        Self::Offload,
        Self::Host,
        Self::Gc,
        Self::Unknown,
    ];

    /// The site of a row of `stack`; a site of a worker, or of a later version, is `Unknown`.
    #[must_use]
    pub fn named(site: &str, task: &str) -> Self {
        match (site, task) {
            ("loader", "fetch") => Self::LoaderFetch,
            ("loader", "decode") => Self::LoaderDecode,
            ("loader", "collate") => Self::LoaderCollate,
            ("loader", "put") => Self::LoaderPut,
            ("loader", "idle") => Self::LoaderIdle,
            ("loader", _) => Self::Loader,
            ("startup", _) => Self::Startup,
            ("io", _) => Self::Io,
            ("checkpoint", _) => Self::Checkpoint,
            ("device", _) => Self::Device,
            ("collective", _) => Self::Collective,
            ("pipeline", _) => Self::Pipeline,
            ("embedding", _) => Self::Embedding,
            ("copy", _) => Self::Copy,
            ("offload", _) => Self::Offload,
            ("host", _) => Self::Host,
            ("gc", _) => Self::Gc,
            _ => Self::Unknown,
        }
    }

    /// The group of the first level that it belongs to.
    #[must_use]
    pub fn group(self) -> Group {
        match self {
            Self::Startup => Group::Data,
            site if site.in_loader() => Group::Data,
            Self::Io | Self::Checkpoint => Group::Io,
            Self::Device | Self::Collective | Self::Pipeline | Self::Embedding | Self::Copy | Self::Offload => {
                Group::Device
            }
            Self::Host | Self::Gc => Group::Host,
            _ => Group::Unknown,
        }
    }

    /// Whether it is inside the loader's `next()`.
    #[must_use]
    pub fn in_loader(self) -> bool {
        self.task().is_some()
    }

    /// What the main thread does inside the loader.
    pub(crate) fn task(self) -> Option<Task> {
        match self {
            Self::Loader => Some(Task::Other),
            Self::LoaderFetch => Some(Task::Fetch),
            Self::LoaderDecode => Some(Task::Decode),
            Self::LoaderCollate => Some(Task::Collate),
            Self::LoaderPut => Some(Task::Put),
            Self::LoaderIdle => Some(Task::Idle),
            _ => None,
        }
    }
}

/// The site that stands for a group where nothing finer is known.
pub(crate) fn standing_for(group: Group) -> Site {
    match group {
        Group::Data => Site::Loader,
        Group::Io => Site::Io,
        Group::Device => Site::Device,
        Group::Host => Site::Host,
        Group::Unknown => Site::Unknown,
    }
}

/// Number of tasks.
pub(crate) const TASKS: usize = 6;

/// Stacks of workers by state and by task.
pub(crate) type Tasks = [[f64; TASKS]; STATES];

/// What a worker was at, from its stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    Fetch,
    Decode,
    Collate,
    Put,
    Idle,
    /// No rule knows: its own program.
    Other,
}

impl Task {
    pub(crate) const ALL: [Self; TASKS] =
        [Self::Fetch, Self::Decode, Self::Collate, Self::Put, Self::Idle, Self::Other];

    /// The task that a worker's site stands for.
    pub(crate) fn of_site(site: &str) -> Option<Self> {
        match site {
            "worker.fetch" => Some(Self::Fetch),
            "worker.decode" => Some(Self::Decode),
            "worker.collate" => Some(Self::Collate),
            "worker.put" => Some(Self::Put),
            "worker.idle" => Some(Self::Idle),
            "host" => Some(Self::Other),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Decode => "decode",
            Self::Collate => "collate",
            Self::Put => "put",
            Self::Idle => "idle",
            Self::Other => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_of_a_worker_or_of_a_later_version_blames_nobody() {
        for site in ["worker.fetch", "", "quantum"] {
            assert_eq!(Site::named(site, "").group(), Group::Unknown);
        }
        assert_eq!(Site::named("loader", "").group(), Group::Data);
        assert_eq!(Site::named("gc", "").group(), Group::Host);
    }

    #[test]
    fn sites_stand_in_the_order_of_their_numbers_and_unknown_is_last() {
        for (i, site) in Site::ALL.into_iter().enumerate() {
            assert_eq!(site as usize, i);
        }
        assert_eq!(Site::Unknown as usize, SITES - 1);
        assert!(Group::ALL.into_iter().all(|group| standing_for(group).group() == group));
    }
}
