//! Mounts (`/proc/PID/mountinfo`), open files (`/proc/PID/fdinfo/FD`) and Lustre client counters.

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mount {
    /// The kernel's number of the mount, which `fdinfo` names too.
    pub id: u64,
    /// `major:minor` of the device; major 0 is no block device.
    pub device: String,
    /// Where it is mounted.
    pub point: String,
    /// File-system type.
    pub kind: String,
    /// What is mounted: a device, a server and path, a name.
    pub source: String,
    /// Options of the file system, which name an overlay's layers.
    pub options: String,
}

/// Where the bytes of a file system come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A block device of this machine.
    Disk,
    /// Another machine, or something unknown that may be one.
    Network,
    /// A program of this machine, which may well ask another.
    Fuse,
    /// Memory.
    Memory,
    /// Other file systems, laid over each other.
    Overlay,
    /// Nowhere: the kernel's own views and switches.
    Pseudo,
}

impl Class {
    /// The class as it stands in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Fuse => "fuse",
            Self::Memory => "memory",
            Self::Overlay => "overlay",
            Self::Pseudo => "pseudo",
        }
    }
}

/// Reads the whole file; lines that make no sense are passed over, because one odd mount must not
/// hide the others.
#[must_use]
pub fn mountinfo(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split_ascii_whitespace();
    let id = left.next()?.parse().ok()?;
    let device = left.nth(1)?.to_owned();
    let point = unescape(left.nth(1)?);
    let mut right = right.split_ascii_whitespace();
    let kind = right.next()?.to_owned();
    let source = right.next().map(unescape).unwrap_or_default();
    let options = right.next().unwrap_or_default().to_owned();
    Some(Mount { id, device, point, kind, source, options })
}

/// Undoes the kernel's `\040`: white space and backslashes are written as three octal digits.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let byte = rest.get(at + 1..at + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok()).filter(u8::is_ascii);
        out.push(byte.map_or('\\', char::from));
        rest = &rest[at + if byte.is_some() { 4 } else { 1 }..];
    }
    out + rest
}

impl Mount {
    /// Where its bytes come from. An unknown file system without a device counts as network: asking
    /// it may block.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.kind.as_str() {
            "tmpfs" | "ramfs" | "hugetlbfs" | "devtmpfs" | "rootfs" => Class::Memory,
            "overlay" | "overlayfs" | "aufs" | "unionfs" => Class::Overlay,
            "fuse" | "fuseblk" | "virtiofs" => Class::Fuse,
            "zfs" | "btrfs" | "bcachefs" => Class::Disk,
            "proc" | "sysfs" | "cgroup" | "cgroup2" | "devpts" | "mqueue" | "tracefs" | "debugfs" | "securityfs"
            | "pstore" | "bpf" | "autofs" | "rpc_pipefs" | "binfmt_misc" | "configfs" | "fusectl" | "efivarfs"
            | "nsfs" | "selinuxfs" | "resctrl" | "nfsd" => Class::Pseudo,
            kind if kind.starts_with("fuse.") => Class::Fuse,
            _ if self.source.starts_with("/dev/") && !self.device.starts_with("0:") => Class::Disk,
            _ => Class::Network,
        }
    }

    /// The directories that an overlay lies on: the writable one first, then the others from the
    /// top down.
    #[must_use]
    pub fn layers(&self) -> Vec<&str> {
        let option = |name: &str| self.options.split(',').find_map(|o| o.strip_prefix(name)?.strip_prefix('='));
        let upper = option("upperdir");
        let lower = option("lowerdir").into_iter().flat_map(|dirs| dirs.split(':')).filter(|dir| !dir.is_empty());
        upper.into_iter().chain(lower).collect()
    }
}

/// The mount that a path lies on: the one with the longest mount point, of equals the last
/// mounted, which hides the others.
#[must_use]
pub fn serving<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    let under = |mount: &&Mount| {
        let point = mount.point.trim_end_matches('/');
        path.strip_prefix(point).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    mounts.iter().filter(under).max_by_key(|mount| mount.point.trim_end_matches('/').len())
}

/// The device that a link in `/sys/dev/block` or `/sys/class/block` leads to; a partition leads to
/// its whole device.
#[must_use]
pub fn block_device(link: &str) -> Option<&str> {
    let mut parts = link.rsplit('/');
    let name = parts.next().filter(|name| !name.is_empty())?;
    match parts.next()? {
        "block" => Some(name),
        whole => Some(whole),
    }
}

/// What `/proc/PID/fdinfo/FD` says of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Opened {
    /// Bytes before the read or write position.
    pub position: u64,
    /// Whether it can only be written.
    pub write_only: bool,
    /// The number of its mount.
    pub mount: Option<u64>,
}

/// Reads an `fdinfo` file; what it does not say is left at its default.
#[must_use]
pub fn fdinfo(text: &str) -> Opened {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = field("flags:").and_then(|octal| u64::from_str_radix(octal, 8).ok()).unwrap_or(0);
    Opened {
        position: field("pos:").and_then(|n| n.parse().ok()).unwrap_or(0),
        write_only: flags & 0o3 == 1,
        mount: field("mnt_id:").and_then(|n| n.parse().ok()),
    }
}

/// What an entry of `/proc/PID/fd` leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link<'a> {
    /// A path that may be a file with data.
    File(&'a str),
    /// A socket, by inode.
    Socket(u64),
    /// A device, a pipe, an event, a view of the kernel.
    Other,
}

