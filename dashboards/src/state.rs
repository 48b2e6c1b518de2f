//! Everything the screen shows. Events in, commands out; no file, no clock, no terminal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use feedline_traces::window::{Entity, Window};
use feedline_traces::{Schema, TableId, Tick, Ts};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, MouseEvent, MouseEventKind};
use ratatui::layout::{Position as Point, Size};

use crate::bind::{Bound, Reading};
use crate::feed::{Command, Message, Mode, Position};
use crate::keys::{self, Action};
use crate::layout::{Place, arrange};
use crate::panels::{FINDINGS_AT, FIRST_TAB, PANELS, Panel, View, WORKERS_AT};
use crate::series::Series;
use crate::slow::slowest;

/// What tables show is the last of these seconds.
const RECENT: Duration = Duration::from_secs(15);
/// Ticks kept while a live screen is held; older ones are left out when it goes on.
const HELD: usize = 900;
/// Reasons kept; what comes after is only counted.
const REASONS: usize = 512;

/// Everything that can happen.
#[derive(Debug, Clone)]
pub enum Event {
    /// The source says something.
    Message(Message),
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// The terminal has a size.
    Resize(Size),
    /// Something of Feedline itself went wrong.
    Trouble(String),
}

/// Everything the screen shows.
#[derive(Debug)]
pub struct State {
    /// Live or replay.
    pub(crate) mode: Mode,
    /// What is looked at: a job, a run folder.
    pub(crate) title: String,
    /// The panels, bound to the schema.
    pub(crate) bound: Vec<Bound>,
    /// One for each panel; only charts fill theirs.
    pub(crate) series: Vec<Series>,
    /// The last seconds of the tables on the screen.
    pub(crate) recent: Window,
    /// The verdict's columns.
    pub(crate) verdict: Verdict,
    /// What could not be known, and why.
    pub(crate) absent: BTreeMap<(String, String), String>,
    /// Reasons that did not fit.
    pub(crate) absent_more: u64,
    /// Losses and failures since the beginning.
    pub(crate) tally: Tally,
    /// The panel with the focus.
    pub(crate) focus: usize,
    /// First row shown, for each panel.
    pub(crate) scroll: Vec<usize>,
    /// Whether the keys are shown.
    pub(crate) help: bool,
    /// Where the replay is.
    pub(crate) position: Option<Position>,
    /// Why no tick follows.
    pub(crate) ended: Option<String>,
    /// What went wrong in Feedline itself.
    pub(crate) trouble: Option<String>,
    /// Whether a live screen is held.
    pub(crate) held: bool,
    /// Time of the first tick.
    pub(crate) first: Option<Ts>,
    /// Number of trainers that the job has.
    pub(crate) trainers: Reading,
    /// Panels that take the place of others once there are rows for them.
    better: Vec<Option<Bound>>,
    schema: Arc<Schema>,
    waiting: VecDeque<Arc<Tick>>,
    tables: BTreeSet<TableId>,
    absent_at: Option<[Reading; 3]>,
    tally_at: [Reading; 2],
    error_at: [Reading; 2],
    own: [Reading; 2],
    size: Size,
    dirty: bool,
}

/// Where the verdict's values are.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// The panel-like binding that gives its table.
    pub(crate) table: Option<TableId>,
    /// Sentence, advice, cause.
    pub(crate) words: [Reading; 3],
    /// Data share, low, high, confidence, accelerator idle.
    pub(crate) numbers: [Reading; 5],
    /// Rank of the trainer.
    pub(crate) rank: Reading,
    /// Cause, and its share of the last ten seconds.
    causes: [Reading; 2],
}

/// Losses and failures since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Samples and events that did not fit a buffer.
    pub(crate) drops: u64,
    /// Calls of collectors that failed.
    pub(crate) failures: u64,
    /// Ticks that the screen was too slow for.
    pub(crate) lost: u64,
}

fn reading(schema: &Schema, path: &'static str) -> Reading {
    Reading::value(schema, path).unwrap_or(Reading::Absent)
}

impl Verdict {
    fn bind(schema: &Schema) -> Self {
        Self {
            table: schema.find_table("verdict").ok(),
            words: ["verdict.text", "verdict.advice", "verdict.cause"].map(|p| reading(schema, p)),
            numbers: ["verdict.data", "verdict.low", "verdict.high", "verdict.confidence", "verdict.accelerator_idle"]
                .map(|p| reading(schema, p)),
            rank: reading(schema, "process.rank"),
            causes: ["cause.cause", "cause.share"].map(|p| reading(schema, p)),
        }
    }

