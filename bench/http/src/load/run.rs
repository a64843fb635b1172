//! A load run from start to end.

use std::future::{Future, ready};
use std::io;
use std::num::{NonZeroU8, NonZeroUsize};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fathom_netsim::kernel::{MachineTime, ReceiveDrops};
#[cfg(feature = "quiche")]
use fathom_stacks::BoringTls;
use fathom_stacks::{Endpoint, Tls, UseOfStack};
use tokio::sync::watch;

use super::arrivals::Arrival;
use super::client::{Client, ClientConfig};
use super::clock::{cpu, now, time_of_day};
use super::closed_loop::{self, ClosedLoopConfig};
use super::context::{LoadContext, RequestOptions};
use super::latency::{Interval, LatencyHistogram, log};
use super::load_stats::{LoadStats, Totals};
use super::open_loop::{self, OpenLoopConfig};
use super::request_csv::RequestCsv;
use super::saturation::ClientSaturation;
use super::session::RequestFields;
use super::{LoadConfig, LoadError, LoadReport, Outputs, PoolSize, Progress, Traffic};
use crate::handshake_error::HandshakeError;
use crate::http3::NO_ERROR;
use crate::stop::stopped;

/// Interval at which progress is reported and CPU usage is read.
const TICK: Duration = Duration::from_millis(100);
/// Length of an interval of the interval log.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time to wait for closed connections to drain, and additional time for each connection. A server
/// that did not receive a CONNECTION_CLOSE keeps its connection until the idle timeout.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
const CLOSE_TIMEOUT_PER_CONNECTION: Duration = Duration::from_micros(500);
/// Time for which the first connection waits for session tickets, in addition to a multiple of its
/// round-trip time.
const TICKETS: Duration = Duration::from_millis(100);

/// Runs a load until it is complete or `stop` becomes true. Calls `watch` with the progress ten
/// times a second. Needs a tokio runtime. First makes an uncounted connection, to check that the
/// server is reachable.
///
/// # Errors
/// Returns an error if the configuration is inconsistent, if the server is unreachable, or if
/// certificates cannot be read.
pub async fn run(
    config: LoadConfig,
    outputs: Outputs,
    stop: watch::Receiver<bool>,
    mut watch: impl FnMut(&Progress) + Send,
) -> Result<LoadReport, LoadError> {
    start(config, outputs, stop, &mut watch)?.await
}

/// Outcome of a run.
type Outcome<'a> = Pin<Box<dyn Future<Output = Result<LoadReport, LoadError>> + Send + 'a>>;

/// Starts a load. This function is not generic, so that all of the client is compiled in this
/// crate, with its optimisation. The program itself is compiled without.
fn start<'a>(
    config: LoadConfig,
    outputs: Outputs,
    stop: watch::Receiver<bool>,
    watch: &'a mut (dyn FnMut(&Progress) + Send),
) -> Result<Outcome<'a>, LoadError> {
    let connections = check(&config)?;
    let client = ClientConfig {
        stack: config.stack,
        origin: config.origin.clone(),
        tls: config.trust.client(config.zero_rtt)?,
        timestamps: config.timestamps,
        loops: config.threads.min(connections.try_into().unwrap_or(NonZeroU8::MAX)),
        idle: config.timeout.max(Duration::from_secs(30)),
        stream_window: config.stream_window,
    };
    Ok(config.stack.with(Drive { client, config, outputs, stop, watch }))
}

/// Runs a load on the stack of its client.
struct Drive<'a> {
    client: ClientConfig,
    config: LoadConfig,
    outputs: Outputs,
    stop: watch::Receiver<bool>,
    watch: &'a mut (dyn FnMut(&Progress) + Send),
}

impl<'a> UseOfStack for Drive<'a> {
    type Output = Outcome<'a>;

    fn on_rustls<E: Endpoint<Tls = Tls>>(self) -> Self::Output {
        let Self { client, config, outputs, stop, watch } = self;
        Box::pin(
            async move { drive(Client::<E>::open(client)?, config, outputs, stop, watch).await },
        )
    }

    #[cfg(feature = "quiche")]
    fn on_boring<E: Endpoint<Tls = BoringTls>>(self) -> Self::Output {
        Box::pin(ready(Err(LoadError::Stack(self.config.stack))))
    }

    fn on_tcp(self) -> Self::Output {
        Box::pin(ready(Err(LoadError::Stack(self.config.stack))))
    }
}

