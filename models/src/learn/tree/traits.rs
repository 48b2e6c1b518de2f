//! The trees behind the traits of linfa, for whoever composes with it: records are a matrix of
//! numbers (NaN is missing), targets one number a row.

use linfa::dataset::DatasetBase;
use linfa::traits::{Fit, PredictInplace};
use ndarray::{Array1, ArrayBase, Axis, Data, Ix1, Ix2};

use super::{Boost, Columns, Ensemble, Forest};

/// Why trees could not be fitted.
#[derive(Debug)]
pub struct NotFitted(String);

impl std::fmt::Display for NotFitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFitted {}

impl From<linfa::Error> for NotFitted {
    fn from(error: linfa::Error) -> Self {
        Self(error.to_string())
    }
}

/// A method of growing trees and the seed of its samples, as linfa's parameters.
#[derive(Debug, Clone)]
pub struct Seeded<M> {
    /// The method.
    pub method: M,
    /// The seed.
    pub seed: u64,
}

type Parts = (Columns, Vec<f64>, Vec<f64>);

fn parts<R, T>(dataset: &DatasetBase<ArrayBase<R, Ix2>, ArrayBase<T, Ix1>>) -> Result<Parts, NotFitted>
where
    R: Data<Elem = f64>,
    T: Data<Elem = f64>,
{
    let (x, y) = (&dataset.records, &dataset.targets);
    if x.nrows() != y.len() || y.is_empty() {
        return Err(NotFitted(format!("{} rows for {} targets", x.nrows(), y.len())));
    }
    if let Some(value) = y.iter().find(|v| !v.is_finite()) {
        return Err(NotFitted(format!("target {value} is no number")));
    }
    let columns = Columns::numbers(x.axis_iter(Axis(1)).map(|c| c.to_vec()).collect());
    let weights = dataset.weights().map_or_else(Vec::new, |w| w.iter().map(|w| f64::from(*w)).collect());
    Ok((columns, y.to_vec(), weights))
}

impl<R: Data<Elem = f64>, T: Data<Elem = f64>> Fit<ArrayBase<R, Ix2>, ArrayBase<T, Ix1>, NotFitted> for Seeded<Boost> {
    type Object = Ensemble;

    fn fit(&self, dataset: &DatasetBase<ArrayBase<R, Ix2>, ArrayBase<T, Ix1>>) -> Result<Ensemble, NotFitted> {
        let (columns, y, weights) = parts(dataset)?;
        Ok(self.method.fit(&columns, &y, &weights, self.seed))
    }
}

impl<R: Data<Elem = f64>, T: Data<Elem = f64>> Fit<ArrayBase<R, Ix2>, ArrayBase<T, Ix1>, NotFitted> for Seeded<Forest> {
    type Object = Ensemble;

    fn fit(&self, dataset: &DatasetBase<ArrayBase<R, Ix2>, ArrayBase<T, Ix1>>) -> Result<Ensemble, NotFitted> {
        let (columns, y, weights) = parts(dataset)?;
        Ok(self.method.fit(&columns, &y, &weights, self.seed))
    }
}

impl<R: Data<Elem = f64>> PredictInplace<ArrayBase<R, Ix2>, Array1<f64>> for Ensemble {
    fn predict_inplace<'a>(&'a self, x: &'a ArrayBase<R, Ix2>, y: &mut Array1<f64>) {
        for (row, out) in x.axis_iter(Axis(0)).zip(y.iter_mut()) {
            *out = self.predict(&row.to_vec());
        }
    }

    fn default_target(&self, x: &ArrayBase<R, Ix2>) -> Array1<f64> {
        Array1::zeros(x.nrows())
    }
}
