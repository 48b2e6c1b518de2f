//! The learners as a whole: every one of them, validated, saved and loaded.

use proptest::prelude::*;

use super::blend::{best, blended};
use super::random::Random;
use super::study::{curve, open};
use super::tree::Boost;
use super::validate::{Plan, chosen, contenders, fit, judge, tune, validate};
use super::*;

/// Rates of eight disks under two formats: the slower of a disk and a decoder, times a factor a
/// disk that no input knows, times noise. The baseline knows the two limits, not what the format costs.
fn world(rows: usize, noise: f64) -> (Frame, Task) {
    let mut random = Random::new(21, 0);
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); 5];
    let (mut disks, mut formats, mut configurations) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let disk = row % 8;
        let bandwidth = 100.0 * 1.6_f64.powf(stats::count(disk));
        let workers = stats::count(1 + random.below(8));
        let decode = 20.0 + 60.0 * random.unit();
        let tar = random.below(2) == 1;
        let limit = bandwidth.min(workers * decode) * if tar { 1.0 } else { 0.6 };
        disks.push(format!("disk {disk}"));
        formats.push(if tar { "tar" } else { "files" });
        configurations.push(format!("{disk} {workers} {tar}"));
        let rate = limit * (noise * random.normal()).exp() * (0.05 * (stats::count(disk) * 2.4).sin()).exp();
        for (column, value) in
            columns.iter_mut().zip([bandwidth, workers, decode, rate, bandwidth.min(workers * decode)])
        {
            column.push(value);
        }
    }
    let [bandwidth, workers, decode, rate, limit]: [Vec<f64>; 5] = columns.try_into().unwrap();
    let frame = Frame {
        features: vec![
            Feature::number("bandwidth", "MB/s", bandwidth).measured_by("probe"),
            Feature::number("workers", "", workers),
            Feature::number("decode", "1/s", decode).measured_by("probe"),
            Feature::names("format", &formats),
        ],
        targets: vec![Target { name: "rate".into(), unit: "1/s".into(), timer: "loop".into(), values: rate }],
        baselines: vec![Target { name: "limit".into(), unit: "1/s".into(), timer: String::new(), values: limit }],
        groups: vec![Group::new("disk", &disks), Group::new("configuration", &configurations)],
        ..Frame::default()
    };
    let task = Task {
        target: "rate".into(),
        scale: Scale::Log,
        features: ["bandwidth", "workers", "decode", "format"].map(str::to_owned).to_vec(),
        baseline: Some("limit".into()),
        key: vec!["workers".into(), "format".into()],
        last: None,
        rising: Vec::new(),
        falling: Vec::new(),
    };
    (frame, task)
}

fn boosted(trees: usize, residual: bool) -> Spec {
    Spec { learner: Learner::Boosted(Boost { trees, ..Boost::default() }), residual }
}

#[test]
fn every_learner_is_validated_and_the_physics_helps_on_disks_never_seen() {
    let (frame, task) = world(160, 0.05);
    let plan = Plan { outer: 4, inner: 2, ..Plan::leaving_out("disk", 1) };
    let (mut names, mut all) = (Vec::new(), Vec::new());
    for mut settings in contenders(&task) {
        // One small setting a learner: this is about all of them, not about the best.
        settings.truncate(1);
        for spec in &mut settings {
            match &mut spec.learner {
                Learner::Boosted(boost) => boost.trees = 30,
                Learner::Forest(forest) => forest.trees = 10,
                _ => (),
            }
        }
        let found = validate(&frame, &task, &settings, &plan).unwrap();
        assert_eq!(found.predicted.len(), 160, "{}", found.name);
        assert!(found.predicted.iter().all(|p| p.value.is_finite() && p.value > 0.0), "{}", found.name);
        assert!(found.score.coverage_pct.is_some() && found.score.worst_group.is_some(), "{}", found.name);
        names.push((found.name.clone(), found.score.median_error_pct.unwrap()));
        all.push(found);
    }
    assert_eq!(names.len(), 23, "{names:?}");
    let of = |name: &str| names.iter().find(|n| n.0 == name).unwrap().1;
    assert!(of("boosted trees on baseline") < of("boosted trees"), "{names:?}");
    assert!(of("boosted trees on baseline") < of("baseline"), "{names:?}");
    assert!(of("boosted trees") < of("persistence"), "{names:?}");
    // Choosing without a look at the rows that are judged is seldom best, and never among the worst.
    let chosen = chosen(&frame, &task, &plan, &all).unwrap();
    let mut errors: Vec<f64> = names.iter().map(|n| n.1).collect();
    errors.sort_by(f64::total_cmp);
    assert!(chosen.score.rows == 160 && chosen.score.median_error_pct.unwrap() < errors[8], "{errors:?}");
    let blended = blended(&frame, &task, &plan, &all).unwrap();
    assert!(blended.score.rows == 160 && blended.score.median_error_pct.unwrap() < errors[5], "{errors:?}");
    assert!(blended.predicted.iter().all(|p| p.interval.is_some_and(|(low, high)| low < p.value && p.value < high)));
}

