//! What is recorded is what is replayed.

use std::sync::Arc;

use feedline_traces::run::{Run, RunWriter};
use feedline_traces::unit::Unit;
use feedline_traces::{Batch, Column, Kind, Origin, Schema, Sink as _, Source as _, Table, TableId, Tick, Ts, Values};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::sample::{every, meta, replay, schema, second, tick, write, writer};

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Key, Kind::Text, Kind::Id, Kind::Counter, Kind::Gauge])
}

fn schemas() -> impl Strategy<Value = Arc<Schema>> {
    vec(vec(kind(), 0..6), 1..5).prop_map(|tables| {
        let table = |(index, kinds): (usize, Vec<Kind>)| Table {
            name: format!("t{index}").into(),
            origin: if index % 2 == 0 { Origin::Observed } else { Origin::Derived },
            doc: "A table.".into(),
            columns: (0..)
                .zip(kinds)
                .map(|(i, kind)| Column { name: format!("c{i}").into(), kind, unit: Unit::None, doc: "".into() })
                .collect(),
        };
        Arc::new(Schema::new(tables.into_iter().enumerate().map(table).collect()).unwrap())
    })
}

fn whole() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![any::<u64>(), Just(u64::MAX), Just(0), 0..300_u64])
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-c]{1,3}", any::<String>()]
}

fn values(kind: Kind, rows: usize) -> BoxedStrategy<Values> {
    match kind {
        Kind::Key => vec(text(), rows).prop_map(|v| Values::Key(v.into_iter().map(Into::into).collect())).boxed(),
        Kind::Text => vec(prop::option::of(text()), rows)
            .prop_map(|v| Values::Text(v.into_iter().map(|t| t.map(Into::into)).collect()))
            .boxed(),
        Kind::Id => vec(whole(), rows).prop_map(Values::Id).boxed(),
        Kind::Counter => vec(whole(), rows).prop_map(Values::Counter).boxed(),
        Kind::Gauge => vec(prop_oneof![any::<f64>(), Just(f64::NAN), Just(-0.0), Just(f64::INFINITY)], rows)
            .prop_map(Values::Gauge)
            .boxed(),
    }
}

fn batch(index: usize, table: &Table) -> BoxedStrategy<Batch> {
    let kinds: Vec<Kind> = table.columns.iter().map(|c| c.kind).collect();
    (0..5_usize)
        .prop_flat_map(move |rows| {
            let columns: Vec<_> = kinds.iter().map(|kind| values(*kind, rows)).collect();
            (vec(any::<i64>().prop_map(Ts), rows), columns)
        })
        .prop_map(move |(at, columns)| Batch { table: TableId(index), at, columns })
        .boxed()
}

/// Ticks with any tables in any order, batches without rows among them.
fn ticks(schema: &Schema) -> BoxedStrategy<Vec<Tick>> {
    let batches: Vec<_> = schema.tables.iter().enumerate().map(|(i, t)| prop::option::of(batch(i, t))).collect();
    let shuffled = batches.prop_map(|b| b.into_iter().flatten().collect::<Vec<_>>()).prop_shuffle();
    vec((any::<i64>(), shuffled).prop_map(|(at, batches)| Tick { at: Ts(at), batches }), 0..8).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_replay_yields_the_recorded_ticks_bit_for_bit(
        (schema, ticks) in schemas().prop_flat_map(|s| { let ticks = ticks(&s); (Just(s), ticks) }),
        bytes in prop_oneof![Just(1_u64), Just(200), Just(1 << 20)],
    ) {
        let home = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(home.path().join("run"), meta(), &schema).unwrap().limits(every(bytes));
        for tick in &ticks {
            writer.accept(&schema, tick).unwrap();
        }
        let open = Run::open(home.path().join("run")).unwrap();
        prop_assert!(open.recovery().live);
        prop_assert_eq!(&replay(&open), &ticks);
        prop_assert_eq!(&replay(&open.snapshot(home.path().join("copy")).unwrap()), &ticks);
        writer.finish().unwrap();
        let closed = Run::open(home.path().join("run")).unwrap();
        prop_assert_eq!(&replay(&closed), &ticks);
        prop_assert_eq!(closed.extent().unwrap().0, ticks.len() as u64);
        prop_assert_eq!(closed.schema(), &schema);
        prop_assert!(closed.recovery().notes.is_empty());
    }
}

