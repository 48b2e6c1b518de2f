//! The best split of a node, from the sums of its bins.

use super::Set;
use super::bins::Column;

/// Sums over the rows of a bin.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) gradient: f64,
    pub(super) hessian: f64,
    pub(super) rows: u32,
}

impl Cell {
    pub(super) fn add(&mut self, other: Self) {
        self.gradient += other.gradient;
        self.hessian += other.hessian;
        self.rows += other.rows;
    }

    pub(super) fn less(self, other: Self) -> Self {
        Self {
            gradient: self.gradient - other.gradient,
            hessian: self.hessian - other.hessian,
            rows: self.rows - other.rows,
        }
    }
}

/// When a node may be split, and what its sides may predict.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// The fewest rows on a side.
    pub(super) rows: u32,
    /// Shrinks leaves: added to the sum of second derivatives.
    pub(super) l2: f64,
    /// The same for a side of names that were put in order by the outcome.
    pub(super) named_l2: f64,
    /// The least and the most a leaf below may predict.
    pub(super) bounds: (f64, f64),
    /// 1 where the prediction must not fall with this input, -1 where it must not rise, else 0.
    pub(super) monotone: i8,
}

impl Rules {
    /// Whether nothing restricts what sides may predict, so that the best value of each is known.
    fn free(&self) -> bool {
        self.monotone == 0 && self.bounds == (f64::NEG_INFINITY, f64::INFINITY)
    }

    /// What a leaf of these rows predicts.
    pub(super) fn value(&self, cell: Cell, l2: f64) -> f64 {
        let weight = cell.hessian + l2;
        if weight <= 0.0 { 0.0 } else { (-cell.gradient / weight).clamp(self.bounds.0, self.bounds.1) }
    }

    /// Twice what the loss falls by when these rows predict their value.
    pub(super) fn score(&self, cell: Cell, l2: f64) -> f64 {
        let value = self.value(cell, l2);
        -(2.0 * cell.gradient * value + (cell.hessian + l2) * value * value)
    }

    /// The gain of two sides over what they have together, if they may be.
    #[inline]
    fn gain(&self, left: Cell, right: Cell, l2: f64, whole: f64, free: bool) -> Option<f64> {
        if left.rows < self.rows || right.rows < self.rows || left.hessian <= 1e-9 || right.hessian <= 1e-9 {
            return None;
        }
        if free {
            let side = |cell: Cell| cell.gradient * cell.gradient / (cell.hessian + l2);
            return Some(side(left) + side(right) - whole);
        }
        let rise = self.value(right, l2) - self.value(left, l2);
        if f64::from(self.monotone) * rise < 0.0 {
            return None;
        }
        Some(self.score(left, l2) + self.score(right, l2) - whole)
    }
}

/// How to divide a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Split {
    pub(super) gain: f64,
    pub(super) column: usize,
    /// The last bin on the left, of a numeric column.
    pub(super) bin: usize,
    /// The bins on the left, of a categorical column.
    pub(super) set: Option<Set>,
    pub(super) missing_left: bool,
    pub(super) left: Cell,
    pub(super) right: Cell,
}

impl Split {
    /// Whether a bin goes left.
    pub(super) fn goes_left(&self, bin: usize, missing: usize) -> bool {
        if bin == missing {
            return self.missing_left;
        }
        match &self.set {
            None => bin <= self.bin,
            Some(set) => set[bin / 64] >> (bin % 64) & 1 == 1,
        }
    }
}

/// The best split of a column; `cells` are its bins, the missing one last.
pub(super) fn best(position: usize, column: &Column, cells: &[Cell], whole: Cell, rules: &Rules) -> Option<Split> {
    if column.categorical {
        by_name(position, column, cells, whole, rules)
    } else {
        by_number(position, column, cells, whole, rules)
    }
}

fn by_number(position: usize, column: &Column, cells: &[Cell], whole: Cell, rules: &Rules) -> Option<Split> {
    let score = rules.score(whole, rules.l2);
    let free = rules.free();
    let missing = cells[column.missing()];
    let gaps = missing.rows > 0;
    // The gain, the last bin on the left, whether missing ones are there too, and the left side.
    let mut best: Option<(f64, usize, bool, Cell)> = None;
    let mut seen = Cell::default();
    for (bin, cell) in cells.iter().enumerate().take(column.count) {
        if cell.rows == 0 {
            continue;
        }
        seen.add(*cell);
        // Known values against missing ones is a split too: the last bin with all known on the left.
        let last = bin + 1 == column.count;
        if last && !gaps {
            break;
        }
        if let Some(gain) = rules.gain(seen, whole.less(seen), rules.l2, score, free)
            && best.is_none_or(|b| gain > b.0)
        {
            best = Some((gain, bin, false, seen));
        }
        if gaps && !last {
            let mut left = seen;
            left.add(missing);
            if let Some(gain) = rules.gain(left, whole.less(left), rules.l2, score, free)
                && best.is_none_or(|b| gain > b.0)
            {
                best = Some((gain, bin, true, left));
            }
        }
    }
    let (gain, bin, missing_left, left) = best?;
    let right = whole.less(left);
    // Where none were missing here, they later follow the larger side.
    let missing_left = if gaps { missing_left } else { left.rows >= right.rows };
    Some(Split { gain, column: position, bin, set: None, missing_left, left, right })
}

/// Few names: each against the rest. Many: in the order of their mean gradient, where the best
/// division in two is a cut (Fisher, 1958). Missing values stay with the rest, or stand alone.
fn by_name(position: usize, column: &Column, cells: &[Cell], whole: Cell, rules: &Rules) -> Option<Split> {
    let mut order: Vec<usize> = (0..=column.count).filter(|&bin| cells[bin].rows > 0).collect();
    let few = order.len() <= 4;
    let l2 = if few { rules.l2 } else { rules.named_l2 };
    let rules = Rules { monotone: 0, ..*rules };
    let (score, free) = (rules.score(whole, l2), rules.free());
    let mean = |bin: usize| cells[bin].gradient / (cells[bin].hessian + 1.0);
    order.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)));
    let mut best: Option<Split> = None;
    let (mut left, mut set, mut holds_missing) = (Cell::default(), [0; 4], false);
    for &bin in &order {
        if few {
            (left, set, holds_missing) = (Cell::default(), [0; 4], false);
        }
        left.add(cells[bin]);
        if bin == column.missing() {
            holds_missing = true;
        } else {
            set[bin / 64] |= 1 << (bin % 64);
        }
        let right = whole.less(left);
        let Some(gain) = rules.gain(left, right, l2, score, free) else { continue };
        if best.as_ref().is_none_or(|b| gain > b.gain) {
            let absent = cells[column.missing()].rows == 0;
            let missing_left = if absent { left.rows >= right.rows } else { holds_missing };
            best = Some(Split { gain, column: position, bin: 0, set: Some(set), missing_left, left, right });
        }
    }
    best
}
