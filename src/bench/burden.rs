//! CPU time that a job has used, and that programs in the kernel have run for: exact where a clock
//! on the wall is not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use feedline_traces::{Error, Result};

/// Whether the kernel times programs of the kernel kind.
const TIMED: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// What programs in the kernel have done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Programs {
    /// For how long they ran, in nanoseconds of CPU.
    pub(super) ns: u64,
    /// How often.
    pub(super) runs: u64,
}

impl Programs {
    /// What they did since an earlier look.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self { ns: self.ns.saturating_sub(earlier.ns), runs: self.runs.saturating_sub(earlier.runs) }
    }
}

/// The kernel's timing of such programs, switched on; as it was again when dropped. It costs each
/// run of a program two readings of the clock, so what is measured with it errs to the dear side.
pub(super) struct Timing {
    before: String,
}

impl Timing {
    /// Switches it on.
    ///
    /// # Errors
    /// When that is not allowed.
    pub(super) fn on() -> Result<Self> {
        let before = fs::read_to_string(TIMED).map_err(|cause| Error::io(TIMED, &cause))?;
        fs::write(TIMED, "1").map_err(|cause| Error::io(TIMED, &cause).hint("run it as root"))?;
        Ok(Self { before })
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        // Nothing is left to be done about it, and a kernel that keeps timing does no harm.
        let _ = fs::write(TIMED, self.before.trim());
    }
}

/// What the programs that a process holds have done.
///
/// # Errors
/// When its descriptors cannot be listed.
pub(super) fn programs(pid: u32) -> Result<Programs> {
    let place = format!("/proc/{pid}/fdinfo");
    let files = fs::read_dir(&place).map_err(|cause| Error::io(&place, &cause))?;
    let texts = files.flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
    // Several descriptors may stand for one program.
    let each: BTreeMap<u64, Programs> = texts.filter_map(|text| program(&text)).collect();
    Ok(each.values().fold(Programs::default(), |sum, p| Programs { ns: sum.ns + p.ns, runs: sum.runs + p.runs }))
}

/// The program behind a descriptor (`Documentation/bpf/bpf_prog_run.rst`, `kernel/bpf/syscall.c`):
/// its number, and what it has done. Other descriptors are none.
fn program(fdinfo: &str) -> Option<(u64, Programs)> {
    let field = |name: &str| fdinfo.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let programs = Programs { ns: field("run_time_ns:")?, runs: field("run_cnt:")? };
    Some((field("prog_id:")?, programs))
}

/// CPU time in nanoseconds that the threads of a process and of its children have used so far.
/// `None` where the kernel does not say.
pub(super) fn job(pid: u32) -> Option<u64> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let all = std::iter::once(pid).chain(children.split_whitespace().filter_map(|child| child.parse().ok()));
    all.map(|pid| process(Path::new(&format!("/proc/{pid}/task")))).sum()
}

fn process(tasks: &Path) -> Option<u64> {
    let used = |task: fs::DirEntry| on_cpu(&fs::read_to_string(task.path().join("schedstat")).ok()?);
    Some(fs::read_dir(tasks).ok()?.flatten().filter_map(used).sum())
}

/// The first number of `schedstat` (`Documentation/scheduler/sched-stats.rst`): nanoseconds on a CPU.
fn on_cpu(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_number_and_other_descriptors_are_none() {
        let text = "pos:\t0\nflags:\t02000002\nprog_type:\t5\nprog_jited:\t1\nprog_tag:\t3a\nmemlock:\t4096\n\
                    prog_id:\t57\nrun_time_ns:\t1200\nrun_cnt:\t8\nrecursion_misses:\t0\nverified_insns:\t12\n";
        assert_eq!(program(text), Some((57, Programs { ns: 1200, runs: 8 })));
        assert_eq!(program("pos:\t0\nflags:\t02\nmnt_id:\t15\n"), None);
        let later = Programs { ns: 1500, runs: 9 };
        assert_eq!(later.since(Programs { ns: 1200, runs: 8 }), Programs { ns: 300, runs: 1 });
    }

    #[test]
    fn a_process_that_works_has_used_cpu() {
        assert_eq!(on_cpu("2500000 1200 7\n"), Some(2_500_000));
        assert_eq!(on_cpu(""), None);
        let before = job(std::process::id());
        let mut sum = 0_u64;
        // The kernel counts a running thread from time to time: it is given time for that.
        let grew = (0..200).any(|_| {
            for i in 0..5_000_000_u64 {
                sum = std::hint::black_box(sum ^ i);
            }
            job(std::process::id()) > before
        });
        // Kernels without schedstat say nothing, and then no figure is made of it.
        assert!(before.is_none() || grew);
        assert_eq!(job(u32::MAX), None);
    }
}