#[test]
fn a_setting_is_screened_on_one_fold_and_judged_on_all() {
    let (frame, task) = world(160, 0.05);
    let rows = task.rows(&frame).unwrap();
    let inner = folds::grouped(frame.group("disk").unwrap(), &rows, 3, 1);
    // No trees at all is a constant: whichever fold is looked at, it is the worse of the two.
    let settings = [boosted(0, false), boosted(30, false)];
    let (spec, held) = tune(&frame, &task, &settings, &inner, 1).unwrap();
    assert_eq!(spec, settings[1]);
    assert!(held.iter().map(|h| h.row).eq(rows.iter().copied()), "every row was held out once");
    let (_, alone) = tune(&frame, &task, &settings[1..], &inner, 1).unwrap();
    assert_eq!(held, alone);
}

#[test]
fn the_model_for_use_is_what_was_scored() {
    let (frame, task) = world(120, 0.05);
    let plan = Plan { outer: 2, inner: 2, ..Plan::leaving_out("disk", 1) };
    let bare = |learner: Learner, residual| vec![Spec { learner, residual }];
    let all = [
        bare(Learner::Linear, true),
        bare(Learner::GroupMean, false),
        bare(Learner::Nearest { count: 3 }, true),
        vec![boosted(20, false)],
    ];
    let found: Vec<_> = all.iter().map(|settings| validate(&frame, &task, settings, &plan).unwrap()).collect();
    let scored = blended(&frame, &task, &plan, &found).unwrap();
    let rows = task.rows(&frame).unwrap();
    let fold = folds::grouped(frame.group("disk").unwrap(), &rows, plan.outer, plan.seed).remove(0);
    let model = best(&frame, &fold.train, &task, &all, &plan).unwrap();
    for said in judge(&frame, &model, &fold.test).unwrap() {
        let was = scored.predicted.iter().find(|p| p.row == said.row).unwrap();
        assert!((said.value / was.value - 1.0).abs() < 1e-9, "{said:?} for {was:?}");
        let (now, then) = (said.interval.unwrap(), was.interval.unwrap());
        assert!((now.0 / then.0 - 1.0).abs() < 1e-9 && (now.1 / then.1 - 1.0).abs() < 1e-9);
    }
    let back = Model::load(&model.save().unwrap()).unwrap();
    assert_eq!(back, model);
    assert_eq!(back.predict_rows(&frame, &rows).unwrap(), model.predict_rows(&frame, &rows).unwrap());
}

