//! The `cgroup` table from trees of both versions and from this machine.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use feedline_traces::{Batch, Schema, SimClock, Ts};

use super::*;
use crate::{Process, key};

fn schema() -> Schema {
    Schema::new(vec![CgroupRow::table(), AbsentRow::table()]).unwrap()
}

fn collect(host: Host, pid: u32) -> Vec<Batch> {
    let context = Context::new(host, Arc::new(SimClock::default()));
    let trainer = Process { pid, key: key(pid, 1), role: Role::Trainer, ..Process::default() };
    context.target.replace(vec![trainer]);
    let schema = schema();
    let mut rows = Rows::new(&schema, Ts(1));
    Cgroups::new(&context).collect(&mut rows).unwrap();
    rows.finish()
}

fn number(batches: &[Batch], column: &str) -> Option<f64> {
    let schema = schema();
    let found = schema.find(&format!("cgroup.{column}")).unwrap();
    batches.iter().find(|b| b.table == found.table).unwrap().columns[found.column].number(0)
}

/// A machine of files: `(path, text)`.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let host = Host::at(root.path());
    (root, host)
}

#[test]
fn a_group_of_version_2_is_read_with_its_parents_limits() {
    let (folder, host) = machine(&[
        ("proc/self/mountinfo", "41 31 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("proc/7/cgroup", "0::/pod/train\n"),
        ("sys/fs/cgroup/pod/memory.max", "1000\n"),
        ("sys/fs/cgroup/pod/memory.current", "900\n"),
        ("sys/fs/cgroup/pod/memory.events", "low 0\nmax 4\noom_kill 1\n"),
    ]);
    let captured = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/cgroup/testdata/v2");
    let train = folder.path().join("sys/fs/cgroup/pod/train");
    fs::create_dir_all(&train).unwrap();
    for file in fs::read_dir(captured).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), train.join(file.file_name())).unwrap();
    }
    let found = collect(host, 7);
    for (column, value) in [
        ("cpu_limit", 48.0),
        ("cores", 96.0),
        ("cpu", 98_701_325_189_000.0),
        ("throttled_periods", 6004.0),
        ("throttled", 19_175_137_007_000.0),
        ("memory", 900.0),
        ("memory_limit", 1000.0),
        ("limit_hits", 4.0),
        ("oom_kills", 1.0),
        ("read", 74_526_720.0),
        ("writes", 181_928.0),
        ("cpu_stalled", 293_391_454_000.0),
    ] {
        assert_eq!(number(&found, column), Some(value), "{column}");
    }
    assert_eq!(found.len(), 1, "nothing is missing: {found:?}");
}

#[test]
fn a_group_of_version_1_inside_a_container_is_found_below_the_mount() {
    let (_folder, host) = machine(&[
        (
            "proc/self/mountinfo",
            "32 31 0:29 /docker/5f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 /docker/5f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
             41 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        ),
        ("proc/7/cgroup", "4:memory:/docker/5f\n2:cpu,cpuacct:/docker/5f/train\n0::/\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu/cpu.stat", "nr_periods 10\nnr_throttled 5\nthrottled_time 77\n"),
        ("sys/fs/cgroup/cpu/train/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/train/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu/train/cpuacct.usage", "123\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "55\n"),
        ("sys/fs/cgroup/memory/memory.stat", "cache 1\ntotal_cache 40\n"),
    ]);
    let found = collect(host, 7);
    for (column, value) in [
        ("cpu_limit", Some(2.0)),
        ("throttled", Some(77.0)),
        ("cpu", Some(123.0)),
        ("memory", Some(55.0)),
        ("memory_limit", None),
        ("cache", Some(40.0)),
    ] {
        assert_eq!(number(&found, column), value, "{column}");
    }
    let reasons = found.iter().find(|b| b.table.0 == 1).unwrap();
    assert_eq!(reasons.columns[2].text(0).unwrap().as_ref(), "no memory limit is set");
}

#[test]
fn a_group_outside_of_the_namespace_is_missing_with_a_reason() {
    let (_folder, host) = machine(&[
        ("proc/self/mountinfo", "41 31 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("proc/7/cgroup", "0::/../../etc\n"),
    ]);
    let found = collect(host, 7);
    assert_eq!(number(&found, "cpu"), None);
    let reasons = found.iter().find(|b| b.table.0 == 1).unwrap();
    assert!(reasons.columns[2].text(0).unwrap().starts_with("the group is outside"));
}

#[test]
fn a_limit_that_is_no_number_is_an_error_with_its_place() {
    let (_folder, host) = machine(&[
        ("proc/self/mountinfo", "41 31 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("proc/7/cgroup", "0::/a\n"),
        ("sys/fs/cgroup/a/memory.max", "garbage\n"),
    ]);
    let context = Context::new(host, Arc::new(SimClock::default()));
    context.target.replace(vec![Process { pid: 7, key: key(7, 1), role: Role::Trainer, ..Process::default() }]);
    let schema = schema();
    let error = Cgroups::new(&context).collect(&mut Rows::new(&schema, Ts(1))).unwrap_err();
    assert_eq!(error.message, "sys/fs/cgroup/a/memory.max: expected a number of bytes, found `garbage`");
}

#[test]
fn this_machines_group_is_read() {
    let found = collect(Host::this(), std::process::id());
    assert!(found.iter().any(|b| b.table.0 == 0 && b.len() == 1));
}
