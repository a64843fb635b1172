//! `-v`, `-q` and `RUST_LOG`: log output on standard error, above progress bars.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, Targets};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::{Failure, output};

/// Default levels: warnings and errors.
const DEFAULT: &str = "warn";
/// Environment variable that sets levels.
const VARIABLE: &str = "RUST_LOG";
/// Maximum number of lines per second from one place in the code, at the default levels. With this
/// limit, strangers who cause log lines cannot fill a disk.
const MAX_PER_SECOND: u32 = 10;

/// Amount of log output.
#[derive(clap::Args)]
pub(crate) struct Verbosity {
    /// More log output on standard error: -v info, -vv debug, -vvv trace. Without it: warnings.
    /// RUST_LOG sets levels by module.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Diagnostics", display_order = 900)]
    verbose: u8,
    /// Log only errors, no warnings.
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Diagnostics",
        display_order = 901
    )]
    quiet: bool,
}

impl Verbosity {
    /// Starts log output.
    ///
    /// # Errors
    /// Returns an error if `RUST_LOG` is invalid.
    pub(crate) fn apply(&self) -> Result<(), Failure> {
        let from_environment = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty());
        let words = match (self.quiet, self.verbose, &from_environment) {
            (true, ..) => "error",
            (_, 0, None) => DEFAULT,
            (_, 0, Some(from_environment)) => from_environment,
            (_, 1, _) => "info",
            (_, 2, _) => "debug",
            _ => "trace",
        };
        let filter = words.parse::<Targets>().map_err(|e| {
            Failure::input(format!(
                "{VARIABLE}='{words}': {e}; write levels such as warn,fathom_http=debug"
            ))
        })?;
        let by_default = self.verbose == 0 && (self.quiet || from_environment.is_none());
        let limit =
            RateLimit { most: by_default.then_some(MAX_PER_SECOND), seen: Mutex::default() };
        let layer = tracing_subscriber::fmt::layer()
            .with_timer(tracing_subscriber::fmt::time::uptime())
            .with_ansi(false);
        let layer = layer.with_writer(|| Lines).with_filter(filter.and(limit));
        // This fails if the process already has a subscriber, as in tests that call `run`.
        let _ = tracing_subscriber::registry().with(layer).try_init();
        Ok(())
    }
}

/// Writer that gets the line of one event per call.
struct Lines;

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The line may contain text from peers.
        output::say(output::plain(String::from_utf8_lossy(bytes).trim_end()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Limits the events per second from one place in the code to `most`. `None` means no limit.
struct RateLimit<Callsite = Identifier> {
    most: Option<u32>,
    seen: Mutex<HashMap<Callsite, Seen>>,
}

struct Seen {
    since: Instant,
    count: u32,
}

impl<Callsite: Eq + std::hash::Hash> RateLimit<Callsite> {
    /// Counts an event at `now`. Returns `None` if the event exceeds the limit. Otherwise, returns
    /// the number of events that were suppressed since the last one, which is reported once.
    fn allows(&self, what: Callsite, now: Instant) -> Option<u32> {
        let Some(most) = self.most else { return Some(0) };
        let mut seen = self.seen.lock();
        let seen = seen.entry(what).or_insert(Seen { since: now, count: 0 });
        let mut left_out = 0;
        if now.saturating_duration_since(seen.since) >= Duration::from_secs(1) {
            left_out = seen.count.saturating_sub(most);
            *seen = Seen { since: now, count: 0 };
        }
        seen.count = seen.count.saturating_add(1);
        (seen.count <= most).then_some(left_out)
    }
}

impl<S> Filter<S> for RateLimit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn callsite_enabled(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }

    // Without this hint, the combined filter would have no maximum level, and disabled events would
    // cost time.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    // The limit applies to real time, so read the real clock.
    #[allow(clippy::disallowed_methods)]
    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        match self.allows(event.metadata().callsite(), Instant::now()) {
            None => false,
            Some(0) => true,
            Some(left_out) => {
                output::say(format!("{left_out} similar messages were suppressed; -v shows all"));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn repeated_warning_is_rate_limited() {
        let limit = |most| RateLimit { most, seen: Mutex::default() };
        let start = Instant::now();
        let (few, all) = (limit(Some(10)), limit(None));
        let said = |limit: &RateLimit<&str>| {
            (0..100).filter(|_| limit.allows("here", start).is_some()).count()
        };
        assert_eq!((said(&few), said(&all)), (10, 100));
        let later = start + Duration::from_secs(1);
        assert_eq!((few.allows("here", later), few.allows("here", later)), (Some(90), Some(0)));
        assert_eq!(few.allows("there", start), Some(0));
    }
}
