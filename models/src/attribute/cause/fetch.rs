//! Where fetched bytes come from: a device, memory, or a network.

use super::super::flow::Flow;
use super::super::kind::{Kind, On, State};
use super::super::site::Task;
use super::names::Cause;

/// Where bytes come from on this machine, as far as the job's mounts tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Origin {
    /// Mounts over a network or FUSE that serve the job's files, as `/data (fuse.sshfs)`.
    pub(crate) remote: Vec<String>,
    /// Part of the looked-at files that the page cache holds.
    pub(crate) resident: Option<f64>,
}

/// What blocks threads that cannot be seen, when they read and do not queue for a core: a device
/// if bytes come from one; else something far away, as reading from memory blocks nobody.
pub(super) fn blocks_in(flow: &Flow) -> Cause {
    match (flow.uses_device(), flow.reads()) {
        (true, _) => Cause::FetchStorage,
        (false, true) => Cause::FetchNetwork,
        (false, false) => Cause::Unknown,
    }
}

/// What fetching means for one crew: its bytes and its blocked calls.
pub(super) struct Fetch<'a> {
    flow: Flow,
    origin: &'a Origin,
    /// Of its running time in a fetch, the part that the kernel works on the read.
    copying: f64,
    /// Of its blocked time in a fetch, the part on a network.
    remote: f64,
}

impl<'a> Fetch<'a> {
    /// `running`: share of time on a CPU in a fetch; `blocked`: calls and shares blocked in one.
    pub(super) fn new(flow: Flow, origin: &'a Origin, running: f64, blocked: &[(Kind, f64)]) -> Self {
        let all: f64 = blocked.iter().map(|x| x.1).sum();
        let far = blocked.iter().filter(|(kind, _)| matches!(kind.1, On::Remote | On::Socket)).map(|x| x.1);
        let remote = if all > 0.0 { far.sum::<f64>() / all } else { 0.0 };
        Self { flow, origin, copying: flow.copied(running), remote }
    }

    /// What a kind of state at a task stands for, in parts that add up to one. Neither waiting in a
    /// queue nor handing over is asked for here.
    pub(super) fn causes(&self, kind: Kind, task: Task) -> Vec<(Cause, f64)> {
        match (kind.0, task) {
            (State::Running, Task::Decode | Task::Collate) => vec![(Cause::Decode, 1.0)],
            (State::Running, _) => self.running(),
            // Reading is often lazy: an image is read while it is decoded.
            (State::Disk | State::Read | State::Poll, _) => vec![(self.blocked(kind), 1.0)],
            (_, Task::Decode | Task::Collate) if !matches!(kind.1, On::Remote | On::Socket) => {
                vec![(Cause::Decode, 1.0)]
            }
            _ => vec![(self.blocked(kind), 1.0)],
        }
    }

    /// A fetch on a CPU: the kernel copies what was read, the rest makes the sample.
    fn running(&self) -> Vec<(Cause, f64)> {
        let device = if self.flow.uses_device() { self.flow.device_part().unwrap_or(0.0) } else { 0.0 };
        let network = if self.flow.uses_network() { 1.0 } else { self.remote };
        let copying = self.copying;
        vec![
            (Cause::FetchStorage, copying * device),
            (Cause::FetchNetwork, copying * (1.0 - device) * network),
            (Cause::FetchCache, copying * (1.0 - device) * (1.0 - network)),
            (Cause::Decode, 1.0 - copying),
        ]
    }

