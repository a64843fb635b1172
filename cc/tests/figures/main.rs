//! The reaction of each controller to the same scripted queue: computed, checked against the
//! papers' rules, and drawn.
//!
//! The drawings are `docs/figures/reaction-<name>.svg`.
//! `FATHOM_DRAW=1 cargo test -p fathom-cc --test cc-tests figures::` redraws them. Without
//! `FATHOM_DRAW`, the test compares.

mod checks;
mod draw;

use draw::svg;
use fathom_cc::catalogue::{self, CATALOGUE};
use fathom_cc::{
    AckEvent, Acked, Capabilities, Cause, CongestionEvent, Controller, OneWayDelay, Pacing, Rtt,
    SendParams, Start, Time,
};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// A figure of one controller.
#[derive(Clone, Copy)]
struct Figure {
    name: &'static str,
    /// Options of the controller, as users type them.
    options: &'static str,
    /// Number of packets in the window when the first mark ends slow start.
    packets: u64,
    /// Times of further marks, in seconds.
    marks: &'static [f64],
    /// Content of the figure beside the window.
    extra: Extra,
    /// Check of the statements of the controller's paper.
    check: fn(&Run),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    /// Early cuts of the window.
    Cuts,
    /// Marks, and the added delay in a panel of its own.
    Hold,
    /// Marks, and the datagram size in a panel of its own.
    Size,
    /// Times when the window grows by one packet per round trip, as Reno's.
    Slow,
    /// Nothing.
    None,
}

/// The figure of a controller without special settings.
const PLAIN: Figure = Figure {
    name: "",
    options: "",
    packets: 10,
    marks: &[],
    extra: Extra::Cuts,
    check: checks::the_window_lasts_to_the_end,
};

/// Figures with special settings: another window or marks that show a paper's rule better, and the
/// check of the paper's statements.
const FIGURES: &[Figure] = &[
    Figure { name: "reno", check: checks::reno_grows_whatever_the_queue_does, ..PLAIN },
    Figure {
        name: "cubic",
        packets: 200,
        extra: Extra::None,
        check: checks::cubic_follows_its_curve,
        ..PLAIN
    },
    Figure { name: "sync", check: checks::sync_cuts_while_the_delay_rises, ..PLAIN },
    Figure { name: "dca", check: checks::dca_cuts_once_per_rise, ..PLAIN },
    Figure { name: "vegas", check: checks::vegas_steps_down_until_it_holds, ..PLAIN },
    Figure { name: "dual", check: checks::dual_takes_an_eighth_above_the_middle, ..PLAIN },
    Figure {
        name: "sdc",
        marks: SDC_MARKS,
        extra: Extra::Hold,
        check: checks::sdc_delays_and_then_grows,
        ..PLAIN
    },
    Figure {
        name: "highspeed",
        packets: 500,
        extra: Extra::None,
        check: checks::highspeed_grows_by_a_of_w,
        ..PLAIN
    },
    Figure {
        name: "gentle",
        packets: 500,
        extra: Extra::Slow,
        check: checks::gentle_is_reno_while_the_rtt_rises,
        ..PLAIN
    },
    Figure { name: "dctcp", check: checks::reno_grows_whatever_the_queue_does, ..PLAIN },
    Figure { name: "prague", check: checks::reno_grows_whatever_the_queue_does, ..PLAIN },
    Figure { name: "plumb", check: checks::plumb_yields_and_then_competes, ..PLAIN },
    Figure { name: "scream", check: checks::scream_yields_to_the_queue, ..PLAIN },
    Figure { name: "gcc", check: checks::gcc_reacts_to_growth_of_the_delay, ..PLAIN },
    Figure { name: "copa", check: checks::copa_turns_and_competes, ..PLAIN },
    // The scripted queueing delay of 40 ms is twice this target.
    Figure {
        name: "ledbat",
        options: "target=20ms",
        packets: 60,
        check: checks::ledbat_moves_by_a_packet_per_round,
        ..PLAIN
    },
    Figure {
        name: "ledbat-pp",
        options: "target=20ms",
        packets: 60,
        check: checks::ledbat_pp_halves_and_slows_down,
        ..PLAIN
    },
    Figure {
        name: "packet-size",
        marks: SIZE_MARKS,
        extra: Extra::Size,
        check: checks::packets_fit_the_window,
        ..PLAIN
    },
];

/// Returns the figure of every controller of the catalogue.
fn figures() -> impl Iterator<Item = Figure> {
    CATALOGUE.iter().map(|entry| {
        let own = FIGURES.iter().find(|figure| figure.name == entry.name).copied();
        own.unwrap_or(Figure { name: entry.name, ..PLAIN })
    })
}