/// Checks the configuration and returns the number of concurrent connections.
fn check(config: &LoadConfig) -> Result<NonZeroUsize, LoadError> {
    let kept = match &config.traffic {
        Traffic::Closed(_, urls) if urls.is_empty() => {
            return Err(LoadError::Config("there is no URL; write one"));
        }
        Traffic::Closed(kept, _) => Some(kept),
        Traffic::Open(_, kept) => kept.as_ref(),
    };
    if config.zero_rtt && kept.is_some() {
        return Err(LoadError::Config(
            "0-RTT needs a new connection for each request; add --connections fresh and --rate, \
             --model or --trace",
        ));
    }
    let Some(kept) = kept else { return Ok(NonZeroUsize::MAX) };
    NonZeroUsize::new(kept.connections)
        .filter(|_| kept.streams > 0)
        .ok_or(LoadError::Config("the number of connections or streams is 0; write 1 or more"))
}

async fn drive<E: Endpoint>(
    client: Client<E>,
    config: LoadConfig,
    outputs: Outputs,
    mut stop: watch::Receiver<bool>,
    mut watch: impl FnMut(&Progress),
) -> Result<LoadReport, LoadError> {
    let LoadConfig {
        origin,
        traffic,
        warm_up,
        duration,
        requests,
        timeout,
        zero_rtt,
        check_digests,
        headers,
        ..
    } = config;
    tokio::select! {
        found = check_reachable(&client, timeout, zero_rtt) => found.map_err(|why| LoadError::Unreachable(origin, Box::new(why)))?,
        () = stopped(&mut stop) => return Err(LoadError::Stopped(origin)),
    }
    let stats =
        Arc::new(LoadStats::new(now(), warm_up, duration, outputs.rows.map(RequestCsv::to)));
    let mut meter = Meter::new(&stats, outputs.intervals);
    let fields = Arc::new(RequestFields::new(headers, check_digests));
    let context = Arc::new(LoadContext::new(
        client,
        Arc::clone(&stats),
        RequestOptions { timeout, zero_rtt, fields },
    ));
    let open_loop = matches!(traffic, Traffic::Open(..));
    let full_time = Arc::new(AtomicBool::new(false));
    {
        let extent = Extent { warm_up, duration, requests };
        let full = Arc::clone(&full_time);
        let mut traffic_done = pin!(run_traffic(Arc::clone(&context), traffic, extent, full, stop));
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                () = &mut traffic_done => break,
                _ = tick.tick() => watch(&meter.tick()),
            }
        }
    }
    // A run without arrivals in the remaining time ends early, but its rates refer to the whole
    // time.
    let ended = match stats.until() {
        Some(until) if full_time.load(Ordering::Relaxed) => now().max(until),
        _ => now(),
    };
    watch(&meter.tick());
    let connections = u32::try_from(stats.totals().connections.opened).unwrap_or(u32::MAX);
    let close_timeout =
        CLOSE_TIMEOUT.saturating_add(CLOSE_TIMEOUT_PER_CONNECTION.saturating_mul(connections));
    let _ = tokio::time::timeout(close_timeout, context.client.wait_idle()).await;
    Ok(meter.outcome(ended, open_loop))
}

/// Limits of the part of a run in which requests start.
#[derive(Clone, Copy)]
struct Extent {
    warm_up: Duration,
    /// Time after the warm-up.
    duration: Option<Duration>,
    /// Maximum number of requests after the warm-up.
    requests: Option<u64>,
}

/// Sends all requests. Sets `full` if the arrivals of an open loop reach the end of the extent.
async fn run_traffic<E: Endpoint>(
    context: Arc<LoadContext<E>>,
    traffic: Traffic,
    extent: Extent,
    full: Arc<AtomicBool>,
    stop: watch::Receiver<bool>,
) {
    match traffic {
        Traffic::Closed(PoolSize { connections, streams }, urls) => {
            let requests = extent.requests;
            let config = ClosedLoopConfig { connections, streams, urls, requests };
            closed_loop::run(context, config, stop).await;
        }
        Traffic::Open(arrivals, kept) => {
            let arrivals = limited(arrivals, extent, full);
            let kept = kept.map(|kept| (kept.connections, kept.streams));
            open_loop::run(context, OpenLoopConfig { arrivals, kept }, stop).await;
        }
    }
}

