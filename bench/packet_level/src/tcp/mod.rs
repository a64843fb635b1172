//! TCP at packet level under the controllers of real stacks: what the papers' simulations ran, beside the QUIC-like sender of this crate.
//!
//! A flow is a [`TcpSender`] and a [`TcpReceiver`], both pure state machines. The sender opens the connection and all data go one way.
//! A connection with data both ways, as HTTP has it, has a sender and a receiver at each end; tasks hold it as a [`TcpConnection`].
//! Sequence numbers count bytes, as SACK blocks and the RFCs do, so that segments may have any size; they begin at 0 behind the SYN and have
//! 64 bits, so that they never wrap. Windows count data without headers (RFC 5681 §2), and so do all bytes that a controller is told of.
//!
//! | file | what is in it |
//! |---|---|
//! | `segment.rs` | what segments carry and how large they are |
//! | `options.rs` | how a sender sends |
//! | `rto.rs` | round-trip times and the retransmission timeout (RFC 6298) |
//! | `scoreboard.rs` | segments outstanding: SACKed, lost, retransmitted (RFC 6675) |
//! | `sender.rs` | handshake, window, timeouts, marks |
//! | `sender/recovery.rs` | fast retransmit and recovery, QUIC's probes |
//! | `receiver.rs` | when to acknowledge, and what |
//! | `endpoint.rs` | a sender and a receiver whose packets travel together |
//! | `connections.rs` | connections that tasks open, write to and wait for |

mod connections;
mod endpoint;
mod options;
mod receiver;
mod rto;
mod scoreboard;
mod segment;
mod sender;

pub use connections::{TcpConnection, TcpConnections};
pub use endpoint::{ClientOrServer, TcpEnd};
pub use options::{GrowthCounting, InitialWindow, LossRecovery, Probes, TcpOptions};
pub use receiver::{TcpReceiver, TcpReceiverOptions};
pub use rto::{RtoEstimator, RtoOptions};
pub use segment::{MAX_SACK_BLOCKS, SackBlocks, TCP_HEADER, TIMESTAMPS_OPTION, TcpAck, TcpSegment};
pub(crate) use segment::{read_ack, read_segment, store_ack, store_segment};
pub use sender::{TcpCounts, TcpSender};
