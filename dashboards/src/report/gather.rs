//! From ticks to sums: bounded by what is alive and by limits, not by the length of the run.

use std::collections::BTreeMap;
use std::time::Duration;

use feedline_traces::unit::Unit;
use feedline_traces::window::{Entity, Window};
use feedline_traces::{Kind, Schema, Tick, Ts};

use super::fine::{Fine, slow_of};
use super::inside::{Inside, is_main};
use super::rows::{NAMES, RowsOf, keep};
use super::stat::{Stat, whole};
use super::{Collector, Entry, Measured, Own, Reason, Report, Section, Stall, Step, Trainer, Verdict, utc};
use crate::bind::{Bound, Reading, Shape};
use crate::panels::{
    ACCELERATORS, CGROUP, DISKS, MOUNTS, NETWORK, PRESSURE, Panel, REGIONS, TRAINER_PROCESSES, WORKERS,
};

/// Long enough to hold two rows of the slowest collector.
const SPAN: Duration = Duration::from_secs(60);
/// Things a section keeps; what comes after is counted.
const ENTRIES: usize = 256;

/// The sections, by their name in the report.
const SECTIONS: &[(&str, Panel)] = &[
    ("trainers", TRAINER_PROCESSES),
    ("workers", WORKERS),
    ("regions", REGIONS),
    ("disks", DISKS),
    ("mounts", MOUNTS),
    ("network", NETWORK),
    ("accelerators", ACCELERATORS),
    ("pressure", PRESSURE),
    ("cgroup", CGROUP),
];

#[derive(Debug, Default)]
struct Seen {
    at: Option<Ts>,
    stats: Vec<Stat>,
    labels: Vec<Option<String>>,
}

#[derive(Debug)]
struct Table {
    name: &'static str,
    bound: Bound,
    seen: BTreeMap<Entity, Seen>,
    left_out: u64,
}

/// What is summed of the run so far.
#[derive(Debug)]
pub(crate) struct Gather {
    title: String,
    /// Notes to print.
    pub(crate) notes: Vec<String>,
    first: Option<Ts>,
    last: Ts,
    ticks: u64,
    window: Option<Window>,
    tables: Vec<Table>,
    verdicts: BTreeMap<String, Verdict>,
    stalls: BTreeMap<(String, String), [Stat; 4]>,
    steps: BTreeMap<String, [Stat; 3]>,
    fine: Fine,
    inside: Inside,
    states: BTreeMap<(String, String), f64>,
    absent: BTreeMap<(String, String), String>,
    collectors: BTreeMap<String, Collector>,
    own: Option<[Reading; 2]>,
    own_at: Option<Ts>,
    own_stats: [Stat; 2],
}

impl Gather {
    pub(crate) fn new(title: String) -> Self {
        Self {
            title,
            notes: Vec::new(),
            first: None,
            last: Ts::default(),
            ticks: 0,
            window: None,
            tables: Vec::new(),
            verdicts: BTreeMap::new(),
            stalls: BTreeMap::new(),
            steps: BTreeMap::new(),
            fine: Fine::default(),
            inside: Inside::default(),
            states: BTreeMap::new(),
            absent: BTreeMap::new(),
            collectors: BTreeMap::new(),
            own: None,
            own_at: None,
            own_stats: [Stat::default(); 2],
        }
    }

    pub(crate) fn accept(&mut self, schema: &Schema, tick: &Tick) {
        self.first.get_or_insert(tick.at);
        self.last = self.last.max(tick.at);
        self.ticks += 1;
        self.conclusions(schema, tick);
        self.fine.accept(schema, tick);
        self.inside.accept(schema, tick);
        self.lists(schema, tick);
        self.measure(schema, tick);
    }

    fn bind(&mut self, schema: &Schema) -> Window {
        self.tables = SECTIONS
            .iter()
            .map(|(name, panel)| Table { name, bound: Bound::new(schema, panel), seen: BTreeMap::new(), left_out: 0 })
            .collect();
        let own = ["own.cpu", "own.rss"].map(|path| Reading::value(schema, path).unwrap_or(Reading::Absent));
        self.own = Some(own);
        Window::new(schema, SPAN)
    }

