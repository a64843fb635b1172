//! Types for units, so that a time, a rate and a one-way delay cannot be confused.

mod invalid;
pub mod math;

pub use invalid::{Invalid, InvalidParts};

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, RangeInclusive, Sub};
use std::str::FromStr;
use std::time::Duration;

/// A point in time, in nanoseconds from an arbitrary start. The start is fixed for one connection
/// or one simulation.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The arbitrary start itself.
    pub const ZERO: Self = Self(0);

    /// Returns the time `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the time `micros` microseconds after the start.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns the time `millis` milliseconds after the start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the start, for plots and logs.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// Returns the duration from `earlier` to this time; zero if `earlier` is later.
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

/// A rate of sending, or of a link. Stacks use different units (quinn bits/s, noq bytes/s), and
/// only adapters convert between them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Returns a rate of `bits` per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns a rate of `bytes` per second.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes.saturating_mul(8))
    }

    /// Returns the rate in bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Returns the rate in bytes per second, rounded down.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0 / 8
    }

    /// Returns the time to send `bytes` at this rate, rounded up to a nanosecond; [`Duration::MAX`]
    /// if the rate is zero.
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
    type Err = Invalid;

    /// Parses a rate in bits per second as people type it: `10Mbps`, `10mbit`, `10Mb`, `10Mbit/s`,
    /// `10M`, with k, M, G or no prefix. Case does not matter, except that a capital `B` means
    /// bytes and is rejected.
    fn from_str(s: &str) -> Result<Self, Invalid> {
        let wrong = |why: &'static str| {
            Invalid::value(s, why).hint(
                "write bits per second, such as 10Mbps, 10mbit or 10M (bps, kbps, Mbps, Gbps)",
            )
        };
        let (number, unit) = split_unit(s).map_err(|error| wrong(error.or("is not a rate")))?;
        if unit.contains('B') {
            return Err(wrong("counts bytes"));
        }
        let unit = unit.to_ascii_lowercase();
        let bits = unit.strip_suffix("ps").or_else(|| unit.strip_suffix("/s")).unwrap_or(&unit);
        let scale = match bits {
            "b" | "bit" => 1.0,
            "k" | "kb" | "kbit" => 1e3,
            "m" | "mb" | "mbit" => 1e6,
            "g" | "gb" | "gbit" => 1e9,
            _ => return Err(wrong("is not a rate")),
        };
        let bits = number * scale;
        if bits >= 1e15 {
            return Err(wrong("is higher than the rate of any link"));
        }
        Ok(Self(bits.round() as u64))
    }
}

/// Parses a duration with its unit: `10ms`, `0.01s`, `250us`, `2min`. This is the inverse of
/// [`duration_text`].
///
/// # Errors
/// Returns an error that says what to write instead.
pub fn parse_duration(s: &str) -> Result<Duration, Invalid> {
    let wrong = |why: &'static str| {
        Invalid::value(s, why).hint("write a number and a unit, such as 10ms (us, ms, s, min)")
    };
    let (number, unit) = split_unit(s).map_err(|error| wrong(error.or("is not a duration")))?;
    let scale = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        _ => return Err(wrong("is not a duration")),
    };
    let secs = number * scale;
    if secs >= 1e9 {
        return Err(wrong("is longer than 30 years"));
    }
    Ok(Duration::from_nanos((secs * 1e9).round() as u64))
}

/// Parses a duration like [`parse_duration`], but rejects zero.
///
/// # Errors
/// Returns an error that says what to write instead.
pub fn parse_nonzero_duration(s: &str) -> Result<Duration, Invalid> {
    match parse_duration(s)? {
        Duration::ZERO => {
            Err(Invalid::value(s, "is zero").hint("write a longer time, such as 10s"))
        }
        time => Ok(time),
    }
}

/// Parses a fraction: a percentage such as `5%`, or a number below one such as `0.05`. A bare `1`
/// is ambiguous and is rejected.
///
/// # Errors
/// Returns an error that says what to write instead.
pub fn parse_part(s: &str) -> Result<f64, Invalid> {
    let wrong = |why: &'static str| {
        Invalid::value(s, why).hint(
            "write percent from 0% to 100%, such as 1%, or a fraction below one, such as 0.01",
        )
    };
    let text = s.trim();
    if text.starts_with('-') {
        return Err(wrong("is negative"));
    }
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    match text.strip_suffix('%') {
        Some(percent) => match number(percent) {
            Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
            Some(_) => Err(wrong("is above 100 %")),
            None => Err(wrong("is not a fraction")),
        },
        None => match number(text) {
            Some(part) if (0.0..1.0).contains(&part) => Ok(part),
            Some(_) => Err(wrong("is neither a percentage nor a fraction")),
            None => Err(wrong("is not a fraction")),
        },
    }
}

