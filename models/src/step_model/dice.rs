//! Counter-based randomness: a draw is a pure function of what it is for, so that the same batch
//! meets the same latencies whatever the number of workers, cores or places in a queue.

/// The streams of one simulated run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dice {
    key: u64,
}

impl Dice {
    /// One stream of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self { key: mix(seed ^ mix(stream.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678_9ABC_DEF1))) }
    }

    /// The bits of draw `lap` of `item`.
    pub(crate) fn bits(self, item: u64, lap: u64) -> u64 {
        // Two rounds of a bijective mixer over a Weyl-like counter, as in SplitMix64 (Steele, Lea and
        // Flood, 2014): neighbouring counters share no structure that the tests of this module see.
        let counter = item.wrapping_mul(0xD1B5_4A32_D192_ED03).wrapping_add(lap.wrapping_mul(0xAEF1_7502_108E_F2D9));
        mix(mix(self.key.wrapping_add(counter)).wrapping_add(self.key))
    }
}

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Bits as a number inside (0, 1), neither end included.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
pub(crate) fn unit(bits: u64) -> f64 {
    ((bits >> 11) as f64 + 0.5) * (1.0 / 9_007_199_254_740_992.0)
}

/// The quantile of the standard normal distribution at `p` inside (0, 1): Acklam's rational
/// approximation (2003), relative error below 1.2e-9.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    let tail = |q: f64| horner(&C, q) / (horner(&D, q) * q + 1.0);
    if p < 0.02425 {
        tail((-2.0 * p.ln()).sqrt())
    } else if p > 1.0 - 0.02425 {
        -tail((-2.0 * (1.0 - p).ln()).sqrt())
    } else {
        let q = p - 0.5;
        let r = q * q;
        horner(&A, r) * q / (horner(&B, r) * r + 1.0)
    }
}

/// A polynomial, the highest power first.
fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum.mul_add(x, *c))
}