    fn measure(&mut self, schema: &Schema, tick: &Tick) {
        let mut window = self.window.take().unwrap_or_else(|| self.bind(schema));
        let mut wanted: Vec<_> = self.tables.iter().flat_map(|t| t.bound.tables()).collect();
        wanted.extend(schema.find_table("own"));
        let batches = tick.batches.iter().filter(|b| wanted.contains(&b.table)).cloned().collect();
        window.accept(&Tick { at: tick.at, batches });
        for table in &mut self.tables {
            let Some(id) = table.bound.table else { continue };
            if tick.batch(id).is_none() {
                continue;
            }
            for entity in table.bound.entities(&window) {
                let full = table.seen.len() >= ENTRIES && !table.seen.contains_key(entity);
                if full {
                    table.left_out += u64::from(is_new(&table.bound, &window, entity));
                    continue;
                }
                let seen = table.seen.entry(entity.clone()).or_default();
                look_at(&table.bound, &window, entity, seen);
            }
        }
        if let Some(own) = &self.own
            && let Some(column) = own.iter().find_map(Reading::column)
            && tick.batch(column.table).is_some()
            && let Some(entity) = window.entities(column.table).next()
        {
            let seconds = self.own_at.map_or(0.0, |at| tick.at.seconds_since(at));
            self.own_stats[0].add(own[0].number(&window, entity).unwrap_or(f64::NAN), seconds);
            self.own_stats[1].add(own[1].number(&window, entity).unwrap_or(f64::NAN), 1.0);
            self.own_at = Some(tick.at);
        }
        self.window = Some(window);
    }

    fn conclusions(&mut self, schema: &Schema, tick: &Tick) {
        if let Some(rows) = RowsOf::of(schema, tick, "verdict") {
            for row in 0..rows.len() {
                let Some(process) = rows.text(row, "process") else { continue };
                if self.verdicts.len() < ENTRIES || self.verdicts.contains_key(&process) {
                    self.verdicts.insert(process.clone(), verdict(&rows, row, process));
                }
            }
        }
        if let Some(rows) = RowsOf::of(schema, tick, "stall") {
            for row in 0..rows.len() {
                let (Some(process), Some(cause)) = (rows.text(row, "process"), rows.text(row, "cause")) else {
                    continue;
                };
                let key = (process, cause);
                if self.stalls.len() < NAMES || self.stalls.contains_key(&key) {
                    let stats = self.stalls.entry(key).or_default();
                    for (stat, column) in stats.iter_mut().zip(["share", "low", "high", "confidence"]) {
                        stat.add(rows.number(row, column).unwrap_or(f64::NAN), 1.0);
                    }
                }
            }
        }
        if let Some(rows) = RowsOf::of(schema, tick, "step") {
            for row in 0..rows.len() {
                let Some(process) = rows.text(row, "process") else { continue };
                if self.steps.len() < ENTRIES || self.steps.contains_key(&process) {
                    let stats = self.steps.entry(process).or_default();
                    for (stat, column) in stats.iter_mut().zip(["period", "wait", "confidence"]) {
                        stat.add(rows.number(row, column).unwrap_or(f64::NAN), 1.0);
                    }
                }
            }
        }
    }

    fn lists(&mut self, schema: &Schema, tick: &Tick) {
        if let Some(rows) = RowsOf::of(schema, tick, "absent") {
            for row in 0..rows.len() {
                let text = |column| rows.text(row, column).unwrap_or_default();
                keep(&mut self.absent, (text("what"), text("entity")), |reason| *reason = text("reason"));
            }
        }
        if let Some(rows) = RowsOf::of(schema, tick, "activity") {
            for row in 0..rows.len() {
                let (Some(process), Some(state)) = (rows.text(row, "process"), rows.text(row, "state")) else {
                    continue;
                };
                // Threads of a trainer beside its main one are told by themselves.
                if rows.text(row, "thread").is_some_and(|thread| !is_main(&process, &thread)) {
                    continue;
                }
                let samples = rows.number(row, "samples").unwrap_or(0.0).max(0.0);
                keep(&mut self.states, (process, state), |sum| *sum += samples);
            }
        }
        if let Some(rows) = RowsOf::of(schema, tick, "health") {
            for row in 0..rows.len() {
                let Some(name) = rows.text(row, "collector") else { continue };
                keep(&mut self.collectors, name, |collector| account(collector, &rows, row));
            }
        }
    }

