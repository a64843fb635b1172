//! Window curves over a simulated bottleneck, each with bounds.
//!
//! `FATHOM_CURVES=ascii cargo test -p fathom-cc --test cc-tests curves:: -- --nocapture` draws the
//! curves; `FATHOM_CURVES=csv` prints their points.

use fathom_cc::catalogue;
use fathom_cc::testing::script::{ALL_SIGNALS, MSS};
use fathom_cc::testing::{Bottleneck, Curve, Null};
use fathom_cc::{Rate, Start, Time};
use std::time::Duration;

/// A path of 10 Mbps and 40 ms with a queue of one bandwidth-delay product: 50 kB on the way and
/// 50 kB in the queue.
const PATH: Bottleneck = Bottleneck {
    rate: Rate::from_bits_per_sec(10_000_000),
    forward: Duration::from_millis(20),
    reverse: Duration::from_millis(20),
    queue: 50_000,
    datagram: MSS as u16,
    per_ack: 2,
    clock_offset: -123_456_789,
};
/// A path of 1 Gbps and 100 ms: 12.5 MB on the way, about ten thousand packets. The queue holds a
/// fifth of that, and there are ten packets per ACK.
const LARGE: Bottleneck = Bottleneck {
    rate: Rate::from_bits_per_sec(1_000_000_000),
    forward: Duration::from_millis(50),
    reverse: Duration::from_millis(50),
    queue: 2_500_000,
    per_ack: 10,
    ..PATH
};
/// [`PATH`] with a queue of 250 ms.
const DEEP: Bottleneck = Bottleneck { queue: 312_500, ..PATH };
const LENGTH: Duration = Duration::from_secs(30);
/// Time at which slow start is certainly over.
const SETTLED: Time = Time::from_millis(5_000);

fn curve(spec: &str, path: Bottleneck) -> Curve {
    let start = Start { now: Time::ZERO, datagram: path.datagram, provided: ALL_SIGNALS };
    let mut controller = catalogue::parse(spec).expect(spec).start(&start).expect(spec);
    let curve = path.run(&mut *controller, LENGTH);
    match std::env::var("FATHOM_CURVES").as_deref() {
        Ok("ascii") => {
            println!("{spec} at {}: {}\n{}", path.rate, figures(&curve), curve.to_ascii(110, 16))
        }
        Ok("csv") => println!("# {spec} at {}\n{}", path.rate, curve.to_csv()),
        _ => println!("{spec} at {}: {}", path.rate, figures(&curve)),
    }
    curve
}

fn figures(curve: &Curve) -> String {
    let range = curve.window_range(SETTLED);
    format!(
        "use {:.3}, queued {:?}, lost {}, window {range:?}",
        share(curve),
        curve.mean_queued(SETTLED),
        curve.lost
    )
}

/// Returns the share of [`PATH`]'s capacity that was delivered.
fn share(curve: &Curve) -> f64 {
    share_of(PATH, curve)
}

/// Returns the share of a path's capacity that was delivered.
fn share_of(path: Bottleneck, curve: &Curve) -> f64 {
    curve.delivered as f64 / (path.rate.bytes_per_sec() as f64 * LENGTH.as_secs_f64())
}

#[test]
fn fixed_window_uses_its_computed_share_of_the_link() {
    let half = PATH.run(&mut Null { window: 25_000 }, LENGTH);
    assert!((0.42..0.50).contains(&share(&half)), "{}", figures(&half));
    let full = Bottleneck { queue: 100_000, ..PATH }.run(&mut Null { window: 75_000 }, LENGTH);
    assert!(share(&full) > 0.98 && full.lost == 0, "{}", figures(&full));
    let queued = full.mean_queued(SETTLED).as_secs_f64();
    assert!((0.015..0.022).contains(&queued), "25 kB wait 20 ms: {}", figures(&full));
}

#[test]
fn reno_window_oscillates_between_half_and_full() {
    let reno = curve("reno", PATH);
    let (low, high) = reno.window_range(SETTLED).expect("points");
    assert!(share(&reno) > 0.95, "{}", figures(&reno));
    assert!(
        (95_000..108_000).contains(&high) && (47_000..55_000).contains(&low),
        "{}",
        figures(&reno)
    );
}

