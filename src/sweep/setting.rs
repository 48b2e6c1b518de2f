//! Settings: a storage, and what a job may use of the machine. One machine is all there is, so that
//! throttles, quotas and latencies stand in for others.

use std::path::Path;

use serde::Serialize;

/// The user's own storage and cores, or something between the two that makes them slower.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Setting {
    /// Its name in tables.
    pub name: &'static str,
    /// Kind of storage, as in the table's `storage`.
    pub storage: &'static str,
    /// Milliseconds that each read takes at least, where a server of ours stands in.
    pub latency_ms: f64,
    /// Megabytes a second of all readers together; 0 for no limit.
    pub mb_s: f64,
    /// Megabits a second of a shaped link to the object store; 0 for none.
    pub link_mbit: u32,
    /// Cores by a quota; 0 for none.
    pub quota: f64,
    /// Cores by affinity; 0 for all.
    pub affinity: u32,
}

const PLAIN: Setting =
    Setting { name: "", storage: "", latency_ms: 0.0, mb_s: 0.0, link_mbit: 0, quota: 0.0, affinity: 0 };

const fn local(name: &'static str, storage: &'static str) -> Setting {
    Setting { name, storage, ..PLAIN }
}

const fn served(name: &'static str, storage: &'static str, latency_ms: f64, mb_s: f64) -> Setting {
    Setting { name, storage, latency_ms, mb_s, ..PLAIN }
}

/// All settings; those of the smaller sets first.
pub const SETTINGS: [Setting; 20] = [
    local("cache", "cache"),
    local("tmpfs", "tmpfs"),
    local("direct", "direct"),
    served("objects-4ms", "objects", 4.0, 200.0),
    local("disk", "disk"),
    Setting { mb_s: 60.0, ..local("disk-60mb", "throttled") },
    served("fuse-8ms-60mb", "fuse", 8.0, 60.0),
    Setting { affinity: 1, ..local("cache-1core", "cache") },
    Setting { mb_s: 20.0, ..local("disk-20mb", "throttled") },
    served("fuse-1ms-200mb", "fuse", 1.0, 200.0),
    served("fuse-3ms-100mb", "fuse", 3.0, 100.0),
    served("fuse-25ms", "fuse", 25.0, 0.0),
    served("objects-15ms-40mb", "objects", 15.0, 40.0),
    Setting { link_mbit: 200, ..served("objects-link-200mbit", "objects", 2.0, 0.0) },
    Setting { quota: 1.5, ..local("cache-quota-1.5", "cache") },
    Setting { quota: 0.7, ..local("tmpfs-quota-0.7", "tmpfs") },
    Setting { affinity: 1, ..local("direct-1core", "direct") },
    Setting { affinity: 1, ..served("fuse-8ms-1core", "fuse", 8.0, 60.0) },
    Setting { affinity: 1, ..served("objects-4ms-1core", "objects", 4.0, 200.0) },
    Setting { quota: 1.5, ..served("objects-15ms-quota-1.5", "objects", 15.0, 40.0) },
];

impl Setting {
    /// The setting of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// Cores that a job may use, on a machine with so many.
    #[must_use]
    pub fn cores(&self, machine: f64) -> f64 {
        let allowed = if self.affinity > 0 { f64::from(self.affinity).min(machine) } else { machine };
        if self.quota > 0.0 { self.quota.min(allowed) } else { allowed }
    }

    /// Whether data lie in memory rather than in the scratch folder.
    #[must_use]
    pub fn in_memory(&self) -> bool {
        self.storage == "tmpfs"
    }

    /// Why it cannot be had here; `None` where it can. `scratch` is the folder on a disk.
    #[must_use]
    pub fn refused(&self, scratch: &Path) -> Option<String> {
        let root = rustix::process::geteuid().is_root();
        let needs_root =
            self.storage == "throttled" || self.storage == "fuse" || self.link_mbit > 0 || self.quota > 0.0;
        if needs_root && !root {
            return Some("needs root".to_owned());
        }
        if self.affinity > 0 && machine_cores() < 2.0 {
            return Some("this machine has one core".to_owned());
        }
        if self.storage == "fuse" && !Path::new("/dev/fuse").exists() {
            return Some("/dev/fuse is not there".to_owned());
        }
        if self.link_mbit > 0 {
            let missing = ["ip", "tc"].into_iter().find(|program| !on_path(program));
            if let Some(program) = missing {
                return Some(format!("`{program}` is not there (Debian: iproute2)"));
            }
        }
        if self.in_memory() {
            return match rustix::fs::statfs("/dev/shm") {
                Ok(found) if free(&found) >= 2 << 30 => None,
                Ok(_) => Some("/dev/shm has less than 2 GiB left".to_owned()),
                Err(cause) => Some(format!("/dev/shm: {cause}")),
            };
        }
        let local = matches!(self.storage, "cache" | "disk" | "direct" | "throttled");
        if local && rustix::fs::statfs(scratch).is_ok_and(|found| is_memory(&found)) {
            return Some(format!("{} is in memory: --scratch names a folder on a disk", scratch.display()));
        }
        None
    }
}

#[expect(clippy::cast_sign_loss, reason = "a block size")]
fn free(found: &rustix::fs::StatFs) -> u64 {
    found.f_bavail.saturating_mul(found.f_bsize as u64)
}

fn is_memory(found: &rustix::fs::StatFs) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    #[expect(clippy::cast_sign_loss, reason = "a magic number")]
    let kind = found.f_type as u64;
    kind == TMPFS || kind == RAMFS
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(Path::new);
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
        || usual.iter().any(|d| d.join(program).is_file())
}

/// Cores of this machine that this process may use.
#[must_use]
pub fn machine_cores() -> f64 {
    std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()).map_or(1.0, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_names_of_their_own_and_at_least_eight_differ_in_storage_or_cores() {
        for (number, setting) in SETTINGS.iter().enumerate() {
            assert_eq!(SETTINGS.iter().position(|s| s.name == setting.name), Some(number), "{}", setting.name);
            assert_eq!(Setting::find(setting.name), Some(setting));
        }
        assert_eq!(Setting::find("no-such-setting"), None);
    }

    #[test]
    fn quotas_and_affinities_never_give_more_than_there_is() {
        let cores = |name: &str, machine| Setting::find(name).unwrap().cores(machine);
        assert_eq!((cores("cache", 8.0), cores("cache-1core", 8.0)), (8.0, 1.0));
        assert_eq!((cores("cache-quota-1.5", 8.0), cores("cache-quota-1.5", 1.0)), (1.5, 1.0));
    }
}