    /// Of those with a verdict the trainer that the others wait for, and how long the one that waits
    /// longest does.
    pub(crate) fn slow<'a>(&self, window: &'a Window) -> Option<(&'a Entity, f64)> {
        let [cause, share] = [self.causes[0].column()?, self.causes[1].column()?];
        let lost = |trainer: &Entity| {
            let mine = window.entities(cause.table).filter(|entity| entity.first() == trainer.first());
            let is = |entity: &&Entity| {
                window.latest(cause, entity).and_then(|(_, v)| v.text()).is_some_and(|c| c.as_ref() == "imbalance")
            };
            mine.filter(is).filter_map(|entity| window.number(share, entity)).next()
        };
        let all: Vec<(&Entity, f64)> =
            window.entities(self.table?).filter_map(|trainer| Some((trainer, lost(trainer)?))).collect();
        slowest(&all)
    }

    /// The trainer to speak of: the slow one that the others wait for, else the one that waits longest
    /// for data; and how many trainers have a verdict.
    pub(crate) fn worst<'a>(&self, window: &'a Window) -> Option<(&'a Entity, usize)> {
        if let Some((slow, _)) = self.slow(window) {
            return Some((slow, window.entities(self.table?).count()));
        }
        let mut trainers = 0;
        let mut worst: Option<(&Entity, f64)> = None;
        for entity in window.entities(self.table?) {
            trainers += 1;
            let data = self.numbers[0].number(window, entity).unwrap_or(-1.0);
            if worst.is_none_or(|(_, most)| data > most) {
                worst = Some((entity, data));
            }
        }
        worst.map(|(entity, _)| (entity, trainers))
    }
}

impl State {
    /// A screen without ticks.
    #[must_use]
    pub fn new(schema: &Arc<Schema>, mode: Mode, title: impl Into<String>) -> Self {
        let bound: Vec<Bound> = PANELS.iter().map(|panel| Bound::new(schema, panel)).collect();
        let better = |panel: &Panel| Some(Bound::new(schema, panel.better?)).filter(|b| b.table.is_some());
        let better: Vec<Option<Bound>> = PANELS.iter().map(better).collect();
        let mut tables: BTreeSet<TableId> =
            bound.iter().chain(better.iter().flatten()).flat_map(Bound::tables).collect();
        tables.extend(["verdict", "own", "absent", "job", "cause"].iter().filter_map(|t| schema.find_table(t).ok()));
        let absent = ["absent.what", "absent.entity", "absent.reason"].map(|p| Reading::value(schema, p));
        let absent_at = match absent {
            [Some(what), Some(entity), Some(reason)] => Some([what, entity, reason]),
            _ => None,
        };
        Self {
            mode,
            title: title.into(),
            series: bound.iter().map(|_| Series::default()).collect(),
            scroll: vec![0; bound.len()],
            bound,
            recent: Window::new(schema, RECENT),
            verdict: Verdict::bind(schema),
            absent: BTreeMap::new(),
            absent_more: 0,
            tally: Tally::default(),
            focus: WORKERS_AT,
            help: false,
            position: None,
            ended: None,
            trouble: None,
            held: false,
            first: None,
            trainers: reading(schema, "job.trainers"),
            better,
            schema: Arc::clone(schema),
            waiting: VecDeque::new(),
            tables,
            absent_at,
            tally_at: ["health.drops", "health.failures"].map(|p| reading(schema, p)),
            error_at: ["health.collector", "health.error"].map(|p| reading(schema, p)),
            own: ["own.cpu", "own.rss"].map(|p| reading(schema, p)),
            size: Size::new(80, 24),
            dirty: true,
        }
    }

    /// Takes an event in; what it asks of the source comes out.
    pub fn update(&mut self, event: Event) -> Option<Command> {
        match event {
            Event::Message(message) => {
                self.hear(message);
                None
            }
            Event::Key(key) if key.kind == KeyEventKind::Release => None,
            Event::Key(key) if self.help && key.code == KeyCode::Esc => self.act(Action::Help),
            Event::Key(key) => keys::action(self.mode, key).and_then(|action| self.act(action)),
            Event::Mouse(mouse) => {
                self.point(mouse);
                None
            }
            Event::Trouble(trouble) => {
                self.dirty |= self.trouble.as_ref() != Some(&trouble);
                self.trouble = Some(trouble);
                None
            }
            Event::Resize(size) => {
                self.dirty |= size != self.size;
                self.size = size;
                None
            }
        }
    }

