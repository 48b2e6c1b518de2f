//! Panels bound to a schema: names are resolved once, and what the run has not recorded is known
//! from then on.

use feedline_traces::unit::Unit;
use feedline_traces::window::{Entity, Window};
use feedline_traces::{ColumnRef, Kind, Schema, Symbol, TableId};

use crate::panels::{Col, Panel, Read};

/// A panel and where its columns are.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The panel.
    pub(crate) panel: &'static Panel,
    /// Its table; `None`: not recorded.
    pub(crate) table: Option<TableId>,
    only: Option<(ColumnRef, &'static [&'static str])>,
    /// The column that tells series apart.
    pub(crate) by: Option<ColumnRef>,
    /// Its columns.
    pub(crate) columns: Vec<Bind>,
}

/// A column of a panel and where its value is.
#[derive(Debug)]
pub(crate) struct Bind {
    /// Heading.
    pub(crate) head: &'static str,
    /// Name in the JSON report.
    pub(crate) name: &'static str,
    /// Where the value is.
    pub(crate) reading: Reading,
}

/// Where a value is, and how it is shown.
#[derive(Debug)]
pub(crate) enum Reading {
    /// Nowhere: the run has not recorded it.
    Absent,
    /// One column.
    Value(ColumnRef, Shape),
    /// The sum of columns.
    Sum(Vec<ColumnRef>, Shape),
    /// One less another, never below zero.
    Less(ColumnRef, ColumnRef, Shape),
    /// The mean of the window.
    Mean(ColumnRef, Shape),
    /// The sum of the window.
    Total(ColumnRef, Shape),
    /// Shares of a number among texts.
    Mix(ColumnRef, ColumnRef),
    /// The pid of a key.
    Pid(ColumnRef),
    /// The last part of a path.
    Last(ColumnRef),
    /// A column of the entity whose key stands in a text.
    Of(ColumnRef, ColumnRef, Shape),
    /// Shares, each with its glyph.
    Strip(Vec<(ColumnRef, &'static str)>),
}

/// Kind and unit: together they decide how a value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Counters are shown as rates.
    pub(crate) kind: Kind,
    /// The unit.
    pub(crate) unit: Unit,
    /// Number of keys of its table: an entity of another table with more of them stands for the one
    /// that its first keys name.
    keys: usize,
}

impl Shape {
    fn of(schema: &Schema, column: ColumnRef) -> Self {
        let keys = schema.table(column.table).keys().count();
        let column = schema.column(column);
        Self { kind: column.kind, unit: column.unit, keys }
    }

    /// The entity of the column's table that one of another table belongs to.
    fn entity(self, entity: &[Symbol]) -> &[Symbol] {
        entity.get(..self.keys).unwrap_or(entity)
    }

    /// Whether values are numbers that can be averaged.
    pub(crate) fn is_measured(self) -> bool {
        matches!(self.kind, Kind::Counter | Kind::Gauge)
    }

    /// The number with its unit; a counter's number is a rate.
    pub(crate) fn show(self, number: f64) -> String {
        match self.kind {
            _ if !number.is_finite() => MISSING.to_owned(),
            Kind::Counter => self.unit.show_rate(number),
            Kind::Id => format!("{number:.0}"),
            Kind::Key | Kind::Text | Kind::Gauge => self.unit.show(number),
        }
    }
}

/// What stands where a value is missing.
pub(crate) const MISSING: &str = "–";

impl Bound {
    /// Looks the panel's names up in a schema.
    pub(crate) fn new(schema: &Schema, panel: &'static Panel) -> Self {
        let table = schema.find_table(panel.table).ok();
        let columns = panel.columns.iter().map(|col| Bind::new(schema, col)).collect();
        let only = panel.only.and_then(|(path, texts)| Some((schema.find(path).ok()?, texts)));
        Self { panel, table, only, by: panel.by.and_then(|path| schema.find(path).ok()), columns }
    }

