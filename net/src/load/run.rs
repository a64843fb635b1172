//! A run from beginning to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::arrivals::Arrival;
use super::books::{Books, Tally};
use super::clock::{cpu, now, time_of_day};
use super::closed::{self, Closed};
use super::dialer::Dialer;
use super::open::{self, Open};
use super::rows::Rows;
use super::rustls_dialers::{noq, quinn};
use super::shared::{Manner, Shared, late};
use super::strain::Strain;
use super::times::{Interval, Times, log};
use super::{Dialing, Kept, LoadError, Outcome, Outputs, Plan, Progress, Stack, Traffic};
use crate::server::{NO_ERROR, stopped};

/// How often progress is told and the CPU's use is read.
const TICK: Duration = Duration::from_millis(100);
/// Length of an interval in the log.
const INTERVAL: Duration = Duration::from_secs(1);
/// What a server may take to hear of closed connections, and what each of them adds: one that has not heard keeps its state until the
/// connection has been idle for long.
const FAREWELL: Duration = Duration::from_millis(300);
const FAREWELL_EACH: Duration = Duration::from_micros(500);
/// How long the first connection waits for tickets, and a multiple of its round-trip time beside.
const TICKETS: Duration = Duration::from_millis(100);

/// Loads a server: until the plan is fulfilled or `stop` becomes true. `watch` hears of the progress ten times a second. Needs a tokio
/// runtime. One connection is made beforehand, to see that the server is there; it is in no count.
///
/// # Errors
/// The plan contradicts itself, the server cannot be reached at all, certificates cannot be read.
pub async fn run(
    plan: Plan,
    outputs: Outputs,
    stop: watch::Receiver<bool>,
    watch: impl FnMut(&Progress),
) -> Result<Outcome, LoadError> {
    let connections = check(&plan)?;
    let dialing = Dialing {
        origin: plan.origin.clone(),
        tls: plan.trust.client(plan.zero_rtt)?,
        timestamps: plan.timestamps,
        // One socket is one task of the stack's: with one for each core, no core waits for another's.
        sockets: std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(connections),
        idle: plan.timeout.max(Duration::from_secs(30)),
    };
    match plan.stack {
        Stack::Quinn => drive(quinn::Dialer::open(dialing)?, plan, outputs, stop, watch).await,
        Stack::Noq => drive(noq::Dialer::open(dialing)?, plan, outputs, stop, watch).await,
        #[cfg(feature = "quiche")]
        Stack::Quiche => Err(LoadError::Plan("quiche only serves; ask through quinn or noq")),
    }
}

/// What cannot be; the number of connections at once.
fn check(plan: &Plan) -> Result<usize, LoadError> {
    let kept = match &plan.traffic {
        Traffic::Closed(_, urls) if urls.is_empty() => return Err(LoadError::Plan("there is no URL; write one")),
        Traffic::Closed(kept, _) => Some(kept),
        Traffic::Open(_, kept) => kept.as_ref(),
    };
    if plan.zero_rtt && kept.is_some() {
        return Err(LoadError::Plan(
            "0-RTT is for connections of one request; add --connections fresh and a rate, model or trace",
        ));
    }
    match kept {
        Some(Kept { connections: 0, .. } | Kept { streams: 0, .. }) => {
            Err(LoadError::Plan("there must be a connection and a stream; write 1 or more"))
        }
        Some(kept) => Ok(kept.connections),
        None => Ok(usize::MAX),
    }
}

async fn drive<D: Dialer>(
    dialer: D,
    plan: Plan,
    outputs: Outputs,
    mut stop: watch::Receiver<bool>,
    mut watch: impl FnMut(&Progress),
) -> Result<Outcome, LoadError> {
    let Plan { origin, traffic, warm_up, duration, requests, timeout, zero_rtt, check_digests, .. } = plan;
    tokio::select! {
        found = reach(&dialer, timeout, zero_rtt) => found.map_err(|why| LoadError::Unreachable(origin, why))?,
        () = stopped(&mut stop) => return Err(LoadError::Unreachable(origin, "it was ended before there was an answer".into())),
    }
    let books = Arc::new(Books::new(now(), warm_up, duration, outputs.rows.map(Rows::to)));
    let mut meter = Meter::new(&books, outputs.intervals);
    let shared = Arc::new(Shared::new(dialer, Arc::clone(&books), Manner { timeout, zero_rtt, check_digests }));
    let open_loop = matches!(traffic, Traffic::Open(..));
    let full_time = Arc::new(AtomicBool::new(false));
    {
        let (shared, full) = (Arc::clone(&shared), Arc::clone(&full_time));
        let going = async move {
            match traffic {
                Traffic::Closed(Kept { connections, streams }, urls) => {
                    closed::run(shared, Closed { connections, streams, urls, requests }, stop).await;
                }
                Traffic::Open(arrivals, kept) => {
                    let arrivals = limited(arrivals, warm_up, duration, requests, full);
                    let kept = kept.map(|kept| (kept.connections, kept.streams));
                    open::run(shared, Open { arrivals, kept }, stop).await;
                }
            }
        };
        tokio::pin!(going);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                () = &mut going => break,
                _ = tick.tick() => watch(&meter.tick()),
            }
        }
    }
    // With nothing to do in the rest of its time, a run is over before; its rates are over the whole of it.
    let ended = match books.until() {
        Some(until) if full_time.load(Ordering::Relaxed) => now().max(until),
        _ => now(),
    };
    watch(&meter.tick());
    let connections = u32::try_from(books.tally().connections.opened).unwrap_or(u32::MAX);
    let farewell = FAREWELL.saturating_add(FAREWELL_EACH.saturating_mul(connections));
    let _ = tokio::time::timeout(farewell, shared.dialer.idle()).await;
    Ok(meter.outcome(ended, open_loop))
}

