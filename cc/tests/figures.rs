//! How each controller reacts to the same scripted queue: computed, held against the papers' rules, and drawn.
//!
//! The drawings are `docs/figures/reaction-<name>.svg`. `FATHOM_DRAW=1 cargo test -p fathom-cc --test figures` draws them anew; without
//! it the test compares.

use fathom_cc::catalogue::recipe;
use fathom_cc::highspeed::a;
use fathom_cc::vegas::delta;
use fathom_cc::{Acked, Acks, Advice, Cause, Controller, OneWayDelay, Pace, Rtt, Setback, Signals, Start, Time};
use plotters::prelude::*;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// One figure.
struct Figure {
    name: &'static str,
    /// Packets in the window when the mark at the beginning ends slow start.
    packets: u64,
    /// When further marks come, in seconds.
    marks: &'static [f64],
    /// What is drawn beside the window.
    extra: Extra,
    /// What the controller's paper says should be seen.
    check: fn(&Run),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    /// Early cuts.
    Cuts,
    /// Marks, and the added delay in a panel of its own.
    Hold,
    /// Marks, and the datagram size in a panel of its own.
    Size,
    /// Where the window grows by one packet per round trip, as Reno's.
    Slow,
    /// Nothing.
    None,
}

const PLAIN: Figure =
    Figure { name: "reno", packets: 10, marks: &[], extra: Extra::Cuts, check: reno_grows_whatever_the_queue_does };

/// One line per figure.
const FIGURES: &[Figure] = &[
    PLAIN,
    Figure { name: "cubic", packets: 200, extra: Extra::None, check: cubic_follows_its_curve, ..PLAIN },
    Figure { name: "sync", check: sync_cuts_while_the_delay_rises, ..PLAIN },
    Figure { name: "dca", check: dca_cuts_once_per_rise, ..PLAIN },
    Figure { name: "vegas", check: vegas_steps_down_until_it_holds, ..PLAIN },
    Figure { name: "dual", check: dual_takes_an_eighth_every_second_round_above_the_middle, ..PLAIN },
    Figure { name: "sdc", marks: SDC_MARKS, extra: Extra::Hold, check: sdc_delays_and_then_grows, ..PLAIN },
    Figure { name: "highspeed", packets: 500, extra: Extra::None, check: highspeed_grows_by_a_of_w, ..PLAIN },
    Figure { name: "gentle", packets: 500, extra: Extra::Slow, check: gentle_is_reno_while_the_rtt_rises, ..PLAIN },
    Figure { name: "packet-size", marks: SIZE_MARKS, extra: Extra::Size, check: packets_fit_the_window, ..PLAIN },
];

/// Three in the small-window phase, the last of them just before the window reaches eight packets; five in the large-window phase, and one
/// long after all delay is gone.
const SDC_MARKS: &[f64] = &[0.12, 0.22, 0.36, 0.44, 0.6, 0.9, 1.4, 2.2, 10.5];

const MSS: u64 = 1_200;
const BASE: Duration = Duration::from_millis(50);
/// Length of a run in seconds.
const LENGTH: f64 = 12.0;
/// The window is drawn this often, in seconds.
const SAMPLING: f64 = 0.02;
/// Queueing delay in ms at these seconds, straight lines between them: calm, a ramp, a plateau, a ramp back, calm, a spike, calm.
const SCRIPT: &[(f64, f64)] = &[
    (0.0, 0.0),
    (2.0, 0.0),
    (3.5, 40.0),
    (7.0, 40.0),
    (8.5, 0.0),
    (10.0, 0.0),
    (10.15, 30.0),
    (10.3, 0.0),
    (LENGTH, 0.0),
];
/// When the first ramp begins and ends, the plateau ends, the queue is empty again, the spike begins and ends, in seconds.
const RAMP: (f64, f64) = (2.0, 3.5);
const PLATEAU_END: f64 = 7.0;
const EMPTY: f64 = 8.5;
const SPIKE: (f64, f64) = (10.0, 10.3);

