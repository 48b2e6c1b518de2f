//! What doctor says of this machine and of machines made of files.

use std::fs;

use super::*;

fn state(checks: &[Check], name: &str) -> State {
    checks.iter().find(|c| c.name == name).unwrap().state
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
fn every_answer_says_what_was_found_and_a_missing_one_mostly_how_to_get_it() {
    let (_folder, nothing) = machine(&[]);
    for host in [Host::this(), nothing] {
        let all = checks(&host, None);
        assert_eq!(all.len(), PROBES.len());
        for check in &all {
            assert!(
                !check.detail.is_empty() && !check.detail.contains('\n') && !check.detail.ends_with('.'),
                "{check:?}"
            );
            assert!(check.state != State::Degraded || check.how_to_get.is_some(), "{check:?}");
            assert!(check.state != State::Works || check.how_to_get.is_none(), "{check:?}");
        }
    }
}

#[test]
fn on_this_machine_a_child_can_be_watched() {
    let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
    let all = checks(&Host::this(), Some(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    for name in ["thread states", "process io", "process memory"] {
        assert_eq!(state(&all, name), State::Works, "{name}: {all:?}");
    }
    let gone = checks(&Host::this(), Some(u32::MAX - 1));
    assert_eq!(state(&gone, "thread states"), State::Missing);
    assert_eq!(state(&gone, "process memory"), State::Missing);
}

#[test]
fn a_restricted_machine_is_told_from_an_open_one() {
    let me = std::process::id();
    let syscall = format!("proc/{me}/syscall");
    let open = [
        ("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n"),
        ("proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n"),
        (syscall.as_str(), "running\n"),
        ("proc/sys/kernel/task_delayacct", "1\n"),
        ("proc/pressure/io", "some\n"),
    ];
    let (folder, host) = machine(&open);
    let all = checks(&host, None);
    for name in ["processes visible", "thread states", "pressure", "delay accounting"] {
        assert_eq!(state(&all, name), State::Works, "{name}");
    }
    assert_eq!(state(&all, "control groups"), State::Missing);
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw,hidepid=2\n");
    write("proc/sys/kernel/yama/ptrace_scope", "1\n");
    write("proc/sys/kernel/task_delayacct", "0\n");
    let all = checks(&host, None);
    assert_eq!(state(&all, "processes visible"), State::Degraded);
    assert_eq!(state(&all, "thread states"), State::Degraded);
    assert_eq!(state(&all, "delay accounting"), State::Missing);
    write("proc/sys/kernel/yama/ptrace_scope", "3\n");
    assert_eq!(state(&checks(&host, None), "thread states"), State::Missing);
}