    /// The entities that are its rows, in order of their keys, numbers as numbers.
    pub(crate) fn entities<'a>(&self, window: &'a Window) -> Vec<&'a Entity> {
        let Some(table) = self.table else { return Vec::new() };
        let mut entities: Vec<&Entity> = window.entities(table).filter(|e| self.admits(window, e)).collect();
        entities.sort_by_cached_key(|e| order(e));
        entities
    }

    /// Whether an entity is one of its rows.
    pub(crate) fn admits(&self, window: &Window, entity: &Entity) -> bool {
        self.only.is_none_or(|(column, texts)| {
            window.latest(column, entity).and_then(|(_, v)| v.text()).is_some_and(|t| texts.contains(&t.as_ref()))
        })
    }

    /// The tables it reads.
    pub(crate) fn tables(&self) -> impl Iterator<Item = TableId> + '_ {
        self.table.into_iter().chain(self.columns.iter().flat_map(|bind| bind.reading.tables()))
    }
}

/// Leading digits as a number, then the text: `9@1` comes before `10@1`.
fn order(entity: &Entity) -> Vec<(u64, String)> {
    let part = |text: &str| {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        (text[..digits].parse().unwrap_or(u64::MAX), text.to_owned())
    };
    entity.iter().map(|symbol| part(symbol)).collect()
}

impl Bind {
    /// Looks a column's names up in a schema.
    pub(crate) fn new(schema: &Schema, col: &Col) -> Self {
        let reading = Reading::new(schema, &col.read).unwrap_or(Reading::Absent);
        Self { head: col.head, name: col.name, reading }
    }
}

impl Reading {
    fn new(schema: &Schema, read: &Read) -> Option<Self> {
        Some(match read {
            Read::Value(path) => Self::value(schema, path)?,
            Read::Mean(path) => {
                let column = schema.find(path).ok()?;
                Self::Mean(column, Shape::of(schema, column))
            }
            Read::Total(path) => {
                let column = schema.find(path).ok()?;
                Self::Total(column, Shape::of(schema, column))
            }
            Read::Sum(paths) => {
                let columns: Vec<ColumnRef> = paths.iter().map(|p| schema.find(p).ok()).collect::<Option<_>>()?;
                let shape = Shape::of(schema, *columns.first()?);
                Self::Sum(columns, shape)
            }
            Read::Less(all, part) => {
                let all = schema.find(all).ok()?;
                Self::Less(all, schema.find(part).ok()?, Shape::of(schema, all))
            }
            Read::Mix(number, by) => Self::Mix(schema.find(number).ok()?, schema.find(by).ok()?),
            Read::Pid(path) => Self::Pid(schema.find(path).ok()?),
            Read::Last(path) => Self::Last(schema.find(path).ok()?),
            Read::Of(key, path) => {
                let column = schema.find(path).ok()?;
                Self::Of(schema.find(key).ok()?, column, Shape::of(schema, column))
            }
            Read::Strip(parts) => {
                let found = parts.iter().filter_map(|(path, glyph)| Some((schema.find(path).ok()?, *glyph)));
                Self::Strip(found.collect())
            }
        })
    }

    /// The column of a path, if the run has it.
    pub(crate) fn value(schema: &Schema, path: &str) -> Option<Self> {
        Some(Self::at(schema, schema.find(path).ok()?))
    }

    /// A column.
    pub(crate) fn at(schema: &Schema, column: ColumnRef) -> Self {
        Self::Value(column, Shape::of(schema, column))
    }

    /// Its column, where it is one.
    pub(crate) fn column(&self) -> Option<ColumnRef> {
        match self {
            Self::Value(column, _) => Some(*column),
            Self::Absent | Self::Sum(..) | Self::Less(..) | Self::Mean(..) | Self::Total(..) | Self::Mix(..) => None,
            Self::Pid(..) | Self::Last(..) | Self::Of(..) | Self::Strip(..) => None,
        }
    }

    fn tables(&self) -> Vec<TableId> {
        match self {
            Self::Absent => Vec::new(),
            Self::Value(a, _) | Self::Mean(a, _) | Self::Total(a, _) | Self::Pid(a) | Self::Last(a) => {
                vec![a.table]
            }
            Self::Sum(columns, _) => columns.iter().map(|c| c.table).collect(),
            Self::Less(a, b, _) | Self::Mix(a, b) | Self::Of(a, b, _) => vec![a.table, b.table],
            Self::Strip(parts) => parts.iter().map(|(column, _)| column.table).collect(),
        }
    }