#[test]
fn scores_are_the_same_on_any_number_of_threads() {
    let (frame, task) = world(96, 0.05);
    let plan = Plan { outer: 3, inner: 2, ..Plan::leaving_out("disk", 1) };
    let forest =
        Spec { learner: Learner::Forest(tree::Forest { trees: 6, ..tree::Forest::default() }), residual: false };
    let all = [vec![forest], vec![boosted(8, true)]];
    let score = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let found: Vec<_> = all.iter().map(|settings| validate(&frame, &task, settings, &plan).unwrap()).collect();
            let opened = open(&frame, &task, &all[1][0], &plan).unwrap();
            let contributions = opened.contributions(&frame, &task, 1).unwrap();
            (blended(&frame, &task, &plan, &found).unwrap().predicted, contributions)
        })
    };
    assert_eq!(score(1), score(4));
}

#[test]
fn settings_are_chosen_and_intervals_fitted_without_the_rows_that_are_judged() {
    let (mut frame, task) = world(240, 0.05);
    let plan = Plan { outer: 3, inner: 3, ..Plan::leaving_out("disk", 1) };
    let before = validate(&frame, &task, &[boosted(20, false)], &plan).unwrap();
    let averaged = |found: &validate::Validated, frame: &Frame| {
        blended(frame, &task, &plan, std::slice::from_ref(found)).unwrap().predicted
    };
    let together = averaged(&before, &frame);
    // Whatever happens to the outcomes of one fold's rows, what is said of them stays.
    let group = frame.group("disk").unwrap().clone();
    let rows = task.rows(&frame).unwrap();
    let fold = folds::grouped(&group, &rows, plan.outer, plan.seed).remove(0);
    fold.test.iter().for_each(|&row| frame.targets[0].values[row] *= 50.0);
    let after = validate(&frame, &task, &[boosted(20, false)], &plan).unwrap();
    for &row in &fold.test {
        assert_eq!(before.predicted[row].value, after.predicted[row].value);
        assert_eq!(before.predicted[row].interval, after.predicted[row].interval);
        assert_eq!(together[row], averaged(&after, &frame)[row]);
    }
}

#[test]
fn intervals_cover_what_they_say_on_groups_like_those_seen() {
    // Forty hosts, each with a shift of its own that no input knows.
    let mut random = Random::new(31, 0);
    let shift: Vec<f64> = (0..40).map(|_| 0.3 * random.normal()).collect();
    let hosts: Vec<String> = (0..800).map(|i| format!("host {:02}", i % 40)).collect();
    let x: Vec<f64> = (0..800).map(|_| random.unit()).collect();
    let y: Vec<f64> = x.iter().enumerate().map(|(i, x)| x + shift[i % 40] + 0.1 * random.normal()).collect();
    let frame = Frame {
        features: vec![Feature::number("x", "", x)],
        targets: vec![Target { name: "y".into(), unit: "s".into(), timer: "t".into(), values: y }],
        groups: vec![Group::new("host", &hosts)],
        ..Frame::default()
    };
    let task = Task {
        target: "y".into(),
        scale: Scale::Plain,
        features: vec!["x".into()],
        baseline: None,
        key: vec![],
        last: None,
        rising: Vec::new(),
        falling: Vec::new(),
    };
    let plan = Plan { outer: 5, inner: 3, ..Plan::leaving_out("host", 1) };
    for spec in [Spec { learner: Learner::Ridge { penalty: 0.01 }, residual: false }, boosted(15, false)] {
        let score = validate(&frame, &task, std::slice::from_ref(&spec), &plan).unwrap().score;
        let covered = score.coverage_pct.unwrap();
        assert!((70.0..=90.0).contains(&covered), "{}: {covered}", spec.name());
        assert!(score.worst_coverage_pct.unwrap() < covered);
    }
}

#[test]
fn simulated_rows_are_neither_learnt_from_nor_judged() {
    let (mut frame, task) = world(160, 0.05);
    frame.simulated = (0..160).map(|row| row % 4 == 0).collect();
    assert_eq!(task.rows(&frame).unwrap().len(), 120);
    let found =
        validate(&frame, &task, &[Spec { learner: Learner::Linear, residual: false }], &Plan::leaving_out("disk", 1));
    let found = found.unwrap();
    assert!(found.predicted.iter().all(|p| p.row % 4 != 0) && found.score.rows == 120);
}

