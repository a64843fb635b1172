//! Checks of each controller's run against the statements of its paper.
#![allow(unreachable_pub, reason = "a test binary")]

use fathom_cc::highspeed::a;
use fathom_cc::vegas::delta;

use super::*;

/// Checks that a run of any controller lasts to the end, that the window stays within its bounds,
/// and that the window grows again while no packet waits.
pub fn the_window_lasts_to_the_end(run: &Run) {
    assert!(run.points.last().is_some_and(|p| p.at > LENGTH - 0.2), "the run ends before its time");
    assert!(run.points.iter().all(|p| p.window >= 2 * p.size && p.hold.is_finite()));
    assert!(run.window_at(SPIKE.0) > run.window_at(EMPTY), "no growth while nothing waits");
}

pub fn reno_grows_whatever_the_queue_does(run: &Run) {
    assert!(run.cuts().is_empty());
    assert!(run.points.is_sorted_by_key(|p| p.window));
    // One packet per round trip: 38 from 0.1 s to 2 s at 50 ms, and 38.9 in the 3.5 s of the
    // plateau at 90 ms. With n packets, the fraction of a packet that the window cannot use, the
    // wait for the second packet of a frame, and the pacing cost about 1.4/n of a round trip: 3 of
    // the 38 packets, and 0.6 of the 38.9.
    let grown = |from: f64, to: f64| (run.window_at(to) - run.window_at(from)) / MSS;
    assert!((33..=37).contains(&grown(0.1, RAMP.0)), "{}", grown(0.1, RAMP.0));
    assert!((37..=40).contains(&grown(RAMP.1, PLATEAU_END)), "{}", grown(RAMP.1, PLATEAU_END));
}

/// Returns W_cubic(t) in packets after a mark at 200 packets (RFC 9438 §4.2): K = cbrt(60 / 0.4).
fn w_cubic(t: f64) -> f64 {
    0.4 * (t - 150_f64.cbrt()).powi(3) + 200.0
}

pub fn cubic_follows_its_curve(run: &Run) {
    assert!(run.cuts().is_empty());
    // The epoch begins with the first ACK, at 50 ms or slightly later. The window follows W_cubic
    // one round trip ahead, slightly late. Reno's window, which grows by 0.53 packets per round
    // trip from 140 on, is always smaller.
    for at in [1.0, 2.0, 3.0, 5.0, 6.0, 8.0, 10.0, 11.9] {
        let (packets, curve) = (run.window_at(at) as f64 / MSS as f64, w_cubic(at - 0.05));
        assert!((packets - curve).abs() < 4.0, "{packets} against {curve} packets at {at} s");
    }
}

pub fn sdc_delays_and_then_grows(run: &Run) {
    assert!(run.cuts().is_empty());
    assert_eq!(run.marks.len(), SDC_MARKS.len());
    let first = |test: &dyn Fn(&Point) -> bool| {
        run.points.iter().find(|p| test(p)).map_or(LENGTH, |p| p.at)
    };
    // SDC §2.1: below eight packets the window never falls. The delay rises with marks and falls
    // between them.
    let large = first(&|p| p.window >= 8 * MSS);
    assert!(SDC_MARKS[2] < large && large < SDC_MARKS[3], "eight packets at {large} s");
    let small: Vec<&Point> = run.between(0.0, large).collect();
    assert!(small.is_sorted_by_key(|p| p.window) && small[0].window < 6 * MSS);
    // When the window reaches eight packets, some delay is left. The window is constant until the
    // delay is gone, with or without marks.
    let free = run.between(large, LENGTH).find(|p| p.hold == 0.0).map_or(LENGTH, |p| p.at);
    let standing: Vec<&Point> = run.between(large, free).collect();
    assert!(standing.iter().all(|p| p.window == standing[0].window), "the window stands");
    let most = standing.iter().map(|p| p.hold).fold(0.0, f64::max);
    assert!(most > 300.0 && free > SDC_MARKS[7] + 2.0, "{most} ms, gone at {free} s");
    // A mark sets RTT + D to twice the smoothed RTT, which is still moving from the last rise.
    for (at, _) in &run.marks[3..8] {
        let after = run.points.partition_point(|p| p.at < *at);
        let total = |p: &Point| BASE.as_secs_f64() * 1e3 + p.queued + p.hold;
        let share = total(&run.points[after]) / total(&run.points[after - 1]);
        assert!((1.6..2.3).contains(&share), "{share} times the round trip at {at} s");
    }
    // Between marks the delay only shrinks. The check uses the plateau, where the queue is
    // constant.
    let plateau: Vec<f64> = run.between(RAMP.1 + 0.2, PLATEAU_END).map(|p| p.hold).collect();
    assert!(plateau.is_sorted_by(|a, b| a >= b));
    // After that, the window grows by one packet per round trip, and a mark halves it without
    // adding delay.
    let (at, after) = run.marks[SDC_MARKS.len() - 1];
    let before = run.window_at(at);
    assert!(
        free < at - 1.0 && before > 12 * MSS,
        "gone at {free} s, {before} bytes before the last mark"
    );
    assert!(after >= before / 2 && after <= before / 2 + MSS, "{before} to {after}");
    assert!(run.between(at, LENGTH).all(|p| p.hold == 0.0) == (after >= 8 * MSS));
}