/// Queueing delay in ms of a packet sent at `seconds`.
fn queued(seconds: f64) -> f64 {
    let after = SCRIPT.partition_point(|(at, _)| *at <= seconds).clamp(1, SCRIPT.len() - 1);
    let ((t0, q0), (t1, q1)) = (SCRIPT[after - 1], SCRIPT[after]);
    q0 + (q1 - q0) * ((seconds - t0) / (t1 - t0)).clamp(0.0, 1.0)
}

fn delay(sent: Time) -> Duration {
    Duration::from_nanos((queued(sent.as_secs_f64()) * 1e6).round() as u64)
}

/// The window after one ACK frame.
struct Point {
    at: f64,
    window: u64,
    /// Queueing delay in ms of the packet that the frame acknowledged.
    queued: f64,
    /// The controller cut early in this frame.
    cut: bool,
    /// Delay the sender adds, in ms.
    hold: f64,
    /// Datagram size in bytes.
    size: u64,
}

/// A few losses' worth in succession: each halves the window.
const SIZE_MARKS: &[f64] = &[4.0, 4.2, 4.4, 4.6, 4.8];

/// When a packet left, and its bytes.
type Packet = (Time, u64);

struct Run {
    points: Vec<Point>,
    /// When the marks came, and the window in bytes after each.
    marks: Vec<(f64, u64)>,
}

impl Run {
    /// Sends on the clock of its ACKs and paced, two packets per frame. The queue follows the script, not the sender, and loses nothing; a mark
    /// at the beginning ends slow start.
    fn new(figure: &Figure) -> Self {
        let mut controller = started(figure);
        let (mut points, mut marks) = (Vec::new(), Vec::new());
        let mut due = figure.marks;
        // The first window is spread over a round trip.
        let first = controller.advice().window / MSS;
        let gap = BASE / u32::try_from(first).expect("a small window");
        let mut flight: VecDeque<Packet> = (1..).map(|n| (Time::ZERO + gap * n, MSS)).take(first as usize).collect();
        let bytes = |flight: &VecDeque<Packet>| flight.iter().map(|(_, bytes)| bytes).sum::<u64>();
        while let (Some(older), Some(newest)) = (flight.pop_front(), flight.pop_front()) {
            let now = newest.0 + BASE + delay(newest.0);
            if now.as_secs_f64() > LENGTH {
                break;
            }
            let before = controller.snapshot().early_reductions;
            acknowledge(&mut *controller, now, [older, newest], bytes(&flight));
            let newest = newest.0;
            let cut = controller.snapshot().early_reductions > before;
            let at = now.as_secs_f64();
            if due.first().is_some_and(|mark| *mark <= at) {
                due = &due[1..];
                controller.on_setback(&Setback { now, sent: newest, cause: Cause::Mark });
                marks.push((at, controller.advice().window));
            }
            let Advice { window, pace, datagram, .. } = controller.advice();
            let size = datagram.map_or(MSS, u64::from);
            let hold = if let Pace::Hold(hold) = pace { hold } else { Duration::ZERO };
            points.push(Point {
                at,
                window,
                queued: queued(newest.as_secs_f64()),
                cut,
                hold: hold.as_secs_f64() * 1e3,
                size,
            });
            // Paced over four fifths of a round trip: bunches would be one delay told many times over. An added delay is part of it.
            let whole = if hold.is_zero() { now.since(newest) * 4 / 5 } else { now.since(newest) + hold };
            let gap = whole / u32::try_from(window / size).expect("a plausible window");
            let mut last = flight.back().map_or(now, |(sent, _)| *sent);
            while bytes(&flight) + size <= window {
                last = now.max(last + gap);
                flight.push_back((last, size));
            }
        }
        Self { points, marks }
    }

    fn cuts(&self) -> Vec<&Point> {
        self.points.iter().filter(|p| p.cut).collect()
    }

