//! The observed tables, declared here again by name, as any source may declare them.

use std::sync::Arc;

use feedline_traces::unit::{Bytes, Count, Nanos, Ratio};
use feedline_traces::{Counter, Gauge, Id, Key, Row as _, Schema, Text, table};

table! {
    /// Processes.
    pub(crate) process: ProcessRow {
        /// Key.
        process: Key,
        /// Parent.
        parent: Text,
        /// Role.
        role: Text,
        /// Rank.
        rank: Id,
        /// Rank on this machine.
        local_rank: Id,
        /// Ranks.
        world: Id,
        /// User time.
        cpu_user: Counter<Nanos>,
        /// System time.
        cpu_system: Counter<Nanos>,
        /// Bytes read from storage.
        storage_read: Counter<Bytes>,
        /// Bytes read.
        read: Counter<Bytes>,
        /// Read calls.
        read_calls: Counter<Count>,
        /// Threads.
        threads: Gauge<Count>,
        /// Cores.
        cores_allowed: Gauge<Count>,
    }
}

table! {
    /// Threads.
    pub(crate) thread: ThreadRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// Name.
        name: Text,
        /// Role.
        role: Text,
        /// Time on a CPU.
        on_cpu: Counter<Nanos>,
        /// Time runnable.
        run_queue: Counter<Nanos>,
        /// Samples.
        samples: Gauge<Count>,
    }
}

table! {
    /// States.
    pub(crate) activity: ActivityRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// State.
        state: Key,
        /// The trainer's state.
        beside: Key,
        /// What the call is on.
        on: Key,
        /// Samples.
        samples: Gauge<Count>,
        /// Runs.
        episodes: Gauge<Count>,
    }
}

table! {
    /// Waits.
    pub(crate) wait: WaitRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// State.
        state: Text,
        /// Length.
        duration: Gauge<Nanos>,
    }
}

table! {
    /// Stacks.
    pub(crate) stack: StackRow {
        /// Process.
        process: Key,
        /// Thread.
        thread: Key,
        /// State.
        state: Key,
        /// Site.
        site: Key,
        /// Task.
        task: Key,
        /// Frame.
        frame: Text,
        /// Innermost frame.
        leaf: Text,
        /// Stacks read.
        samples: Gauge<Count>,
        /// Stacks missed.
        missed: Gauge<Count>,
    }
}

table! {
    /// Devices.
    pub(crate) accelerator: AcceleratorRow {
        /// Device.
        device: Key,
        /// Index.
        index: Id,
        /// Busy.
        busy: Gauge<Ratio>,
        /// At work.
        sm_active: Gauge<Ratio>,
        /// Received.
        pcie_read: Gauge<Bytes>,
    }
}

table! {
    /// Groups.
    pub(crate) cgroup: CgroupRow {
        /// Group.
        cgroup: Key,
        /// Quota.
        cpu_limit: Gauge<Count>,
        /// Periods.
        periods: Counter<Count>,
        /// Periods held back.
        throttled_periods: Counter<Count>,
    }
}

table! {
    /// Pressure.
    pub(crate) pressure: PressureRow {
        /// Scope.
        scope: Key,
        /// Resource.
        resource: Key,
        /// Time some waited.
        some: Counter<Nanos>,
    }
}

table! {
    /// Mounts.
    pub(crate) mount: MountRow {
        /// Mount point.
        mount: Key,
        /// Type.
        kind: Text,
        /// Class.
        class: Text,
    }
}

table! {
    /// Device calls.
    pub(crate) device_call: DeviceCallRow {
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
    /// Regions.
    pub(crate) region: RegionRow {
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
    /// Rounds of a loop.
    pub(crate) training_loop: LoopRow {
        /// Process.
        process: Key,
        /// Variable.
        variable: Key,
        /// Rounds.
        rounds: Counter<Count>,
    }
}

impl ThreadRow {
    /// A row of the main thread of a process.
    pub(crate) fn new(process: &str) -> Self {
        let thread = process.split('@').next().unwrap();
        Self { process: process.into(), thread: thread.into(), ..Self::default() }
    }
}

/// All observed tables and the derived ones.
pub(crate) fn schema() -> Arc<Schema> {
    let mut tables = vec![
        ProcessRow::table(),
        ThreadRow::table(),
        ActivityRow::table(),
        WaitRow::table(),
        StackRow::table(),
        AcceleratorRow::table(),
        CgroupRow::table(),
        PressureRow::table(),
        MountRow::table(),
        DeviceCallRow::table(),
        RegionRow::table(),
        LoopRow::table(),
    ];
    tables.extend(crate::tables::all());
    Arc::new(Schema::new(tables).unwrap())
}