/// Parses a whole number within `range`.
///
/// # Errors
/// Returns an error that says what to write instead.
pub fn parse_whole(s: &str, range: RangeInclusive<u64>) -> Result<u64, Invalid> {
    let (low, high) = (*range.start(), *range.end());
    let wrong = |why: &'static str| Invalid::value(s, why).hint(format!("write {low} to {high}"));
    let text = s.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong("is not a whole number"));
    }
    if digits.len() < text.len() {
        return Err(wrong("is negative"));
    }
    // A number that does not fit into u64 is also out of range.
    digits.parse().ok().filter(|n| range.contains(n)).ok_or_else(|| wrong("is out of range"))
}

/// Formats a duration so that [`parse_duration`] can read it.
pub fn duration_text(d: Duration) -> String {
    let n = d.as_nanos();
    for (unit, scale) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if n >= scale {
            return format!("{}{unit}", n as f64 / scale as f64);
        }
    }
    format!("{n}ns")
}

/// Reason why a text is not a number with a unit.
#[derive(Clone, Copy)]
enum ParseError {
    Negative,
    NoUnit,
    Other,
}

impl ParseError {
    /// Returns the reason in words, or `other` if the text is not a number at all.
    const fn or(self, other: &'static str) -> &'static str {
        match self {
            Self::Negative => "is negative",
            Self::NoUnit => "has no unit",
            Self::Other => other,
        }
    }
}

/// Splits a text such as `12.5ms` into number and unit. The number must be finite and not negative.
fn split_unit(s: &str) -> Result<(f64, &str), ParseError> {
    let s = s.trim();
    if s.strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    {
        return Err(ParseError::Negative);
    }
    let at = s.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(s.len());
    let number: f64 = s[..at].parse().map_err(|_| ParseError::Other)?;
    let unit = s[at..].trim();
    match (number.is_finite(), unit.is_empty()) {
        (true, false) => Ok((number, unit)),
        (true, true) => Err(ParseError::NoUnit),
        (false, _) => Err(ParseError::Other),
    }
}

/// The transit time of a packet from sender to receiver, measured with two clocks that are not
/// synchronised.
///
/// The offset between the clocks is unknown, so the value alone has no meaning. It can only be
/// compared with other values of the same connection ([`OneWayDelay::above`]). The forward queueing
/// delay is the difference between the value and the smallest value seen (Sync-TCP §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OneWayDelay(i64);

impl OneWayDelay {
    /// Creates a one-way delay from a difference between two clocks in nanoseconds. The origin is
    /// arbitrary, and the difference may be negative.
    pub const fn from_nanos(difference: i64) -> Self {
        Self(difference)
    }

    /// Returns the difference between the clocks in nanoseconds, for logs and tests.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Returns how far this delay is above `base`; zero if it is below.
    pub const fn above(self, base: Self) -> Duration {
        let d = self.0.saturating_sub(base.0);
        Duration::from_nanos(if d > 0 { d as u64 } else { 0 })
    }
}

/// Returns the greatest common divisor; 1 if both numbers are zero.
fn gcd(a: u64, b: u64) -> u64 {
    match (a, b) {
        (0, 0) => 1,
        (a, 0) => a,
        (a, b) => gcd(b, a % b),
    }
}

/// An exact fraction, such as the factor of a cut, packets of growth per round trip, or a share of
/// the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    num: u32,
    den: u32,
}

impl Ratio {
    /// The fraction one.
    pub const ONE: Self = Self::new(1, 1);
    /// The fraction one half.
    pub const HALF: Self = Self::new(1, 2);

    /// Returns `num / den`.
    ///
    /// # Panics
    /// Panics if `den` is zero.
    pub const fn new(num: u32, den: u32) -> Self {
        assert!(den != 0, "a ratio needs a denominator above zero");
        Self { num, den }
    }

