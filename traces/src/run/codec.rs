//! One tick as bytes: the payload of a frame of the open segment.
//!
//! Pure: bytes in, ticks out, and the other way round. Whole numbers are LEB128 varints, times
//! are differences, and a string is spelt once a segment and then named by its number, so that a
//! row takes about as many bytes as it would compressed, at a fraction of the cost.
//!
//! ```text
//! tick    = sequence, at (zigzag), batches, batch…
//! batch   = table, rows, times (zigzag differences, the first from the tick's), column…
//! column  = Key: string…
//!         | 0 (all present), value… | 1 (all missing) | 2, bitmap (bit set: present), value…
//! string  = 0, length, UTF-8 (takes the next number) | number + 1
//! value   = Text: string | Id, Counter: varint | Gauge: varint of the bits, bytes reversed
//! ```

use std::collections::HashMap;

use crate::clock::Ts;
use crate::error::{Error, Result};
use crate::table::{Kind, Schema, TableId};
use crate::tick::{Batch, Tick, Values};
use crate::value::Symbol;

/// Most cells (rows times columns) of one tick.
pub(super) const MAX_CELLS: usize = 1 << 22;

const ALL_PRESENT: u8 = 0;
const ALL_MISSING: u8 = 1;
const BITMAP: u8 = 2;

/// Turns ticks into payloads; remembers the strings of the segment.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    strings: HashMap<Symbol, u64>,
}

impl Encoder {
    /// Appends a tick that fits the schema to `out`.
    pub(super) fn encode(&mut self, sequence: u64, tick: &Tick, out: &mut Vec<u8>) {
        put(out, sequence);
        put(out, zigzag(tick.at.0));
        put(out, tick.batches.len() as u64);
        for batch in &tick.batches {
            put(out, batch.table.0 as u64);
            put(out, batch.len() as u64);
            let mut before = tick.at.0;
            for at in &batch.at {
                put(out, zigzag(at.0.wrapping_sub(before)));
                before = at.0;
            }
            for column in &batch.columns {
                self.column(column, out);
            }
        }
    }

    fn column(&mut self, column: &Values, out: &mut Vec<u8>) {
        match column {
            Values::Key(values) => {
                let mut last = None;
                for value in values {
                    self.string(value, &mut last, out);
                }
            }
            Values::Text(values) => {
                presence(values.iter().map(Option::is_some), out);
                let mut last = None;
                for value in values.iter().flatten() {
                    self.string(value, &mut last, out);
                }
            }
            Values::Id(values) | Values::Counter(values) => {
                presence(values.iter().map(Option::is_some), out);
                for value in values.iter().flatten() {
                    put(out, *value);
                }
            }
            Values::Gauge(values) => {
                presence(values.iter().map(|v| !v.is_nan()), out);
                for value in values.iter().filter(|v| !v.is_nan()) {
                    put(out, value.to_bits().swap_bytes());
                }
            }
        }
    }

    /// Neighbouring rows often share one string, and then the search is spared.
    fn string<'a>(&mut self, value: &'a Symbol, last: &mut Option<(&'a Symbol, u64)>, out: &mut Vec<u8>) {
        if let Some((symbol, number)) = *last
            && Symbol::ptr_eq(symbol, value)
        {
            return put(out, number + 1);
        }
        let number = match self.strings.get(value) {
            Some(&number) => {
                put(out, number + 1);
                number
            }
            None => {
                let number = self.strings.len() as u64;
                self.strings.insert(Symbol::clone(value), number);
                put(out, 0);
                put(out, value.len() as u64);
                out.extend_from_slice(value.as_bytes());
                number
            }
        };
        *last = Some((value, number));
    }
}