    /// Whether anything has changed since this was last asked.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    fn hear(&mut self, message: Message) {
        self.dirty = true;
        match message {
            Message::Tick(tick) if self.held => {
                self.dirty = false;
                self.waiting.push_back(tick);
                if self.waiting.len() > HELD {
                    self.waiting.pop_front();
                    self.tally.lost += 1;
                }
            }
            Message::Tick(tick) => self.take(&tick),
            Message::Reset => {
                self.recent = Window::new(&self.schema, RECENT);
                self.series.iter_mut().for_each(Series::clear);
                self.ended = None;
            }
            Message::Position(position) => {
                self.dirty = self.position != Some(position);
                self.position = Some(position);
            }
            Message::Lost(lost) => self.tally.lost = self.tally.lost.max(lost),
            Message::End(why) => self.ended = Some(why),
        }
    }

    fn take(&mut self, tick: &Tick) {
        self.first.get_or_insert(tick.at);
        let known = |b: &&feedline_traces::Batch| self.tables.contains(&b.table);
        let tick = Tick { at: tick.at, batches: tick.batches.iter().filter(known).cloned().collect() };
        self.recent.accept(&tick);
        for (at, better) in self.better.iter_mut().enumerate() {
            let come = better.as_ref().and_then(|b| b.table).is_some_and(|table| tick.batch(table).is_some());
            if let Some(better) = better.take_if(|_| come) {
                self.bound[at] = better;
                self.series[at] = Series::default();
            }
        }
        for (bound, series) in self.bound.iter().zip(&mut self.series) {
            if matches!(bound.panel.view, View::Stack | View::Lines | View::Bars) {
                series.accept(bound, &self.recent, &tick);
            }
        }
        self.note_absent(&tick);
        self.note_errors(&tick);
        self.count(&tick);
    }

    fn note_absent(&mut self, tick: &Tick) {
        let Some([Reading::Value(what, _), Reading::Value(entity, _), Reading::Value(reason, _)]) = &self.absent_at
        else {
            return;
        };
        let Some(batch) = tick.batch(what.table) else { return };
        let mut reasons = Vec::new();
        for row in 0..batch.len() {
            let text = |column: usize| {
                batch.columns.get(column).and_then(|c| c.text(row)).map(ToString::to_string).unwrap_or_default()
            };
            reasons.push(((text(what.column), text(entity.column)), text(reason.column)));
        }
        reasons.into_iter().for_each(|(key, reason)| self.give_reason(key, reason));
    }

    /// The last error of each collector stands among the reasons: what it did not read is missing.
    fn note_errors(&mut self, tick: &Tick) {
        let [Reading::Value(collector, _), Reading::Value(error, _)] = self.error_at else { return };
        let Some(batch) = tick.batch(collector.table) else { return };
        let text = |column: usize, row| batch.columns.get(column).and_then(|c| c.text(row)).map(ToString::to_string);
        for row in 0..batch.len() {
            if let (Some(name), Some(error)) = (text(collector.column, row), text(error.column, row)) {
                self.give_reason((format!("collector `{name}`"), String::new()), format!("last error: {error}"));
            }
        }
    }

    fn give_reason(&mut self, key: (String, String), reason: String) {
        if self.absent.len() >= REASONS && !self.absent.contains_key(&key) {
            self.absent_more += 1;
        } else {
            self.absent.insert(key, reason);
        }
    }

    fn count(&mut self, tick: &Tick) {
        let sum = |reading: &Reading| match reading {
            Reading::Value(column, _) => tick.batch(column.table).map_or(0, |batch| {
                let Some(values) = batch.columns.get(column.column) else { return 0 };
                let whole = |row| values.number(row).filter(|x| x.is_finite() && *x > 0.0).map_or(0, round);
                (0..batch.len()).map(whole).fold(0_u64, u64::saturating_add)
            }),
            _ => 0,
        };
        self.tally.drops = self.tally.drops.saturating_add(sum(&self.tally_at[0]));
        self.tally.failures = self.tally.failures.saturating_add(sum(&self.tally_at[1]));
    }

    /// Feedline's own CPU and memory, as shown.
    pub(crate) fn own(&self) -> [Option<String>; 2] {
        let Some(table) = self.own.iter().find_map(Reading::column).map(|c| c.table) else { return [None, None] };
        let entity = self.recent.entities(table).next();
        [0, 1].map(|i| entity.map(|entity| self.own[i].show(&self.recent, entity)))
    }

    /// The panels that can have the focus.
    pub(crate) fn tabs() -> std::ops::Range<usize> {
        FIRST_TAB..PANELS.len()
    }

    /// Rows that a panel has.
    pub(crate) fn rows(&self, panel: usize) -> usize {
        match self.bound[panel].panel.view {
            View::Absent => self.absent.len(),
            View::Findings => self.findings().len(),
            _ => self.bound[panel].entities(&self.recent).len(),
        }
    }

    /// What is found at the moment, the costliest first.
    pub(crate) fn findings(&self) -> Vec<&Entity> {
        let bound = &self.bound[FINDINGS_AT];
        let column = |at: usize| bound.columns.get(at).and_then(|c| c.reading.column());
        let (Some(table), Some(kind), Some(severity)) = (bound.table, column(0), column(1)) else { return Vec::new() };
        let now = self.recent.now();
        let holds = |entity: &&Entity| self.recent.latest(kind, entity).is_some_and(|(at, _)| at >= now);
        let mut found: Vec<&Entity> = self.recent.entities(table).filter(holds).collect();
        let cost = |entity: &Entity| self.recent.number(severity, entity).filter(|x| x.is_finite()).unwrap_or(-1.0);
        found.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        found
    }

    /// Trainers with a verdict, and trainers that the job has.
    pub(crate) fn judged(&self) -> (usize, Option<usize>) {
        let judged = self.verdict.table.map_or(0, |table| self.recent.entities(table).count());
        let all = self.trainers.column().and_then(|column| {
            let entity = self.recent.entities(column.table).next()?;
            self.trainers.number(&self.recent, entity)
        });
        (judged, all.map(round).and_then(|all| usize::try_from(all).ok()))
    }

    fn act(&mut self, action: Action) -> Option<Command> {
        self.dirty = true;
        match action {
            Action::Quit => return Some(Command::Quit),
            Action::Help => self.help = !self.help,
            Action::Pause if self.mode == Mode::Live => self.hold(),
            Action::Pause => {
                let paused = self.position.is_some_and(|p| p.paused);
                return Some(if paused { Command::Resume } else { Command::Pause });
            }
            Action::Seek(seconds) => return Some(Command::Seek(seconds)),
            Action::Start => return Some(Command::Start),
            Action::End => return Some(Command::End),
            Action::Faster => return Some(Command::Faster),
            Action::Slower => return Some(Command::Slower),
            Action::Next => self.focus = if self.focus + 1 < PANELS.len() { self.focus + 1 } else { FIRST_TAB },
            Action::Previous => self.focus = if self.focus > FIRST_TAB { self.focus - 1 } else { PANELS.len() - 1 },
            Action::Scroll(rows) => self.roll(self.focus, rows),
        }
        None
    }

    /// Holds a live screen; going on takes in what came meanwhile.
    fn hold(&mut self) {
        self.held = !self.held;
        if !self.held {
            for tick in std::mem::take(&mut self.waiting) {
                self.take(&tick);
            }
        }
    }

    /// Ticks that came while the screen is held.
    pub(crate) fn behind(&self) -> usize {
        self.waiting.len()
    }

    /// Scrolls, but not past the row from which on all the rest fits.
    fn roll(&mut self, panel: usize, rows: i16) {
        let last = self.last_first(panel);
        self.scroll[panel] = self.scroll[panel].min(last).saturating_add_signed(rows.into()).min(last);
    }

    /// The last row that can be the first one shown, on the screen as it is.
    fn last_first(&self, panel: usize) -> usize {
        let places = arrange(self.size, self.focus);
        let height = places.into_iter().find_map(|(place, area)| match place {
            Place::Panel(at) if at == panel => Some(area.height.saturating_sub(1)),
            Place::Tabbed(at) if at == panel => Some(area.height),
            _ => None,
        });
        let heads = u16::from(self.bound[panel].panel.view == View::Table);
        // A finding takes as many lines as its sentences need; the last one may come to the top.
        let fit = match self.bound[panel].panel.view {
            View::Findings => 1,
            _ => usize::from(height.unwrap_or(0).saturating_sub(heads)).max(1),
        };
        self.rows(panel).saturating_sub(fit)
    }

    /// The first row of a panel to be shown.
    pub(crate) fn top(&self, panel: usize) -> usize {
        self.scroll[panel].min(self.last_first(panel))
    }

    fn point(&mut self, mouse: MouseEvent) {
        let at = Point::new(mouse.column, mouse.row);
        let under = arrange(self.size, self.focus).into_iter().find_map(|(place, area)| match place {
            Place::Panel(panel) | Place::Tabbed(panel) if area.contains(at) && Self::tabs().contains(&panel) => {
                Some(panel)
            }
            _ => None,
        });
        let Some(panel) = under else { return };
        match mouse.kind {
            MouseEventKind::ScrollDown => self.roll(panel, 1),
            MouseEventKind::ScrollUp => self.roll(panel, -1),
            MouseEventKind::Down(_) => self.focus = panel,
            _ => return,
        }
        self.dirty = true;
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and finite; the cast saturates")]
fn round(number: f64) -> u64 {
    number.round() as u64
}
