//! The mean of the learners that do best in the inner folds: what one would use, and its honest score.

use feedline_traces::{Error, Result};
use rayon::prelude::*;

use super::band::{self, Band, HeldOut};
use super::folds;
use super::frame::{Frame, Group};
use super::learner::Learner;
use super::model::{Model, Spec};
use super::score::Predicted;
use super::stats;
use super::task::Task;
use super::validate::{self, Outer, Plan, Validated};

/// How many learners are averaged.
pub const TOGETHER: usize = 3;

/// What one gets who, in each outer fold, takes the mean of the [`TOGETHER`] learners that did best in
/// the inner folds, on the outcome's scale: what they are off by is partly their own, and evens out
/// (Breiman, "Stacked regressions", 1996; with equal weights, because inner folds are few).
///
/// Where that is not better than the best learner without inputs by more than the standard error of
/// their difference over groups, it is that learner (the one-standard-error rule of Breiman et al.,
/// 1984, on pairs): few groups cannot tell what is learnt from what is chance.
///
/// # Errors
/// When there are no validations, or they are of different folds.
pub fn blended(frame: &Frame, task: &Task, plan: &Plan, all: &[Validated]) -> Result<Validated> {
    let first = all.first().ok_or_else(|| Error::new(format!("{}: nothing to choose from", task.target)))?;
    let group = frame.group(&plan.group)?;
    let blend = |at: usize| -> Result<Outer> {
        let same = |f: &&Outer| f.left_out == first.folds[at].left_out && f.held.len() == first.folds[at].held.len();
        let there: Vec<&Outer> = all.iter().filter_map(|v| v.folds.get(at)).filter(same).collect();
        if there.len() < all.len() {
            return Err(Error::new(format!("{}: validations of different folds", task.target)));
        }
        let each: Vec<Said> = there.iter().map(|f| Said::of(&f.chosen, &f.held)).collect();
        let together = Together::of(frame, task, group, plan, &each)?;
        let parts: Vec<&Outer> = together.parts.iter().map(|part| there[*part]).collect();
        let said = |(i, p): (usize, &Predicted)| {
            let scaled = parts.iter().map(|f| f.predicted[i].scaled).sum::<f64>() / stats::count(parts.len());
            let (low, high) = (scaled - together.radius, scaled + together.radius);
            let interval = Some((task.scale.back(low), task.scale.back(high)));
            Predicted { row: p.row, scaled, value: task.scale.back(scaled), interval, outside: p.outside }
        };
        let predicted = parts[0].predicted.iter().enumerate().map(said).collect();
        let inner_error = validate::mean_miss(frame, together.held.iter());
        let left_out = first.folds[at].left_out.clone();
        let chosen = mean(parts.iter().map(|f| f.chosen.clone()).collect());
        Ok(Outer { left_out, chosen, inner_error, held: together.held, predicted })
    };
    let folds = (0..first.folds.len()).map(blend).collect::<Result<_>>()?;
    Validated::new(frame, task, group, format!("mean of the best {TOGETHER}"), folds)
}

/// Fits the learner for use that [`blended`] scores: the mean of the [`TOGETHER`] contenders that do
/// best in inner folds over these rows, with its interval.
///
/// # Errors
/// When the frame lacks a column or a contender cannot be fitted.
pub fn best(frame: &Frame, rows: &[usize], task: &Task, all: &[Vec<Spec>], plan: &Plan) -> Result<Model> {
    let group = frame.group(&plan.group)?;
    let folds = folds::inner(group, rows, plan.inner, plan.seed);
    let one = |settings: &Vec<Spec>| validate::tune(frame, task, settings, &folds, plan.seed);
    let tuned: Vec<(Spec, Vec<HeldOut>)> = all.par_iter().map(one).collect::<Result<_>>()?;
    let each: Vec<Said> = tuned.iter().map(|(spec, held)| Said::of(spec, held)).collect();
    let together = Together::of(frame, task, group, plan, &each)?;
    let parts = together.parts.iter().map(|part| tuned[*part].0.clone()).collect();
    let mut model = mean(parts).fit(frame, rows, task, plan.seed)?;
    model.band = Some(Band::Even { radius: together.radius });
    Ok(model)
}

fn mean(parts: Vec<Spec>) -> Spec {
    let residual = parts.iter().any(|part| part.residual);
    Spec { learner: Learner::Mean(parts), residual }
}

/// What a learner said of rows while they were held out.
struct Said<'a> {
    simple: bool,
    held: &'a [HeldOut],
}

impl<'a> Said<'a> {
    fn of(spec: &Spec, held: &'a [HeldOut]) -> Self {
        Self { simple: spec.learner.is_simple(), held }
    }
}

/// The learners that are averaged, and how far off their mean may be.
struct Together {
    parts: Vec<usize>,
    held: Vec<HeldOut>,
    radius: f64,
}

