//! The open segment: an append-only file of whole ticks, each in a frame with its length and
//! checksum. Whatever happens to the tail, the frames before it are whole.
//!
//! ```text
//! segment = "FEEDLINE", format u32, schema fingerprint u32, frame…     (little endian)
//! frame   = payload length u32, CRC-32 of the payload u32, payload      (see codec)
//! ```

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::codec::{Decoder, Encoder};
use super::layout;
use super::meta::FORMAT;
use crate::error::{Error, Result};
use crate::table::Schema;
use crate::tick::Tick;

const MAGIC: &[u8; 8] = b"FEEDLINE";
const HEADER: usize = 16;
const FRAME: usize = 8;
/// Most bytes of one tick.
const MAX_PAYLOAD: usize = 16 << 20;
const READ: usize = 256 << 10;

/// Appends ticks to a new segment.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    path: PathBuf,
    file: File,
    encoder: Encoder,
    frame: Vec<u8>,
    length: u64,
}

impl SegmentWriter {
    pub(super) fn create(folder: &Path, number: u64, fingerprint: u32) -> Result<Self> {
        let path = layout::segment(folder, number);
        let create = || {
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            let mut header = Vec::with_capacity(HEADER);
            header.extend_from_slice(MAGIC);
            header.extend_from_slice(&FORMAT.to_le_bytes());
            header.extend_from_slice(&fingerprint.to_le_bytes());
            file.write_all(&header)?;
            Ok(file)
        };
        let file = create().map_err(|e| layout::write_failed(&path, &e))?;
        layout::sync_folder(folder)?;
        Ok(Self { path, file, encoder: Encoder::default(), frame: Vec::new(), length: HEADER as u64 })
    }

    /// Appends a tick; when this returns, a kill of the process no longer loses it. After an
    /// error the segment ends with the tick before, and nothing may be appended to it.
    pub(super) fn append(&mut self, sequence: u64, tick: &Tick) -> Result<()> {
        self.frame.clear();
        self.frame.resize(FRAME, 0);
        self.encoder.encode(sequence, tick, &mut self.frame);
        let payload = &self.frame[FRAME..];
        let Some(length) = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= MAX_PAYLOAD) else {
            return Err(Error::new(format!("a tick of {} bytes, expected at most {MAX_PAYLOAD}", payload.len())));
        };
        let crc = crc32fast::hash(payload);
        self.frame[..4].copy_from_slice(&length.to_le_bytes());
        self.frame[4..FRAME].copy_from_slice(&crc.to_le_bytes());
        if let Err(e) = self.file.write_all(&self.frame) {
            let _ = self.file.set_len(self.length);
            return Err(layout::write_failed(&self.path, &e));
        }
        self.length += self.frame.len() as u64;
        Ok(())
    }

    /// Makes what was appended survive a loss of power.
    pub(super) fn sync(&self) -> Result<()> {
        if self.file.metadata().is_ok_and(|m| std::os::unix::fs::MetadataExt::nlink(&m) == 0) {
            let error = Error::new(format!("{}: the run was removed while it was written", self.path.display()));
            return Err(error.hint("what came after its removal is lost"));
        }
        self.file.sync_data().map_err(|e| layout::write_failed(&self.path, &e))
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> u64 {
        self.length
    }
}

/// What follows in a segment.
#[derive(Debug)]
pub(super) enum Found {
    /// A whole tick and its sequence number.
    Tick(u64, Tick),
    /// Nothing yet.
    End,
    /// Bytes that are not a whole tick: a tick being written, or a torn one.
    Torn,
}

/// Reads whole ticks from a segment, which may be growing.
#[derive(Debug)]
pub(super) struct SegmentReader {
    path: PathBuf,
    file: File,
    schema: Arc<Schema>,
    fingerprint: u32,
    decoder: Decoder,
    /// Bytes read of the file, and where the next frame begins among them.
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
    begun: bool,
}

impl SegmentReader {
    /// `None` when there is no segment of that number.
    pub(super) fn open(folder: &Path, number: u64, schema: &Arc<Schema>, fingerprint: u32) -> Result<Option<Self>> {
        let path = layout::segment(folder, number);
        let file = match layout::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(path.display(), &e)),
        };
        if !file.metadata().is_ok_and(|m| m.is_file()) {
            return Err(Error::new(format!("{}: expected a file", path.display())));
        }
        let (schema, decoder) = (Arc::clone(schema), Decoder::default());
        Ok(Some(Self {
            path,
            file,
            schema,
            fingerprint,
            decoder,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            begun: false,
        }))
    }

    /// The next whole tick.
    ///
    /// # Errors
    /// When a frame is whole but no tick of the schema, or the segment is of another run.
    pub(super) fn next(&mut self) -> Result<Found> {
        if !self.begun {
            if !self.has(HEADER)? {
                return Ok(self.rest());
            }
            self.header()?;
            self.start += HEADER;
            self.begun = true;
        }
        if !self.has(FRAME)? {
            return Ok(self.rest());
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| self.buffer[self.start + at + i]));
        let (length, crc) = (word(0) as usize, word(4));
        if length == 0 || length > MAX_PAYLOAD || !self.has(FRAME + length)? {
            return Ok(self.rest());
        }
        let payload = &self.buffer[self.start + FRAME..self.start + FRAME + length];
        if crc32fast::hash(payload) != crc {
            return Ok(self.rest());
        }
        let place = self.offset + self.start as u64;
        let (sequence, tick) = self
            .decoder
            .decode(&self.schema, payload)
            .map_err(|error| error.at(format!("{}: tick at byte {place}", self.path.display())))?;
        self.start += FRAME + length;
        Ok(Found::Tick(sequence, tick))
    }

    /// Bytes of the file that are not part of a whole tick.
    pub(super) fn left(&self) -> u64 {
        let length = self.file.metadata().map_or(0, |m| m.len());
        length.saturating_sub(self.offset + self.start as u64)
    }

    /// No whole tick follows yet. What was read of one is forgotten, as it may still change.
    fn rest(&mut self) -> Found {
        let torn = self.buffer.len() > self.start;
        self.buffer.truncate(self.start);
        if torn { Found::Torn } else { Found::End }
    }

    fn header(&self) -> Result<()> {
        let header = &self.buffer[self.start..self.start + HEADER];
        let expected = [MAGIC.as_slice(), &FORMAT.to_le_bytes(), &self.fingerprint.to_le_bytes()].concat();
        if header == expected {
            return Ok(());
        }
        let message = format!("{}: the segment is not of this run's tables", self.path.display());
        Err(Error::new(message).hint("move it away; the closed parts are readable without it"))
    }

    /// Whether that many bytes follow, reading on where needed.
    fn has(&mut self, wanted: usize) -> Result<bool> {
        while self.buffer.len() - self.start < wanted {
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.offset += self.start as u64;
                self.start = 0;
            }
            let held = self.buffer.len();
            self.buffer.resize(held + READ, 0);
            let read = self.file.read_at(&mut self.buffer[held..], self.offset + held as u64);
            self.buffer.truncate(held + read.as_ref().map_or(0, |n| *n));
            if read.map_err(|e| Error::io(self.path.display(), &e))? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
