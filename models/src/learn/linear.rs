//! Linear learners, by linfa: ordinary least squares, and the elastic net with lasso as its end, and
//! ridge as least squares with more rows.

use feedline_traces::{Error, Result};
use linfa::Dataset;
use linfa::traits::Fit as _;
use linfa_elasticnet::ElasticNet;
use linfa_linear::LinearRegression;
use ndarray::{Array1, Array2};

use super::design::Design;
use super::learner::Fitted;
use super::stats;
use super::tree::Columns;

/// The matrix and the outcome, centred and multiplied with the roots of the weights: linfa's linear
/// methods take no weights, and least squares of these is weighted least squares of those.
struct Centred {
    design: Design,
    x: Array2<f64>,
    y: Array1<f64>,
    means: Vec<f64>,
    mean: f64,
}

impl Centred {
    fn new(columns: &Columns, z: &[f64], weights: &[f64]) -> Result<Self> {
        let design = Design::fit(columns);
        let (rows, width) = (z.len(), design.width());
        let mut x = Array2::from_shape_vec((rows, width), design.matrix(columns))
            .map_err(|cause| Error::new(format!("matrix of {rows} rows: {cause}")))?;
        let means: Vec<f64> = x.columns().into_iter().map(|c| stats::mean(&c.to_vec(), weights)).collect();
        let mean = stats::mean(z, weights);
        let average = stats::mean(weights, &[]).max(f64::MIN_POSITIVE);
        let root = |row: usize| weights.get(row).map_or(1.0, |w| (w / average).sqrt());
        for (row, mut values) in x.rows_mut().into_iter().enumerate() {
            values.iter_mut().zip(&means).for_each(|(v, mean)| *v = (*v - mean) * root(row));
        }
        let y = z.iter().enumerate().map(|(row, z)| (z - mean) * root(row)).collect();
        Ok(Self { design, x, y, means, mean })
    }

    fn fitted(self, weights: Vec<f64>) -> Fitted {
        let shift: f64 = weights.iter().zip(&self.means).map(|(w, m)| w * m).sum();
        Fitted::Sum { design: self.design, weights, intercept: self.mean - shift }
    }
}

/// Ordinary least squares. Where columns depend on each other, and none is to be preferred, a
/// penalty too small to matter elsewhere decides.
pub(super) fn least_squares(columns: &Columns, z: &[f64], weights: &[f64]) -> Result<Fitted> {
    let centred = Centred::new(columns, z, weights)?;
    if centred.design.width() == 0 {
        return Ok(Fitted::Value(centred.mean));
    }
    if centred.design.width() < z.len() {
        // Columns that nearly depend on each other yield weights that nobody should use.
        let found = solved(&centred.x, &centred.y).ok().filter(|weights| weights.iter().all(|w| w.abs() < 1e6));
        if let Some(weights) = found {
            return Ok(centred.fitted(weights));
        }
    }
    ridge(centred, 1e-6)
}

/// Least squares with a penalty; `l1` is the share of it that is on absolute values.
pub(super) fn penalised(columns: &Columns, z: &[f64], weights: &[f64], penalty: f64, l1: f64) -> Result<Fitted> {
    let centred = Centred::new(columns, z, weights)?;
    if centred.design.width() == 0 {
        return Ok(Fitted::Value(centred.mean));
    }
    if l1 > 0.0 { net(centred, penalty, l1) } else { ridge(centred, penalty) }
}

fn solved(x: &Array2<f64>, y: &Array1<f64>) -> Result<Vec<f64>> {
    let dataset = Dataset::new(x.clone(), y.clone());
    let model = LinearRegression::new().with_intercept(false).fit(&dataset);
    Ok(model.map_err(|cause| Error::new(format!("least squares: {cause}")))?.params().to_vec())
}

