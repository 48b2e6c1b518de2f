//! `/proc/PID` files as values. Pure: text in, values out.

use feedline_traces::{Error, Result};

/// What `/proc/PID/stat` says. Times are in clock ticks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stat {
    /// The kernel's name of the main thread; it may hold spaces and parentheses.
    pub comm: String,
    /// One letter: `R`, `S`, `D`, `T`, `Z`…
    pub state: char,
    /// Parent's pid.
    pub parent: u32,
    /// Page faults that needed no reading.
    pub minor_faults: u64,
    /// Page faults that needed reading.
    pub major_faults: u64,
    /// CPU time in user space, in clock ticks.
    pub user: u64,
    /// CPU time in the kernel, in clock ticks.
    pub system: u64,
    /// Number of threads.
    pub threads: u64,
    /// Start time, in clock ticks since boot.
    pub start: u64,
}

impl Stat {
    /// Whether the process has exited, though its parent has not yet taken note.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Reads `/proc/PID/stat`.
///
/// # Errors
/// When a field is missing or no number.
pub fn stat(text: &str) -> Result<Stat> {
    let odd = |what: &str| Error::new(format!("expected {what}, found `{}`", clip(text)));
    let (_, rest) = text.split_once('(').ok_or_else(|| odd("a name in parentheses"))?;
    // The name may hold anything, also `)`: it ends at the last one.
    let (comm, rest) = rest.rsplit_once(')').ok_or_else(|| odd("a name in parentheses"))?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next().and_then(|f| f.chars().next()).ok_or_else(|| odd("a state letter"))?;
    let fields: Vec<&str> = fields.collect();
    // Position 0 here is field 4 of proc(5).
    let field = |n: usize, what: &str| match fields.get(n - 4).map(|f| f.parse::<u64>()) {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(Error::new(format!("expected {what} in field {n}, found `{}`", clip(fields[n - 4])))),
        None => Err(Error::new(format!("expected {what} in field {n}, found the end"))),
    };
    Ok(Stat {
        comm: comm.to_owned(),
        state,
        parent: u32::try_from(field(4, "parent pid")?).map_err(|_| odd("a parent pid"))?,
        minor_faults: field(10, "minor faults")?,
        major_faults: field(12, "major faults")?,
        user: field(14, "user time")?,
        system: field(15, "system time")?,
        threads: field(20, "number of threads")?,
        start: field(22, "start time")?,
    })
}

/// What `/proc/PID/status` says; what a kernel leaves out is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Real user id.
    pub user: Option<u32>,
    /// The pid in each pid namespace, from Feedline's own to the innermost.
    pub namespaces: Vec<u32>,
    /// Resident memory in bytes.
    pub rss: Option<u64>,
    /// CPU cores it may run on.
    pub cores_allowed: Option<u64>,
    /// Which those are, as the kernel lists them: `0-3,8`.
    pub allowed: Option<String>,
    /// Context switches it asked for by waiting.
    pub switches_voluntary: Option<u64>,
    /// Context switches forced on it.
    pub switches_involuntary: Option<u64>,
}

impl Status {
    /// The pid inside its own pid namespace, where that is another than Feedline's.
    #[must_use]
    pub fn inner(&self) -> Option<u32> {
        if self.namespaces.len() > 1 { self.namespaces.last().copied() } else { None }
    }
}

/// Reads `/proc/PID/status`. Lines it does not know are passed over, since kernels differ.
#[must_use]
pub fn status(text: &str) -> Status {
    let mut out = Status::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let mut words = value.split_ascii_whitespace();
        let mut number = || words.next().and_then(|w| w.parse::<u64>().ok());
        match name {
            "Uid" => out.user = number().and_then(|id| u32::try_from(id).ok()),
            "NSpid" => out.namespaces = value.split_ascii_whitespace().filter_map(|w| w.parse().ok()).collect(),
            "VmRSS" => out.rss = number().and_then(|kib| kib.checked_mul(1024)),
            "Cpus_allowed_list" => {
                out.cores_allowed = cores(value);
                out.allowed = out.cores_allowed.map(|_| value.trim().to_owned());
            }
            "voluntary_ctxt_switches" => out.switches_voluntary = number(),
            "nonvoluntary_ctxt_switches" => out.switches_involuntary = number(),
            _ => {}
        }
    }
    out
}

/// How many cores a list such as `0-3,8,10-11` names; `None` when it is no such list.
#[must_use]
pub fn cores(list: &str) -> Option<u64> {
    let mut total: u64 = 0;
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        total = total.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    (total > 0).then_some(total)
}

/// What `/proc/PID/io` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Io {
    /// Bytes given to read calls, from cache, storage, pipes and sockets alike.
    pub read: Option<u64>,
    /// Bytes given to write calls.
    pub written: Option<u64>,
    /// Number of read calls.
    pub read_calls: Option<u64>,
    /// Bytes that had to come from storage.
    pub storage_read: Option<u64>,
    /// Bytes that will go to storage.
    pub storage_written: Option<u64>,
}

