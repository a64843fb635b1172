//! The client, on stacks with rustls.

use std::future::poll_fn;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use fathom_net::connection_log::ConnectionLog;
use fathom_net::load::TicketStore;
use fathom_plugin::Observer;
use fathom_qlog::{LogFolder, VantagePoint};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::downloads::Wanted;
use super::facts::{self, Books, Close};
use super::stack::{Connection, Ear, Stack};
use super::{Case, Outcome, Setup, hq, tls};

/// Requests at once.
const AT_ONCE: usize = 256;
/// How long a ticket may take after the first file.
const TICKET: Duration = Duration::from_secs(5);
/// For a closed connection's last packet.
const FAREWELL: Duration = Duration::from_millis(500);
/// HTTP/3's code where nothing is wrong (RFC 9114 §8.1).
const NO_ERROR: u32 = 0x100;

/// Fetches what is wanted, as the test case has it.
pub(super) async fn run<S: Stack>(setup: &Arc<Setup>, books: &Arc<Books>) -> Outcome {
    match fetch::<S>(setup, books).await {
        Ok(()) => Outcome::Done,
        Err(outcome) => outcome,
    }
}

async fn fetch<S: Stack>(setup: &Arc<Setup>, books: &Arc<Books>) -> Result<(), Outcome> {
    let wrong = |e: String| Outcome::Wrong(e);
    std::fs::create_dir_all(&setup.downloads).map_err(|e| {
        wrong(format!("DOWNLOADS is '{}': {e}; set a folder that can be written to", setup.downloads.display()))
    })?;
    let (tls, tickets) = tls::client(setup).map_err(wrong)?;
    let stack = S::client(setup, tls).map_err(wrong)?;
    let logs = setup.qlog.as_deref().map(LogFolder::open).transpose().map_err(|e| wrong(e.to_string()))?;
    let client =
        Client { stack, setup: Arc::clone(setup), books: Arc::clone(books), logs, tickets, rtt: Mutex::default() };
    let all = &setup.wanted[..];
    let fetched = match setup.case {
        Case::MultiConnect => {
            let mut fetched = Ok(());
            for one in all.chunks(1) {
                fetched = client.connection(one, false).await;
                if fetched.is_err() {
                    break;
                }
            }
            fetched
        }
        case if case.resumes() => {
            let (first, rest) = all.split_at(1);
            match client.connection(first, false).await {
                Ok(()) => client.connection(rest, true).await,
                failed => failed,
            }
        }
        _ => client.connection(all, false).await,
    };
    let _ = tokio::time::timeout(FAREWELL, client.stack.idle()).await;
    if let Some(logs) = &client.logs {
        logs.finish();
    }
    fetched.map_err(Outcome::Failed)
}

struct Client<S> {
    stack: S,
    setup: Arc<Setup>,
    books: Arc<Books>,
    logs: Option<LogFolder>,
    tickets: Arc<TicketStore>,
    /// Round-trip time of the connection before.
    rtt: Mutex<Option<Duration>>,
}

impl<S: Stack> Client<S> {
    /// Fetches these over one connection; `second`: one that goes on from an earlier one.
    async fn connection(&self, wanted: &[Wanted], second: bool) -> Result<(), String> {
        let setup = &*self.setup;
        let number = self.books.begin(facts::Connection {
            peer: setup.address.to_string(),
            controller: setup.controller.clone(),
            ..facts::Connection::default()
        });
        let fetched = self.over_one(wanted, second, number).await;
        let written = self.books.write();
        fetched.and(written)
    }

    async fn over_one(&self, wanted: &[Wanted], second: bool, number: usize) -> Result<(), String> {
        let setup = &*self.setup;
        let ended = |close: Close| {
            let why = format!("no handshake: {} {} {:?} {}", close.by, close.kind, close.code, close.reason);
            self.books.note(number, |facts| facts.close = Some(close));
            why
        };
        let connecting = {
            let rtt = *self.rtt.lock().unwrap_or_else(PoisonError::into_inner);
            self.stack.dial(setup.address, &setup.server_name, rtt.filter(|_| second), self.ear(number))?
        };
        let early = second && setup.case == Case::ZeroRtt;
        let (connection, accepted) = match if early { S::early(connecting) } else { Err(connecting) } {
            Ok((connection, accepted)) => (connection, Some(accepted)),
            Err(_) if early => return Err("no ticket allows 0-RTT".into()),
            Err(connecting) => (S::complete(connecting).await.map_err(ended)?, None),
        };
        let updates = (setup.case == Case::KeyUpdate).then(|| tokio::spawn(update_keys(connection.clone())));
        let (fetched, accepted) = tokio::join!(self.files(&connection, wanted, number), async {
            match accepted {
                Some(accepted) => Some(accepted.await),
                None => None,
            }
        });
        if let Some(updates) = updates {
            updates.abort();
        }
        if fetched.is_ok() && setup.case.resumes() && !second {
            self.ticket().await?;
        }
        let mut facts = facts::Connection::default();
        self.books.note(number, |noted| {
            noted.complete = fetched.is_ok() || noted.complete;
            noted.early_data_accepted = accepted;
            connection.tell(noted);
            facts = noted.clone();
        });
        *self.rtt.lock().unwrap_or_else(PoisonError::into_inner) = connection.rtt();
        // Closing would hide it.
        let over = connection.over();
        connection.close(if setup.case == Case::Http3 { NO_ERROR } else { 0 });
        let close = over.unwrap_or(connection.closed().await);
        self.books.note(number, |facts| facts.close = Some(close));
        fetched?;
        happened(setup.case, second, &facts)
    }

