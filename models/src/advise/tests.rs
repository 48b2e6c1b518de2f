//! Advice on facts: made up and captured ones.

use proptest::prelude::*;

use super::track::{Entry, record};
use super::*;

/// Eight cores, and a loader without workers whose main thread decodes half of its time.
fn alone() -> Facts {
    let causes = [("decode", 0.48), ("fetch.cache", 0.02), ("compute", 0.5)];
    Facts {
        trainer: "4242@99".to_owned(),
        pid: Some(4242),
        seconds: 30.0,
        period: Some(0.08),
        wait: Share { share: 0.5, low: 0.48, high: 0.52 },
        causes: causes.map(|(cause, share)| (cause.to_owned(), share)).into(),
        burnt: 0.5,
        host: 0.01,
        machine: Machine {
            cores: Some(8.0),
            allowed: Some(8.0),
            used: Some(0.52),
            ranks: 1.0,
            available: Some(16e9),
            shm: Some((8e9, 0.0)),
            ..Machine::default()
        },
        setting: Setting { framework: Some("pytorch".to_owned()), batch_bytes: Some(2e6), ..Setting::default() },
        verdict: Some(Said {
            cause: "decode".to_owned(),
            text: "Waits.".to_owned(),
            advice: "Use workers.".to_owned(),
        }),
        ..Facts::default()
    }
}

/// Two workers of which each spends so much of its time waiting for the network.
fn remote(wait: f64, period: f64) -> Facts {
    let mut facts = alone();
    facts.period = Some(period);
    facts.wait = Share { share: wait, low: wait - 0.02, high: wait + 0.02 };
    facts.causes = [("fetch.network".to_owned(), wait - 0.02), ("decode".to_owned(), 0.02)].into();
    (facts.burnt, facts.host) = (0.01, 0.01);
    facts.crew = Crew {
        processes: 2.0,
        cpu: Some(0.06),
        os_threads: Some(2.0),
        rss: Some(200e6),
        remote: 0.92,
        decode: 0.06,
        queued: 0.01,
        idle: 0.01,
        ..Crew::default()
    };
    facts.reads = Reads { rate: Some(2e6), bytes: Some(60e3), class: Some("network".to_owned()), ..Reads::default() };
    facts.verdict = Some(Said { cause: "fetch.network".to_owned(), ..Said::default() });
    facts
}

/// A loader that keeps up.
fn fed() -> Facts {
    let mut facts = remote(0.01, 0.3);
    facts.wait = Share { share: 0.01, low: 0.0, high: 0.02 };
    facts.causes = [("compute".to_owned(), 0.99), ("handoff".to_owned(), 0.01)].into();
    facts.crew = Crew { processes: 2.0, remote: 0.2, decode: 0.1, cpu: Some(0.1), idle: 0.7, ..Crew::default() };
    facts.verdict = Some(Said { cause: "compute".to_owned(), ..Said::default() });
    facts
}

/// Two workers that fill the two cores there are.
fn full() -> Facts {
    let mut facts = alone();
    facts.wait = Share { share: 0.55, low: 0.53, high: 0.57 };
    facts.causes = [("decode".to_owned(), 0.5), ("handoff".to_owned(), 0.05)].into();
    (facts.burnt, facts.host) = (0.02, 0.01);
    facts.crew = Crew {
        processes: 2.0,
        cpu: Some(0.95),
        os_threads: Some(2.0),
        rss: Some(200e6),
        decode: 0.93,
        queued: 0.05,
        idle: 0.02,
        ..Crew::default()
    };
    facts.machine = Machine { cores: Some(2.0), allowed: Some(2.0), used: Some(1.93), ..facts.machine };
    facts
}

fn said(facts: &Facts) -> Advised {
    advise(facts, &Options { seed: 1, errors: Errors::assumed() }).unwrap()
}

fn first(advised: &Advised) -> &Plan {
    advised.plans.first().unwrap_or_else(|| panic!("nothing advised: {advised:?}"))
}

fn knobs(advised: &Advised) -> Vec<&str> {
    advised.plans.iter().flat_map(|plan| plan.steps.iter().map(|step| step.knob)).collect()
}

