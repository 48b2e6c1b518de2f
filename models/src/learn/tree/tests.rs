//! Trees, boosting, forests and their explanations.

use proptest::prelude::*;

use super::*;
use crate::learn::random::Random;
use crate::learn::stats;

fn made(rows: usize, f: impl Fn(&[f64]) -> f64, noise: f64) -> (Columns, Vec<f64>) {
    let mut random = Random::new(11, 0);
    let values: Vec<Vec<f64>> = (0..4).map(|_| (0..rows).map(|_| random.unit()).collect()).collect();
    let columns = Columns::numbers(values);
    let y = (0..rows).map(|row| f(&columns.row(row)) + noise * random.normal()).collect();
    (columns, y)
}

fn error(ensemble: &Ensemble, columns: &Columns, truth: impl Fn(&[f64]) -> f64) -> f64 {
    let off: Vec<f64> =
        (0..columns.rows()).map(|r| columns.row(r)).map(|x| (ensemble.predict(&x) - truth(&x)).abs()).collect();
    stats::mean(&off, &[])
}

fn wavy(x: &[f64]) -> f64 {
    10.0 * (std::f64::consts::PI * x[0] * x[1]).sin() + 20.0 * (x[2] - 0.5).powi(2)
}

#[test]
fn boosting_and_forests_learn_a_curved_surface() {
    let (columns, y) = made(1_500, wavy, 0.1);
    let (fresh, _) = made(300, wavy, 0.0);
    let mean = Ensemble { base: stats::mean(&y, &[]), trees: Vec::new() };
    let flat = error(&mean, &fresh, wavy);
    let boosted = error(&Boost::default().fit(&columns, &y, &[], 1), &fresh, wavy);
    let forest = error(&Forest { trees: 40, ..Forest::default() }.fit(&columns, &y, &[], 1), &fresh, wavy);
    assert!(boosted < 0.15 * flat, "boosted {boosted}, flat {flat}");
    assert!(forest < 0.25 * flat, "forest {forest}, flat {flat}");
}

#[test]
fn the_same_seed_gives_the_same_trees_on_any_number_of_threads() {
    let (columns, y) = made(2_000, wavy, 0.1);
    let fit = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let boost = Boost { trees: 12, ..Boost::default() };
        let forest = Forest { trees: 6, ..Forest::default() };
        pool.install(|| (boost.fit(&columns, &y, &[], seed), forest.fit(&columns, &y, &[], seed)))
    };
    assert_eq!(fit(1, 3), fit(4, 3));
    assert_ne!(fit(1, 3), fit(1, 4));
}

#[test]
fn missing_values_go_where_they_belong() {
    // The outcome is high exactly where the input is missing, and in the middle of its range.
    let x: Vec<f64> = (0..400).map(|i| if i % 4 == 0 { f64::NAN } else { f64::from(i) }).collect();
    let y: Vec<f64> = x
        .iter()
        .map(|x| {
            if x.is_nan() {
                5.0
            } else if *x > 200.0 {
                1.0
            } else {
                0.0
            }
        })
        .collect();
    let boost = Boost { trees: 60, rate: 0.3, row_share: 1.0, column_share: 1.0, l2: 0.0, ..Boost::default() };
    let fitted = boost.fit(&Columns::numbers(vec![x]), &y, &[], 1);
    for (at, wanted) in [(f64::NAN, 5.0), (300.0, 1.0), (100.0, 0.0)] {
        assert!((fitted.predict(&[at]) - wanted).abs() < 0.05, "{at}: {}", fitted.predict(&[at]));
    }
}

#[test]
fn names_are_split_by_what_they_do_not_by_their_order() {
    let mut random = Random::new(2, 0);
    let name: Vec<f64> = (0..600).map(|_| stats::count(random.below(12))).collect();
    let effect = |v: f64| if [1.0, 4.0, 9.0, 10.0].contains(&v) { 3.0 } else { -1.0 };
    let y: Vec<f64> = name.iter().map(|v| effect(*v)).collect();
    let columns = Columns { values: vec![name], levels: vec![12] };
    let one = Boost { trees: 1, rate: 1.0, leaves: 2, row_share: 1.0, column_share: 1.0, l2: 0.0, ..Boost::default() };
    let fitted = one.fit(&columns, &y, &[], 1);
    for level in 0..12 {
        let at = f64::from(level);
        assert!((fitted.predict(&[at]) - effect(at)).abs() < 1e-9, "one split divides them: {level}");
    }
    // A name nobody saw goes with the more frequent side, and is no panic.
    assert!((fitted.predict(&[-1.0]) - -1.0).abs() < 1e-9);
    assert!(fitted.predict(&[999.0]).is_finite() && fitted.predict(&[f64::NAN]).is_finite());
}