    /// Returns `percent` hundredths.
    pub const fn percent(percent: u32) -> Self {
        Self::new(percent, 100)
    }

    /// Returns the numerator.
    pub const fn num(self) -> u32 {
        self.num
    }

    /// Returns the denominator, which is never zero.
    pub const fn den(self) -> u32 {
        self.den
    }

    /// Parses a decimal number such as `0.875` or `2`, with at most six decimals, exactly and in
    /// lowest terms.
    pub fn from_decimal(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 6 {
            return None;
        }
        let den = 10_u64.pow(u32::try_from(decimals.len()).ok()?);
        let num =
            whole.parse::<u64>().ok()?.checked_mul(den)?.checked_add(decimals.parse().ok()?)?;
        let divisor = gcd(num, den);
        Some(Self::new(u32::try_from(num / divisor).ok()?, u32::try_from(den / divisor).ok()?))
    }

    /// Formats the fraction as a decimal number that [`Ratio::from_decimal`] can read.
    pub fn decimal(self) -> String {
        (f64::from(self.num) / f64::from(self.den)).to_string()
    }

    /// Compares two fractions by value.
    pub fn compare(self, other: Self) -> Ordering {
        let (a, b) = (
            u64::from(self.num) * u64::from(other.den),
            u64::from(other.num) * u64::from(self.den),
        );
        a.cmp(&b)
    }

    /// Returns this share of `amount`, rounded down; `u64::MAX` if the result is too large.
    pub const fn of(self, amount: u64) -> u64 {
        let share = amount as u128 * self.num as u128 / self.den as u128;
        if share > u64::MAX as u128 { u64::MAX } else { share as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, Ratio, parse_duration, parse_nonzero_duration, parse_part, parse_whole};
    use std::cmp::Ordering;
    use std::time::Duration;

    #[test]
    fn rates_accept_common_notations() {
        for text in [
            "10Mbps",
            "10mbps",
            "10mbit",
            "10M",
            "10Mb",
            "10Mbit/s",
            "10 Mbps",
            "10000k",
            "0.01Gbit",
            "10000000bps",
        ] {
            assert_eq!(text.parse::<Rate>(), Ok(Rate::from_bits_per_sec(10_000_000)), "{text}");
        }
        for (text, why) in [
            ("-5Mbps", "is negative"),
            ("10MBps", "counts bytes"),
            ("10MB", "counts bytes"),
            ("10", "has no unit"),
            ("ten", "is not a rate"),
            ("10ps", "is not a rate"),
            ("99999999999999999999Mbps", "higher than the rate of any link"),
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(
                error.contains(why) && error.contains("10Mbps") && error.contains(text),
                "{error}"
            );
        }
    }

    #[test]
    fn times_fractions_and_counts_are_parsed_or_give_an_error() {
        for text in ["20ms", "0.02s", "20000us"] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(20)), "{text}");
        }
        assert!(parse_duration("20").unwrap_err().to_string().contains("has no unit"));
        assert!(parse_duration("-1s").unwrap_err().to_string().contains("is negative"));
        assert!(
            parse_duration("99999999999999999999s").unwrap_err().to_string().contains("longer")
        );
        assert!(parse_nonzero_duration("0s").unwrap_err().to_string().contains("10s"));
        for (text, part) in
            [("1%", 0.01), ("0.01", 0.01), ("100%", 1.0), ("0", 0.0), ("0.5 %", 0.005)]
        {
            assert_eq!(parse_part(text), Ok(part), "{text}");
        }
        for text in ["5", "1", "101%", "-1%", "%", "NaN%", "inf", ""] {
            assert!(parse_part(text).unwrap_err().to_string().contains("such as 1%"), "{text}");
        }
        assert_eq!(parse_whole("7", 1..=9), Ok(7));
        for (text, why) in [
            ("abc", "whole"),
            ("", "whole"),
            ("1.5", "whole"),
            ("-1", "negative"),
            ("0", "range"),
            ("99999999999999999999", "range"),
        ] {
            let error = parse_whole(text, 1..=9).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("1 to 9"), "{error}");
        }
    }

    #[test]
    fn decimal_ratios_round_trip_exactly() {
        for (text, ratio) in
            [("0.875", Ratio::new(7, 8)), ("2", Ratio::new(2, 1)), ("0.9", Ratio::new(9, 10))]
        {
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
