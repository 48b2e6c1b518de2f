//! The Python process that runs configurations of one setting, each with a fresh `DataLoader`.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use feedline_traces::{Error, Result};
use serde_json::Value;

/// The scripts; the servers are those of the real training jobs.
const SCRIPTS: [(&str, &str); 8] = [
    ("sweep.py", include_str!("job/sweep.py")),
    ("stores.py", include_str!("job/stores.py")),
    ("formats.py", include_str!("job/formats.py")),
    ("probe.py", include_str!("job/probe.py")),
    ("slowfs.py", include_str!("../../tests/jobs/slowfs.py")),
    ("objects.py", include_str!("../../tests/jobs/objects.py")),
    ("store.py", include_str!("../../tests/jobs/store.py")),
    ("dial.py", include_str!("../../tests/jobs/dial.py")),
];

/// How often somebody looks whether the sweep is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Writes the scripts into a folder.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write_scripts(folder: &Path) -> Result<()> {
    for (name, text) in SCRIPTS {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|cause| Error::io(path.display(), &cause))?;
    }
    Ok(())
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Silent {
    /// The sweep was asked to end.
    Stopped,
    /// The process ended, or took too long, and is of no more use.
    Dead(Error),
}

/// A process that runs configurations. It is ended when dropped, with all that it started.
pub(super) struct Trainer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    words: PathBuf,
    mount: PathBuf,
}

impl Trainer {
    /// Starts one; `setting` is its only argument, `mount` where it may mount a file system.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(python: &Path, scripts: &Path, setting: &Value, mount: &Path) -> Result<Self> {
        let words = scripts.join("stderr.txt");
        let said = File::create(&words).map_err(|cause| Error::io(words.display(), &cause))?;
        let mut command = Command::new(python);
        command.arg("-B").arg(scripts.join("sweep.py")).arg(setting.to_string());
        command.env("TMPDIR", scripts).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said);
        // A group of its own: ctrl-C is for this program, which then ends the group in order.
        let mut child = command.process_group(0).spawn().map_err(|cause| Error::io(python.display(), &cause))?;
        let input = child.stdin.take();
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self { child, input, lines, words, mount: mount.to_path_buf() })
    }

    /// Its pid.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to run a configuration.
    pub(super) fn ask(&mut self, config: &str) -> std::result::Result<(), Silent> {
        let sent = self.input.as_mut().map(|input| writeln!(input, "{config}").and_then(|()| input.flush()));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(Silent::Dead(self.last_words("it takes no more input"))),
        }
    }

    /// Its next line, within a time.
    pub(super) fn answer(&mut self, within: Duration, stop: &AtomicBool) -> std::result::Result<String, Silent> {
        let mut left = within;
        loop {
            if stop.load(Ordering::SeqCst) {
                return Err(Silent::Stopped);
            }
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(Silent::Dead(self.last_words("it ended"))),
                Err(RecvTimeoutError::Timeout) => left = left.saturating_sub(LOOK),
            }
            if left.is_zero() {
                let error = Error::new(format!("the trainer said nothing for {} s", within.as_secs()));
                return Err(Silent::Dead(error));
            }
        }
    }

    /// What it wrote last to its standard error.
    fn last_words(&self, what: &str) -> Error {
        let said = fs::read_to_string(&self.words).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        Error::new(format!("the trainer: {what}: {}", last.trim()))
    }

    fn gone(&mut self, within: Duration) -> bool {
        let mut left = within;
        loop {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(LOOK);
            left = left.saturating_sub(LOOK);
        }
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        // The end of its input is the end of the process, and of the servers that hang on it.
        self.input = None;
        if !self.gone(Duration::from_secs(1)) {
            let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(group) = group {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
                if !self.gone(Duration::from_secs(3)) {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
            }
            let _ = self.child.wait();
        }
        unmounted(&self.mount);
    }
}

/// Waits until nothing is mounted at a place; what its server has left behind is taken away.
fn unmounted(point: &Path) {
    let is_mounted = || {
        let wanted = point.to_string_lossy();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        mounts.lines().any(|line| line.split(' ').nth(4) == Some(&*wanted))
    };
    for _ in 0..20 {
        if !is_mounted() {
            return;
        }
        std::thread::sleep(LOOK);
    }
    let _ = Command::new("umount").arg("-l").arg(point).status();
}