/// Sees that the server is there; with `zero_rtt`, stays until tickets have come.
async fn reach<D: Dialer>(dialer: &D, timeout: Duration, zero_rtt: bool) -> Result<(), String> {
    let late = |_| format!("the handshake was {}; is there a server that speaks HTTP/3?", late(timeout));
    let connection = tokio::time::timeout(timeout, dialer.dial()?).await.map_err(late)??;
    if zero_rtt {
        tokio::time::sleep(TICKETS + D::report(&connection).rtt.unwrap_or_default() * 3).await;
    }
    D::end(&connection, NO_ERROR);
    Ok(())
}

/// Arrivals of the warm-up and the measured time, and so many of the latter. `full` becomes true if they reach the end of that time.
fn limited(
    arrivals: impl Iterator<Item = Arrival> + Send + 'static,
    warm_up: Duration,
    duration: Option<Duration>,
    requests: Option<u64>,
    full: Arc<AtomicBool>,
) -> impl Iterator<Item = Arrival> + Send + 'static {
    let end = duration.and_then(|duration| warm_up.checked_add(duration));
    let mut left = requests.unwrap_or(u64::MAX);
    arrivals.take_while(move |arrival| {
        if end.is_some_and(|end| arrival.at >= end) {
            full.store(true, Ordering::Relaxed);
            return false;
        }
        let measured = arrival.at >= warm_up;
        let wanted = !measured || left > 0;
        left -= u64::from(measured && wanted);
        wanted
    })
}

/// A moment, and the CPU time used by then.
type Reading = (Instant, Duration);

/// Reads the CPU's use and writes the log while a run goes on.
struct Meter {
    books: Arc<Books>,
    first: Option<Reading>,
    last: Option<Reading>,
    log: Option<(mpsc::Sender<Interval>, JoinHandle<io::Result<()>>)>,
    rotated: Instant,
}

impl Meter {
    fn new(books: &Arc<Books>, out: Option<Box<dyn io::Write + Send>>) -> Self {
        let log = out.map(|out| {
            books.tally().interval = Some(Times::default());
            let (intervals, waiting) = mpsc::channel();
            let began = time_of_day();
            (intervals, std::thread::spawn(move || log(io::BufWriter::new(out), began, "response", waiting)))
        });
        Self { books: Arc::clone(books), first: None, last: None, log, rotated: books.measured_from }
    }

    fn tick(&mut self) -> Progress {
        let now = now();
        let until = self.books.until();
        if self.books.measures(now) && until.is_none_or(|until| now <= until) {
            let reading = (now, cpu());
            self.first.get_or_insert(reading);
            self.last = Some(reading);
        }
        if now >= self.rotated + INTERVAL {
            self.rotate(now);
        }
        let tally = self.books.tally();
        let (counts, open) = (&tally.counts, tally.open());
        Progress {
            measured: now.checked_duration_since(self.books.measured_from),
            done: counts.started - open,
            failed: counts.failed(),
            open,
        }
    }

    /// Hands the interval that ends now to the log.
    fn rotate(&mut self, now: Instant) {
        let Some((intervals, _)) = &self.log else { return };
        let next = Times::default();
        let Some(times) = self.books.tally().interval.replace(next) else { return };
        let length = now.saturating_duration_since(self.rotated);
        let start = self.rotated.saturating_duration_since(self.books.began);
        // A log that cannot be written says so at the end.
        let _ = intervals.send(Interval { start, length, times });
        self.rotated = now;
    }

    fn outcome(mut self, ended: Instant, open_loop: bool) -> Outcome {
        self.rotate(ended);
        let until = self.books.until().map_or(ended, |until| until.min(ended));
        let window = until.saturating_duration_since(self.books.measured_from);
        let tally = self.books.close();
        let Tally { counts, phases, connections, rows, .. } = tally;
        let mut unwritten = Vec::new();
        if let Some((intervals, thread)) = self.log.take() {
            drop(intervals);
            let written = thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer ended")));
            unwritten.extend(written.err().map(|e| ("the interval log", e.to_string())));
        }
        let rows_lost = rows.map_or(Ok(0), Rows::finish).unwrap_or_else(|e| {
            unwritten.push(("the lines of requests", e.to_string()));
            0
        });
        let (wall, used) = match (self.first, self.last) {
            (Some((from, before)), Some((to, after))) => (to - from, after.saturating_sub(before)),
            _ => (Duration::ZERO, Duration::ZERO),
        };
        let strain = Strain::new(used, wall, open_loop.then_some(&phases.lag), &phases.response);
        Outcome { open_loop, window, counts, phases, connections, strain, rows_lost, unwritten }
    }
}
