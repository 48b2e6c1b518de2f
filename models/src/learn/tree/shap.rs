//! Path-dependent `TreeSHAP`: Algorithm 2 of Lundberg, Erion and Lee, "Consistent individualized
//! feature attribution for tree ensembles" (2018, arXiv 1802.03888).

use super::Tree;

/// A step of the path from the root: the share of paths that flow on when its input is unknown
/// (`zero`) and known (`one`), and the weight of the subsets of each size.
#[derive(Debug, Clone, Copy)]
struct Step {
    feature: usize,
    zero: f64,
    one: f64,
    weight: f64,
}

/// No input: the step before the root.
const NONE: usize = usize::MAX;

/// Adds what each input adds to the prediction of one tree for one row.
pub(super) fn add(tree: &Tree, x: &[f64], phi: &mut [f64]) {
    walk(tree, x, phi, 0, Vec::new(), Step { feature: NONE, zero: 1.0, one: 1.0, weight: 0.0 });
}

fn walk(tree: &Tree, x: &[f64], phi: &mut [f64], at: usize, mut path: Vec<Step>, step: Step) {
    extend(&mut path, step);
    let node = &tree.nodes[at];
    if node.left == 0 {
        for i in 1..path.len() {
            let weight = unwound_sum(&path, i);
            phi[path[i].feature] += weight * (path[i].one - path[i].zero) * node.value;
        }
        return;
    }
    let feature = node.feature as usize;
    let hot = tree.next(node, x);
    let cold = if hot == node.left as usize { node.right } else { node.left } as usize;
    let (mut zero, mut one) = (1.0, 1.0);
    // An input met before on this path counts once: its former step is taken back.
    if let Some(i) = path.iter().position(|s| s.feature == feature) {
        (zero, one) = (path[i].zero, path[i].one);
        unwind(&mut path, i);
    }
    let share = |child: usize| if node.cover > 0.0 { tree.nodes[child].cover / node.cover } else { 0.5 };
    walk(tree, x, phi, hot, path.clone(), Step { feature, zero: zero * share(hot), one, weight: 0.0 });
    walk(tree, x, phi, cold, path, Step { feature, zero: zero * share(cold), one: 0.0, weight: 0.0 });
}

#[expect(clippy::cast_precision_loss, reason = "a path has at most 64 steps")]
fn extend(path: &mut Vec<Step>, step: Step) {
    let length = path.len();
    path.push(Step { weight: if length == 0 { 1.0 } else { 0.0 }, ..step });
    for i in (0..length).rev() {
        let weight = path[i].weight;
        path[i + 1].weight += step.one * weight * (i + 1) as f64 / (length + 1) as f64;
        path[i].weight = step.zero * weight * (length - i) as f64 / (length + 1) as f64;
    }
}

#[expect(clippy::cast_precision_loss, reason = "a path has at most 64 steps")]
fn unwind(path: &mut Vec<Step>, at: usize) {
    let last = path.len() - 1;
    let (one, zero) = (path[at].one, path[at].zero);
    let mut next = path[last].weight;
    for i in (0..last).rev() {
        if one == 0.0 {
            path[i].weight = path[i].weight * (last + 1) as f64 / (zero * (last - i) as f64);
        } else {
            let weight = path[i].weight;
            path[i].weight = next * (last + 1) as f64 / ((i + 1) as f64 * one);
            next = weight - path[i].weight * zero * (last - i) as f64 / (last + 1) as f64;
        }
    }
    for i in at..last {
        let step = path[i + 1];
        path[i] = Step { weight: path[i].weight, ..step };
    }
    path.pop();
}

/// The sum of the weights that [`unwind`] would leave.
#[expect(clippy::cast_precision_loss, reason = "a path has at most 64 steps")]
fn unwound_sum(path: &[Step], at: usize) -> f64 {
    let last = path.len() - 1;
    let (one, zero) = (path[at].one, path[at].zero);
    let mut next = path[last].weight;
    let mut sum = 0.0;
    for i in (0..last).rev() {
        if one == 0.0 {
            sum += path[i].weight * (last + 1) as f64 / (zero * (last - i) as f64);
        } else {
            let weight = next * (last + 1) as f64 / ((i + 1) as f64 * one);
            sum += weight;
            next = path[i].weight - weight * zero * (last - i) as f64 / (last + 1) as f64;
        }
    }
    sum
}
