//! Folds that never part what belongs together.

use super::frame::Group;
use super::random::Random;
use super::stats;

/// Rows to learn from and rows to be judged on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// The groups that are left out.
    pub name: String,
    /// The rows to learn from.
    pub train: Vec<usize>,
    /// The rows of the groups that are left out.
    pub test: Vec<usize>,
}

/// Leaves groups out: one a fold, or, where there are more groups than `most`, several, so that
/// folds have about equally many rows. No folds where there are not two groups.
#[must_use]
pub fn grouped(group: &Group, rows: &[usize], most: usize, seed: u64) -> Vec<Fold> {
    let mut members = group.members(rows);
    if members.len() < 2 {
        return Vec::new();
    }
    let count = members.len().min(most.max(2));
    let mut bins: Vec<(Vec<usize>, Vec<usize>)> = vec![(Vec::new(), Vec::new()); count];
    if members.len() > count {
        // Shuffled first, so that equally large groups do not stand together by name.
        Random::new(seed, 0).shuffle(&mut members);
        members.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
        for (level, rows) in members {
            let Some(bin) = bins.iter_mut().min_by_key(|(_, rows)| rows.len()) else { break };
            bin.0.push(level);
            bin.1.extend(rows);
        }
    } else {
        bins = members.into_iter().map(|(level, rows)| (vec![level], rows)).collect();
    }
    let fold = |(levels, mut test): (Vec<usize>, Vec<usize>)| {
        test.sort_unstable();
        let left_out = |row: &usize| levels.contains(&(group.codes[*row] as usize));
        let train = rows.iter().copied().filter(|row| !left_out(row)).collect();
        let name = match levels.as_slice() {
            [one] => group.levels[*one].clone(),
            several => format!("{} groups", several.len()),
        };
        Fold { name, train, test }
    };
    bins.into_iter().map(fold).collect()
}

/// Splits rows at random, for data without groups: flattering wherever rows resemble each other.
#[must_use]
pub fn random(rows: &[usize], count: usize, seed: u64) -> Vec<Fold> {
    let mut order = rows.to_vec();
    Random::new(seed, 1).shuffle(&mut order);
    let count = count.clamp(2, rows.len().max(2));
    let part = |fold: usize| {
        let mut test: Vec<usize> = order.iter().copied().skip(fold).step_by(count).collect();
        test.sort_unstable();
        let train = rows.iter().copied().filter(|row| test.binary_search(row).is_err()).collect();
        Fold { name: format!("part {}", fold + 1), train, test }
    };
    (0..count).map(part).filter(|fold| !fold.test.is_empty() && !fold.train.is_empty()).collect()
}

/// Inner folds of training rows: by the same groups where there are two or more left, else random.
#[must_use]
pub fn inner(group: &Group, rows: &[usize], most: usize, seed: u64) -> Vec<Fold> {
    let folds = grouped(group, rows, most, seed);
    if folds.is_empty() { random(rows, most, seed) } else { folds }
}

/// That share of the rows, by the seed, for learning curves: never fewer than ten.
#[must_use]
pub fn sample(rows: &[usize], share: f64, seed: u64) -> Vec<usize> {
    let keep = stats::share(share, rows.len()).max(10);
    Random::new(seed, 2).choose(rows.len(), keep).into_iter().map(|at| rows[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(rows: usize, groups: usize) -> Group {
        let names: Vec<String> = (0..rows).map(|i| format!("g{}", i * i % groups)).collect();
        Group::new("g", &names)
    }

    fn is_a_partition(folds: &[Fold], rows: &[usize]) {
        let mut all: Vec<usize> = folds.iter().flat_map(|f| f.test.clone()).collect();
        all.sort_unstable();
        assert_eq!(all, rows);
        for fold in folds {
            let mut both = [fold.train.clone(), fold.test.clone()].concat();
            both.sort_unstable();
            assert_eq!(both, rows, "{}", fold.name);
        }
    }

    #[test]
    fn no_group_is_on_both_sides() {
        let rows: Vec<usize> = (0..300).collect();
        for (groups, most) in [(7, 20), (97, 5)] {
            let group = group(300, groups);
            let folds = grouped(&group, &rows, most, 1);
            is_a_partition(&folds, &rows);
            for fold in &folds {
                let outside = |row: &usize| fold.train.iter().all(|t| group.codes[*t] != group.codes[*row]);
                assert!(fold.test.iter().all(outside), "{}", fold.name);
            }
        }
    }

    #[test]
    fn packed_folds_are_about_equally_large_and_repeat_by_the_seed() {
        let rows: Vec<usize> = (0..1000).collect();
        let group = group(1000, 97);
        let folds = grouped(&group, &rows, 5, 1);
        assert_eq!(folds.len(), 5);
        assert!(folds.iter().all(|f| (150..=250).contains(&f.test.len())));
        assert_eq!(folds, grouped(&group, &rows, 5, 1));
    }

    #[test]
    fn one_group_gives_no_outer_folds_and_random_inner_ones() {
        let rows: Vec<usize> = (0..20).collect();
        let one = group(20, 1);
        assert!(grouped(&one, &rows, 5, 1).is_empty());
        is_a_partition(&inner(&one, &rows, 4, 1), &rows);
        assert_eq!(sample(&rows, 0.75, 1).len(), 15);
    }
}
