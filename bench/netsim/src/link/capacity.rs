//! What a link can carry: a rate, a rate that steps, or a trace.

use std::time::Duration;

use fathom_units::Rate;

use crate::path::{Model, Trace, TraceCursor};

/// What a link can carry.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// One rate.
    Fixed(Rate),
    /// A rate from the beginning, and others from set times on, in order.
    Steps(Rate, Vec<(Duration, Rate)>),
    /// Chances to send.
    Trace(Trace),
    /// A model's trace: another one for every seed.
    Model {
        /// The model.
        model: &'static Model,
        /// Length of the trace.
        length: Duration,
        /// Mean rate of its first seed's.
        nominal: Rate,
    },
}

impl From<Rate> for Capacity {
    fn from(rate: Rate) -> Self {
        Self::Fixed(rate)
    }
}

impl Capacity {
    /// A rate, and what it becomes.
    pub fn stepping(rate: Rate, mut steps: Vec<(Duration, Rate)>) -> Self {
        steps.sort_by_key(|(at, _)| *at);
        if steps.is_empty() { Self::Fixed(rate) } else { Self::Steps(rate, steps) }
    }

    /// The rate that queues and reports take for its own: the first one, or a trace's mean.
    pub fn nominal(&self) -> Rate {
        match self {
            Self::Fixed(rate) | Self::Steps(rate, _) | Self::Model { nominal: rate, .. } => *rate,
            Self::Trace(trace) => trace.mean_rate(),
        }
    }

    /// The same for the run of this seed.
    #[must_use]
    pub fn of_seed(&self, seed: u64) -> Self {
        match self {
            Self::Model { model, length, .. } => Self::Trace(model.trace(seed, *length)),
            other => other.clone(),
        }
    }

    /// The same, so many times as fast: one rate.
    #[must_use]
    pub fn times(&self, factor: u64) -> Rate {
        Rate::from_bits_per_sec(self.nominal().bits_per_sec().saturating_mul(factor))
    }
}

/// A link follows a trace, and has no rate that could change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link follows a trace and has no rate to change; start it with a rate, such as 10Mbps")]
pub struct HasNoRate;

/// A capacity at work.
#[derive(Clone, Debug)]
pub(super) enum Sender {
    Fixed(Rate),
    Steps(Box<Steps>),
    Trace(Rate, Box<TraceCursor>),
}

/// A rate that steps.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    now: Rate,
    /// Steps to come, the next one last.
    next: Vec<(u64, Rate)>,
    /// All rates and since when, from the beginning on, in order.
    all: Vec<(u64, Rate)>,
}

impl Steps {
    fn new(rate: Rate, steps: &[(Duration, Rate)]) -> Self {
        let steps = || steps.iter().map(|(at, rate)| (at.as_nanos() as u64, *rate));
        Self {
            now: rate,
            next: steps().rev().collect(),
            all: std::iter::once((0, rate)).chain(steps()).collect(),
        }
    }

    /// Bytes that all rates together carry by `until` nanoseconds.
    fn bytes_until(&self, until: u64) -> f64 {
        let ends = self.all.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        let spans = self.all.iter().zip(ends);
        spans.map(|((from, rate), end)| bytes(*rate, end.min(until).saturating_sub(*from))).sum()
    }
}

impl From<Capacity> for Sender {
    fn from(capacity: Capacity) -> Self {
        let mean = capacity.nominal();
        match capacity {
            Capacity::Fixed(rate) => Self::Fixed(rate),
            Capacity::Steps(rate, steps) => Self::Steps(Box::new(Steps::new(rate, &steps))),
            Capacity::Trace(trace) => Self::Trace(mean, Box::new(TraceCursor::new(trace))),
            Capacity::Model { model, length, .. } => {
                Self::Trace(mean, Box::new(TraceCursor::new(model.trace(1, length))))
            }
        }
    }
}

