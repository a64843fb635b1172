//! Termination signals (SIGINT from Ctrl-C, SIGTERM, SIGQUIT), for commands that end gracefully.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};

use signal_hook::iterator::Signals;

use crate::{Failure, output};

/// Exit code of an interrupted command.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns a flag that the first termination signal sets. The second signal ends the process at
/// once.
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

/// Makes the first termination signal print `line` and end the process. It is for commands that
/// store finished work at once. Only the first call has an effect.
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
