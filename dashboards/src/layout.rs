//! Where things stand, for any size of the terminal.

use ratatui::layout::{Constraint, Layout, Rect, Size};

use crate::panels::{GRID, NOW_AT, STALL_AT, STEP_AT};

/// Something that has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// What is looked at, and the time.
    Header,
    /// The verdict.
    Verdict,
    /// The titles of the panels, one of which is shown.
    Tabs,
    /// A panel, by its position.
    Panel(usize),
    /// A panel whose title stands among the tabs.
    Tabbed(usize),
    /// Keys, position and own cost.
    Status,
}

/// From this size on every panel is shown; below, the one with the focus.
const LARGE: Size = Size::new(120, 36);
/// Below this height the chart goes.
const CHART_FROM: u16 = 15;
/// Below this width the chart stands alone.
const BESIDE_FROM: u16 = 70;

/// The places on a screen, none of them outside it.
pub(crate) fn arrange(size: Size, focus: usize) -> Vec<(Place, Rect)> {
    let area = Rect::from(size);
    let large = size.width >= LARGE.width && size.height >= LARGE.height;
    // A fixed height, so that nothing jumps when the sentence changes.
    let verdict = match size.height {
        _ if large => 5,
        24.. => 6,
        12.. => 4,
        h => h.saturating_sub(2).min(3),
    };
    let chart = match size.height {
        _ if large => size.height / 5,
        h if h >= CHART_FROM => (h / 3).min(12),
        _ => 0,
    };
    let rows = [1.min(size.height.saturating_sub(2)), verdict, chart, 0, 1.min(size.height.saturating_sub(1))];
    let [header, verdict, chart, rest, status] = Layout::vertical([
        Constraint::Length(rows[0]),
        Constraint::Length(rows[1]),
        Constraint::Length(rows[2]),
        Constraint::Min(rows[3]),
        Constraint::Length(rows[4]),
    ])
    .areas(area);
    let mut places = vec![(Place::Header, header), (Place::Verdict, verdict), (Place::Status, status)];
    charts(chart, large, &mut places);
    if large {
        grid(rest, &mut places);
    } else {
        let [tabs, panel] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(rest);
        places.push((Place::Tabs, tabs));
        places.push((Place::Tabbed(focus), panel));
    }
    places.retain(|(_, area)| !area.is_empty());
    places
}

fn charts(area: Rect, large: bool, places: &mut Vec<(Place, Rect)>) {
    if area.width < BESIDE_FROM {
        places.push((Place::Panel(STALL_AT), area));
    } else if large {
        let [stall, now, step] =
            Layout::horizontal([Constraint::Fill(5), Constraint::Fill(3), Constraint::Fill(3)]).spacing(1).areas(area);
        places.extend([(Place::Panel(STALL_AT), stall), (Place::Panel(NOW_AT), now), (Place::Panel(STEP_AT), step)]);
    } else {
        let [stall, step] = Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).spacing(1).areas(area);
        places.extend([(Place::Panel(STALL_AT), stall), (Place::Panel(STEP_AT), step)]);
    }
}

fn grid(area: Rect, places: &mut Vec<(Place, Rect)>) {
    let heights = GRID.iter().map(|(_, share)| Constraint::Fill(*share));
    for ((row, _), area) in GRID.iter().zip(Layout::vertical(heights).split(area).iter()) {
        let widths = Layout::horizontal(row.iter().map(|_| Constraint::Fill(1))).spacing(1).split(*area);
        places.extend(row.iter().zip(widths.iter()).map(|(panel, area)| (Place::Panel(*panel), *area)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panels::WORKERS_AT;

    #[test]
    fn nothing_stands_outside_the_screen_or_on_another() {
        for width in [1, 20, 69, 80, 119, 160, 400] {
            for height in [1, 2, 5, 12, 15, 24, 36, 50, 120] {
                let size = Size::new(width, height);
                let places = arrange(size, WORKERS_AT);
                for (i, (place, area)) in places.iter().enumerate() {
                    assert!(Rect::from(size).union(*area) == Rect::from(size), "{place:?} at {size}");
                    for (other, its) in &places[..i] {
                        assert!(!area.intersects(*its), "{place:?} on {other:?} at {size}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_tiny_screen_still_has_the_verdict() {
        let places = arrange(Size::new(20, 5), WORKERS_AT);
        assert!(places.iter().any(|(place, area)| *place == Place::Verdict && area.height >= 2));
    }
}
