//! How much of the job's open files is in memory, and how hard the kernel works to keep it there.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use feedline_traces::unit::{Bytes, Count};
use feedline_traces::{
    Background, Clock, Collector, Counter, Gauge, Key, Result, Row as _, Rows, Symbol, Table, Ts, table,
};

use crate::absent::{AbsentRow, Reasons};
use crate::mount::files::{self, OpenFile, Survey};
use crate::mount::parse::Class;
use crate::{Context, Host, Target};

mod kernel;
pub mod parse;

use kernel::Pages;

/// Files looked at in one reading.
const FILES: usize = 128;
/// Time that one reading may take; the files beyond wait for the next.
const PATIENCE: Duration = Duration::from_millis(10);
/// Up to this size a file is looked at whole.
const WHOLE: u64 = 256 << 20;
/// Of larger files, this many windows of this size, spread evenly.
const WINDOWS: u64 = 16;
const WINDOW: u64 = 16 << 20;

table! {
    /// Page cache of the files that the job has open for reading, one row per mount, every few
    /// seconds. Files on network and FUSE mounts are not asked for: opening them may block.
    pub page_cache: PageCacheRow {
        /// Mount point, as in `mount.mount`.
        mount: Key,
        /// Files looked at.
        files: Gauge<Count>,
        /// Files left out: too many, or not to be opened.
        left: Gauge<Count>,
        /// Bytes in the files looked at.
        size: Gauge<Bytes>,
        /// Bytes looked at: files up to 256 MiB whole, of larger ones 16 windows of 16 MiB.
        total: Gauge<Bytes>,
        /// Of those looked at, bytes in memory.
        resident: Gauge<Bytes>,
        /// Of those in memory, bytes changed and not yet written.
        dirty: Gauge<Bytes>,
        /// Of those looked at, bytes dropped so recently that the memory was missed.
        evicted: Gauge<Bytes>,
    }
}

table! {
    /// Paging and reclaim of the machine since boot, once a tick.
    pub vmstat: VmstatRow {
        /// Always `host`.
        scope: Key,
        /// File pages read again soon after they were dropped: the page cache is too small.
        refaults_file: Counter<Count>,
        /// Other pages read again soon after they were swapped out.
        refaults_anon: Counter<Count>,
        /// Page faults that had to read from storage.
        major_faults: Counter<Count>,
        /// Bytes read from block devices into memory.
        paged_in: Counter<Bytes>,
        /// Bytes written from memory to block devices.
        paged_out: Counter<Bytes>,
        /// Pages reclaimed in the background.
        reclaimed_background: Counter<Count>,
        /// Pages that programs had to reclaim themselves before they got memory.
        reclaimed_direct: Counter<Count>,
        /// Pages looked at by programs that had to reclaim themselves.
        scanned_direct: Counter<Count>,
        /// Times that a program had to reclaim before it got memory.
        direct_stalls: Counter<Count>,
        /// Pages swapped in.
        swapped_in: Counter<Count>,
        /// Pages swapped out.
        swapped_out: Counter<Count>,
        /// Processes killed for want of memory.
        out_of_memory_kills: Counter<Count>,
        /// Times that somebody dropped the page cache by hand.
        cache_drops: Counter<Count>,
    }
}

/// Asks the kernel which pages of the job's open files are in memory.
pub struct PageCache {
    host: Host,
    clock: Arc<dyn Clock>,
    target: Target,
    reasons: Reasons,
    /// Whether the kernel has `cachestat`.
    cachestat: bool,
    /// Where the next reading begins among the files, so that each gets its turn.
    turn: usize,
    skipped: u64,
}

/// What was seen on one mount.
#[derive(Debug, Default)]
struct Sum {
    files: u64,
    left: u64,
    size: u64,
    total: u64,
    resident: u64,
    dirty: Option<u64>,
    evicted: Option<u64>,
}

/// What was seen of one file.
struct Look {
    size: u64,
    total: u64,
    pages: Pages,
}

