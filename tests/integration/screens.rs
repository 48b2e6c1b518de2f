//! The dashboard in a real terminal: tmux draws it, keys drive it, and the terminal is left clean.

use std::process::Command;
use std::time::Duration;

use crate::support::Job;

fn tmux(socket: &str, args: &[&str]) -> String {
    let output = Command::new("tmux").args(["-L", socket]).args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Looks at the screen until it shows what is wanted, for at most half a minute.
fn wait_for(socket: &str, wanted: &str) -> String {
    let mut screen = String::new();
    for _ in 0..150 {
        screen = tmux(socket, &["capture-pane", "-p"]);
        if screen.contains(wanted) {
            return screen;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("`{wanted}` never came:\n{screen}");
}

#[test]
fn attach_draws_the_verdict_answers_keys_and_leaves_the_terminal_clean() {
    if Command::new("tmux").arg("-V").output().is_err() {
        eprintln!("skipped: no tmux");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let job = Job::embedded(dir.path());
    let socket = format!("feedline-test-{}", std::process::id());
    tmux(&socket, &["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "sh"]);
    let typed = format!("{} attach {}", env!("CARGO_BIN_EXE_feedline"), job.pid());
    tmux(&socket, &["send-keys", &typed, "Enter"]);
    wait_for(&socket, "for data");
    tmux(&socket, &["send-keys", "?"]);
    wait_for(&socket, "quit");
    tmux(&socket, &["send-keys", "Escape"]);
    tmux(&socket, &["send-keys", "q"]);
    std::thread::sleep(Duration::from_secs(1));
    tmux(&socket, &["send-keys", "echo left=$?", "Enter"]);
    let screen = wait_for(&socket, "left=0");
    assert!(!screen.contains('│'), "the dashboard is still on the screen:\n{screen}");
    tmux(&socket, &["kill-server"]);
}

#[test]
fn a_terminal_that_is_closed_ends_the_program() {
    if Command::new("tmux").arg("-V").output().is_err() {
        eprintln!("skipped: no tmux");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let job = Job::embedded(dir.path());
    let socket = format!("feedline-hangup-{}", std::process::id());
    let mark = dir.path().join("pid");
    tmux(&socket, &["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "sh"]);
    let typed =
        format!("sh -c 'echo $$ > {}; exec {} attach {}'", mark.display(), env!("CARGO_BIN_EXE_feedline"), job.pid());
    tmux(&socket, &["send-keys", &typed, "Enter"]);
    wait_for(&socket, "for data");
    let pid = std::fs::read_to_string(&mark).unwrap();
    let running = || std::path::Path::new("/proc").join(pid.trim()).join("exe").read_link().is_ok();
    assert!(running());
    tmux(&socket, &["kill-server"]);
    let ended = (0..150).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        !running()
    });
    assert!(ended, "the program goes on without its terminal");
}
