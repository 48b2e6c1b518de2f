//! From the programs' maps to rows: which threads get one, and that no counter falls.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use aya::maps::HashMap as KernelMap;
use aya::maps::{MapData, MapError};
use feedline_traces::{Error, Result, Rows, Symbol};

use super::layout::{Block, Called, File, LOSSES, Off, OffNow, call_now, file_now};
use super::probes::TOO_OFTEN_STEPPED;
use super::programs::{Part, Programs, entries, why};
use super::symbols::Call;
use super::{BlockLatencyRow, DeviceCallRow, FileIoRow, OffCpuRow, has_threads, keys};
use crate::monotonic::monotonic;
use crate::thread::Arch;
use crate::{Host, Process};

/// Threads of one process that get rows of `off_cpu`, beside its main thread.
const THREADS: usize = 32;
/// Readings from one search for threads that are gone to the next.
const SWEEP: u64 = 30;

/// In the programs' unit of time.
const SECOND: u64 = 1_000_000_000;
/// Readings in a row in which calls must come too often before their probes go: a burst is no rate.
const STREAK: u32 = 3;

/// Time and times, as last written.
type Sum = [u64; 2];

/// What was written of the maps.
#[derive(Default)]
pub(super) struct Tallies {
    reading: u64,
    /// Keys of the processes that the programs watch, by pid.
    names: HashMap<u32, Symbol>,
    devices: HashMap<(u32, u32), Symbol>,
    off: HashMap<(u32, u32, &'static str), Sum>,
    calls: HashMap<Called, [u64; 3]>,
    /// When the calls were read last, by the programs' clock.
    last_read: Option<u64>,
    /// Kinds of calls that come often: for how many readings, and how many in the least of them.
    streaks: HashMap<(u32, Call), (u32, u64)>,
    too_often: Vec<(u32, Call, u64)>,
}

impl Tallies {
    /// Tells the programs whom to watch, and writes what they counted. Gives what they lost.
    ///
    /// # Errors
    /// When a map cannot be read or written.
    pub(super) fn read(
        &mut self,
        host: &Host,
        programs: &mut Programs,
        processes: &[Process],
        out: &mut Rows<'_>,
    ) -> Result<Vec<(&'static str, u64)>> {
        self.reading += 1;
        self.watch(programs, processes)?;
        let now = monotonic();
        if !programs.refused.contains_key(&Part::Block) {
            self.block(host, programs, out);
        }
        self.off(programs, now, out);
        self.files(programs, out);
        self.calls(programs, now, out);
        self.forget(host, programs, processes);
        let lost = |what: usize| u32::try_from(what).ok().and_then(|index| programs.maps.lost.get(&index, 0).ok());
        // One that cannot be read has no row, rather than none lost.
        Ok(LOSSES.iter().enumerate().filter_map(|(at, what)| Some((*what, lost(at)?))).collect())
    }

    /// Calls that came so often in the last readings that some of their probes must go.
    pub(super) fn too_often(&mut self) -> Vec<(u32, Call, u64)> {
        std::mem::take(&mut self.too_often)
    }

    /// The processes of the job, to the programs: 1 for one whose files are watched, 3 for one whose
    /// threads are too.
    fn watch(&mut self, programs: &mut Programs, processes: &[Process]) -> Result<()> {
        for process in processes {
            let known = self.names.insert(process.pid, process.key.clone());
            let what = if has_threads(process) { 3 } else { 1 };
            if known.as_ref() != Some(&process.key) || self.reading.is_multiple_of(SWEEP) {
                let full = |error: MapError| Error::new(format!("watching {}: {}", process.key, why(&error)));
                programs.maps.watched.insert(process.pid, what, 0).map_err(full)?;
            }
        }
        Ok(())
    }

