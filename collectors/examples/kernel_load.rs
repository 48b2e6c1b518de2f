//! What the kernel's programs cost and lose under load:
//! `cargo run -p feedline-collectors --example kernel_load -- FILE [THREADS] [SECONDS]`, as root.
//!
//! Threads of this process read 4 KiB at random places of the file, past the page cache where the
//! file system can (a block device can), in rounds with and without the programs; it prints reads a
//! second and the CPU time of one read, which a busy machine disturbs less, and what the programs
//! counted and lost of them. A loop device over memory makes
//! the most block requests:
//! `truncate -s 1G /dev/shm/f && losetup --show -f --direct-io=on /dev/shm/f`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use feedline_collectors::kernel::KernelEvents;
use feedline_collectors::{Context, Host, Process, Role, Scheduled, health, key, schema};
use feedline_traces::{Clock as _, Collector as _, Error, Result, Rows, Schema, SystemClock};

const ROUNDS: usize = 3;
const BLOCK: usize = 4096;

/// A buffer that direct reads accept: they want its address to be a multiple of the block.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| Error::new("give a file or block device to read"))?;
    let mut number = |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (threads, seconds) = (number(4_u64), number(5_u64));
    let clock = Arc::new(SystemClock::anchored_now());
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        costs[0].push(round(&path, threads, seconds, None)?);
        costs[1].push(round(&path, threads, seconds, Some(&clock))?);
    }
    let median = |costs: &mut Vec<f64>| {
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    };
    let [without, with] = costs.each_mut().map(median);
    println!("median: a read takes {without:.2} µs of CPU without, {with:.2} with: {:+.2}", with - without);
    Ok(())
}

/// Reads for some seconds; gives the CPU time of a read in microseconds.
fn round(path: &str, threads: u64, seconds: u64, clock: Option<&Arc<SystemClock>>) -> Result<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let mut watch = clock.map(Watch::start).transpose()?;
    let before = health::process_cpu();
    let readers: Vec<_> = (0..threads)
        .map(|seed| {
            let (path, stop, done) = (path.to_owned(), Arc::clone(&stop), Arc::clone(&done));
            std::thread::spawn(move || read(&path, seed, &stop, &done))
        })
        .collect();
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        if let Some(watch) = &mut watch {
            watch.read()?;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().map_err(|_| Error::new("a reader panicked"))?.map_err(|cause| Error::io(path, &cause))?;
    }
    let reads = done.load(Ordering::Relaxed);
    let spent = health::process_cpu() - before;
    #[expect(clippy::cast_precision_loss, reason = "a rate and a mean")]
    let (rate, cost) = (reads as f64 / seconds as f64, spent as f64 / 1e3 / reads.max(1) as f64);
    match &mut watch {
        None => println!("without: {rate:9.0} reads a second, {cost:6.2} µs of CPU each"),
        Some(watch) => {
            watch.read()?;
            let said = watch.said(seconds);
            println!("with:    {rate:9.0} reads a second, {cost:6.2} µs of CPU each; {reads} done; {said}");
        }
    }
    Ok(cost)
}

fn read(path: &str, seed: u64, stop: &AtomicBool, done: &AtomicU64) -> std::io::Result<()> {
    const O_DIRECT: i32 = 0o40_000;
    let direct = File::options().read(true).custom_flags(O_DIRECT).open(path);
    let file = direct.or_else(|_| File::open(path))?;
    let blocks = {
        use std::io::Seek as _;
        (&file).seek(std::io::SeekFrom::End(0))? / BLOCK as u64
    };
    let mut buffer = Box::new(Aligned([0; BLOCK]));
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while !stop.load(Ordering::Relaxed) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.read_exact_at(&mut buffer.0, state % blocks.max(1) * BLOCK as u64)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The collector on this process.
struct Watch {
    events: KernelEvents,
    schema: Schema,
    clock: Arc<SystemClock>,
    reads: u64,
    requests: u64,
    lost: u64,
    cost: u64,
}

impl Watch {
    fn start(clock: &Arc<SystemClock>) -> Result<Self> {
        let mut context = Context::new(Host::this(), Arc::clone(clock) as _);
        context.settings.kernel = true;
        let pid = std::process::id();
        let (key, role) = (key(pid, 1), Role::Trainer);
        context.target.replace(vec![Process { pid, start: 1, key, role, ..Process::default() }]);
        let schema = schema(&[Scheduled::every(Duration::from_secs(1), KernelEvents::new(&context))])?;
        let clock = Arc::clone(clock);
        let events = KernelEvents::new(&context);
        let mut watch = Self { events, schema, clock, reads: 0, requests: 0, lost: 0, cost: 0 };
        watch.read()?;
        watch.cost = 0;
        Ok(watch)
    }

    fn read(&mut self) -> Result<()> {
        let before = health::thread_cpu();
        let mut rows = Rows::new(&self.schema, self.clock.now());
        self.events.collect(&mut rows)?;
        self.cost += health::thread_cpu() - before;
        let batches = rows.finish();
        let sum = |table: &str, column: &str, key: &str| -> u64 {
            let (Ok(id), Ok(column)) = (self.schema.find_table(table), self.schema.find(&format!("{table}.{column}")))
            else {
                return 0;
            };
            let batches = batches.iter().filter(|batch| batch.table == id);
            batches
                .flat_map(|batch| {
                    let named = |row: &usize| {
                        key.is_empty() || batch.columns.iter().any(|c| c.text(*row).is_some_and(|text| **text == *key))
                    };
                    (0..batch.len()).filter(named).filter_map(|row| batch.columns[column.column].whole(row))
                })
                .sum()
        };
        self.reads = sum("file_io", "calls", "read");
        self.requests = sum("block_latency", "requests", "read");
        self.lost = sum("kernel_loss", "lost", "");
        for batch in batches.iter().filter(|batch| self.schema.table(batch.table).name == "absent") {
            for row in 0..batch.len() {
                let text = |at: usize| batch.columns[at].text(row).map(ToString::to_string).unwrap_or_default();
                println!("    {}: {}", text(0), text(2));
            }
        }
        Ok(())
    }

    fn said(&self, seconds: u64) -> String {
        let cost = self.cost / 1000 / seconds.max(1);
        format!(
            "counted {} reads, {} block requests, {} lost; reading the maps took {cost} µs of CPU a second",
            self.reads, self.requests, self.lost
        )
    }
}
