//! Textbook cases with closed forms. Times of single runs vary, so each figure is the mean over
//! seeds and must lie within four of its standard errors.

use super::*;

#[test]
fn one_server_with_exponential_times_has_the_numbers_and_waits_of_m_m_1() {
    for load in [0.3, 0.6, 0.8] {
        let [waiting, wait, busy] = over_seeds(12, |seed| {
            let engine = run(open_queue(&exponential(1.0), &exponential(load), 1, 20_000), seed);
            let span = engine.span();
            [engine.buffers[0].level.area / span, mean_wait(&engine), 1.0 - engine.waited(1).0 / span]
        });
        let exact = load * load / (1.0 - load);
        agrees("mean number in the queue", waiting, exact, 0.06);
        agrees("mean wait", wait, exact, 0.06);
        agrees("utilisation", busy, load, 0.02);
    }
}

#[test]
fn one_server_with_any_times_has_the_wait_of_pollaczek_and_khinchine() {
    let load = 0.6;
    for (service, scv) in [
        (Dist::Constant(load), 0.0),
        (Dist::Lognormal { mean: load, scv: 2.0 }, 2.0),
        (Dist::Quantiles([(0.0, 0.0), (1.0, 2.0 * load)].into()), 1.0 / 3.0),
    ] {
        let [wait] = over_seeds(16, |seed| [mean_wait(&run(open_queue(&exponential(1.0), &service, 1, 15_000), seed))]);
        agrees("mean wait", wait, load * load * (1.0 + scv) / 2.0 / (1.0 - load), 0.08);
    }
}

/// Probability that an arrival waits in M/M/c (Erlang C), at an offered load of `a` servers.
fn erlang_c(servers: u32, a: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for k in 1..servers {
        term *= a / f64::from(k);
        sum += term;
    }
    let c = f64::from(servers);
    let last = term * a / c / (1.0 - a / c);
    last / (sum + last)
}

#[test]
fn several_servers_have_the_wait_of_erlang_c() {
    assert!((erlang_c(1, 0.5) - 0.5).abs() < 1e-12 && (erlang_c(2, 1.0) - 1.0 / 3.0).abs() < 1e-12);
    for (servers, a) in [(2, 1.2), (4, 3.0), (16, 13.0)] {
        let [wait] = over_seeds(12, |seed| {
            [mean_wait(&run(open_queue(&exponential(1.0), &exponential(a), servers, 25_000), seed))]
        });
        agrees("mean wait", wait, erlang_c(servers, a) * a / (f64::from(servers) - a), 0.1);
    }
}

/// Mean number of broken machines: `machines` that work for 1 on average, `crews` that repair in
/// `repair` on average; the birth–death chain of the machine-repairman problem.
fn broken(machines: u32, crews: u32, repair: f64) -> f64 {
    let (mut weight, mut total, mut sum) = (1.0, 1.0, 0.0);
    for k in 1..=machines {
        weight *= f64::from(machines - k + 1) * repair / f64::from(k.min(crews));
        total += weight;
        sum += f64::from(k) * weight;
    }
    sum / total
}

#[test]
fn machines_and_their_repairmen_have_the_numbers_of_a_finite_source() {
    for (machines, crews, repair) in [(5, 1, 0.2), (10, 2, 0.5), (20, 3, 0.1)] {
        let [number] = over_seeds(12, |seed| {
            let mut plan = Plan { logs: (2_000, 20_000), slots: vec![crews], ..Plan::default() };
            let (up, fix) = (plan.demand(&exponential(1.0), 1), plan.demand(&exponential(repair), 2));
            machine(&mut plan, up, fix, machines);
            let engine = run(plan, seed);
            let slots = &engine.slots[0];
            [(slots.busy.area + slots.waiting.area) / engine.span()]
        });
        agrees("broken machines", number, broken(machines, crews, repair), 0.03);
    }
}

