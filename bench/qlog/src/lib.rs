//! qlog, the log format of QUIC: one writer and one reader. The crate depends on no QUIC stack and
//! on no other part of the laboratory.
//!
//! The writer follows draft-ietf-quic-qlog-main-schema-14 and draft-ietf-quic-qlog-quic-events-13:
//! JSON text sequences (RFC 7464), one file per connection. The reader accepts the files of all
//! QUIC stacks, from draft-00 on.
//!
//! | file | contents |
//! |---|---|
//! | `event.rs` | events of the writer and their encoding |
//! | `folder.rs` | a folder of logs, one file per connection |
//! | `folder_state.rs` | limits and counts of a folder |
//! | `writer.rs` | the writer thread |
//! | `input.rs` | opens files and pipes, plain or compressed |
//! | `logged_event.rs` | an event as readers get it |
//! | `read/` | reads the file of any stack, event by event |
//! | `title.rs` | a log's title, with the stack and the controller |
//! | `parsed_event.rs` | an event's content, independent of draft and stack |
//! | `qvis.rs` | export to qlog 0.3 for qvis |
//!
//! # Why not the `qlog` crate
//! The crate is current and well maintained. However, its types follow
//! one draft, so it cannot read files of stacks that follow other drafts. It also allocates for
//! every event and turns on `serde_json/preserve_order` for the whole build.

mod event;
mod folder;
mod folder_state;
mod input;
mod logged_event;
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
pub use logged_event::LoggedEvent;
pub use parsed_event::{
    Direction, Packet, PacketNumberSpace, ParsedEvent, ParsedLoss, ParsedMetrics, ParsedResponse,
    Phase, ResponseEnd, StreamData,
};
pub use qvis::{ExportError, export};
pub use read::{Malformed, ReadError, ReadProgress, Summary, foreign, read, read_input};
pub use title::ServerTitle;
