//! The integration tests of this crate as one program, so that they link only once. Each file here
//! is a module of the program.

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
mod packet_size;
mod page;
mod random;
mod rounds;
mod sdc;
mod sync_tcp;
mod vegas;
