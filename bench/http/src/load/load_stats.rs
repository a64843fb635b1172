//! Statistics of a load run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fathom_plugin::InUse;
use fathom_stacks::ConnectionStats;
use parking_lot::{Mutex, MutexGuard};

use super::latency::LatencyHistogram;
use super::over_time::OverTime;
use super::request::{Failure, FailureKind, Request};
use super::request_csv::RequestCsv;

/// Numbers of requests, without requests of the warm-up.
#[derive(Clone, Debug, Default)]
pub struct RequestCounts {
    /// Requests started.
    pub started: u64,
    /// Complete responses with a status below 400. Only these responses are in the latencies.
    pub completed: u64,
    /// Completed responses that ended within the measured time.
    pub in_time: u64,
    /// Bytes of the bodies of the responses counted in `in_time`.
    pub bytes_in_time: u64,
    /// Bytes of all bodies, complete or not.
    pub bytes: u64,
    /// Responses by status, complete or not.
    pub statuses: BTreeMap<u16, u64>,
    /// Failures by kind, in the order of [`FailureKind::ALL`], with the first reason of each kind.
    pub failures: [(u64, Option<String>); FailureKind::ALL.len()],
    /// Requests that were in progress when the run was stopped.
    pub unfinished: u64,
    /// Requests that had to wait because all connections were busy.
    pub waited: u64,
}

impl RequestCounts {
    /// Returns the number of all failures.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|(count, _)| count).sum()
    }
}

/// Latencies of complete responses, by phase.
#[derive(Clone, Debug, Default)]
pub struct PhaseTimes {
    /// Time from the scheduled start to the last byte. In a closed loop, this is equal to
    /// `service`.
    pub response: LatencyHistogram,
    /// Time from the actual start to the last byte, including a handshake if there was one.
    pub service: LatencyHistogram,
    /// Time from the actual start to the response header.
    pub first_byte: LatencyHistogram,
    /// Duration of handshakes, from the first packet.
    pub connect: LatencyHistogram,
    /// Delay of actual starts after scheduled starts.
    pub lag: LatencyHistogram,
}

/// Totals of a run's connections, including the warm-up.
#[derive(Clone, Debug, Default)]
pub struct ConnectionTotals {
    /// Connections established.
    pub opened: u64,
    /// Connections that negotiated one-way delays.
    pub one_way: u64,
    /// Connections with one-way delays that use TIMESTAMP frames.
    pub by_timestamp: u64,
    /// Connections with one-way delays that use ACK_RECEIVE_TIMESTAMPS frames. All connections of a
    /// run use the same frame.
    pub by_receive_timestamps: u64,
    /// Packets that the client sent.
    pub sent: u64,
    /// Packets of the client that were declared lost.
    pub lost: u64,
    /// Connections whose server reported that the client's flow control prevented it from sending.
    pub server_blocked: u64,
    /// Smoothed round-trip times at the end of the connections.
    pub rtt: LatencyHistogram,
    /// Mean queueing delay of the client's packets, on connections that measured one-way delays.
    pub queueing: LatencyHistogram,
    /// Connections whose 0-RTT the server accepted.
    pub early_accepted: u64,
    /// Connections whose 0-RTT the server rejected. Their requests were sent again.
    pub early_rejected: u64,
    /// Connections without 0-RTT because the client had no session ticket.
    pub early_without: u64,
}

/// Outcome of 0-RTT on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum EarlyData {
    Accepted,
    Rejected,
    Without,
}

#[derive(Default)]
pub(super) struct Totals {
    pub(super) counts: RequestCounts,
    pub(super) phases: PhaseTimes,
    pub(super) connections: ConnectionTotals,
    /// Latencies of the current interval; `None` without an interval log.
    pub(super) interval: Option<LatencyHistogram>,
    pub(super) rows: Option<RequestCsv>,
    pub(super) over_time: OverTime,
    ended: u64,
    until: Option<Instant>,
}

/// Statistics of a run, shared by its requests.
pub(super) struct LoadStats {
    pub(super) began: Instant,
    /// End of the warm-up.
    pub(super) measured_from: Instant,
    totals: Mutex<Totals>,
}

impl LoadStats {
    pub(super) fn new(
        began: Instant,
        warm_up: Duration,
        measured: Option<Duration>,
        rows: Option<RequestCsv>,
    ) -> Self {
        let measured_from = began + warm_up;
        let until = measured.and_then(|measured| measured_from.checked_add(measured));
        Self {
            began,
            measured_from,
            totals: Mutex::new(Totals { rows, until, ..Totals::default() }),
        }
    }

