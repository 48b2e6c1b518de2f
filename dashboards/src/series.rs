//! Series for the charts: one slot a second, ten minutes at most, whatever the tick rate.

use std::collections::VecDeque;

use feedline_traces::window::Window;
use feedline_traces::{Tick, Ts};

use crate::bind::{Bound, Reading};

/// Slots kept: ten minutes of seconds.
pub(crate) const SLOTS: usize = 600;
/// Series told apart by one panel; what comes after is not drawn.
const NAMES: usize = 24;

/// The mean of each series in each second. With a `by` column the series are its texts; without,
/// the columns of the panel.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// Names, in order of their first appearance.
    pub(crate) names: Vec<String>,
    slots: VecDeque<Slot>,
    last: Option<Ts>,
}

#[derive(Debug)]
struct Slot {
    second: i64,
    /// Sum and number of values, one pair a series.
    sums: Vec<(f64, u32)>,
}

impl Slot {
    fn mean(&self, series: usize) -> Option<f64> {
        let (sum, n) = *self.sums.get(series)?;
        (n > 0).then(|| sum / f64::from(n))
    }
}

impl Series {
    /// Takes in the rows of a tick that the window has taken already.
    pub(crate) fn accept(&mut self, bound: &Bound, window: &Window, tick: &Tick) {
        let Some(table) = bound.table else { return };
        if tick.batch(table).is_none() {
            return;
        }
        for entity in window.entities(table).filter(|e| bound.admits(window, e)) {
            for (position, bind) in bound.columns.iter().enumerate() {
                let Reading::Value(column, _) = bind.reading else { continue };
                let Some((at, _)) = window.latest(column, entity) else { continue };
                if self.last.is_some_and(|last| at <= last) {
                    continue;
                }
                let Some(number) = bind.reading.number(window, entity) else { continue };
                let name = match bound.by {
                    Some(by) if position == 0 => window.latest(by, entity).and_then(|(_, v)| v.text()).cloned(),
                    Some(_) => None,
                    None => Some(bind.name.into()),
                };
                if let Some(name) = name {
                    self.add(at, &name, number);
                }
            }
        }
        self.last = self.last.max(Some(tick.at));
    }

    fn add(&mut self, at: Ts, name: &str, number: f64) {
        let Some(series) = self.position(name) else { return };
        let second = at.0.div_euclid(1_000_000_000);
        if self.slots.back().is_none_or(|slot| slot.second < second) {
            self.slots.push_back(Slot { second, sums: Vec::new() });
            if self.slots.len() > SLOTS {
                self.slots.pop_front();
            }
        }
        let Some(slot) = self.slots.iter_mut().rev().find(|slot| slot.second == second) else { return };
        if slot.sums.len() <= series {
            slot.sums.resize(series + 1, (0.0, 0));
        }
        slot.sums[series].0 += number;
        slot.sums[series].1 += 1;
    }

    fn position(&mut self, name: &str) -> Option<usize> {
        let found = self.names.iter().position(|n| n == name);
        if found.is_none() && self.names.len() < NAMES {
            self.names.push(name.to_owned());
            return Some(self.names.len() - 1);
        }
        found
    }

    /// Forgets everything but the names, after a jump in time.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.last = None;
    }

    /// The mean of a series over its last ten seconds or so.
    pub(crate) fn latest(&self, series: usize) -> Option<f64> {
        let newest = self.slots.back()?.second;
        let recent = self.slots.iter().rev().take_while(|slot| newest - slot.second < 10);
        mean(recent.filter_map(|slot| slot.mean(series)))
    }

    /// Seconds to draw: what is there, rounded up to half a minute.
    pub(crate) fn span(&self) -> i64 {
        let recorded = match (self.slots.front(), self.slots.back()) {
            (Some(first), Some(last)) => last.second - first.second + 1,
            _ => 0,
        };
        (recorded + 29).div_euclid(30).saturating_mul(30).clamp(60, 600)
    }

    /// The means of a series in `width` equal parts of the span, the latest last. `None` is missing.
    pub(crate) fn drawn(&self, series: usize, width: usize) -> Vec<Option<f64>> {
        let Some(newest) = self.slots.back().map(|slot| slot.second) else { return vec![None; width] };
        let (span, width_wide) = (self.span(), i64::try_from(width.max(1)).unwrap_or(1));
        let hold = self.hold();
        let mut drawn = Vec::with_capacity(width);
        let mut held: Option<(i64, f64)> = None;
        let mut slots = self.slots.iter().peekable();
        for part in 1..=width_wide {
            let end = newest - span + (span * part).div_euclid(width_wide);
            let (mut sum, mut n) = (0.0, 0_u32);
            while let Some(slot) = slots.next_if(|slot| slot.second <= end) {
                if let Some(value) = slot.mean(series) {
                    held = Some((slot.second, value));
                    if slot.second > end - (span / width_wide).max(1) {
                        (sum, n) = (sum + value, n + 1);
                    }
                }
            }
            let value = if n > 0 { Some(sum / f64::from(n)) } else { None };
            drawn.push(value.or(held.filter(|(second, _)| end - second <= hold).map(|(_, v)| v)));
        }
        drawn
    }

    /// How long a value stands, in seconds: somewhat over the usual time between slots.
    fn hold(&self) -> i64 {
        let recent: Vec<i64> = self.slots.iter().rev().take(10).map(|slot| slot.second).collect();
        let gap = recent.windows(2).map(|pair| pair[0] - pair[1]).min();
        gap.map_or(3, |gap| (gap.saturating_mul(5) / 2).clamp(3, 30))
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0_u32), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(s: i64) -> Ts {
        Ts(s * 1_000_000_000)
    }

    #[test]
    fn a_day_of_ticks_keeps_ten_minutes() {
        let mut series = Series::default();
        for s in 0..86_400 {
            series.add(second(s), "data", 0.5);
        }
        assert_eq!((series.slots.len(), series.span()), (SLOTS, 600));
    }

    #[test]
    fn ticks_within_a_second_are_averaged() {
        let mut series = Series::default();
        series.add(Ts(1_100_000_000), "data", 0.2);
        series.add(Ts(1_600_000_000), "data", 0.4);
        assert!((series.latest(0).unwrap() - 0.3).abs() < 1e-12);
    }

    #[test]
    fn a_gap_is_missing_and_not_zero() {
        let mut series = Series::default();
        for s in [0, 1, 2, 40, 41, 59] {
            series.add(second(s), "data", 1.0);
        }
        let drawn = series.drawn(0, 60);
        assert_eq!(drawn.len(), 60);
        assert_eq!((drawn[1], drawn[20], drawn[59]), (Some(1.0), None, Some(1.0)));
    }

    #[test]
    fn more_series_than_are_told_apart_are_left_out() {
        let mut series = Series::default();
        for i in 0..100 {
            series.add(second(1), &format!("cause{i}"), 1.0);
        }
        assert_eq!(series.names.len(), NAMES);
    }
}