    fn blocked(&self, (state, on): Kind) -> Cause {
        let far = !self.origin.remote.is_empty();
        match (state, on) {
            (State::Futex | State::Wait | State::Stopped | State::Unreadable, _) => Cause::Unknown,
            (_, On::Remote | On::Socket) => Cause::FetchNetwork,
            (_, On::Memory) => Cause::FetchCache,
            (State::Disk, On::File) => Cause::FetchStorage,
            (State::Disk, _) if self.flow.uses_device() => Cause::FetchStorage,
            (State::Disk, _) if far && self.remote > 0.0 => Cause::FetchNetwork,
            (State::Disk, On::Unknown | On::Other) if far => Cause::FetchNetwork,
            (State::Disk, _) => Cause::FetchStorage,
            (State::Sleep, _) if self.flow.uses_network() => Cause::FetchNetwork,
            (State::Sleep, _) | (_, On::Pipe) => Cause::Unknown,
            (_, On::File) if self.flow.uses_device() => Cause::FetchStorage,
            (_, On::File) => Cause::FetchCache,
            (State::Poll, _) => Cause::FetchNetwork,
            _ if self.flow.uses_device() => Cause::FetchStorage,
            _ if far || self.flow.uses_network() => Cause::FetchNetwork,
            _ => Cause::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: f64 = 1e6;

    fn causes(flow: Flow, far: bool, running: f64, blocked: &[(Kind, f64)], kind: Kind, task: Task) -> (Cause, f64) {
        let origin = Origin { remote: far.then(|| "/data (fuse.x)".to_owned()).into_iter().collect(), resident: None };
        let all = Fetch::new(flow, &origin, running, blocked).causes(kind, task);
        assert!((all.iter().map(|x| x.1).sum::<f64>() - 1.0).abs() < 1e-9, "{all:?}");
        all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
    }

    #[test]
    fn bytes_and_calls_tell_where_a_fetch_waits() {
        let flow = |read: f64, storage: f64, system: f64| Flow {
            seconds: 10.0,
            read: read * MB,
            storage: storage * MB,
            calls: read,
            user: 1.0,
            system,
            ..Flow::default()
        };
        let disk = (State::Disk, On::Unknown);
        let read = |on| (State::Read, on);
        let run = (State::Running, On::Unknown);
        let cases = [
            ("disk state, bytes from a device", flow(900.0, 880.0, 1.0), false, disk, Cause::FetchStorage),
            ("disk state on FUSE", flow(900.0, 0.0, 1.0), true, disk, Cause::FetchNetwork),
            ("disk state, no bytes, no remote mount", flow(1.0, 0.0, 0.1), false, disk, Cause::FetchStorage),
            ("read on FUSE", flow(900.0, 0.0, 1.0), true, read(On::Remote), Cause::FetchNetwork),
            ("read on a socket", flow(900.0, 0.0, 1.0), false, read(On::Socket), Cause::FetchNetwork),
            ("read in memory", flow(900.0, 0.0, 1.0), false, read(On::Memory), Cause::FetchCache),
            ("read of nobody knows what", flow(900.0, 0.0, 1.0), false, read(On::Unknown), Cause::Unknown),
            ("a lock in a fetch", flow(900.0, 0.0, 1.0), false, (State::Futex, On::Unknown), Cause::Unknown),
            ("copies from the page cache", flow(20_000.0, 0.0, 9.0), false, run, Cause::FetchCache),
            ("copies from a device", flow(20_000.0, 19_000.0, 9.0), false, run, Cause::FetchStorage),
            ("few bytes, much CPU", flow(50.0, 0.0, 2.0), false, run, Cause::Decode),
        ];
        for (name, flow, far, kind, expected) in cases {
            let (cause, part) = causes(flow, far, 0.95, &[], kind, Task::Fetch);
            assert_eq!(cause, expected, "{name}");
            assert!(part > 0.8, "{name}: {part}");
        }
    }

    #[test]
    fn faults_on_a_mapped_file_are_reading_it() {
        // Two workers on an NVMe disk: 44 MB/s, a page at a time.
        let mapped = Flow { seconds: 20.0, storage: 440.0 * MB, faults: 113_000.0, system: 6.0, ..Flow::default() };
        let running = (State::Running, On::Unknown);
        let (cause, part) = causes(mapped, false, 0.34, &[], running, Task::Fetch);
        assert!(cause == Cause::FetchStorage && part > 0.8, "{cause:?} {part}");
        let few = Flow { faults: 50.0, storage: 1.0 * MB, ..mapped };
        assert_eq!(causes(few, false, 0.34, &[], running, Task::Fetch).0, Cause::Decode);
    }

    #[test]
    fn decoding_is_decoding_however_many_bytes_are_read() {
        let flow = Flow { seconds: 10.0, read: 9e9, system: 5.0, ..Flow::default() };
        let running = (State::Running, On::Unknown);
        assert_eq!(causes(flow, false, 0.5, &[], running, Task::Decode), (Cause::Decode, 1.0));
        assert_eq!(causes(flow, false, 0.5, &[], (State::Futex, On::Unknown), Task::Decode).0, Cause::Decode);
        // A lazy read within a decode is a read.
        assert_eq!(causes(flow, false, 0.5, &[], (State::Read, On::Socket), Task::Decode).0, Cause::FetchNetwork);
    }
}