#[test]
fn cubic_window_oscillates_between_0_7_and_full() {
    let cubic = curve("cubic", PATH);
    let (low, high) = cubic.window_range(SETTLED).expect("points");
    assert!(share(&cubic) > 0.95, "{}", figures(&cubic));
    assert!(
        (95_000..108_000).contains(&high) && (66_000..76_000).contains(&low),
        "{}",
        figures(&cubic)
    );
    // From 70 to 100 kB are 25 packets. K is 3.97 s, and Reno's window (0.53 packets per 60 to
    // 80 ms) takes as long. Each cycle ends with a loss.
    let losses =
        cubic.points.windows(2).filter(|p| p[1].window < p[0].window && p[1].at > SETTLED).count();
    assert!((5..=9).contains(&losses), "{losses} losses in 25 s");
}

#[test]
fn cubic_fills_a_large_path_and_reno_does_not() {
    // Slow start ends at about 80 % of the path's capacity. After that, Reno adds ten packets per
    // second, which is 3 % of the path in 30 s. CUBIC is back at W_max, 9000 packets, after K =
    // cbrt(2700 / 0.4) = 18.9 s, and most of the way back after half of that.
    let (reno, cubic) = (curve("reno", LARGE), curve("cubic", LARGE));
    let (reno, cubic) = (share_of(LARGE, &reno), share_of(LARGE, &cubic));
    assert!((0.40..0.50).contains(&reno), "{reno}");
    assert!((0.75..0.90).contains(&cubic), "{cubic}");
}

#[test]
fn gentle_lies_between_reno_and_highspeed_on_a_large_path() {
    let [reno, gentle, fast] = ["reno", "gentle", "highspeed"].map(|spec| curve(spec, LARGE));
    let [r, g, f] = [&reno, &gentle, &fast].map(|c| share_of(LARGE, c));
    // a(w) is 25 packets per round trip at 8000 packets: from 0.6 of the path to its full capacity
    // in 15 s.
    assert!(f > 0.87 && g > r + 0.3 && g < f - 0.02, "reno {r}, gentle {g}, highspeed {f}");
    assert!(
        gentle.mean_queued(SETTLED) < fast.mean_queued(SETTLED) * 2 / 3,
        "{} / {}",
        figures(&gentle),
        figures(&fast)
    );
    assert!(gentle.lost <= fast.lost);
    for spec in ["gentle:trend=t-test", "gentle:trend=mann-kendall"] {
        let tested = share_of(LARGE, &curve(spec, LARGE));
        assert!(tested > r + 0.3 && tested < f - 0.02, "{spec}: {tested}");
    }
}

#[test]
fn highspeed_cuts_slightly_less_than_reno_on_a_small_path() {
    // A loss comes at 83 packets, where b is 0.465.
    let fast = curve("highspeed", PATH);
    let (low, high) = fast.window_range(SETTLED).expect("points");
    assert!(
        (95_000..108_000).contains(&high) && (51_000..58_000).contains(&low),
        "{}",
        figures(&fast)
    );
    assert!(share(&fast) > 0.95);
}

#[test]
fn hystart_loses_less_in_slow_start_with_a_deep_queue() {
    let (plain, hystart) = (curve("reno", DEEP), curve("reno:hystart=on", DEEP));
    // The path holds 362 kB. Slow start detects the full path only at twice this window, and about
    // 300 packets are lost. Conservative Slow Start grows at a quarter of the speed but does not
    // pause. Without pacing, it begins so late that it still reaches the end of the queue.
    let most = |c: &Curve| c.points.iter().map(|p| p.window).max().unwrap_or_default();
    assert!(plain.lost > 200 && most(&plain) > 600_000, "{}", figures(&plain));
    assert!(hystart.lost * 3 < plain.lost && most(&hystart) < 500_000, "{}", figures(&hystart));
    assert!(
        share(&hystart) > 0.99 && hystart.delivered * 100 > plain.delivered * 99,
        "{}",
        figures(&hystart)
    );
}

