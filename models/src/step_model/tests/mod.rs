//! The engine against closed forms, the model against bounds, the estimate against the model.

mod against;
mod closed;
mod dice;
mod job;
mod properties;

use super::dist::Dist;
use super::engine::{Demand, Engine, Op, Place, Plan, Token};

/// Mean and standard error of some figures over some seeds.
fn over_seeds<const N: usize>(seeds: u64, figures: impl Fn(u64) -> [f64; N]) -> [(f64, f64); N] {
    let values: Vec<[f64; N]> = (1..=seeds).map(figures).collect();
    let n = values.len() as f64;
    std::array::from_fn(|which| {
        let mean = values.iter().map(|v| v[which]).sum::<f64>() / n;
        let variance = values.iter().map(|v| (v[which] - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, (variance / n).sqrt())
    })
}

/// Within four standard errors of the closed form, and near enough for that to mean something.
#[track_caller]
fn agrees(what: &str, (mean, error): (f64, f64), exact: f64, within: f64) {
    assert!((mean - exact).abs() <= 4.0 * error + 1e-12, "{what}: {mean} ± {error}, exactly {exact}");
    assert!((mean / exact - 1.0).abs() <= within, "{what}: {mean}, exactly {exact}");
}

/// Little's law at every station.
#[track_caller]
fn little(engine: &Engine) {
    for (number, (area, stays)) in engine.little().into_iter().enumerate() {
        assert!((area - stays).abs() <= 1e-9 * (1.0 + area), "station {number}: {area} on average, {stays} by Little");
    }
}

/// An open queue: arrivals from a source, `servers` that log how long a customer took in service, and
/// a queue in front of them that is large enough never to be full.
fn open_queue(arrival: &Dist, service: &Dist, servers: u32, customers: u32) -> Plan {
    let mut plan = Plan { logs: (customers / 10, customers), ..Plan::default() };
    plan.buffers.push((1 << 16, Vec::new()));
    let (arrival, service) = (plan.demand(arrival, 1), plan.demand(service, 2));
    let source = plan.program(&[Op::Fresh, Op::Delay(arrival), Op::Put(Place::One(0), Token::Item)]);
    let server = plan.program(&[Op::Take(Place::One(0)), Op::Start, Op::Delay(service), Op::Log]);
    plan.actor(source, 0);
    (0..servers).for_each(|number| plan.actor(server, number));
    plan
}

/// Mean wait in the queue of [`open_queue`].
fn mean_wait(engine: &Engine) -> f64 {
    engine.buffers[0].stays.sum / engine.buffers[0].stays.count as f64
}

fn run(plan: Plan, seed: u64) -> Engine {
    let mut engine = Engine::new(plan, seed);
    engine.run(100_000_000);
    little(&engine);
    engine
}

fn exponential(mean: f64) -> Dist {
    Dist::Exponential(mean)
}

/// A machine that works and is repaired, and so on for ever; `number` of `machines` machines.
fn machine(plan: &mut Plan, up: Demand, repair: Demand, machines: u32) {
    let program = plan.program(&[
        Op::Fresh,
        Op::Delay(up),
        Op::Start,
        Op::Acquire(0),
        Op::Delay(repair),
        Op::Release(0),
        Op::Log,
    ]);
    for number in 0..machines {
        plan.actor(program, number);
        if let Some(role) = plan.actors.last_mut() {
            (role.fresh, role.stride) = (u64::from(number), u64::from(machines));
        }
    }
}
