//! Inputs cut into at most 255 bins a column, so that a split is found by adding up bins.

use crate::learn::frame;

/// The most bins of a column with values; one more is for missing ones.
pub(crate) const MOST: usize = 254;

/// The bins that suit so many rows: finer ones than a sixteenth of them hold noise, and cost the same.
pub(crate) fn usual(rows: usize) -> usize {
    (rows / 16).clamp(32, MOST)
}

/// One column, binned.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The bin of each row.
    pub(crate) bins: Vec<u8>,
    /// The upper edge of each bin but the last; of a categorical column empty.
    pub(crate) cuts: Vec<f64>,
    /// How many bins hold values; missing ones are in the bin of this number.
    pub(crate) count: usize,
    /// Whether bins are names and have no order.
    pub(crate) categorical: bool,
}

impl Column {
    /// The bin of missing values.
    pub(crate) fn missing(&self) -> usize {
        self.count
    }

    /// Cuts numbers so that bins hold about equally many, and equal numbers one bin.
    pub(crate) fn numeric(values: &[f64], most: usize) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let cuts = cuts(&sorted, most.clamp(2, MOST));
        let count = cuts.len() + 1;
        let bins = values.iter().map(|v| bin(&cuts, *v)).collect();
        Self { bins, cuts, count, categorical: false }
    }

    /// One bin a name. Names beyond the number of bins count as missing.
    #[expect(clippy::cast_possible_truncation, reason = "a position is below 254")]
    pub(crate) fn named(values: &[f64], levels: usize) -> Self {
        let count = levels.clamp(1, MOST);
        let bins = values.iter().map(|v| frame::level(*v, count).unwrap_or(count) as u8).collect();
        Self { bins, cuts: Vec::new(), count, categorical: true }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "there are at most 253 cuts")]
fn bin(cuts: &[f64], value: f64) -> u8 {
    if value.is_finite() { cuts.partition_point(|cut| *cut < value) as u8 } else { (cuts.len() + 1) as u8 }
}

/// Edges between distinct neighbours, about equally many values apart.
fn cuts(sorted: &[f64], most: usize) -> Vec<f64> {
    let distinct = 1 + sorted.windows(2).filter(|w| w[0] < w[1]).count();
    let mut cuts = Vec::new();
    let mut held = 0;
    let mut left = sorted.len();
    for (position, pair) in sorted.windows(2).enumerate() {
        held += 1;
        let bins_left = most - cuts.len();
        let full = distinct <= most || held * bins_left >= left;
        if pair[0] < pair[1] && full && bins_left > 1 {
            let edge = f64::midpoint(pair[0], pair[1]);
            cuts.push(if edge < pair[1] { edge } else { pair[0] });
            held = 0;
            left = sorted.len() - position - 1;
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_distinct_numbers_have_a_bin_each_and_missing_ones_their_own() {
        let column = Column::numeric(&[3.0, 1.0, f64::NAN, 1.0, 2.0, f64::INFINITY], MOST);
        assert_eq!(column.cuts, vec![1.5, 2.5]);
        assert_eq!(column.bins, vec![2, 0, 3, 0, 1, 3]);
        assert_eq!(column.missing(), 3);
    }

    #[test]
    fn many_numbers_share_bins_about_equally() {
        let values: Vec<f64> = (0..10_000).map(|i| f64::from(i).sqrt()).collect();
        let column = Column::numeric(&values, MOST);
        assert!(column.count <= MOST && column.count > 200, "{}", column.count);
        let mut sizes = vec![0; column.count];
        column.bins.iter().for_each(|b| sizes[usize::from(*b)] += 1);
        assert!(sizes.iter().all(|s| (20..=80).contains(s)), "{sizes:?}");
        for (value, bin) in values.iter().zip(&column.bins) {
            let bin = usize::from(*bin);
            assert!(bin == column.cuts.len() || *value <= column.cuts[bin]);
            assert!(bin == 0 || *value > column.cuts[bin - 1]);
        }
    }

    #[test]
    fn neighbouring_doubles_are_told_apart() {
        let (low, high) = (1.0_f64, 1.0_f64.next_up());
        let column = Column::numeric(&[low, high], MOST);
        assert_eq!(column.bins, vec![0, 1]);
    }

    #[test]
    fn a_constant_or_empty_column_has_one_bin() {
        assert_eq!(Column::numeric(&[5.0, 5.0], MOST).count, 1);
        assert_eq!(Column::numeric(&[f64::NAN], MOST).bins, vec![1]);
        assert_eq!(Column::named(&[0.0, 2.0, f64::NAN, 300.0], 300).bins, vec![0, 2, 254, 254]);
    }
}