    fn between(&self, from: f64, to: f64) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |p| (from..to).contains(&p.at))
    }

    fn cuts_between(&self, from: f64, to: f64) -> usize {
        self.between(from, to).filter(|p| p.cut).count()
    }

    /// Window in bytes just before `at` seconds.
    fn window_at(&self, at: f64) -> u64 {
        self.point_at(at).window
    }

    /// How things stood just before `at` seconds.
    fn point_at(&self, at: f64) -> &Point {
        let after = self.points.partition_point(|p| p.at < at);
        &self.points[after.saturating_sub(1)]
    }
}

/// In avoidance, after a mark that came at the figure's window.
fn started(figure: &Figure) -> Box<dyn Controller> {
    let offers = Signals { one_way: true, ecn: true, pacing: true, datagram: true };
    let start = Start { now: Time::ZERO, datagram: MSS as u16, offers };
    let mut controller = recipe(figure.name).expect(figure.name).start(&start).expect(figure.name);
    let more = figure.packets * MSS - controller.advice().window;
    if more > 0 {
        controller.on_acks(&Acks {
            now: Time::ZERO,
            packets: &[Acked { sent: Time::ZERO, bytes: more }],
            in_flight: 0,
            rtt: Rtt { latest: BASE, smoothed: BASE, min: BASE },
            one_way: None,
            ecn: None,
            app_limited: false,
        });
    }
    controller.on_setback(&Setback { now: Time::ZERO, sent: Time::ZERO, cause: Cause::Mark });
    controller
}

fn acknowledge(controller: &mut dyn Controller, now: Time, packets: [Packet; 2], in_flight: u64) {
    let rtt = now.since(packets[1].0);
    controller.on_acks(&Acks {
        now,
        packets: &packets.map(|(sent, bytes)| Acked { sent, bytes }),
        in_flight,
        rtt: Rtt { latest: rtt, smoothed: rtt, min: BASE },
        one_way: Some(OneWayDelay::from_nanos(i64::try_from(rtt.as_nanos()).expect("a short delay"))),
        ecn: None,
        app_limited: false,
    });
}

fn reno_grows_whatever_the_queue_does(run: &Run) {
    assert!(run.cuts().is_empty());
    assert!(run.points.is_sorted_by_key(|p| p.window));
    // One packet per round trip: 38 from 0.1 s to 2 s at 50 ms, 38.9 in the 3.5 s of the plateau at 90 ms. What is left of a window that
    // is not whole, the wait for the second packet of a frame and the pacing cost about 1.4 n-ths of a round trip at n packets: 3 of
    // the 38, 0.6 of the 38.9.
    let grown = |from: f64, to: f64| (run.window_at(to) - run.window_at(from)) / MSS;
    assert!((33..=37).contains(&grown(0.1, RAMP.0)), "{}", grown(0.1, RAMP.0));
    assert!((37..=40).contains(&grown(RAMP.1, PLATEAU_END)), "{}", grown(RAMP.1, PLATEAU_END));
}

/// W_cubic(t) in packets after a mark at 200 packets (RFC 9438 §4.2): K = cbrt(60 / 0.4).
fn w_cubic(t: f64) -> f64 {
    0.4 * (t - 150_f64.cbrt()).powi(3) + 200.0
}

fn cubic_follows_its_curve(run: &Run) {
    assert!(run.cuts().is_empty());
    // The epoch begins with the first ACK, at 50 ms or a little later; the window follows W_cubic one round trip ahead, a little late.
    // Reno's share, 0.53 packets per round trip from 140 on, is below it all the time.
    for at in [1.0, 2.0, 3.0, 5.0, 6.0, 8.0, 10.0, 11.9] {
        let (packets, curve) = (run.window_at(at) as f64 / MSS as f64, w_cubic(at - 0.05));
        assert!((packets - curve).abs() < 4.0, "{packets} against {curve} packets at {at} s");
    }
}

