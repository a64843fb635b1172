//! The controllers: one file or folder per paper, and one line each.

use crate::algorithm::Algorithm;

/// Declares each controller's module and lists its entry. `cargo fmt` does not see modules that a macro declares: `make format` does.
macro_rules! algorithms {
    ($($name:ident,)+) => {
        $(pub mod $name;)+

        /// Every controller's entry.
        pub(crate) static ENTRIES: &[Algorithm] = &[$($name::ALGORITHM),+];
    };
}

// One line per controller, in the order users see them.
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
    packet_size,
}
