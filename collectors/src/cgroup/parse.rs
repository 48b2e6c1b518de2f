//! Control group files, of both versions, as values. Pure.

use std::collections::BTreeMap;

use feedline_traces::{Error, Result, Symbol};

use crate::process::parse::clip;

/// Which groups a process is in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Membership {
    /// Path in the version 2 hierarchy.
    pub unified: Option<String>,
    /// Path by version 1 controller.
    pub controllers: BTreeMap<String, String>,
}

impl Membership {
    /// The name of the group: the longest of its paths, since where both versions are mounted
    /// only one of them is in use.
    #[must_use]
    pub fn name(&self) -> Symbol {
        let paths = self.unified.iter().chain(self.controllers.values());
        // Of equally long ones the first.
        let longest = paths.fold("", |best, path| if path.len() > best.len() { path } else { best });
        if longest.is_empty() { "/".into() } else { longest.into() }
    }
}

/// Reads `/proc/PID/cgroup`.
#[must_use]
pub fn membership(text: &str) -> Membership {
    let mut out = Membership::default();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        if !path.starts_with('/') {
            continue;
        }
        if controllers.is_empty() {
            out.unified = Some(path.to_owned());
        }
        for name in controllers.split(',').filter(|name| !name.is_empty()) {
            out.controllers.insert(name.to_owned(), path.to_owned());
        }
    }
    out
}

/// Where a hierarchy is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Version 1 controllers; empty for version 2.
    pub controllers: Vec<String>,
    /// The group that shows at the mount point: not `/` inside a container.
    pub root: String,
    /// Absolute path of the mount point.
    pub point: String,
}

/// Reads the control group mounts of `/proc/self/mountinfo`.
#[must_use]
pub fn mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?.to_owned(), left.next()?.to_owned());
    let mut right = right.split(' ');
    let controllers = match right.next()? {
        "cgroup2" => Vec::new(),
        "cgroup" => {
            // `rw,cpu,cpuacct`: what is no controller matches none, so it need not be told apart.
            right.nth(1)?.split(',').filter(|o| !matches!(*o, "rw" | "ro")).map(str::to_owned).collect()
        }
        _ => return None,
    };
    Some(Mount { controllers, root, point })
}

/// CPU cores that `cpu.max` of version 2 grants; `None` is no limit.
///
/// # Errors
/// When the text is no quota and period.
pub fn cpu_max(text: &str) -> Result<Option<f64>> {
    let odd = || Error::new(format!("expected a quota and a period, found `{}`", clip(text.trim())));
    let mut words = text.split_ascii_whitespace();
    let (quota, period) = (words.next().ok_or_else(odd)?, words.next().ok_or_else(odd)?);
    if quota == "max" { Ok(None) } else { cores(quota, period).map(Some).ok_or_else(odd) }
}

/// CPU cores that `cpu.cfs_quota_us` and `cpu.cfs_period_us` of version 1 grant; `None` is no limit.
///
/// # Errors
/// When a text is no number.
pub fn cfs_quota(quota: &str, period: &str) -> Result<Option<f64>> {
    let (quota, period) = (quota.trim(), period.trim());
    if quota == "-1" {
        return Ok(None);
    }
    let odd = || Error::new(format!("expected a quota and a period, found `{}` and `{}`", clip(quota), clip(period)));
    cores(quota, period).map(Some).ok_or_else(odd)
}

fn cores(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u32, u32) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| f64::from(quota) / f64::from(period))
}

/// Bytes that `memory.max` or `memory.limit_in_bytes` grants; `None` is no limit, which version 1
/// writes as the largest number of whole pages.
///
/// # Errors
/// When the text is neither `max` nor a number.
pub fn memory_limit(text: &str) -> Result<Option<u64>> {
    let text = text.trim();
    if text == "max" {
        return Ok(None);
    }
    let limit: u64 =
        text.parse().map_err(|_| Error::new(format!("expected a number of bytes, found `{}`", clip(text))))?;
    Ok(Some(limit).filter(|limit| *limit < 1 << 60))
}

/// The value of a name in a file of `name value` lines, such as `cpu.stat` and `memory.stat`.
#[must_use]
pub fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// What a group read and wrote, over all devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Bytes read, or number of reads.
    pub read: u64,
    /// Bytes written, or number of writes.
    pub written: u64,
}

/// Reads `io.stat` of version 2: bytes, then operations.
#[must_use]
pub fn io_stat(text: &str) -> (Moved, Moved) {
    let mut out = (Moved::default(), Moved::default());
    for (name, number) in text.split_ascii_whitespace().filter_map(|word| word.split_once('=')) {
        let place = match name {
            "rbytes" => &mut out.0.read,
            "wbytes" => &mut out.0.written,
            "rios" => &mut out.1.read,
            "wios" => &mut out.1.written,
            _ => continue,
        };
        *place = place.saturating_add(number.parse().unwrap_or(0));
    }
    out
}