pub fn highspeed_grows_by_a_of_w(run: &Run) {
    assert!(run.cuts().is_empty());
    // The window follows RFC 3649 §5 whatever the RTT does. In the spike, the RTT changes too fast
    // to count growth per round trip. 500 packets lose b(500) = 0.366, and a(317) is 3.76.
    for at in samplings().filter(|at| (0.3..SPIKE.0).contains(at)) {
        let (grown, many) = (growth(run, at), a(run.window_at(at) as f64 / MSS as f64));
        assert!((0.8..1.2).contains(&(grown / many)), "{grown} packets at {at} s, not {many}");
    }
    let start = run.window_at(0.1) / MSS;
    assert!((315..325).contains(&start), "{start}");
}

pub fn packets_fit_the_window(run: &Run) {
    // By the rule of the module, the window has eight or more datagrams, or datagrams have the
    // smallest size. The size falls at once, and rises by one step after four round trips.
    const UPWARDS: [u64; 5] = [250, 500, 750, 1_000, 1_200];
    assert!(run.points.iter().all(|p| p.window >= 8 * p.size || p.size == 250));
    let mut last = 0.0;
    for pair in run.points.windows(2).filter(|pair| pair[0].size != pair[1].size) {
        let (was, is, at) = (pair[0].size, pair[1].size, pair[1].at);
        if is > was {
            let step = UPWARDS.iter().position(|size| *size == was).expect("a size of the table");
            assert_eq!(is, UPWARDS[step + 1], "at {at} s");
            assert!(at - last > 4.0 * BASE.as_secs_f64(), "{last} and {at} s");
        } else {
            assert!(
                run.marks.iter().any(|(mark, _)| *mark == at),
                "smaller only by a mark: {at} s"
            );
        }
        last = at;
    }
    let sizes = |from: f64, to: f64| run.between(from, to).map(|p| p.size).min();
    assert_eq!(
        (sizes(3.0, 4.0), sizes(4.8, 6.0), sizes(10.0, LENGTH)),
        (Some(1_200), Some(250), Some(1_200))
    );
}

pub fn gentle_is_reno_while_the_rtt_rises(run: &Run) {
    assert!(run.cuts().is_empty() && run.points.is_sorted_by_key(|p| p.window));
    // gHSTCP §3.2. A rise is seen one round trip later, the mode changes at the end of that round
    // trip, and the growth is visible over one more.
    let lag = 0.4;
    let many = |at: f64| a(run.window_at(at) as f64 / MSS as f64);
    for at in samplings() {
        let within = |from: f64, to: f64| (from + lag..to).contains(&at);
        let grown = growth(run, at);
        if within(RAMP.0, RAMP.1) {
            assert!((0.8..1.2).contains(&grown), "{grown} packets at {at} s: Reno mode");
        }
        let level = within(0.1, RAMP.0) || within(RAMP.1, PLATEAU_END) || within(EMPTY, SPIKE.0);
        if level || within(PLATEAU_END, EMPTY) {
            assert!(
                (0.8..1.2).contains(&(grown / many(at))),
                "{grown} packets at {at} s, not {}",
                many(at)
            );
        }
    }
}

