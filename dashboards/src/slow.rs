//! Which rank the others wait for: one rule for the screen and the report.

/// Share of its time that a rank waits for a slower one from which that one is named.
const SLOWER: f64 = 0.05;

/// Of ranks with the share of time that each waits for a slower one: the one that waits least, where
/// another waits a lot more; and the most that any waits.
pub(crate) fn slowest<K: Copy>(ranks: &[(K, f64)]) -> Option<(K, f64)> {
    let most = ranks.iter().map(|(_, lost)| *lost).reduce(f64::max)?;
    let (slow, least) = ranks.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
    (most >= SLOWER && least < 0.5 * most).then_some((slow, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_rank_is_the_one_that_waits_least_where_another_waits_a_lot_more() {
        assert_eq!(slowest(&[(0, 0.4), (1, 0.02), (2, 0.38)]), Some((1, 0.4)));
        assert_eq!(slowest(&[(0, 0.4), (1, 0.3)]), None, "both wait about as long");
        assert_eq!(slowest(&[(0, 0.04), (1, 0.0)]), None, "nobody waits long");
        assert_eq!(slowest::<u8>(&[]), None);
    }
}
