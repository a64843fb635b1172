//! Parsers of option values that are numbers or addresses. Their errors name the accepted values.

use std::net::SocketAddr;
use std::num::NonZero;
use std::ops::RangeInclusive;

use fathom_cc::Invalid;
use fathom_cc::units::parse_whole;

/// Returns a parser of whole numbers in this range.
pub(crate) fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, Invalid> + Clone + Send + Sync + 'static {
    move |s| {
        let number = parse_whole(s, range.clone())?;
        number.try_into().map_err(|_| Invalid::value(s, "is too large for this machine"))
    }
}

/// Parses the seed of all random numbers. Plans in TOML store the seed as a signed 64-bit number,
/// which determines the maximum.
pub(crate) fn seed(s: &str) -> Result<u64, Invalid> {
    parse_whole(s, 0..=i64::MAX as u64)
}

/// Parses the number of simultaneous runs.
pub(crate) fn jobs(s: &str) -> Result<NonZero<usize>, Invalid> {
    at_least_one(s, 1_024)
}

/// Parses the number of tasks of an array. The maximum is within Slurm's default limit
/// (`MaxArraySize` 1001).
pub(crate) fn tasks(s: &str) -> Result<NonZero<usize>, Invalid> {
    at_least_one(s, 1_000)
}

/// Parses the number of threads of a server or client. The maximum is that of the steering of
/// packets to sockets.
pub(crate) fn threads(s: &str) -> Result<NonZero<u8>, Invalid> {
    let threads = at_least_one(s, 255)?;
    threads.try_into().map_err(|_| Invalid::value(s, "is too large for this machine"))
}

fn at_least_one(s: &str, most: u64) -> Result<NonZero<usize>, Invalid> {
    let number = parse_whole(s, 1..=most)?;
    NonZero::new(number as usize)
        .ok_or_else(|| Invalid::value(s, "is out of range").hint(format!("write 1 to {most}")))
}

/// Parses the factor that multiplies the length of runs.
pub(crate) fn scale(s: &str) -> Result<f64, Invalid> {
    let scale = s.trim().parse::<f64>().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0);
    scale.ok_or_else(|| {
        Invalid::value(s, "is out of range").hint("write a number above 0, at most 1, such as 0.1")
    })
}

/// Parses an address to listen on.
pub(crate) fn address(s: &str) -> Result<SocketAddr, Invalid> {
    s.trim().parse().map_err(|_| {
        Invalid::value(s, "is not an address")
            .hint("write an address with its port, such as 127.0.0.1:4433 or [::]:4433")
    })
}