/// Checks that the server is reachable. If `zero_rtt` is set, also waits for session tickets.
async fn check_reachable<E: Endpoint>(
    client: &Client<E>,
    timeout: Duration,
    zero_rtt: bool,
) -> Result<(), HandshakeError> {
    let late = |_| HandshakeError::TimedOut(timeout);
    let connection = tokio::time::timeout(timeout, client.connect(0)?).await.map_err(late)??;
    if zero_rtt {
        tokio::time::sleep(TICKETS + connection.stats().rtt.unwrap_or_default() * 3).await;
    }
    connection.close(NO_ERROR);
    Ok(())
}

/// Returns the arrivals of the extent. Sets `full` if the arrivals reach its end.
fn limited(
    arrivals: impl Iterator<Item = Arrival> + Send + 'static,
    extent: Extent,
    full: Arc<AtomicBool>,
) -> impl Iterator<Item = Arrival> + Send + 'static {
    let Extent { warm_up, duration, requests } = extent;
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

/// Reading of the CPU usage: its time, the CPU time of the process so far, and the CPU time of the
/// machine so far.
type Reading = (Instant, Duration, Option<MachineTime>);

/// Reader of the CPU usage, and writer of the interval log during a run.
struct Meter {
    stats: Arc<LoadStats>,
    first: Option<Reading>,
    last: Option<Reading>,
    log: Option<(mpsc::Sender<Interval>, JoinHandle<io::Result<()>>)>,
    rotated: Instant,
}

impl Meter {
    fn new(stats: &Arc<LoadStats>, out: Option<Box<dyn io::Write + Send>>) -> Self {
        let log = out.map(|out| {
            stats.totals().interval = Some(LatencyHistogram::default());
            let (intervals, waiting) = mpsc::channel();
            let began = time_of_day();
            (
                intervals,
                std::thread::spawn(move || {
                    log(io::BufWriter::new(out), began, "response", waiting)
                }),
            )
        });
        Self {
            stats: Arc::clone(stats),
            first: None,
            last: None,
            log,
            rotated: stats.measured_from,
        }
    }

    fn tick(&mut self) -> Progress {
        let now = now();
        let until = self.stats.until();
        if self.stats.is_measured(now) && until.is_none_or(|until| now <= until) {
            let reading = (now, cpu(), MachineTime::now());
            self.first.get_or_insert(reading);
            self.last = Some(reading);
        }
        if now >= self.rotated + INTERVAL {
            self.rotate(now);
        }
        let totals = self.stats.totals();
        let (counts, open) = (&totals.counts, totals.in_progress());
        Progress {
            measured: now.checked_duration_since(self.stats.measured_from),
            done: counts.started - open,
            failed: counts.failed(),
            open,
        }
    }

    /// Passes the interval that ends now to the log.
    fn rotate(&mut self, now: Instant) {
        let Some((intervals, _)) = &self.log else { return };
        let next = LatencyHistogram::default();
        let Some(times) = self.stats.totals().interval.replace(next) else { return };
        let length = now.saturating_duration_since(self.rotated);
        let start = self.rotated.saturating_duration_since(self.stats.began);
        // If the log cannot be written, the error is reported at the end of the run.
        let _ = intervals.send(Interval { start, length, times });
        self.rotated = now;
    }

    fn outcome(mut self, ended: Instant, open_loop: bool) -> LoadReport {
        self.rotate(ended);
        let until = self.stats.until().map_or(ended, |until| until.min(ended));
        let window = until.saturating_duration_since(self.stats.measured_from);
        let totals = self.stats.finish();
        let Totals { counts, phases, connections, rows, over_time, .. } = totals;
        let mut unwritten = Vec::new();
        if let Some((intervals, thread)) = self.log.take() {
            drop(intervals);
            let written =
                thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer ended")));
            unwritten.extend(written.err().map(|e| ("the interval log", e.to_string())));
        }
        let rows_lost = rows.map_or(Ok(0), RequestCsv::finish).unwrap_or_else(|e| {
            unwritten.push(("the lines of requests", e.to_string()));
            0
        });
        let (wall, used, machine) = match (self.first, self.last) {
            (Some((from, before, idle)), Some((to, after, busy))) => {
                let machine = busy.zip(idle).and_then(|(busy, idle)| busy.busy_since(idle));
                (to - from, after.saturating_sub(before), machine)
            }
            _ => (Duration::ZERO, Duration::ZERO, None),
        };
        let kernel = (machine, ReceiveDrops::default().update());
        let saturation = ClientSaturation::new(
            used,
            wall,
            open_loop.then_some(&phases.lag),
            &phases.response,
            kernel,
        );
        LoadReport {
            open_loop,
            window,
            counts,
            phases,
            over_time,
            connections,
            saturation,
            rows_lost,
            unwritten,
        }
    }
}
