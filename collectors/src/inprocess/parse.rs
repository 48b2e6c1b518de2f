//! The channel's bytes, as `docs/in-process.md` lays them out. The job writes them, so nothing in
//! them is believed.

use feedline_traces::{Error, Result};

/// The size of the header, and of a slot, in bytes.
pub const BLOCK: usize = 128;
/// Slots that are looked at: the package makes 256.
pub const MOST: usize = 1024;
/// Where the header says until when somebody listens, in bytes from its start.
pub const LISTEN: u64 = 64;
/// That time in a job that was started with hooks: it counts whether anybody listens or not.
pub const FOR_EVER: u64 = i64::MAX as u64;

const MAGIC: &[u8] = b"FEEDLINE";
const VERSION: u32 = 1;
const RUNNING: u64 = 1 << 63;
const NAME_AT: usize = 40;

/// What a process counts of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Channel {
    /// The pid that the process knows itself by.
    pub pid: u64,
    /// When the channel was made: nanoseconds on the monotonic clock.
    pub made: u64,
    /// Entries of regions that found no slot.
    pub overflow: u64,
    /// Errors of the hooks that the job did not see.
    pub failures: u64,
    /// Until when somebody listens: nanoseconds on the monotonic clock.
    pub listen: u64,
    /// The slots in use.
    pub slots: Vec<Slot>,
}

/// A region of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Thread id, in the process's own namespace.
    pub thread: u64,
    /// Name of the region.
    pub name: String,
    /// How often it ended.
    pub times: u64,
    clock: u64,
}

impl Slot {
    /// Nanoseconds that the region has run for by `now`, a time on the monotonic clock; what runs
    /// at the moment is included.
    #[must_use]
    pub fn time(&self, now: u64) -> u64 {
        if self.clock & RUNNING == 0 { self.clock } else { now.saturating_sub(self.clock & !RUNNING) }
    }
}

/// The channel, or what is wrong with the bytes.
///
/// # Errors
/// When they are no channel, or one of another version.
pub fn channel(bytes: &[u8]) -> Result<Channel> {
    if !bytes.starts_with(MAGIC) {
        return Err(Error::new("channel: expected `FEEDLINE` at its start"));
    }
    let word = |block: usize, index: usize| -> Option<u64> {
        let at = block.checked_mul(BLOCK)?.checked_add(index * 8)?;
        bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
    };
    let header = |index: usize| word(0, index).ok_or_else(|| Error::new("channel: cut short in its header"));
    let version = header(1)? & u64::from(u32::MAX);
    if version != u64::from(VERSION) {
        return Err(Error::new(format!("channel: expected version {VERSION}, found {version}"))
            .hint("use the `feedline` package and program of one release"));
    }
    let used = usize::try_from(header(5)?).unwrap_or(MOST).min(MOST);
    let slot = |index: usize| {
        let block = index + 1;
        let name = bytes.get(block * BLOCK + NAME_AT..(block + 1) * BLOCK)?;
        let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
        Some(Slot {
            thread: word(block, 0)?,
            name: String::from_utf8_lossy(name).into_owned(),
            times: word(block, 1)?,
            clock: word(block, 2)?,
        })
    };
    Ok(Channel {
        pid: header(2)?,
        made: header(4)?,
        overflow: header(6)?,
        failures: header(7)?,
        listen: header(8)?,
        slots: (0..used).filter_map(slot).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two regions of a thread, one of them running since 5 µs, as the package wrote them.
    const CAPTURED: &[u8] = include_bytes!("testdata/channel");

    #[test]
    fn what_the_package_wrote_is_read() {
        let channel = channel(CAPTURED).unwrap();
        assert_eq!(channel.pid, 4242);
        assert_eq!((channel.made, channel.listen), (1_000_000, FOR_EVER));
        assert_eq!((channel.overflow, channel.failures), (2, 1));
        let names: Vec<&str> = channel.slots.iter().map(|slot| slot.name.as_str()).collect();
        assert_eq!(names, ["step", "Zürich"]);
        let [step, user] = channel.slots.as_slice() else { panic!("{:?}", channel.slots) };
        assert_eq!((step.thread, step.times, step.time(99_999_999)), (4243, 1, 2_000_000));
        assert_eq!((user.times, user.time(6_000_000)), (0, 3_000_000));
        assert_eq!(user.time(0), 0, "a clock behind the job's");
    }

    #[test]
    fn what_is_no_channel_is_refused_and_what_is_cut_short_is_read_as_far_as_it_goes() {
        assert!(channel(b"").is_err() && channel(b"FEEDLINE").is_err() && channel(&[0; 4096]).is_err());
        let mut other = CAPTURED.to_vec();
        other[8] = 9;
        let error = channel(&other).unwrap_err();
        assert!(error.message.contains("version 1, found 9") && error.hint.is_some(), "{error}");
        assert_eq!(channel(&CAPTURED[..BLOCK]).unwrap().slots, []);
        assert_eq!(channel(&CAPTURED[..3 * BLOCK - 1]).unwrap().slots.len(), 1);
        let mut boast = CAPTURED.to_vec();
        boast[40..48].fill(0xff);
        assert_eq!(channel(&boast).unwrap().slots.len(), 2);
    }
}
