//! Units as types: a time, a rate and a one-way delay cannot be mistaken for each other.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

/// A point in time: nanoseconds from an arbitrary start that is fixed for one connection (or one simulated world).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The arbitrary start.
    pub const ZERO: Self = Self(0);

    /// `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds after the start.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds after the start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start, for plots and logs.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// Time passed since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(nanos(d)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Time {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(d)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// A sending or link rate. Stacks disagree on the unit (quinn: bits/s, noq: bytes/s): only adapters convert.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// A rate in bits per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate in bytes per second.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes.saturating_mul(8))
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Bytes per second, rounded down.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0 / 8
    }

    /// Time to send `bytes` at this rate, rounded up to a nanosecond; the longest duration at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, scale) in [("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("kbps", 1_000)] {
            if self.0 >= scale {
                return write!(f, "{}{unit}", self.0 as f64 / scale as f64);
            }
        }
        write!(f, "{}bps", self.0)
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Rate {
    type Err = String;

    /// Reads `10Mbps`, `2.5Gbps`, `500kbps`, `9600bps`.
    fn from_str(s: &str) -> Result<Self, String> {
        let help = || format!("'{s}' is not a rate; write a number and a unit, such as 10Mbps (bps, kbps, Mbps, Gbps)");
        let (number, unit) = split_unit(s).ok_or_else(help)?;
        let scale = match unit.to_ascii_lowercase().as_str() {
            "bps" => 1.0,
            "kbps" => 1e3,
            "mbps" => 1e6,
            "gbps" => 1e9,
            _ => return Err(help()),
        };
        let bits = number * scale;
        if !(0.0..1e15).contains(&bits) {
            return Err(help());
        }
        Ok(Self(bits.round() as u64))
    }
}

/// Reads a duration with its unit: `10ms`, `1.5s`, `250us`, `2min`. The inverse of [`duration_text`].
///
/// # Errors
/// One line that says what to write instead.
pub fn parse_duration(s: &str) -> Result<Duration, String> {
    let help = || format!("'{s}' is not a duration; write a number and a unit, such as 10ms (us, ms, s, min)");
    let (number, unit) = split_unit(s).ok_or_else(help)?;
    let scale = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        _ => return Err(help()),
    };
    let secs = number * scale;
    if !(0.0..1e9).contains(&secs) {
        return Err(help());
    }
    Ok(Duration::from_nanos((secs * 1e9).round() as u64))
}

/// Writes a duration the way [`parse_duration`] reads it.
pub fn duration_text(d: Duration) -> String {
    let n = d.as_nanos();
    for (unit, scale) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if n >= scale {
            return format!("{}{unit}", n as f64 / scale as f64);
        }
    }
    format!("{n}ns")
}

/// Splits `12.5ms` into the number and its unit; the number must be finite and not negative.
fn split_unit(s: &str) -> Option<(f64, &str)> {
    let s = s.trim();
    let at = s.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let number: f64 = s[..at].parse().ok()?;
    number.is_finite().then(|| (number, s[at..].trim()))
}

/// The transit time of a packet from sender to receiver, on two clocks that are not synchronised.
///
/// The offset between the clocks is unknown, so the value means nothing by itself: it only compares with others of the same
/// connection ([`OneWayDelay::above`]). Forward queueing delay is its height above the smallest one seen (Sync-TCP §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OneWayDelay(i64);

impl OneWayDelay {
    /// From a difference of two clocks, in nanoseconds; the origin is arbitrary and may be negative.
    pub const fn from_nanos(difference: i64) -> Self {
        Self(difference)
    }

    /// The difference of clocks behind it, in nanoseconds, for logs and tests.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// How far this delay lies above `base`; zero when it lies below.
    pub const fn above(self, base: Self) -> Duration {
        let d = self.0.saturating_sub(base.0);
        Duration::from_nanos(if d > 0 { d as u64 } else { 0 })
    }
}

/// Greatest common divisor; of two zeros, 1.
fn gcd(a: u64, b: u64) -> u64 {
    match (a, b) {
        (0, 0) => 1,
        (a, 0) => a,
        (a, b) => gcd(b, a % b),
    }
}

/// An exact fraction: a cut's factor, packets of growth per round trip, a share of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    num: u32,
    den: u32,
}

impl Ratio {
    /// One.
    pub const ONE: Self = Self::new(1, 1);
    /// One half.
    pub const HALF: Self = Self::new(1, 2);

    /// `num / den`.
    ///
    /// # Panics
    /// If `den` is zero.
    pub const fn new(num: u32, den: u32) -> Self {
        assert!(den != 0, "a ratio needs a denominator above zero");
        Self { num, den }
    }

    /// `percent` hundredths.
    pub const fn percent(percent: u32) -> Self {
        Self::new(percent, 100)
    }

    /// The numerator.
    pub const fn num(self) -> u32 {
        self.num
    }

    /// The denominator, never zero.
    pub const fn den(self) -> u32 {
        self.den
    }

    /// Reads a decimal number such as `0.875` or `2`, up to six decimals, exactly and in lowest terms.
    pub fn from_decimal(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 6 {
            return None;
        }
        let den = 10_u64.pow(u32::try_from(decimals.len()).ok()?);
        let num = whole.parse::<u64>().ok()?.checked_mul(den)?.checked_add(decimals.parse().ok()?)?;
        let divisor = gcd(num, den);
        Some(Self::new(u32::try_from(num / divisor).ok()?, u32::try_from(den / divisor).ok()?))
    }

    /// The number in decimals, as [`Ratio::from_decimal`] reads it.
    pub fn decimal(self) -> String {
        (f64::from(self.num) / f64::from(self.den)).to_string()
    }

    /// Which of two is larger.
    pub fn compare(self, other: Self) -> Ordering {
        let (a, b) = (u64::from(self.num) * u64::from(other.den), u64::from(other.num) * u64::from(self.den));
        a.cmp(&b)
    }

    /// This share of `amount`, rounded down; the largest number when it does not fit.
    pub const fn of(self, amount: u64) -> u64 {
        let share = amount as u128 * self.num as u128 / self.den as u128;
        if share > u64::MAX as u128 { u64::MAX } else { share as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::Ratio;
    use std::cmp::Ordering;

    #[test]
    fn decimals_are_read_exactly_and_written_back() {
        for (text, ratio) in [("0.875", Ratio::new(7, 8)), ("2", Ratio::new(2, 1)), ("0.9", Ratio::new(9, 10))] {
            assert_eq!(Ratio::from_decimal(text), Some(ratio));
            assert_eq!(ratio.decimal(), text);
        }
        assert_eq!(Ratio::from_decimal("0.50"), Some(Ratio::HALF));
        for wrong in ["", ".", "1.", ".5", "-1", "1e3", "0.1234567", "99999999999", "+2", "1.5x"] {
            assert_eq!(Ratio::from_decimal(wrong), None, "{wrong}");
        }
        assert_eq!(Ratio::new(1, 3).compare(Ratio::new(2, 6)), Ordering::Equal);
        assert_eq!(Ratio::percent(33).compare(Ratio::new(1, 3)), Ordering::Less);
    }
}