#[test]
fn hystart_does_not_end_slow_start_without_a_queue() {
    // There is no standing queue before the window reaches what the link carries in a round trip:
    // 50 kB and 12.5 MB.
    for (path, holds) in [(DEEP, 50_000), (LARGE, 5_000_000)] {
        let (plain, hystart) = (curve("reno", path), curve("reno:hystart=on", path));
        let rise =
            |c: &Curve| c.points.iter().position(|p| p.window >= holds).expect("it gets there");
        assert_eq!(rise(&plain), rise(&hystart));
        assert!(plain.points[..rise(&plain)] == hystart.points[..rise(&hystart)]);
    }
    // If a burst that does not fit into the queue ends slow start, HyStart++ has no effect.
    assert!(curve("reno", LARGE).points == curve("reno:hystart=on", LARGE).points);
}

#[test]
fn sync_with_one_cut_per_verdict_has_lower_throughput() {
    // One cut per verdict is several cuts per round trip here, so a single flow leaves much of the
    // link idle. The paper's links carry many flows.
    let (reno, sync) = (curve("reno", PATH), curve("sync", PATH));
    assert_eq!(sync.lost, 0);
    assert!(
        sync.mean_queued(SETTLED) < reno.mean_queued(SETTLED) / 4,
        "{} / {}",
        figures(&sync),
        figures(&reno)
    );
    assert!((0.50..0.70).contains(&share(&sync)), "{}", figures(&sync));
}

#[test]
fn sync_with_one_cut_per_round_fills_the_link() {
    let (reno, sync) = (curve("reno", PATH), curve("sync:cut=round", PATH));
    assert_eq!(sync.lost, 0);
    assert!(
        sync.mean_queued(SETTLED) < reno.mean_queued(SETTLED) * 3 / 4,
        "{} / {}",
        figures(&sync),
        figures(&reno)
    );
    assert!(share(&sync) > 0.95, "{}", figures(&sync));
}

#[test]
fn sync_option_slow_start_reno_fills_the_queue() {
    let (steer, reno) = (curve("sync", PATH), curve("sync:slow-start=reno", PATH));
    let deepest = |c: &Curve| c.points.iter().map(|p| p.queued).max().unwrap_or_default();
    assert!(deepest(&steer) < Duration::from_millis(15), "{}", figures(&steer));
    assert!(deepest(&reno) > Duration::from_millis(35), "50 kB are 40 ms: {}", figures(&reno));
    assert!((0.72..0.88).contains(&share(&reno)), "{}", figures(&reno));
}

#[test]
fn sync_curves_with_rtt_and_one_way_delay_are_equal() {
    // With one ACK per packet, there is no acknowledgement delay either.
    let path = Bottleneck { per_ack: 1, ..PATH };
    assert!(curve("sync", path).points == curve("sync:signal=rtt", path).points);
}

#[test]
fn dca_keeps_the_queue_short_at_lower_utilisation_than_reno() {
    // Prediction: twenty equal RTTs have no deviation, so any queueing is an event, and the window
    // is halved about when the link is full. There is no loss and almost no queue, and the
    // utilisation is lower than Reno's by a tenth or more. The result is worse: on this path
    // without noise, the growth itself stands out, because a third packet is sent in answer to an
    // ACK. The window stays below ten packets.
    let (reno, dca) = (curve("reno", PATH), curve("dca", PATH));
    assert_eq!(dca.lost, 0, "{}", figures(&dca));
    assert!(
        dca.mean_queued(SETTLED) < reno.mean_queued(SETTLED) / 4,
        "{} / {}",
        figures(&dca),
        figures(&reno)
    );
    assert!((0.1..share(&reno) - 0.1).contains(&share(&dca)), "{}", figures(&dca));
}

#[test]
fn smaller_dca_reductions_cost_less_throughput() {
    // Prediction from DCA Table 4-1: 50 % costs more than 25 %, and 25 % more than 12.5 %.
    let shares =
        ["dca", "dca:reduction=0.25", "dca:reduction=0.125"].map(|spec| share(&curve(spec, PATH)));
    assert!(shares.is_sorted(), "{shares:?}");
}