impl Together {
    /// From what each learner said of rows while they were held out. Learners that did best on some rows
    /// look better there than they are: so what the mean was off by is taken, fold by fold, from the
    /// learners that did best in the other folds.
    fn of(frame: &Frame, task: &Task, group: &Group, plan: &Plan, all: &[Said<'_>]) -> Result<Self> {
        let rows: Vec<usize> = all.first().map(|one| one.held.iter().map(|h| h.row).collect()).unwrap_or_default();
        if rows.is_empty() || all.iter().any(|one| one.held.len() != rows.len()) {
            return Err(Error::new(format!("{}: nothing to choose from", task.target)));
        }
        let ground = Ground { frame, task, group, all, outcomes: &frame.target(&task.target)?.values };
        let mut held = Vec::with_capacity(rows.len());
        for fold in folds::inner(group, &rows, plan.inner, plan.seed) {
            let (own, others): (Vec<usize>, Vec<usize>) =
                (0..rows.len()).partition(|at| fold.test.binary_search(&rows[*at]).is_ok());
            held.extend(ground.averaged(&ground.picked(&others), &own));
        }
        held.sort_by_key(|h| h.row);
        let radius = band::radius(&held, group, plan.level);
        Ok(Self { parts: ground.picked(&(0..rows.len()).collect::<Vec<_>>()), held, radius })
    }
}

/// What is chosen from; rows are by their place among those held out.
struct Ground<'a> {
    frame: &'a Frame,
    task: &'a Task,
    group: &'a Group,
    all: &'a [Said<'a>],
    outcomes: &'a [f64],
}

impl Ground<'_> {
    /// The learners that are averaged, by these rows.
    fn picked(&self, rows: &[usize]) -> Vec<usize> {
        let error = |one: &Said<'_>| validate::mean_miss(self.frame, rows.iter().map(|at| &one.held[*at]));
        let errors: Vec<f64> = self.all.iter().map(error).collect();
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by(|a, b| errors[*a].total_cmp(&errors[*b]));
        let simple = order.iter().copied().find(|part| self.all[*part].simple);
        order.truncate(TOGETHER);
        match simple {
            Some(simple) if !self.pays(simple, &order, rows) => vec![simple],
            _ => order,
        }
    }

    /// Whether a mean is better than one learner by more than the standard error of the difference over
    /// groups.
    fn pays(&self, simple: usize, parts: &[usize], rows: &[usize]) -> bool {
        let mean = self.averaged(parts, rows);
        let mut gains = vec![(0.0, 0.0); self.group.levels.len()];
        for (at, ours) in rows.iter().zip(&mean) {
            let gain = &mut gains[self.group.codes[ours.row] as usize];
            gain.0 += self.all[simple].held[*at].miss - ours.miss;
            gain.1 += 1.0;
        }
        let gains: Vec<f64> = gains.into_iter().filter(|g| g.1 > 0.0).map(|g| g.0 / g.1).collect();
        let middle = stats::mean(&gains, &[]);
        if gains.len() < 2 {
            return middle > 0.0;
        }
        let squares: f64 = gains.iter().map(|g| (g - middle) * (g - middle)).sum();
        let groups = stats::count(gains.len());
        middle > (squares / (groups - 1.0) / groups).sqrt()
    }

    /// What the mean of some learners said of some rows.
    fn averaged(&self, parts: &[usize], rows: &[usize]) -> Vec<HeldOut> {
        let one = |at: &usize| {
            let row = self.all[0].held[*at].row;
            let said = parts.iter().map(|part| self.all[*part].held[*at].said).sum::<f64>() / stats::count(parts.len());
            HeldOut { row, said, miss: validate::miss(self.task, said, self.outcomes[row]) }
        };
        rows.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Target;
    use super::super::task::Scale;
    use super::*;

    /// Ten rows of five hosts, all with the outcome 0, and what two learners said of them.
    fn picks(inputs: &[f64; 10], constant: f64) -> Vec<usize> {
        let hosts: Vec<String> = (0..10).map(|i| format!("host {}", i / 2)).collect();
        let target = Target { name: "y".into(), unit: String::new(), timer: String::new(), values: vec![0.0; 10] };
        let frame = Frame { targets: vec![target], groups: vec![Group::new("host", &hosts)], ..Frame::default() };
        let task = Task {
            target: "y".into(),
            scale: Scale::Plain,
            features: vec![],
            baseline: None,
            key: vec![],
            last: None,
            rising: vec![],
            falling: vec![],
        };
        let held = |of: &dyn Fn(usize) -> f64| -> Vec<HeldOut> {
            (0..10).map(|row| HeldOut { row, said: of(row), miss: of(row).abs() }).collect()
        };
        let (simple, other) = (held(&|_| constant), held(&|row| inputs[row]));
        let all = [Said { simple: true, held: &simple }, Said { simple: false, held: &other }];
        let ground = Ground {
            frame: &frame,
            task: &task,
            group: &frame.groups[0],
            all: &all,
            outcomes: &frame.targets[0].values,
        };
        ground.picked(&(0..10).collect::<Vec<_>>())
    }

    #[test]
    fn inputs_are_learnt_from_only_where_more_than_chance_speaks_for_them() {
        // Better on every host, though their mean with the constant is what is taken.
        assert_eq!(picks(&[0.1; 10], 1.0), vec![1, 0]);
        // The mean of both is better on the whole, by one host alone.
        let lucky = [-1.0, -1.0, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2];
        assert_eq!(picks(&lucky, 1.0), vec![0]);
        assert_eq!(picks(&[1.0; 10], 0.5), vec![0], "worse everywhere");
    }
}