/// Throughput of two exponential servers with room for `room` between them, the first always with
/// work: the states are customers that the first has let go or holds because there is no room.
fn tandem(first: f64, second: f64, room: u32) -> f64 {
    // Solved as a Markov chain, by Gauss–Seidel on the balance equations.
    let states = room as usize + 3;
    let (into, out) = (1.0 / first, 1.0 / second);
    let mut p = vec![1.0 / states as f64; states];
    for _ in 0..20_000 {
        for k in 0..states {
            let from_below = if k > 0 { p[k - 1] * into } else { 0.0 };
            let from_above = if k + 1 < states { p[k + 1] * out } else { 0.0 };
            let leaves = if k + 1 < states { into } else { 0.0 } + if k > 0 { out } else { 0.0 };
            p[k] = (from_below + from_above) / leaves;
        }
        let total: f64 = p.iter().sum();
        p.iter_mut().for_each(|x| *x /= total);
    }
    (1.0 - p[0]) * out
}

fn line(first: &Dist, second: &Dist, room: u32, seed: u64, customers: u32) -> Engine {
    let mut plan = Plan { logs: (customers / 10, customers), buffers: vec![(room, Vec::new())], ..Plan::default() };
    let (first, second) = (plan.demand(first, 1), plan.demand(second, 2));
    let a = plan.program(&[Op::Fresh, Op::Delay(first), Op::Put(Place::One(0), Token::Item)]);
    let b = plan.program(&[Op::Take(Place::One(0)), Op::Start, Op::Delay(second), Op::Log]);
    plan.actor(a, 0);
    plan.actor(b, 0);
    run(plan, seed)
}

#[test]
fn two_servers_with_room_for_a_few_between_them_block_each_other_as_their_markov_chain_does() {
    assert!((tandem(1.0, 1.0, 1) - 3.0 / 4.0).abs() < 1e-9, "equal rates and four states");
    for (first, second, room) in [(1.0, 1.0, 1), (1.0, 0.7, 2), (0.6, 1.0, 4), (1.0, 1.0, 8)] {
        let [rate, starved] = over_seeds(12, |seed| {
            let engine = line(&exponential(first), &exponential(second), room, seed, 20_000);
            let span = engine.span();
            [engine.log.len() as f64 / span, engine.waited(1).0 / span]
        });
        let exact = tandem(first, second, room);
        agrees("throughput", rate, exact, 0.02);
        agrees("starved share", starved, 1.0 - exact * second, 0.2);
    }
}

#[test]
fn a_line_of_constant_times_runs_at_the_rate_of_its_slowest() {
    for (first, second) in [(1.0, 0.4), (0.4, 1.0), (0.5, 0.5)] {
        let engine = line(&Dist::Constant(first), &Dist::Constant(second), 1, 1, 1000);
        let period = engine.span() / engine.log.len() as f64;
        assert!((period - f64::max(first, second)).abs() < 1e-9, "{first} and {second}: {period}");
    }
}

/// Users that arrive at random at a shared station, each an actor of its own, of which there are so
/// many that one is always free.
fn shared(service: &Dist, capacity: f64, seed: u64) -> Engine {
    let mut plan = Plan { logs: (2_000, 20_000), shares: vec![(capacity, 1.0)], ..Plan::default() };
    plan.buffers.push((1 << 12, Vec::new()));
    let (arrival, service) = (plan.demand(&exponential(1.0), 1), plan.demand(service, 2));
    let source = plan.program(&[Op::Fresh, Op::Delay(arrival), Op::Put(Place::One(0), Token::Item)]);
    let user = plan.program(&[Op::Take(Place::One(0)), Op::Start, Op::Share(0, service), Op::Log]);
    plan.actor(source, 0);
    (0..400).for_each(|number| plan.actor(user, number));
    run(plan, seed)
}

#[test]
fn a_shared_station_holds_as_many_as_m_m_1_whatever_the_amounts_are() {
    let load = 0.7;
    for amount in [exponential(load), Dist::Constant(load), Dist::Lognormal { mean: load, scv: 4.0 }] {
        let [number] = over_seeds(12, |seed| {
            let engine = shared(&amount, 1.0, seed);
            [engine.shares[0].level.area / engine.span()]
        });
        agrees("users", number, load / (1.0 - load), 0.08);
    }
}

#[test]
fn cores_that_are_shared_hold_as_many_as_m_m_c() {
    let a = 1.5;
    let [number] = over_seeds(12, |seed| {
        let engine = shared(&exponential(a), 2.0, seed);
        [engine.shares[0].level.area / engine.span()]
    });
    agrees("users", number, a + erlang_c(2, a) * a / (2.0 - a), 0.06);
}
