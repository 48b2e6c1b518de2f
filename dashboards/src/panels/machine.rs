//! The machine: disks, network, mounts, accelerators, pressure and control groups, also in the report.

use super::{Panel, View, col};

/// Block devices, also in the report.
pub(crate) const DISKS: Panel = Panel {
    title: "disks",
    view: View::Table,
    table: "disk",
    only: None,
    by: None,
    columns: &[
        col("device", "device", "disk.device"),
        col("read", "read_bytes", "disk.read_bytes"),
        col("busy", "busy", "disk.busy"),
        col("reads", "reads", "disk.reads"),
        col("written", "write_bytes", "disk.write_bytes"),
        col("in flight", "in_flight", "disk.in_flight"),
        col("writes", "writes", "disk.writes"),
    ],
    better: None,
};

/// Network interfaces, also in the report.
pub(crate) const NETWORK: Panel = Panel {
    title: "network",
    view: View::Table,
    table: "interface",
    only: None,
    by: None,
    columns: &[
        col("interface", "interface", "interface.interface"),
        col("received", "received_bytes", "interface.received_bytes"),
        col("sent", "sent_bytes", "interface.sent_bytes"),
        col("speed", "speed", "interface.speed"),
        col("in drops", "received_drops", "interface.received_drops"),
        col("in errors", "received_errors", "interface.received_errors"),
    ],
    better: None,
};

/// Mounts that serve the job's files, also in the report.
pub(crate) const MOUNTS: Panel = Panel {
    title: "mounts",
    view: View::Table,
    table: "mount",
    only: None,
    by: None,
    columns: &[
        col("mount", "mount", "mount.mount"),
        col("class", "class", "mount.class"),
        col("kind", "kind", "mount.kind"),
        col("files", "files", "mount.files"),
        col("read", "read_bytes", "mount.read_bytes"),
        col("source", "source", "mount.source"),
    ],
    better: None,
};

/// Accelerators, also in the report.
pub(crate) const ACCELERATORS: Panel = Panel {
    title: "GPUs",
    view: View::Table,
    table: "accelerator",
    only: None,
    by: None,
    columns: &[
        col("#", "index", "accelerator.index"),
        col("busy", "busy", "accelerator.busy"),
        col("SM active", "sm_active", "accelerator.sm_active"),
        col("PCIe in", "pcie_read", "accelerator.pcie_read"),
        col("memory", "memory_used", "accelerator.memory_used"),
        col("power", "power", "accelerator.power"),
        col("temp", "temperature", "accelerator.temperature"),
        col("throttled by", "throttle", "accelerator.throttle"),
        col("name", "name", "accelerator.name"),
        col("SM clock", "clock_sm", "accelerator.clock_sm"),
        col("JPEG", "jpeg", "accelerator.jpeg"),
    ],
    better: None,
};

/// Pressure stall information, also in the report.
pub(crate) const PRESSURE: Panel = Panel {
    title: "pressure",
    view: View::Table,
    table: "pressure",
    only: None,
    by: None,
    columns: &[
        col("resource", "resource", "pressure.resource"),
        col("some", "some", "pressure.some"),
        col("full", "full", "pressure.full"),
        col("some 10 s", "some_10", "pressure.some_10"),
        col("scope", "scope", "pressure.scope"),
    ],
    better: None,
};

/// Limits and throttling, also in the report.
pub(crate) const CGROUP: Panel = Panel {
    title: "cgroup",
    view: View::Table,
    table: "cgroup",
    only: None,
    by: None,
    columns: &[
        col("throttled", "throttled", "cgroup.throttled"),
        col("cpu", "cpu", "cgroup.cpu"),
        col("cpu limit", "cpu_limit", "cgroup.cpu_limit"),
        col("cores", "cores", "cgroup.cores"),
        col("memory", "memory", "cgroup.memory"),
        col("limit", "memory_limit", "cgroup.memory_limit"),
        col("read", "read", "cgroup.read"),
        col("OOM kills", "oom_kills", "cgroup.oom_kills"),
        col("cgroup", "cgroup", "cgroup.cgroup"),
    ],
    better: None,
};
