use super::*;
use crate::Process;
use crate::readings::{Readings, captured};
use feedline_traces::SystemClock;
use std::os::unix::fs::symlink;
use std::path::Path;

const MIB: usize = 1 << 20;

/// A captured job, pid 10, with files open on mounts of given lines; the links lead to real files,
/// whose pages the real kernel knows.
fn machine(root: &Path, mountinfo: &str, open: &[(&str, &str)]) -> Context {
    let process = root.join("proc/10");
    std::fs::create_dir_all(process.join("fd")).unwrap();
    std::fs::create_dir_all(process.join("fdinfo")).unwrap();
    std::fs::write(process.join("mountinfo"), mountinfo).unwrap();
    symlink("/", process.join("cwd")).unwrap();
    for (index, (target, info)) in open.iter().enumerate() {
        symlink(target, process.join(format!("fd/{index}"))).unwrap();
        std::fs::write(process.join(format!("fdinfo/{index}")), info).unwrap();
    }
    let context = captured(root);
    context.target.replace(vec![Process { pid: 10, key: crate::key(10, 1), ..Process::default() }]);
    context
}

fn data(root: &Path, name: &str, bytes: usize) -> String {
    let path = root.join(name);
    std::fs::write(&path, vec![1_u8; bytes]).unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn a_file_just_written_is_resident_and_counted_once_for_all_who_share_it() {
    let root = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let path = data(root.path(), "shard", 3 * MIB + 5);
    let read_only = "flags:\t0100000\nmnt_id:\t7\n";
    let open = [(path.as_str(), read_only), (path.as_str(), read_only)];
    let context = machine(root.path(), "7 1 8:1 / / rw - ext4 /dev/sda1 rw\n", &open);
    let readings = Readings::of(&mut PageCache::new(&context));
    let cell = |column: &str| readings.number(&format!("page_cache.{column}"), &["/"]);
    let bytes = (3 * MIB + 5) as f64;
    assert_eq!((cell("files"), cell("left")), (Some(1.0), Some(0.0)));
    assert_eq!((cell("size"), cell("total"), cell("resident")), (Some(bytes), Some(bytes), Some(bytes)));
}

#[test]
fn files_on_network_mounts_are_never_opened_and_the_reason_is_given() {
    let root = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    // An attempt to open this one would show as a file that was left out.
    let open = [("/mnt/nfs/shard", "flags:\t0100000\nmnt_id:\t7\n")];
    let context = machine(root.path(), "7 1 0:42 / /mnt/nfs rw - nfs4 server:/x rw\n", &open);
    let readings = Readings::of(&mut PageCache::new(&context));
    assert!(readings.entities("page_cache").is_empty());
    assert!(readings.reason("page_cache", "/mnt/nfs").unwrap().contains("may block"));
}

#[test]
fn a_file_open_only_for_writing_does_not_count() {
    let root = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let path = data(root.path(), "log", MIB);
    let open = [(path.as_str(), "flags:\t0100001\nmnt_id:\t7\n")];
    let context = machine(root.path(), "7 1 8:1 / / rw - ext4 /dev/sda1 rw\n", &open);
    assert!(Readings::of(&mut PageCache::new(&context)).entities("page_cache").is_empty());
}

#[test]
fn on_an_overlay_residency_comes_from_a_mapping() {
    let root = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let path = data(root.path(), "shard", MIB);
    let open = [(path.as_str(), "flags:\t0100000\nmnt_id:\t7\n")];
    let context = machine(root.path(), "7 1 0:50 / / rw - overlay overlay rw,lowerdir=/a\n", &open);
    let readings = Readings::of(&mut PageCache::new(&context));
    assert_eq!(readings.number("page_cache.resident", &["/"]), Some(MIB as f64));
    assert_eq!(readings.number("page_cache.dirty", &["/"]), None);
    assert!(readings.reason("page_cache.dirty", "/").unwrap().contains("cachestat"));
}

#[test]
fn a_file_that_is_gone_is_left_and_counted() {
    let root = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let open = [("/nowhere/shard", "flags:\t0100000\nmnt_id:\t7\n")];
    let context = machine(root.path(), "7 1 8:1 / / rw - ext4 /dev/sda1 rw\n", &open);
    let readings = Readings::of(&mut PageCache::new(&context));
    assert_eq!(readings.number("page_cache.left", &["/"]), Some(1.0));
    assert_eq!(readings.number("page_cache.resident", &["/"]), None);
}

#[test]
fn a_large_file_is_looked_at_in_windows_that_reach_from_end_to_end() {
    assert_eq!(windows(0), []);
    assert_eq!(windows(20 << 20), [(0, 16 << 20), (16 << 20, 4 << 20)]);
    let size = 1 << 40;
    let large = windows(size);
    assert_eq!(large.len(), 16);
    assert_eq!(large[0], (0, WINDOW));
    let (last, length) = large[15];
    assert!(last + length <= size && last + length > size - (1 << 20));
    assert!(large.iter().all(|(offset, _)| offset % 65_536 == 0));
}

#[test]
fn the_files_of_this_process_are_seen() {
    let root = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let path = data(root.path(), "shard", MIB);
    let _open = File::open(path).unwrap();
    let context = Context::new(Host::this(), Arc::new(SystemClock::anchored_now()));
    let pid = std::process::id();
    context.target.replace(vec![Process { pid, key: crate::key(pid, 1), ..Process::default() }]);
    let mut page_cache = PageCache::new(&context);
    Readings::of(&mut page_cache);
}

#[test]
fn reclaim_counters_of_old_and_new_kernels_are_read() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("proc")).unwrap();
    let write = |text: &str| std::fs::write(root.path().join("proc/vmstat"), text).unwrap();
    write(include_str!("testdata/vmstat"));
    let context = captured(root.path());
    let readings = Readings::of(&mut Vmstat::new(&context));
    let cell = |column: &str| readings.whole(&format!("vmstat.{column}"), &["host"]);
    // node_exporter prints pgpgin 7.344136e+06, pgmajfault 507162, pswpin 1476 for it.
    assert_eq!((cell("paged_in"), cell("major_faults")), (Some(7_344_136 * 1024), Some(507_162)));
    assert_eq!((cell("refaults_file"), cell("swapped_in")), (Some(157_066), Some(1_476)));
    assert_eq!(cell("refaults_anon"), None);
    assert!(readings.reason("vmstat.refaults_anon", "").unwrap().contains("5.9"));
    write(include_str!("testdata/vmstat-6.18"));
    let readings = Readings::of(&mut Vmstat::new(&context));
    assert!(readings.whole("vmstat.refaults_anon", &["host"]).is_some());
}
