//! The texts of `/proc/PID/task/TID`: text in, values out.

use feedline_traces::{Error, Result};

/// What `syscall` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Syscall {
    /// On a CPU or ready to be.
    Running,
    /// Blocked in a call.
    Call {
        /// Number of the call, in the architecture's table.
        number: i64,
        /// Its six arguments.
        arguments: [u64; 6],
    },
    /// Blocked outside any call, as in a page fault.
    Outside,
    /// It cannot be read, or shows something else.
    Unreadable,
}

/// Reads the line of `syscall`: `running`, `NUMBER ARG…×6 SP PC`, or `-1 SP PC`.
pub(crate) fn syscall(text: &str) -> Syscall {
    let text = text.trim();
    if text == "running" {
        return Syscall::Running;
    }
    let mut fields = text.split_ascii_whitespace();
    match fields.next().and_then(|n| n.parse::<i64>().ok()) {
        None => Syscall::Unreadable,
        Some(-1) => Syscall::Outside,
        Some(number) => {
            let mut arguments = [u64::MAX; 6];
            for (slot, field) in arguments.iter_mut().zip(fields) {
                let digits = field.strip_prefix("0x").unwrap_or(field);
                *slot = u64::from_str_radix(digits, 16).unwrap_or(u64::MAX);
            }
            Syscall::Call { number, arguments }
        }
    }
}

/// The state letter and the start time (in clock ticks since boot) of a `stat` line. The name, in
/// parentheses, may hold anything, so fields are counted from the last `)`.
///
/// # Errors
/// When the line is not one of `stat`.
pub(crate) fn stat(text: &str) -> Result<(char, u64)> {
    let fail = |what: &str, found: &str| Error::new(format!("stat: expected {what}, found `{found}`"));
    let (_, rest) = text.rsplit_once(')').ok_or_else(|| fail("a name in parentheses", text.trim()))?;
    let mut fields = rest.split_ascii_whitespace();
    let code = fields.next().and_then(|f| f.chars().next()).ok_or_else(|| fail("a state letter", rest.trim()))?;
    let start = fields.nth(18).unwrap_or("nothing");
    Ok((code, start.parse().map_err(|_| fail("a start time in field 22", start))?))
}

/// The state letter of a `stat` line that may be cut after it.
pub(crate) fn code(text: &str) -> Option<char> {
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Nanoseconds on a CPU and nanoseconds ready but waiting for one, from `schedstat`.
///
/// # Errors
/// When the line does not hold two numbers.
pub(crate) fn schedstat(text: &str) -> Result<(u64, u64)> {
    let fail = |what: &str| Error::new(format!("schedstat: expected {what}, found `{}`", text.trim()));
    let mut fields = text.split_ascii_whitespace().map(|f| f.parse::<u64>().ok());
    let on_cpu = fields.next().flatten().ok_or_else(|| fail("nanoseconds on a CPU"))?;
    let run_queue = fields.next().flatten().ok_or_else(|| fail("nanoseconds on the run queue"))?;
    Ok((on_cpu, run_queue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_syscall_line_gives_number_and_arguments() {
        let line = "0 0x3 0x7fe34307d000 0x20000 0x7fe34310cb60 0xffffffff 0x0 0x7ffdd4cc37a8 0x7fe3431f52ad\n";
        let arguments = [3, 0x7fe3_4307_d000, 0x20000, 0x7fe3_4310_cb60, 0xffff_ffff, 0];
        assert_eq!(syscall(line), Syscall::Call { number: 0, arguments });
        assert_eq!(syscall("running\n"), Syscall::Running);
        assert_eq!(syscall("-1 0x7ffd 0x7fe3\n"), Syscall::Outside);
        assert_eq!(syscall(""), Syscall::Unreadable);
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = "42 (a) S (b) S 1 42 42 0 -1 4194304 1 0 0 0 7 3 0 0 20 0 1 0 98765 1 1 18446744073709551615 1\n";
        assert_eq!(stat(line).unwrap(), ('S', 98765));
        assert_eq!(code(line), Some('S'));
    }

    #[test]
    fn a_torn_line_says_what_was_expected() {
        assert_eq!(stat("42 (x) S 1").unwrap_err().message, "stat: expected a start time in field 22, found `nothing`");
        assert_eq!(
            schedstat("12 x 3").unwrap_err().message,
            "schedstat: expected nanoseconds on the run queue, found `12 x 3`"
        );
    }

    #[test]
    fn schedstat_gives_two_times() {
        assert_eq!(schedstat("1234567 89 12\n").unwrap(), (1_234_567, 89));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = (syscall(&text), stat(&text), code(&text), schedstat(&text));
        }
    }
}
