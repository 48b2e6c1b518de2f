use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;

const MOUNTS: &str = "\
    22 1 254:0 / / rw - ext4 /dev/vda rw\n\
    23 22 0:44 / /data rw - nfs4 10.0.0.1:/data rw\n\
    24 22 0:45 / /bucket rw - fuse.gcsfuse bucket rw\n\
    25 22 0:46 / /dev/shm rw - tmpfs tmpfs rw\n\
    26 22 0:47 / /tmp rw - tmpfs tmpfs rw\n\
    27 22 0:48 / /proc rw - proc proc rw\n";

/// A machine whose process 7 has these descriptors open, and this at the start of its memory.
fn machine(links: &[(u32, &str)], memory: &[u8]) -> (tempfile::TempDir, Objects) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("proc/7");
    for name in ["fd", "fdinfo", "ns"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for (fd, target) in links {
        symlink(target, folder.join(format!("fd/{fd}"))).unwrap();
    }
    symlink("mnt:[4026531841]", folder.join("ns/mnt")).unwrap();
    symlink("/data/set", folder.join("cwd")).unwrap();
    fs::write(folder.join("mountinfo"), MOUNTS).unwrap();
    fs::write(folder.join("mem"), memory).unwrap();
    let host = Host::at(root.path());
    (root, Objects::new(host))
}

fn call(x86_64: i64, generic: i64, arguments: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    Call { number: if Arch::THIS == Arch::X86_64 { x86_64 } else { generic }, arguments: all }
}

fn read(fd: u64) -> Call {
    call(0, 63, &[fd])
}

#[test]
fn a_descriptor_says_what_a_read_is_on() {
    let cases = [
        ("pipe:[4711]", On::Pipe),
        ("socket:[4712]", On::Socket),
        ("/home/a/b.jpg", On::File),
        ("/data/a.tar", On::Remote),
        ("/bucket/a.tar", On::Remote),
        ("/dev/shm/torch_1_2 (deleted)", On::Shm),
        ("/memfd:x (deleted)", On::Shm),
        ("/tmp/cache", On::Shm),
        ("/dev/null", On::Other),
        ("/proc/1/stat", On::Other),
        ("anon_inode:[eventfd]", On::Other),
    ];
    for (target, on) in cases {
        let (_root, mut objects) = machine(&[(5, target)], b"");
        assert_eq!(objects.file(7), None);
        assert_eq!(objects.of(7, &read(5), Ts(0)), on, "{target}");
        let file = matches!(on, On::File | On::Remote).then_some(target);
        assert_eq!(objects.file(7).as_deref(), file, "{target}");
    }
    let (_root, mut objects) = machine(&[], b"");
    assert_eq!(objects.of(7, &read(5), Ts(0)), On::Unknown, "it was closed in between");
    assert_eq!(objects.of(8, &read(5), Ts(0)), On::Unknown, "no such process");
}

#[test]
fn a_descriptor_is_remembered_for_a_moment_only() {
    let (root, mut objects) = machine(&[(5, "/data/a.tar")], b"");
    assert_eq!(objects.of(7, &read(5), Ts(0)), On::Remote);
    let link = root.path().join("proc/7/fd/5");
    fs::remove_file(&link).unwrap();
    symlink("pipe:[3]", &link).unwrap();
    assert_eq!(objects.of(7, &read(5), Ts(40_000_000)), On::Remote);
    assert_eq!(objects.of(7, &read(5), Ts(60_000_000)), On::Pipe);
}

#[test]
fn what_is_remembered_is_bounded() {
    let (_root, mut objects) = machine(&[(5, "pipe:[1]")], b"");
    for n in 0..5_000 {
        objects.of(7, &read(n), Ts(0));
        objects.of(u32::try_from(n).unwrap(), &read(5), Ts(0));
    }
    assert!(objects.processes.len() <= MOST_PROCESSES && objects.spaces.len() <= MOST_SPACES);
    assert!(objects.processes.values().all(|open| open.descriptors.len() <= MOST_DESCRIPTORS));
    objects.keep(|pid| pid == 7);
    assert!(objects.processes.len() <= 1);
}

