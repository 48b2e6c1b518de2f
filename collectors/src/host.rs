//! Files under a root, so that a fixture tree is a machine. The only way collectors read files.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use feedline_traces::{Error, Result};

/// The largest file a collector takes in: kernel files are far smaller, and a fixture or a mount
/// that is not must not fill the memory.
const LIMIT: u64 = 16 << 20;

/// A machine: `/` on a real one, a folder of captured `proc` and `sys` files in tests.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A machine captured under a folder.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether this is the running machine, where system calls speak of the same thing as files.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The full path of a file given relative to the root, such as `proc/diskstats`.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// A file as text; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// When it cannot be read or is larger than 16 MiB.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        self.read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file as bytes.
    ///
    /// # Errors
    /// When it cannot be read or is larger than 16 MiB.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let fail = |cause: std::io::Error| Error::io(path.display(), &cause);
        let mut bytes = Vec::new();
        let file = fs::File::open(self.path(path)).map_err(fail)?;
        file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > LIMIT {
            return Err(Error::new(format!("{}: larger than 16 MiB", path.display())));
        }
        Ok(bytes)
    }

    /// The names in a folder, sorted; a folder that is not there has none.
    #[must_use]
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Where a symbolic link points, as written.
    ///
    /// # Errors
    /// When it is no link or cannot be read.
    pub fn link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        fs::read_link(self.path(path)).map_err(|cause| Error::io(path.display(), &cause))
    }
}
