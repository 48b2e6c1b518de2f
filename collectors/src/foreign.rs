//! Every parser of bytes that Feedline did not write, as one list: what `fuzz/` feeds, and what an
//! ordinary test feeds too.

use crate::{
    cgroup, disk, inprocess, job, kineto, memory, mount, network, page_cache, perf, pressure, process, rights, thread,
};

/// A parser, by the file it reads.
pub struct Parser {
    /// The file, or the call.
    pub reads: &'static str,
    /// Parses, and forgets the outcome: all that matters is that it returns.
    pub parse: fn(&[u8], &str),
}

/// Its outcome is of no interest, only that it came.
fn returned<T>(_: T) {}

/// The list. Each takes the bytes, or the same bytes as text.
pub const PARSERS: &[Parser] = &[
    Parser { reads: "stat", parse: |_, text| returned((process::parse::stat(text), thread::parse_all(text))) },
    Parser { reads: "status", parse: |_, text| returned((process::parse::status(text), rights::parse::user(text))) },
    Parser { reads: "io", parse: |_, text| returned((process::parse::io(text), process::parse::pss(text))) },
    Parser {
        reads: "cpu list",
        parse: |_, text| returned((process::parse::cores(text), process::parse::uptime(text))),
    },
    Parser { reads: "cmdline", parse: |bytes, _| returned(job::parse::command(bytes)) },
    Parser { reads: "environ", parse: |bytes, _| returned(job::parse::ranks(bytes)) },
    Parser { reads: "maps", parse: |_, text| returned(job::parse::maps(text)) },
    Parser { reads: "comm", parse: |_, text| returned(job::parse::threads(text.lines())) },
    Parser {
        reads: "cgroup",
        parse: |_, text| returned((cgroup::parse::membership(text), cgroup::parse::mounts(text))),
    },
    Parser {
        reads: "cpu.max",
        parse: |_, text| returned((cgroup::parse::cpu_max(text), cgroup::parse::cfs_quota(text, text))),
    },
    Parser { reads: "memory.max", parse: |_, text| returned(cgroup::parse::memory_limit(text)) },
    Parser { reads: "io.stat", parse: |_, text| returned((cgroup::parse::io_stat(text), cgroup::parse::blkio(text))) },
    Parser { reads: "diskstats", parse: |_, text| returned(disk::parse::diskstats(text)) },
    Parser {
        reads: "mountinfo",
        parse: |_, text| returned((mount::parse::mountinfo(text), rights::parse::hidepid(text))),
    },
    Parser { reads: "mountstats", parse: |_, text| returned(mount::nfs::mountstats(text)) },
    Parser { reads: "fdinfo", parse: |_, text| returned((mount::parse::fdinfo(text), mount::parse::lustre(text))) },
    Parser { reads: "vmstat", parse: |_, text| returned(page_cache::parse::Vmstat::of(text).get(&["pgmajfault"])) },
    Parser {
        reads: "pressure",
        parse: |_, text| returned((pressure::parse::pressure(text), pressure::parse::unified(text).map(str::len))),
    },
    Parser { reads: "meminfo", parse: |_, text| returned(memory::parse::bytes(text, "MemTotal")) },
    Parser { reads: "net/dev", parse: |_, text| returned((network::parse::dev(text), network::parse::rate(text))) },
    Parser { reads: "net/snmp", parse: |_, text| returned(network::parse::protocols(text)) },
    Parser { reads: "sock_diag", parse: |bytes, _| returned(network::diag::answer(bytes, 1)) },
    Parser { reads: "channel", parse: |bytes, _| returned(inprocess::parse::channel(bytes)) },
    Parser { reads: "kineto message", parse: |bytes, _| returned(kineto::parse::message(bytes)) },
    Parser { reads: "perf_event_paranoid", parse: |_, text| returned(perf::parse::paranoid(text)) },
];

/// Feeds the bytes to every parser.
pub fn feed(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for parser in PARSERS {
        (parser.parse)(bytes, &text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Words of kernel files, so that random text gets past the first check.
    fn kernel_like() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            Just("8 0 sda".to_owned()),
            Just("some avg10=0.12 avg60=0.00 avg300=0.00 total=9".to_owned()),
            Just("1 (a) b) S 1 1".to_owned()),
            Just("eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16".to_owned()),
            Just("0::/a/b".to_owned()),
            Just("36 35 98:0 /mnt1 /mnt2 rw - ext4 /dev/root rw".to_owned()),
            Just("device a mounted on /b with fstype nfs4 statvers=1.1".to_owned()),
            Just("18446744073709551615".to_owned()),
            Just("max 100000".to_owned()),
            "[ -~\\t\\n]{0,20}",
        ];
        prop::collection::vec(word, 0..12).prop_map(|words| words.join("\n"))
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            super::feed(&bytes);
        }

        #[test]
        fn no_text_like_the_kernels_makes_a_parser_panic(text in kernel_like()) {
            super::feed(text.as_bytes());
        }
    }
}
