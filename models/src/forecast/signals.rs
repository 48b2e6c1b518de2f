//! What is measured each second, of a trainer and of the machine it runs on.

/// One series with a value a second; missing is NaN. Shares are of wall time, rates a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Signal {
    /// Share of the second in which the trainer waited for data: exact where the job is marked,
    /// else from the states that its main thread was found in.
    Share,
    /// The same over the last ten seconds, as attribution says.
    Share10,
    /// Shares of the last ten seconds by cause.
    Fetch,
    Decode,
    Handoff,
    Startup,
    Contention,
    Unknown,
    Io,
    Device,
    /// Share of the second in which the main thread was on a CPU, and runnable without one.
    OnCpu,
    Queued,
    /// Steps a second, where they can be counted.
    Steps,
    /// Shares of the second, mean over the workers: on a CPU, in storage or network, waiting for work
    /// or for room.
    WorkerRunning,
    WorkerReading,
    WorkerResting,
    /// The share of the least rested worker.
    WorkerResting1,
    /// Shares of the last ten seconds, mean over the workers.
    WorkerFetch,
    WorkerDecode,
    WorkerPut,
    WorkerIdle,
    WorkerQueued,
    /// Workers, and workers that came in this second.
    Workers,
    Arrived,
    /// Whether the main thread was seen in a checkpoint: 1 or 0.
    Checkpoint,
    /// Bytes a second that the job reads, that come from storage, and CPU seconds a second.
    JobRead,
    JobStorage,
    JobCpu,
    JobFaults,
    /// Bytes in use of `/dev/shm`, where batches wait for the trainer.
    Shm,
    /// Share of the job's files that is in memory.
    Resident,
    /// Page cache and available memory, as shares of all memory.
    Cached,
    Available,
    Dirty,
    Refaults,
    /// Bytes and requests a second of the disks, the mean time of a read, and how busy the busiest is.
    DiskRead,
    DiskWrite,
    DiskReads,
    DiskTime,
    DiskLatency,
    DiskBusy,
    /// Mean response of network mounts.
    RemoteCalls,
    RemoteTime,
    RemoteLatency,
    /// Bytes a second that interfaces received, round trip, segments sent again.
    NetReceived,
    Rtt,
    Retransmits,
    /// Share of time in which some task of the machine waited.
    CpuPressure,
    IoPressure,
    MemoryPressure,
    /// Share of quota periods held back.
    Periods,
    Held,
    Throttled,
    /// Share of the trainer's accelerator in use.
    Accelerator,
    /// None: the number of signals.
    End,
}

/// The number of signals.
pub(crate) const SIGNALS: usize = Signal::End as usize;

/// A value of each signal.
pub(crate) type Values = [f64; SIGNALS];

/// Nothing is known.
pub(crate) const NOTHING: Values = [f64::NAN; SIGNALS];

/// Values gathered over a second: increases of counters are added up, of gauges the latest counts.
#[derive(Debug, Clone)]
pub(crate) struct Gather(Values);

impl Default for Gather {
    fn default() -> Self {
        Self(NOTHING)
    }
}

impl Gather {
    /// Adds to a sum.
    pub(crate) fn add(&mut self, signal: Signal, value: f64) {
        let sum = &mut self.0[signal as usize];
        *sum = if sum.is_nan() { value } else { *sum + value };
    }

    /// Takes the latest value.
    pub(crate) fn set(&mut self, signal: Signal, value: Option<f64>) {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            self.0[signal as usize] = value;
        }
    }

    /// Takes the greater.
    pub(crate) fn most(&mut self, signal: Signal, value: f64) {
        let held = &mut self.0[signal as usize];
        *held = if held.is_nan() { value } else { held.max(value) };
    }

    /// What was gathered, and starts anew.
    pub(crate) fn take(&mut self) -> Values {
        std::mem::replace(&mut self.0, NOTHING)
    }
}

/// Divides sums by the seconds they were gathered in.
pub(crate) fn rates(values: &mut Values, signals: &[Signal], seconds: f64) {
    for signal in signals {
        values[*signal as usize] /= seconds;
    }
}

/// One signal as the quotient of two; missing where there is nothing to divide by.
pub(crate) fn quotient(values: &mut Values, to: Signal, above: Signal, below: Signal) {
    let (a, b) = (values[above as usize], values[below as usize]);
    values[to as usize] = if b > 0.0 { a / b } else { f64::NAN };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_gauges_replace_and_what_was_not_seen_is_missing() {
        let mut gather = Gather::default();
        gather.add(Signal::DiskReads, 3.0);
        gather.add(Signal::DiskReads, 5.0);
        gather.set(Signal::Shm, Some(1.0));
        gather.set(Signal::Shm, Some(2.0));
        gather.set(Signal::Shm, None);
        gather.most(Signal::DiskBusy, 0.5);
        gather.most(Signal::DiskBusy, 0.2);
        let mut values = gather.take();
        rates(&mut values, &[Signal::DiskReads], 2.0);
        quotient(&mut values, Signal::DiskLatency, Signal::DiskTime, Signal::DiskReads);
        let of = |signal: Signal| values[signal as usize];
        assert_eq!((of(Signal::DiskReads), of(Signal::Shm), of(Signal::DiskBusy)), (4.0, 2.0, 0.5));
        assert!(of(Signal::DiskLatency).is_nan() && of(Signal::Rtt).is_nan());
        assert!(gather.take().iter().all(|v| v.is_nan()));
    }
}
