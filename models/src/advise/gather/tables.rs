//! The tables that facts are made of, bound by name.

use feedline_traces::Schema;

use crate::finding::bind::At;

/// The tables that are read, as far as a source has them.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) process: Option<At<14>>,
    pub(super) thread: Option<At<4>>,
    pub(super) activity: Option<At<4>>,
    pub(super) stack: Option<At<5>>,
    pub(super) cause: Option<At<3>>,
    pub(super) worker: Option<At<12>>,
    pub(super) step: Option<At<3>>,
    pub(super) verdict: Option<At<7>>,
    pub(super) finding: Option<At<5>>,
    pub(super) cgroup: Option<At<3>>,
    pub(super) memory: Option<At<3>>,
    pub(super) pressure: Option<At<3>>,
    pub(super) disk: Option<At<2>>,
    pub(super) mount: Option<At<3>>,
    pub(super) page_cache: Option<At<4>>,
    pub(super) job: Option<At<1>>,
    pub(super) region: Option<At<4>>,
}

impl Tables {
    pub(super) fn bind(schema: &Schema) -> Self {
        let of_process = [
            "process",
            "pid",
            "role",
            "parent",
            "age",
            "cpu_user",
            "cpu_system",
            "read",
            "read_calls",
            "cores_allowed",
            "threads",
            "rss",
            "fds",
            "storage_written",
        ];
        let of_worker = [
            "process",
            "trainer",
            "read_rate",
            "fetch_storage",
            "fetch_cache",
            "fetch_network",
            "decode",
            "collate",
            "put",
            "idle",
            "queued",
            "other",
        ];
        Self {
            process: At::bind(schema, "process", of_process),
            thread: At::bind(schema, "thread", ["process", "thread", "role", "on_cpu"]),
            activity: At::bind(schema, "activity", ["process", "thread", "state", "samples"]),
            stack: At::bind(schema, "stack", ["process", "thread", "state", "site", "samples"]),
            cause: At::bind(schema, "cause", ["process", "cause", "run"]),
            worker: At::bind(schema, "worker", of_worker),
            step: At::bind(schema, "step", ["process", "period", "confidence"]),
            verdict: At::bind(schema, "verdict", ["process", "cause", "data", "low", "high", "text", "advice"]),
            finding: At::bind(schema, "finding", ["process", "kind", "severity", "text", "advice"]),
            cgroup: At::bind(schema, "cgroup", ["cpu_limit", "memory", "memory_limit"]),
            memory: At::bind(schema, "memory", ["available", "shm_total", "shm_used"]),
            pressure: At::bind(schema, "pressure", ["scope", "resource", "some"]),
            disk: At::bind(schema, "disk", ["device", "busy"]),
            mount: At::bind(schema, "mount", ["mount", "class", "files"]),
            page_cache: At::bind(schema, "page_cache", ["mount", "size", "total", "resident"]),
            job: At::bind(schema, "job", ["framework"]),
            region: At::bind(schema, "region", ["process", "thread", "region", "times"]),
        }
    }
}
