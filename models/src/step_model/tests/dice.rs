//! Randomness and distributions.

use crate::step_model::dice::{Dice, normal_quantile, unit};
use crate::step_model::dist::Dist;

fn draws(dist: &Dist, count: u64) -> Vec<f64> {
    let dice = Dice::new(7, 3);
    (0..count).map(|n| dist.draw(dice.bits(n / 10, n % 10))).collect()
}

#[test]
fn bits_are_even_and_neighbours_are_strangers() {
    let dice = Dice::new(1, 1);
    let n = 100_000_u64;
    let mut counts = [0.0_f64; 64];
    let (mut product, mut lag) = (0.0, 0.5);
    for item in 0..n {
        let u = unit(dice.bits(item, 0));
        counts[(u * 64.0) as usize] += 1.0;
        product += (u - 0.5) * (lag - 0.5);
        lag = u;
    }
    let expected = n as f64 / 64.0;
    let chi: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
    // 63 degrees of freedom: mean 63, deviation 11.2.
    assert!((20.0..120.0).contains(&chi), "{chi}");
    // Correlation of neighbours: deviation 1 / sqrt(n) of the variance 1/12.
    assert!((product / n as f64 * 12.0).abs() < 5.0 / (n as f64).sqrt());
    let other = Dice::new(2, 1);
    assert!((0..1000).all(|item| dice.bits(item, 0) != other.bits(item, 0)));
    assert!((0..1000).all(|item| dice.bits(item, 0) != dice.bits(item, 1)));
}

#[test]
fn draws_have_the_mean_and_the_spread_that_are_claimed() {
    let measured = Dist::measured(&[1.0, 2.0, 2.0, 3.0, 10.0]).unwrap();
    for dist in [Dist::Exponential(2.0), Dist::Lognormal { mean: 3.0, scv: 0.5 }, measured, Dist::Constant(4.0)] {
        let drawn = draws(&dist, 200_000);
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!((mean / dist.mean() - 1.0).abs() < 0.01, "{dist:?}: mean {mean}");
        assert!((variance / (mean * mean) - dist.scv()).abs() < 0.03 * (1.0 + dist.scv()), "{dist:?}: {variance}");
    }
}

#[test]
fn the_normal_quantile_is_right_in_the_middle_and_in_the_tails() {
    for (p, z) in [(0.5, 0.0), (0.975, 1.959_963_984_5), (0.001, -3.090_232_306_2), (1e-9, -5.997_807_015)] {
        assert!((normal_quantile(p) - z).abs() < 1e-8 * (1.0 + f64::abs(z)), "{p}: {}", normal_quantile(p));
    }
}

#[test]
fn measured_quantiles_give_back_what_was_measured() {
    let values: Vec<f64> = (0..1000).map(f64::from).collect();
    let dist = Dist::measured(&values).unwrap();
    assert!((dist.mean() - 499.5).abs() < 1.0 && (dist.scv() - 1.0 / 3.0).abs() < 0.01);
    assert_eq!(Dist::measured(&[f64::NAN, -1.0]), None);
    assert_eq!(Dist::measured(&[5.0]).unwrap().mean(), 5.0);
    let crossed = Dist::from_quantiles(&[(0.9, 3.0), (0.5, 4.0)]).unwrap();
    assert!(crossed.check("x").is_ok() && crossed.mean() >= 4.0 - 1e-12);
    assert_eq!(Dist::from_quantiles(&[(0.5, f64::NAN)]), None);
}

#[test]
fn what_is_no_distribution_is_refused_by_its_name() {
    for dist in [Dist::Constant(-1.0), Dist::Exponential(f64::NAN), Dist::Lognormal { mean: 1.0, scv: f64::INFINITY }] {
        let error = dist.check("decode").unwrap_err();
        assert!(error.message.starts_with("decode:"), "{error}");
    }
    assert!(Dist::Quantiles([(0.0, 2.0), (1.0, 1.0)].into()).check("x").is_err(), "quantiles that fall");
    assert!(Dist::Quantiles([].into()).check("x").is_err(), "no quantiles");
}