    /// How its numbers are shown, where they are numbers.
    pub(crate) fn shape(&self) -> Option<Shape> {
        match self {
            Self::Absent | Self::Mix(..) | Self::Pid(..) | Self::Last(..) | Self::Strip(..) => None,
            Self::Value(_, shape)
            | Self::Mean(_, shape)
            | Self::Total(_, shape)
            | Self::Sum(_, shape)
            | Self::Of(_, _, shape)
            | Self::Less(_, _, shape) => Some(*shape),
        }
    }

    /// The latest number of an entity; of a counter, its rate.
    pub(crate) fn number(&self, window: &Window, entity: &Entity) -> Option<f64> {
        let its = self.shape().map_or(entity.as_slice(), |shape| shape.entity(entity));
        let number = match self {
            Self::Absent | Self::Mix(..) | Self::Pid(..) | Self::Last(..) | Self::Strip(..) => None,
            Self::Value(column, _) => window.number(*column, its),
            Self::Mean(column, _) | Self::Total(column, _) => {
                let series = window.series(*column, its);
                let (sum, n) = series
                    .iter()
                    .map(|(_, value)| *value)
                    .filter(|value| value.is_finite())
                    .fold((0.0, 0_u32), |(sum, n), value| (sum + value, n + 1));
                let by = if matches!(self, Self::Mean(..)) { f64::from(n) } else { 1.0 };
                (n > 0).then(|| sum / by)
            }
            Self::Sum(columns, _) => columns.iter().map(|c| window.number(*c, its)).sum(),
            Self::Less(all, part, _) => Some((window.number(*all, its)? - window.number(*part, its)?).max(0.0)),
            Self::Of(key, column, _) => {
                let key = window.latest(*key, entity)?.1.text()?.clone();
                window.number(*column, &[key])
            }
        };
        number.filter(|x| x.is_finite())
    }

    /// The latest text of an entity.
    pub(crate) fn text(&self, window: &Window, entity: &Entity) -> Option<String> {
        let Self::Value(column, shape) = self else { return None };
        if !matches!(shape.kind, Kind::Key | Kind::Text) {
            return None;
        }
        Some(window.latest(*column, shape.entity(entity))?.1.text()?.to_string())
    }

    /// What stands in the cell of an entity.
    pub(crate) fn show(&self, window: &Window, entity: &Entity) -> String {
        match self {
            Self::Mix(number, by) => return show_mix(&mix(window, *number, *by, entity)),
            Self::Pid(column) => return show_pid(window, *column, entity),
            Self::Last(column) => {
                let text = window.latest(*column, entity).and_then(|(_, value)| value.text());
                let last = text.map(|path| path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path).to_owned());
                return last.unwrap_or_else(|| MISSING.to_owned());
            }
            Self::Strip(parts) => {
                let share = |column: ColumnRef| window.number(column, entity).filter(|x| x.is_finite());
                return strip(parts.iter().map(|(column, glyph)| (share(*column), *glyph)));
            }
            _ => {}
        }
        if let Some(text) = self.text(window, entity) {
            return text;
        }
        match (self.number(window, entity), self.shape()) {
            (Some(number), Some(shape)) => shape.show(number),
            _ => MISSING.to_owned(),
        }
    }

    /// Whether its cells are aligned right.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Pid(..)) || self.shape().is_some_and(|s| !matches!(s.kind, Kind::Key | Kind::Text))
    }

    /// Whether its cells may be cut: names, which are recognised by a part.
    pub(crate) fn gives_way(&self) -> bool {
        matches!(self, Self::Last(_))
            || matches!(self, Self::Value(_, shape) if matches!(shape.kind, Kind::Key | Kind::Text))
    }
}

/// Shares of a number among the texts of a column, of the entities that begin with the same keys,
/// largest first. Where they are threads of a process, its main thread alone counts: its id is the
/// process's.
pub(crate) fn mix(window: &Window, number: ColumnRef, by: ColumnRef, entity: &Entity) -> Vec<(String, f64)> {
    let mut shares: Vec<(String, f64)> = Vec::new();
    for candidate in window.entities(number.table) {
        let process = entity.first().and_then(|key| key.split_once('@'));
        let other = process
            .zip(candidate.get(entity.len()))
            .is_some_and(|((pid, _), thread)| thread.as_ref() != pid && thread.bytes().all(|b| b.is_ascii_digit()));
        if !candidate.starts_with(entity) || other {
            continue;
        }
        let Some(text) = window.latest(by, candidate).and_then(|(_, v)| v.text()) else { continue };
        let sum: f64 = window.series(number, candidate).iter().map(|(_, v)| v).filter(|v| v.is_finite()).sum();
        match shares.iter_mut().find(|(t, _)| t == text.as_ref()) {
            Some((_, total)) => *total += sum,
            None => shares.push((text.to_string(), sum)),
        }
    }
    let total: f64 = shares.iter().map(|(_, v)| v).sum();
    if total <= 0.0 {
        return Vec::new();
    }
    shares.iter_mut().for_each(|(_, v)| *v /= total);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    shares
}

