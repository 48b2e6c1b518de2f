//! Why performance counters are refused, and how to get them.

/// The number in `/proc/sys/kernel/perf_event_paranoid`.
#[must_use]
pub fn paranoid(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// What a refusal means, by its error number.
#[must_use]
pub fn refusal(code: i32, paranoid: Option<i64>) -> String {
    match code {
        libc::EACCES | libc::EPERM => {
            let level = paranoid.map_or_else(|| "not known".to_owned(), |level| level.to_string());
            format!(
                "refused (`perf_event_paranoid` is {level}): run as root or with CAP_PERFMON, \
                 or `sysctl kernel.perf_event_paranoid=1` as the job's user"
            )
        }
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP => {
            "this machine has no such counter; virtual machines often hide those of the processor".to_owned()
        }
        libc::ENOSYS => "this kernel is built without performance counters".to_owned(),
        libc::EMFILE | libc::ENFILE => "no file descriptor is free; raise `ulimit -n`".to_owned(),
        libc::EBUSY => "another program holds the counters of the processor".to_owned(),
        code => format!("the kernel says: {}", std::io::Error::from_raw_os_error(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_refusal_says_how_to_get_the_counters() {
        let text = refusal(libc::EACCES, paranoid("4\n"));
        assert!(text.contains("`perf_event_paranoid` is 4") && text.contains("CAP_PERFMON"), "{text}");
        assert!(refusal(libc::EPERM, None).contains("not known"));
        assert!(refusal(libc::ENOENT, Some(2)).contains("virtual machines"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}", code in any::<i32>()) {
            let _ = refusal(code, paranoid(&text));
        }
    }
}
