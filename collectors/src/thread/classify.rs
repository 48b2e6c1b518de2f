//! What a thread is doing, from what the kernel shows of it: one pure routine.

use super::parse::Syscall;
use super::state::State;
use super::syscalls::{Arch, state_of, state_of_wchan};

/// Decides the state from the parts that were read; each may be missing. `code` is the state
/// letter of `stat`, read after `syscall`: where the two disagree the thread moved in between,
/// and the call, read first, wins over "running".
pub(crate) fn classify(arch: Arch, code: Option<char>, syscall: &Syscall, wchan: Option<&str>) -> State {
    match code {
        Some('T' | 't') => return State::Stopped,
        Some('D') => return State::Disk,
        _ => {}
    }
    let by_wchan = || wchan.and_then(state_of_wchan);
    match syscall {
        Syscall::Running => State::Running,
        Syscall::Call { number, arguments } => {
            state_of(arch, *number, arguments).or_else(by_wchan).unwrap_or(State::Other)
        }
        Syscall::Outside if code == Some('R') => State::Running,
        Syscall::Outside => by_wchan().unwrap_or(State::Other),
        Syscall::Unreadable if code == Some('R') => State::Running,
        Syscall::Unreadable => by_wchan().unwrap_or(State::Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::syscall;
    use super::*;
    use proptest::prelude::*;

    /// Lines captured from a training job on Linux 6.18, x86-64, but for the comments.
    #[test]
    fn captured_lines_say_what_the_thread_does() {
        let cases = [
            ("running", Some('R'), None, State::Running),
            ("running", None, None, State::Running),
            ("202 0x7f1 0x189 0x0 0x7ffd 0x0 0xffffffff 0x7ffdd4cc37a8 0x7fe3431f52ad", Some('S'), None, State::Futex),
            ("7 0x7ffd 0x1 0x1388 0x0 0x0 0x0 0x7ffd 0x7fe3", Some('S'), None, State::Poll),
            // Python before 3.11 sleeps in `select` without descriptors.
            ("23 0x0 0x0 0x0 0x0 0x7ffd 0x0 0x7ffd 0x7fe3", Some('S'), None, State::Sleep),
            ("23 0x4 0x7ffd 0x0 0x0 0x7ffd 0x0 0x7ffd 0x7fe3", Some('S'), None, State::Poll),
            ("230 0x1 0x1 0x7ffd 0x0 0x0 0x0 0x7ffd 0x7fe3", Some('S'), None, State::Sleep),
            ("0 0x3 0x7fe3 0x20000 0x7fe3 0xffffffff 0x0 0x7ffd 0x7fe3", Some('S'), None, State::Read),
            ("0 0x3 0x7fe3 0x20000 0x7fe3 0xffffffff 0x0 0x7ffd 0x7fe3", Some('D'), None, State::Disk),
            // Woken between the two reads: it was blocked when it was looked at.
            ("0 0x3 0x7fe3 0x20000 0x7fe3 0xffffffff 0x0 0x7ffd 0x7fe3", Some('R'), None, State::Read),
            ("61 0xffffffff 0x7ffd 0x0 0x0 0x0 0x0 0x7ffd 0x7fe3", Some('S'), None, State::Wait),
            ("16 0x5 0xc0 0x7ffd 0x0 0x0 0x0 0x7ffd 0x7fe3", Some('S'), None, State::Other),
            // A call that was restarted after a stop keeps no number of its own.
            ("219 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7fe3", Some('S'), Some("poll_schedule_timeout"), State::Poll),
            // A page fault.
            ("-1 0x7ffd5 0x7fe3", Some('D'), None, State::Disk),
            ("-1 0x7ffd5 0x7fe3", Some('S'), Some("folio_wait_bit_common"), State::Disk),
            ("202 0x7f1 0x189 0x0 0x0 0x0 0x0 0x7ffd 0x7fe3", Some('T'), None, State::Stopped),
        ];
        for (line, code, wchan, expected) in cases {
            assert_eq!(classify(Arch::X86_64, code, &syscall(line), wchan), expected, "{line} {code:?}");
        }
    }

    #[test]
    fn arm_numbers_its_calls_differently() {
        let cases = [("98 0x1 0x0", State::Futex), ("73 0x1 0x1", State::Poll), ("73 0x1 0x0", State::Sleep)];
        for (line, expected) in cases {
            assert_eq!(classify(Arch::Generic, Some('S'), &syscall(line), None), expected, "{line}");
        }
        assert_eq!(classify(Arch::Generic, Some('S'), &syscall("115 0x1 0x0"), None), State::Sleep);
        assert_eq!(classify(Arch::Generic, Some('S'), &syscall("63 0x1 0x0"), None), State::Read);
    }

    #[test]
    fn without_the_right_only_running_disk_and_stopped_are_known() {
        let cases = [
            (Some('R'), State::Running),
            (Some('D'), State::Disk),
            (Some('T'), State::Stopped),
            (Some('S'), State::Unreadable),
            (None, State::Unreadable),
        ];
        for (code, expected) in cases {
            assert_eq!(classify(Arch::X86_64, code, &Syscall::Unreadable, None), expected);
        }
        let named = classify(Arch::X86_64, Some('S'), &Syscall::Unreadable, Some("do_wait"));
        assert_eq!(named, State::Wait);
    }

    proptest! {
        #[test]
        fn any_text_has_a_state(line in ".{0,80}", code in any::<Option<char>>(), wchan in any::<Option<String>>()) {
            classify(Arch::X86_64, code, &syscall(&line), wchan.as_deref());
            classify(Arch::Generic, code, &syscall(&line), wchan.as_deref());
        }
    }
}
