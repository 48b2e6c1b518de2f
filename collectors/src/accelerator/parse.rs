//! Pure readings of what drivers say: shares, units, names, and the lists of the AMD driver.

/// A share from a percentage; `None` for one that cannot be (drivers have reported billions).
pub(super) fn share(percent: f64) -> Option<f64> {
    (percent.is_finite() && (0.0..=101.0).contains(&percent)).then(|| (percent / 100.0).min(1.0))
}

/// Bytes in the unit of a rate as performance counters name it. The header documents MiB a
/// second, so that is what an unnamed unit means.
pub(super) fn bytes_per(unit: &str) -> f64 {
    let unit = unit.trim().to_ascii_lowercase();
    match unit.split('/').next().map(str::trim) {
        Some("b" | "bytes") => 1.0,
        Some("kb") => 1e3,
        Some("kib") => 1024.0,
        Some("mb") => 1e6,
        Some("gb") => 1e9,
        Some("gib") => f64::from(1 << 30),
        _ => f64::from(1 << 20),
    }
}

/// Reasons for lowered clocks, by bit, as NVML numbers them.
const THROTTLES: &[(u64, &str)] = &[
    (0x001, "idle"),
    (0x002, "application clocks"),
    (0x004, "power cap"),
    (0x008, "hardware slowdown"),
    (0x010, "sync boost"),
    (0x020, "thermal slowdown"),
    (0x040, "hardware thermal slowdown"),
    (0x080, "power brake"),
    (0x100, "display clocks"),
];

/// The reasons set in a mask, or `none`.
pub(super) fn throttle(mask: u64) -> String {
    let names: Vec<&str> = THROTTLES.iter().filter(|(bit, _)| mask & bit != 0).map(|(_, name)| *name).collect();
    if names.is_empty() && mask == 0 {
        return "none".to_owned();
    }
    if names.is_empty() { format!("unnamed ({mask:#x})") } else { names.join(", ") }
}

/// The symbol that a loader message says is undefined.
pub(super) fn undefined_symbol(message: &str) -> Option<&str> {
    let (_, symbol) = message.split_once("undefined symbol: ")?;
    symbol.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().filter(|s| !s.is_empty())
}

/// The clock in use, in hertz, from a list like `1: 1300Mhz *`.
pub(super) fn current_clock(levels: &str) -> Option<f64> {
    let line = levels.lines().find(|line| line.trim_end().ends_with('*'))?;
    let (_, clock) = line.split_once(':')?;
    let clock = clock.trim().trim_end_matches('*').trim().to_ascii_lowercase();
    let megahertz: f64 = clock.strip_suffix("mhz")?.trim().parse().ok()?;
    (megahertz.is_finite() && megahertz >= 0.0).then_some(megahertz * 1e6)
}

/// The value of a line `KEY=value`, as in a `uevent` file.
pub(super) fn variable<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::trim).filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_that_cannot_be_are_missing() {
        assert_eq!(share(99.0), Some(0.99));
        assert_eq!(share(100.4), Some(1.0));
        assert_eq!(share(4_294_967_295.0), None);
        assert_eq!(share(f64::NAN), None);
    }

    #[test]
    fn pcie_counters_are_in_mebibytes_unless_they_say_otherwise() {
        assert_eq!(bytes_per("MiB/s"), 1_048_576.0);
        assert_eq!(bytes_per(""), 1_048_576.0);
        assert_eq!(bytes_per("B/s"), 1.0);
        assert_eq!(bytes_per("KB/sec"), 1e3);
    }

    #[test]
    fn throttle_masks_are_named() {
        assert_eq!(throttle(0), "none");
        assert_eq!(throttle(0x44), "power cap, hardware thermal slowdown");
        assert_eq!(throttle(0x8000), "unnamed (0x8000)");
    }

    #[test]
    fn the_starred_level_is_the_clock() {
        assert_eq!(current_clock("0: 500Mhz\n1: 1300Mhz *\n2: 1700Mhz\n"), Some(1.3e9));
        assert_eq!(current_clock("0: 500Mhz\n"), None);
    }

    #[test]
    fn a_loader_message_names_its_symbol() {
        let message = "/tmp/libnvidia-ml.so.1: undefined symbol: nvmlGpmSampleGet";
        assert_eq!(undefined_symbol(message), Some("nvmlGpmSampleGet"));
        assert_eq!(undefined_symbol("no such file"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in any::<String>(), mask in any::<u64>(), number in any::<f64>()) {
            let _ = (current_clock(&text), undefined_symbol(&text), variable(&text, "PCI_SLOT_NAME"), bytes_per(&text));
            let _ = (throttle(mask), share(number));
        }

        #[test]
        fn almost_lists_do_not_panic(text in r"([0-9]: ?[0-9.e]{0,6}[Mm]hz ?\*?\n?){0,4}") {
            prop_assert!(current_clock(&text).is_none_or(|hertz| hertz >= 0.0));
        }
    }
}
