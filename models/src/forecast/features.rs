//! The inputs of the forecast: one pure routine from a trainer's past to a row of numbers, the same
//! for training and for a live run. Inputs are shares, quotients and seconds, so that what is learnt
//! on one machine may hold on another; what is not known is NaN.

use super::past::Past;
use super::signals::Signal;

/// One input.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// Its name.
    pub name: &'static str,
    /// Its unit; empty for shares, quotients and counts.
    pub unit: &'static str,
    of: Of,
}

/// How an input comes from the past.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// The mean of a signal over the last seconds.
    Mean(Signal, f64),
    /// The mean of the first seconds against that of the second ones, as a binary logarithm.
    Against(Signal, f64, f64),
    /// The mean of the later half of the last seconds less that of the earlier half.
    Slope(Signal, f64),
    /// The standard deviation over the last seconds.
    Spread(Signal, f64),
    /// The mean of the first seconds as a part of the greatest of the second ones.
    Peak(Signal, f64, f64),
    /// Anything else.
    Other(fn(&Past) -> f64),
}

use Of::{Against, Mean, Other, Peak, Slope, Spread};
use Signal as S;

const fn input(name: &'static str, of: Of) -> Input {
    Input { name, unit: "", of }
}

const fn seconds(name: &'static str, of: fn(&Past) -> f64) -> Input {
    Input { name, unit: "s", of: Other(of) }
}

/// Quotients further from even than this are alike.
const FAR: f64 = 6.0;
/// Times longer than this are alike.
const LONG: f64 = 120.0;

