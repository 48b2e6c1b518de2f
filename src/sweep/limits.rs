//! Control groups that hold a job back: a CPU quota, or a throttled disk (v1 or v2; root only).

use std::fs;
use std::path::{Path, PathBuf};

use feedline_traces::{Error, Result};

use super::setting::Setting;

const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "feedline-sweep-";

/// Control groups of a setting; taken away when dropped.
pub(super) struct Limits {
    groups: Vec<PathBuf>,
}

impl Limits {
    /// The groups that a setting needs, if any. `folder` lies on the disk that is throttled.
    ///
    /// # Errors
    /// Where a controller, or the right to use it, is missing.
    pub(super) fn of(setting: &Setting, folder: &Path) -> Result<Self> {
        let mut limits = Self { groups: Vec::new() };
        if setting.quota > 0.0 {
            let (group, old) = limits.group("cpu", "cpu")?;
            #[expect(clippy::cast_possible_truncation, reason = "microseconds of a few cores")]
            let quota = (setting.quota * 100_000.0) as i64;
            if old {
                put(&group.join("cpu.cfs_period_us"), "100000")?;
                put(&group.join("cpu.cfs_quota_us"), &quota.to_string())?;
            } else {
                put(&group.join("cpu.max"), &format!("{quota} 100000"))?;
            }
        }
        if setting.storage == "throttled" {
            let device = disk_of(folder)?;
            let (group, old) = limits.group("blkio", "io")?;
            #[expect(clippy::cast_possible_truncation, reason = "bytes a second of a disk")]
            let rate = (setting.mb_s * 1e6) as i64;
            if old {
                put(&group.join("blkio.throttle.read_bps_device"), &format!("{device} {rate}"))?;
            } else {
                put(&group.join("io.max"), &format!("{device} rbps={rate}"))?;
            }
        }
        Ok(limits)
    }

    /// Moves a process, and so all that it starts from then on, into the groups.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub(super) fn hold(&self, pid: u32) -> Result<()> {
        self.groups.iter().try_for_each(|group| put(&group.join("cgroup.procs"), &pid.to_string()))
    }

    /// A new group of a controller, by its name in version 1 and 2; and whether it is version 1.
    fn group(&mut self, v1: &str, v2: &str) -> Result<(PathBuf, bool)> {
        let old = Path::new(ROOT).join(v1);
        let is_old = old.is_dir();
        let above = if is_old { old } else { unified(v2)? };
        sweep_leftovers(&above);
        let group = above.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&group).map_err(|cause| Error::io(group.display(), &cause))?;
        self.groups.push(group.clone());
        Ok((group, is_old))
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for group in &self.groups {
            remove(group);
        }
    }
}

/// Takes a group away; what is still in it goes to the group above.
fn remove(group: &Path) {
    let above = group.parent().map(|parent| parent.join("cgroup.procs"));
    for pid in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
        if let Some(above) = &above {
            let _ = fs::write(above, pid);
        }
    }
    let _ = fs::remove_dir(group);
}

/// Removes groups of sweeps that were killed.
fn sweep_leftovers(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let gone = |pid: &str| !Path::new("/proc").join(pid).exists();
        if name.strip_prefix(PREFIX).is_some_and(gone) {
            remove(&entry.path());
        }
    }
}

/// The root of version 2, with a controller enabled for groups in it.
fn unified(controller: &str) -> Result<PathBuf> {
    let root = Path::new(ROOT);
    let root = if root.join("cgroup.controllers").exists() { root.to_path_buf() } else { root.join("unified") };
    let there = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if !there.split_whitespace().any(|name| name == controller) {
        return Err(Error::new(format!("{}: no controller `{controller}`", root.display())));
    }
    put(&root.join("cgroup.subtree_control"), &format!("+{controller}"))?;
    Ok(root)
}

fn put(file: &Path, value: &str) -> Result<()> {
    fs::write(file, value).map_err(|cause| Error::io(file.display(), &cause))
}

/// `major:minor` of the whole disk that a folder lies on: throttles know no partitions.
fn disk_of(folder: &Path) -> Result<String> {
    let found = rustix::fs::stat(folder).map_err(|cause| Error::io(folder.display(), &cause.into()))?;
    let (major, minor) = (rustix::fs::major(found.st_dev), rustix::fs::minor(found.st_dev));
    let device = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    if !device.exists() {
        return Err(Error::new(format!("{}: lies on no block device ({major}:{minor})", folder.display())));
    }
    if !device.join("partition").exists() {
        return Ok(format!("{major}:{minor}"));
    }
    let whole = fs::canonicalize(&device).ok().and_then(|path| path.parent().map(|disk| disk.join("dev")));
    let text = whole.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    match text.trim() {
        "" => Err(Error::new(format!("{}: the disk of this partition is not known", device.display()))),
        disk => Ok(disk.to_owned()),
    }
}