fn presence(present: impl ExactSizeIterator<Item = bool> + Clone, out: &mut Vec<u8>) {
    let (rows, some) = (present.len(), present.clone().filter(|p| *p).count());
    if some == rows {
        return out.push(ALL_PRESENT);
    }
    if some == 0 {
        return out.push(ALL_MISSING);
    }
    out.push(BITMAP);
    let start = out.len();
    out.resize(start + rows.div_ceil(8), 0);
    for (row, _) in present.enumerate().filter(|(_, p)| *p) {
        out[start + row / 8] |= 1 << (row % 8);
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits are wanted")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is less than 128")]
    out.push(value as u8);
}

#[expect(clippy::cast_sign_loss, reason = "zigzag moves the sign into the lowest bit")]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[expect(clippy::cast_possible_wrap, reason = "the sign comes back from the lowest bit")]
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Turns payloads back into ticks; remembers the strings of the segment.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    strings: Vec<Symbol>,
}

impl Decoder {
    /// The sequence number and tick of a payload.
    ///
    /// # Errors
    /// When the bytes are not a tick of this schema.
    pub(super) fn decode(&mut self, schema: &Schema, payload: &[u8]) -> Result<(u64, Tick)> {
        let mut bytes = Bytes { rest: payload };
        let sequence = bytes.varint()?;
        let mut tick = Tick { at: Ts(unzigzag(bytes.varint()?)), batches: Vec::new() };
        let count = bytes.length(schema.tables.len(), "tables")?;
        let mut cells = 0;
        for _ in 0..count {
            let batch = self.batch(schema, tick.at, &mut bytes, &mut cells)?;
            if tick.batch(batch.table).is_some() {
                return Err(Error::new(format!("table {} comes twice", batch.table.0)));
            }
            tick.batches.push(batch);
        }
        match bytes.rest.len() {
            0 => Ok((sequence, tick)),
            left => Err(Error::new(format!("{left} bytes too many"))),
        }
    }

    fn batch(&mut self, schema: &Schema, tick: Ts, bytes: &mut Bytes<'_>, cells: &mut usize) -> Result<Batch> {
        let id = TableId(bytes.length(schema.tables.len().saturating_sub(1), "table")?);
        let Some(table) = schema.tables.get(id.0) else { return Err(Error::new(format!("no table {}", id.0))) };
        let rows = bytes.length(bytes.rest.len(), "rows")?;
        *cells = cells.saturating_add(rows.saturating_mul(table.columns.len() + 1));
        if *cells > MAX_CELLS {
            return Err(Error::new(format!("more than {MAX_CELLS} cells")));
        }
        let mut batch = Batch { table: id, at: Vec::with_capacity(rows), columns: Vec::new() };
        let mut at = tick.0;
        for _ in 0..rows {
            at = at.wrapping_add(unzigzag(bytes.varint()?));
            batch.at.push(Ts(at));
        }
        for column in &table.columns {
            batch.columns.push(self.column(column.kind, rows, bytes)?);
        }
        Ok(batch)
    }

    fn column(&mut self, kind: Kind, rows: usize, bytes: &mut Bytes<'_>) -> Result<Values> {
        if kind == Kind::Key {
            return (0..rows).map(|_| self.string(bytes)).collect::<Result<_>>().map(Values::Key);
        }
        let present = bytes.presence(rows)?;
        Ok(match kind {
            Kind::Key | Kind::Text => Values::Text(present.values(rows, None, || self.string(bytes).map(Some))?),
            Kind::Id => Values::Id(present.values(rows, None, || bytes.varint().map(Some))?),
            Kind::Counter => Values::Counter(present.values(rows, None, || bytes.varint().map(Some))?),
            Kind::Gauge => {
                let number = || bytes.varint().map(|bits| f64::from_bits(bits.swap_bytes()));
                Values::Gauge(present.values(rows, f64::NAN, number)?)
            }
        })
    }