#[test]
fn monotone_constraints_hold_everywhere_even_against_the_data() {
    // Rises on the whole, falls in places; the second input must not raise it though it does.
    let truth = |x: &[f64]| 3.0 * x[0] + (12.0 * x[0]).sin() + x[1];
    let (columns, y) = made(1_000, truth, 0.3);
    for loss in [Loss::Squared, Loss::Absolute, Loss::Quantile(0.9)] {
        let boost = Boost { loss, trees: 80, monotone: vec![1, -1], ..Boost::default() };
        let fitted = boost.fit(&columns, &y, &[], 1);
        let mut random = Random::new(3, 0);
        for _ in 0..200 {
            let mut x: Vec<f64> = (0..4).map(|_| random.unit()).collect();
            for (input, direction) in [(0, 1.0), (1, -1.0)] {
                let mut last = f64::NEG_INFINITY;
                for step in 0..=20 {
                    x[input] = f64::from(step) / 20.0;
                    let now = direction * fitted.predict(&x);
                    assert!(now >= last - 1e-9, "{loss:?}: input {input} at {}: {now} after {last}", x[input]);
                    last = now;
                }
            }
        }
    }
}

#[test]
fn quantiles_leave_their_share_below_and_the_median_ignores_outliers() {
    let mut random = Random::new(8, 0);
    let x: Vec<f64> = (0..2_000).map(|_| random.unit()).collect();
    let y: Vec<f64> = x.iter().map(|x| 2.0 * x + (0.2 + x) * random.normal()).collect();
    let columns = Columns::numbers(vec![x]);
    for share in [0.1, 0.5, 0.9] {
        let boost = Boost { loss: Loss::Quantile(share), leaves: 6, trees: 80, rows: 40, ..Boost::default() };
        let fitted = boost.fit(&columns, &y, &[], 1);
        let below = (0..2_000).filter(|r| y[*r] <= fitted.predict(&columns.row(*r))).count();
        assert!((stats::count(below) / 2_000.0 - share).abs() < 0.04, "{share}: {below} of 2000");
    }
    let wild: Vec<f64> = y.iter().enumerate().map(|(i, y)| if i % 50 == 0 { 1e6 } else { *y }).collect();
    let median = Boost { loss: Loss::Absolute, leaves: 4, trees: 60, rows: 100, ..Boost::default() };
    let fitted = median.fit(&columns, &wild, &[], 1);
    assert!((fitted.predict(&[0.5]) - 1.0).abs() < 0.4, "{}", fitted.predict(&[0.5]));
}

#[test]
fn rows_of_weight_zero_count_for_nothing() {
    let x: Vec<f64> = (0..200).map(f64::from).collect();
    let y: Vec<f64> = (0..200).map(|i| if i % 2 == 0 { 1.0 } else { 1_000.0 }).collect();
    let weights: Vec<f64> = (0..200).map(|i| f64::from(u8::from(i % 2 == 0))).collect();
    let columns = Columns::numbers(vec![x]);
    let boosted = Boost { trees: 20, ..Boost::default() }.fit(&columns, &y, &weights, 1);
    let forest = Forest { trees: 10, ..Forest::default() }.fit(&columns, &y, &weights, 1);
    assert!((boosted.predict(&[50.0]) - 1.0).abs() < 1e-6);
    assert!((forest.predict(&[50.0]) - 1.0).abs() < 1e-6);
}

