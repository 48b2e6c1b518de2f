//! Starting a demo job as a separate process, and ending it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use feedline_traces::{Error, Result};

use super::python::{self, PROGRAMS, Python, TRAIN_PY};

/// Which job is trained.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A PyTorch script with a `DataLoader`.
    Torch(Python),
    /// The embedded job: this program once more.
    Embedded,
}

impl Kind {
    /// PyTorch where a Python can import it, and the embedded job otherwise.
    #[must_use]
    pub fn best() -> Self {
        python::find(PROGRAMS).map_or(Self::Embedded, Self::Torch)
    }

    /// What it is, in a line.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Torch(python) => {
                format!("PyTorch {} with a DataLoader ({})", python.torch, python.program.display())
            }
            Self::Embedded => "embedded: a separate process that reads and decodes real JPEG files".to_owned(),
        }
    }
}

/// A job that runs. It is ended when dropped.
pub struct Running {
    /// Its pid.
    pub pid: u32,
    /// Where it logs its truth.
    pub truth: PathBuf,
    // It keeps the pipe: a closed one would end the job at its next line.
    child: Child,
}

impl Running {
    /// Starts a job on a folder of photographs and waits until it is warm.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it is warm.
    pub fn start(kind: &Kind, photos: &Path, dir: &Path) -> Result<Self> {
        let truth = dir.join("truth.jsonl");
        let mut command = match kind {
            Kind::Torch(python) => {
                let script = dir.join("train.py");
                std::fs::write(&script, TRAIN_PY).map_err(|cause| Error::io(script.display(), &cause))?;
                let mut command = Command::new(&python.program);
                command.arg(script);
                command
            }
            Kind::Embedded => {
                let me = std::env::current_exe().map_err(|cause| Error::io("this program", &cause))?;
                let mut command = Command::new(me);
                command.arg("demo-job");
                command
            }
        };
        command.arg("--data").arg(photos).arg("--truth").arg(&truth).args(["--seconds", "600", "--ends-with-parent"]);
        Self::warm(command, truth)
    }

    /// Starts a command that says `ready PID` when warm, and waits for that.
    ///
    /// # Errors
    /// When it cannot be started, or ends without having said so.
    pub fn warm(mut command: Command, truth: PathBuf) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|cause| Error::io(&name, &cause))?;
        let pid = child.stdout.as_mut().and_then(ready);
        if let Some(pid) = pid {
            return Ok(Self { pid, truth, child });
        }
        let _ = child.kill();
        let code = child.wait().ok().and_then(|status| status.code());
        let code = code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
        let error = Error::new(format!("`{name}` ended with {code} before it was warm"));
        // Its last words, where somebody asked for them. Its own children may hold the pipe open.
        let said = child.stderr.take().map(last_line).unwrap_or_default();
        Err(if said.is_empty() { error } else { error.hint(said) })
    }

    /// Asks the job to end, so that it logs its last steps, and waits for at most ten seconds.
    pub fn stop(&mut self) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The pid that a job says it is ready under; `None` when it says nothing of the kind.
fn ready(stdout: &mut ChildStdout) -> Option<u32> {
    let lines = BufReader::new(stdout).lines();
    lines.map_while(std::result::Result::ok).find_map(|line| line.strip_prefix("ready ")?.trim().parse().ok())
}

/// The last line that is there to be read now.
fn last_line(stderr: ChildStderr) -> String {
    let mut text = Vec::new();
    let mut reader = BufReader::new(stderr);
    let _ = rustix::io::ioctl_fionbio(reader.get_ref(), true);
    let _ = reader.read_to_end(&mut text);
    String::from_utf8_lossy(&text).lines().last().unwrap_or_default().to_owned()
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
