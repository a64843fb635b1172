//! quiche as an endpoint: the derived crate and the stock one. It does no I/O and has no runtime, so one thread does all.
//!
//! | file | what is in it |
//! |---|---|
//! | `seam.rs` | what is called of quiche, the same for both crates |
//! | `crates.rs` | how each of them does it |
//! | `mail.rs` | the socket, and datagrams that wait for their time |
//! | `client.rs`, `server.rs` | both roles |

mod client;
mod crates;
mod mail;
mod seam;
mod server;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use boring::ssl::{SslContext, SslContextBuilder, SslMethod, SslVersion};
use fathom_net::identity::log_secrets;

use super::facts::{Books, Close, Connection};
use super::{Outcome, Role, Setup, Stack, tls};
use seam::{Quic, State};

/// Runs this role on the crate that the stack's name means.
pub(super) fn run(setup: &Arc<Setup>, books: &Arc<Books>, stop: &AtomicBool) -> Outcome {
    if setup.stack == Stack::StockQuiche {
        on::<crates::stock::Connection>(setup, books, stop)
    } else {
        on::<crates::derived::Connection>(setup, books, stop)
    }
}

fn on<Q: Quic>(setup: &Setup, books: &Books, stop: &AtomicBool) -> Outcome {
    match setup.role {
        Role::Client => client::run::<Q>(setup, books, stop),
        Role::Server => server::run::<Q>(setup, books, stop),
    }
}

/// A client's TLS.
fn client_tls(setup: &Setup) -> Result<(SslContextBuilder, bool), String> {
    let wrong = |e: &dyn std::fmt::Display| e.to_string().trim().replace('\n', "; ");
    let mut context = SslContext::builder(SslMethod::tls()).map_err(|e| wrong(&e))?;
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).map_err(|e| wrong(&e))?;
    log_secrets(&mut context);
    let authority = setup.certs.join("ca.pem");
    let verifies = authority.is_file();
    if verifies {
        context.set_ca_file(&authority).map_err(|e| format!("'{}': {}", authority.display(), wrong(&e)))?;
    }
    Ok((context, verifies))
}

fn server_tls(setup: &Setup) -> Result<SslContextBuilder, String> {
    tls::identity(setup)?.boring().map_err(|e| e.to_string())
}

/// Takes in what the stack tells of a connection.
fn tell(state: &State, facts: &mut Connection) {
    facts.complete = state.established;
    if let Some(report) = &state.report {
        facts.take_report(report);
    }
    facts.resumed = state.established.then_some(state.resumed);
    facts.protocol = state.protocol.clone().or(facts.protocol.take());
    facts.bytes_sent = Some(state.sent);
    facts.bytes_received = Some(state.received);
    if state.closed {
        facts.close = Some(match &state.error {
            // The first packet was none, so there is no connection that could have ended.
            Some((_, _, code, _)) if state.received == 0 => {
                Close::plain("us", "refused", &format!("error {code:#x} on the first packet"))
            }
            Some((by, transport, code, reason)) => Close::coded(by, *transport, *code, reason),
            None if state.timed_out => Close::plain("nobody", "timeout", ""),
            None => Close::plain("us", "other", ""),
        });
    }
}
