//! Ctrl-C and its like, for commands that end in good order.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use signal_hook::iterator::Signals;

use crate::{Failure, output};

/// The exit code of a command that was interrupted.
pub(crate) const INTERRUPTED: u8 = 130;

/// A flag that the first signal sets. The second ends the process at once.
pub(crate) fn stop() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        let armed = signal_hook::flag::register_conditional_shutdown(
            *signal,
            INTERRUPTED.into(),
            Arc::clone(&stop),
        )
        .and_then(|_| signal_hook::flag::register(*signal, Arc::clone(&stop)));
        armed.map_err(|e| Failure::run(format!("cannot wait for signals: {e}")))?;
    }
    Ok(stop)
}

/// From here on the first signal says this and ends the process: for work that is kept as it is done.
pub(crate) fn end_saying(line: &'static str) {
    static ARMED: Once = Once::new();
    ARMED.call_once(|| {
        let Ok(mut signals) = Signals::new(signal_hook::consts::TERM_SIGNALS) else { return };
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                output::say(format!("fathom: {line}"));
                std::process::exit(INTERRUPTED.into());
            }
        });
    });
}
