//! The simulation as quiche sees it. quiche does no I/O: its application moves datagrams between a connection and a socket, with these.

use std::io;

use crate::sim::{Ecn, Received, SimSocket};

impl SimSocket {
    /// What quiche wants to know of a datagram that this socket received.
    pub fn recv_info(&self, received: &Received) -> quiche::RecvInfo {
        let here = self.address();
        quiche::RecvInfo { from: received.from, to: received.to.map_or(here, |ip| (ip, here.port()).into()) }
    }

    /// Sends a datagram of a quiche connection.
    ///
    /// # Errors
    /// Its path does not lead into the simulated network.
    pub fn send_for_quiche(&self, datagram: &[u8], info: &quiche::SendInfo, ecn: Option<Ecn>) -> io::Result<()> {
        self.send(info.to, Some(info.from.ip()), ecn, datagram, None)
    }
}
