//! Means, quantiles and rank correlations of a few numbers.

/// -1, 0 or 1.
#[must_use]
pub(crate) fn sign(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x.signum() }
}

/// A count as a number.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^53")]
#[must_use]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

/// That share of so many, at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a count"
)]
pub(crate) fn share(share: f64, of: usize) -> usize {
    ((share.clamp(0.0, 1.0) * of as f64).round() as usize).clamp(1.min(of), of)
}

/// The weighted mean; empty weights are 1 each; 0 of none.
#[must_use]
pub fn mean(values: &[f64], weights: &[f64]) -> f64 {
    let weight = |i: usize| weights.get(i).copied().unwrap_or(1.0);
    let total: f64 = (0..values.len()).map(weight).sum();
    let sum: f64 = values.iter().enumerate().map(|(i, v)| v * weight(i)).sum();
    if total > 0.0 { sum / total } else { 0.0 }
}

/// The least value with at least this share of the weight at or below it; empty weights are 1
/// each. With equal weights the middle of two where the share falls between them, so that 0.5 is
/// the usual median. 0 of none.
#[must_use]
pub fn quantile(values: &[f64], weights: &[f64], share: f64) -> f64 {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let weight = |i: usize| weights.get(i).copied().unwrap_or(1.0);
    let total: f64 = (0..values.len()).map(weight).sum();
    let wanted = share * total;
    let mut seen = 0.0;
    for (position, &i) in order.iter().enumerate() {
        seen += weight(i);
        let slack = 1e-9 * total;
        if seen > wanted + slack {
            return values[i];
        }
        if seen >= wanted - slack {
            let next = order[position + 1..].iter().find(|j| weight(**j) > 0.0);
            return next.map_or(values[i], |&j| f64::midpoint(values[i], values[j]));
        }
    }
    order.last().map_or(0.0, |&i| values[i])
}

/// The median of what is a number; none of none.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let known: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    (!known.is_empty()).then(|| quantile(&known, &[], 0.5))
}

/// Ranks from 0, equal values sharing their mean rank.
#[must_use]
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start;
        while end + 1 < order.len() && values[order[end + 1]] <= values[order[start]] {
            end += 1;
        }
        for &i in &order[start..=end] {
            ranks[i] = f64::midpoint(count(start), count(end));
        }
        start = end + 1;
    }
    ranks
}

/// Pearson's correlation; 0 where one of the two is constant.
#[must_use]
pub fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (mean_a, mean_b) = (mean(a, &[]), mean(b, &[]));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - mean_a, y - mean_b);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    if aa > 0.0 && bb > 0.0 { ab / (aa.sqrt() * bb.sqrt()) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_closed_forms() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], &[], 0.5), 2.0);
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], &[], 0.5), 2.5);
        assert_eq!(quantile(&[1.0, 10.0], &[3.0, 1.0], 0.5), 1.0);
        assert_eq!(quantile(&[1.0, 10.0], &[1.0, 3.0], 0.5), 10.0);
        assert_eq!(quantile(&[1.0, 2.0], &[], 1.0), 2.0);
        assert_eq!(quantile(&[], &[], 0.5), 0.0);
        assert_eq!(median(&[f64::NAN]), None);
    }

    #[test]
    fn ranks_share_ties_and_correlation_sees_order() {
        assert_eq!(ranks(&[10.0, 20.0, 10.0]), vec![0.5, 2.0, 0.5]);
        let x: Vec<f64> = (1..30).map(f64::from).collect();
        let y: Vec<f64> = x.iter().map(|v| v.powi(5)).collect();
        assert!((correlation(&ranks(&x), &ranks(&y)) - 1.0).abs() < 1e-12);
        assert_eq!(correlation(&x, &vec![1.0; 29]), 0.0);
    }
}