/// Reads `/proc/PID/io`.
#[must_use]
pub fn io(text: &str) -> Io {
    let mut out = Io::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim().parse().ok();
        match name {
            "rchar" => out.read = value,
            "wchar" => out.written = value,
            "syscr" => out.read_calls = value,
            "read_bytes" => out.storage_read = value,
            "write_bytes" => out.storage_written = value,
            _ => {}
        }
    }
    out
}

/// Proportional set size in bytes, from `/proc/PID/smaps_rollup`.
#[must_use]
pub fn pss(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The start of a text that is too long or too odd to print whole.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// `/proc/uptime`: seconds since the machine was booted, with two decimals; in nanoseconds.
#[must_use]
pub fn uptime(text: &str) -> Option<u64> {
    let (seconds, parts) = text.split_ascii_whitespace().next()?.split_once('.')?;
    let hundredths: u64 = parts.get(..2)?.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(hundredths * 10_000_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "15570 (bash) S 15567 15570 15570 0 -1 4194560 2120 28380 3 4 11 12 24 7 20 0 5 0 91931 5124096 959 \
        18446744073709551615 93841767780352 93841768569757 140731613829856 0 0 0 65536 4 1132560123 1 0 0 17 1 0 0 0 0 0 \
        93841768803056 93841768851300 93842295914496 140731613838205 140731613838220 140731613838220 140731613839338 0";

    #[test]
    fn the_time_since_the_machine_was_booted_is_in_nanoseconds() {
        assert_eq!(uptime("100000.25 190000.00\n"), Some(100_000_250_000_000));
        assert_eq!(["", "12", "12.", "x.10", "1.x0", "99999999999999.00"].map(uptime), [None; 6]);
    }

    #[test]
    fn a_stat_line_is_read_by_position() {
        let stat = stat(STAT).unwrap();
        assert_eq!((stat.comm.as_str(), stat.state, stat.parent), ("bash", 'S', 15567));
        assert_eq!((stat.minor_faults, stat.major_faults, stat.user, stat.system), (2120, 3, 11, 12));
        assert_eq!((stat.threads, stat.start), (5, 91931));
        assert!(!stat.is_dead());
    }

    #[test]
    fn a_name_with_spaces_parentheses_and_newlines_does_not_shift_the_fields() {
        for name in ["a) R 1 (b", "tmux: server", ":-) (-:", "two\nlines", ""] {
            let found = stat(&STAT.replace("bash", name)).unwrap();
            assert_eq!((found.comm.as_str(), found.start), (name, 91931));
        }
    }

    #[test]
    fn a_broken_stat_line_says_which_field() {
        assert_eq!(stat("").unwrap_err().message, "expected a name in parentheses, found ``");
        assert_eq!(stat("1 (x) S").unwrap_err().message, "expected parent pid in field 4, found the end");
        let odd = STAT.replace(" 2120 ", " x ");
        assert_eq!(stat(&odd).unwrap_err().message, "expected minor faults in field 10, found `x`");
    }

    #[test]
    fn status_gives_owner_namespaces_memory_and_switches() {
        let text = "Name:\tpython3\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t4242\t17\nVmRSS:\t    1696 kB\nThreads:\t9\n\
            Cpus_allowed_list:\t0-3,8\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t2\n";
        let found = status(text);
        assert_eq!((found.user, found.inner(), found.rss), (Some(1000), Some(17), Some(1696 * 1024)));
        assert_eq!(
            (found.cores_allowed, found.switches_voluntary, found.switches_involuntary),
            (Some(5), Some(7), Some(2))
        );
        assert_eq!((found.allowed.as_deref(), status("Cpus_allowed_list:\tx\n").allowed), (Some("0-3,8"), None));
        assert_eq!(status("NSpid:\t4242\n").inner(), None);
        assert_eq!(status("").rss, None);
    }

    #[test]
    fn core_lists_are_counted() {
        assert_eq!(cores("0-1"), Some(2));
        assert_eq!(cores(" 0,2,4-7\n"), Some(6));
        for odd in ["", "x", "3-1", "0-", "0-18446744073709551615"] {
            assert_eq!(cores(odd), None, "{odd}");
        }
    }

    #[test]
    fn io_tells_read_from_storage_read() {
        let text = "rchar: 1448397\nwchar: 325070\nsyscr: 10508\nsyscw: 367\nread_bytes: 548864\nwrite_bytes: 462848\n\
            cancelled_write_bytes: 204800\n";
        let found = io(text);
        assert_eq!((found.read, found.read_calls, found.storage_read), (Some(1_448_397), Some(10508), Some(548_864)));
        assert_eq!((found.written, found.storage_written), (Some(325_070), Some(462_848)));
    }

    #[test]
    fn pss_comes_from_its_own_line() {
        let text = "55593d38e000-7ffea1da0000 ---p 00000000 00:00 0  [rollup]\nRss:   4084 kB\nPss:    867 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(pss(text), Some(867 * 1024));
        assert_eq!(pss("Pss_Dirty: 1 kB\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in any::<String>(), shaped in "[0-9]{1,3} \\(.{0,9}\\) [RSDZ]( -?[0-9a-z]{1,21}){0,30}") {
            for text in [&text, &shaped] {
                let _ = (stat(text), status(text), io(text), pss(text), cores(text));
            }
        }
    }
}