/// Cells of a strip of shares.
const CELLS: f64 = 20.0;

/// Shares one after the other, a cell for each twentieth; what is not known stays free.
fn strip(parts: impl Iterator<Item = (Option<f64>, &'static str)>) -> String {
    let mut out = String::new();
    let (mut sum, mut cells, mut known) = (0.0, 0.0, false);
    for (share, glyph) in parts {
        known |= share.is_some();
        sum = (sum + share.unwrap_or(0.0).clamp(0.0, 1.0)).min(1.0);
        while cells + 0.5 < sum * CELLS {
            out.push_str(glyph);
            cells += 1.0;
        }
    }
    if known { out } else { MISSING.to_owned() }
}

/// The pid of a key `PID@START`; the whole key where the pid has been of two processes.
fn show_pid(window: &Window, column: ColumnRef, entity: &Entity) -> String {
    let Some(key) = window.latest(column, entity).and_then(|(_, value)| value.text()) else {
        return MISSING.to_owned();
    };
    let others = window.entities(column.table).filter_map(|other| window.latest(column, other)?.1.text());
    plain(key, others.map(AsRef::as_ref)).to_owned()
}

/// What stands before the `@` of a key, unless one of the others has the same there and is another.
pub(crate) fn plain<'a, 'b>(key: &'a str, others: impl Iterator<Item = &'b str>) -> &'a str {
    let Some((pid, _)) = key.split_once('@') else { return key };
    let same = |other: &str| other != key && other.split('@').next() == Some(pid);
    let mut others = others;
    if others.any(same) { key } else { pid }
}

/// The three largest shares in words: `disk 62 runnable 38`. The kernel calls a thread running that is on a CPU
/// or waits for one.
pub(crate) fn show_mix(shares: &[(String, f64)]) -> String {
    let words: Vec<String> = shares
        .iter()
        .take(3)
        .filter(|(_, share)| *share >= 0.005)
        .map(|(text, share)| (if text == "running" { "runnable" } else { text }, share))
        .map(|(text, share)| format!("{text} {:.0}", share * 100.0))
        .collect();
    if words.is_empty() { MISSING.to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_come_in_order_of_number() {
        let mut entities: Vec<Entity> = ["10@1", "9@1", "sda", ""].iter().map(|k| vec![(*k).into()]).collect();
        entities.sort_by_key(order);
        let keys: Vec<&str> = entities.iter().map(|e| e[0].as_ref()).collect();
        assert_eq!(keys, ["9@1", "10@1", "", "sda"]);
    }

    #[test]
    fn a_key_is_a_pid_unless_two_share_it() {
        assert_eq!(plain("10@1", ["10@1", "11@1"].into_iter()), "10");
        assert_eq!(plain("10@1", ["10@1", "10@9"].into_iter()), "10@1");
        assert_eq!(plain("sda", [].into_iter()), "sda");
    }

    #[test]
    fn a_strip_has_a_cell_for_each_twentieth() {
        let parts = [(Some(0.5), "█"), (None, "x"), (Some(0.02), "y"), (Some(0.25), "·")];
        assert_eq!(strip(parts.into_iter()), "██████████·····");
        assert_eq!(strip([(None, "x")].into_iter()), MISSING);
        assert_eq!(strip([(Some(7.0), "x"), (Some(f64::MAX), "y")].into_iter()), "x".repeat(20));
    }

    #[test]
    fn a_mix_says_the_largest_three() {
        let share = |text: &str, share: f64| (text.to_owned(), share);
        let shares = [share("disk", 0.62), share("running", 0.3), share("futex", 0.07), share("poll", 0.01)];
        assert_eq!(show_mix(&shares), "disk 62 runnable 30 futex 7");
        assert_eq!(show_mix(&[]), MISSING);
    }
}