#[test]
fn dca_fills_the_link_if_its_floor_exceeds_its_own_rtt_steps() {
    // A packet takes 0.96 ms. The growth of a single sender therefore raises the mean of two
    // samples by half of this time, or by the whole time if both packets of a frame are behind the
    // added packet. Prediction: a floor of a quarter of a packet changes nothing, and a higher
    // floor gives a higher utilisation. A floor of two packets is never reached after slow start,
    // so dca then behaves like Reno.
    let [none, quarter, half_more, two] =
        ["dca", "dca:floor=0.24ms", "dca:floor=1.5ms", "dca:floor=2ms"]
            .map(|spec| curve(spec, PATH));
    assert!(none.points == quarter.points);
    assert!(
        share(&half_more) > share(&none) + 0.3 && half_more.lost == 0,
        "{}",
        figures(&half_more)
    );
    assert!(half_more.mean_queued(SETTLED) < Duration::from_millis(3), "{}", figures(&half_more));
    let reno = curve("reno", PATH);
    assert!((share(&two) - share(&reno)).abs() < 0.02, "{}", figures(&two));
    assert!(
        two.lost < reno.lost / 2,
        "slow start ends early: {} / {}",
        figures(&two),
        figures(&reno)
    );
}

#[test]
fn vegas_fills_the_link_with_a_few_packets_queued() {
    // Prediction: the base RTT is about 42 ms (a frame's second packet waits for the first), so
    // 43.7 packets are in the pipe. With ns-2's rounding, 0.5 to 3.5 more packets wait; with Linux,
    // 2 to 5. A packet takes 0.96 ms. Once in that range, the window stays there.
    let (ns2, linux) = (curve("vegas", PATH), curve("vegas:params=linux", PATH));
    for (vegas, low, high) in [(&ns2, 52_800, 57_600), (&linux, 54_000, 59_400)] {
        let (min, max) = vegas.window_range(SETTLED).expect("points");
        assert!(share(vegas) > 0.95, "{}", figures(vegas));
        assert!(low <= min && max <= high && max - min <= 1_200, "{}", figures(vegas));
        let queued = vegas.mean_queued(SETTLED).as_secs_f64();
        assert!((0.001..0.006).contains(&queued), "{}", figures(vegas));
    }
    // Prediction for both: no loss. It is true only for ns-2. Linux doubles every round and takes
    // the smallest RTT of a round, so it sees the queue of its doubling one round late, as late as
    // Reno does.
    assert!(ns2.lost == 0 && linux.lost < 100, "{} / {}", figures(&ns2), figures(&linux));
}

#[test]
fn dual_oscillates_below_the_middle_of_its_delay_range() {
    // Prediction: slow start drives the RTT up to at most 82 ms, so the middle is below 20 ms of
    // queue. Cuts of one eighth keep the link busy and prevent the queue from overflowing again.
    let (reno, dual) = (curve("reno", PATH), curve("dual", PATH));
    let late = dual.after(SETTLED).map(|p| p.queued).max().unwrap_or_default();
    assert!(late < Duration::from_millis(26), "{}", figures(&dual));
    assert!(share(&dual) > 0.93, "{}", figures(&dual));
    assert!(
        dual.mean_queued(SETTLED) < reno.mean_queued(SETTLED),
        "{} / {}",
        figures(&dual),
        figures(&reno)
    );
}

#[test]
fn ledbat_fills_to_its_target_and_ledbat_pp_drains_at_times() {
    // Slow start ends with about twice the target in the queue, because its last doubling shows only
    // a round trip later. Then LEDBAT shrinks by less than a packet per round trip, and settles
    // where off_target is zero, at 100 ms of the 250 ms that fit.
    let start = Start { now: Time::ZERO, datagram: MSS as u16, provided: ALL_SIGNALS };
    let mut ledbat = catalogue::parse("ledbat").expect("known").start(&start).expect("all offered");
    let ledbat = DEEP.run(&mut *ledbat, Duration::from_secs(180));
    let queued = |at: u64| ledbat.mean_queued(Time::from_millis(at * 1_000)).as_millis();
    assert!(queued(1) > queued(60) && (98..=102).contains(&queued(150)), "{}", figures(&ledbat));
    assert_eq!(ledbat.lost, 0);
    // Prediction: LEDBAT++ stays below its 60 ms, but for a tenth of the time its window is small.
    let (plus, still) = (curve("ledbat-pp", DEEP), curve("ledbat-pp:slowdowns=off", DEEP));
    let least = plus.after(SETTLED).map(|p| p.queued).min().unwrap_or_default();
    let most = plus.after(SETTLED).map(|p| p.queued).max().unwrap_or_default();
    assert!(least < Duration::from_millis(1), "{}", figures(&plus));
    assert!(most < Duration::from_millis(65) && plus.lost == 0, "{}", figures(&plus));
    assert!((0.85..0.97).contains(&share(&plus)), "{}", figures(&plus));
    let queued = still.mean_queued(SETTLED).as_millis();
    assert!(share(&still) > 0.97 && (50..=62).contains(&queued), "{}", figures(&still));
}

