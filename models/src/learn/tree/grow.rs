//! One tree, grown leaf by leaf: always the leaf whose split gains most.

use rayon::prelude::*;

use super::bins::Column;
use super::split::{self, Cell, Rules, Split};
use super::{Node, Tree};
use crate::learn::random::Random;

/// How far a tree may grow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most leaves.
    pub(super) leaves: usize,
    /// The longest way from the root to a leaf.
    pub(super) depth: usize,
    /// The fewest rows of a leaf.
    pub(super) rows: u32,
    /// Shrinks leaves.
    pub(super) l2: f64,
    /// How many columns, chosen anew for each node, may split it; 0 means all.
    pub(super) columns: usize,
}

/// What a tree is grown from.
pub(super) struct Grow<'a> {
    pub(super) columns: &'a [Column],
    /// The columns this tree may use.
    pub(super) used: &'a [usize],
    /// First and second derivatives of the loss, a pair a row.
    pub(super) slopes: &'a [(f64, f64)],
    pub(super) limits: Limits,
    pub(super) monotone: &'a [i8],
    pub(super) seed: u64,
}

/// A tree, and the rows of each of its leaves with what those may predict.
pub(super) struct Grown {
    pub(super) tree: Tree,
    pub(super) leaves: Vec<Leaf>,
}

/// A leaf of a grown tree.
pub(super) struct Leaf {
    pub(super) node: usize,
    pub(super) rows: Vec<u32>,
    pub(super) bounds: (f64, f64),
    depth: usize,
    sums: Cell,
    /// The bins of each used column; dropped once no split is to come.
    cells: Vec<Vec<Cell>>,
    split: Option<Split>,
}

/// Below this much work threads cost more than they save.
const PARALLEL: usize = if cfg!(test) { 2_000 } else { 200_000 };

