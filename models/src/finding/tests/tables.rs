//! The tables that patterns read, declared again by name, as any source may declare them.

use feedline_traces::unit::{Bytes, Count, Nanos, Ratio};
use feedline_traces::{Counter, Gauge, Id, Key, Text, table};

table! {
    /// Processes.
    pub(in crate::finding::tests) process: ProcessRow {
        /// Key.
        process: Key,
        /// Role.
        role: Text,
        /// Parent.
        parent: Text,
        /// Rank.
        rank: Id,
        /// How many cores.
        cores_allowed: Gauge<Count>,
        /// Which cores.
        allowed: Text,
        /// Threads.
        threads: Gauge<Count>,
        /// Group.
        cgroup: Text,
        /// CPU.
        cpu_user: Counter<Nanos>,
        /// CPU.
        cpu_system: Counter<Nanos>,
        /// From storage.
        storage_read: Counter<Bytes>,
        /// All.
        read: Counter<Bytes>,
        /// Calls.
        read_calls: Counter<Count>,
    }
}
table! {
    /// Threads.
    pub(in crate::finding::tests) thread: ThreadRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// Role.
        role: Text,
        /// On a CPU.
        on_cpu: Counter<Nanos>,
        /// Queueing.
        run_queue: Counter<Nanos>,
    }
}
table! {
    /// States.
    pub(in crate::finding::tests) activity: ActivityRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// State.
        state: Key,
        /// On what.
        on: Key,
        /// Samples.
        samples: Gauge<Count>,
    }
}
table! {
    /// Stacks.
    pub(in crate::finding::tests) stack: StackRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// Site.
        site: Key,
        /// Samples.
        samples: Gauge<Count>,
    }
}
table! {
    /// Waits.
    pub(in crate::finding::tests) wait: WaitRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// How long.
        duration: Gauge<Nanos>,
    }
}
table! {
    /// Shares.
    pub(in crate::finding::tests) derived stall: StallRow {
        /// Process.
        process: Key,
        /// Cause.
        cause: Key,
        /// Share.
        share: Gauge<Ratio>,
    }
}
table! {
    /// Causes.
    pub(in crate::finding::tests) derived cause: CauseRow {
        /// Process.
        process: Key,
        /// Cause.
        cause: Key,
        /// Share.
        share: Gauge<Ratio>,
        /// Over the run.
        run: Gauge<Ratio>,
    }
}
table! {
    /// Workers.
    pub(in crate::finding::tests) derived worker: WorkerRow {
        /// Process.
        process: Key,
        /// File.
        file: Text,
    }
}
table! {
    /// Calls.
    pub(in crate::finding::tests) device_call: DeviceCallRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// Call.
        call: Key,
        /// Calls.
        calls: Counter<Count>,
        /// Time.
        time: Counter<Nanos>,
        /// Bytes.
        bytes: Counter<Bytes>,
    }
}
table! {
    /// File calls.
    pub(in crate::finding::tests) file_io: FileIoRow {
        /// Process.
        process: Key,
        /// Operation.
        operation: Key,
        /// On what.
        on: Key,
        /// Calls.
        calls: Counter<Count>,
        /// Time.
        time: Counter<Nanos>,
        /// Bytes.
        bytes: Counter<Bytes>,
    }
}
table! {
    /// Regions.
    pub(in crate::finding::tests) region: RegionRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// Region.
        region: Key,
        /// Times.
        times: Counter<Count>,
        /// Time.
        time: Counter<Nanos>,
    }
}
table! {
    /// Calls of NFS.
    pub(in crate::finding::tests) nfs_operation: NfsRow {
        /// Mount.
        mount: Key,
        /// Operation.
        operation: Key,
        /// Operations.
        operations: Counter<Count>,
        /// Bytes.
        received_bytes: Counter<Bytes>,
    }
}
table! {
    /// Groups.
    pub(in crate::finding::tests) cgroup: CgroupRow {
        /// Group.
        cgroup: Key,
        /// Limit.
        cpu_limit: Gauge<Count>,
        /// Periods.
        periods: Counter<Count>,
        /// Held.
        throttled_periods: Counter<Count>,
    }
}
table! {
    /// Disks.
    pub(in crate::finding::tests) disk: DiskRow {
        /// Name.
        device: Key,
        /// Read.
        read_bytes: Counter<Bytes>,
        /// Written.
        write_bytes: Counter<Bytes>,
        /// Busy.
        busy: Counter<Nanos>,
    }
}
table! {
    /// Mounts.
    pub(in crate::finding::tests) mount: MountRow {
        /// Mount.
        mount: Key,
        /// Kind.
        kind: Text,
        /// Class.
        class: Text,
        /// Device.
        device: Text,
    }
}
table! {
    /// Memory.
    pub(in crate::finding::tests) memory: MemoryRow {
        /// Scope.
        scope: Key,
        /// All.
        total: Gauge<Bytes>,
        /// Available.
        available: Gauge<Bytes>,
        /// Cached.
        cached: Gauge<Bytes>,
        /// Size.
        shm_total: Gauge<Bytes>,
        /// Used.
        shm_used: Gauge<Bytes>,
    }
}
table! {
    /// Paging.
    pub(in crate::finding::tests) vmstat: VmstatRow {
        /// Scope.
        scope: Key,
        /// Refaults.
        refaults_file: Counter<Count>,
    }
}
table! {
    /// Pressure.
    pub(in crate::finding::tests) pressure: PressureRow {
        /// Scope.
        scope: Key,
        /// Resource.
        resource: Key,
        /// Some.
        some: Counter<Nanos>,
    }
}