#[test]
fn a_replay_without_derived_tables_has_the_others_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let _open = write(home.path(), 0..40, every(500));
    let run = Run::open(home.path()).unwrap();
    let mut replay = run.replay().unwrap().observed().unwrap();
    let names: Vec<_> = replay.schema().tables.iter().map(|t| t.name.to_string()).collect();
    assert_eq!(names, ["disk", "thread"]);
    for n in 0..40 {
        let mut expected = tick(n);
        expected.batches.retain(|b| b.table != TableId(1));
        for batch in &mut expected.batches {
            batch.table.0 = batch.table.0.min(1);
        }
        assert_eq!(replay.read().unwrap(), Some(expected));
    }
    assert_eq!(replay.read().unwrap(), None);
}

#[test]
fn a_replay_of_some_tables_yields_every_tick_with_those_alone() {
    let home = tempfile::tempdir().unwrap();
    let _open = write(home.path(), 0..40, every(500));
    let run = Run::open(home.path()).unwrap();
    let mut replay = run.replay().unwrap().only(&["thread", "no_such_table"]).unwrap();
    let names: Vec<_> = replay.schema().tables.iter().map(|t| t.name.to_string()).collect();
    assert_eq!(names, ["thread"]);
    let all = run.schema().find_table("thread").unwrap();
    for n in 0..40 {
        let mut expected = tick(n);
        expected.batches.retain(|b| b.table == all);
        expected.batches.iter_mut().for_each(|batch| batch.table = TableId(0));
        assert_eq!(replay.read().unwrap(), Some(expected));
    }
    assert_eq!(replay.read().unwrap(), None);
}

#[test]
fn a_seek_finds_any_tick_forward_and_back() {
    let home = tempfile::tempdir().unwrap();
    let writer = write(home.path(), 0..100, every(800));
    assert!(writer.written().parts > 3);
    let run = Run::open(home.path()).unwrap();
    assert_eq!(run.extent().unwrap(), (100, Some((second(0), second(99)))));
    let mut replay = run.replay().unwrap();
    for n in [50, 3, 99, 0, 77, 78] {
        replay.seek(Ts(second(n).0 - 1)).unwrap();
        assert_eq!(replay.read().unwrap(), Some(tick(n)));
        assert_eq!(replay.read().unwrap(), (n < 99).then(|| tick(n + 1)));
    }
    replay.seek(second(100)).unwrap();
    assert_eq!(replay.read().unwrap(), None);
    let mut range = run.replay().unwrap().range(second(10), second(12)).unwrap();
    let found: Vec<Tick> = std::iter::from_fn(|| range.read().unwrap()).collect();
    assert_eq!(found, [tick(10), tick(11), tick(12)]);
}

#[test]
fn a_second_writer_is_refused_and_a_run_is_written_once() {
    let home = tempfile::tempdir().unwrap();
    let mut first = write(home.path(), 0..3, every(1 << 20));
    let error = RunWriter::create(home.path(), meta(), &schema()).err().unwrap();
    assert!(error.message.contains(&format!("process {} is writing", std::process::id())), "{error}");
    assert!(Run::recover(home.path()).unwrap().recovery().live);
    first.finish().unwrap();
    first.finish().unwrap();
    assert!(first.accept(&schema(), &tick(3)).is_err());
    let error = RunWriter::create(home.path(), meta(), &schema()).err().unwrap();
    assert!(error.message.contains("a run already"), "{error}");
    assert_eq!(replay(&Run::open(home.path()).unwrap()).len(), 3);
}

#[test]
fn a_tick_of_other_tables_is_refused_and_the_run_stays_whole() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = writer(home.path(), every(1 << 20));
    writer.accept(&schema(), &tick(1)).unwrap();
    let mut wrong = tick(1);
    wrong.batches[0].columns.pop();
    assert!(writer.accept(&schema(), &wrong).is_err());
    let mut twice = tick(1);
    twice.batches.push(twice.batches[0].clone());
    assert!(writer.accept(&schema(), &twice).is_err());
    writer.accept(&schema(), &tick(2)).unwrap();
    writer.finish().unwrap();
    assert_eq!(replay(&Run::open(home.path()).unwrap()), [tick(1), tick(2)]);
}