impl Sender {
    /// When a transmission of `bytes` ends that begins at `start`, no earlier than the one before it ended (nanoseconds).
    pub(super) fn transmission_ends(&mut self, start: u64, bytes: u32) -> u64 {
        match self {
            Self::Fixed(rate) => start + time(*rate, bytes.into()),
            Self::Trace(_, cursor) => cursor.transmission_ends(start, bytes),
            Self::Steps(steps) => {
                let Steps { now: rate, next: steps, .. } = &mut **steps;
                let (mut at, mut bits) = (start, u128::from(bytes) * 8_000_000_000);
                loop {
                    let next = steps.last().copied();
                    let needs =
                        u64::try_from(bits.div_ceil(u128::from(rate.bits_per_sec().max(1))))
                            .unwrap_or(u64::MAX);
                    let end = at.saturating_add(needs);
                    match next {
                        Some((step, new)) if step < end => {
                            let sent = u128::from(step.saturating_sub(at))
                                * u128::from(rate.bits_per_sec());
                            bits = bits.saturating_sub(sent);
                            at = at.max(step);
                            *rate = new;
                            steps.pop();
                        }
                        _ => return end,
                    }
                }
            }
        }
    }

    /// How long so many bytes keep the link busy, by its mean rate.
    pub(super) fn mean_transmission(&self, bytes: u64) -> u64 {
        match self {
            Self::Fixed(rate) | Self::Trace(rate, _) => time(*rate, bytes),
            Self::Steps(steps) => time(steps.now, bytes),
        }
    }

    /// From `now` on it has this rate; steps to come stay.
    pub(super) fn set_rate(&mut self, now: u64, rate: Rate) -> Result<(), HasNoRate> {
        let mut steps = match self {
            Self::Fixed(old) => Steps::new(*old, &[]),
            Self::Steps(steps) => (**steps).clone(),
            Self::Trace(..) => return Err(HasNoRate),
        };
        steps.now = rate;
        steps.next.retain(|(at, _)| *at > now);
        steps.all.retain(|(at, _)| *at <= now);
        steps.all.push((now, rate));
        steps.all.extend(steps.next.iter().rev());
        *self = Self::Steps(Box::new(steps));
        Ok(())
    }

    /// When so many bytes are sent that begin at `start` (nanoseconds), at the rate of now.
    pub(super) fn time_of(&self, start: u64, bytes: f64) -> u64 {
        let rate = match self {
            Self::Fixed(rate) | Self::Trace(rate, _) => *rate,
            Self::Steps(steps) => steps.now,
        };
        start + (bytes * 8e9 / rate.bits_per_sec().max(1) as f64).round() as u64
    }

    /// Bytes that it can carry from the beginning to `until` nanoseconds.
    pub(super) fn bytes_until(&self, until: u64) -> f64 {
        match self {
            Self::Fixed(rate) => bytes(*rate, until),
            Self::Steps(steps) => steps.bytes_until(until),
            Self::Trace(_, cursor) => cursor.bytes_until(until) as f64,
        }
    }
}

/// Bytes that a rate carries in so many nanoseconds.
pub(super) fn bytes(rate: Rate, nanos: u64) -> f64 {
    rate.bits_per_sec() as f64 * nanos as f64 / 8e9
}

fn time(rate: Rate, bytes: u64) -> u64 {
    rate.time_for(bytes).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_step_in_the_middle_of_a_packet_counts_from_there() {
        // 8 Mbps: a byte takes 1 us. From 1 ms on 4 Mbps: 2 us.
        let [fast, slow] = [8, 4].map(|mbps| Rate::from_bits_per_sec(mbps * 1_000_000));
        let steps = vec![(Duration::from_millis(5), fast), (Duration::from_millis(1), slow)];
        let mut sender = Sender::from(Capacity::stepping(fast, steps));
        assert_eq!(sender.transmission_ends(0, 500), MS / 2);
        assert_eq!(sender.transmission_ends(MS / 2, 1_000), 2 * MS);
        assert_eq!(sender.transmission_ends(2 * MS, 1_500), 5 * MS);
        assert_eq!(sender.transmission_ends(5 * MS, 1_000), 6 * MS);
        // Two steps that passed while nothing was sent.
        let steps = vec![(Duration::from_millis(1), slow), (Duration::from_millis(2), fast)];
        let mut sender = Sender::from(Capacity::stepping(fast, steps));
        assert_eq!(sender.transmission_ends(9 * MS, 1_000), 10 * MS);
    }
}