/// Every input, in the order of a row. `docs/forecast.md` says what each is for.
pub const INPUTS: &[Input] = &[
    // The share itself: level, trend, variability.
    input("share_1", Mean(S::Share, 1.0)),
    input("share_2", Mean(S::Share, 2.0)),
    input("share_5", Mean(S::Share, 5.0)),
    input("share_15", Mean(S::Share, 15.0)),
    input("share_60", Mean(S::Share, 60.0)),
    input("share_slow", Other(|past| past.smoothed(0.1))),
    input("share_10_attributed", Mean(S::Share10, 1.0)),
    input("share_slope_4", Slope(S::Share, 4.0)),
    input("share_slope_10", Slope(S::Share, 10.0)),
    input("share_slope_30", Slope(S::Share, 30.0)),
    input("share_spread_5", Spread(S::Share, 5.0)),
    input("share_spread_15", Spread(S::Share, 15.0)),
    input("share_spread_60", Spread(S::Share, 60.0)),
    input("share_most_15", Other(|past| past.most(S::Share, 15.0))),
    input("share_most_60", Other(|past| past.most(S::Share, 60.0))),
    input("known", Other(|past| crate::learn::stats::count(past.len()).min(LONG))),
    // What recurs.
    seconds("season_period", |past| past.season.as_ref().map_or(f64::NAN, |s| crate::learn::stats::count(s.period))),
    input("season_strength", Other(|past| past.season.as_ref().map_or(f64::NAN, |s| s.strength))),
    input("season_1", Other(|past| season(past, 1))),
    input("season_5", Other(|past| season(past, 5))),
    input("season_10", Other(|past| season(past, 10))),
    input("season_15", Other(|past| season(past, 15))),
    input("season_most_10", Other(|past| past.season.as_ref().map_or(f64::NAN, |s| s.most(10)))),
    // Stalls that come and go.
    input("stalled", Other(|past| if past.on { 1.0 } else { 0.0 })),
    seconds("onset_since", |past| time(past.onset.since(past.now()))),
    seconds("onset_usual", |past| time(past.onset.usual())),
    seconds("onset_due", |past| time(past.onset.due(past.now()))),
    input("onset_regular", Other(|past| past.onset.regular())),
    seconds("relief_since", |past| time(past.relief.since(past.now()))),
    seconds("relief_due", |past| time(past.relief.due(past.now()))),
    // Checkpoints and epochs.
    seconds("checkpoint_since", |past| time(past.checkpoint.since(past.now()))),
    seconds("checkpoint_due", |past| time(past.checkpoint.due(past.now()))),
    seconds("arrival_since", |past| time(past.arrival.since(past.now()))),
    seconds("arrival_due", |past| time(past.arrival.due(past.now()))),
    input("arrival_regular", Other(|past| past.arrival.regular())),
    // Why it waits.
    input("cause_fetch", Mean(S::Fetch, 1.0)),
    input("cause_decode", Mean(S::Decode, 1.0)),
    input("cause_handoff", Mean(S::Handoff, 1.0)),
    input("cause_startup", Mean(S::Startup, 1.0)),
    input("cause_contention", Mean(S::Contention, 1.0)),
    input("cause_unknown", Mean(S::Unknown, 1.0)),
    input("cause_io", Mean(S::Io, 1.0)),
    input("cause_device", Mean(S::Device, 1.0)),
    input("trainer_cpu_2", Mean(S::OnCpu, 2.0)),
    input("trainer_queued_2", Mean(S::Queued, 2.0)),
    input("steps_2_15", Against(S::Steps, 2.0, 15.0)),
    input("steps_2_60", Peak(S::Steps, 2.0, 60.0)),
    // Workers: those that rest have batches ready; once none rests the reserve is being used up.
    input("workers", Mean(S::Workers, 1.0)),
    input("worker_running_2", Mean(S::WorkerRunning, 2.0)),
    input("worker_reading_2", Mean(S::WorkerReading, 2.0)),
    input("worker_resting_2", Mean(S::WorkerResting, 2.0)),
    input("worker_resting_5", Mean(S::WorkerResting, 5.0)),
    input("worker_resting_15", Mean(S::WorkerResting, 15.0)),
    input("worker_resting_60", Mean(S::WorkerResting, 60.0)),
    input("worker_resting_slope_6", Slope(S::WorkerResting, 6.0)),
    input("worker_resting_slope_30", Slope(S::WorkerResting, 30.0)),
    input("worker_least_rested_2", Mean(S::WorkerResting1, 2.0)),
    input("worker_reading_slope_6", Slope(S::WorkerReading, 6.0)),
    input("worker_running_slope_6", Slope(S::WorkerRunning, 6.0)),
    input("worker_fetch", Mean(S::WorkerFetch, 1.0)),
    input("worker_decode", Mean(S::WorkerDecode, 1.0)),
    input("worker_put", Mean(S::WorkerPut, 1.0)),
    input("worker_idle", Mean(S::WorkerIdle, 1.0)),
    input("worker_queued", Mean(S::WorkerQueued, 1.0)),
    // The reserve: batches wait in shared memory.
    input("reserve_1_60", Peak(S::Shm, 1.0, 60.0)),
    input("reserve_2_15", Against(S::Shm, 2.0, 15.0)),
    input("reserve_slope_6", Other(|past| slope(past, S::Shm, 6.0) / past.most(S::Shm, 60.0))),
    // Storage.
    input("read_2_30", Against(S::JobRead, 2.0, 30.0)),
    input("storage_2_30", Against(S::JobStorage, 2.0, 30.0)),
    input("storage_part_5", Other(|past| past.mean(S::JobStorage, 5.0) / past.mean(S::JobRead, 5.0).max(1.0))),
    input("storage_part_slope_10", Other(storage_slope)),
    input("faults_2_30", Against(S::JobFaults, 2.0, 30.0)),
    input("disk_latency_2", Other(|past| past.mean(S::DiskLatency, 2.0).log2())),
    input("disk_latency_2_30", Against(S::DiskLatency, 2.0, 30.0)),
    input("disk_queue_2", Other(|past| past.mean(S::DiskTime, 2.0).clamp(0.0, 16.0))),
    input("disk_busy_2", Mean(S::DiskBusy, 2.0)),
    input("disk_write_2_30", Against(S::DiskWrite, 2.0, 30.0)),
    input("remote_latency_2_30", Against(S::RemoteLatency, 2.0, 30.0)),
    input("resident", Mean(S::Resident, 1.0)),
    input("resident_slope_30", Slope(S::Resident, 30.0)),
    input("cached_slope_10", Slope(S::Cached, 10.0)),
    input("refaults_2_30", Against(S::Refaults, 2.0, 30.0)),
    // Network.
    input("received_2_30", Against(S::NetReceived, 2.0, 30.0)),
    input("rtt_2_30", Against(S::Rtt, 2.0, 30.0)),
    input("retransmits_2_30", Against(S::Retransmits, 2.0, 30.0)),
    // Memory and cores.
    input("available", Mean(S::Available, 1.0)),
    input("available_slope_10", Slope(S::Available, 10.0)),
    input("dirty_slope_10", Slope(S::Dirty, 10.0)),
    input("cpu_2_30", Against(S::JobCpu, 2.0, 30.0)),
    input("cpu_pressure_2", Mean(S::CpuPressure, 2.0)),
    input("cpu_pressure_15", Mean(S::CpuPressure, 15.0)),
    input("cpu_pressure_slope_6", Slope(S::CpuPressure, 6.0)),
    input("io_pressure_2", Mean(S::IoPressure, 2.0)),
    input("io_pressure_15", Mean(S::IoPressure, 15.0)),
    input("io_pressure_slope_6", Slope(S::IoPressure, 6.0)),
    input("memory_pressure_2", Mean(S::MemoryPressure, 2.0)),
    input("throttled_2", Mean(S::Throttled, 2.0)),
    input("throttled_15", Mean(S::Throttled, 15.0)),
    input("accelerator_5", Mean(S::Accelerator, 5.0)),
];

