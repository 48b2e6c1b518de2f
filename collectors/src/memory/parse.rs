//! `/proc/meminfo`.

/// The value of a line in bytes, such as `MemTotal`; `None` where the kernel has no such line.
#[must_use]
pub fn bytes(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut words = value.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    if words.next() == Some("kB") { number.checked_mul(1024) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_read_in_bytes_by_its_whole_name() {
        let text = include_str!("testdata/meminfo");
        assert_eq!(bytes(text, "MemTotal"), Some(3_831_959_552));
        assert_eq!(bytes(text, "Active"), Some(2_287_017_984));
        assert_eq!(bytes(text, "Active(file)"), Some(218_533_888));
        assert_eq!(bytes(text, "HugePages_Total"), None, "a number of pages is no size");
        assert_eq!(bytes(text, "MemAvailable"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,200}|(MemFree:[ 0-9a-zB]{0,30}\n){0,9}") {
            let _ = bytes(&text, "MemFree");
        }
    }
}