#[test]
fn a_poll_is_on_what_all_its_descriptors_are() {
    let pollfds =
        |fds: &[i32]| -> Vec<u8> { fds.iter().flat_map(|fd| [fd.to_ne_bytes(), [1, 0, 0, 0]]).flatten().collect() };
    let links = [(5, "pipe:[1]"), (6, "socket:[1]"), (8, "pipe:[2]"), (9, "anon_inode:[eventfd]")];
    let cases = [
        (&[5][..], On::Pipe),
        (&[6], On::Socket),
        (&[5, 8], On::Pipe),
        (&[5, 6], On::Unknown),
        (&[9, 6], On::Socket),
        (&[6, 9], On::Socket),
        (&[9], On::Other),
        (&[-1, 6], On::Socket),
        (&[5, 77], On::Unknown),
    ];
    for (fds, on) in cases {
        let (_root, mut objects) = machine(&links, &pollfds(fds));
        let poll = call(7, 73, &[0, fds.len() as u64, 100]);
        assert_eq!(objects.of(7, &poll, Ts(0)), on, "{fds:?}");
    }
    let (_root, mut objects) = machine(&links, &pollfds(&[5]));
    assert_eq!(objects.of(7, &call(7, 73, &[0, 2, 100]), Ts(0)), On::Unknown, "memory that ends too early");
    assert_eq!(objects.of(7, &call(7, 73, &[0, u64::MAX, 100]), Ts(0)), On::Unknown);
}

#[test]
fn a_select_and_an_event_loop_are_on_what_they_wait_for() {
    let mut set = [0u8; 16];
    set[0] = 1 << 5;
    set[8] = 1 << 6; // 70
    let (root, mut objects) = machine(&[(5, "socket:[1]"), (70, "socket:[2]")], &set);
    assert_eq!(objects.of(7, &call(23, 72, &[71, 8]), Ts(0)), On::Unknown, "a set that begins elsewhere");
    let (_keep, mut shifted) = machine(&[(5, "socket:[1]"), (70, "socket:[2]")], &[&[0; 8][..], &set].concat());
    assert_eq!(shifted.of(7, &call(23, 72, &[71, 8]), Ts(0)), On::Socket);
    let info = "pos:\t0\nflags:\t02000002\ntfd:        5 events:       19 data: 5  pos:0 ino:b\ntfd:       70 events:       19 data: 6\n";
    fs::write(root.path().join("proc/7/fdinfo/3"), info).unwrap();
    assert_eq!(objects.of(7, &call(232, 22, &[3]), Ts(0)), On::Socket);
    assert_eq!(objects.of(7, &call(232, 22, &[4]), Ts(0)), On::Unknown);
}

#[test]
fn opening_a_file_is_on_the_mount_it_lies_on() {
    let (_root, mut objects) = machine(&[(5, "/bucket/a")], b"/home/x.jpg\0x.jpg\0\0../y\0no end");
    let open = |folder: u64, address: u64| call(257, 56, &[folder, address]);
    let here = 0xffff_ff9c;
    assert_eq!(objects.of(7, &open(here, 0), Ts(0)), On::File);
    assert_eq!(objects.of(7, &open(here, 12), Ts(0)), On::Remote, "below the working directory");
    assert_eq!(objects.of(7, &open(5, 12), Ts(0)), On::Remote, "below a folder");
    assert_eq!(objects.of(7, &open(5, 18), Ts(0)), On::Remote, "the descriptor itself");
    assert_eq!(objects.of(7, &open(here, 19), Ts(0)), On::Unknown);
    assert_eq!(objects.of(7, &open(here, 24), Ts(0)), On::Unknown);
}

#[test]
fn a_call_that_names_nothing_is_on_nothing_known() {
    let (_root, mut objects) = machine(&[(0, "pipe:[1]")], b"");
    assert_eq!(objects.of(7, &call(202, 98, &[0]), Ts(0)), On::Unknown);
}

proptest! {
    #[test]
    fn any_call_has_an_answer(number in 0i64..460, arguments in any::<[u64; 6]>(), memory in any::<[u8; 64]>(), text in ".{0,80}") {
        let (_root, mut objects) = machine(&[(5, "pipe:[1]")], &memory);
        objects.of(7, &Call { number, arguments: arguments.map(|n| n % 128) }, Ts(0));
        objects.of(7, &Call { number, arguments }, Ts(1));
        parse_all(&text);
    }
}