    fn ear(&self, number: usize) -> Ear {
        let setup = &*self.setup;
        self.logs.as_ref().map(|logs| {
            let title = format!("fathom-endpoint: {} with {}, {}", setup.stack.name(), setup.controller, setup.case);
            let tap = ConnectionLog::open(logs, format!("{}-{number}", setup.case), VantagePoint::Client, title);
            Arc::new(tap) as Arc<dyn Observer>
        })
    }

    /// Waits for a ticket: the next connection needs one.
    async fn ticket(&self) -> Result<(), String> {
        let came = async {
            while !self.tickets.any() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TICKET, came).await.map_err(|_| "the server gave no ticket".into())
    }

    async fn files(&self, connection: &S::Connection, wanted: &[Wanted], number: usize) -> Result<(), String> {
        match self.setup.case {
            Case::Http3 => over_http3(connection, wanted, &self.books, number).await,
            _ => over_hq(connection, wanted, &self.books, number).await,
        }
    }
}

/// Updates the keys once the server has confirmed the handshake.
async fn update_keys<C: Connection>(connection: C) {
    while !connection.confirmed() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    connection.update_keys();
}

/// What the test asks for has happened, as far as this side can tell.
fn happened(case: Case, second: bool, facts: &facts::Connection) -> Result<(), String> {
    let not = |what: &str| Err(format!("all files are there, but {what}"));
    match case {
        Case::Resumption | Case::ZeroRtt if second && facts.resumed == Some(false) => not("nothing was resumed"),
        Case::ZeroRtt if second && facts.early_data_accepted != Some(true) => not("the server did not take 0-RTT"),
        Case::KeyUpdate if facts.key_updates_sent == Some(0) => not("the keys were not updated"),
        Case::KeyUpdate if facts.key_updates_received == Some(0) => not("the server did not follow the key update"),
        _ => Ok(()),
    }
}

/// Waits for tasks, and says what the first that failed says.
async fn all(mut tasks: JoinSet<Result<(), String>>) -> Result<(), String> {
    while let Some(done) = tasks.join_next().await {
        done.map_err(|e| e.to_string())??;
    }
    Ok(())
}

async fn over_hq<C: Connection>(
    connection: &C,
    wanted: &[Wanted],
    books: &Arc<Books>,
    number: usize,
) -> Result<(), String> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for one in wanted.iter().cloned() {
        // Never closed.
        let place = Arc::clone(&places).acquire_owned().await.map_err(|e| e.to_string())?;
        let (connection, books) = (connection.clone(), Arc::clone(books));
        tasks.spawn(async move {
            let fetched = async {
                let (mut send, mut recv, early) = connection.open().await?;
                send.write_all(&hq::request(one.path())).await?;
                send.shutdown().await?;
                if early {
                    books.note(number, |facts| *facts.early_requests.get_or_insert(0) += 1);
                }
                let mut file = File::create(&one.file).await?;
                tokio::io::copy(&mut recv, &mut file).await?;
                file.flush().await
            };
            let fetched = fetched.await.map_err(|e| format!("{}: {e}", one.path()));
            books.note(number, |facts| {
                facts.complete |= fetched.is_ok();
                facts.requests += u64::from(fetched.is_ok());
            });
            drop(place);
            fetched
        });
    }
    all(tasks).await
}

async fn over_http3<C: Connection>(
    connection: &C,
    wanted: &[Wanted],
    books: &Arc<Books>,
    number: usize,
) -> Result<(), String> {
    let built = h3::client::builder().send_grease(false).build::<_, _, Bytes>(connection.transport()).await;
    let (mut driver, sender) = built.map_err(|e| format!("HTTP/3: {e}"))?;
    let driver = tokio::spawn(async move {
        poll_fn(|cx| driver.poll_close(cx)).await;
    });
    let mut tasks = JoinSet::new();
    for one in wanted.iter().cloned() {
        let (mut sender, books) = (sender.clone(), Arc::clone(books));
        tasks.spawn(async move {
            let fetched = async {
                let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", one.path());
                let mut request = http::Request::new(());
                *request.uri_mut() = one.url.clone();
                let mut stream = sender.send_request(request).await.map_err(|e| wrong(&e))?;
                stream.finish().await.map_err(|e| wrong(&e))?;
                let head = stream.recv_response().await.map_err(|e| wrong(&e))?;
                if head.status() != http::StatusCode::OK {
                    return Err(wrong(&head.status()));
                }
                let mut file = create(&one.file).await?;
                while let Some(mut data) = stream.recv_data().await.map_err(|e| wrong(&e))? {
                    file.write_all_buf(&mut data.copy_to_bytes(data.remaining())).await.map_err(|e| wrong(&e))?;
                }
                file.flush().await.map_err(|e| wrong(&e))
            };
            let fetched = fetched.await;
            books.note(number, |facts| facts.requests += u64::from(fetched.is_ok()));
            fetched
        });
    }
    let fetched = all(tasks).await;
    driver.abort();
    fetched
}

async fn create(path: &Path) -> Result<File, String> {
    File::create(path).await.map_err(|e| format!("'{}': {e}", path.display()))
}