fn sdc_delays_and_then_grows(run: &Run) {
    assert!(run.cuts().is_empty());
    assert_eq!(run.marks.len(), SDC_MARKS.len());
    let first = |test: &dyn Fn(&Point) -> bool| run.points.iter().find(|p| test(p)).map_or(LENGTH, |p| p.at);
    // SDC §2.1: below eight packets the window never falls, and the delay goes up by marks and down in between.
    let large = first(&|p| p.window >= 8 * MSS);
    assert!(SDC_MARKS[2] < large && large < SDC_MARKS[3], "eight packets at {large} s");
    let small: Vec<&Point> = run.between(0.0, large).collect();
    assert!(small.is_sorted_by_key(|p| p.window) && small[0].window < 6 * MSS);
    // At eight packets some delay is left: the window stands until it is gone, marks or not.
    let free = run.between(large, LENGTH).find(|p| p.hold == 0.0).map_or(LENGTH, |p| p.at);
    let standing: Vec<&Point> = run.between(large, free).collect();
    assert!(standing.iter().all(|p| p.window == standing[0].window), "the window stands");
    let most = standing.iter().map(|p| p.hold).fold(0.0, f64::max);
    assert!(most > 300.0 && free > SDC_MARKS[7] + 2.0, "{most} ms, gone at {free} s");
    // A mark sets RTT + D to twice the smoothed one, which is on its way from the last rise.
    for (at, _) in &run.marks[3..8] {
        let after = run.points.partition_point(|p| p.at < *at);
        let total = |p: &Point| BASE.as_secs_f64() * 1e3 + p.queued + p.hold;
        let share = total(&run.points[after]) / total(&run.points[after - 1]);
        assert!((1.6..2.3).contains(&share), "{share} times the round trip at {at} s");
    }
    // Between marks it only shrinks, here where the queue stands.
    let plateau: Vec<f64> = run.between(RAMP.1 + 0.2, PLATEAU_END).map(|p| p.hold).collect();
    assert!(plateau.is_sorted_by(|a, b| a >= b));
    // Then one packet per round trip, and a mark halves the window, without delay.
    let (at, after) = run.marks[SDC_MARKS.len() - 1];
    let before = run.window_at(at);
    assert!(free < at - 1.0 && before > 12 * MSS, "gone at {free} s, {before} bytes before the last mark");
    assert!(after >= before / 2 && after <= before / 2 + MSS, "{before} to {after}");
    assert!(run.between(at, LENGTH).all(|p| p.hold == 0.0) == (after >= 8 * MSS));
}

/// Packets by which the window grew in the round trip before `at`.
fn growth(run: &Run, at: f64) -> f64 {
    let rtt = BASE.as_secs_f64() + queued(at) / 1e3;
    (run.window_at(at) as f64 - run.window_at(at - rtt) as f64) / MSS as f64
}

/// The moments at which the window is drawn.
fn samplings() -> impl Iterator<Item = f64> {
    (0..=(LENGTH / SAMPLING) as u32).map(|n| f64::from(n) * SAMPLING)
}

fn highspeed_grows_by_a_of_w(run: &Run) {
    assert!(run.cuts().is_empty());
    // RFC 3649 §5, whatever the RTT does; in the spike it changes too fast to count per round trip. 500 packets lose b(500), 0.366, and a(317) is 3.76.
    for at in samplings().filter(|at| (0.3..SPIKE.0).contains(at)) {
        let (grown, many) = (growth(run, at), a(run.window_at(at) as f64 / MSS as f64));
        assert!((0.8..1.2).contains(&(grown / many)), "{grown} packets at {at} s, not {many}");
    }
    let start = run.window_at(0.1) / MSS;
    assert!((315..325).contains(&start), "{start}");
}

fn packets_fit_the_window(run: &Run) {
    // The rule of the module: eight datagrams in the window or the smallest size, at once downwards; upwards by one size after four
    // round trips.
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
            assert!(run.marks.iter().any(|(mark, _)| *mark == at), "smaller only by a mark: {at} s");
        }
        last = at;
    }
    let sizes = |from: f64, to: f64| run.between(from, to).map(|p| p.size).min();
    assert_eq!((sizes(3.0, 4.0), sizes(4.8, 6.0), sizes(10.0, LENGTH)), (Some(1_200), Some(250), Some(1_200)));
}