#[test]
fn a_row_outside_of_what_was_learnt_says_which_input() {
    let (frame, task) = world(200, 0.05);
    let rows = task.rows(&frame).unwrap();
    let model = boosted(10, false).fit(&frame, &rows, &task, 1).unwrap();
    let mut x = Reader::new(&frame, &model.inputs).unwrap().row(0);
    assert!(model.outside(&x).is_empty());
    x[1] = 500.0;
    x[2] = f64::NAN;
    x[3] = UNKNOWN;
    let outside = model.outside(&x);
    let names: Vec<&str> = outside.iter().map(|o| o.input.as_str()).collect();
    assert_eq!(names, ["workers", "decode", "format"]);
    assert!(outside[0].to_string().contains("seen were 1 to 8"), "{}", outside[0]);
    assert!(outside[1].to_string().contains("missing") && outside[2].to_string().contains("never seen"));
}

#[test]
fn what_a_task_knows_of_directions_its_trees_keep_to() {
    let (frame, mut task) = world(200, 0.4);
    task.rising = vec!["workers".into()];
    let rows = task.rows(&frame).unwrap();
    let model = boosted(40, false).fit(&frame, &rows, &task, 1).unwrap();
    let reader = Reader::new(&frame, &model.inputs).unwrap();
    for row in 0..40 {
        let mut x = reader.row(row);
        let rates = (1..=8).map(|workers| {
            x[1] = f64::from(workers);
            model.predict(&x, f64::NAN)
        });
        let rates: Vec<f64> = rates.collect();
        assert!(rates.windows(2).all(|w| w[0] <= w[1] + 1e-9), "row {row}: {rates:?}");
    }
}

#[test]
fn a_frame_in_another_unit_is_refused() {
    let (mut frame, task) = world(100, 0.05);
    let rows = task.rows(&frame).unwrap();
    let model = boosted(5, false).fit(&frame, &rows, &task, 1).unwrap();
    frame.features[0].unit = "KiB/s".into();
    assert!(model.predict_rows(&frame, &rows).unwrap_err().message.contains("learnt in `MB/s`"));
}

#[test]
fn importances_name_what_matters_and_the_curve_falls_with_more_rows() {
    let (mut frame, mut task) = world(320, 0.05);
    let mut random = Random::new(77, 0);
    frame.features.push(Feature::number("phase of the moon", "", (0..320).map(|_| random.unit()).collect()));
    task.features.push("phase of the moon".into());
    let plan = Plan { outer: 4, inner: 3, ..Plan::leaving_out("disk", 1) };
    let opened = open(&frame, &task, &boosted(40, false), &plan).unwrap();
    let rises = opened.permutation(&frame, &task, plan.seed).unwrap();
    assert!(rises[0].0 == "workers" && rises[0].1 > 0.1, "{rises:?}");
    assert!(rises[4].0 == "phase of the moon" && rises[4].1.abs() < 0.03, "{rises:?}");
    let parts = opened.contributions(&frame, &task, plan.seed).unwrap();
    assert_eq!((parts.len(), parts[4].0.as_str()), (5, "phase of the moon"));
    assert!(parts[0].1 > 5.0 * parts[4].1, "{parts:?}");
    let curve = curve(&frame, &task, &boosted(40, true), &plan, &[0.1, 1.0]).unwrap();
    assert!(curve[0].1.median_error_pct > curve[1].1.median_error_pct, "{curve:?}");
}

fn models() -> (Frame, Vec<Model>) {
    let (frame, task) = world(80, 0.05);
    let rows = task.rows(&frame).unwrap();
    let plan = Plan { inner: 2, ..Plan::leaving_out("disk", 1) };
    let mut models = Vec::new();
    for mut settings in contenders(&task) {
        settings.truncate(1);
        if let Learner::Boosted(boost) = &mut settings[0].learner {
            boost.trees = 10;
        }
        if let Learner::Forest(forest) = &mut settings[0].learner {
            forest.trees = 5;
        }
        models.push(fit(&frame, &rows, &task, &settings, &plan).unwrap().0);
    }
    (frame, models)
}

