//! `--kernel`: choice of the kernel that emulates the links of the netem backend.

use std::ffi::OsStr;
#[cfg(target_os = "linux")]
use std::sync::{Arc, atomic::AtomicBool};

#[cfg(target_os = "linux")]
use fathom_netsim::backend::netem;
use fathom_netsim::backend::netem::{GuestError, run_in_guest};

#[cfg(target_os = "linux")]
use crate::output;
use crate::{Failure, signals::INTERRUPTED};

/// Kernel that emulates links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kernel {
    /// This machine's kernel if it has netem, else User-Mode Linux.
    #[default]
    Auto,
    /// This machine's kernel.
    Host,
    /// User-Mode Linux.
    Uml,
}

#[cfg(not(target_os = "linux"))]
impl Kernel {
    pub(crate) fn is_elsewhere(self) -> Result<bool, Failure> {
        Err(Failure::input("only Linux has netem; use --backend loopback"))
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn in_guest(_words: &[&OsStr]) -> Result<(), Failure> {
    Ok(())
}

#[cfg(target_os = "linux")]
impl Kernel {
    /// Returns whether a kernel other than that of this process must emulate the links.
    ///
    /// # Errors
    /// Returns an error if [`Self::Host`] is chosen and this kernel has no usable netem.
    pub(crate) fn is_elsewhere(self) -> Result<bool, Failure> {
        match (self, netem::available()) {
            (Self::Uml, _) => Ok(true),
            (_, Ok(())) => Ok(false),
            (Self::Host, Err(e)) => Err(Failure::run(e)),
            (Self::Auto, Err(e)) => {
                output::say(format!(
                    "this kernel has no usable netem ({e}), so fathom boots User-Mode Linux"
                ));
                Ok(true)
            }
        }
    }
}

/// Runs this program with these arguments and with `--kernel host` in User-Mode Linux.
#[cfg(target_os = "linux")]
pub(crate) fn in_guest(words: &[&OsStr]) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        let armed = signal_hook::flag::register(*signal, Arc::clone(&stop));
        armed.map_err(|e| Failure::run(format!("cannot wait for signals: {e}")))?;
    }
    let program = std::env::current_exe().map_err(Failure::run)?;
    let mut command = vec![program.as_os_str()];
    command.extend(words);
    command.extend(["--kernel", "host"].map(OsStr::new));
    let code = run_in_guest(&command, &stop, &mut std::io::stderr()).map_err(|e| match e {
        GuestError::Interrupted => Failure { line: e.to_string(), code: INTERRUPTED },
        e => Failure::run(e),
    })?;
    match code {
        0 => Ok(()),
        code => Err(Failure {
            line: "the run in User-Mode Linux failed; the reason is above".into(),
            code,
        }),
    }
}
