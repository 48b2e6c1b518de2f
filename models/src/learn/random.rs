//! Random numbers from a seed: the same on any machine and any number of threads.

/// A small generator, SplitMix64 (Steele, Lea and Flood, 2014): fast, and good enough for
/// subsamples and shuffles. Never for secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A stream of its own for each pair of seed and number (a tree, a fold, a node).
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        random.bits();
        random.bits();
        random
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform below `end`; 0 where `end` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "the high half of the product is below `end`")]
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// From the normal distribution with mean 0 and deviation 1 (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts the items into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
    }

    /// `count` of the numbers below `end`, each at most once, in rising order.
    pub fn choose(&mut self, end: usize, count: usize) -> Vec<usize> {
        let mut needed = count.min(end);
        let mut chosen = Vec::with_capacity(needed);
        // Selection sampling (Fan, Muller and Rezucha, 1962): each number is asked once, in order.
        for number in 0..end {
            if needed == 0 {
                break;
            }
            if self.below(end - number) < needed {
                chosen.push(number);
                needed -= 1;
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        let take = |seed, stream| {
            let mut random = Random::new(seed, stream);
            (0..8).map(|_| random.bits()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
    }

    #[test]
    fn numbers_are_uniform_and_normal() {
        let mut random = Random::new(7, 0);
        let mean = (0..20_000).map(|_| random.unit()).sum::<f64>() / 20_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let normals: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let second = normals.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        assert!((second - 1.0).abs() < 0.05, "{second}");
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn a_choice_has_each_number_once() {
        let chosen = Random::new(3, 0).choose(10, 4);
        assert_eq!(chosen.len(), 4);
        assert!(chosen.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(Random::new(3, 0).choose(3, 9), vec![0, 1, 2]);
    }
}
