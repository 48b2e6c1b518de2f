//! Boosted trees over the folds of a CSV file, for comparing them with other implementations:
//! `boost IN OUT TREES LEAVES RATE LEAF_ROWS`. The file has the columns `fold`, `y` and then the
//! inputs; an input whose head ends in `:K` is one of `K` names, by position. An empty cell is
//! missing. What is written is a prediction a row, from the trees that were grown without its fold.

use std::error::Error;
use std::fs;

use feedline_models::learn::tree::{Boost, Columns};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, trees, leaves, rate, rows] = args.as_slice() else {
        return Err("boost IN OUT TREES LEAVES RATE LEAF_ROWS".into());
    };
    let boost = Boost {
        trees: trees.parse()?,
        leaves: leaves.parse()?,
        rate: rate.parse()?,
        rows: rows.parse()?,
        depth: 60,
        row_share: 1.0,
        column_share: 1.0,
        ..Boost::default()
    };
    let text = fs::read_to_string(input)?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let levels: Vec<usize> =
        head[2..].iter().map(|name| name.rsplit_once(':').and_then(|(_, k)| k.parse().ok()).unwrap_or(0)).collect();
    let mut rows: Vec<(String, f64, Vec<f64>)> = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |cell: &&str| cell.parse().unwrap_or(f64::NAN);
        rows.push((cells[0].to_owned(), cells[1].parse()?, cells[2..].iter().map(number).collect()));
    }
    let mut folds: Vec<&str> = rows.iter().map(|r| r.0.as_str()).collect();
    folds.sort_unstable();
    folds.dedup();
    let mut said = vec![f64::NAN; rows.len()];
    for fold in folds {
        let train: Vec<usize> = (0..rows.len()).filter(|r| rows[*r].0 != fold).collect();
        let column = |c: usize| train.iter().map(|&r| rows[r].2[c]).collect();
        let columns = Columns { values: (0..levels.len()).map(column).collect(), levels: levels.clone() };
        let y: Vec<f64> = train.iter().map(|&r| rows[r].1).collect();
        let fitted = boost.fit(&columns, &y, &[], 1);
        for (row, said) in rows.iter().zip(&mut said).filter(|(row, _)| row.0 == fold) {
            *said = fitted.predict(&row.2);
        }
    }
    fs::write(output, said.iter().map(|s| format!("{s}\n")).collect::<String>())?;
    Ok(())
}