    fn block(&mut self, host: &Host, programs: &Programs, out: &mut Rows<'_>) {
        let found = entries(&programs.maps.block);
        let mut sums: HashMap<(u32, u32, &'static str, u64), Sum> = HashMap::new();
        for (key, [requests, time]) in found {
            let block = Block::of(key);
            let sum = sums.entry((block.major, block.minor, block.operation(), block.bound())).or_default();
            *sum = [sum[0] + requests, sum[1] + time];
        }
        for ((major, minor, operation, bound), [requests, time]) in sums {
            out.push(BlockLatencyRow {
                device: super::Key(self.device(host, major, minor)),
                operation: operation.into(),
                bucket: bound.to_string().into(),
                requests: requests.into(),
                time: time.into(),
            });
        }
    }

    /// The name of a device, as in `disk.device`.
    fn device(&mut self, host: &Host, major: u32, minor: u32) -> Symbol {
        if !self.devices.contains_key(&(major, minor)) {
            let text = host.read("proc/partitions").unwrap_or_default();
            self.devices.extend(partitions(&text));
        }
        let number = || Symbol::from(format!("{major}:{minor}"));
        self.devices.entry((major, minor)).or_insert_with(number).clone()
    }

    fn off(&mut self, programs: &Programs, now: u64, out: &mut Rows<'_>) {
        let ended = entries(&programs.maps.off);
        let threads = entries(&programs.maps.off_now);
        let mut sums: HashMap<(u32, u32, &'static str), Sum> = HashMap::new();
        let mut add = |key: [u32; 3], time: u64, times: u64| {
            let off = Off::of(key);
            let sum = sums.entry((off.tgid, off.tid, off.reason(Arch::THIS))).or_default();
            *sum = [sum[0] + time, sum[1] + times];
        };
        ended.iter().for_each(|(key, [time, times])| add(*key, *time, *times));
        for value in threads.into_values() {
            let thread = OffNow::of(value);
            if let Some(time) = thread.pending(now) {
                add(thread.key, time, 0);
            }
        }
        let busy = busiest(&sums, &self.off);
        for (id, sum) in sums {
            // A wait that ends between the reading of one map and the other is in neither or both.
            let shown = rising(&mut self.off, id, sum);
            let (tgid, tid, reason) = id;
            let Some(process) = keys(&self.names, tgid).filter(|_| tid == tgid || busy.contains(&(tgid, tid))) else {
                continue;
            };
            out.push(OffCpuRow {
                process,
                thread: tid.to_string().into(),
                reason: reason.into(),
                time: shown[0].into(),
                times: shown[1].into(),
            });
        }
    }

    fn files(&mut self, programs: &Programs, out: &mut Rows<'_>) {
        let mut sums: HashMap<(u32, &'static str, &'static str), [u64; 3]> = HashMap::new();
        for (key, value) in entries(&programs.maps.files) {
            let file = File::of(key);
            let sum = sums.entry((file.tgid, file.operation(), file.on())).or_default();
            *sum = added(*sum, value);
        }
        for ((tgid, operation, on), [calls, time, bytes]) in sums {
            let Some(process) = keys(&self.names, tgid) else { continue };
            let bytes = (operation == "read").then_some(bytes);
            out.push(FileIoRow {
                process,
                operation: operation.into(),
                on: on.into(),
                calls: calls.into(),
                time: time.into(),
                bytes: bytes.into(),
            });
        }
    }

    fn calls(&mut self, programs: &Programs, now: u64, out: &mut Rows<'_>) {
        let mut sums: HashMap<Called, [u64; 3]> = HashMap::new();
        for (key, value) in entries(&programs.maps.calls) {
            sums.insert(Called::of(key), value);
        }
        for value in entries(&programs.maps.call_now).into_values() {
            let (called, since) = call_now(value);
            if since == 0 {
                continue;
            }
            let sum = sums.entry(called).or_default();
            *sum = added(*sum, [0, now.saturating_sub(since), 0]);
        }
        let mut counts: HashMap<(u32, Call), u64> = HashMap::new();
        for (id, sum) in sums {
            let before = self.calls.get(&id).map_or(0, |sum| sum[0]);
            let [calls, time, bytes] = rising(&mut self.calls, id, sum);
            let Some((process, call)) = keys(&self.names, id.tgid).zip(Call::of(id.call)) else { continue };
            *counts.entry((id.tgid, call)).or_default() += calls - before;
            let bytes = call.has_bytes().then_some(bytes);
            out.push(DeviceCallRow {
                process,
                thread: id.tid.to_string().into(),
                call: call.name().into(),
                calls: calls.into(),
                time: time.into(),
                bytes: bytes.into(),
            });
        }
        // A reading that is late has more calls; one that is early has a second's in less time.
        let since = self.last_read.replace(now).map_or(SECOND, |last| now.saturating_sub(last).max(SECOND));
        counts.values_mut().for_each(|calls| *calls = calls.saturating_mul(SECOND) / since);
        self.streaks.retain(|id, _| counts.get(id).is_some_and(|calls| *calls > TOO_OFTEN_STEPPED));
        for ((tgid, call), calls) in counts.into_iter().filter(|(_, calls)| *calls > TOO_OFTEN_STEPPED) {
            let (seconds, least) = self.streaks.entry((tgid, call)).or_insert((0, calls));
            (*seconds, *least) = (*seconds + 1, (*least).min(calls));
            if *seconds >= STREAK {
                self.too_often.push((tgid, call, *least));
            }
        }
    }

    /// Processes and threads that are gone have had their last rows; their places are free again.
    fn forget(&mut self, host: &Host, programs: &mut Programs, processes: &[Process]) {
        let here: HashSet<u32> = processes.iter().map(|process| process.pid).collect();
        let gone: Vec<u32> = self.names.keys().filter(|pid| !here.contains(pid)).copied().collect();
        if gone.is_empty() && !self.reading.is_multiple_of(SWEEP) {
            return;
        }
        for pid in &gone {
            // One that the programs never knew is no failure.
            let _ = programs.maps.watched.remove(pid);
            self.names.remove(pid);
        }
        let mut known = HashMap::new();
        let mut is_gone = |tgid: u32, tid: u32| {
            let look = || !host.path(format!("proc/{tgid}/task/{tid}")).exists();
            !here.contains(&tgid) || *known.entry((tgid, tid)).or_insert_with(look)
        };
        let maps = &mut programs.maps;
        remove(&mut maps.off, |key, _| is_gone(key[0], key[1]));
        remove(&mut maps.off_now, |_, value| {
            let [tgid, tid, _] = OffNow::of(*value).key;
            is_gone(tgid, tid)
        });
        remove(&mut maps.file_now, |_, value| {
            let (tgid, tid) = file_now(*value);
            is_gone(tgid, tid)
        });
        remove(&mut maps.call_now, |_, value| {
            let (called, _) = call_now(*value);
            is_gone(called.tgid, called.tid)
        });
        remove(&mut maps.calls, |key, _| is_gone(key[0], key[1]));
        remove(&mut maps.files, |key, _| !here.contains(&key[0]));
        self.off.retain(|(tgid, tid, _), _| !is_gone(*tgid, *tid));
        self.calls.retain(|called, _| !is_gone(called.tgid, called.tid));
    }
}

fn remove<K, V>(map: &mut KernelMap<MapData, K, V>, mut which: impl FnMut(&K, &V) -> bool)
where
    K: aya::Pod + Eq + Hash,
    V: aya::Pod,
{
    for (key, _) in entries(map).into_iter().filter(|(key, value)| which(key, value)) {
        // What the kernel removed meanwhile need not be removed.
        let _ = map.remove(&key);
    }
}

fn added(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// The sum of an entity, never less than it was before.
fn rising<K: Eq + Hash, const N: usize>(before: &mut HashMap<K, [u64; N]>, id: K, sum: [u64; N]) -> [u64; N] {
    let shown = before.entry(id).or_insert(sum);
    for (shown, sum) in shown.iter_mut().zip(sum) {
        *shown = (*shown).max(sum);
    }
    *shown
}

/// Threads beside the main ones whose waits ended most often since the last reading: one that
/// waited all the time did nothing that could have fed or held up a device.
fn busiest(
    now: &HashMap<(u32, u32, &'static str), Sum>,
    before: &HashMap<(u32, u32, &'static str), Sum>,
) -> HashSet<(u32, u32)> {
    let mut times: HashMap<(u32, u32), u64> = HashMap::new();
    for (id, [_, total]) in now.iter().filter(|((tgid, tid, _), _)| tgid != tid) {
        let since = total.saturating_sub(before.get(id).map_or(0, |sum| sum[1]));
        *times.entry((id.0, id.1)).or_default() += since;
    }
    let mut busy: Vec<_> = times.into_iter().filter(|(_, times)| *times > 0).collect();
    busy.sort_by_key(|((tgid, tid), times)| (*tgid, std::cmp::Reverse(*times), *tid));
    let mut kept: HashMap<u32, usize> = HashMap::new();
    busy.retain(|((tgid, _), _)| {
        let kept = kept.entry(*tgid).or_default();
        *kept += 1;
        *kept <= THREADS
    });
    busy.into_iter().map(|(id, _)| id).collect()
}

/// Names of block devices by number, from `/proc/partitions`.
fn partitions(text: &str) -> Vec<((u32, u32), Symbol)> {
    let device = |line: &str| {
        let mut words = line.split_whitespace();
        let number = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((number, words.nth(1)?.into()))
    };
    text.lines().filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_the_kernel_names_them() {
        let text = "major minor  #blocks  name\n\n 254        0  268435456 vda\n 259  1 7 nvme0n1\n";
        assert_eq!(partitions(text), [((254, 0), "vda".into()), ((259, 1), "nvme0n1".into())]);
        assert_eq!(partitions("a b c d\n1 2\n"), []);
    }

    #[test]
    fn a_sum_that_is_read_while_it_changes_never_falls() {
        let mut before = HashMap::new();
        assert_eq!(rising(&mut before, 7, [10, 2]), [10, 2]);
        assert_eq!(rising(&mut before, 7, [8, 3]), [10, 3]);
        assert_eq!(rising(&mut before, 7, [12, 3]), [12, 3]);
    }

    #[test]
    fn of_many_threads_the_busiest_get_rows_and_those_that_only_waited_get_none() {
        let tids = 101..200_u32;
        let mut now: HashMap<_, _> =
            tids.clone().map(|tid| ((100, tid, "futex"), [5, 1000 + u64::from(tid)])).collect();
        let before = tids.map(|tid| ((100, tid, "futex"), [5, 1000])).collect();
        now.insert((100, 300, "futex"), [5, 0]);
        let busy = busiest(&now, &before);
        assert_eq!(busy.len(), THREADS);
        assert!(busy.contains(&(100, 199)) && !busy.contains(&(100, 101)) && !busy.contains(&(100, 300)));
    }
}
