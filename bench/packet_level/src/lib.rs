//! Packet-level background traffic: simplified senders under the same controllers as the real
//! stacks, for thousands of flows at once.
//!
//! A reliable flow is a [`Sender`] and a [`Receiver`]. Both are pure state machines with packet
//! numbers, acknowledgement ranges, loss detection and probe timeouts as in RFC 9002. They lack
//! these parts of QUIC:
//! - the handshake. An option adds its round trip. Without this option, the first flight leaves
//!   without an RTT sample, under the initial RTT of RFC 9002 §6.2.2.
//! - encryption, streams, flow control and path validation.
//! - pacing, unless the controller asks for it ([`fathom_cc::SendParams::burst`] is ignored).
//! - the undoing of spurious losses. Paths here keep packets in order, so no loss is spurious.
//!
//! | file | contents |
//! |---|---|
//! | `sender.rs` | loss detection, probe timeouts, the window |
//! | `receiver.rs` | the time of each acknowledgement, and its contents |
//! | `rtt.rs` | round-trip times |
//! | `pace.rs` | pacing, if the controller asks for it |
//! | `packet.rs` | contents of packets |
//! | `web_user.rs` | transfers of Pareto size with idle times between them |
//! | `on_off.rs` | UDP sources that send at a constant rate, with pauses |
//! | `flow.rs` | a reliable flow as the caller describes it |
//! | `host.rs` | all flows of a run, as one agent of the simulation |
//! | `report.rs` | counts |
//! | `endpoints.rs` | both ends of a flow, QUIC-like or TCP |
//! | `tcp/` | TCP instead of QUIC: [`TcpSender`] and [`TcpReceiver`] |

mod endpoints;
mod flow;
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

pub use flow::{PacketLevelError, PacketLevelFlow, Workload};
pub use host::PacketLevel;
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
