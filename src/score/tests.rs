//! A small data set, scored from its declaration to its page.

use feedline_models::learn::declare::{Declaration, Raw, Table};
use feedline_models::learn::random::Random;

use super::{Set, Which, page, run, steps};

const DECLARED: &str = r#"
name = "small"
about = "Made for a test."
file = "small.csv"
input = [{ column = "workers" }, { column = "decode", unit = "1/s", timer = "probe" }, { column = "copy", timer = "loop" }]
outcome = [{ column = "rate", unit = "1/s", timer = "loop" }, { column = "stall", unit = "", timer = "loop" }]
baseline = [{ column = "limit", unit = "1/s" }]
group = [
  { name = "disk", columns = ["disk"] },
  { name = "repeat", columns = ["disk", "workers"] },
  { name = "binds", columns = ["binds"] },
]

[[task]]
target = "rate"
scale = "log"
baseline = "limit"
splits = ["disk"]
repeats = "repeat"
leaked = ["copy"]

[[task]]
target = "stall"
scale = "share"
splits = ["disk"]
leaked = ["copy"]

[[class]]
label = "binds"
splits = ["disk"]
"#;

/// Rates of four disks: what workers decode, times a factor that the baseline does not know.
fn set() -> Set {
    let declared: Declaration = toml::from_str(DECLARED).unwrap();
    let mut random = Random::new(5, 0);
    let mut columns: [Vec<f64>; 5] = Default::default();
    let (mut disks, mut binds) = (Vec::new(), Vec::new());
    for row in 0..80 {
        let workers = f64::from([1, 2, 4, 8][row / 4 % 4]);
        let decode = 20.0 + 60.0 * random.unit();
        let rate = workers.powf(0.8) * decode * (0.05 * random.normal()).exp();
        let stall = (1.0 - rate / 400.0).clamp(0.0, 1.0);
        disks.push(format!("disk {}", row % 4));
        binds.push(if stall < 0.5 { "step" } else { "workers" }.to_owned());
        for (column, value) in columns.iter_mut().zip([workers, decode, rate, stall, workers * decode]) {
            column.push(value);
        }
    }
    let [workers, decode, rate, stall, limit] = columns.map(Raw::Numbers);
    let copy = rate.clone();
    let columns = [
        ("workers", workers),
        ("decode", decode),
        ("rate", rate),
        ("stall", stall),
        ("limit", limit),
        ("copy", copy),
        ("disk", Raw::Texts(disks)),
        ("binds", Raw::Texts(binds)),
    ];
    let table: Table = columns.into_iter().map(|(name, raw)| (name.to_owned(), raw)).collect();
    let frame = declared.frame(&table).unwrap();
    Set { declared, path: "small.csv".into(), frame }
}

#[test]
fn a_data_set_is_scored_by_the_figures_that_are_asked_for_and_written_as_a_page() {
    // Two questions about the same file are no more observations than one.
    let sets = [set(), set()];
    let told = std::cell::Cell::new(0);
    let scores = run(&sets, Which::Quick, 1, &|| told.set(told.get() + 1)).unwrap();
    assert_eq!(told.get(), steps(&sets, Which::Quick), "the bar ends where it said");
    let json = serde_json::to_value(&scores).unwrap();
    assert_eq!(json["observations"], 80);
    let together = &json["sets"][0]["splits"][0];
    assert_eq!(together["split"], "disk");
    let figure = |name: &str| together[name].as_f64().unwrap_or_else(|| panic!("{name}: {together}"));
    assert!(figure("r2_log") > 0.9 && figure("worst_group_r2") > 0.8, "{together}");
    assert!(figure("median_error_pct") < 10.0 && figure("stall_mae_points") < 10.0, "{together}");
    assert!(figure("coverage_80_pct") > 50.0 && figure("noise_floor_pct") > 1.0, "{together}");
    let page = page::markdown(&scores);
    for part in
        ["## `small`", "### `rate`, in 1/s", "Leaving out disk", "boosted trees on baseline", "published recipe"]
    {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    assert!(page.contains("copy shares the outcome's timer") && page.contains("`binds`, as a class"), "{page}");
    let short = page::short(&scores);
    assert_eq!(short.len(), 5, "{short:?}");
}
