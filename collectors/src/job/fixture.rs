//! Machines made of files, for tests: processes as the kernel shows them, under a folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::Host;

/// One process to write.
#[derive(Debug, Clone)]
pub(crate) struct Fake {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) start: u64,
    pub(crate) comm: String,
    pub(crate) argv: Vec<String>,
    pub(crate) threads: Vec<String>,
    pub(crate) environ: String,
    pub(crate) maps: String,
    pub(crate) files: Vec<String>,
    pub(crate) state: char,
    pub(crate) inner: Option<u32>,
    pub(crate) cpu: u64,
}

impl Fake {
    /// A process that runs a command line; it starts at its pid.
    pub(crate) fn new(pid: u32, parent: u32, comm: &str, line: &str) -> Self {
        Self {
            pid,
            parent,
            start: u64::from(pid),
            comm: comm.into(),
            argv: line.split(' ').map(Into::into).collect(),
            threads: Vec::new(),
            environ: String::new(),
            maps: String::new(),
            files: Vec::new(),
            state: 'S',
            inner: None,
            cpu: 100,
        }
    }

    /// A process made by `multiprocessing`, from its code.
    pub(crate) fn code(pid: u32, parent: u32, comm: &str, code: &str) -> Self {
        let mut fake = Self::new(pid, parent, comm, "/usr/bin/python3 -B -c");
        fake.argv.push(code.into());
        fake
    }

    /// The same with more threads.
    pub(crate) fn threads(mut self, names: &[&str]) -> Self {
        self.threads.extend(names.iter().map(|n| (*n).to_owned()));
        self
    }

    /// The same with `NAME=VALUE` words as environment.
    pub(crate) fn environ(mut self, words: &str) -> Self {
        self.environ = words.replace(' ', "\0");
        self
    }

    /// The same with a library loaded.
    pub(crate) fn library(mut self, path: &str) -> Self {
        self.maps.push_str(&format!("7f0000000000-7f0000001000 r-xp 00000000 08:01 12 {path}\n"));
        self
    }

    /// The same with a file open.
    pub(crate) fn file(mut self, path: &str) -> Self {
        self.files.push(path.into());
        self
    }

    /// Writes the process under a root.
    pub(crate) fn write(&self, root: &Path) {
        let Self { pid, parent, start, comm, state, cpu, .. } = self;
        let folder = root.join(format!("proc/{pid}"));
        let threads = self.threads.len() + 1;
        fs::create_dir_all(folder.join("fd")).unwrap();
        let stat = format!(
            "{pid} ({comm}) {state} {parent} 1 1 0 -1 4194560 2120 0 3 0 {cpu} 12 0 0 20 0 {threads} 0 {start} 51 95 1"
        );
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("cmdline"), format!("{}\0", self.argv.join("\0"))).unwrap();
        fs::write(folder.join("environ"), &self.environ).unwrap();
        fs::write(folder.join("maps"), &self.maps).unwrap();
        let inner = self.inner.map(|i| format!("\t{i}")).unwrap_or_default();
        let status = format!(
            "Name:\t{comm}\nUid:\t0\t0\t0\t0\nNSpid:\t{pid}{inner}\nVmRSS:\t    1696 kB\nThreads:\t{threads}\n\
             Cpus_allowed_list:\t0-1\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t2\n"
        );
        fs::write(folder.join("status"), status).unwrap();
        fs::write(
            folder.join("io"),
            "rchar: 14483\nwchar: 3250\nsyscr: 105\nsyscw: 36\nread_bytes: 5488\nwrite_bytes: 4628\ncancelled_write_bytes: 0\n",
        )
        .unwrap();
        fs::write(folder.join("smaps_rollup"), "5559-7ffe ---p 0 00:00 0 [rollup]\nRss: 4084 kB\nPss: 867 kB\n")
            .unwrap();
        fs::write(folder.join("cgroup"), "0::/job.slice\n").unwrap();
        for (i, file) in self.files.iter().enumerate() {
            let _ = fs::remove_file(folder.join(format!("fd/{i}")));
            symlink(file, folder.join(format!("fd/{i}"))).unwrap();
        }
        for (i, name) in std::iter::once(comm).chain(&self.threads).enumerate() {
            let thread = folder.join(format!("task/{}", *pid as usize + i));
            fs::create_dir_all(&thread).unwrap();
            fs::write(thread.join("comm"), format!("{name}\n")).unwrap();
        }
    }
}

/// A machine with these processes, without the kernel's lists of children.
pub(crate) fn machine(processes: &[Fake]) -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("etc")).unwrap();
    fs::create_dir_all(root.path().join("proc")).unwrap();
    fs::write(root.path().join("etc/passwd"), "root:x:0:0:root:/root:/bin/bash\n").unwrap();
    fs::write(root.path().join("proc/uptime"), "100000.00 190000.00\n").unwrap();
    for process in processes {
        process.write(root.path());
    }
    let host = Host::at(root.path());
    (root, host)
}

/// The same with lists of children, as kernels with `CONFIG_PROC_CHILDREN` have.
pub(crate) fn list_children(root: &Path, processes: &[Fake]) {
    for process in processes {
        let children: Vec<String> =
            processes.iter().filter(|p| p.parent == process.pid).map(|p| p.pid.to_string()).collect();
        let pid = process.pid;
        fs::write(root.join(format!("proc/{pid}/task/{pid}/children")), children.join(" ")).unwrap();
    }
}