impl PageCache {
    /// The page cache of a job's files.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            host: context.host.clone(),
            clock: Arc::clone(&context.clock),
            target: context.target.clone(),
            reasons: Reasons::default(),
            cachestat: true,
            turn: 0,
            skipped: 0,
        }
    }

    /// Looks at one file, or says that it is not to be had (`Ok(None)`).
    fn look(&mut self, file: &OpenFile, class: Class, deadline: Ts) -> io::Result<Option<Look>> {
        // Through the descriptor's link, which leads to the file whatever its path means here.
        let link = self.host.path(format!("proc/{}/fd/{}", file.pid, file.descriptor));
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let opened = File::options().read(true).custom_flags(flags).open(link)?;
        let stat = rustix::fs::fstat(&opened)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
            return Ok(None);
        }
        // Of somebody else's file, `mincore` says that all of it is there.
        let user = rustix::process::geteuid();
        let own = user.is_root() || user.as_raw() == stat.st_uid;
        let page = rustix::param::page_size() as u64;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let mut look = Look { size, total: 0, pages: Pages::default() };
        for (offset, length) in windows(size) {
            if self.clock.now() > deadline {
                return Ok(None);
            }
            // The file of an overlay has no pages of its own; a mapping of it has those beneath.
            let pages = if self.cachestat && class != Class::Overlay {
                match kernel::cachestat(&opened, offset, length) {
                    Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                        self.cachestat = false;
                        kernel::mincore(&opened, offset, length, page)?
                    }
                    outcome => outcome?,
                }
            } else if own {
                kernel::mincore(&opened, offset, length, page)?
            } else {
                return Ok(None);
            };
            let add = |a: Option<u64>, b: Option<u64>| b.map(|b| a.unwrap_or(0) + b * page);
            look.total += length;
            // The last page may reach beyond the end of the file.
            look.pages.cached += (pages.cached * page).min(length);
            look.pages.dirty = add(look.pages.dirty, pages.dirty);
            look.pages.evicted = add(look.pages.evicted, pages.evicted);
        }
        Ok(Some(look))
    }
}

/// The parts of a file that are looked at: offset, a multiple of a page, and length.
fn windows(size: u64) -> Vec<(u64, u64)> {
    if size == 0 {
        return Vec::new();
    }
    if size <= WHOLE {
        return (0..size.div_ceil(WINDOW)).map(|i| (i * WINDOW, WINDOW.min(size - i * WINDOW))).collect();
    }
    let stride = (size - WINDOW) / (WINDOWS - 1);
    // 64 KiB is a multiple of every page size that Linux runs with.
    (0..WINDOWS).map(|i| (i * stride / 65_536 * 65_536, WINDOW)).collect()
}

impl Collector for PageCache {
    fn name(&self) -> &'static str {
        "page_cache"
    }

    fn tables(&self) -> Vec<Table> {
        vec![PageCacheRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let survey = Survey::of(&self.host, &self.target.processes());
        self.reasons.say(out, "page_cache", "", survey.refused.then_some(files::REFUSED));
        let mut sums: BTreeMap<Symbol, Sum> = BTreeMap::new();
        let mut known = HashSet::new();
        let mut open: Vec<(&OpenFile, Class)> = Vec::new();
        for file in survey.files.iter().filter(|file| !file.opened.write_only) {
            let mount = survey.mount(file.place);
            match mount.class() {
                class @ (Class::Disk | Class::Overlay) => {
                    // Forked workers share the trainer's files.
                    if known.insert((file.place, file.path.as_str())) {
                        open.push((file, class));
                    }
                }
                Class::Network | Class::Fuse => {
                    let reason = "not asked for: opening a file on a network or FUSE mount may block";
                    self.reasons.say(out, "page_cache", &mount.point, Some(reason));
                }
                Class::Memory | Class::Pseudo => {}
            }
        }
        let count = open.len();
        open.rotate_left(self.turn % count.max(1));
        let deadline = self.clock.now().plus(PATIENCE);
        let mut done = 0;
        for (index, (file, class)) in open.into_iter().enumerate() {
            let mount = survey.mount(file.place);
            let sum = sums.entry(mount.point.as_str().into()).or_default();
            let within = index < FILES && self.clock.now() <= deadline;
            let look = if within { self.look(file, class, deadline) } else { Ok(None) };
            let look = look.ok().flatten();
            // A file that was cut short comes first the next time; a first one had all there is.
            let cut = within && look.is_none() && self.clock.now() > deadline;
            match (within, cut) {
                (true, false) => done = index + 1,
                (true, true) => done = index.max(1),
                (false, _) => self.skipped += 1,
            }
            sum.add(look);
        }
        self.turn = if done < count { self.turn.wrapping_add(done) % count.max(1) } else { 0 };
        for (mount, sum) in sums {
            let why = (sum.files > 0 && sum.dirty.is_none())
                .then_some("only `cachestat` tells, which needs Linux 6.5 and does not see through an overlay");
            self.reasons.say(out, "page_cache.dirty", &mount, why);
            self.reasons.say(out, "page_cache.evicted", &mount, why);
            out.push(sum.row(mount));
        }
        Ok(())
    }

    fn background(&mut self) -> Background {
        Background { skipped: std::mem::take(&mut self.skipped), ..Background::default() }
    }
}

