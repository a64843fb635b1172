//! Packet-level background traffic: packet-level senders under the same controllers as the real stacks, for thousands of flows at once.
//!
//! A reliable flow is a [`Sender`] and a [`Receiver`], both pure state machines, with packet numbers, acknowledgement ranges, loss
//! detection and probe timeouts as RFC 9002 has them. What it leaves out of QUIC: the handshake (an option has its round trip), encryption,
//! streams and flow control, path validation, pacing that the controller did not ask for ([`fathom_cc::SendParams::burst`] is not read), and
//! the undoing of spurious losses (paths here keep packets in order, so there are none). Without the handshake, a first flight leaves
//! without an RTT sample, under the initial RTT of RFC 9002 §6.2.2.
//!
//! | file | what is in it |
//! |---|---|
//! | `sender.rs` | loss detection, probe timeouts, the window |
//! | `receiver.rs` | when to acknowledge, and what |
//! | `rtt.rs` | round-trip times |
//! | `pace.rs` | the pace that a controller asks for |
//! | `packet.rs` | what packets carry |
//! | `web_user.rs` | transfers of Pareto size with idle times between them |
//! | `on_off.rs` | constant rate with pauses, for UDP |
//! | `host.rs` | all flows of a run, as one agent of the simulation |
//! | `report.rs` | counts |
//! | `endpoints.rs` | both ends of a flow, QUIC's or TCP's |
//! | `tcp/` | TCP instead of QUIC: [`TcpSender`] and [`TcpReceiver`] |

mod endpoints;
mod host;
mod on_off;
mod pace;
mod packet;
mod receiver;
mod report;
mod rtt;
mod sender;
mod tcp;
mod web_user;

pub use host::{PacketLevel, PacketLevelError, PacketLevelFlow, Workload};
pub use on_off::{OnOff, Spell};
pub use packet::{ACK_DATAGRAM, Ack, HEADER, MAX_RANGES, Packet, Ranges};
pub use receiver::{AckOptions, Receiver};
pub use report::{PacketLevelReport, TcpReport, UdpReport};
pub use rtt::RttEstimator;
pub use sender::{Sender, SenderCounts, SenderOptions};
pub use tcp::{
    ClientOrServer, GrowthCounting, InitialWindow, LossRecovery, MAX_SACK_BLOCKS, Probes,
    RtoEstimator, RtoOptions, SackBlocks, TCP_HEADER, TIMESTAMPS_OPTION, TcpAck, TcpConnection,
    TcpConnections, TcpCounts, TcpEnd, TcpOptions, TcpReceiver, TcpReceiverOptions, TcpSegment,
    TcpSender,
};
pub use web_user::{Connections, WebUser};
