//! Where the functions of a shared library lie in its file: what a probe in user space needs. Pure
//! but for the reading of the file, which the caller does, part by part: a driver library is
//! nearly 100 MB, its tables of symbols a few.

use std::collections::HashMap;

use feedline_traces::{Error, Result};

/// Reads a part of the file: offset and length, at most [`MOST`] bytes.
pub(super) type ReadAt<'a> = &'a mut dyn FnMut(u64, usize) -> std::io::Result<Vec<u8>>;

/// The largest table that is read.
const MOST: u64 = 64 << 20;

const DYNAMIC_SYMBOLS: u32 = 11;
const LOADED: u32 = 1;
const X86_64: u64 = 62;
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// Bytes of a section's, a segment's and a symbol's entry in 64-bit ELF.
const SECTION: usize = 64;
const SEGMENT: usize = 56;
const SYMBOL: usize = 24;

/// A loaded part of the file: virtual address, offset in the file, bytes in the file.
struct Segment {
    address: u64,
    offset: u64,
    length: u64,
}

/// Where a probe on a function goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset in the file.
    pub(super) offset: u64,
    /// Whether the kernel must single-step the instruction there rather than emulate it, which
    /// costs the job five times as much.
    pub(super) stepped: bool,
}

/// Places of exported functions, by name; names that the library does not export are left out. An
/// entry that begins with `endbr64`, which would be stepped, is skipped past it.
///
/// # Errors
/// When the file is no 64-bit little-endian ELF library, is cut short, or cannot be read.
pub(super) fn functions(read: ReadAt<'_>, wanted: &[&str]) -> Result<HashMap<String, Place>> {
    let header = part(read, 0, 64)?;
    if header.get(..6) != Some(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Err(Error::new("not a 64-bit little-endian ELF file"));
    }
    let machine = number(&header, 18, 2);
    let segments = segments(read, &header)?;
    let (symbols, names) = dynamic_symbols(read, &header)?;
    let mut found = HashMap::new();
    for symbol in symbols.chunks_exact(SYMBOL) {
        let (name, kind, section) = (number(symbol, 0, 4), symbol[4] & 0xf, number(symbol, 6, 2));
        // Functions (and those that the loader resolves) that are defined here.
        if kind != 2 || section == 0 {
            continue;
        }
        let Some(name) = name_at(&names, name).filter(|name| wanted.contains(name)) else { continue };
        let address = number(symbol, 8, 8);
        let Some(offset) = file_offset(&segments, address) else { continue };
        let code = read(offset, 8).unwrap_or_default();
        let (skipped, code) = match code.strip_prefix(&ENDBR64) {
            Some(rest) => (ENDBR64.len() as u64, rest),
            None => (0, code.as_slice()),
        };
        let stepped = machine == X86_64 && !is_emulated(code);
        found.insert(name.to_owned(), Place { offset: offset + skipped, stepped });
    }
    Ok(found)
}

/// Whether the kernel emulates an x86 instruction under a probe: the push of a register, a nop, a
/// jump or a call (`arch/x86/kernel/uprobes.c`). Most functions begin with a push.
fn is_emulated(code: &[u8]) -> bool {
    matches!(
        code,
        [0x50..=0x57 | 0x90 | 0xe8 | 0xe9 | 0xeb | 0x70..=0x7f, ..]
            | [0x40..=0x4f, 0x50..=0x57, ..]
            | [0x66, 0x90, ..]
            | [0x0f, 0x1f | 0x80..=0x8f, ..]
    )
}

/// The offset in the file of a virtual address.
fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    let segment = segments.iter().find(|s| address >= s.address && address - s.address < s.length)?;
    segment.offset.checked_add(address - segment.address)
}

fn segments(read: ReadAt<'_>, header: &[u8]) -> Result<Vec<Segment>> {
    let (at, size, count) = (number(header, 32, 8), number(header, 54, 2), number(header, 56, 2));
    let table = table(read, at, size, count, SEGMENT)?;
    let entries = table.chunks_exact(SEGMENT).filter(|entry| number(entry, 0, 4) == u64::from(LOADED));
    Ok(entries
        .map(|entry| Segment {
            address: number(entry, 16, 8),
            offset: number(entry, 8, 8),
            length: number(entry, 32, 8),
        })
        .collect())
}

/// The table of exported symbols and the names it points into.
fn dynamic_symbols(read: ReadAt<'_>, header: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let (at, size, count) = (number(header, 40, 8), number(header, 58, 2), number(header, 60, 2));
    let sections = table(read, at, size, count, SECTION)?;
    let section = |index: usize| sections.chunks_exact(SECTION).nth(index);
    let mut all = sections.chunks_exact(SECTION);
    let symbols = all
        .find(|section| number(section, 4, 4) == u64::from(DYNAMIC_SYMBOLS))
        .ok_or_else(|| Error::new("exports nothing: it has no table of dynamic symbols"))?;
    let names = usize::try_from(number(symbols, 40, 4)).ok().and_then(section);
    let names = names.ok_or_else(|| Error::new("its symbols have no names"))?;
    let mut content = |section: &[u8]| part(read, number(section, 24, 8), number(section, 32, 8));
    Ok((content(symbols)?, content(names)?))
}

