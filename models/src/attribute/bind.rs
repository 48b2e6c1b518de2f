//! The observed tables that attribution reads, bound by name. Each is optional, and so are most of
//! its columns; what a table cannot be read without is not.

use feedline_traces::{Error, Result, Schema, TableId};

pub(super) use crate::cells::Cells;

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
    pub(super) mount: Option<Mount>,
    pub(super) page_cache: Option<PageCache>,
    pub(super) socket: Option<Socket>,
    pub(super) using: Option<Using>,
    pub(super) device_call: Option<DeviceCall>,
    pub(super) region: Option<Region>,
    pub(super) file_io: Option<FileIo>,
    pub(super) training_loop: Option<Loop>,
}

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) role: usize,
    pub(super) parent: Option<usize>,
    pub(super) cores: Option<usize>,
    pub(super) local_rank: Option<usize>,
    pub(super) rank: Option<usize>,
    pub(super) world: Option<usize>,
    pub(super) threads: Option<usize>,
    pub(super) age: Option<usize>,
    /// User and system time.
    pub(super) cpu: [Option<usize>; 2],
    /// Bytes read, bytes from storage, read calls, page faults that waited for storage, and times that
    /// the main thread began to wait.
    pub(super) reads: [Option<usize>; 5],
}

#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) role: Option<usize>,
    pub(super) on_cpu: Option<usize>,
    pub(super) run_queue: Option<usize>,
    pub(super) file: Option<usize>,
    pub(super) name: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Activity {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) state: usize,
    pub(super) samples: usize,
    pub(super) episodes: Option<usize>,
    pub(super) beside: Option<usize>,
    pub(super) on: Option<usize>,
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
    pub(super) task: Option<usize>,
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
    pub(super) pcie_read: Option<usize>,
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

/// Mounts that serve the job's files.
#[derive(Debug, Clone)]
pub(super) struct Mount {
    pub(super) table: TableId,
    pub(super) mount: usize,
    pub(super) kind: Option<usize>,
    pub(super) class: usize,
}

#[derive(Debug, Clone)]
pub(super) struct PageCache {
    pub(super) table: TableId,
    pub(super) resident: usize,
    pub(super) total: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Socket {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) received: usize,
}

/// Processes that use an accelerator.
#[derive(Debug, Clone)]
pub(super) struct Using {
    pub(super) table: TableId,
    pub(super) process: usize,
}

/// Calls into the device's libraries.
#[derive(Debug, Clone)]
pub(super) struct DeviceCall {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) call: usize,
    pub(super) time: usize,
    pub(super) bytes: Option<usize>,
}

/// Reads and opens, timed in the kernel.
#[derive(Debug, Clone)]
pub(super) struct FileIo {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) operation: usize,
    pub(super) on: usize,
    pub(super) calls: usize,
    pub(super) time: usize,
}

/// Rounds of a trainer's loop.
#[derive(Debug, Clone)]
pub(super) struct Loop {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) variable: usize,
    pub(super) rounds: usize,
}

/// Times measured inside the process.
#[derive(Debug, Clone)]
pub(super) struct Region {
    pub(super) table: TableId,
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) region: usize,
    pub(super) times: Option<usize>,
    pub(super) time: usize,
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
                rank: may("process.rank"),
                world: may("process.world"),
                threads: may("process.threads"),
                age: may("process.age"),
                cpu: [may("process.cpu_user"), may("process.cpu_system")],
                reads: ["read", "storage_read", "read_calls", "major_faults", "switches_voluntary"]
                    .map(|name| may(&format!("process.{name}"))),
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
                file: may("thread.file"),
                name: may("thread.name"),
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
                beside: may("activity.beside"),
                on: may("activity.on"),
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
                task: may("stack.task"),
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
        tables.accelerator = accelerator(schema);
        (tables.cgroup, tables.pressure) = (cgroup(schema), pressure(schema));
        tables.beside(schema);
        if tables.thread.is_none() && tables.activity.is_none() && tables.stack.is_none() {
            return Err(Error::new("no table `thread`, `activity` or `stack` to attribute time from")
                .hint("record with the `activity` or the `stack` collector on"));
        }
        Ok(tables)
    }
}

impl Tables {
    /// Tables that make causes finer; without its key one is as good as missing.
    fn beside(&mut self, schema: &Schema) {
        let may = |path: &str| schema.find(path).ok().map(|found| found.column);
        let table = |name: &str| schema.find_table(name).ok();
        let (resident, total) = (may("page_cache.resident"), may("page_cache.total"));
        self.mount = table("mount")
            .zip(may("mount.mount"))
            .zip(may("mount.class"))
            .map(|((table, mount), class)| Mount { table, mount, kind: may("mount.kind"), class });
        self.page_cache = table("page_cache").zip(resident).zip(total).map(|((table, resident), total)| PageCache {
            table,
            resident,
            total,
        });
        self.socket = table("socket")
            .zip(may("socket.process"))
            .zip(may("socket.received_bytes"))
            .map(|((table, process), received)| Socket { table, process, received });
        self.using = table("accelerator_process")
            .zip(may("accelerator_process.process"))
            .map(|(table, process)| Using { table, process });
        self.device_call = device_call(schema);
        self.region = region(schema);
        self.file_io = file_io(schema);
        self.training_loop = table("training_loop")
            .zip(may("training_loop.process"))
            .zip(may("training_loop.variable").zip(may("training_loop.rounds")))
            .map(|((table, process), (variable, rounds))| Loop { table, process, variable, rounds });
    }
}

/// What accelerators did; every column of it may be missing.
fn accelerator(schema: &Schema) -> Option<Accelerator> {
    let may = |path: &str| schema.find(path).ok().map(|found| found.column);
    Some(Accelerator {
        table: schema.find_table("accelerator").ok()?,
        index: may("accelerator.index"),
        busy: may("accelerator.busy"),
        sm_active: may("accelerator.sm_active"),
        pcie_read: may("accelerator.pcie_read"),
    })
}

fn device_call(schema: &Schema) -> Option<DeviceCall> {
    let may = |path: &str| schema.find(path).ok().map(|found| found.column);
    Some(DeviceCall {
        table: schema.find_table("device_call").ok()?,
        process: may("device_call.process")?,
        thread: may("device_call.thread")?,
        call: may("device_call.call")?,
        time: may("device_call.time")?,
        bytes: may("device_call.bytes"),
    })
}

fn file_io(schema: &Schema) -> Option<FileIo> {
    let may = |path: &str| schema.find(path).ok().map(|found| found.column);
    Some(FileIo {
        table: schema.find_table("file_io").ok()?,
        process: may("file_io.process")?,
        operation: may("file_io.operation")?,
        on: may("file_io.on")?,
        calls: may("file_io.calls")?,
        time: may("file_io.time")?,
    })
}

fn region(schema: &Schema) -> Option<Region> {
    let may = |path: &str| schema.find(path).ok().map(|found| found.column);
    Some(Region {
        table: schema.find_table("region").ok()?,
        process: may("region.process")?,
        thread: may("region.thread")?,
        region: may("region.region")?,
        times: may("region.times"),
        time: may("region.time")?,
    })
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