#[test]
fn classes_by_softmax_are_told_apart() {
    let (columns, y) = made(800, |x| (3.0 * x[0]).floor(), 0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0, 1 and 2")]
    let class: Vec<usize> = y.iter().map(|y| *y as usize).collect();
    let ensembles = Boost { trees: 30, ..Boost::default() }.classify(&columns, &class, 3, &[], 1);
    let best = |x: &[f64]| {
        let shares = boost::softmax(&ensembles.iter().map(|e| e.predict(x)).collect::<Vec<_>>());
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        (0..3).max_by(|a, b| shares[*a].total_cmp(&shares[*b])).unwrap()
    };
    let right = (0..800).filter(|r| best(&columns.row(*r)) == class[*r]).count();
    assert!(right > 780, "{right} of 800");
}

/// The mean prediction where only some inputs are known: by the cover of the children where the
/// asked input is not. This is the game that `TreeSHAP` solves.
fn known(tree: &Tree, x: &[f64], set: usize, at: usize) -> f64 {
    let node = &tree.nodes[at];
    if node.left == 0 {
        return node.value;
    }
    if set >> node.feature & 1 == 1 {
        return known(tree, x, set, tree.next(node, x));
    }
    let (left, right) = (node.left as usize, node.right as usize);
    let share = tree.nodes[left].cover / node.cover;
    share * known(tree, x, set, left) + (1.0 - share) * known(tree, x, set, right)
}

/// Shapley values by their definition: the mean gain over all orders of the inputs.
fn by_definition(ensemble: &Ensemble, x: &[f64]) -> Vec<f64> {
    let n = x.len();
    let value = |set: usize| ensemble.trees.iter().map(|t| known(t, x, set, 0)).sum::<f64>();
    let factorial = |k: usize| (1..=k).map(stats::count).product::<f64>();
    (0..n)
        .map(|i| {
            let others = (0..1_usize << n).filter(|set| set >> i & 1 == 0);
            let gain = |set: usize| {
                let size = set.count_ones() as usize;
                factorial(size) * factorial(n - size - 1) / factorial(n) * (value(set | 1 << i) - value(set))
            };
            others.map(gain).sum()
        })
        .collect()
}

#[test]
fn contributions_are_shapley_values_and_add_up_to_the_prediction() {
    let (mut columns, y) = made(500, |x| wavy(x) + if x[3] > 0.5 { x[0] } else { 0.0 }, 0.2);
    for row in (0..500).step_by(7) {
        columns.values[1][row] = f64::NAN;
    }
    columns.values.push((0..500).map(|i| f64::from(i % 5)).collect());
    columns.levels.push(5);
    let boosted = Boost { trees: 15, leaves: 12, depth: 12, ..Boost::default() }.fit(&columns, &y, &[], 1);
    let forest = Forest { trees: 5, ..Forest::default() }.fit(&columns, &y, &[], 1);
    for ensemble in [boosted, forest] {
        for row in (0..500).step_by(37) {
            let x = columns.row(row);
            let parts = ensemble.contributions(&x);
            let sum: f64 = parts.iter().sum();
            assert!((sum - (ensemble.predict(&x) - ensemble.expected())).abs() < 1e-8, "row {row}: {sum}");
            for (part, exact) in parts.iter().zip(by_definition(&ensemble, &x)) {
                assert!((part - exact).abs() < 1e-8, "row {row}: {part} for {exact}");
            }
        }
    }
}

#[test]
fn the_trees_fit_and_predict_behind_the_traits_of_linfa() {
    use ::linfa::Dataset;
    use ::linfa::traits::{Fit as _, Predict};
    use ndarray::{Array1, Array2};
    let (columns, y) = made(400, wavy, 0.1);
    let matrix = Array2::from_shape_fn((400, 4), |(row, column)| columns.values[column][row]);
    let dataset = Dataset::new(matrix.clone(), Array1::from(y.clone()));
    let boost = Seeded { method: Boost { trees: 30, ..Boost::default() }, seed: 1 };
    let fitted: Ensemble = boost.fit(&dataset).unwrap();
    let said: Array1<f64> = Predict::predict(&fitted, &matrix);
    assert!((said[7] - fitted.predict(&columns.row(7))).abs() < 1e-12);
    assert_eq!(fitted, boost.method.fit(&columns, &y, &[], 1));
    let forest = Seeded { method: Forest { trees: 5, ..Forest::default() }, seed: 1 };
    assert_eq!(forest.fit(&dataset).unwrap().trees.len(), 5);
    let broken = Dataset::new(matrix, Array1::from(vec![f64::NAN; 400]));
    assert!(boost.fit(&broken).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_table_fits_without_panic_and_predicts_within_its_outcomes(
        rows in prop::collection::vec((prop::num::f64::ANY, -5i32..5, -1e6..1e6f64), 0..60),
        seed in any::<u64>(),
    ) {
        let clean = |v: f64| if v.is_finite() { v } else { f64::NAN };
        let columns = Columns {
            values: vec![
                rows.iter().map(|r| clean(r.0)).collect(),
                rows.iter().map(|r| f64::from(r.1)).collect(),
            ],
            levels: vec![0, 3],
        };
        let y: Vec<f64> = rows.iter().map(|r| r.2).collect();
        let forest = Forest { trees: 3, rows: 1, ..Forest::default() }.fit(&columns, &y, &[], seed);
        let (low, high) = y.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        prop_assert!(forest.wrong(2).is_none());
        for row in 0..rows.len() {
            let said = forest.predict(&columns.row(row));
            prop_assert!(said >= low - 1e-3 && said <= high + 1e-3, "{said} outside {low} to {high}");
        }
        let boosted = Boost { trees: 4, ..Boost::default() }.fit(&columns, &y, &[], seed);
        prop_assert!(boosted.wrong(2).is_none());
    }
}
