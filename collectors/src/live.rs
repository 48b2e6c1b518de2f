//! The running machine as a source of ticks.
//!
//! One task a collector, each at its own period and reading on the blocking pool, so that one
//! that hangs holds nobody up; they hand their rows over a bounded channel, and each tick takes
//! what has come. What a full channel turns away is counted in `health`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use feedline_traces::{Batch, Clock, Collector, Next, Row as _, Rows, Schema, Source, Tick, Ts};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior};

use crate::context::{Context, Scheduled};
use crate::health::{self, HealthRow, OwnRow};

/// Deliveries that may wait for the next tick: a few a collector.
const WAITING: usize = 256;
/// How long the end waits for everybody's last reading.
const LAST: Duration = Duration::from_millis(500);
/// A reading that takes this long is said to hang.
const HANG: Duration = Duration::from_secs(3);

/// How one collector did since the last tick.
#[derive(Debug, Default)]
struct Account {
    name: &'static str,
    cost: u64,
    took: i64,
    late: i64,
    rows: u64,
    failures: u64,
    drops: u64,
    skipped: u64,
    error: Option<String>,
    reading_since: Option<Ts>,
}

type Shared = Arc<Mutex<Account>>;

/// The running machine.
pub struct Live {
    schema: Arc<Schema>,
    context: Context,
    accounts: Vec<Shared>,
    tasks: Vec<JoinHandle<()>>,
    arrivals: mpsc::Receiver<Vec<Batch>>,
    interval: Interval,
    stop: watch::Receiver<bool>,
    /// Tells collectors to read for the last time.
    finish: watch::Sender<bool>,
    ended: bool,
}

