//! How each controller reacts to the same scripted queue: computed, held against the papers' rules, and drawn.
//!
//! The drawings are `docs/figures/reaction-<name>.svg`. `FATHOM_DRAW=1 cargo test -p fathom-cc --test figures` draws them anew; without
//! it the test compares.

use fathom_cc::catalogue::recipe;
use fathom_cc::vegas::delta;
use fathom_cc::{Acked, Acks, Cause, Controller, OneWayDelay, Rtt, Setback, Signals, Start, Time};
use plotters::prelude::*;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// What a controller's paper says should be seen in a run.
type Check = fn(&Run);

/// One line per figure.
const FIGURES: &[(&str, Check)] = &[
    ("reno", reno_grows_whatever_the_queue_does),
    ("sync", sync_cuts_while_the_delay_rises),
    ("dca", dca_cuts_once_per_rise),
    ("vegas", vegas_steps_down_until_it_holds),
    ("dual", dual_takes_an_eighth_every_second_round_above_the_middle),
];

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
}

struct Run {
    points: Vec<Point>,
}

impl Run {
    /// Sends on the clock of its ACKs and paced, two packets per frame. The queue follows the script, not the sender, and loses nothing; a mark
    /// at the beginning ends slow start.
    fn new(spec: &str) -> Self {
        let offers = Signals { one_way: true, ecn: true, pacing: true, datagram: true };
        let start = Start { now: Time::ZERO, datagram: MSS as u16, offers };
        let mut controller = recipe(spec).expect(spec).start(&start).expect(spec);
        controller.on_setback(&Setback { now: Time::ZERO, sent: Time::ZERO, cause: Cause::Mark });
        let mut points = Vec::new();
        // The first window is spread over a round trip.
        let first = controller.advice().window / MSS;
        let gap = BASE / u32::try_from(first).expect("a small window");
        let mut flight: VecDeque<Time> = (1..).map(|n| Time::ZERO + gap * n).take(first as usize).collect();
        while let (Some(older), Some(newest)) = (flight.pop_front(), flight.pop_front()) {
            let now = newest + BASE + delay(newest);
            if now.as_secs_f64() > LENGTH {
                break;
            }
            let before = controller.snapshot().early_reductions;
            acknowledge(&mut *controller, now, [older, newest], flight.len());
            let cut = controller.snapshot().early_reductions > before;
            let window = controller.advice().window;
            points.push(Point { at: now.as_secs_f64(), window, queued: queued(newest.as_secs_f64()), cut });
            // Paced over four fifths of a round trip: bunches would be one delay told many times over.
            let gap = now.since(newest) * 4 / 5 / u32::try_from(window / MSS).expect("a plausible window");
            let mut last = flight.back().copied().unwrap_or(now);
            while (flight.len() as u64 + 1) * MSS <= window {
                last = now.max(last + gap);
                flight.push_back(last);
            }
        }
        Self { points }
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
        let after = self.points.partition_point(|p| p.at < at);
        self.points[after.saturating_sub(1)].window
    }
}

fn acknowledge(controller: &mut dyn Controller, now: Time, packets: [Time; 2], in_flight: usize) {
    let rtt = now.since(packets[1]);
    controller.on_acks(&Acks {
        now,
        packets: &packets.map(|sent| Acked { sent, bytes: MSS }),
        in_flight: in_flight as u64 * MSS,
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

const SIZE: (u32, u32) = (900, 460);
const QUEUE: RGBColor = RGBColor(90, 90, 90);
const WINDOW: RGBColor = RGBColor(0, 114, 178);
const CUT: RGBColor = RGBColor(213, 94, 0);
const GRID: RGBColor = RGBColor(225, 225, 225);

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// The figure as SVG.
fn svg(name: &str, run: &Run) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(name, run, &area).expect("drawing into a string");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn draw(name: &str, run: &Run, area: &Panel<'_>) -> Drawn {
    area.fill(&WHITE)?;
    let (upper, lower) = area.split_vertically(170);
    draw_queue(&upper)?;
    draw_window(name, run, &lower)?;
    area.present()?;
    Ok(())
}

fn draw_queue(area: &Panel<'_>) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(8)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..LENGTH, 0.0..50.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .x_labels(13)
        .y_labels(6)
        .x_label_formatter(&|_| String::new())
        .y_label_formatter(&|v| format!("{v:.0}"))
        .y_desc("queueing delay in ms")
        .label_style(("sans-serif", 14))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    chart.draw_series(LineSeries::new(SCRIPT.iter().copied(), QUEUE.stroke_width(2)))?;
    Ok(())
}

fn draw_window(name: &str, run: &Run, area: &Panel<'_>) -> Drawn {
    let packets = |bytes: u64| bytes as f64 / MSS as f64;
    let top = run.points.iter().map(|p| packets(p.window)).fold(0.0, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..LENGTH, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
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
    let times = (0..=(LENGTH / SAMPLING) as u32).map(|n| f64::from(n) * SAMPLING);
    let line = times.map(|at| (at, packets(run.window_at(at))));
    chart
        .draw_series(LineSeries::new(line, WINDOW.stroke_width(2)))?
        .label(name)
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], WINDOW.stroke_width(2)));
    let cuts = run.cuts();
    let marks = cuts.iter().map(|p| TriangleMarker::new((p.at, packets(p.window)), 5, CUT.filled()));
    chart
        .draw_series(marks)?
        .label(format!("early cuts: {}", cuts.len()))
        .legend(|(x, y)| TriangleMarker::new((x + 10, y), 5, CUT.filled()));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(GRID)
        .label_font(("sans-serif", 14))
        .margin(6)
        .draw()?;
    Ok(())
}

#[test]
fn every_reaction_is_as_its_paper_says() {
    for (name, check) in FIGURES {
        println!("controller {name}");
        check(&Run::new(name));
    }
}

#[test]
fn the_committed_figures_are_those_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures");
    let mut stale = Vec::new();
    for (name, _) in FIGURES {
        let (path, drawn) = (folder.join(format!("reaction-{name}.svg")), svg(name, &Run::new(name)));
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