/// Times of the marks. Three marks are in the small-window phase, the last one just before the
/// window reaches eight packets. Five marks are in the large-window phase, and one comes long after
/// all delay is gone.
const SDC_MARKS: &[f64] = &[0.12, 0.22, 0.36, 0.44, 0.6, 0.9, 1.4, 2.2, 10.5];

const MSS: u64 = 1_200;
const BASE: Duration = Duration::from_millis(50);
/// Largest number of packets in flight; a sender with more window is application-limited. Only
/// Copa reaches it: while nothing waits, its window grows without limit.
const MOST_PACKETS: u64 = 2_000;
/// Length of a run in seconds.
const LENGTH: f64 = 12.0;
/// Interval between drawn samples of the window, in seconds.
const SAMPLING: f64 = 0.02;
/// Queueing delay in ms at these seconds, with straight lines between them: calm, a ramp, a
/// plateau, a ramp back, calm, a spike, calm.
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
/// Start and end of the first ramp, end of the plateau, time when the queue is empty again, and
/// start and end of the spike, in seconds.
const RAMP: (f64, f64) = (2.0, 3.5);
const PLATEAU_END: f64 = 7.0;
const EMPTY: f64 = 8.5;
const SPIKE: (f64, f64) = (10.0, 10.3);

/// Returns the queueing delay in ms of a packet sent at `seconds`.
fn queued(seconds: f64) -> f64 {
    let after = SCRIPT.partition_point(|(at, _)| *at <= seconds).clamp(1, SCRIPT.len() - 1);
    let ((t0, q0), (t1, q1)) = (SCRIPT[after - 1], SCRIPT[after]);
    q0 + (q1 - q0) * ((seconds - t0) / (t1 - t0)).clamp(0.0, 1.0)
}

fn delay(sent: Time) -> Duration {
    Duration::from_nanos((queued(sent.as_secs_f64()) * 1e6).round() as u64)
}

/// The state after one ACK frame.
struct Point {
    at: f64,
    window: u64,
    /// Queueing delay in ms of the newest packet that the frame acknowledged.
    queued: f64,
    /// Whether the controller cut early in this frame.
    cut: bool,
    /// Delay that the sender adds, in ms.
    hold: f64,
    /// Datagram size in bytes.
    size: u64,
}

/// Several marks in a row; each halves the window.
const SIZE_MARKS: &[f64] = &[4.0, 4.2, 4.4, 4.6, 4.8];

/// Send time and size in bytes of a packet.
type Packet = (Time, u64);

struct Run {
    points: Vec<Point>,
    /// Times of the marks, and the window in bytes after each.
    marks: Vec<(f64, u64)>,
}

