//! A run whose bytes somebody has changed, opened and read to its end.

use std::fs;
use std::path::{Path, PathBuf};

use feedline_traces::run::{Limits, Meta, Run, RunWriter};
use feedline_traces::unit::Bytes;
use feedline_traces::{Counter, Key, Row as _, Rows, Schema, Sink as _, Text, Tick, Ts, table};

table! {
    /// A row.
    pub row: RowRow {
        /// A key.
        key: Key,
        /// A label.
        label: Text,
        /// A counter.
        bytes: Counter<Bytes>,
    }
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Writes a small run (closed parts, or an open segment), overwrites part of one of its files at a
/// place that the first bytes choose, and reads all of it.
pub fn read(closed: bool, bytes: &[u8]) {
    let [choice, low, high, rest @ ..] = bytes else { return };
    let Ok(dir) = tempfile::tempdir() else { return };
    let _ = write(dir.path(), closed);
    let mut found = Vec::new();
    files(dir.path(), &mut found);
    found.retain(|path| path.extension().is_some_and(|e| e != "json") && fs::metadata(path).is_ok_and(|m| m.len() > 0));
    found.sort();
    let Some(path) = found.get(usize::from(*choice) % found.len().max(1)) else { return };
    let Ok(mut content) = fs::read(path) else { return };
    let place = usize::from(u16::from_le_bytes([*low, *high])) % content.len();
    content.truncate(content.len().max(place + rest.len()));
    for (at, byte) in rest.iter().enumerate() {
        match content.get_mut(place + at) {
            Some(old) => *old = *byte,
            None => content.push(*byte),
        }
    }
    let _ = fs::write(path, content);
    let _ = read_all(dir.path());
}

fn write(dir: &Path, closed: bool) -> feedline_traces::Result<()> {
    let schema = std::sync::Arc::new(Schema::new(vec![RowRow::table()])?);
    let mut writer = RunWriter::create(dir, Meta::of_this_machine(Ts(0), 1, "fuzz"), &schema)?.limits(Limits::default());
    for n in 0..4_i64 {
        let mut rows = Rows::new(&schema, Ts(n));
        rows.push(RowRow { key: "k".into(), label: (n % 2 == 0).then_some("l").into(), bytes: n.unsigned_abs().into() });
        writer.accept(&schema, &Tick { at: Ts(n), batches: rows.finish() })?;
    }
    if closed { writer.finish() } else { Ok(()) }
}

fn read_all(dir: &Path) -> feedline_traces::Result<()> {
    let run = Run::open(dir)?;
    let mut replay = run.replay()?;
    while replay.read()?.is_some() {}
    Ok(())
}