#[test]
fn a_saved_model_comes_back_and_says_the_same_bit_for_bit() {
    let (frame, models) = models();
    let rows: Vec<usize> = (0..80).collect();
    for model in models {
        let text = model.save().unwrap();
        let back = Model::load(&text).unwrap();
        assert_eq!(back, model, "{}", model.spec.name());
        assert_eq!(back.predict_rows(&frame, &rows).unwrap(), model.predict_rows(&frame, &rows).unwrap());
        let x = Reader::new(&frame, &back.inputs).unwrap().row(3);
        let (low, high) = back.interval(&x, 100.0).unwrap();
        assert!(low <= high && back.data == frame.hash(&back.task.features, "rate", &rows));
    }
}

#[test]
fn files_that_are_no_model_of_this_version_are_refused_with_a_reason() {
    let (_, models) = models();
    let model = models.into_iter().find(|m| matches!(m.spec.learner, Learner::Boosted(_)) && !m.spec.residual).unwrap();
    let text = model.save().unwrap();
    let cases = [
        ("", "no model"),
        ("[]", "no model"),
        ("{}", "its format is ``"),
        (&text.replace("\"version\":1", "\"version\":0"), "an old model: version 0"),
        (&text.replace("\"version\":1", "\"version\":7"), "a newer model: version 7"),
        (&text.replace("\"rows\":80", "\"rows\":80,\"more\":1"), "a damaged model"),
        (&text.replace("\"inputs\":[", "\"inputs\":[{},"), "a damaged model"),
        (&text.replace("bandwidth\",\"unit", "bandwith\",\"unit"), "input bandwith: expected bandwidth"),
    ];
    for (text, why) in cases {
        let error = Model::load(text).unwrap_err();
        assert!(error.message.contains(why), "{error} for {why}");
    }
    // A child before its parent would be a walk without end.
    let mut cyclic = model.clone();
    let Fitted::Trees(trees) = &mut cyclic.fitted else { panic!("no trees") };
    trees.trees[0].nodes[1].left = 0;
    trees.trees[0].nodes[0].left = 0;
    trees.trees[0].nodes[0].right = 0;
    assert!(cyclic.save().is_ok(), "a root alone is a tree");
    let Fitted::Trees(trees) = &mut cyclic.fitted else { panic!("no trees") };
    let last = trees.trees[1].nodes.len() - 1;
    trees.trees[1].nodes[last].left = 1;
    trees.trees[1].nodes[last].right = 2;
    assert!(cyclic.save().unwrap_err().message.contains("children 1 and 2"));
    // Two parents of one child would make a walk over all paths endless in practice.
    let mut shared = model;
    let Fitted::Trees(trees) = &mut shared.fitted else { panic!("no trees") };
    let parent = trees.trees[0].nodes.iter().rposition(|n| n.left != 0).unwrap();
    let child = trees.trees[0].nodes[parent].left;
    trees.trees[0].nodes[0].left = child;
    assert!(shared.save().unwrap_err().message.contains("two parents"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_damaged_file_never_panics_and_what_loads_can_be_asked(
        which in 0..23usize, at in any::<prop::sample::Index>(), piece in "[0-9eE.,\\[\\]{}:\"a-z-]{0,6}", drop in 0..8usize,
    ) {
        static SAVED: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
        let saved = SAVED.get_or_init(|| models().1.iter().map(|m| m.save().unwrap()).collect());
        let text = &saved[which];
        let start = at.index(text.len());
        let end = (start + drop).min(text.len());
        let broken = format!("{}{piece}{}", &text[..start], &text[end..]);
        if let Ok(model) = Model::load(&broken) {
            for x in [[f64::NAN; 4], [1e300; 4], [UNKNOWN; 4], [0.0; 4]] {
                let _ = (model.predict(&x, 1.0), model.interval(&x, f64::NAN), model.outside(&x));
                let _ = model.fitted.contributions(&x);
            }
        }
    }
}