/// A penalty on squares is least squares with one more row a column: the root of the penalty there,
/// 0 elsewhere. linfa's elastic net would go there in thousands of small steps.
fn ridge(centred: Centred, penalty: f64) -> Result<Fitted> {
    let (rows, width) = centred.x.dim();
    let root = (penalty * stats::count(rows)).sqrt();
    let more = Array2::from_diag_elem(width, root);
    let x = ndarray::concatenate![ndarray::Axis(0), centred.x, more];
    let y = ndarray::concatenate![ndarray::Axis(0), centred.y, Array1::zeros(width)];
    let weights = solved(&x, &y)?;
    Ok(centred.fitted(weights))
}

fn net(centred: Centred, penalty: f64, l1: f64) -> Result<Fitted> {
    let dataset = Dataset::new(centred.x.clone(), centred.y.clone());
    let model = ElasticNet::params()
        .penalty(penalty)
        .l1_ratio(l1)
        .with_intercept(false)
        .max_iterations(1_000)
        .tolerance(1e-4)
        .fit(&dataset)
        .map_err(|cause| Error::new(format!("elastic net, penalty {penalty}: {cause}")))?;
    Ok(centred.fitted(model.hyperplane().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn lines(rows: usize) -> (Columns, Vec<f64>) {
        let mut random = Random::new(5, 0);
        let a: Vec<f64> = (0..rows).map(|_| random.normal()).collect();
        let b: Vec<f64> = (0..rows).map(|_| random.normal()).collect();
        let z = a.iter().zip(&b).map(|(a, b)| 3.0 + 2.0 * a - b).collect();
        (Columns::numbers(vec![a, b]), z)
    }

    #[test]
    fn least_squares_finds_the_plane_it_was_made_of() {
        let (columns, z) = lines(50);
        let fitted = least_squares(&columns, &z, &[]).unwrap();
        assert!((fitted.predict(&[1.0, 1.0]) - 4.0).abs() < 1e-8);
        assert!((fitted.predict(&[0.0, 0.0]) - 3.0).abs() < 1e-8);
    }

    #[test]
    fn a_column_given_twice_is_no_failure() {
        let (mut columns, z) = lines(50);
        columns.values.push(columns.values[0].clone());
        columns.levels.push(0);
        let fitted = least_squares(&columns, &z, &[]).unwrap();
        assert!((fitted.predict(&[1.0, 1.0, 1.0]) - 4.0).abs() < 1e-2);
    }

    #[test]
    fn rows_of_weight_zero_count_for_nothing() {
        let (mut columns, mut z) = lines(50);
        let mut weights = vec![1.0; 50];
        columns.values[0].push(100.0);
        columns.values[1].push(-100.0);
        z.push(1e6);
        weights.push(0.0);
        let fitted = least_squares(&columns, &z, &weights).unwrap();
        assert!((fitted.predict(&[1.0, 1.0]) - 4.0).abs() < 1e-6);
    }

    #[test]
    fn ridge_has_its_closed_form_and_lasso_drops_what_adds_nothing() {
        let (columns, z) = lines(400);
        // One standardised column alone: ridge shrinks the slope to 1 / (1 + penalty).
        let slope = |fitted: &Fitted| fitted.predict(&[1.0]) - fitted.predict(&[0.0]);
        let one = Columns::numbers(vec![columns.values[0].clone()]);
        let target = columns.values[0].clone();
        let ridge = penalised(&one, &target, &[], 0.5, 0.0).unwrap();
        assert!((slope(&ridge) - 1.0 / 1.5).abs() < 1e-3, "{}", slope(&ridge));
        let mut random = Random::new(6, 0);
        let noise: Vec<f64> = (0..400).map(|_| random.normal()).collect();
        let with_noise = Columns::numbers(vec![columns.values[0].clone(), columns.values[1].clone(), noise]);
        let Fitted::Sum { weights, .. } = penalised(&with_noise, &z, &[], 0.3, 1.0).unwrap() else { panic!("no sum") };
        assert!(weights[0] > 1.0 && weights[1] < -0.3 && weights[2].abs() < 1e-9, "{weights:?}");
    }
}
