use super::*;
use crate::Process;
use crate::readings::{Readings, captured};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn link(root: &Path, file: &str, target: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, path).unwrap();
}

fn job(pid: u32) -> Vec<Process> {
    vec![Process { pid, key: crate::key(pid, 1), ..Process::default() }]
}

/// A job, pid 10, that reads from the captured NFS export and a local disk.
fn machine() -> (tempfile::TempDir, Context) {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "proc/10/mountinfo", include_str!("testdata/mountinfo"));
    write(root.path(), "proc/10/mountstats", include_str!("testdata/mountstats"));
    link(root.path(), "proc/10/cwd", "/root-of-job");
    link(root.path(), "proc/10/fd/0", "/dev/null");
    link(root.path(), "proc/10/fd/3", "/mnt/nfs/test/shard-0001.tar");
    write(root.path(), "proc/10/fdinfo/3", "pos:\t512\nflags:\t0100000\nmnt_id:\t194\n");
    link(root.path(), "proc/10/fd/4", "/mnt/nfs/test/shard-0002.tar");
    link(root.path(), "proc/10/fd/5", "socket:[77]");
    link(root.path(), "sys/dev/block/8:1", "../../devices/pci0000:00/ata1/block/sda/sda1");
    let context = captured(root.path());
    context.target.replace(job(10));
    (root, context)
}

#[test]
fn the_mounts_of_open_files_and_of_the_working_directory_are_found() {
    let (_root, context) = machine();
    let readings = Readings::of(&mut Mounts::new(&context));
    assert_eq!(readings.entities("mount"), ["/", "/mnt/nfs/test"]);
    let text = |column: &str, mount: &str| readings.text(&format!("mount.{column}"), &[mount]).unwrap();
    assert_eq!((text("class", "/mnt/nfs/test"), text("kind", "/mnt/nfs/test")), ("network".into(), "nfs4".into()));
    assert_eq!((text("class", "/"), text("device", "/")), ("disk".into(), "sda".into()));
    assert_eq!(readings.number("mount.files", &["/mnt/nfs/test"]), Some(2.0));
    assert_eq!(readings.number("mount.files", &["/"]), Some(0.0));
}

#[test]
fn an_nfs_mount_counts_as_node_exporter_counts_it() {
    let (_root, context) = machine();
    let readings = Readings::of(&mut Mounts::new(&context));
    assert_eq!(readings.whole("mount.read_bytes", &["/mnt/nfs/test"]), Some(1_210_214_218));
    assert_eq!(readings.whole("mount.requested_bytes", &["/mnt/nfs/test"]), Some(1_207_640_230));
    assert_eq!(readings.entities("nfs_operation"), ["/mnt/nfs/test READ"]);
    let read = |column: &str| readings.whole(&format!("nfs_operation.{column}"), &["/mnt/nfs/test", "READ"]);
    assert_eq!(read("operations"), Some(1_298));
    assert_eq!(read("received_bytes"), Some(1_210_292_152));
    assert_eq!(read("response_time"), Some(79_386_000_000));
    assert_eq!(read("execute_time"), Some(79_407_000_000));
    assert_eq!(read("queue_time"), Some(6_000_000));
    assert_eq!(read("errors"), None);
}

#[test]
fn a_mount_without_counters_says_where_its_bytes_are_counted() {
    let (_root, context) = machine();
    let readings = Readings::of(&mut Mounts::new(&context));
    assert_eq!(readings.whole("mount.read_bytes", &["/"]), None);
    assert!(readings.reason("mount.read_bytes", "/").unwrap().contains("`disk`"));
    assert_eq!(readings.reason("mount.read_bytes", "/mnt/nfs/test"), None);
}

#[test]
fn a_mount_stays_when_its_files_are_closed_and_goes_when_unmounted() {
    let (root, context) = machine();
    let mut mounts = Mounts::new(&context);
    let mut readings = Readings::of(&mut mounts);
    std::fs::remove_file(root.path().join("proc/10/fd/3")).unwrap();
    std::fs::remove_file(root.path().join("proc/10/fd/4")).unwrap();
    readings.again(&mut mounts);
    assert_eq!(readings.number("mount.files", &["/mnt/nfs/test"]), Some(0.0));
    write(root.path(), "proc/10/mountinfo", "21 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
    assert_eq!(Readings::of(&mut mounts).entities("mount"), ["/"]);
}

#[test]
fn an_overlay_names_the_disk_of_its_upper_layer() {
    let root = tempfile::tempdir().unwrap();
    let overlay = "9 1 0:50 / / rw - overlay overlay rw,lowerdir=/var/l2:/var/l1,upperdir=/var/up,workdir=/var/w\n";
    write(root.path(), "proc/10/mountinfo", overlay);
    write(root.path(), "proc/self/mountinfo", "30 1 259:2 / /var rw - ext4 /dev/nvme0n1p2 rw\n");
    link(root.path(), "proc/10/cwd", "/app");
    link(root.path(), "sys/dev/block/259:2", "../../devices/pci0/nvme/block/nvme0n1/nvme0n1p2");
    let context = captured(root.path());
    context.target.replace(job(10));
    let readings = Readings::of(&mut Mounts::new(&context));
    assert_eq!(readings.text("mount.class", &["/"]).as_deref(), Some("overlay"));
    assert_eq!(readings.text("mount.device", &["/"]).as_deref(), Some("nvme0n1"));
}

#[test]
fn a_lustre_mount_is_counted_by_its_client() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "proc/10/mountinfo", "9 1 0:50 / /scratch rw - lustre 10.0.0.1@o2ib:/fs1 rw\n");
    write(root.path(), "proc/fs/lustre/llite/fs1-ffff8803/stats", include_str!("testdata/lustre-stats"));
    link(root.path(), "proc/10/cwd", "/scratch/me");
    let context = captured(root.path());
    context.target.replace(job(10));
    let readings = Readings::of(&mut Mounts::new(&context));
    assert_eq!(readings.whole("mount.read_bytes", &["/scratch"]), Some(78_026_117_632_000));
    assert_eq!(readings.whole("mount.write_bytes", &["/scratch"]), Some(15_201_500_833_981));
}

#[test]
fn a_process_that_vanished_is_no_failure() {
    let root = tempfile::tempdir().unwrap();
    let context = captured(root.path());
    context.target.replace(job(10));
    let readings = Readings::of(&mut Mounts::new(&context));
    assert!(readings.entities("mount").is_empty());
    assert_eq!(readings.reason("mount", ""), None);
}

#[test]
fn the_mount_of_a_file_that_this_process_has_open_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, "x").unwrap();
    let _open = std::fs::File::open(&path).unwrap();
    let context = Context::new(Host::this(), Arc::new(feedline_traces::SystemClock::anchored_now()));
    context.target.replace(job(std::process::id()));
    let readings = Readings::of(&mut Mounts::new(&context));
    let text = context.host.read("proc/self/mountinfo").unwrap();
    let mounts = parse::mountinfo(&text);
    let expected = &parse::serving(&mounts, &path.canonicalize().unwrap().to_string_lossy()).unwrap().point;
    assert!(readings.number("mount.files", &[expected]).unwrap() >= 1.0);
}