impl Sum {
    fn add(&mut self, look: Option<Look>) {
        let Some(look) = look else {
            self.left += 1;
            return;
        };
        self.files += 1;
        self.size = self.size.saturating_add(look.size);
        self.total += look.total;
        self.resident += look.pages.cached;
        if let Some(dirty) = look.pages.dirty {
            *self.dirty.get_or_insert(0) += dirty;
        }
        if let Some(evicted) = look.pages.evicted {
            *self.evicted.get_or_insert(0) += evicted;
        }
    }

    fn row(self, mount: Symbol) -> PageCacheRow {
        let seen = self.files > 0;
        PageCacheRow {
            mount: mount.into(),
            files: self.files.into(),
            left: self.left.into(),
            size: seen.then_some(self.size).into(),
            total: seen.then_some(self.total).into(),
            resident: seen.then_some(self.resident).into(),
            dirty: self.dirty.into(),
            evicted: self.evicted.into(),
        }
    }
}

/// Reads `/proc/vmstat`.
pub struct Vmstat {
    host: Host,
    reasons: Reasons,
}

impl Vmstat {
    /// Paging and reclaim of a machine.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self { host: context.host.clone(), reasons: Reasons::default() }
    }
}

impl Collector for Vmstat {
    fn name(&self) -> &'static str {
        "vmstat"
    }

    fn tables(&self) -> Vec<Table> {
        vec![VmstatRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let text = self.host.read("proc/vmstat")?;
        let vmstat = parse::Vmstat::of(&text);
        let kibibytes = |name: &str| vmstat.get(&[name]).and_then(|n| n.checked_mul(1024));
        // Kernels before 5.9 count both kinds of refaults as one, nearly all of files.
        let refaults = vmstat.get(&["workingset_refault_file", "workingset_refault"]);
        let anonymous = vmstat.get(&["workingset_refault_anon"]);
        let why = anonymous.is_none().then_some("this kernel does not tell refaults apart; Linux 5.9 and later do");
        self.reasons.say(out, "vmstat.refaults_anon", "", why);
        out.push(VmstatRow {
            scope: "host".into(),
            refaults_file: refaults.into(),
            refaults_anon: anonymous.into(),
            major_faults: vmstat.get(&["pgmajfault"]).into(),
            paged_in: kibibytes("pgpgin").into(),
            paged_out: kibibytes("pgpgout").into(),
            reclaimed_background: vmstat.zoned("pgsteal_kswapd").into(),
            reclaimed_direct: vmstat.zoned("pgsteal_direct").into(),
            scanned_direct: vmstat.zoned("pgscan_direct").into(),
            direct_stalls: vmstat.zoned("allocstall").into(),
            swapped_in: vmstat.get(&["pswpin"]).into(),
            swapped_out: vmstat.get(&["pswpout"]).into(),
            out_of_memory_kills: vmstat.get(&["oom_kill"]).into(),
            cache_drops: vmstat.get(&["drop_pagecache"]).into(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
