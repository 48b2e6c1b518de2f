//! What is on the screen, as data. A panel names tables and columns; widgets know only the schema,
//! so a panel for a new table is one entry here.

mod machine;

pub(crate) use machine::{ACCELERATORS, CGROUP, DISKS, MOUNTS, NETWORK, PRESSURE};

/// One panel: a title, a way of drawing, and what it reads.
#[derive(Debug)]
pub(crate) struct Panel {
    /// Title, in the field's terms.
    pub(crate) title: &'static str,
    /// How it is drawn.
    pub(crate) view: View,
    /// The table whose entities are its rows.
    pub(crate) table: &'static str,
    /// Only entities whose latest text in this column is one of these.
    pub(crate) only: Option<(&'static str, &'static [&'static str])>,
    /// The column whose values tell its series apart.
    pub(crate) by: Option<&'static str>,
    /// What it shows, the most important first: what does not fit is left out from the right.
    pub(crate) columns: &'static [Col],
    /// The panel in its place as soon as the run has rows for that one.
    pub(crate) better: Option<&'static Panel>,
}

/// How a panel is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Shares over time, one upon the other.
    Stack,
    /// Lines over time.
    Lines,
    /// One row an entity.
    Table,
    /// One bar an entity, with its interval.
    Bars,
    /// What was found, in sentences, with what to do.
    Findings,
    /// What could not be known, and why.
    Absent,
}

/// One column of a panel.
#[derive(Debug)]
pub(crate) struct Col {
    /// Heading.
    pub(crate) head: &'static str,
    /// Name in the JSON report.
    pub(crate) name: &'static str,
    /// Where the value comes from.
    pub(crate) read: Read,
}

/// Where a value comes from: paths `table.column`.
#[derive(Debug)]
pub(crate) enum Read {
    /// The latest value; of a counter, its rate.
    Value(&'static str),
    /// A sum; missing where a part is.
    Sum(&'static [&'static str]),
    /// The first less the second, never below zero.
    Less(&'static str, &'static str),
    /// The mean of the last seconds.
    Mean(&'static str),
    /// The sum of the last seconds.
    Total(&'static str),
    /// Shares of a number among the texts of a column, over the last seconds, as words.
    Mix(&'static str, &'static str),
    /// The pid of a key `PID@START`; the whole key where two of them share the pid.
    Pid(&'static str),
    /// The last part of a path.
    Last(&'static str),
    /// A column of the process whose key stands in a text; shown where there are several trainers.
    Of(&'static str, &'static str),
    /// Shares as a strip of glyphs, each twentieth one: columns and what they are drawn as.
    Strip(&'static [(&'static str, &'static str)]),
}

const fn col(head: &'static str, name: &'static str, path: &'static str) -> Col {
    Col { head, name, read: Read::Value(path) }
}

/// Causes in the order in which they are stacked, and the glyph of each: it tells them apart where
/// there is no colour. Those of the first level stand beside the parts that they have at the second;
/// a chart shows one level.
pub(crate) const CAUSES: &[(&str, &str)] = &[
    ("data", "█"),
    ("fetch.storage", "█"),
    ("fetch.cache", "▓"),
    ("fetch.network", "▒"),
    ("decode", "▚"),
    ("handoff", "▞"),
    ("startup", "▙"),
    ("contention", "▜"),
    ("io", "▓"),
    ("checkpoint", "#"),
    ("device", "▒"),
    ("copy", "c"),
    ("offload", "o"),
    ("bubble", "~"),
    ("collective", "="),
    ("embedding", "e"),
    ("imbalance", "!"),
    ("host", "░"),
    ("compute", "·"),
    ("unknown", "?"),
];

/// Causes that say that nothing stands in the way: what the job is there for.
pub(crate) const AT_WORK: &[&str] = &["compute", "host", "device", "unknown"];

/// What a worker does with its time, in the glyphs of the causes that it leads to.
const STRIP: &[(&str, &str)] = &[
    ("worker.fetch_storage", "█"),
    ("worker.fetch_cache", "▓"),
    ("worker.fetch_network", "▒"),
    ("worker.decode", "▚"),
    ("worker.collate", "+"),
    ("worker.put", "▞"),
    ("worker.queued", "▜"),
    ("worker.idle", "·"),
    ("worker.other", "?"),
];

const CPU: Read = Read::Sum(&["process.cpu_user", "process.cpu_system"]);
const CACHE: Read = Read::Less("process.read", "process.storage_read");

/// Trainers.
const TRAINERS: Panel = Panel {
    title: "trainers",
    view: View::Table,
    table: "process",
    only: Some(("process.role", &["trainer"])),
    by: None,
    columns: &[
        col("pid", "pid", "process.pid"),
        col("rank", "rank", "process.rank"),
        col("waits for", "cause", "verdict.cause"),
        col("data", "data", "verdict.data"),
        col("step", "step_period", "step.period"),
        col("in step", "step_wait", "step.wait"),
        Col { head: "cpu", name: "cpu", read: CPU },
        Col { head: "state %", name: "state", read: Read::Mix("activity.samples", "activity.state") },
        col("rss", "rss", "process.rss"),
        col("threads", "threads", "process.threads"),
        col("name", "name", "process.name"),
    ],
    better: None,
};

/// Trainers as processes, in the report; what was concluded of them has sections of its own there.
pub(crate) const TRAINER_PROCESSES: Panel = Panel {
    title: "trainers",
    view: View::Table,
    table: "process",
    only: Some(("process.role", &["trainer"])),
    by: None,
    columns: &[
        col("pid", "pid", "process.pid"),
        col("rank", "rank", "process.rank"),
        col("local", "local_rank", "process.local_rank"),
        Col { head: "cpu", name: "cpu", read: CPU },
        col("rss", "rss", "process.rss"),
        col("threads", "threads", "process.threads"),
        col("name", "name", "process.name"),
    ],
    better: None,
};

/// Loader workers, also in the report.
pub(crate) const WORKERS: Panel = Panel {
    title: "workers",
    view: View::Table,
    table: "process",
    only: Some(("process.role", &["worker"])),
    by: None,
    columns: &[
        col("pid", "pid", "process.pid"),
        Col { head: "state %", name: "state", read: Read::Mix("activity.samples", "activity.state") },
        Col { head: "cpu", name: "cpu", read: CPU },
        col("from storage", "storage_read", "process.storage_read"),
        Col { head: "cache, pipes", name: "cache_read", read: CACHE },
        col("faults", "major_faults", "process.major_faults"),
        col("rss", "rss", "process.rss"),
        col("minor", "minor_faults", "process.minor_faults"),
        col("reads", "read_calls", "process.read_calls"),
        col("cores", "cores_allowed", "process.cores_allowed"),
        col("name", "name", "process.name"),
    ],
    better: Some(&WORKER_TIMES),
};

/// Regions that the program marks or `feedline run` times, in the report: a share of a thread's time.
pub(crate) const REGIONS: Panel = Panel {
    title: "regions",
    view: View::Table,
    table: "region",
    only: None,
    by: None,
    columns: &[
        col("process", "process", "region.process"),
        col("region", "region", "region.region"),
        col("time", "time", "region.time"),
        col("a second", "times", "region.times"),
        col("thread", "thread", "region.thread"),
    ],
    better: None,
};

const STALL: Panel = Panel {
    title: "where the trainers' time goes",
    view: View::Stack,
    table: "stall",
    only: None,
    by: Some("stall.cause"),
    columns: &[col("share", "share", "stall.share")],
    better: Some(&CAUSE),
};

/// The same by the causes of the second level.
const CAUSE: Panel = Panel {
    title: "where the trainers' time goes",
    view: View::Stack,
    table: "cause",
    only: None,
    by: Some("cause.cause"),
    columns: &[col("share", "share", "cause.share")],
    better: None,
};

const STEP: Panel = Panel {
    title: "step time",
    view: View::Lines,
    table: "step",
    only: None,
    by: None,
    columns: &[col("period", "period", "step.period"), col("wait", "wait", "step.wait")],
    better: None,
};

const NOW: Panel = Panel {
    title: "now, with 95 % intervals",
    view: View::Bars,
    table: "stall",
    only: None,
    by: Some("stall.cause"),
    columns: &[col("share", "share", "stall.share"), col("low", "low", "stall.low"), col("high", "high", "stall.high")],
    better: Some(&RUN),
};

/// The run so far, by the causes of the second level.
const RUN: Panel = Panel {
    title: "the run so far, 95 % intervals",
    view: View::Bars,
    table: "cause",
    only: None,
    by: Some("cause.cause"),
    columns: &[col("run", "run", "cause.run"), col("low", "low", "cause.low"), col("high", "high", "cause.high")],
    better: None,
};

const COST: Panel = Panel {
    title: "feedline's own cost, last 15 s",
    view: View::Table,
    table: "health",
    only: None,
    by: None,
    columns: &[
        col("collector", "collector", "health.collector"),
        Col { head: "cpu a tick", name: "cost", read: Read::Mean("health.cost") },
        Col { head: "took", name: "took", read: Read::Mean("health.took") },
        Col { head: "late", name: "late", read: Read::Mean("health.late") },
        Col { head: "drops", name: "drops", read: Read::Total("health.drops") },
        Col { head: "failures", name: "failures", read: Read::Total("health.failures") },
        Col { head: "skipped", name: "skipped", read: Read::Total("health.skipped") },
        Col { head: "rows", name: "rows", read: Read::Total("health.rows") },
    ],
    better: None,
};

const ABSENT: Panel = Panel {
    title: "not known, and why",
    view: View::Absent,
    table: "absent",
    only: None,
    by: None,
    columns: &[],
    better: None,
};

const FINDINGS: Panel = Panel {
    title: "findings",
    view: View::Findings,
    table: "finding",
    only: None,
    by: None,
    columns: &[
        col("kind", "kind", "finding.kind"),
        col("severity", "severity", "finding.severity"),
        col("since", "since", "finding.since"),
        col("text", "text", "finding.text"),
        col("advice", "advice", "finding.advice"),
        col("trainer", "process", "finding.process"),
    ],
    better: None,
};

/// What each worker does with its time, where that is known.
pub(crate) const WORKER_TIMES: Panel = Panel {
    title: "workers",
    view: View::Table,
    table: "worker",
    only: None,
    by: None,
    columns: &[
        Col { head: "pid", name: "pid", read: Read::Pid("worker.process") },
        Col { head: "rank", name: "rank", read: Read::Of("worker.trainer", "process.rank") },
        Col { head: "last 10 s", name: "strip", read: Read::Strip(STRIP) },
        Col { head: "decode", name: "decode", read: Read::Value("worker.decode") },
        Col { head: "queued", name: "queued", read: Read::Value("worker.queued") },
        Col { head: "idle", name: "idle", read: Read::Value("worker.idle") },
        Col { head: "read/s", name: "read_rate", read: Read::Value("worker.read_rate") },
        Col { head: "file", name: "file", read: Read::Last("worker.file") },
        Col { head: "storage", name: "fetch_storage", read: Read::Value("worker.fetch_storage") },
        Col { head: "cache", name: "fetch_cache", read: Read::Value("worker.fetch_cache") },
        Col { head: "network", name: "fetch_network", read: Read::Value("worker.fetch_network") },
        Col { head: "put", name: "put", read: Read::Value("worker.put") },
        Col { head: "collate", name: "collate", read: Read::Value("worker.collate") },
        Col { head: "mount", name: "mount", read: Read::Value("worker.mount") },
        Col { head: "rss", name: "rss", read: Read::Value("process.rss") },
        Col { head: "cpu", name: "cpu", read: CPU },
    ],
    better: None,
};

/// Positions in [`PANELS`] of the panels that the layout places by hand.
pub(crate) const STALL_AT: usize = 0;
/// Step time over time.
pub(crate) const STEP_AT: usize = 1;
/// Shares now.
pub(crate) const NOW_AT: usize = 2;
/// The first panel that can have the focus; all after it can.
pub(crate) const FIRST_TAB: usize = 3;
/// The panel that has the focus at first.
pub(crate) const WORKERS_AT: usize = 3;
/// What was found.
pub(crate) const FINDINGS_AT: usize = 5;

/// Every panel. Those from [`FIRST_TAB`] on are the tabs, in order.
pub(crate) const PANELS: &[Panel] = &[
    STALL,
    STEP,
    NOW,
    WORKERS,
    TRAINERS,
    FINDINGS,
    DISKS,
    MOUNTS,
    NETWORK,
    ACCELERATORS,
    PRESSURE,
    CGROUP,
    COST,
    ABSENT,
];

/// Rows of panels on a large screen, below the charts: positions in [`PANELS`], and the share of
/// the height left that each row gets.
pub(crate) const GRID: &[(&[usize], u16)] =
    &[(&[3], 8), (&[4, 9], 5), (&[5, 13], 6), (&[6, 7, 8], 4), (&[10, 11, 12], 5)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tab_is_on_the_large_screen_once() {
        let mut shown: Vec<usize> = GRID.iter().flat_map(|(row, _)| row.iter().copied()).collect();
        shown.sort_unstable();
        assert_eq!(shown, (FIRST_TAB..PANELS.len()).collect::<Vec<_>>());
    }

    #[test]
    fn the_places_by_hand_hold_what_they_say() {
        let title = |at: usize| PANELS[at].title;
        assert_eq!(PANELS[STALL_AT].view, View::Stack);
        assert_eq!(PANELS[STEP_AT].view, View::Lines);
        assert_eq!(PANELS[NOW_AT].view, View::Bars);
        assert_eq!(title(WORKERS_AT), "workers");
        assert_eq!(PANELS[FINDINGS_AT].view, View::Findings);
        assert_eq!(title(PANELS.len() - 1), "not known, and why");
    }
}