    fn string(&mut self, bytes: &mut Bytes<'_>) -> Result<Symbol> {
        match bytes.varint()? {
            0 => {
                let length = bytes.length(bytes.rest.len(), "string length")?;
                let text = std::str::from_utf8(bytes.take(length)?);
                let symbol = Symbol::from(text.map_err(|_| Error::new("a string is not UTF-8"))?);
                self.strings.push(Symbol::clone(&symbol));
                Ok(symbol)
            }
            number => usize::try_from(number - 1)
                .ok()
                .and_then(|number| self.strings.get(number).cloned())
                .ok_or_else(|| Error::new(format!("no string {}", number - 1))),
        }
    }
}

/// What is left of a payload.
struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| Error::new("the tick ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for (index, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Error::new("a number does not end"))
    }

    /// A number that is at most `most`, so that nothing large is allocated on the word of a file.
    fn length(&mut self, most: usize, what: &str) -> Result<usize> {
        let value = self.varint()?;
        match usize::try_from(value) {
            Ok(length) if length <= most => Ok(length),
            _ => Err(Error::new(format!("{value} {what}, expected at most {most}"))),
        }
    }

    fn presence(&mut self, rows: usize) -> Result<Presence<'a>> {
        match self.take(1)? {
            [ALL_PRESENT] => Ok(Presence::All),
            [ALL_MISSING] => Ok(Presence::None),
            [BITMAP] => Ok(Presence::Some(self.take(rows.div_ceil(8))?)),
            other => Err(Error::new(format!("expected which values are present, found {other:?}"))),
        }
    }
}

/// Which values of a column are there.
enum Presence<'a> {
    All,
    None,
    Some(&'a [u8]),
}

impl Presence<'_> {
    fn values<T: Clone>(&self, rows: usize, missing: T, mut next: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
        match self {
            Self::All => (0..rows).map(|_| next()).collect(),
            Self::None => Ok(vec![missing; rows]),
            Self::Some(bits) => (0..rows)
                .map(|row| if bits[row / 8] >> (row % 8) & 1 == 1 { next() } else { Ok(missing.clone()) })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::unit::Unit;
    use crate::{Column, Origin, Table};

    fn schema() -> Schema {
        let kinds = [("a", Kind::Key), ("b", Kind::Text), ("c", Kind::Id), ("d", Kind::Counter), ("e", Kind::Gauge)];
        let columns = kinds
            .map(|(name, kind)| Column { name: name.into(), kind, unit: Unit::None, doc: "A column.".into() })
            .to_vec();
        Schema::new(vec![Table { name: "t".into(), origin: Origin::Observed, doc: "A table.".into(), columns }])
            .unwrap()
    }

    fn tick() -> Tick {
        let text = |s: &str| Some(Symbol::from(s));
        let columns = vec![
            Values::Key(vec!["x".into(), "".into(), "x".into()]),
            Values::Text(vec![None, text("é"), text("")]),
            Values::Id(vec![None; 3]),
            Values::Counter(vec![Some(0), Some(u64::MAX), Some(300)]),
            Values::Gauge(vec![f64::NAN, -0.0, f64::NEG_INFINITY]),
        ];
        let at = vec![Ts(i64::MIN), Ts(i64::MAX), Ts(0)];
        Tick { at: Ts(-7), batches: vec![Batch { table: TableId(0), at, columns }] }
    }

    #[test]
    fn a_tick_comes_back_bit_for_bit_and_strings_are_spelt_once() {
        let (mut encoder, mut decoder, schema) = (Encoder::default(), Decoder::default(), schema());
        let mut lengths = Vec::new();
        for sequence in [0, 1] {
            let mut bytes = Vec::new();
            encoder.encode(sequence, &tick(), &mut bytes);
            assert_eq!(decoder.decode(&schema, &bytes).unwrap(), (sequence, tick()));
            lengths.push(bytes.len());
        }
        assert!(lengths[1] < lengths[0], "{lengths:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Decoder::default().decode(&schema(), &bytes);
        }

        #[test]
        fn no_changed_tick_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = Vec::new();
            Encoder::default().encode(0, &tick(), &mut bytes);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = Decoder::default().decode(&schema(), &bytes);
        }
    }
}