/// Facts of real jobs of `tests/jobs`, recorded for 20 s each.
fn captured(name: &str) -> Facts {
    let text = match name {
        "checkpoint" => include_str!("testdata/checkpoint-strong.json"),
        "collective" => include_str!("testdata/collective-strong.json"),
        "decode" => include_str!("testdata/decode-strong.json"),
        "fed" => include_str!("testdata/decoy-sleep.json"),
        "handover" => include_str!("testdata/handoff-pickle-strong.json"),
        "no workers" => include_str!("testdata/decode-0-strong.json"),
        "quota" => include_str!("testdata/contention-quota-strong.json"),
        "startup" => include_str!("testdata/startup-strong.json"),
        "storage" => include_str!("testdata/storage-cold-strong.json"),
        _ => include_str!("testdata/network-store-strong.json"),
    };
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_real_jobs_are_told() {
    let cases = [
        ("no workers", "num_workers"),
        ("store", "num_workers"),
        ("storage", "num_workers"),
        ("decode", "decode"),
        ("startup", "persistent_workers"),
        ("quota", "cpu_quota"),
        ("checkpoint", "checkpoint_async"),
    ];
    for (name, knob) in cases {
        let advised = said(&captured(name));
        assert_eq!(first(&advised).steps[0].knob, knob, "{name}: {}", page(&advised));
    }
    for name in ["fed", "collective", "handover"] {
        let advised = said(&captured(name));
        assert!(advised.plans.is_empty() && advised.nothing.is_some(), "{name}: {}", page(&advised));
    }
    assert_eq!(said(&captured("collective")).elsewhere.unwrap().cause, "collective");
    assert!(said(&captured("handover")).elsewhere.unwrap().advice.starts_with("Make the hand-over cheaper"));
}

#[test]
fn a_loader_without_workers_gets_some_and_the_line_says_how() {
    let advised = said(&alone());
    let plan = first(&advised);
    assert_eq!((plan.steps[0].knob, plan.steps[0].from.as_str()), ("num_workers", "0"));
    assert!(plan.line.contains("num_workers=") && plan.line.contains("persistent_workers=True"), "{}", plan.line);
    // 40 ms of decoding beside a step of 40 ms: one worker is on the edge, two or three are enough.
    assert!(["2", "3"].contains(&plan.steps[0].to.as_str()), "{:?}", plan.steps);
    assert!(plan.gain.holds(0.9) && plan.stall.guess < 0.1, "{plan:?}");
    assert!(
        plan.price.memory > Some(0.0) && plan.price.shm > 0.0 && (0.5..=1.0).contains(&plan.confidence),
        "{plan:?}"
    );
}

#[test]
fn latency_is_hidden_by_workers_as_many_as_it_takes_and_no_more() {
    let advised = said(&remote(0.6, 0.1));
    let plan = first(&advised);
    // 40 ms of step in 100 ms: 2.5 times the workers keep up.
    assert_eq!(plan.steps[0].knob, "num_workers", "{advised:?}");
    let workers: u32 = plan.steps[0].to.parse().unwrap();
    assert!((5..=8).contains(&workers), "{workers} workers");
    assert!(plan.gain.low < plan.gain.guess && plan.gain.holds(1.4), "{:?}", plan.gain);
}

#[test]
fn full_cores_get_cheaper_samples_and_no_workers() {
    let advised = said(&full());
    assert!(!knobs(&advised).contains(&"num_workers"), "{advised:?}");
    assert_eq!(first(&advised).steps[0].knob, "decode");
    assert!(first(&advised).line.contains("draft"), "{advised:?}");
    let many = advised.refused.iter().find(|refused| refused.step.knob == "num_workers").unwrap();
    assert!(many.reason.starts_with("cores"), "{many:?}");
}

#[test]
fn a_loader_that_keeps_up_gets_no_advice() {
    let advised = said(&fed());
    assert!(advised.plans.is_empty(), "{advised:?}");
    assert!(advised.nothing.unwrap().starts_with("Nothing to gain here"));
}

#[test]
fn a_cause_that_lies_elsewhere_is_named_in_the_words_of_the_verdict() {
    let mut facts = fed();
    let words = Said {
        cause: "collective".to_owned(),
        text: "Spends 60 % of its time in collectives.".to_owned(),
        advice: "Overlap them.".to_owned(),
    };
    facts.verdict = Some(words.clone());
    let advised = said(&facts);
    assert!(advised.plans.is_empty() && advised.elsewhere == Some(words), "{advised:?}");
    assert!(page(&advised).contains("Overlap them."));
}

#[test]
fn cores_that_a_neighbour_takes_are_named_beside_what_the_loader_can_do() {
    let mut facts = full();
    facts.causes.insert("contention".to_owned(), 0.4);
    let words = Said {
        cause: "contention".to_owned(),
        text: "Others keep 1.2 of 2 cores busy.".to_owned(),
        advice: "Move them.".to_owned(),
    };
    facts.verdict = Some(words.clone());
    let advised = said(&facts);
    assert_eq!(advised.elsewhere, Some(words), "{}", page(&advised));
    facts.machine.quota = Some(1.0);
    let advised = said(&facts);
    assert!(knobs(&advised).contains(&"cpu_quota") && advised.elsewhere.is_none(), "{}", page(&advised));
}

#[test]
fn checkpoints_are_saved_beside_the_training_or_less_often() {
    let mut facts = fed();
    facts.causes = [("checkpoint".to_owned(), 0.3), ("compute".to_owned(), 0.69)].into();
    facts.saves = Some(Saves { seen: 5.0, each: 1.8, every: 6.0, bytes: Some(400e6) });
    facts.verdict = Some(Said { cause: "checkpoint".to_owned(), ..Said::default() });
    let advised = said(&facts);
    let found = knobs(&advised);
    assert!(found.contains(&"checkpoint_async") && found.contains(&"checkpoint_interval"), "{found:?}");
    assert_eq!(advised.elsewhere, None, "a plan says it");
    let less = advised.plans.iter().find(|plan| plan.steps[0].knob == "checkpoint_interval").unwrap();
    assert_eq!((less.steps[0].from.as_str(), less.steps[0].to.as_str()), ("every 6 s", "every 12 s"));
    assert!(less.gain.holds(1.0 / 0.85 - 1.0), "half of 30 % goes: {less:?}");
    let beside =
        |advised: &Advised| advised.plans.iter().find(|plan| plan.steps[0].knob == "checkpoint_async").unwrap().price;
    assert!(beside(&advised).memory >= Some(400e6) && beside(&advised).memory_unknown.is_none());
    facts.saves = Some(Saves { seen: 5.0, each: 1.8, every: 6.0, bytes: None });
    let advised = said(&facts);
    assert_eq!(beside(&advised).memory, None, "what is not known is not 0");
    assert!(page(&advised).contains("what a checkpoint writes was not seen"), "{}", page(&advised));
}

#[test]
fn a_quota_and_a_narrow_affinity_are_widened() {
    let mut facts = full();
    facts.machine =
        Machine { cores: Some(8.0), allowed: Some(8.0), quota: Some(1.0), used: Some(0.99), ..facts.machine };
    facts.crew = Crew { cpu: Some(0.46), decode: 0.45, queued: 0.5, idle: 0.05, ..facts.crew };
    facts.causes.insert("contention".to_owned(), 0.4);
    let advised = said(&facts);
    assert!(knobs(&advised).contains(&"cpu_quota"), "{advised:?}");
    let mut facts = full();
    facts.machine =
        Machine { cores: Some(8.0), allowed: Some(8.0), workers_allowed: Some(1.0), used: Some(1.0), ..facts.machine };
    facts.crew = Crew { cpu: Some(0.47), decode: 0.45, queued: 0.5, idle: 0.05, ..facts.crew };
    facts.causes.insert("contention".to_owned(), 0.3);
    let advised = said(&facts);
    let plan = advised.plans.iter().find(|plan| plan.steps[0].knob == "cpu_affinity").unwrap();
    assert!(plan.line.contains("taskset -a -cp 0-7 4242"), "{}", plan.line);
}

#[test]
fn workers_that_start_anew_are_kept() {
    let mut facts = remote(0.4, 0.1);
    facts.causes = [("startup".to_owned(), 0.36), ("decode".to_owned(), 0.02)].into();
    facts.crew = Crew { processes: 2.0, decode: 0.2, cpu: Some(0.4), idle: 0.78, ..Crew::default() };
    let advised = said(&facts);
    let plan = first(&advised);
    assert_eq!((plan.steps[0].knob, plan.steps[0].to.as_str()), ("persistent_workers", "True"), "{advised:?}");
    assert!(plan.gain.holds(1.0 / 0.68 - 1.0), "{plan:?}");
}

#[test]
fn data_goes_to_memory_only_where_it_is_known_to_fit() {
    let mut facts = remote(0.6, 0.1);
    let unknown = said(&facts);
    assert!(!knobs(&unknown).contains(&"data_place"));
    assert!(unknown.refused.iter().any(|refused| refused.reason.contains("--dataset")), "{unknown:?}");
    // A disk of this machine, so that only memory is quicker.
    facts.causes = [("fetch.storage".to_owned(), 0.58), ("decode".to_owned(), 0.02)].into();
    facts.crew = Crew { storage: facts.crew.remote, remote: 0.0, ..facts.crew };
    facts.reads.dataset = Some(4e9);
    assert!(said(&facts).plans.iter().any(|plan| plan.steps.iter().any(|step| step.to == "memory")));
    facts.reads.dataset = Some(40e9);
    let large = said(&facts);
    assert!(!large.plans.iter().any(|plan| plan.steps.iter().any(|step| step.to == "memory")), "{large:?}");
}

#[test]
fn what_memory_or_shared_memory_cannot_hold_is_refused() {
    let mut facts = remote(0.6, 0.1);
    facts.setting.batch_bytes = Some(50e6);
    facts.machine.shm = Some((280e6, 200e6));
    let advised = said(&facts);
    assert!(!knobs(&advised).contains(&"num_workers"), "{advised:?}");
    assert!(advised.refused.iter().any(|refused| refused.reason.starts_with("/dev/shm")), "{:?}", advised.refused);
    facts.machine.shm = None;
    facts.machine.available = Some(100e6);
    let advised = said(&facts);
    assert!(advised.refused.iter().any(|refused| refused.reason.starts_with("memory")), "{:?}", advised.refused);
}

#[test]
fn the_model_reproduces_the_present_setting_before_it_is_asked_about_another() {
    for facts in [alone(), remote(0.6, 0.1), remote(0.2, 0.5), full()] {
        let advised = said(&facts);
        assert!((advised.stall - facts.wait.share).abs() < 0.03, "{} for {:?}", advised.stall, facts.wait);
    }
}

#[test]
fn a_seed_gives_the_same_advice() {
    let one = serde_json::to_string(&said(&remote(0.6, 0.1))).unwrap();
    assert_eq!(one, serde_json::to_string(&said(&remote(0.6, 0.1))).unwrap());
}

#[test]
fn a_configuration_is_advised_before_any_run() {
    let text = r#"{"loader": {"workers": 2, "batch": 64}, "sample": {"bytes": 110000, "decode_ms": 6},
        "step": {"ms": 120}, "machine": {"cores": 16}, "storage": {"latency_ms": 9, "class": "network"}}"#;
    let config: config::Config = serde_json::from_str(text).unwrap();
    let facts = config.facts().unwrap();
    // 64 samples of 15 ms over two workers: 480 ms a batch.
    assert!((facts.period.unwrap() - 0.48).abs() < 0.03 && (facts.wait.share - 0.75).abs() < 0.03, "{facts:?}");
    let advised = said(&facts);
    let plan = first(&advised);
    let workers: u32 = plan.steps[0].to.parse().unwrap();
    assert!(plan.steps[0].knob == "num_workers" && (8..=12).contains(&workers), "{plan:?}");
    let capped = config::Config { storage: config::Probe { mb_s: Some(16.0), ..config.storage.clone() }, ..config };
    let capped = capped.facts().unwrap();
    // 64 × 110 kB take 0.44 s at 16 MB/s, whoever reads them.
    let most = capped.period.unwrap() / 0.44 - 1.0;
    for plan in said(&capped).plans.iter().filter(|plan| plan.steps.iter().all(|step| step.knob == "num_workers")) {
        assert!(plan.gain.guess <= most + 0.03, "{most} at most: {plan:?}");
    }
}

