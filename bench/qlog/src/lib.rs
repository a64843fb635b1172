//! qlog, the log format of QUIC: one writer and one reader. No stack is known here, and nothing of the laboratory.
//!
//! The writer follows draft-ietf-quic-qlog-main-schema-14 and draft-ietf-quic-qlog-quic-events-13: JSON text sequences (RFC 7464), one
//! file per connection. The reader takes whatever QUIC stacks write, from draft-00 on.
//!
//! | file | what is in it |
//! |---|---|
//! | `event.rs` | our events and their encoding |
//! | `folder.rs` | a folder of logs, one file per connection |
//! | `folder_state.rs` | its limits and counts |
//! | `writer.rs` | the writer thread |
//! | `input.rs` | opens files and pipes, plain or compressed |
//! | `read/` | reads any stack's file, event by event |
//! | `title.rs` | a log's title: stack and controller |
//! | `parsed_event.rs` | an event's content, independent of draft and stack |
//! | `qvis.rs` | export to qlog 0.3 for qvis |
//!
//! # Why not the `qlog` crate
//! It is current and well kept, but its types are one draft's, so it cannot read the files of stacks that follow others; it allocates for
//! every event, and it turns on `serde_json/preserve_order` for a whole build.

mod event;
mod folder;
mod folder_state;
mod input;
mod parsed_event;
mod qvis;
mod read;
mod title;
mod writer;

pub use event::{
    CongestionStateChange, EcnMark, Event, Metrics, OneWayDelaySample, PacketsLost,
    ResponseAbandoned, ResponseCompleted, TimestampsNegotiated, TraceHeader, VantagePoint,
};
pub use folder::{FolderError, Log, LogCounts, LogFolder};
pub use folder_state::LogLimits;
pub use input::{Input, InputReader};
pub use parsed_event::{
    Direction, Packet, PacketNumberSpace, ParsedEvent, ParsedLoss, ParsedMetrics, ParsedResponse,
    Phase, ResponseEnd, StreamData,
};
pub use qvis::{ExportError, export};
pub use read::{
    LoggedEvent, Malformed, ReadError, ReadProgress, Summary, foreign, read, read_input,
};
pub use title::ServerTitle;
