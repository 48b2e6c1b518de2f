//! A command started with Feedline's hooks in its Python, its signals and its end.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::task::Poll;

use feedline_traces::{Error, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// What goes into the folder that a job's Python reads first; `docs/in-process.md`.
const FILES: [(&str, &str); 5] = [
    ("sitecustomize.py", include_str!("../python/hooks/sitecustomize.py")),
    ("feedline/__init__.py", include_str!("../python/feedline/__init__.py")),
    ("feedline/_channel.py", include_str!("../python/feedline/_channel.py")),
    ("feedline/_hooks.py", include_str!("../python/feedline/_hooks.py")),
    ("feedline/_targets.py", include_str!("../python/feedline/_targets.py")),
];

/// Variables that are added to an environment.
pub type Environment = Vec<(&'static str, OsString)>;

/// The hooks in a private folder, which goes when this is dropped.
pub struct Hooks {
    dir: TempDir,
}

impl Hooks {
    /// Writes them below `$XDG_RUNTIME_DIR`, or the folder for temporary files.
    ///
    /// # Errors
    /// When neither can be written.
    pub fn write() -> Result<Self> {
        let private = fs::Permissions::from_mode(0o700);
        let place =
            |dir: &Path| tempfile::Builder::new().prefix("feedline-").permissions(private.clone()).tempdir_in(dir);
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let dir = runtime
            .and_then(|dir| place(&dir).ok())
            .map_or_else(|| place(&std::env::temp_dir()), Ok)
            .map_err(|cause| Error::io(std::env::temp_dir().display(), &cause))?;
        for (name, text) in FILES {
            let path = dir.path().join(name);
            let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
            folder.and_then(|()| fs::write(&path, text)).map_err(|cause| Error::io(path.display(), &cause))?;
        }
        Ok(Self { dir })
    }

    /// The variables that bring the hooks into a Python and into every Python that it starts, and
    /// have its Kineto ask for orders where `kineto` is wanted.
    #[must_use]
    pub fn environment(&self, path: Option<OsString>, kineto: bool) -> Environment {
        let mut first = self.dir.path().as_os_str().to_owned();
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            first.push(":");
            first.push(path);
        }
        let mut environment = vec![("PYTHONPATH", first), ("FEEDLINE_HOOKS", "1".into())];
        if kineto {
            environment.push(("KINETO_USE_DAEMON", "1".into()));
        }
        environment
    }
}

/// The signals that a command is to get too, caught.
pub struct Signals(Vec<(tokio::signal::unix::Signal, Signal, bool)>);

impl Signals {
    /// Catches them. What is ignored when the program starts stays so, here and in the command,
    /// as `nohup` means it. Call it within a tokio runtime.
    #[must_use]
    pub fn catch() -> Self {
        let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
        let wanted = [
            (SignalKind::interrupt(), Signal::INT, true),
            (SignalKind::quit(), Signal::QUIT, true),
            (SignalKind::hangup(), Signal::HUP, true),
            (SignalKind::terminate(), Signal::TERM, false),
            (SignalKind::user_defined1(), Signal::USR1, false),
            (SignalKind::user_defined2(), Signal::USR2, false),
        ];
        let heeded = wanted.into_iter().filter(|(kind, ..)| ignored >> (kind.as_raw_value() - 1) & 1 == 0);
        Self(heeded.filter_map(|(kind, as_signal, tty)| Some((signal(kind).ok()?, as_signal, tty))).collect())
    }

    /// The next one, and whether a terminal may have sent it to the command as well.
    async fn next(&mut self) -> (Signal, bool) {
        std::future::poll_fn(|context| {
            for (stream, as_signal, from_terminal) in &mut self.0 {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready((*as_signal, *from_terminal));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The set of ignored signals in `/proc/PID/status`, the first in its lowest bit.
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

/// A command that runs, with this program's input and output.
pub struct Launched {
    child: Child,
    pid: Pid,
}

impl Launched {
    /// Starts it. Its environment is this program's, and what is added.
    ///
    /// # Errors
    /// When there is no such program, or it may not be run.
    pub fn start(command: &[OsString], environment: Environment) -> Result<Self> {
        let (program, args) = command.split_first().ok_or_else(|| Error::new("no command to run"))?;
        let mut start = Command::new(program);
        start.args(args).envs(environment);
        let child = start.spawn().map_err(|cause| Error::io(program.display(), &cause))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.map(|pid| Self { child, pid }).ok_or_else(|| Error::new("the command has no pid"))
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended. It stays a zombie until [`Launched::code`], so that its pid is
    /// nobody else's meanwhile.
    pub async fn ended(&self) {
        let pid = self.pid;
        let wait = move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
        };
        let _ = tokio::task::spawn_blocking(wait).await;
    }

    /// Passes on the signals that this program gets, for ever. What a terminal sends to the whole
    /// foreground has reached the command already, and is not sent twice.
    pub async fn pass_signals(&self, signals: &mut Signals) -> Infallible {
        loop {
            let (signal, from_terminal) = signals.next().await;
            if !(from_terminal && in_foreground()) {
                let _ = kill_process(self.pid, signal);
            }
        }
    }

    /// How it ended, as a shell says it: its exit code, or 128 and the signal that ended it.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn code(mut self) -> Result<u8> {
        let status = self.child.wait().map_err(|cause| Error::io("the command's end", &cause))?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }
}

/// Whether this process is in the foreground of a terminal.
fn in_foreground() -> bool {
    foreground(&fs::read_to_string("/proc/self/stat").unwrap_or_default())
}

/// The same, by the process group and the terminal's foreground group in `/proc/PID/stat`.
fn foreground(stat: &str) -> bool {
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    matches!((fields.get(2), fields.get(5)), (Some(group), Some(front)) if group == front)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_go_before_the_path_of_the_user_and_are_nobody_elses() {
        let hooks = Hooks::write().unwrap();
        let dir = hooks.dir.path().to_path_buf();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(dir.join("feedline/_targets.py").is_file());
        let own = dir.to_string_lossy().into_owned();
        assert_eq!(hooks.environment(None, false)[0].1.to_string_lossy(), own);
        assert_eq!(hooks.environment(Some("".into()), false)[0].1.to_string_lossy(), own);
        assert_eq!(hooks.environment(Some("/a:/b".into()), true)[0].1.to_string_lossy(), format!("{own}:/a:/b"));
        drop(hooks);
        assert!(!dir.exists());
    }

    #[test]
    fn what_is_ignored_is_told_by_the_kernel() {
        assert_eq!(ignored("Name:\tfeedline\nSigIgn:\t0000000000001001\nSigCgt:\t01\n"), 0x1001);
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn the_foreground_of_a_terminal_is_told_by_its_groups() {
        assert!(foreground("9 (a) b) S 1 500 400 34816 500 4194304 0"));
        assert!(!foreground("9 (feedline) S 1 500 400 34816 777 4194304 0"));
        assert!(!foreground("9 (feedline) S 1 500 400 0 -1 4194304 0"));
        assert!(!foreground(""));
    }
}
