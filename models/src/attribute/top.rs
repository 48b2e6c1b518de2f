//! The most frequent names among many, in bounded memory.

use std::collections::BTreeMap;

use feedline_traces::Symbol;

/// Names kept.
const NAMES: usize = 32;

/// Counts by name. When there is no room the rarest goes, so a count can be too low.
#[derive(Debug, Clone, Default)]
pub(super) struct Top {
    counts: BTreeMap<Symbol, f64>,
    total: f64,
}

impl Top {
    pub(super) fn add(&mut self, name: &Symbol, count: f64) {
        self.total += count;
        *self.counts.entry(name.clone()).or_insert(0.0) += count;
        if self.counts.len() > NAMES {
            let rarest = self.counts.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(name, _)| name.clone());
            rarest.map(|name| self.counts.remove(&name));
        }
    }

    /// The most frequent name and its share of all that was counted.
    pub(super) fn first(&self) -> Option<(&Symbol, f64)> {
        let (name, count) = self.counts.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        (self.total > 0.0).then(|| (name, count / self.total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequent_name_survives_many_rare_ones() {
        let mut top = Top::default();
        for i in 0..1000 {
            top.add(&Symbol::from(format!("f{i}").as_str()), 1.0);
            top.add(&Symbol::from("hot"), 1.0);
        }
        assert!(top.counts.len() <= NAMES);
        let (name, share) = top.first().unwrap();
        assert_eq!(name.as_ref(), "hot");
        assert!((share - 0.5).abs() < 1e-9);
    }
}