impl Run {
    /// Runs the sender, which is clocked by its ACKs and paced, with two packets per frame. The
    /// queue follows the script instead of the sender, and no packet is lost. A mark at the
    /// beginning ends slow start.
    fn new(figure: &Figure) -> Self {
        let mut controller = started(figure);
        let (mut points, mut marks) = (Vec::new(), Vec::new());
        let mut due = figure.marks;
        // The first window is spread over a round trip.
        let first = controller.send_params().window / MSS;
        let gap = BASE / u32::try_from(first).expect("a small window");
        let mut flight: VecDeque<Packet> =
            (1..).map(|n| (Time::ZERO + gap * n, MSS)).take(first as usize).collect();
        let bytes = |flight: &VecDeque<Packet>| flight.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let mut limited = false;
        while let (Some(older), Some(newest)) = (flight.pop_front(), flight.pop_front()) {
            let now = newest.0 + BASE + delay(newest.0);
            if now.as_secs_f64() > LENGTH {
                break;
            }
            let before = controller.metrics().early_reductions;
            acknowledge(&mut *controller, now, [older, newest], bytes(&flight), limited);
            let newest = newest.0;
            let cut = controller.metrics().early_reductions > before;
            let at = now.as_secs_f64();
            if due.first().is_some_and(|mark| *mark <= at) {
                due = &due[1..];
                controller.on_congestion_event(&CongestionEvent {
                    now,
                    sent: newest,
                    cause: Cause::Mark,
                });
                marks.push((at, controller.send_params().window));
            }
            let SendParams { window, pacing, datagram, .. } = controller.send_params();
            let size = datagram.map_or(MSS, u64::from);
            let hold = if let Pacing::Delay(hold) = pacing { hold } else { Duration::ZERO };
            points.push(Point {
                at,
                window,
                queued: queued(newest.as_secs_f64()),
                cut,
                hold: hold.as_secs_f64() * 1e3,
                size,
            });
            // The packets are paced over four fifths of a round trip, because in bunches one delay
            // would count many times. With an added delay, they are paced over RTT + delay.
            let whole =
                if hold.is_zero() { now.since(newest) * 4 / 5 } else { now.since(newest) + hold };
            let gap = whole / u32::try_from(window / size).expect("a plausible window");
            let mut last = flight.back().map_or(now, |(sent, _)| *sent);
            let most = window.min(MOST_PACKETS * size);
            limited = most < window;
            while bytes(&flight) + size <= most {
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

    /// Returns the window in bytes just before `at` seconds.
    fn window_at(&self, at: f64) -> u64 {
        self.point_at(at).window
    }

    /// Returns the state just before `at` seconds.
    fn point_at(&self, at: f64) -> &Point {
        let after = self.points.partition_point(|p| p.at < at);
        &self.points[after.saturating_sub(1)]
    }
}

/// Returns a controller in avoidance, after a mark that came at the figure's window.
fn started(figure: &Figure) -> Box<dyn Controller> {
    let provided = Capabilities::ALL;
    let start = Start { now: Time::ZERO, datagram: MSS as u16, provided };
    let spec = match figure.options {
        "" => figure.name.to_owned(),
        options => format!("{}:{options}", figure.name),
    };
    let mut controller = catalogue::parse(&spec).expect(&spec).start(&start).expect(&spec);
    let more = figure.packets * MSS - controller.send_params().window;
    if more > 0 {
        controller.on_ack(&AckEvent {
            now: Time::ZERO,
            packets: &[Acked { sent: Time::ZERO, bytes: more }],
            in_flight: 0,
            rtt: Rtt::first(BASE),
            one_way: None,
            ecn: None,
            app_limited: false,
        });
    }
    controller.on_congestion_event(&CongestionEvent {
        now: Time::ZERO,
        sent: Time::ZERO,
        cause: Cause::Mark,
    });
    controller
}

fn acknowledge(
    controller: &mut dyn Controller,
    now: Time,
    packets: [Packet; 2],
    in_flight: u64,
    app_limited: bool,
) {
    let rtt = now.since(packets[1].0);
    controller.on_ack(&AckEvent {
        now,
        packets: &packets.map(|(sent, bytes)| Acked { sent, bytes }),
        in_flight,
        rtt: Rtt { min: BASE, ..Rtt::first(rtt) },
        one_way: Some(OneWayDelay::from_nanos(
            i64::try_from(rtt.as_nanos()).expect("a short delay"),
        )),
        ecn: None,
        app_limited,
    });
}

/// Returns the number of packets by which the window grew in the round trip before `at`.
fn growth(run: &Run, at: f64) -> f64 {
    let rtt = BASE.as_secs_f64() + queued(at) / 1e3;
    (run.window_at(at) as f64 - run.window_at(at - rtt) as f64) / MSS as f64
}

/// Returns the times at which the window is drawn.
fn samplings() -> impl Iterator<Item = f64> {
    (0..=(LENGTH / SAMPLING) as u32).map(|n| f64::from(n) * SAMPLING)
}

#[test]
fn every_controller_reacts_as_its_paper_states() {
    assert!(FIGURES.iter().all(|figure| CATALOGUE.iter().any(|entry| entry.name == figure.name)));
    for figure in figures() {
        println!("controller {}", figure.name);
        (figure.check)(&Run::new(&figure));
    }
}

#[test]
fn committed_reaction_figures_match_the_drawings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures");
    let mut stale = Vec::new();
    for figure in figures() {
        let (path, drawn) = (
            folder.join(format!("reaction-{}.svg", figure.name)),
            svg(&figure, &Run::new(&figure)),
        );
        if std::env::var_os("FATHOM_DRAW").is_some() {
            std::fs::create_dir_all(&folder).expect("the folder of figures");
            std::fs::write(&path, &drawn).expect("a figure");
        }
        // A checkout may have changed the line ends.
        let committed = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
        if committed != drawn {
            stale.push(path.display().to_string());
        }
    }
    let hint = "FATHOM_DRAW=1 cargo test -p fathom-cc --test cc-tests figures::";
    assert!(
        stale.is_empty(),
        "not as drawn: {}; look what changed, then draw anew: {hint}",
        stale.join(", ")
    );
}

#[test]
fn scripted_queueing_delay_matches_the_drawing() {
    for (at, ms) in [
        (0.0, 0.0),
        (2.75, 20.0),
        (5.0, 40.0),
        (7.75, 20.0),
        (9.0, 0.0),
        (10.075, 15.0),
        (10.2, 20.0),
        (12.0, 0.0),
    ] {
        assert!((queued(at) - ms).abs() < 1e-9, "{at} s: {} ms", queued(at));
    }
}
