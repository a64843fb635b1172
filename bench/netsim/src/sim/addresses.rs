//! Addresses of servers and clients.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Port of every address. Only a rebinding changes a client's port.
pub(super) const PORT: u16 = 443;
/// Returns the address at which the server of `flow` answers.
pub fn server_address(flow: u32) -> SocketAddr {
    SocketAddr::new(server_ip(flow), PORT)
}

pub(super) fn server_ip(flow: u32) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0x5e, 0, 0, (flow >> 16) as u16, flow as u16))
}

/// Returns the address of the client socket with this number, at this port.
pub(super) fn client_address(socket: u16, port: u16) -> SocketAddr {
    let ip = Ipv6Addr::new(0xfd00, 0, 0, 0xc1, 0, 0, 0, socket);
    SocketAddr::new(IpAddr::V6(ip), port)
}

/// Returns the flow whose server answers at this address.
pub fn flow_of(ip: IpAddr) -> Option<u32> {
    match ip {
        IpAddr::V6(v6) if v6.segments()[..6] == [0xfd00, 0, 0, 0x5e, 0, 0] => {
            Some(u32::from(v6.segments()[6]) << 16 | u32::from(v6.segments()[7]))
        }
        _ => None,
    }
}
