//! `/proc/vmstat`: one name and one number a line.

use std::collections::HashMap;

/// The numbers of `/proc/vmstat` by name.
#[derive(Debug, Default)]
pub struct Vmstat<'a> {
    values: HashMap<&'a str, u64>,
}

/// Zones that older kernels append to a name, one line each.
const ZONES: [&str; 6] = ["dma", "dma32", "normal", "high", "movable", "device"];

impl<'a> Vmstat<'a> {
    /// Reads the whole file; lines that make no sense are passed over, because each kernel has
    /// others.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        let value = |line: &'a str| {
            let (name, value) = line.split_once(' ')?;
            Some((name, value.trim().parse().ok()?))
        };
        Self { values: text.lines().filter_map(value).collect() }
    }

    /// A value, under the first of several names that kernels have given it.
    #[must_use]
    pub fn get(&self, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|name| self.values.get(name).copied())
    }

    /// A value that some kernels count per zone: under its name, or added up over zones.
    #[must_use]
    pub fn zoned(&self, name: &str) -> Option<u64> {
        let zone = |zone: &&str| self.values.get(format!("{name}_{zone}").as_str()).copied();
        let sum = || ZONES.iter().filter_map(zone).reduce(u64::saturating_add);
        self.values.get(name).copied().or_else(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kernels_that_count_per_zone_are_added_up() {
        let old = Vmstat::of(include_str!("testdata/vmstat"));
        assert_eq!(old.zoned("pgsteal_kswapd"), Some(78_783 + 254_128));
        assert_eq!(old.zoned("pgscan_direct"), Some(67 + 6_796), "the throttle counter is no zone");
        assert_eq!(old.zoned("allocstall"), Some(83_165));
        assert_eq!(old.get(&["workingset_refault_file", "workingset_refault"]), Some(157_066));
        assert_eq!(old.get(&["workingset_restore_file"]), None);
        let new = Vmstat::of(include_str!("testdata/vmstat-6.18"));
        assert!(new.get(&["workingset_refault_file"]).is_some() && new.zoned("pgsteal_kswapd").is_some());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,200}|([a-z_]{0,9} ?[0-9]{0,25}\n){0,9}") {
            let vmstat = Vmstat::of(&text);
            let _ = (vmstat.get(&["a"]), vmstat.zoned(&text));
        }
    }
}