fn gentle_is_reno_while_the_rtt_rises(run: &Run) {
    assert!(run.cuts().is_empty() && run.points.is_sorted_by_key(|p| p.window));
    // gHSTCP §3.2. A rise is told a round trip later, the mode changes at the end of that one, and the growth is seen over one more.
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
            assert!((0.8..1.2).contains(&(grown / many(at))), "{grown} packets at {at} s, not {}", many(at));
        }
    }
}

fn sync_cuts_while_the_delay_rises(run: &Run) {
    // Algorithm 2: only an increasing average cuts. A quarter of the largest delay is reached at once in the first ramp, where each
    // delay is the largest so far.
    assert_eq!(run.cuts_between(0.0, RAMP.0), 0);
    assert!(run.cuts_between(RAMP.0, RAMP.0 + 0.3) > 0);
    assert!(run.cuts_between(SPIKE.0, SPIKE.1 + 0.1) > 0, "the spike takes the average above a quarter of 40 ms");
    // The average of a small window lags; once it falls, and while it stays down, nothing cuts.
    assert_eq!(run.cuts_between(PLATEAU_END + 0.5, SPIKE.0), 0);
    assert_eq!(run.cuts_between(SPIKE.1 + 0.2, LENGTH), 0);
    assert!(run.window_at(EMPTY) > run.window_at(PLATEAU_END), "a falling average grows the window");
}

fn dca_cuts_once_per_rise(run: &Run) {
    // DCA §3.3: the delay event is true at the foot of the ramp and all the way up, and the epoch lasts until the plateau has become
    // the average. The same with the spike. Nothing falls twice, and nothing cuts while the delay falls or stays.
    let cuts = run.cuts();
    let [ramp, spike] = cuts[..] else { panic!("{} cuts", cuts.len()) };
    assert!((RAMP.0..RAMP.0 + 0.15).contains(&ramp.at), "{}", ramp.at);
    assert!((SPIKE.0..SPIKE.0 + 0.15).contains(&spike.at), "{}", spike.at);
    for cut in cuts {
        let before = run.window_at(cut.at);
        assert!(cut.window >= before / 2 && cut.window <= before / 2 + MSS, "half of {before}, not {}", cut.window);
    }
    // Reno otherwise.
    let grown = (run.window_at(PLATEAU_END) - run.window_at(RAMP.1)) / MSS;
    assert!((37..=40).contains(&grown), "{grown}");
}

fn vegas_steps_down_until_it_holds(run: &Run) {
    assert_eq!(run.cuts_between(0.0, RAMP.0), 0);
    // One packet at a time.
    for pair in run.points.windows(2).filter(|pair| pair[1].cut) {
        assert!(pair[0].window.saturating_sub(pair[1].window) <= MSS);
    }
    // The last second of the plateau: it holds, with alpha to beta packets waiting.
    let mut held: Vec<u64> = run.between(PLATEAU_END - 1.0, PLATEAU_END).map(|p| p.window).collect();
    held.dedup();
    assert_eq!(held.len(), 1, "{held:?}");
    assert!((1..=3).contains(&delta(held[0], MSS, BASE, BASE + Duration::from_millis(40))), "{held:?}");
    // One packet more per round trip where nothing waits.
    assert!(run.window_at(SPIKE.0) > run.window_at(EMPTY) + 25 * MSS);
}

