//! Integration tests of this crate, built as one program so that they link only once. Each file is
//! a module.

mod flow_control;
mod hostile;
mod hostile_acks;
mod limits;
mod measures;
mod one_way;
mod one_way_stacks;
mod own_code;
mod packet_size_figure;
mod path;
#[path = "path_backends/main.rs"]
mod path_backends;
mod quiche;
mod scenario;
mod shaping;
mod shared_bottleneck;
mod stacks;
mod stacks_figure;
mod tcp;
mod traffic;

use std::sync::Once;

use fathom_cc::catalogue;
use fathom_cc::testing::BROKEN;

/// Adds the controllers of all tests, because a process can extend its catalogue only once.
fn extend_catalogue() {
    static EXTENDED: Once = Once::new();
    EXTENDED.call_once(|| {
        catalogue::extend([BROKEN, &[one_way_stacks::logged()]].concat().leak()).expect("new names")
    });
}
