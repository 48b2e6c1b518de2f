//! What the tests share: the program, and a small Python job to watch.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use feedline::demo::photos::{self, Photos};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// The program, with its arguments.
pub(crate) fn feedline(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs the program and waits.
pub(crate) fn run(args: &[&str]) -> Output {
    feedline(args).output().unwrap()
}

/// Standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that arguments are refused with an exit code and an error that names a place and a next step.
pub(crate) fn refused(args: &[&str], code: i32, names: [&str; 2]) {
    let output = run(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.starts_with("error:") && names.iter().all(|name| said.contains(name)), "{args:?}: {said}");
}

/// A running job that is killed when the test ends.
pub(crate) struct Job {
    /// The process.
    pub(crate) child: Child,
}

impl Job {
    /// The embedded training job, once it is warm.
    pub(crate) fn embedded(dir: &Path) -> Self {
        let photos = dir.join("photos");
        let few = Photos { count: 48, ..Photos::default() };
        photos::make(&photos, &few, &|_| ()).unwrap();
        let truth = dir.join("truth.jsonl");
        let (photos, truth) = (photos.to_string_lossy(), truth.to_string_lossy());
        let mut command = feedline(&["demo-job", "--data", &photos, "--truth", &truth, "--seconds", "120"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.starts_with("ready"), "the job said `{first}`");
        // The pipe must outlive the job, or its next line would kill it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child }
    }

    /// Its pid, as typed.
    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