fn dual_takes_an_eighth_every_second_round_above_the_middle(run: &Run) {
    let (mut largest, mut last) = (0.0_f64, f64::MIN);
    for (at, point) in run.points.iter().enumerate() {
        largest = largest.max(point.queued);
        if !point.cut {
            continue;
        }
        let before = run.points[at - 1].window;
        assert!(point.queued > largest / 2.0, "{} ms of at most {largest} at {} s", point.queued, point.at);
        assert!(point.at - last > 2.0 * BASE.as_secs_f64(), "two round trips between cuts: {last} and {}", point.at);
        assert!((before * 7 / 8..=(before + 2 * MSS) * 7 / 8).contains(&point.window), "{before} to {}", point.window);
        last = point.at;
    }
    // In the ramp and at the plateau the delay is the largest so far, so every decision cuts: one in 180 ms of the plateau.
    let plateau = run.cuts_between(RAMP.1 + 0.1, PLATEAU_END);
    assert!((17..=19).contains(&plateau), "{plateau}");
    // An eighth of the window against two packets of growth: about sixteen packets are the balance.
    let balance = run.window_at(PLATEAU_END) / MSS;
    assert!((12..=17).contains(&balance), "{balance}");
    // The delay is below the middle, 20 ms, from 7.75 s on.
    assert_eq!(run.cuts_between(7.75 + 0.1, SPIKE.0), 0);
}

const WIDTH: u32 = 900;
/// Heights of the panels.
const QUEUE_HEIGHT: u32 = 170;
const MIDDLE_HEIGHT: u32 = 150;
const WINDOW_HEIGHT: u32 = 290;
const QUEUE: RGBColor = RGBColor(90, 90, 90);
const WINDOW: RGBColor = RGBColor(0, 114, 178);
const MIDDLE: RGBColor = RGBColor(0, 158, 115);
const CUT: RGBColor = RGBColor(213, 94, 0);
const SLOW: RGBColor = RGBColor(250, 225, 195);
const GRID: RGBColor = RGBColor(225, 225, 225);

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// The figure as SVG.
fn svg(figure: &Figure, run: &Run) -> String {
    let middle = if matches!(figure.extra, Extra::Hold | Extra::Size) { MIDDLE_HEIGHT } else { 0 };
    let mut text = String::new();
    {
        let size = (WIDTH, QUEUE_HEIGHT + middle + WINDOW_HEIGHT);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(figure, run, &area).expect("drawing into a string");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn draw(figure: &Figure, run: &Run, area: &Panel<'_>) -> Drawn {
    area.fill(&WHITE)?;
    let (upper, rest) = area.split_vertically(QUEUE_HEIGHT);
    draw_upper(&upper, "queueing delay in ms", 50.0, SCRIPT.iter().copied(), QUEUE)?;
    let middle: Option<(&str, fn(&Point) -> f64)> = match figure.extra {
        Extra::Hold => Some(("added delay in ms", |p| p.hold)),
        Extra::Size => Some(("datagram in bytes", |p| p.size as f64)),
        Extra::Cuts | Extra::Slow | Extra::None => None,
    };
    let lower = match middle {
        None => rest,
        Some((title, value)) => {
            let (middle, lower) = rest.split_vertically(MIDDLE_HEIGHT);
            let top = run.points.iter().map(value).fold(0.0, f64::max) * 1.15;
            let line = samplings().map(|at| (at, value(run.point_at(at))));
            draw_upper(&middle, title, top, line, MIDDLE)?;
            lower
        }
    };
    draw_window(figure, run, &lower)?;
    area.present()?;
    Ok(())
}

/// A panel above that of the window: one line, no labels of the time.
fn draw_upper(
    area: &Panel<'_>,
    title: &str,
    top: f64,
    line: impl Iterator<Item = (f64, f64)>,
    colour: RGBColor,
) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(8)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..LENGTH, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .x_labels(13)
        .y_labels(6)
        .x_label_formatter(&|_| String::new())
        .y_label_formatter(&|v| format!("{v:.0}"))
        .y_desc(title)
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
    Ok(())
}

fn draw_window(figure: &Figure, run: &Run, area: &Panel<'_>) -> Drawn {
    let packets = |bytes: u64| bytes as f64 / MSS as f64;
    let top = run.points.iter().map(|p| packets(p.window)).fold(0.0, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..LENGTH, 0.0..top)?;
    if figure.extra == Extra::Slow {
        let slow = slow_times(run);
        let bands = slow.iter().map(|(from, to)| Rectangle::new([(*from, 0.0), (*to, top)], SLOW.filled()));
        chart
            .draw_series(bands)?
            .label("one packet per round trip")
            .legend(|(x, y)| Rectangle::new([(x, y - 6), (x + 20, y + 6)], SLOW.filled()));
    }
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_labels(13)
        .y_labels(6)
        .x_label_formatter(&|v| format!("{v:.0}"))
        .y_label_formatter(&|v| format!("{v:.0}"))
        .x_desc("seconds")
        .y_desc("window in packets")
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    let line = samplings().map(|at| (at, packets(run.window_at(at))));
    chart
        .draw_series(LineSeries::new(line, WINDOW.stroke_width(2)))?
        .label(figure.name)
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], WINDOW.stroke_width(2)));
    let (text, marked): (&str, Vec<(f64, u64)>) = match figure.extra {
        Extra::Cuts => ("early cuts", run.cuts().iter().map(|p| (p.at, p.window)).collect()),
        Extra::Hold | Extra::Size => ("marks", run.marks.clone()),
        Extra::Slow | Extra::None => ("", Vec::new()),
    };
    if !text.is_empty() {
        chart
            .draw_series(
                marked.iter().map(|(at, window)| TriangleMarker::new((*at, packets(*window)), 5, CUT.filled())),
            )?
            .label(format!("{text}: {}", marked.len()))
            .legend(|(x, y)| TriangleMarker::new((x + 10, y), 5, CUT.filled()));
    }
    chart
        .configure_series_labels()
        .position(if figure.extra == Extra::Slow {
            SeriesLabelPosition::LowerMiddle
        } else {
            SeriesLabelPosition::UpperLeft
        })
        .background_style(WHITE)
        .border_style(GRID)
        .label_font(("sans-serif", 14))
        .margin(6)
        .draw()?;
    Ok(())
}