impl Live {
    /// Starts collecting; call it within a tokio runtime. The first collector (the job) reads once
    /// before the others start, because they look at what it found. `stop` ends the source: every collector
    /// reads once more, so that the last tick holds all up to it.
    ///
    /// # Errors
    /// When two collectors declare the same table, or the job cannot be read.
    pub fn start(
        context: Context,
        scheduled: Vec<Scheduled>,
        period: Duration,
        stop: watch::Receiver<bool>,
    ) -> feedline_traces::Result<Self> {
        let schema = Arc::new(schema(&scheduled)?);
        let (sender, arrivals) = mpsc::channel(WAITING);
        let (finish, finishing) = watch::channel(false);
        let mut accounts = Vec::new();
        let mut tasks = Vec::new();
        for (index, mut scheduled) in scheduled.into_iter().enumerate() {
            let account = Shared::default();
            lock(&account).name = scheduled.collector.name();
            if index == 0 {
                let batches = read(scheduled.collector.as_mut(), &schema, context.clock.as_ref(), &account);
                if let Some(error) = lock(&account).error.clone() {
                    return Err(feedline_traces::Error::new(error));
                }
                let _ = sender.try_send(batches);
            }
            accounts.push(Arc::clone(&account));
            tasks.push(tokio::spawn(repeat(
                scheduled,
                Arc::clone(&schema),
                Arc::clone(&context.clock),
                account,
                (sender.clone(), finishing.clone()),
            )));
        }
        let mut interval = tokio::time::interval(period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        interval.reset();
        Ok(Self { schema, context, accounts, tasks, arrivals, interval, stop, finish, ended: false })
    }

    /// Everybody's last reading, as far as it comes in time.
    async fn last(&mut self) -> Vec<Vec<Batch>> {
        let _ = self.finish.send(true);
        let mut came = Vec::new();
        let all = async {
            while let Some(batches) = self.arrivals.recv().await {
                came.push(batches);
            }
        };
        let _ = tokio::time::timeout(LAST, all).await;
        came
    }

    fn gather(&mut self, came: Vec<Vec<Batch>>) -> Tick {
        let mut tick = Tick { at: self.context.clock.now(), batches: Vec::new() };
        came.into_iter().flatten().for_each(|batch| tick.add(batch));
        while let Ok(batches) = self.arrivals.try_recv() {
            batches.into_iter().for_each(|batch| tick.add(batch));
        }
        let mut rows = Rows::new(&self.schema, tick.at);
        for account in &self.accounts {
            rows.push(settle(&mut lock(account), tick.at));
        }
        rows.push(health::own(self.context.clock.as_ref()));
        rows.finish().into_iter().for_each(|batch| tick.add(batch));
        tick
    }
}

impl Source for Live {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn next(&mut self) -> Next<'_> {
        Box::pin(async move {
            if self.ended {
                return Ok(None);
            }
            let stopped = async {
                // A sender that is gone asks for nothing more than one that never sends.
                if self.stop.wait_for(|stop| *stop).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                _ = self.interval.tick() => {}
                () = stopped => self.ended = true,
            }
            if self.context.target.ended() {
                self.ended = true;
            }
            let came = if self.ended { self.last().await } else { Vec::new() };
            Ok(Some(self.gather(came)))
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The tables that collectors fill, with those that every run has.
///
/// # Errors
/// When two collectors declare the same table.
pub fn schema(scheduled: &[Scheduled]) -> feedline_traces::Result<Schema> {
    let mut schema = Schema::new(vec![crate::absent::AbsentRow::table()])?;
    for table in scheduled.iter().flat_map(|s| s.collector.tables()) {
        // `absent` is the one table that several collectors fill.
        if table.name != crate::absent::AbsentRow::NAME {
            schema.add(table)?;
        }
    }
    schema.add(HealthRow::table())?;
    schema.add(OwnRow::table())?;
    Ok(schema)
}

async fn repeat(
    scheduled: Scheduled,
    schema: Arc<Schema>,
    clock: Arc<dyn Clock>,
    account: Shared,
    (sender, mut finishing): (mpsc::Sender<Vec<Batch>>, watch::Receiver<bool>),
) {
    let mut collector = scheduled.collector;
    let mut interval = tokio::time::interval(scheduled.period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let span = i64::try_from(scheduled.period.as_nanos()).unwrap_or(i64::MAX);
    let mut due: Option<Ts> = None;
    let mut last = false;
    while !last {
        tokio::select! {
            _ = interval.tick() => {}
            told = finishing.wait_for(|finish| *finish) => match told {
                Ok(_) => last = true,
                // Nobody is left to read for.
                Err(_) => return,
            },
        }
        let now = clock.now();
        if let Some(due) = due {
            let mut account = lock(&account);
            account.late = account.late.max(now.since(due));
        }
        due = Some(due.map_or(now, |due| if now.since(due) > span { now } else { due }).plus(scheduled.period));
        let work = {
            let (schema, clock, account) = (Arc::clone(&schema), Arc::clone(&clock), Arc::clone(&account));
            tokio::task::spawn_blocking(move || {
                let batches = read(collector.as_mut(), &schema, clock.as_ref(), &account);
                (collector, batches)
            })
        };
        let Ok((returned, batches)) = work.await else {
            let mut account = lock(&account);
            account.failures += 1;
            account.reading_since = None;
            account.error = Some("it panicked and reads no more".to_owned());
            return;
        };
        collector = returned;
        let rows: usize = batches.iter().map(Batch::len).sum();
        if rows > 0 && sender.try_send(batches).is_err() {
            lock(&account).drops += rows as u64;
        }
    }
}

/// One reading: all of its rows or none, and what it cost.
fn read(collector: &mut dyn Collector, schema: &Schema, clock: &dyn Clock, account: &Shared) -> Vec<Batch> {
    let started = clock.now();
    lock(account).reading_since = Some(started);
    let cpu = health::thread_cpu();
    let mut rows = Rows::new(schema, started);
    let outcome = collector.collect(&mut rows);
    let background = collector.background();
    let mut account = lock(account);
    account.reading_since = None;
    account.cost += health::thread_cpu().saturating_sub(cpu) + background.cpu;
    account.took = account.took.max(clock.now().since(started));
    account.drops += background.drops;
    account.skipped += background.skipped;
    if let [table, ..] = rows.undeclared() {
        account.error = Some(format!("filled `{table}`, which it does not declare"));
    }
    match outcome {
        Ok(()) => {
            let batches = rows.finish();
            account.rows += batches.iter().map(|b| b.len() as u64).sum::<u64>();
            batches
        }
        Err(error) => {
            account.failures += 1;
            account.error = Some(error.message);
            Vec::new()
        }
    }
}

/// Closes a collector's account for the tick: its row, and a fresh account.
#[expect(clippy::cast_precision_loss, reason = "spans of less than 104 days are exact")]
fn settle(account: &mut Account, now: Ts) -> HealthRow {
    let so_far = account.reading_since.map_or(0, |since| now.since(since));
    let hangs = so_far > i64::try_from(HANG.as_nanos()).unwrap_or(i64::MAX);
    let error = if hangs {
        Some(format!("hangs: its reading began {} s ago", so_far / 1_000_000_000))
    } else {
        account.error.take()
    };
    let row = HealthRow {
        collector: account.name.into(),
        cost: account.cost.into(),
        took: (account.took.max(so_far) as f64).into(),
        late: (account.late as f64).into(),
        rows: account.rows.into(),
        failures: account.failures.into(),
        drops: account.drops.into(),
        skipped: account.skipped.into(),
        error: error.into(),
    };
    *account = Account { name: account.name, reading_since: account.reading_since, ..Account::default() };
    row
}

fn lock(account: &Shared) -> std::sync::MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use feedline_traces::unit::Count;
    use feedline_traces::{Error, Gauge, Key, Result, SystemClock, Table, Values, table};

    table! {
        /// A test table.
        pub(crate) beat: BeatRow {
            /// Who.
            who: Key,
            /// How often.
            count: Gauge<Count>,
        }
    }

    /// Beats, fails after its rows, or hangs.
    enum Kind {
        Beats,
        Fails,
        Hangs,
    }

    struct Heart(Kind);

    impl Collector for Heart {
        fn name(&self) -> &'static str {
            match self.0 {
                Kind::Beats => "beats",
                Kind::Fails => "fails",
                Kind::Hangs => "hangs",
            }
        }

        fn tables(&self) -> Vec<Table> {
            if matches!(self.0, Kind::Beats) { vec![BeatRow::table()] } else { Vec::new() }
        }

        fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
            out.push(BeatRow { who: self.name().into(), count: 1.0.into() });
            match self.0 {
                Kind::Beats => Ok(()),
                Kind::Fails => Err(Error::new("no pulse")),
                Kind::Hangs => loop {
                    std::thread::park();
                },
            }
        }
    }

    fn texts(tick: &Tick, schema: &Schema, path: &str) -> Vec<Option<String>> {
        let column = schema.find(path).unwrap();
        let Some(batch) = tick.batch(column.table) else { return Vec::new() };
        (0..batch.len()).map(|row| batch.columns[column.column].text(row).map(|s| s.to_string())).collect()
    }

    #[test]
    fn a_failing_and_a_hanging_collector_hold_nobody_up_and_health_says_so() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::anchored_now());
            let context = Context::new(crate::Host::this(), clock);
            let every = Duration::from_millis(20);
            let scheduled =
                [Kind::Beats, Kind::Fails, Kind::Hangs].map(|kind| Scheduled::every(every, Heart(kind))).into();
            let (stop, stopped) = watch::channel(false);
            let mut live = Live::start(context, scheduled, Duration::from_millis(100), stopped).unwrap();
            let mut beats = 0;
            let mut failed = false;
            for _ in 0..5 {
                let tick = live.next().await.unwrap().unwrap();
                beats += texts(&tick, live.schema(), "beat.who").len();
                assert!(!texts(&tick, live.schema(), "beat.who").contains(&Some("fails".to_owned())));
                failed |= texts(&tick, live.schema(), "health.error").contains(&Some("no pulse".to_owned()));
                assert!(matches!(tick.batches.last().unwrap().columns[0], Values::Key(_)));
            }
            assert!(beats >= 3 && failed, "{beats} beats, failed {failed}");
            let hung = settle(&mut lock(&live.accounts[2]), live.context.clock.now().plus(HANG));
            assert!(hung.error.0.unwrap().starts_with("hangs"));
            stop.send(true).unwrap();
            assert!(live.next().await.unwrap().is_some());
            assert!(live.next().await.unwrap().is_none());
        });
        runtime.shutdown_background();
    }

    #[test]
    fn the_last_tick_holds_all_up_to_it() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::anchored_now());
            let context = Context::new(crate::Host::this(), clock);
            let rarely = Scheduled::every(Duration::from_secs(3600), Heart(Kind::Beats));
            let (stop, stopped) = watch::channel(false);
            let mut live = Live::start(context, vec![rarely], Duration::from_secs(3600), stopped).unwrap();
            // Told to end at once, or after its first readings: it reads for the last time all the same.
            stop.send(true).unwrap();
            let tick = live.next().await.unwrap().unwrap();
            let batch = tick.batch(live.schema().find("beat.who").unwrap().table).unwrap();
            assert!(batch.len() >= 2 && batch.at.iter().all(|at| *at <= tick.at), "{batch:?}");
            assert!(live.next().await.unwrap().is_none());
        });
    }
}