fn table(read: ReadAt<'_>, at: u64, size: u64, count: u64, expected: usize) -> Result<Vec<u8>> {
    if size != expected as u64 {
        return Err(Error::new(format!("its header gives {size} bytes an entry, not {expected}")));
    }
    part(read, at, size * count)
}

fn part(read: ReadAt<'_>, at: u64, length: u64) -> Result<Vec<u8>> {
    let bytes = usize::try_from(length.min(MOST + 1)).unwrap_or(usize::MAX);
    if length > MOST {
        return Err(Error::new(format!("a table of {length} bytes is larger than 64 MiB")));
    }
    let out = read(at, bytes).map_err(|cause| Error::new(cause.to_string()))?;
    if out.len() == bytes { Ok(out) } else { Err(Error::new(format!("cut short at byte {at}"))) }
}

/// A little-endian number of up to eight bytes; 0 where there is none.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let digits = bytes.get(at..at + length).unwrap_or_default();
    digits.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn name_at(names: &[u8], at: u64) -> Option<&str> {
    let rest = names.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn over(bytes: &[u8]) -> impl FnMut(u64, usize) -> std::io::Result<Vec<u8>> {
        |at, length| {
            let at = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            Ok(bytes[at..at.saturating_add(length).min(bytes.len())].to_vec())
        }
    }

    fn entry(size: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
        let mut out = vec![0; size];
        for (at, length, value) in fields {
            out[*at..at + length].copy_from_slice(&value.to_le_bytes()[..*length]);
        }
        out
    }

    /// A library with two functions: one begins with `endbr64`, one does not, and one it only uses.
    fn library() -> Vec<u8> {
        let names = b"\0cuFirst\0cuSecond\0cuUsed\0".to_vec();
        let mut out =
            entry(64, &[(18, 2, 62), (32, 8, 64), (40, 8, 0x300), (54, 2, 56), (56, 2, 1), (58, 2, 64), (60, 2, 3)]);
        out[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        // Its code is at 0x400 in the file and at 0x1400 in memory.
        out.extend(entry(56, &[(0, 4, 1), (8, 8, 0x400), (16, 8, 0x1400), (32, 8, 0x100)]));
        out.resize(0x200, 0);
        for (name, section, address) in [(1, 1, 0x1410), (9, 1, 0x1420), (18, 0, 0)] {
            out.extend(entry(24, &[(0, 4, name), (4, 1, 0x12), (6, 2, section), (8, 8, address)]));
        }
        out.resize(0x280, 0);
        out.extend(&names);
        out.resize(0x300, 0);
        out.extend(entry(64, &[]));
        out.extend(entry(64, &[(4, 4, 11), (24, 8, 0x200), (32, 8, 72), (40, 4, 2)]));
        out.extend(entry(64, &[(4, 4, 3), (24, 8, 0x280), (32, 8, names.len() as u64)]));
        out.resize(0x400, 0);
        out.resize(0x500, 0x90);
        out[0x410..0x416].copy_from_slice(&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57]);
        // sub $8,%rsp
        out[0x420..0x424].copy_from_slice(&[0x48, 0x83, 0xec, 0x08]);
        out
    }

    #[test]
    fn a_functions_place_in_the_file_follows_from_its_segment_and_skips_endbr64() {
        let library = library();
        let found = functions(&mut over(&library), &["cuFirst", "cuSecond", "cuUsed", "cuOther"]).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found["cuFirst"], Place { offset: 0x414, stepped: false });
        assert_eq!(found["cuSecond"], Place { offset: 0x420, stepped: true });
    }

    #[test]
    fn a_text_and_a_library_cut_short_are_errors() {
        assert!(functions(&mut over(b"#!/bin/sh\n"), &[]).is_err());
        let library = library();
        for end in [63, 100, 0x210, 0x310] {
            assert!(functions(&mut over(&library[..end]), &["cuFirst"]).is_err(), "{end}");
        }
    }

    #[test]
    fn the_c_library_of_this_process_exports_read() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().filter_map(|l| l.split_whitespace().nth(5)).find(|p| p.contains("libc.so"));
        let Some(path) = path else { return };
        let bytes = std::fs::read(path).unwrap();
        let found = functions(&mut over(&bytes), &["read", "no_such_function"]).unwrap();
        assert!(found["read"].offset > 0 && found.len() == 1);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(change in prop::collection::vec((0..0x500_usize, any::<u8>()), 0..8)) {
            let mut library = library();
            for (at, byte) in change {
                library[at] = byte;
            }
            let _ = functions(&mut over(&library), &["cuFirst", "cuSecond"]);
        }
    }
}