/// From when to when the window grows by one packet per round trip, a half more at most.
fn slow_times(run: &Run) -> Vec<(f64, f64)> {
    let mut times: Vec<(f64, f64)> = Vec::new();
    for at in samplings().filter(|at| *at > 2.0 * BASE.as_secs_f64() && growth(run, *at) < 1.5) {
        match times.last_mut() {
            Some((_, to)) if at - *to < 1.5 * SAMPLING => *to = at,
            _ => times.push((at, at)),
        }
    }
    times
}

#[test]
fn every_reaction_is_as_its_paper_says() {
    for figure in FIGURES {
        println!("controller {}", figure.name);
        (figure.check)(&Run::new(figure));
    }
}

#[test]
fn the_committed_figures_are_those_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures");
    let mut stale = Vec::new();
    for figure in FIGURES {
        let (path, drawn) = (folder.join(format!("reaction-{}.svg", figure.name)), svg(figure, &Run::new(figure)));
        if std::env::var_os("FATHOM_DRAW").is_some() {
            std::fs::create_dir_all(&folder).expect("the folder of figures");
            std::fs::write(&path, &drawn).expect("a figure");
        }
        // A checkout may have turned line ends.
        let committed = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
        if committed != drawn {
            stale.push(path.display().to_string());
        }
    }
    let mend = "FATHOM_DRAW=1 cargo test -p fathom-cc --test figures";
    assert!(stale.is_empty(), "not as drawn: {}; look what changed, then draw anew: {mend}", stale.join(", "));
}

#[test]
fn the_script_is_what_the_drawing_says() {
    for (at, ms) in
        [(0.0, 0.0), (2.75, 20.0), (5.0, 40.0), (7.75, 20.0), (9.0, 0.0), (10.075, 15.0), (10.2, 20.0), (12.0, 0.0)]
    {
        assert!((queued(at) - ms).abs() < 1e-9, "{at} s: {} ms", queued(at));
    }
}
