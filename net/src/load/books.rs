//! What is counted while a load runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fathom_plugin::InUse;
use http::Uri;

use super::rows::Rows;
use super::times::Times;
use crate::metrics::Ended;

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There was no connection in time.
    Connect,
    /// The response was not whole in time.
    Timeout,
    /// Stream or connection ended before the response was whole.
    Reset,
    /// The status was 400 or above.
    Status,
    /// The body was not as long as `content-length` said.
    Body,
    /// The body's digest was not the one that the server told, or it told none.
    Digest,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Connect, Self::Timeout, Self::Reset, Self::Status, Self::Body, Self::Digest];

    /// As it is written in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Status => "status",
            Self::Body => "short body",
            Self::Digest => "digest",
        }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) why: String,
}

impl Failure {
    pub(super) fn new(kind: Kind, why: impl std::fmt::Display) -> Self {
        Self { kind, why: why.to_string() }
    }
}

/// How far a response has come.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) status: Option<u16>,
    pub(super) first_byte: Option<Instant>,
    pub(super) last_byte: Option<Instant>,
    pub(super) bytes: u64,
}

/// A request, and how far it has come.
#[derive(Debug)]
pub(super) struct Request {
    /// When it was to begin.
    pub(super) intended: Instant,
    /// When it began.
    pub(super) start: Instant,
    /// How long its connection's handshake took, where it waited for one.
    pub(super) connect: Option<Duration>,
    pub(super) seen: Seen,
    /// Number of its connection, from 1; 0 before there is one.
    pub(super) connection: u64,
    pub(super) url: Uri,
}

impl Request {
    pub(super) fn new(intended: Instant, start: Instant, url: Uri) -> Self {
        Self { intended, start, connect: None, seen: Seen::default(), connection: 0, url }
    }
}

/// What became of requests. Those of the warm-up are not in it.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests begun.
    pub started: u64,
    /// Whole responses with a status below 400. Only they are in the times.
    pub completed: u64,
    /// Those of them that were whole before the measured time was over.
    pub in_time: u64,
    /// Bytes of their bodies.
    pub bytes_in_time: u64,
    /// Bytes of all bodies, whole or not.
    pub bytes: u64,
    /// Responses by status, whole or not.
    pub statuses: BTreeMap<u16, u64>,
    /// Failures by kind, in the order of [`Kind::ALL`], and the first reason of each.
    pub failures: [(u64, Option<String>); Kind::ALL.len()],
    /// Requests that were not over when the run was ended.
    pub unfinished: u64,
    /// Requests that waited for a connection with room, as all were busy.
    pub waited: u64,
}

impl Counts {
    /// All failures.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|(count, _)| count).sum()
    }
}

/// How long the phases of whole responses took.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    /// From the intended start to the last byte. In a closed loop nothing is intended: the same as `service`.
    pub response: Times,
    /// From the start to the last byte, connecting included where it had to be.
    pub service: Times,
    /// From the start to the response's header.
    pub first_byte: Times,
    /// Handshakes, from the first packet on.
    pub connect: Times,
    /// How much later than intended the client began requests, for reasons of its own.
    pub lag: Times,
}

/// The connections of a run, those of its warm-up too.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    /// Made.
    pub opened: u64,
    /// With one-way delays: the server tells them.
    pub one_way: u64,
    /// Those of them that do so in TIMESTAMP frames.
    pub by_timestamp: u64,
    /// Packets that the client sent.
    pub sent: u64,
    /// Those of them declared lost.
    pub lost: u64,
    /// Smoothed round-trip times at their end.
    pub rtt: Times,
    /// Mean queueing delay of what the client sent, where one-way delays were told.
    pub queueing: Times,
    /// 0-RTT: taken by the server.
    pub early_accepted: u64,
    /// 0-RTT: not taken; the request was sent again.
    pub early_rejected: u64,
    /// Begun without 0-RTT as there was no ticket for it.
    pub early_without: u64,
}

/// What became of 0-RTT.
#[derive(Clone, Copy, Debug)]
pub(super) enum EarlyData {
    Accepted,
    Rejected,
    Without,
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    pub(super) phases: Phases,
    pub(super) connections: Connections,
    /// Times since the interval began, where intervals are wanted.
    pub(super) interval: Option<Times>,
    pub(super) rows: Option<Rows>,
    ended: u64,
    until: Option<Instant>,
}

/// All that is counted.
pub(super) struct Books {
    pub(super) began: Instant,
    /// When the warm-up is over.
    pub(super) measured_from: Instant,
    tally: Mutex<Tally>,
}

