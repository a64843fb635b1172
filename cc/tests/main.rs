//! Integration tests of this crate, built as one program so that they link only once. Each file is
//! a module.

mod alloc;
mod catalogue;
mod citations;
mod contract;
mod cubic;
mod curves;
mod dca;
mod dual;
mod extend;
#[path = "figures/main.rs"]
mod figures;
mod ghstcp;
mod highspeed;
mod ledbat;
mod packet_size;
mod page;
mod random;
mod rounds;
mod sdc;
mod sync_tcp;
mod vegas;
