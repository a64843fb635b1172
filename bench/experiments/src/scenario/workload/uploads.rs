//! Uploads, each on a connection of its own. The request has a body, and the server responds after
//! it has received the whole body. Bodies travel from `to` to `from`.

use std::time::Duration;

use fathom_cc::Invalid;
use fathom_traffic::RateOutOfRange;

use super::bulk::{Spread, transfer};
use super::model::{Form, Model, Work};
use super::syntax::{parse_transfers, plural, starts_over};
use super::{Request, Source};
use crate::scenario::ResponseKind;

/// Size in bytes of the response to an upload.
const ANSWER: u64 = 100;

pub(super) const FORMS: &[Form<Uploads>] =
    &[Form { name: "uploads", read, examples: &["uploads:4x10MB@1s"] }];

/// Uploads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uploads {
    /// Number of uploads.
    pub count: u32,
    /// Size of each upload in bytes.
    pub bytes: u64,
    /// Time from the first start to the last.
    pub spread: Duration,
}

fn read(whole: &str, rest: &str) -> Result<Uploads, Invalid> {
    let of = parse_transfers(whole, rest, "uploads")?;
    Ok(Uploads { count: of.count, bytes: of.bytes, spread: of.spread })
}

impl Model for Uploads {
    fn source(&self, _rate: f64, _seed: u64) -> Result<Source, RateOutOfRange> {
        let first = transfer(Duration::ZERO, self.bytes, ANSWER);
        Ok(Box::new(Spread::new(first, self.count, self.spread, Request::Upload)))
    }

    fn response_kind(&self) -> ResponseKind {
        ResponseKind::Upload
    }

    fn words(&self) -> String {
        let Self { count, bytes, spread } = *self;
        format!("{count} upload{} of {bytes} bytes{}", plural(count), starts_over(spread))
    }

    fn question(&self) -> &'static str {
        "Which controller completes these uploads fastest?"
    }

    fn own_fields(&self) -> &'static [&'static str] {
        &["connections"]
    }

    fn flows(&self) -> Option<u32> {
        Some(self.count)
    }

    fn goes_up(&self) -> bool {
        true
    }

    fn span(&self, _: u64, _: f64, transfer: &dyn Fn(u64) -> Duration) -> Duration {
        transfer(self.bytes.saturating_mul(self.count.into())).saturating_add(self.spread)
    }

    fn starts(&self, _scale: f64) -> Duration {
        self.spread
    }

    fn bits_per_second(&self) -> Option<f64> {
        None
    }

    fn responses_per_second(&self, rate: f64) -> f64 {
        rate / 8.0 / self.bytes as f64
    }

    fn work(&self, rate: f64, seconds: f64) -> Work {
        let count = f64::from(self.count);
        let bytes = rate / 8.0 * seconds;
        Work { connections: count, at_once: count.min(10_000.0), bytes, few_packets: false }
    }
}