/// The row of a past.
#[must_use]
pub(crate) fn row(past: &Past) -> Vec<f64> {
    INPUTS.iter().map(|input| value(past, input.of)).map(|v| if v.is_finite() { v } else { f64::NAN }).collect()
}

fn value(past: &Past, of: Of) -> f64 {
    match of {
        Mean(signal, seconds) => past.mean(signal, seconds),
        Against(signal, short, long) => {
            let floor = past.most(signal, long) * 1e-3;
            let (short, long) = (past.mean(signal, short), past.mean(signal, long));
            if floor > 0.0 { ((short + floor) / (long + floor)).log2().clamp(-FAR, FAR) } else { 0.0 * short }
        }
        Slope(signal, seconds) => slope(past, signal, seconds),
        Spread(signal, seconds) => past.spread(signal, seconds),
        Peak(signal, short, long) => {
            let most = past.most(signal, long);
            if most > 0.0 { past.mean(signal, short) / most } else { 0.0 * most }
        }
        Other(of) => of(past),
    }
}

fn slope(past: &Past, signal: Signal, seconds: f64) -> f64 {
    past.mean_of(signal, 0.0, seconds / 2.0) - past.mean_of(signal, seconds / 2.0, seconds)
}

/// How the part of what the job reads that comes from storage changes.
fn storage_slope(past: &Past) -> f64 {
    let part = |to, from| past.mean_of(S::JobStorage, to, from) / past.mean_of(S::JobRead, to, from).max(1.0);
    part(0.0, 5.0) - part(5.0, 10.0)
}

fn season(past: &Past, seconds: usize) -> f64 {
    past.season.as_ref().map_or(f64::NAN, |season| season.ahead(seconds))
}

fn time(seconds: f64) -> f64 {
    if seconds.is_nan() { seconds } else { seconds.clamp(-LONG, LONG) }
}

#[cfg(test)]
mod tests {
    use feedline_traces::Ts;

    use super::*;
    use crate::forecast::signals::NOTHING;

    fn of(row: &[f64], name: &str) -> f64 {
        row[INPUTS.iter().position(|input| input.name == name).unwrap()]
    }

    #[test]
    fn names_are_unique_and_signals_have_their_use() {
        for (at, input) in INPUTS.iter().enumerate() {
            assert!(INPUTS[..at].iter().all(|other| other.name != input.name), "{} is there twice", input.name);
        }
    }

    #[test]
    fn a_past_without_anything_is_missing_everywhere_and_never_zero() {
        let mut past = Past::default();
        past.push(Ts(1_000_000_000), NOTHING);
        let row = row(&past);
        for (input, value) in INPUTS.iter().zip(&row) {
            let counted = matches!(input.name, "known" | "stalled");
            assert!(value.is_nan() || counted, "{} is {value}", input.name);
        }
    }

    #[test]
    fn a_reserve_that_is_used_up_while_the_share_is_still_low_can_be_seen() {
        let mut past = Past::default();
        for second in 1..=40_i32 {
            let mut values = NOTHING;
            values[S::Share as usize] = 0.01;
            let left = f64::from((44 - second).clamp(4, 10)) / 10.0;
            values[S::Shm as usize] = 1e7 * left;
            values[S::WorkerResting as usize] = if second < 34 { 0.8 } else { 0.0 };
            past.push(Ts(i64::from(second) * 1_000_000_000), values);
        }
        let row = row(&past);
        assert!(of(&row, "reserve_1_60") < 0.5 && of(&row, "reserve_slope_6") < -0.2);
        assert!(of(&row, "worker_resting_2") < 0.01 && of(&row, "worker_resting_15") > 0.3);
        assert!(of(&row, "share_5") < 0.02 && of(&row, "stalled") == 0.0);
    }

    #[test]
    fn quotients_do_not_depend_on_the_size_of_the_machine() {
        let row_of = |scale: f64| {
            let mut past = Past::default();
            for second in 1..=30_i32 {
                let mut values = NOTHING;
                values[S::DiskWrite as usize] = scale * if second > 28 { 8.0 } else { 1.0 };
                past.push(Ts(i64::from(second) * 1_000_000_000), values);
            }
            row(&past)
        };
        let (small, large) = (of(&row_of(1.0), "disk_write_2_30"), of(&row_of(1e9), "disk_write_2_30"));
        assert!((small - large).abs() < 1e-9 && small > 1.5, "{small} {large}");
    }
}
