//! TCP at packet level under the controllers of real stacks. The papers simulated TCP, but the
//! other senders of this crate are QUIC-like.
//!
//! A flow is a [`TcpSender`] and a [`TcpReceiver`], both pure state machines. The sender opens the
//! connection, and all data go one way. HTTP needs a connection with data in both directions. Such
//! a connection has a sender and a receiver at each end, and tasks hold it as a [`TcpConnection`].
//!
//! Sequence numbers count bytes, as in SACK blocks and the RFCs, so segments may have any size.
//! They start at 0 after the SYN and have 64 bits, so they never wrap. Windows count data without
//! headers (RFC 5681 §2), and so do all byte counts reported to a controller.
//!
//! | file | contents |
//! |---|---|
//! | `segment.rs` | contents and sizes of segments |
//! | `options.rs` | options of a sender |
//! | `rto.rs` | round-trip times and the retransmission timeout (RFC 6298) |
//! | `scoreboard.rs` | outstanding segments: SACKed, lost, retransmitted (RFC 6675) |
//! | `sender.rs` | window, timeouts, acknowledgements |
//! | `sender/handshake.rs`, `sender/marks.rs` | opening a connection; marks of ECN |
//! | `sender/recovery.rs` | fast retransmit and recovery, QUIC's probes |
//! | `sender/rack.rs` | RACK-TLP (RFC 8985) and proportional rate reduction (RFC 6937) |
//! | `receiver.rs` | the time of each ACK, and its contents |
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
