//! The controllers. Each paper has one file or folder, and one line in the list below.

use crate::algorithm::Algorithm;

/// Declares each controller's module and lists its catalogue entry. `cargo fmt` skips modules
/// declared by a macro; `make format` does not.
macro_rules! algorithms {
    ($($name:ident,)+) => {
        $(pub mod $name;)+

        /// Every controller's catalogue entry.
        pub(crate) static ENTRIES: &[Algorithm] = &[$($name::ALGORITHM),+];
    };
}

// One line per controller, in the order in which users see them.
algorithms! {
    reno,
    cubic,
    sync_tcp,
    dca,
    vegas,
    dual,
    sdc,
    highspeed,
    ghstcp,
    ledbat,
    ledbat_pp,
    copa,
    dctcp,
    prague,
    plumb,
    scream,
    gcc,
    packet_size,
}
