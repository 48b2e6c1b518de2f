//! Advice, and the rule that gave it.

/// The rule that spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// All loading is on the main thread and there are cores or waits to overlap.
    UseWorkers,
    /// All loading is CPU work on the only core.
    MoreCores,
    /// Workers exist but what they do cannot be seen.
    SeeWorkers,
    /// The job may run on few of the machine's cores only.
    Affinity,
    /// A CPU quota holds the job back.
    Quota,
    /// Other processes use the cores.
    Others,
    /// The main thread queues for a core behind the job's own threads.
    FewerThreads,
    /// Workers mostly sleep.
    Asleep,
    /// The main thread sleeps outside the loader.
    StepAsleep,
    /// More runnable workers than cores, or all cores busy decoding.
    CheaperDecode,
    /// Workers mostly wait for storage.
    Storage,
    /// Workers saturate their cores and there are more.
    MoreWorkers,
    /// The main thread burns the wait itself.
    CheaperHandover,
    /// Workers idle while the trainer waits.
    Handoff,
    /// Other I/O on the main thread.
    OtherIo,
    /// Reads over a network.
    Network,
    /// Reads of what is in memory.
    Cached,
    /// Workers are made again and again.
    KeepWorkers,
    /// Queueing for cores that something other than the job's work takes.
    Contended,
    /// Copies between host and device.
    Copies,
    /// State that is kept off the device.
    Offloaded,
    /// Gaps in a pipeline's schedule.
    Bubbles,
    /// Collectives that hide behind nothing.
    Overlap,
    /// Lookups of embeddings.
    Lookups,
    /// A slower rank.
    SlowRank,
    /// Checkpoints on the main thread.
    Checkpoints,
    /// The main thread does not feed the accelerator.
    HostBound,
    /// The loader keeps up.
    Nothing,
    /// Not enough is known.
    SeeMore,
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The rule that spoke.
    pub rule: Rule,
    /// What to do and why.
    pub text: String,
}