/// Reads the target of a link as the kernel writes it.
#[must_use]
pub fn link(target: &str) -> Link<'_> {
    if let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
        return inode.parse().map_or(Link::Other, Link::Socket);
    }
    let under = |folder: &str| target.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    // `/memfd:x` and `/dev/null` look like paths and hold no data of the job's files.
    let data = target.starts_with('/') && !target.starts_with("/memfd:") && !target.starts_with("/anon_hugepage");
    if data && (under("/dev/shm") || !(under("/dev") || under("/proc") || under("/sys"))) {
        return Link::File(target);
    }
    Link::Other
}

/// Bytes read and written through a Lustre mount, from its `llite/*/stats`.
#[must_use]
pub fn lustre(stats: &str) -> (Option<u64>, Option<u64>) {
    // read_bytes  203238095 samples [bytes] 4096 1048576 78026117632000
    let sum = |name: &str| {
        let line = stats.lines().find(|line| line.split_ascii_whitespace().next() == Some(name))?;
        line.split_ascii_whitespace().nth(6)?.parse().ok()
    };
    (sum("read_bytes"), sum("write_bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn real_mounts_are_read_with_and_without_optional_fields() {
        let mounts = mountinfo(include_str!("testdata/mountinfo"));
        let nfs = serving(&mounts, "/mnt/nfs/test/a/b").unwrap();
        assert_eq!((nfs.kind.as_str(), nfs.source.as_str(), nfs.id), ("nfs4", "192.168.1.1:/srv/test", 194));
        assert_eq!(nfs.class(), Class::Network);
        let hidden = serving(&mounts, "/mnt/nfs/test-dupe").unwrap();
        assert_eq!(hidden.kind, "nfs", "the mount on top hides the one below");
        let root = serving(&mounts, "/mnt/nfs/testing").unwrap();
        assert_eq!((root.point.as_str(), root.class(), root.device.as_str()), ("/", Class::Disk, "8:1"));
    }

    #[test]
    fn spaces_in_mount_points_are_unescaped() {
        let mounts = mountinfo(include_str!("testdata/mountinfo-busy"));
        assert!(mounts.iter().any(|m| m.point.contains("[vsanDatastore] bafb9e5a")));
        assert_eq!(unescape(r"a\134b\04\é\\040"), "a\\b\\04\\é\\ ");
    }

    #[test]
    fn the_mounts_of_a_gpu_container_have_a_class() {
        let mounts = mountinfo(include_str!("testdata/mountinfo-container"));
        assert_eq!(serving(&mounts, "/home/x").unwrap().class(), Class::Disk);
        assert_eq!(serving(&mounts, "/dev/nvidia0").unwrap().class(), Class::Memory);
        let class = |line: &str| mountinfo(line)[0].class();
        assert_eq!(class("1 0 0:44 / /d rw - fuse.gcsfuse bucket rw"), Class::Fuse);
        assert_eq!(class("1 0 0:44 / /d rw - wekafs cluster/fs rw"), Class::Network);
        assert_eq!(class("1 0 0:44 / /d rw - lustre 10.0.0.1@o2ib:/scratch rw"), Class::Network);
    }

    #[test]
    fn an_overlay_names_its_layers_the_writable_one_first() {
        let text = "9 1 0:50 / / rw - overlay overlay rw,lowerdir=/a/2:/a/1,upperdir=/a/up,workdir=/a/w";
        assert_eq!(mountinfo(text)[0].layers(), ["/a/up", "/a/2", "/a/1"]);
    }

    #[test]
    fn partitions_lead_to_their_device() {
        assert_eq!(block_device("../../devices/pci0/block/nvme0n1/nvme0n1p2"), Some("nvme0n1"));
        assert_eq!(block_device("../../devices/virtual/block/dm-0"), Some("dm-0"));
        assert_eq!(block_device("x"), None);
    }

    #[test]
    fn open_files_are_told_from_what_only_looks_like_one() {
        assert_eq!(link("/data/a.tar"), Link::File("/data/a.tar"));
        assert_eq!(link("/dev/shm/torch_1 (deleted)"), Link::File("/dev/shm/torch_1 (deleted)"));
        assert_eq!(link("/device/x"), Link::File("/device/x"));
        assert_eq!(link("socket:[2113]"), Link::Socket(2113));
        for other in
            ["/dev/null", "/memfd:x (deleted)", "pipe:[3]", "anon_inode:[eventpoll]", "/proc/1/stat", "socket:[x]"]
        {
            assert_eq!(link(other), Link::Other, "{other}");
        }
        let opened = fdinfo("pos:\t512\nflags:\t0100001\nmnt_id:\t27\nino:\t3\n");
        assert_eq!(opened, Opened { position: 512, write_only: true, mount: Some(27) });
    }

    #[test]
    fn lustre_totals_are_the_last_field() {
        let totals = lustre(include_str!("testdata/lustre-stats"));
        assert_eq!(totals, (Some(78_026_117_632_000), Some(15_201_500_833_981)));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r"(?s).{0,200}|([0-9 /:\\é,=-]{0,40} - [a-z /\\0-9]{0,20}\n){0,9}") {
            for mount in mountinfo(&text) {
                let _ = (mount.class(), mount.layers());
            }
            let _ = (unescape(&text), fdinfo(&text), link(&text), lustre(&text), block_device(&text));
            let _ = serving(&mountinfo(&text), &text);
        }
    }
}
