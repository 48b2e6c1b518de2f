//! The observed tables that attribution reads, bound by name. Each is optional, and so are most of
//! its columns; what a table cannot be read without is not.

use feedline_traces::{Batch, Error, Result, Schema, Symbol, TableId};

/// Positions of the tables and columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) process: Option<Process>,
    pub(super) thread: Option<Thread>,
    pub(super) activity: Option<Activity>,
    pub(super) stack: Option<Stack>,
    pub(super) wait: Option<Wait>,
    pub(super) accelerator: Option<Accelerator>,
    pub(super) cgroup: Option<Cgroup>,
    pub(super) pressure: Option<Pressure>,
}

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) role: usize,
    pub(super) parent: Option<usize>,
    pub(super) cores: Option<usize>,
    pub(super) local_rank: Option<usize>,
    pub(super) cpu: [Option<usize>; 2],
}

#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) role: Option<usize>,
    pub(super) on_cpu: Option<usize>,
    pub(super) run_queue: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Activity {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) state: usize,
    pub(super) samples: usize,
    pub(super) episodes: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Stack {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) state: usize,
    pub(super) site: usize,
    pub(super) samples: usize,
    pub(super) frame: Option<usize>,
    pub(super) leaf: Option<usize>,
    pub(super) missed: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Wait {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) state: usize,
    pub(super) duration: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Accelerator {
    pub(super) table: TableId,
    pub(super) index: Option<usize>,
    pub(super) busy: Option<usize>,
    pub(super) sm_active: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Cgroup {
    pub(super) table: TableId,
    pub(super) group: usize,
    pub(super) limit: Option<usize>,
    pub(super) periods: Option<usize>,
    pub(super) held: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Pressure {
    pub(super) table: TableId,
    pub(super) scope: usize,
    pub(super) resource: usize,
    pub(super) some: usize,
}

impl Tables {
    /// Binds what the schema has.
    ///
    /// # Errors
    /// When none of `thread`, `activity` and `stack` is there, or one lacks a column it cannot be
    /// read without; the hint names the nearest.
    pub(super) fn bind(schema: &Schema) -> Result<Self> {
        let need = |path: &str| schema.find(path).map(|found| found.column);
        let may = |path: &str| schema.find(path).ok().map(|found| found.column);
        let mut tables = Self::default();
        if let Ok(table) = schema.find_table("process") {
            tables.process = Some(Process {
                table,
                process: need("process.process")?,
                role: need("process.role")?,
                parent: may("process.parent"),
                cores: may("process.cores_allowed"),
                local_rank: may("process.local_rank"),
                cpu: [may("process.cpu_user"), may("process.cpu_system")],
            });
        }
        if let Ok(table) = schema.find_table("thread") {
            tables.thread = Some(Thread {
                table,
                process: need("thread.process")?,
                thread: need("thread.thread")?,
                role: may("thread.role"),
                on_cpu: may("thread.on_cpu"),
                run_queue: may("thread.run_queue"),
            });
        }
        if let Ok(table) = schema.find_table("activity") {
            tables.activity = Some(Activity {
                table,
                process: need("activity.process")?,
                thread: need("activity.thread")?,
                state: need("activity.state")?,
                samples: need("activity.samples")?,
                episodes: may("activity.episodes"),
            });
        }
        if let Ok(table) = schema.find_table("stack") {
            tables.stack = Some(Stack {
                table,
                process: need("stack.process")?,
                thread: need("stack.thread")?,
                state: need("stack.state")?,
                site: need("stack.site")?,
                samples: need("stack.samples")?,
                frame: may("stack.frame"),
                leaf: may("stack.leaf"),
                missed: may("stack.missed"),
            });
        }
        if let Ok(table) = schema.find_table("wait") {
            tables.wait = Some(Wait {
                table,
                process: need("wait.process")?,
                thread: need("wait.thread")?,
                state: need("wait.state")?,
                duration: need("wait.duration")?,
            });
        }
        if let Ok(table) = schema.find_table("accelerator") {
            tables.accelerator = Some(Accelerator {
                table,
                index: may("accelerator.index"),
                busy: may("accelerator.busy"),
                sm_active: may("accelerator.sm_active"),
            });
        }
        (tables.cgroup, tables.pressure) = (cgroup(schema), pressure(schema));
        if tables.thread.is_none() && tables.activity.is_none() && tables.stack.is_none() {
            return Err(Error::new("no table `thread`, `activity` or `stack` to attribute time from")
                .hint("record with the `activity` or the `stack` collector on"));
        }
        Ok(tables)
    }
}

/// What limits the job's cores; without its key the table is as good as missing.
fn cgroup(schema: &Schema) -> Option<Cgroup> {
    let may = |path: &str| schema.find(path).ok().map(|found| found.column);
    Some(Cgroup {
        table: schema.find_table("cgroup").ok()?,
        group: may("cgroup.cgroup")?,
        limit: may("cgroup.cpu_limit"),
        periods: may("cgroup.periods"),
        held: may("cgroup.throttled_periods"),
    })
}

fn pressure(schema: &Schema) -> Option<Pressure> {
    let may = |path: &str| schema.find(path).ok().map(|found| found.column);
    Some(Pressure {
        table: schema.find_table("pressure").ok()?,
        scope: may("pressure.scope")?,
        resource: may("pressure.resource")?,
        some: may("pressure.some")?,
    })
}

/// One row of a batch, read by position; a cell that is not there is missing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cells<'a> {
    pub(super) batch: &'a Batch,
    pub(super) row: usize,
}

impl<'a> Cells<'a> {
    pub(super) fn all(batch: Option<&'a Batch>) -> impl Iterator<Item = Self> {
        batch.into_iter().flat_map(|batch| (0..batch.len()).map(move |row| Self { batch, row }))
    }

    pub(super) fn text(self, column: usize) -> Option<&'a Symbol> {
        self.batch.columns.get(column)?.text(self.row)
    }

    /// A finite number.
    pub(super) fn number(self, column: usize) -> Option<f64> {
        self.batch.columns.get(column)?.number(self.row).filter(|x| x.is_finite())
    }

    /// A count: finite and not negative, else 0.
    pub(super) fn count(self, column: usize) -> f64 {
        self.number(column).map_or(0.0, |x| x.clamp(0.0, 1e9))
    }

    pub(super) fn whole(self, column: usize) -> Option<u64> {
        self.batch.columns.get(column)?.whole(self.row)
    }
}