impl Books {
    pub(super) fn new(began: Instant, warm_up: Duration, measured: Option<Duration>, rows: Option<Rows>) -> Self {
        let measured_from = began + warm_up;
        let until = measured.and_then(|measured| measured_from.checked_add(measured));
        Self { began, measured_from, tally: Mutex::new(Tally { rows, until, ..Tally::default() }) }
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all out, at the end.
    pub(super) fn close(&self) -> Tally {
        let mut tally = std::mem::take(&mut *self.tally());
        tally.counts.unfinished = tally.open();
        tally
    }

    /// It begins after the warm-up.
    pub(super) fn measures(&self, intended: Instant) -> bool {
        intended >= self.measured_from
    }

    /// When counting for rates ends, if that is known.
    pub(super) fn until(&self) -> Option<Instant> {
        self.tally().until
    }

    /// The run was told to end now.
    pub(super) fn cut(&self, now: Instant) {
        let mut tally = self.tally();
        tally.until = Some(tally.until.map_or(now, |until| until.min(now)));
    }

    /// A request begins, so much after its time.
    pub(super) fn begin(&self, intended: Instant, lag: Option<Duration>) {
        if self.measures(intended) {
            let mut tally = self.tally();
            tally.counts.started += 1;
            if let Some(lag) = lag {
                tally.phases.lag.record(lag);
            }
        }
    }

    /// It waits for room on a connection.
    pub(super) fn waits(&self, intended: Instant) {
        if self.measures(intended) {
            self.tally().counts.waited += 1;
        }
    }

    /// A request is over: with its last byte, or now.
    pub(super) fn done(&self, request: &Request, now: Instant, result: Result<(), Failure>) {
        if !self.measures(request.intended) {
            return;
        }
        let ended = request.seen.last_byte.unwrap_or(now);
        let mut guard = self.tally();
        let tally = &mut *guard;
        tally.ended += 1;
        tally.counts.bytes += request.seen.bytes;
        if let Some(status) = request.seen.status {
            *tally.counts.statuses.entry(status).or_default() += 1;
        }
        if let Some(rows) = &mut tally.rows {
            let result = result.as_ref().map(|()| request.seen.status.unwrap_or_default());
            rows.add(self.began, ended, request, result);
        }
        match result {
            Ok(()) => tally.complete(request, ended),
            Err(failure) => {
                let (count, first) = &mut tally.counts.failures[failure.kind as usize];
                *count += 1;
                first.get_or_insert(failure.why);
            }
        }
    }

    /// A handshake is over. Those of connections that are kept count always, as there may be none after the warm-up.
    pub(super) fn connected(&self, took: Duration, kept: bool, intended: Instant) {
        if kept || self.measures(intended) {
            self.tally().phases.connect.record(took);
        }
    }

    pub(super) fn early(&self, what: EarlyData) {
        let connections = &mut self.tally().connections;
        *match what {
            EarlyData::Accepted => &mut connections.early_accepted,
            EarlyData::Rejected => &mut connections.early_rejected,
            EarlyData::Without => &mut connections.early_without,
        } += 1;
    }

    /// A connection has ended.
    pub(super) fn closed(&self, ended: &Ended) {
        let connections = &mut self.tally().connections;
        connections.opened += 1;
        connections.one_way += u64::from(ended.one_way);
        connections.by_timestamp += u64::from(ended.one_way && ended.in_use == InUse::Timestamp);
        connections.sent += ended.sent;
        connections.lost += ended.lost;
        if let Some(rtt) = ended.rtt {
            connections.rtt.record(rtt);
        }
        if let Some(queueing) = ended.queueing {
            connections.queueing.record(queueing);
        }
    }
}

impl Tally {
    fn complete(&mut self, request: &Request, ended: Instant) {
        let since = |from: Instant, to: Instant| to.saturating_duration_since(from);
        self.counts.completed += 1;
        if self.until.is_none_or(|until| ended <= until) {
            self.counts.in_time += 1;
            self.counts.bytes_in_time += request.seen.bytes;
        }
        let response = since(request.intended, ended);
        self.phases.response.record(response);
        self.phases.service.record(since(request.start, ended));
        if let Some(first_byte) = request.seen.first_byte {
            self.phases.first_byte.record(since(request.start, first_byte));
        }
        if let Some(interval) = &mut self.interval {
            interval.record(response);
        }
    }

    /// Requests that began and are not over.
    pub(super) fn open(&self) -> u64 {
        self.counts.started.saturating_sub(self.ended)
    }
}