    pub(super) fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock()
    }

    /// Takes the totals at the end of the run.
    pub(super) fn finish(&self) -> Totals {
        let mut totals = std::mem::take(&mut *self.totals());
        totals.counts.unfinished = totals.in_progress();
        totals
    }

    /// Returns whether a request with this scheduled time is after the warm-up.
    pub(super) fn is_measured(&self, intended: Instant) -> bool {
        intended >= self.measured_from
    }

    /// Returns the end of the measured time, if known.
    pub(super) fn until(&self) -> Option<Instant> {
        self.totals().until
    }

    /// Ends the measured time now, before its planned end.
    pub(super) fn end_at(&self, now: Instant) {
        let mut totals = self.totals();
        totals.until = Some(totals.until.map_or(now, |until| until.min(now)));
    }

    /// Records the start of a request, `lag` after its scheduled time.
    pub(super) fn record_start(&self, intended: Instant, lag: Option<Duration>) {
        if self.is_measured(intended) {
            let mut totals = self.totals();
            totals.counts.started += 1;
            if let Some(lag) = lag {
                totals.phases.lag.record(lag);
            }
        }
    }

    /// Records that a request waits for a free connection.
    pub(super) fn record_wait(&self, intended: Instant) {
        if self.is_measured(intended) {
            self.totals().counts.waited += 1;
        }
    }

    /// Records the end of a request. A completed request ends with its last byte, any other request
    /// `now`.
    pub(super) fn record_end(&self, request: &Request, now: Instant, result: Result<(), Failure>) {
        if !self.is_measured(request.intended) {
            return;
        }
        let ended = request.progress.last_byte.unwrap_or(now);
        let mut guard = self.totals();
        let totals = &mut *guard;
        totals.ended += 1;
        totals.counts.bytes += request.progress.bytes;
        if let Some(status) = request.progress.status {
            *totals.counts.statuses.entry(status).or_default() += 1;
        }
        if let Some(rows) = &mut totals.rows {
            let result = result.as_ref().map(|()| request.progress.status.unwrap_or_default());
            rows.add(self.began, ended, request, result);
        }
        totals
            .over_time
            .record(ended.saturating_duration_since(self.measured_from), result.is_ok());
        match result {
            Ok(()) => totals.complete(request, ended),
            Err(failure) => {
                let (count, first) = &mut totals.counts.failures[failure.kind() as usize];
                *count += 1;
                first.get_or_insert_with(|| failure.to_string());
            }
        }
    }

    /// Records a handshake. Handshakes of pooled connections always count, because all of them may
    /// take place during the warm-up.
    pub(super) fn record_handshake(&self, took: Duration, kept: bool, intended: Instant) {
        if kept || self.is_measured(intended) {
            self.totals().phases.connect.record(took);
        }
    }

    pub(super) fn record_early_data(&self, what: EarlyData) {
        let connections = &mut self.totals().connections;
        *match what {
            EarlyData::Accepted => &mut connections.early_accepted,
            EarlyData::Rejected => &mut connections.early_rejected,
            EarlyData::Without => &mut connections.early_without,
        } += 1;
    }

    /// Records the end of a connection.
    pub(super) fn record_connection(&self, connection: &ConnectionStats) {
        let connections = &mut self.totals().connections;
        connections.opened += 1;
        connections.one_way += u64::from(connection.one_way);
        let by = |frame| u64::from(connection.one_way && connection.in_use == frame);
        connections.by_timestamp += by(InUse::Timestamp);
        connections.by_receive_timestamps += by(InUse::Receive);
        connections.sent += connection.sent;
        connections.lost += connection.lost;
        connections.server_blocked += u64::from(connection.peer_blocked > 0);
        if let Some(rtt) = connection.rtt {
            connections.rtt.record(rtt);
        }
        if let Some(queueing) = connection.queueing {
            connections.queueing.record(queueing);
        }
    }
}

impl Totals {
    fn complete(&mut self, request: &Request, ended: Instant) {
        let since = |from: Instant, to: Instant| to.saturating_duration_since(from);
        self.counts.completed += 1;
        if self.until.is_none_or(|until| ended <= until) {
            self.counts.in_time += 1;
            self.counts.bytes_in_time += request.progress.bytes;
        }
        let response = since(request.intended, ended);
        self.phases.response.record(response);
        self.phases.service.record(since(request.start, ended));
        if let Some(first_byte) = request.progress.first_byte {
            self.phases.first_byte.record(since(request.start, first_byte));
        }
        if let Some(interval) = &mut self.interval {
            interval.record(response);
        }
    }

    /// Returns the number of requests in progress.
    pub(super) fn in_progress(&self) -> u64 {
        self.counts.started.saturating_sub(self.ended)
    }
}
