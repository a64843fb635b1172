//! HTTP/3 on real sockets.
//!
//! | file | what is in it |
//! |---|---|
//! | `shares.rs` | which controller a connection gets: trials that divide connections |
//! | `identity.rs` | certificate and key, from files or made for the occasion |
//! | `natives.rs` | the stacks' own controllers |
//! | `site.rs` | what is served: files under a root, synthetic bodies, delays |
//! | `files.rs` | those files, within the descriptors that they may take |
//! | `descriptors.rs` | who gets how many of the process's descriptors |
//! | `digest.rs` | digests of bodies, for clients that check what they get |
//! | `limits.rs` | what one peer, and all of them, may take |
//! | `metrics.rs` | counts and histograms per controller, as Prometheus reads them |
//! | `logs.rs` | a connection's qlog: what its controller and its responses do |
//! | `guarded.rs` | what a peer's streams may bring to HTTP/3 |
//! | `stats.rs` | what a stack counts of a connection |
//! | `timestamps.rs` | how users choose the way in which one-way delays are exchanged |
//! | `server/` | accepting, serving, ending |
//! | `load/` | asking, and measuring the answers |
//! | `probe.rs` | what a server makes of our transport parameters |
//! | `udp.rs` | sockets with room for many peers' packets |

pub mod descriptors;
pub mod digest;
mod files;
mod guarded;
pub mod identity;
pub mod limits;
pub mod load;
pub mod logs;
pub mod metrics;
pub mod natives;
pub mod probe;
pub mod server;
pub mod shares;
pub mod site;
mod stats;
pub mod timestamps;
pub mod udp;