pub fn sync_cuts_while_the_delay_rises(run: &Run) {
    // Algorithm 2: only an increasing average causes cuts. In the first ramp, each delay is the
    // largest so far, so a quarter of the largest delay is reached at once.
    assert_eq!(run.cuts_between(0.0, RAMP.0), 0);
    assert!(run.cuts_between(RAMP.0, RAMP.0 + 0.3) > 0);
    assert!(
        run.cuts_between(SPIKE.0, SPIKE.1 + 0.1) > 0,
        "the spike takes the average above a quarter of 40 ms"
    );
    // With a small window, the average follows the delay late. Once the average falls, and while it
    // stays low, there are no cuts.
    assert_eq!(run.cuts_between(PLATEAU_END + 0.5, SPIKE.0), 0);
    assert_eq!(run.cuts_between(SPIKE.1 + 0.2, LENGTH), 0);
    assert!(
        run.window_at(EMPTY) > run.window_at(PLATEAU_END),
        "a falling average grows the window"
    );
}

pub fn dca_cuts_once_per_rise(run: &Run) {
    // DCA §3.3: the delay event is true at the foot of the ramp and all the way up, and the epoch
    // lasts until the plateau has become the average. The spike works in the same way. There is one
    // cut per rise, and none while the delay falls or is constant.
    let cuts = run.cuts();
    let [ramp, spike] = cuts[..] else { panic!("{} cuts", cuts.len()) };
    assert!((RAMP.0..RAMP.0 + 0.15).contains(&ramp.at), "{}", ramp.at);
    assert!((SPIKE.0..SPIKE.0 + 0.15).contains(&spike.at), "{}", spike.at);
    for cut in cuts {
        let before = run.window_at(cut.at);
        assert!(
            cut.window >= before / 2 && cut.window <= before / 2 + MSS,
            "half of {before}, not {}",
            cut.window
        );
    }
    // Apart from the cuts, the window grows as Reno's.
    let grown = (run.window_at(PLATEAU_END) - run.window_at(RAMP.1)) / MSS;
    assert!((37..=40).contains(&grown), "{grown}");
}

pub fn vegas_steps_down_until_it_holds(run: &Run) {
    assert_eq!(run.cuts_between(0.0, RAMP.0), 0);
    // Each cut takes at most one packet.
    for pair in run.points.windows(2).filter(|pair| pair[1].cut) {
        assert!(pair[0].window.saturating_sub(pair[1].window) <= MSS);
    }
    // In the last second of the plateau the window is constant, with alpha to beta packets waiting.
    let mut held: Vec<u64> =
        run.between(PLATEAU_END - 1.0, PLATEAU_END).map(|p| p.window).collect();
    held.dedup();
    assert_eq!(held.len(), 1, "{held:?}");
    assert!(
        (1..=3).contains(&delta(held[0], MSS, BASE, BASE + Duration::from_millis(40))),
        "{held:?}"
    );
    // The window grows by one packet per round trip while nothing waits.
    assert!(run.window_at(SPIKE.0) > run.window_at(EMPTY) + 25 * MSS);
}

pub fn dual_takes_an_eighth_above_the_middle(run: &Run) {
    let (mut largest, mut last) = (0.0_f64, f64::MIN);
    for (at, point) in run.points.iter().enumerate() {
        largest = largest.max(point.queued);
        if !point.cut {
            continue;
        }
        let before = run.points[at - 1].window;
        assert!(
            point.queued > largest / 2.0,
            "{} ms of at most {largest} at {} s",
            point.queued,
            point.at
        );
        assert!(
            point.at - last > 2.0 * BASE.as_secs_f64(),
            "two round trips between cuts: {last} and {}",
            point.at
        );
        assert!(
            (before * 7 / 8..=(before + 2 * MSS) * 7 / 8).contains(&point.window),
            "{before} to {}",
            point.window
        );
        last = point.at;
    }
    // In the ramp and at the plateau the delay is the largest so far, so every decision cuts: one
    // cut per 180 ms at the plateau.
    let plateau = run.cuts_between(RAMP.1 + 0.1, PLATEAU_END);
    assert!((17..=19).contains(&plateau), "{plateau}");
    // One eighth of the window and two packets of growth are in balance at about sixteen packets.
    let balance = run.window_at(PLATEAU_END) / MSS;
    assert!((12..=17).contains(&balance), "{balance}");
    // The delay is below the middle, 20 ms, from 7.75 s on.
    assert_eq!(run.cuts_between(7.75 + 0.1, SPIKE.0), 0);
}

