//! What the kernel says of rights, as values. Pure.

/// Effective capabilities as bits, from `/proc/self/status`.
#[must_use]
pub fn capabilities(status: &str) -> u64 {
    let text = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    text.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0)
}

/// The real user id, from `/proc/PID/status`.
#[must_use]
pub fn user(status: &str) -> Option<u32> {
    crate::process::parse::status(status).user
}

/// How `/proc` hides other users' processes, from `/proc/self/mountinfo`: 0 or `off` is not at all.
#[must_use]
pub fn hidepid(mountinfo: &str) -> Option<String> {
    let line = mountinfo.lines().find(|line| line.contains(" /proc ") && line.contains(" - proc "))?;
    let option = line.split([' ', ',']).find_map(|word| word.strip_prefix("hidepid="));
    Some(option.unwrap_or("off").to_owned())
}

/// Whether a namespace link such as `pid:[4026531836]` is the machine's first pid namespace, whose
/// number is fixed.
#[must_use]
pub fn is_first_pid_namespace(link: &str) -> bool {
    link == "pid:[4026531836]"
}

/// Major and minor number of a kernel release such as `6.1.0-18-amd64`.
#[must_use]
pub fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// A whole number alone in a file.
#[must_use]
pub fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// The version of a Python by the name of its program, such as `python3.11`.
#[must_use]
pub fn python(program: &str) -> Option<(u32, u32)> {
    let (major, rest) = program.strip_prefix("python")?.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The version of the Python library that a line of `/proc/PID/maps` maps.
#[must_use]
pub fn libpython(line: &str) -> Option<(u32, u32)> {
    python(line.rsplit('/').next()?.strip_prefix("lib")?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn capabilities_are_bits() {
        assert_eq!(capabilities("Name:\tx\nCapEff:\t0000000000080000\n"), 1 << 19);
        assert_eq!(capabilities("CapEff:\tzz\n"), 0);
    }

    #[test]
    fn hidden_processes_are_noticed() {
        let line = |options: &str| format!("22 27 0:21 / /proc rw,relatime - proc proc rw{options}\n");
        assert_eq!(hidepid(&line("")).as_deref(), Some("off"));
        assert_eq!(hidepid(&line(",gid=4,hidepid=invisible")).as_deref(), Some("invisible"));
        assert_eq!(hidepid("1 1 0:1 / / rw - ext4 x rw\n"), None);
    }

    #[test]
    fn a_python_is_told_by_its_name_or_its_library() {
        assert_eq!(python("python3.11"), Some((3, 11)));
        assert_eq!(python("python3.13t"), Some((3, 13)));
        assert_eq!((python("python3"), python("pythonista"), python("sh")), (None, None, None));
        assert_eq!(libpython("7f00-7f01 r-xp 00000000 08:01 9 /usr/lib/libpython3.9.so.1.0"), Some((3, 9)));
        assert_eq!(libpython("7f00-7f01 r-xp 00000000 08:01 9 /usr/lib/libc.so.6"), None);
    }

    #[test]
    fn releases_compare_by_number() {
        assert_eq!(release("6.1.0-18-amd64\n"), Some((6, 1)));
        assert!(release("5.4.0") < Some((5, 15)));
        assert_eq!(release("six"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in any::<String>()) {
            let _ = (capabilities(&text), user(&text), hidepid(&text), number(&text), is_first_pid_namespace(&text));
            let _ = (python(&text), libpython(&text), release(&text));
        }
    }
}
