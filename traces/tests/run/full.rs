//! A disk that runs full.

use std::path::{Path, PathBuf};
use std::process::Command;

use feedline_traces::Sink as _;
use feedline_traces::run::Run;

use crate::sample::{every, replay, schema, tick, writer};

/// A small file system of its own, unmounted when dropped.
struct Small {
    at: PathBuf,
    _home: tempfile::TempDir,
}

impl Small {
    /// Says why when this machine does not let it.
    fn mount() -> Result<Self, String> {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().join("small");
        std::fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&at).output();
        match mounted {
            Ok(out) if out.status.success() => Ok(Self { at, _home: home }),
            Ok(out) => Err(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
            Err(e) => Err(format!("mount: {e}")),
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).status();
    }
}

fn fill(folder: &Path, bytes: u64) -> (u64, feedline_traces::Error) {
    let mut writer = writer(folder, every(bytes));
    for n in 0.. {
        if let Err(error) = writer.accept(&schema(), &tick(n)) {
            assert_eq!(writer.accept(&schema(), &tick(n)).unwrap_err(), error, "it stays failed");
            assert_eq!(writer.finish().unwrap_err(), error);
            return (n, error);
        }
    }
    unreachable!("the disk is small")
}

#[test]
fn a_full_disk_ends_in_a_clear_error_with_earlier_ticks_intact() {
    let disk = match Small::mount() {
        Ok(disk) => disk,
        Err(reason) => return println!("skipped: no small disk: {reason}"),
    };
    // Once while a tick is appended, once while a segment is closed, once after many parts.
    for bytes in [1 << 30, 150_000, 20_000] {
        let folder = disk.at.join("run");
        let (taken, error) = fill(&folder, bytes);
        assert!(error.message.contains("No space left on device"), "{error}");
        assert!(error.message.contains(&*folder.to_string_lossy()), "{error}");
        assert!(error.hint.as_deref().is_some_and(|h| h.contains("what was recorded before is intact")), "{error}");
        let run = Run::open(&folder).unwrap();
        let found = replay(&run);
        assert!(taken > 100 && found.len() as u64 >= taken, "took {taken}, found {}", found.len());
        assert!(found.iter().zip(0..).all(|(found, n)| *found == tick(n)));
        assert_eq!(run.recovery().torn_bytes, 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