    /// The report.
    pub(crate) fn report(&self) -> Report {
        let mut sections: BTreeMap<&'static str, Section> =
            self.tables.iter().map(|table| (table.name, self.section(table))).collect();
        for (name, _) in SECTIONS {
            let nothing = Section { recorded: false, entries: Vec::new(), left_out: 0 };
            sections.entry(name).or_insert(nothing);
        }
        let trainers = sections.remove("trainers").map(|s| s.entries).unwrap_or_default();
        let worst = self.verdicts.values().max_by(|a, b| {
            a.data.unwrap_or(-1.0).total_cmp(&b.data.unwrap_or(-1.0)).then_with(|| b.process.cmp(&a.process))
        });
        let slow = self.fine.slow();
        let worst = slow.and_then(|(process, _)| self.verdicts.get(process)).or(worst);
        let trainers = self.trainers(trainers);
        Report {
            format: 1,
            title: self.title.clone(),
            started: self.first.map(utc),
            ended: self.first.map(|_| utc(self.last)),
            seconds: self.first.map_or(0.0, |first| self.last.seconds_since(first)),
            ticks: self.ticks,
            verdict: worst.cloned(),
            slow: slow.map(|(process, lost)| slow_of(&trainers, process, lost)),
            trainers,
            findings: self.fine.found(self.last),
            sections,
            absent: self
                .absent
                .iter()
                // An empty reason takes an earlier one back.
                .filter(|(_, reason)| !reason.is_empty())
                .map(|((what, entity), reason)| Reason {
                    what: what.clone(),
                    entity: entity.clone(),
                    reason: reason.clone(),
                })
                .collect(),
            own: self.own_cost(),
            notes: self.notes.clone(),
        }
    }

    /// Trainers among the processes, and those known only from conclusions.
    fn trainers(&self, mut entries: Vec<Entry>) -> Vec<Trainer> {
        let concluded = self.verdicts.keys().chain(self.stalls.keys().map(|(p, _)| p)).chain(self.steps.keys());
        for process in concluded.chain(self.fine.trainers()) {
            if !entries.iter().any(|e| e.entity == *process) {
                entries.push(Entry { entity: process.clone(), ..Entry::default() });
            }
        }
        let only = entries.len() == 1;
        let number = |entry: &Entry, label: &str| entry.labels.get(label).and_then(|text| text.parse().ok());
        entries
            .into_iter()
            .map(|entry| {
                let stalls = self.stalls.iter().filter(|((process, _), _)| *process == entry.entity);
                let mut stall: Vec<Stall> = stalls.map(|((_, cause), stats)| stall_of(cause, stats)).collect();
                stall.sort_by_key(|s| crate::widgets::look::rank(&s.cause));
                let step = self.steps.get(&entry.entity).map(|stats| Step {
                    period: stats[0].mean(),
                    shortest: stats[0].least,
                    longest: stats[0].peak,
                    wait: stats[1].mean(),
                    confidence: stats[2].mean(),
                });
                let causes_detail = self.fine.causes_of(&entry.entity);
                Trainer {
                    process: entry.entity.clone(),
                    rank: number(&entry, "rank"),
                    local_rank: number(&entry, "local_rank"),
                    verdict: self.verdicts.get(&entry.entity).cloned(),
                    causes: causes_detail.iter().filter_map(|c| Some((c.cause.clone(), c.share?))).collect(),
                    causes_detail,
                    workers: self.fine.workers_of(&entry.entity, only),
                    threads: self.inside.threads_of(&entry.entity),
                    waits: self.inside.waits_of(&entry.entity),
                    saves: self.inside.saves_of(&entry.entity),
                    stall,
                    step,
                    entry,
                }
            })
            .collect()
    }

    fn section(&self, table: &Table) -> Section {
        let entries = table.seen.iter().map(|(entity, seen)| self.entry(table, entity, seen)).collect();
        Section { recorded: table.bound.table.is_some(), entries, left_out: table.left_out }
    }

    fn entry(&self, table: &Table, entity: &Entity, seen: &Seen) -> Entry {
        let mut entry = Entry { entity: entity.join("/"), ..Entry::default() };
        if table.bound.panel.only.is_some() {
            let mine = self.states.iter().filter(|((process, _), _)| *process == entry.entity);
            let sums: Vec<(&str, f64)> = mine.map(|((_, state), sum)| (state.as_str(), *sum)).collect();
            let total: f64 = sums.iter().map(|(_, sum)| sum).sum();
            if total > 0.0 {
                entry.states = sums.into_iter().map(|(state, sum)| (state.to_owned(), sum / total)).collect();
            }
        }
        for (position, bind) in table.bound.columns.iter().enumerate() {
            if let Some(Some(label)) = seen.labels.get(position) {
                entry.labels.insert(bind.name.to_owned(), label.clone());
                entry.cells.push((bind.head.to_owned(), label.clone(), bind.reading.is_number()));
            } else if let (Some(stat), Some(shape)) = (seen.stats.get(position), bind.reading.shape())
                && shape.is_measured()
            {
                entry.values.insert(bind.name.to_owned(), measured(*stat, shape));
                entry.cells.push((bind.head.to_owned(), shape.show(stat.mean().unwrap_or(f64::NAN)), true));
            }
        }
        entry
    }

