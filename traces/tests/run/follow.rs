//! Following a run that is being written.

use std::sync::mpsc;
use std::time::Duration;

use feedline_traces::run::Run;
use feedline_traces::{Sink as _, Source, Tick};

use crate::sample::{every, schema, tick, write};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap().block_on(work)
}

async fn all(mut source: impl Source) -> Vec<Tick> {
    let mut ticks = Vec::new();
    while let Some(tick) = source.next().await.unwrap() {
        ticks.push(tick);
    }
    ticks
}

#[test]
fn a_follower_sees_every_tick_as_it_lands_and_ends_with_the_writer() {
    let home = tempfile::tempdir().unwrap();
    // Small segments: the follower must step from a segment to the next while they are closed.
    let mut writer = write(home.path(), 0..10, every(700));
    let run = Run::open(home.path()).unwrap();
    let mut follow = run.follow().unwrap().every(Duration::from_millis(1));
    let late = run.follow().unwrap().every(Duration::from_millis(1)).latest().unwrap();
    let (sent, landed) = mpsc::channel();
    let writing = std::thread::spawn(move || {
        for n in 10..300 {
            sent.send(n).unwrap();
            writer.accept(&schema(), &tick(n)).unwrap();
            if n % 50 == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        writer.finish().unwrap();
    });
    block_on(async {
        for n in 0..300 {
            assert_eq!(follow.next().await.unwrap(), Some(tick(n)));
        }
        assert_eq!(follow.next().await.unwrap(), None);
        assert_eq!(all(late).await, (10..300).map(tick).collect::<Vec<_>>());
    });
    writing.join().unwrap();
    assert_eq!(landed.iter().count(), 290);
}

#[test]
fn a_tick_is_seen_while_the_writer_waits() {
    let home = tempfile::tempdir().unwrap();
    let mut writer = write(home.path(), 0..1, every(1 << 20));
    let mut follow = Run::open(home.path()).unwrap().follow().unwrap().every(Duration::from_millis(1));
    block_on(async {
        for n in 0..20 {
            assert_eq!(follow.next().await.unwrap(), Some(tick(n)));
            writer.accept(&schema(), &tick(n + 1)).unwrap();
        }
    });
}

#[test]
fn a_follower_ends_when_the_writer_is_gone() {
    let home = tempfile::tempdir().unwrap();
    drop(write(home.path(), 0..25, every(700)));
    let follow = Run::open(home.path()).unwrap().follow().unwrap();
    assert_eq!(block_on(all(follow)), (0..25).map(tick).collect::<Vec<_>>());
}
