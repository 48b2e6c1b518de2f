//! The screen, drawn from the state alone.

use feedline_traces::Ts;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Widget, Wrap};

use crate::bind::{Bind, Bound, Reading, plain};
use crate::feed::{Mode, Position};
use crate::keys::bindings;
use crate::layout::{Place, arrange};
use crate::panels::{PANELS, View};
use crate::state::{State, Tally};
use crate::verdict;
use crate::widgets::bars::{self, Bar};
use crate::widgets::grid::{self, Grid};
use crate::widgets::look::{Look, Tone};
use crate::widgets::{area, lines, look};

/// Draws the whole screen.
pub fn draw(state: &State, look: Look, frame: &mut Frame<'_>) {
    let whole = frame.area();
    let buf = frame.buffer_mut();
    let places = arrange(whole.as_size(), state.focus);
    for (place, area) in &places {
        match place {
            Place::Header => header(state, look, *area, buf),
            Place::Verdict => verdict(state, look, *area, buf),
            Place::Tabs => {
                let below = places.iter().find(|(place, _)| matches!(place, Place::Tabbed(_)));
                tabs(state, look, below.map_or(0, |(_, area)| area.height), *area, buf);
            }
            Place::Panel(at) => panel(state, *at, look, frame_of(state, *at, look, *area, buf), buf),
            Place::Tabbed(at) => panel(state, *at, look, *area, buf),
            Place::Status => status(state, look, *area, buf),
        }
    }
    if state.help {
        help(state.mode, look, whole, buf);
    }
}

fn header(state: &State, look: Look, area: Rect, buf: &mut Buffer) {
    let now = state.recent.now();
    let right = match (state.mode, state.first) {
        (_, None) => "waiting for the first tick".to_owned(),
        (Mode::Live, Some(first)) => {
            let held = if state.held { format!("paused, {} ticks behind · ", state.behind()) } else { String::new() };
            let ended = if state.ended.is_some() { "ENDED" } else { "live" };
            format!("{held}{ended} {} UTC · {}", time_of_day(now), span(now.seconds_since(first)))
        }
        (Mode::Replay, Some(_)) => format!("replay {} UTC", time_of_day(now)),
    };
    let title = Line::from(vec![Span::styled("feedline ", look.of(Tone::Strong)), Span::raw(state.title.as_str())]);
    let wide = u16::try_from(right.chars().count()).unwrap_or(u16::MAX).min(area.width);
    let left = Rect { width: area.width.saturating_sub(wide + 1), ..area };
    title.render(left, buf);
    let tone = if state.held { Tone::Warn } else { Tone::Dim };
    let x = area.right() - wide;
    buf.set_stringn(x, area.y, right, wide.into(), look.of(tone));
}