    fn own_cost(&self) -> Own {
        let collectors: Vec<Collector> =
            self.collectors.iter().map(|(name, c)| Collector { collector: name.clone(), ..c.clone() }).collect();
        let sum = |count: fn(&Collector) -> u64| collectors.iter().map(count).fold(0, u64::saturating_add);
        Own {
            cpu: self.own_stats[0].mean().map(|nanos| nanos / 1e9),
            rss_peak: self.own_stats[1].peak,
            drops: sum(|c| c.drops),
            failures: sum(|c| c.failures),
            skipped: sum(|c| c.skipped),
            collectors,
        }
    }
}

/// Whether the window has a single row of it.
fn is_new(bound: &Bound, window: &Window, entity: &Entity) -> bool {
    let column = bound.columns.iter().find_map(|c| c.reading.column().filter(|c| Some(c.table) == bound.table));
    column.is_some_and(|column| window.series(column, entity).len() == 1)
}

/// Takes in the latest row of an entity, once.
fn look_at(bound: &Bound, window: &Window, entity: &Entity, seen: &mut Seen) {
    let column = bound.columns.iter().find_map(|c| c.reading.column().filter(|c| Some(c.table) == bound.table));
    let Some((at, _)) = column.and_then(|column| window.latest(column, entity)) else { return };
    if seen.at.is_some_and(|before| at <= before) {
        return;
    }
    let seconds = seen.at.map_or(0.0, |before| at.seconds_since(before));
    seen.at = Some(at);
    seen.stats.resize(bound.columns.len(), Stat::default());
    seen.labels.resize(bound.columns.len(), None);
    for (position, bind) in bound.columns.iter().enumerate() {
        let reading = &bind.reading;
        match reading.shape().map(|s| s.kind) {
            Some(Kind::Key | Kind::Text) => {
                if let Some(text) = reading.text(window, entity) {
                    seen.labels[position] = Some(text);
                }
            }
            Some(Kind::Id) => {
                if let Some(number) = reading.number(window, entity) {
                    seen.labels[position] = Some(format!("{number:.0}"));
                }
            }
            Some(kind) => {
                let weight = if kind == Kind::Counter { seconds } else { 1.0 };
                seen.stats[position].add(reading.number(window, entity).unwrap_or(f64::NAN), weight);
            }
            None => {}
        }
    }
}

fn measured(stat: Stat, shape: Shape) -> Measured {
    let rate = shape.kind == Kind::Counter;
    let (scale, unit) = match (shape.unit, rate) {
        (Unit::Nanos, true) => (1e-9, "ratio".to_owned()),
        (Unit::Count | Unit::None, true) => (1.0, "per_second".to_owned()),
        (Unit::Count | Unit::None, false) => (1.0, "count".to_owned()),
        (unit, true) => (1.0, format!("{}_per_second", unit.suffix())),
        (unit, false) => (1.0, unit.suffix().to_owned()),
    };
    Measured { mean: stat.mean().map(|x| x * scale), peak: stat.peak.map(|x| x * scale), unit }
}

fn stall_of(cause: &str, [share, low, high, confidence]: &[Stat; 4]) -> Stall {
    Stall {
        cause: cause.to_owned(),
        share: share.mean(),
        low: low.mean(),
        high: high.mean(),
        confidence: confidence.mean(),
        windows: whole(share.weight),
    }
}

fn verdict(rows: &RowsOf<'_>, row: usize, process: String) -> Verdict {
    Verdict {
        process,
        cause: rows.text(row, "cause"),
        data: rows.number(row, "data"),
        low: rows.number(row, "low"),
        high: rows.number(row, "high"),
        confidence: rows.number(row, "confidence"),
        accelerator_idle: rows.number(row, "accelerator_idle"),
        text: rows.text(row, "text"),
        advice: rows.text(row, "advice"),
    }
}

fn account(collector: &mut Collector, rows: &RowsOf<'_>, row: usize) {
    let count = |column| whole(rows.number(row, column).unwrap_or(0.0));
    collector.cost += rows.number(row, "cost").unwrap_or(0.0).max(0.0);
    if let Some(late) = rows.number(row, "late") {
        collector.late_peak = Some(collector.late_peak.map_or(late, |peak| peak.max(late)));
    }
    collector.rows = collector.rows.saturating_add(count("rows"));
    collector.drops = collector.drops.saturating_add(count("drops"));
    collector.failures = collector.failures.saturating_add(count("failures"));
    collector.skipped = collector.skipped.saturating_add(count("skipped"));
    if let Some(error) = rows.text(row, "error") {
        collector.error = Some(error);
    }
}