#[test]
fn copa_keeps_few_packets_in_the_queue_and_empties_it() {
    // Prediction (Copa §2.1): 1 / delta is two packets, and the queue swings between none and about
    // five.
    let copa = curve("copa:compete=never", PATH);
    let queued = |of: Option<Duration>| of.unwrap_or_default().as_secs_f64() * 1e3;
    let (least, most) = (
        queued(copa.after(SETTLED).map(|p| p.queued).min()),
        queued(copa.after(SETTLED).map(|p| p.queued).max()),
    );
    // A packet takes 0.96 ms.
    assert!(least < 0.1 && most < 8.0, "{least} to {most} ms, {}", figures(&copa));
    assert!(share(&copa) > 0.95 && copa.lost == 0, "{}", figures(&copa));
    let shorter = curve("copa:compete=never,delta=0.1", PATH);
    assert!(shorter.mean_queued(SETTLED) > 3 * copa.mean_queued(SETTLED), "{}", figures(&shorter));
}

#[test]
fn ascii_drawings_of_curves_have_the_requested_size() {
    let curve = PATH.run(&mut Null { window: 75_000 }, Duration::from_secs(1));
    let drawing = curve.to_ascii(60, 8);
    assert_eq!(drawing.lines().count(), 9);
    assert!(drawing.lines().all(|line| line.len() <= 11 + 60 + 8));
    assert_eq!(curve.to_csv().lines().count(), curve.points.len() + 1);
}

#[test]
fn sdc_keeps_eight_packets_in_flight_on_a_path_of_two() {
    // 500 kbps over 40 ms carry 2.5 kB, or two packets. The queue holds three more, so eight
    // packets fit only if they are delayed.
    let narrow = Bottleneck { rate: Rate::from_bits_per_sec(500_000), queue: 3 * MSS, ..PATH };
    let sdc = curve("sdc", narrow);
    let reno = curve("reno", narrow);
    let used = |c: &Curve| {
        c.delivered as f64 / (narrow.rate.bytes_per_sec() as f64 * LENGTH.as_secs_f64())
    };
    let (low, _) = sdc.window_range(SETTLED).expect("points");
    assert!(low >= 4 * MSS, "{}", figures(&sdc));
    assert!(used(&sdc) > 0.7, "{} {}", used(&sdc), figures(&sdc));
    assert!(used(&reno) > 0.7, "{} {}", used(&reno), figures(&reno));
}

#[test]
fn packet_size_keeps_eight_packets_in_a_small_window() {
    let narrow = Bottleneck { rate: Rate::from_bits_per_sec(500_000), queue: 3 * MSS, ..PATH };
    let mut controller = catalogue::parse("packet-size")
        .expect("known")
        .start(&Start { now: Time::ZERO, datagram: MSS as u16, provided: ALL_SIGNALS })
        .expect("all offered");
    narrow.run(&mut *controller, LENGTH);
    let params = controller.send_params();
    let size = params.datagram.expect("steered");
    assert!(size < 1_200, "{params:?}");
    assert!(params.window >= 8 * u64::from(size) || size == 250, "{params:?}");
}

#[test]
fn search_ends_slow_start_between_a_full_path_and_losses() {
    // Prediction: the path is full at 42 packets. SEARCH notices two round trips later, at about four
    // times that, and a queue of 250 ms holds 260 packets.
    let (plain, search) = (curve("reno", DEEP), curve("reno:search=on", DEEP));
    let peak = |c: &Curve| {
        let early = c.points.iter().take_while(|p| p.at < Time::from_millis(1_500));
        early.map(|p| p.window).max().unwrap_or_default()
    };
    assert!(peak(&search) > 50_000 && peak(&search) < peak(&plain), "{}", figures(&search));
    assert!(search.lost * 3 < plain.lost, "{} / {}", figures(&search), figures(&plain));
    assert!(share(&search) > 0.97, "{}", figures(&search));
}