/// Hours, minutes and seconds of the day.
pub(crate) fn time_of_day(at: Ts) -> String {
    let seconds = at.0.div_euclid(1_000_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Minutes and seconds.
pub(crate) fn span(seconds: f64) -> String {
    let whole = feedline_traces::unit::Unit::Count;
    if !seconds.is_finite() {
        return whole.show(f64::NAN);
    }
    let minutes = (seconds / 60.0).floor();
    format!("{minutes:.0}:{:02.0}", (seconds - minutes * 60.0).floor())
}

fn verdict(state: &State, look: Look, area: Rect, buf: &mut Buffer) {
    for (y, (text, tone)) in (area.y..).zip(verdict::said(state, area.width.into(), area.height.into())) {
        buf.set_stringn(area.x, y, text, area.width.into(), look.of(tone));
    }
}

fn tabs(state: &State, look: Look, height: u16, area: Rect, buf: &mut Buffer) {
    // Scrolled so that the focus and what follows it are in sight.
    let count = count(state, state.focus, height);
    let more = count.chars().count();
    let title = |at: usize| state.bound[at].panel.title;
    let width = |at: usize| title(at).chars().count() + 3 + if at == state.focus { more } else { 0 };
    let mut first = State::tabs().start;
    while first < state.focus && (first..=state.focus).map(width).sum::<usize>() > usize::from(area.width) {
        first += 1;
    }
    let spans: Vec<Span<'_>> = (first..PANELS.len())
        .flat_map(|at| {
            let title = title(at);
            if at == state.focus {
                [Span::styled(format!("[{title}{count}]"), look.of(Tone::Focus)), Span::raw(" ")]
            } else {
                [Span::styled(format!(" {title} "), look.of(Tone::Dim)), Span::raw(" ")]
            }
        })
        .collect();
    Line::from(spans).render(area, buf);
}

fn panel(state: &State, at: usize, look: Look, inner: Rect, buf: &mut Buffer) {
    let bound = &state.bound[at];
    if inner.is_empty() {
        return;
    }
    if bound.table.is_none() && bound.panel.view != View::Absent {
        return note("not recorded", look, inner, buf);
    }
    match bound.panel.view {
        View::Stack | View::Lines | View::Bars if state.series[at].names.is_empty() => {
            note(&why_empty(state, bound), look, inner, buf);
        }
        View::Stack => area::draw(&state.series[at], look, inner, buf),
        View::Lines => {
            if let Some(shape) = bound.columns.iter().find_map(|c| c.reading.shape()) {
                lines::draw(&state.series[at], shape, look, inner, buf);
            }
        }
        View::Bars => bars::draw(&bars_of(state, bound), look, inner, buf),
        View::Table => table(state, at, look, inner, buf),
        View::Findings => findings(state, at, look, inner, buf),
        View::Absent => absent(state, at, look, inner, buf),
    }
}

/// Which rows of how many are seen in a height.
fn count(state: &State, at: usize, height: u16) -> String {
    let total = if State::tabs().contains(&at) { state.rows(at) } else { 0 };
    let view = state.bound[at].panel.view;
    let heads = u16::from(view == View::Table);
    let shown = usize::from(height.saturating_sub(heads)).max(1);
    let first = state.top(at);
    match total {
        0 => String::new(),
        total if view == View::Findings && first > 0 => format!(" {} of {total}", first + 1),
        total if view == View::Findings => format!(" ({total})"),
        total if total > shown => format!(" {}–{} of {total}", first + 1, (first + shown).min(total)),
        total => format!(" ({total})"),
    }
}

/// The rule with the title; what is left is for the panel.
fn frame_of(state: &State, at: usize, look: Look, area: Rect, buf: &mut Buffer) -> Rect {
    let focus = State::tabs().contains(&at) && at == state.focus;
    let tone = if focus { Tone::Focus } else { Tone::Strong };
    let mark = if focus { "▸ " } else { "" };
    let count = count(state, at, area.height.saturating_sub(1));
    let title = Line::from(vec![
        Span::styled(format!("{mark}{}", state.bound[at].panel.title), look.of(tone)),
        Span::styled(format!("{count} "), look.of(Tone::Dim)),
    ]);
    let block = Block::new().borders(Borders::TOP).border_style(look.of(Tone::Dim)).title(title);
    let inner = block.inner(area);
    block.render(area, buf);
    inner
}

fn note(text: &str, look: Look, area: Rect, buf: &mut Buffer) {
    Paragraph::new(text).style(look.of(Tone::Dim)).wrap(Wrap { trim: true }).render(area, buf);
}

/// Why a recorded table has no rows: the reason given, where one was.
fn why_empty(state: &State, bound: &Bound) -> String {
    let table = bound.panel.table;
    let about = |what: &str| what == table || what.split('.').next() == Some(table);
    match state.absent.iter().find(|((what, _), _)| about(what)) {
        Some((_, reason)) => format!("none: {reason}"),
        None if bound.panel.only.is_some() => "none seen".to_owned(),
        None => "no rows yet".to_owned(),
    }
}

fn bars_of(state: &State, bound: &Bound) -> Vec<Bar> {
    let Some(by) = bound.by else { return Vec::new() };
    let mut sums: Vec<(String, [f64; 3], [u32; 3])> = Vec::new();
    for entity in bound.entities(&state.recent) {
        let Some(name) = state.recent.latest(by, entity).and_then(|(_, v)| v.text()) else { continue };
        let at = sums.iter().position(|(n, ..)| n == name.as_ref()).unwrap_or_else(|| {
            sums.push((name.to_string(), [0.0; 3], [0; 3]));
            sums.len() - 1
        });
        for (i, bind) in bound.columns.iter().take(3).enumerate() {
            if let Some(number) = bind.reading.number(&state.recent, entity) {
                sums[at].1[i] += number;
                sums[at].2[i] += 1;
            }
        }
    }
    sums.sort_by_key(|(name, ..)| look::rank(name));
    let mean = |sum: f64, n: u32| (n > 0).then(|| sum / f64::from(n));
    sums.into_iter()
        .map(|(name, sum, n)| {
            let means = [0, 1, 2].map(|i| mean(sum[i], n[i]));
            Bar { name, share: means[0].unwrap_or(f64::NAN), between: means[1].zip(means[2]) }
        })
        .collect()
}

fn table(state: &State, at: usize, look: Look, area: Rect, buf: &mut Buffer) {
    let bound = &state.bound[at];
    let entities = bound.entities(&state.recent);
    if entities.is_empty() {
        return note(&why_empty(state, bound), look, area, buf);
    }
    let seen = entities.iter().skip(state.top(at)).take(usize::from(area.height.saturating_sub(1)));
    // Ranks tell apart what a single trainer has once.
    let several = state.judged().0 > 1;
    let shown = |c: &&Bind| several || !matches!(c.reading, Reading::Of(..));
    let columns: Vec<&Bind> = bound.columns.iter().filter(shown).collect();
    let grid = Grid {
        gives_way: columns.iter().map(|c| c.reading.gives_way()).collect(),
        heads: columns.iter().map(|c| c.head.to_owned()).collect(),
        right: columns.iter().map(|c| c.reading.is_number()).collect(),
        rows: seen.map(|e| columns.iter().map(|c| c.reading.show(&state.recent, e)).collect()).collect(),
    };
    grid::draw(&grid, look, area, buf);
}

/// Each finding in sentences: what it is and costs, then what to do.
fn findings(state: &State, at: usize, look: Look, area: Rect, buf: &mut Buffer) {
    let found = state.findings();
    if found.is_empty() {
        return note("nothing at the moment", look, area, buf);
    }
    let ranked = state.judged().0 > 1;
    let mut lines: Vec<Line<'_>> = Vec::new();
    for entity in found.iter().skip(state.top(at)) {
        let part = |column| verdict::finding(state, entity, column);
        let cost = part(1).map(|share| format!("costs {share}"));
        let of = part(5)
            .filter(|key| ranked && !key.is_empty())
            .map(|key| format!("trainer {}", plain(&key, found.iter().filter_map(|e| e.first()).map(AsRef::as_ref))));
        let head: Vec<String> =
            [part(0), cost, part(2).map(|s| format!("for {s}")), of].into_iter().flatten().collect();
        let text = format!("▲ {} ({})", part(3).unwrap_or_default(), head.join(", "));
        let width = usize::from(area.width);
        lines.extend(verdict::wrap(&text, width).into_iter().map(|l| Line::styled(l, look.of(Tone::Warn))));
        let advice = part(4).map(|advice| verdict::wrap(&format!("  → {advice}"), width)).unwrap_or_default();
        lines.extend(advice.into_iter().map(Line::raw));
        if lines.len() >= usize::from(area.height) {
            break;
        }
    }
    Paragraph::new(lines).render(area, buf);
}

fn absent(state: &State, at: usize, look: Look, area: Rect, buf: &mut Buffer) {
    if state.absent.is_empty() {
        return note("nothing is missing so far", look, area, buf);
    }
    let others = || state.absent.keys().map(|(_, entity)| entity.as_str());
    let mut lines: Vec<Line<'_>> = state
        .absent
        .iter()
        .skip(state.top(at))
        .take(area.height.into())
        .map(|((what, entity), reason)| {
            let of = if entity.is_empty() { String::new() } else { format!(" of {}", plain(entity, others())) };
            Line::from(vec![Span::styled(format!("{what}{of}: "), look.of(Tone::Strong)), Span::raw(reason.as_str())])
        })
        .collect();
    if state.absent_more > 0 {
        lines.push(Line::raw(format!("{} more reasons left out", state.absent_more)));
    }
    Paragraph::new(lines).render(area, buf);
}

fn status(state: &State, look: Look, area: Rect, buf: &mut Buffer) {
    let tally = state.tally;
    let [cpu, rss] = state.own();
    let mut own: Vec<String> = Vec::new();
    // The position of a replay comes first where there is little room; losses are always said.
    if state.position.is_none() || area.width >= 110 {
        own.extend(cpu.map(|cpu| format!("own cpu {cpu}")));
        own.extend(rss.map(|rss| format!("rss {rss}")));
    }
    own.push(format!("drops {}", tally.drops));
    own.push(format!("failures {}", tally.failures));
    if tally.lost > 0 {
        own.push(format!("not drawn {}", tally.lost));
    }
    let own = own.join(" · ");
    let wide = u16::try_from(own.chars().count()).unwrap_or(u16::MAX).min(area.width);
    let tone = match tally {
        Tally { failures: 0, lost: 0, drops: 0 } => Tone::Dim,
        Tally { failures: 0, lost: 0, .. } => Tone::Warn,
        _ => Tone::Bad,
    };
    let left = Rect { width: area.width.saturating_sub(wide + 2), ..area };
    buf.set_stringn(area.right() - wide, area.y, own, wide.into(), look.of(tone));
    if let Some(trouble) = &state.trouble {
        buf.set_stringn(left.x, left.y, trouble, left.width.into(), look.of(Tone::Bad));
        return;
    }
    let text = match (state.position, &state.ended) {
        (Some(position), ended) => replay_line(position, ended.is_some(), left.width),
        (None, Some(why)) => format!("{why} · q quit"),
        (None, None) => "? keys  q quit  tab panel".to_owned(),
    };
    buf.set_stringn(left.x, left.y, text, left.width.into(), look.of(Tone::Plain));
}

/// `▶ 1× 0:42 / 5:10 ━━━━╸─────  ? keys`.
fn replay_line(position: Position, ended: bool, width: u16) -> String {
    let whole = position.end.seconds_since(position.start).max(0.0);
    let gone = position.at.seconds_since(position.start).clamp(0.0, whole);
    let mark = match (position.paused, ended) {
        (true, _) => "paused",
        (false, true) => "end",
        (false, false) => "play",
    };
    let said = format!("{mark} {}× {} / {} ", position.speed, span(gone), span(whole));
    let room = usize::from(width).saturating_sub(said.chars().count() + 8).min(40);
    if room < 6 {
        return said;
    }
    let part = if whole > 0.0 { gone / whole } else { 1.0 };
    let filled = (1..=room).filter(|i| *i as f64 <= part * room as f64).count();
    format!("{said}{}{}  ? keys", "━".repeat(filled), "─".repeat(room - filled))
}

fn help(mode: Mode, look: Look, whole: Rect, buf: &mut Buffer) {
    let mut lines: Vec<Line<'_>> = bindings(mode)
        .map(|b| Line::from(vec![Span::styled(format!(" {:<16}", b.label), look.of(Tone::Focus)), Span::raw(b.help)]))
        .collect();
    lines.push(Line::raw(""));
    lines.push(Line::styled(" Shares are of wall time. – is missing, never zero: see the", look.of(Tone::Dim)));
    lines.push(Line::styled(" panel “not known, and why”. Shift and mouse select text.", look.of(Tone::Dim)));
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(whole.height);
    let width = 62.min(whole.width);
    let area = Rect { x: (whole.width - width) / 2, y: (whole.height - height) / 2, width, height };
    Clear.render(area, buf);
    Paragraph::new(lines).block(Block::bordered().title(" keys ")).render(area, buf);
}