impl Grow<'_> {
    /// Grows a tree on these rows.
    pub(super) fn run(&self, rows: Vec<u32>) -> Grown {
        let sums = self.sums(&rows);
        let mut nodes = vec![Node::leaf(sums.hessian)];
        let mut sets = Vec::new();
        let cells = self.histogram(&rows);
        let mut root =
            Leaf { node: 0, sums, rows, bounds: (f64::NEG_INFINITY, f64::INFINITY), depth: 0, cells, split: None };
        self.find(&mut root);
        let mut leaves = vec![root];
        while leaves.len() < self.limits.leaves {
            let gain = |leaf: &Leaf| leaf.split.as_ref().map_or(f64::NEG_INFINITY, |s| s.gain);
            let Some(at) = (0..leaves.len()).reduce(|a, b| if gain(&leaves[b]) > gain(&leaves[a]) { b } else { a })
            else {
                break;
            };
            let mut leaf = leaves.swap_remove(at);
            let Some(split) = leaf.split.take() else {
                leaves.push(leaf);
                break;
            };
            let (left, right) = self.divide(leaf, &split, &mut nodes, &mut sets);
            leaves.push(left);
            leaves.push(right);
        }
        for leaf in &mut leaves {
            leaf.cells = Vec::new();
            nodes[leaf.node].value = self.rules(leaf, 0).value(leaf.sums, self.limits.l2);
        }
        leaves.sort_by_key(|leaf| leaf.node);
        Grown { tree: Tree { nodes, sets }, leaves }
    }

    fn rules(&self, leaf: &Leaf, column: usize) -> Rules {
        let monotone = self.monotone.get(column).copied().unwrap_or(0);
        let l2 = self.limits.l2;
        Rules { rows: self.limits.rows, l2, named_l2: l2 + 2.0, bounds: leaf.bounds, monotone }
    }

    fn sums(&self, rows: &[u32]) -> Cell {
        let mut sums = Cell::default();
        for &row in rows {
            let (gradient, hessian) = self.slopes[row as usize];
            sums.add(Cell { gradient, hessian, rows: 1 });
        }
        sums
    }

    /// The bins of the used columns over some rows. Each column is added up in the order of the
    /// rows, so the sums do not depend on threads.
    fn histogram(&self, rows: &[u32]) -> Vec<Vec<Cell>> {
        let slopes: Vec<(f64, f64)> = rows.iter().map(|&row| self.slopes[row as usize]).collect();
        let one = |&column: &usize| {
            let column = &self.columns[column];
            let mut cells = vec![Cell::default(); column.count + 1];
            for (&row, &(gradient, hessian)) in rows.iter().zip(&slopes) {
                let cell = &mut cells[usize::from(column.bins[row as usize])];
                cell.gradient += gradient;
                cell.hessian += hessian;
                cell.rows += 1;
            }
            cells
        };
        if rows.len() * self.used.len() < PARALLEL {
            self.used.iter().map(one).collect()
        } else {
            self.used.par_iter().map(one).collect()
        }
    }

    /// Finds the best split of a leaf.
    fn find(&self, leaf: &mut Leaf) {
        leaf.split = None;
        if !self.divisible(leaf) {
            leaf.cells = Vec::new();
            return;
        }
        let mut best: Option<Split> = None;
        let few = self.limits.columns;
        let chosen = if few == 0 || few >= self.used.len() {
            (0..self.used.len()).collect()
        } else {
            Random::new(self.seed, leaf.node as u64).choose(self.used.len(), few)
        };
        for position in chosen {
            let column = self.used[position];
            let rules = self.rules(leaf, column);
            let found = split::best(column, &self.columns[column], &leaf.cells[position], leaf.sums, &rules);
            if let Some(found) = found.filter(|f| best.as_ref().is_none_or(|b| f.gain > b.gain)) {
                best = Some(found);
            }
        }
        leaf.split = best.filter(|split| split.gain > 1e-12);
    }

    fn divide(&self, leaf: Leaf, split: &Split, nodes: &mut Vec<Node>, sets: &mut Vec<super::Set>) -> (Leaf, Leaf) {
        let column = &self.columns[split.column];
        let missing = column.missing();
        let goes_left = |row: &u32| split.goes_left(usize::from(column.bins[*row as usize]), missing);
        let (left_rows, right_rows): (Vec<u32>, Vec<u32>) = leaf.rows.iter().partition(|row| goes_left(row));
        let rules = self.rules(&leaf, split.column);
        let l2 = self.limits.l2;
        let (mut left_bounds, mut right_bounds) = (leaf.bounds, leaf.bounds);
        if rules.monotone != 0 {
            let middle = f64::midpoint(rules.value(split.left, l2), rules.value(split.right, l2));
            if rules.monotone > 0 {
                (left_bounds.1, right_bounds.0) = (middle, middle);
            } else {
                (left_bounds.0, right_bounds.1) = (middle, middle);
            }
        }
        let child = |sums: Cell, nodes: &mut Vec<Node>| {
            nodes.push(Node::leaf(sums.hessian));
            nodes.len() - 1
        };
        let (left_node, right_node) = (child(split.left, nodes), child(split.right, nodes));
        if let Some(set) = split.set {
            sets.push(set);
        }
        let parent = &mut nodes[leaf.node];
        parent.feature = index(split.column);
        parent.threshold =
            column.cuts.get(split.bin).copied().unwrap_or(if column.categorical { 0.0 } else { f64::MAX });
        parent.left = index(left_node);
        parent.right = index(right_node);
        parent.set = if split.set.is_some() { index(sets.len()) } else { 0 };
        parent.missing_left = split.missing_left;
        parent.cover = split.left.hessian + split.right.hessian;
        let depth = leaf.depth + 1;
        let make = |node, rows, bounds, sums| Leaf { node, rows, bounds, depth, sums, cells: Vec::new(), split: None };
        let mut left = make(left_node, left_rows, left_bounds, split.left);
        let mut right = make(right_node, right_rows, right_bounds, split.right);
        self.fill(leaf.cells, &mut left, &mut right);
        (left, right)
    }

    /// Adds up the smaller child, and takes the other as what is left of its parent.
    fn fill(&self, parent: Vec<Vec<Cell>>, left: &mut Leaf, right: &mut Leaf) {
        let swap = left.rows.len() > right.rows.len();
        let (small, large) = if swap { (right, left) } else { (left, right) };
        if !self.divisible(large) {
            return;
        }
        large.cells = parent;
        if self.divisible(small) {
            small.cells = self.histogram(&small.rows);
            for (cells, taken) in large.cells.iter_mut().zip(&small.cells) {
                for (cell, taken) in cells.iter_mut().zip(taken) {
                    *cell = cell.less(*taken);
                }
            }
            self.find(small);
        } else {
            // Nobody will ask for the bins of these few rows: they only leave their parent's.
            for (cells, &column) in large.cells.iter_mut().zip(self.used) {
                let bins = &self.columns[column].bins;
                for &row in &small.rows {
                    let (gradient, hessian) = self.slopes[row as usize];
                    let cell = &mut cells[usize::from(bins[row as usize])];
                    *cell = cell.less(Cell { gradient, hessian, rows: 1 });
                }
            }
        }
        self.find(large);
    }

    /// Whether a leaf has rows and depth enough for two.
    fn divisible(&self, leaf: &Leaf) -> bool {
        leaf.depth < self.limits.depth && leaf.sums.rows >= 2 * self.limits.rows
    }
}

#[expect(clippy::cast_possible_truncation, reason = "nodes, sets and columns are far fewer than 2^32")]
fn index(position: usize) -> u32 {
    position as u32
}
