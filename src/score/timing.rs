//! What learning costs on this machine: a prediction, and training on a large table.

use feedline_models::learn::random::Random;
use feedline_models::learn::tree::Boost;
use feedline_models::learn::validate::{self, Plan};
use feedline_models::learn::{Feature, Frame, Group, Learner, Reader, Scale, Spec, Target, Task};
use feedline_traces::{Clock, Result};
use serde::Serialize;

/// What learning costs.
#[derive(Debug, Serialize)]
pub struct Timing {
    /// A prediction of boosted trees with its interval, in microseconds: the mean over many rows.
    pub prediction_us: f64,
    /// Boosted trees on so many rows and inputs, in seconds.
    pub train_s: f64,
    /// The rows of that.
    pub train_rows: usize,
    /// The inputs of that.
    pub train_inputs: usize,
    /// The share of variance they explain on rows they had not seen, so that nothing was skipped.
    pub train_r2: f64,
    /// The threads there were.
    pub threads: usize,
    /// How the program was built.
    pub build: &'static str,
}

const ROWS: usize = 100_000;
const INPUTS: usize = 30;
const ASKED: usize = 20_000;

/// Measures on a made table: 30 inputs, of which five matter.
///
/// # Errors
/// When a fit fails.
pub fn measure(clock: &dyn Clock, seed: u64) -> Result<Timing> {
    let (frame, task) = table(ROWS + ASKED, seed);
    let spec = Spec { learner: Learner::Boosted(Boost::default()), residual: false };
    let rows: Vec<usize> = (0..ROWS).collect();
    let began = clock.now();
    let model = spec.fit(&frame, &rows, &task, seed)?;
    let train_s = clock.now().seconds_since(began);
    let asked: Vec<usize> = (ROWS..ROWS + ASKED).collect();
    let judged = validate::judge(&frame, &model, &asked)?;
    let score = feedline_models::learn::Score::of(&frame, &task, &frame.groups[0], &judged)?;
    // A model of the size that is shipped: with its interval, from some thousand rows.
    let some: Vec<usize> = (0..2_000).collect();
    let (model, _) = validate::fit(&frame, &some, &task, &[spec], &Plan::leaving_out("part", seed))?;
    let reader = Reader::new(&frame, &model.inputs)?;
    let inputs: Vec<Vec<f64>> = asked.iter().map(|&row| reader.row(row)).collect();
    let began = clock.now();
    let sum: f64 = inputs.iter().map(|x| std::hint::black_box(model.predict(x, f64::NAN))).sum();
    let spent = clock.now().seconds_since(began);
    std::hint::black_box(sum);
    Ok(Timing {
        prediction_us: 1e6 * spent / count(ASKED),
        train_s,
        train_rows: ROWS,
        train_inputs: INPUTS,
        train_r2: score.r2.unwrap_or(f64::NAN),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        build: if cfg!(debug_assertions) { "dev" } else { "release" },
    })
}

#[expect(clippy::cast_precision_loss, reason = "a few ten thousand")]
fn count(n: usize) -> f64 {
    n as f64
}

fn table(rows: usize, seed: u64) -> (Frame, Task) {
    let mut random = Random::new(seed, 0);
    let columns: Vec<Vec<f64>> = (0..INPUTS).map(|_| (0..rows).map(|_| random.unit()).collect()).collect();
    let truth = |row: usize| {
        let x = |column: usize| columns[column][row];
        10.0 * (std::f64::consts::PI * x(0) * x(1)).sin() + 20.0 * (x(2) - 0.5).powi(2) + 10.0 * x(3) + 5.0 * x(4)
    };
    let values = (0..rows).map(|row| truth(row) + random.normal()).collect();
    let parts: Vec<String> = (0..rows).map(|row| format!("part {}", row % 10)).collect();
    let names: Vec<String> = (0..INPUTS).map(|column| format!("x{column}")).collect();
    let frame = Frame {
        features: names.iter().zip(columns).map(|(name, values)| Feature::number(name, "", values)).collect(),
        targets: vec![Target { name: "y".to_owned(), unit: String::new(), timer: String::new(), values }],
        groups: vec![Group::new("part", &parts)],
        ..Frame::default()
    };
    let task = Task {
        target: "y".to_owned(),
        scale: Scale::Plain,
        features: names,
        baseline: None,
        key: Vec::new(),
        last: None,
        rising: Vec::new(),
        falling: Vec::new(),
    };
    (frame, task)
}