/// With a target of 20 ms, LEDBAT grows by a packet per round trip while nothing waits, and shrinks
/// by a packet while 40 ms wait (RFC 6817 §2.4.2).
pub fn ledbat_moves_by_a_packet_per_round(run: &Run) {
    for (at, packets) in [(1.9, 1.0), (5.0, -1.0), (9.9, 1.0)] {
        let grown = growth(run, at);
        assert!((grown - packets).abs() < 0.2, "{grown} packets per round trip at {at} s");
    }
    // The window keeps its size while the target waits.
    let middle = (RAMP.0 + RAMP.1) / 2.0;
    assert!(growth(run, middle).abs() < 0.3, "{} at the target", growth(run, middle));
    assert_eq!(run.cuts_between(RAMP.0, PLATEAU_END), 1, "one change from growth to decrease");
}

/// With a target of 20 ms, LEDBAT++ halves its window per round trip while 40 ms wait
/// (LEDBAT++ §4), and spends a tenth of the time in slowdowns (LEDBAT++ §4).
pub fn ledbat_pp_halves_and_slows_down(run: &Run) {
    let minimum = 2 * MSS;
    // The first slowdown begins two round trips after slow start, and lasts two.
    let first: Vec<&Point> = run.between(0.0, 1.0).filter(|p| p.window == minimum).collect();
    let (begins, ends) = (first[0].at, first[first.len() - 1].at);
    assert!((0.1..0.25).contains(&begins), "first slowdown at {begins} s");
    assert!((0.09..0.2).contains(&(ends - begins)), "{begins} to {ends} s");
    assert!(run.between(4.0, PLATEAU_END).all(|p| p.window == minimum), "twice the target waits");
    assert!(run.window_at(LENGTH) > minimum);
}

/// Without queueing, Copa doubles its window per round trip. At 40 ms, it first falls to the target,
/// and then takes the queue for that of another flow: 1 / delta grows by one packet per round trip
/// (Copa §2.2).
pub fn copa_turns_and_competes(run: &Run) {
    assert!(run.window_at(1.0) >= MOST_PACKETS * MSS, "{}", run.window_at(1.0));
    let turned = run.window_at(2.8) / MSS;
    assert!(turned < 60, "{turned} packets after the turn");
    // The target at 40 ms is 1 / delta (50 + 40) / 40 packets, so the window grows by 2.25 packets
    // per round trip.
    let grown = growth(run, 6.0);
    assert!((1.0..4.0).contains(&grown), "{grown} packets per round trip");
    assert!(run.cuts().is_empty());
}

/// plumb tests the standing queue until two seconds have passed since it crossed the target at
/// about 2.6 s, and then restores its window by slow start. It does not react to the spike.
pub fn plumb_yields_and_then_competes(run: &Run) {
    let cuts: Vec<f64> = run.cuts().iter().map(|p| p.at).collect();
    assert!(cuts.iter().all(|at| (2.6..5.5).contains(at)), "{cuts:?}");
    assert!(run.window_at(5.0) <= 4 * MSS, "{}", run.window_at(5.0));
    assert!(run.window_at(7.0) >= run.window_at(3.0), "restored by slow start");
}

/// SCReAMv2 cuts only while more than half of its target of 60 ms waits, and not for the spike.
pub fn scream_yields_to_the_queue(run: &Run) {
    let cuts = run.cuts();
    assert!(cuts.iter().all(|p| p.at < 9.0 && p.queued > 25.0), "cuts at the wrong times");
    assert!(run.window_at(3.0) > run.window_at(1.0), "grows below half the target");
    assert!(run.window_at(7.0) < run.window_at(3.2) / 2, "shrinks while 40 ms wait");
}

/// GCC shrinks the window while the delay grows, but not while it is constant.
pub fn gcc_reacts_to_growth_of_the_delay(run: &Run) {
    assert!(run.window_at(1.9) > run.window_at(0.5), "grows while nothing waits");
    assert!(run.window_at(3.4) < run.window_at(2.0) / 2, "shrinks on the ramp");
    assert!(run.window_at(6.9) > run.window_at(4.5), "grows on the plateau");
}
