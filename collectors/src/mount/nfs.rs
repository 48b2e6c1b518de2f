//! `/proc/PID/mountstats`: what the NFS client counts for each mount.

/// The counters of one NFS mount since it was mounted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Server and exported path.
    pub source: String,
    /// Where it is mounted.
    pub point: String,
    /// `nfs` or `nfs4`.
    pub kind: String,
    /// Bytes, where the kernel counts them.
    pub bytes: Option<Bytes>,
    /// Per remote call.
    pub operations: Vec<Operation>,
}

/// Bytes of one mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes {
    /// Asked for by programs, cached or not.
    pub requested: u64,
    /// Read from the server.
    pub read: u64,
    /// Written to the server.
    pub written: u64,
}

/// Counters of one kind of remote call. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operation {
    /// Name, such as `READ`.
    pub name: String,
    /// Calls made.
    pub operations: u64,
    /// Transmissions, repeated ones included.
    pub transmissions: u64,
    /// Times that all repetitions timed out.
    pub timeouts: u64,
    /// Bytes sent, headers included.
    pub sent: u64,
    /// Bytes received, headers included.
    pub received: u64,
    /// Waiting to be sent.
    pub queue_ms: u64,
    /// From sent to answered: the round trip.
    pub response_ms: u64,
    /// From asked to done.
    pub execute_ms: u64,
    /// Calls that the server refused, from Linux 5.3 on.
    pub errors: Option<u64>,
}

/// The NFS mounts of a file; other mounts and lines that make no sense are passed over.
#[must_use]
pub fn mountstats(text: &str) -> Vec<Statistics> {
    let mut all: Vec<Statistics> = Vec::new();
    // Lines belong to the device above them; those of other file systems to nobody.
    let mut current: Option<Statistics> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("device ") {
            all.extend(current.take());
            current = device(rest);
        } else if let Some(statistics) = &mut current {
            if let Some(rest) = line.strip_prefix("bytes:") {
                statistics.bytes = bytes(rest);
            } else if let Some((name, rest)) = line.split_once(':') {
                statistics.operations.extend(operation(name, rest));
            }
        }
    }
    all.extend(current);
    all
}

fn device(rest: &str) -> Option<Statistics> {
    let (source, rest) = rest.split_once(" mounted on ")?;
    let (point, rest) = rest.split_once(" with fstype ")?;
    let kind = rest.split_ascii_whitespace().next()?;
    // `nfsd` and others have no counters.
    if !matches!(kind, "nfs" | "nfs4") {
        return None;
    }
    let owned = str::to_owned;
    Some(Statistics { source: owned(source), point: owned(point), kind: owned(kind), ..Statistics::default() })
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
}

fn bytes(text: &str) -> Option<Bytes> {
    let n = numbers(text)?;
    // Read, written; the same two past the cache; then read from and written to the server.
    let [read, _, direct, _, from_server, to_server] = *n.get(..6)? else { return None };
    Some(Bytes { requested: read.checked_add(direct)?, read: from_server, written: to_server })
}

fn operation(name: &str, text: &str) -> Option<Operation> {
    let n = numbers(text).filter(|_| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))?;
    let &[operations, transmissions, timeouts, sent, received, queue_ms, response_ms, execute_ms] = n.get(..8)? else {
        return None;
    };
    let name = name.to_owned();
    let errors = n.get(8).copied();
    Some(Operation {
        name,
        operations,
        transmissions,
        timeouts,
        sent,
        received,
        queue_ms,
        response_ms,
        execute_ms,
        errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_captured_file_reads_as_node_exporter_reads_it() {
        let mounts = mountstats(include_str!("testdata/mountstats"));
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].point, "/mnt/nfs/test");
        let bytes = Bytes { requested: 1_207_640_230, read: 1_210_214_218, written: 0 };
        assert_eq!(mounts[0].bytes, Some(bytes));
        let read = mounts[0].operations.iter().find(|o| o.name == "READ").unwrap();
        assert_eq!((read.operations, read.transmissions, read.timeouts), (1_298, 1_298, 0));
        assert_eq!((read.sent, read.received), (207_680, 1_210_292_152));
        assert_eq!((read.queue_ms, read.response_ms, read.execute_ms), (6, 79_386, 79_407));
    }

    #[test]
    fn version_three_and_four_and_mounts_of_other_kinds_are_told_apart() {
        let mounts = mountstats(include_str!("testdata/mountstats-long"));
        let kinds: Vec<_> = mounts.iter().map(|m| (m.kind.as_str(), m.point.as_str())).collect();
        assert_eq!(kinds[..2], [("nfs", "/A"), ("nfs4", "/B")]);
        let open = mounts[1].operations.iter().find(|o| o.name == "OPEN").unwrap();
        assert_eq!((open.operations, open.response_ms, open.execute_ms), (19_740, 3_449, 4_172));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,200}|((device a mounted on /b with fstype nfs|bytes:|READ:)[ 0-9x]{0,40}\n){0,9}") {
            let _ = mountstats(&text);
        }
    }
}