/// Reads `blkio.throttle.io_service_bytes` or `blkio.throttle.io_serviced` of version 1.
#[must_use]
pub fn blkio(text: &str) -> Moved {
    let mut out = Moved::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        let place = match words.next() {
            Some("Read") => &mut out.read,
            Some("Write") => &mut out.written,
            _ => continue,
        };
        *place = place.saturating_add(words.next().and_then(|n| n.parse().ok()).unwrap_or(0));
    }
    out
}

/// Nanoseconds in which some task of the group stalled, from a `*.pressure` file.
#[must_use]
pub fn stalled(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse::<u64>().ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A captured file.
    fn captured(name: &str) -> String {
        std::fs::read_to_string(format!("{}/src/cgroup/testdata/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn a_membership_names_the_group_in_use() {
        let hybrid = membership("4:memory:/jobs/b4a7\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n");
        assert_eq!(hybrid.name().as_ref(), "/jobs/b4a7");
        assert_eq!(hybrid.controllers["cpuacct"], "/");
        assert_eq!(hybrid.unified.as_deref(), Some("/"));
        let odd = membership("0::/a:b\nx\n3:cpu:relative\n");
        assert_eq!((odd.name().as_ref(), odd.controllers.len()), ("/a:b", 0));
        assert_eq!(membership("").name().as_ref(), "/");
    }

    #[test]
    fn mounts_of_both_versions_are_found() {
        let text = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 /docker/5f /sys/fs/cgroup/cpu,cpuacct ro,relatime master:9 - cgroup cgroup rw,cpu,cpuacct\n\
            41 31 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let found = mounts(text);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].root.as_str(), found[0].controllers.as_slice()),
            ("/docker/5f", ["cpu".into(), "cpuacct".into()].as_slice())
        );
        assert_eq!((found[1].point.as_str(), found[1].controllers.len()), ("/sys/fs/cgroup/unified", 0));
    }

    #[test]
    fn captured_files_of_version_2_are_read() {
        assert_eq!(cpu_max(&captured("v2/cpu.max")).unwrap(), Some(48.0));
        let stat = captured("v2/cpu.stat");
        assert_eq!(
            (value(&stat, "nr_periods"), value(&stat, "throttled_usec")),
            (Some(3_936_904), Some(19_175_137_007))
        );
        assert_eq!(memory_limit(&captured("v2/memory.max")).unwrap(), Some(103_079_215_104));
        let (bytes, operations) = io_stat(&captured("v2/io.stat"));
        assert_eq!(bytes, Moved { read: 74_526_720, written: 3_789_381_632 });
        assert_eq!(operations, Moved { read: 2936, written: 181_928 });
        assert_eq!(stalled(&captured("v2/cpu.pressure")), Some(293_391_454_000));
    }

    #[test]
    fn captured_files_of_version_1_are_read() {
        assert_eq!(blkio(&captured("v1/blkio.throttle.io_serviced")), Moved { read: 49_182, written: 216_703 });
        assert_eq!(cfs_quota("-1\n", "100000\n").unwrap(), None);
        assert_eq!(cfs_quota("150000\n", "100000\n").unwrap(), Some(1.5));
        assert_eq!(memory_limit("9223372036854771712\n").unwrap(), None);
    }

    #[test]
    fn what_is_no_limit_is_told_from_what_cannot_be_read() {
        assert_eq!(cpu_max("max 100000\n").unwrap(), None);
        assert_eq!(cpu_max("garbage").unwrap_err().message, "expected a quota and a period, found `garbage`");
        assert_eq!(memory_limit("garbage\n").unwrap_err().message, "expected a number of bytes, found `garbage`");
        assert!(cpu_max("1 0").is_err() && cfs_quota("", "").is_err());
    }

    #[test]
    fn a_name_is_not_taken_for_a_longer_one() {
        assert_eq!(value("cache_x 1\ncache 2\n", "cache"), Some(2));
        assert_eq!(value("dirty -307200\n", "dirty"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in any::<String>(), shaped in "([0-9]{1,2}:[a-z,=]{0,9}:/[a-z./]{0,9}\n| - cgroup2? | rbytes=[0-9]{1,25}|8:0 Read [0-9]{1,25}\n|[0-9]{1,21}| ){0,12}") {
            for text in [&text, &shaped] {
                let _ = (membership(text).name(), mounts(text), cpu_max(text), cfs_quota(text, text));
                let _ = (memory_limit(text), value(text, "x"), io_stat(text), blkio(text), stalled(text));
            }
        }
    }
}
