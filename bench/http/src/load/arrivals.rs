//! Arrival times and URLs of an open loop.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Invalid;
use http::Uri;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::target::Origin;

/// A request that starts at a set time, whether or not earlier requests have completed.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Scheduled start, as the time since the run began.
    pub at: Duration,
    /// Requested URL.
    pub url: Uri,
}

/// Distribution of the gaps between requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = Invalid, parse_err_fn = unknown)]
pub enum Spacing {
    /// Independent arrivals, like those of many users: exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Even,
}

fn unknown(s: &str) -> Invalid {
    Invalid::value(s, "is not a spacing").hint("write poisson or even")
}

/// Returns an endless sequence of requests that cycles through these URLs. `rate` is in requests
/// per second and must be above 0.
pub fn at_rate(
    rate: f64,
    spacing: Spacing,
    seed: u64,
    urls: Vec<Uri>,
) -> impl Iterator<Item = Arrival> + Send {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut at = 0.0;
    let mut urls = urls.into_iter().cycle();
    std::iter::from_fn(move || {
        let gap = match spacing {
            Spacing::Even => 1.0,
            Spacing::Poisson => -(1.0 - rng.random::<f64>()).ln(),
        };
        at += gap / rate;
        Some(Arrival { at: Duration::try_from_secs_f64(at).ok()?, url: urls.next()? })
    })
}

/// Reads the requests of a trace: lines of `seconds,path`, sorted by time.
///
/// # Errors
/// Returns an error that names the line and gives a hint if a line is invalid.
pub fn trace(lines: impl BufRead, origin: &Origin) -> Result<Vec<Arrival>, Invalid> {
    let mut arrivals: Vec<Arrival> = Vec::new();
    // Reuse URLs, because traces request the same paths many times.
    let mut known: std::collections::HashMap<Arc<str>, Uri> = std::collections::HashMap::new();
    for (number, line) in (1..).zip(lines.lines()) {
        let wrong = |error: Invalid| error.in_field(format!("line {number}"));
        let line =
            line.map_err(|e| wrong(Invalid::because(e.to_string()).hint("write text in UTF-8")))?;
        let line = line.strip_suffix('\r').unwrap_or(&line);
        let Some((seconds, path)) = line.split_once(',') else {
            return Err(wrong(
                Invalid::value(line, "is not a time and a path")
                    .hint("write a time and a path, such as 0.25,/index.html"),
            ));
        };
        let at = seconds.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
        let at = at.ok_or_else(|| {
            wrong(
                Invalid::value(seconds, "is not a time")
                    .hint("write seconds since the start, such as 0.25"),
            )
        })?;
        if arrivals.last().is_some_and(|last| at < last.at) {
            return Err(wrong(
                Invalid::value(seconds, "is earlier than the time in the line above")
                    .hint("sort the lines by time"),
            ));
        }
        let url = match known.get(path) {
            Some(url) => url.clone(),
            None => {
                let url = origin.url(path).map_err(wrong)?;
                known.insert(path.into(), url.clone());
                url
            }
        };
        arrivals.push(Arrival { at, url });
    }
    if arrivals.is_empty() {
        return Err(
            Invalid::because("the file is empty").hint("write lines such as 0.25,/index.html")
        );
    }
    Ok(arrivals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin::new("localhost:4433".parse().unwrap(), "127.0.0.1:4433".parse().unwrap())
    }

    #[test]
    fn arrivals_keep_the_request_rate_and_rotate_urls() {
        let urls = vec![origin().url("/a").unwrap(), origin().url("/b").unwrap()];
        let even: Vec<Arrival> = at_rate(100.0, Spacing::Even, 1, urls.clone()).take(3).collect();
        assert_eq!(even.iter().map(|a| a.at.as_millis()).collect::<Vec<_>>(), [10, 20, 30]);
        assert_eq!(even.iter().map(|a| a.url.path()).collect::<Vec<_>>(), ["/a", "/b", "/a"]);
        let poisson =
            |seed| at_rate(100.0, Spacing::Poisson, seed, urls.clone()).nth(9_999).unwrap().at;
        assert!((95.0..105.0).contains(&poisson(1).as_secs_f64()), "{:?}", poisson(1));
        assert!(poisson(1) == poisson(1) && poisson(1) != poisson(2));
    }

    #[test]
    fn invalid_request_traces_are_rejected() {
        let read = |text: &str| trace(text.as_bytes(), &origin());
        let found = read("0,/a\n0.5,/b?x=1,2\r\n0.5,/a\n").unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!((found[1].at.as_millis(), found[1].url.query()), (500, Some("x=1,2")));
        for (text, hint) in [
            ("0,/a\n/b\n", "line 2: '/b' is not a time"),
            ("x,/a\n", "line 1: 'x' is not a time"),
            ("-1,/a\n", "line 1: '-1' is not a time"),
            ("NaN,/a\n", "not a time"),
            ("1e300,/a\n", "not a time"),
            ("1,/a\n\n", "line 2"),
            ("2,/a\n1,/b\n", "line 2: '1' is earlier"),
            ("1,a\n", "line 1: 'a' is not a path"),
            ("", "empty"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(hint) && !error.contains('\n'), "{text}: {error}");
        }
        assert!(trace(&b"0,/\xff\n"[..], &origin()).unwrap_err().hint.contains("UTF-8"));
    }
}