#[test]
fn a_track_record_tells_hits_from_misses() {
    let entry = |measured: f64, gain: Option<f64>| Entry {
        at: 0,
        job: "train.py".to_owned(),
        knob: "num_workers".to_owned(),
        from: "0".to_owned(),
        to: "4".to_owned(),
        stall_before: 0.5,
        predicted: [0.1, 0.05, 0.2],
        measured,
        gain: [0.8, 0.6, 0.9],
        measured_gain: gain,
        confidence: 0.8,
    };
    let all = [entry(0.12, Some(0.75)), entry(0.3, Some(0.4)), entry(0.08, None), entry(0.55, None)];
    let record = record(&all);
    assert_eq!((record.changes, record.interval_hits_pct, record.faster), (4, Some(50.0), 3));
    assert!((record.stall_bias_points.unwrap() - 16.25).abs() < 1e-9, "{record:?}");
    assert_eq!(super::track::record(&[]).interval_hits_pct, None);
}

#[test]
fn the_page_reads_well() {
    let mut facts = remote(0.6, 0.1);
    facts.reads.dataset = Some(4e9);
    insta::assert_snapshot!(page(&said(&facts)));
}

fn any() -> impl Strategy<Value = Facts> {
    let shares = (0.0..0.95_f64, 0.0..1.0_f64, 0.0..1.0_f64, 0.0..1.0_f64, 0.0..0.3_f64);
    let counts = (0u32..12, 1u32..65, 1e-3..3.0_f64, 1e6..1e11_f64, 0.0..1.0_f64);
    (shares, counts).prop_map(|((wait, a, b, c, host), (workers, cores, period, memory, part))| {
        let mut facts = alone();
        let all = (a + b + c + 0.05).max(1e-3);
        let cores = f64::from(cores);
        facts.period = Some(period);
        facts.wait = Share { share: wait, low: (wait - 0.03).max(0.0), high: (wait + 0.03).min(1.0) };
        facts.causes = [
            ("fetch.network".to_owned(), wait * part),
            ("decode".to_owned(), wait * (1.0 - part) * 0.8),
            ("startup".to_owned(), wait * (1.0 - part) * 0.2),
            ("checkpoint".to_owned(), (1.0 - wait) * 0.1),
        ]
        .into();
        (facts.burnt, facts.host) = (wait * 0.1, host * (1.0 - wait));
        if workers > 0 {
            facts.crew = Crew {
                processes: f64::from(workers),
                remote: a / all,
                decode: b / all,
                idle: c / all,
                cpu: Some(b / all),
                rss: Some(2e8),
                ..Crew::default()
            };
        }
        let used = (b / all * f64::from(workers)).min(cores);
        facts.machine = Machine {
            cores: Some(cores),
            allowed: Some(cores),
            used: Some(used),
            available: Some(memory),
            ..facts.machine
        };
        facts
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_advised_that_gains_nothing_or_does_not_fit(facts in any()) {
        let advised = said(&facts);
        prop_assert!((0.0..=1.0).contains(&advised.stall));
        prop_assert_eq!(advised.plans.is_empty(), advised.nothing.is_some());
        for plan in &advised.plans {
            prop_assert!(plan.gain.guess >= WORTH, "{:?}", plan);
            prop_assert!(plan.gain.low <= plan.gain.guess + 1e-9 && plan.gain.guess <= plan.gain.high + 1e-9);
            prop_assert!(plan.price.memory.unwrap_or(0.0) <= 0.8 * facts.machine.available.unwrap(), "{:?}", plan);
            prop_assert_eq!(plan.price.memory_unknown.is_some(), plan.price.memory.is_none());
            prop_assert_eq!(plan.price.disk_unknown.is_some(), plan.price.disk.is_none());
            prop_assert!((0.0..=1.0).contains(&plan.stall.guess) && (0.0..=1.0).contains(&plan.confidence));
            prop_assert!(!plan.line.is_empty() && !plan.evidence.is_empty());
            for step in &plan.steps {
                prop_assert!(!advised.refused.iter().any(|refused| refused.step == *step), "{:?}", step);
            }
        }
    }
}

#[test]
fn more_cores_never_make_what_can_be_reached_worse() {
    // The same work of the same workers, on machines of more and more cores.
    let mut before = 0.0_f64;
    for cores in [2.0, 3.0, 4.0, 8.0, 16.0, 32.0] {
        let mut facts = alone();
        facts.machine.cores = Some(cores);
        facts.machine.allowed = Some(cores);
        let advised = said(&facts);
        let best = advised.plans.iter().map(|plan| plan.gain.guess).fold(0.0, f64::max);
        assert!(best >= before - 0.02, "{best} with {cores} cores, {before} with fewer");
        before = before.max(best);
    }
}
