//! The client, which runs on any stack.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fathom_http::connection_log::ConnectionLog;
use fathom_http3::{Config, client};
use fathom_plugin::Observer;
use fathom_qlog::{LogFolder, VantagePoint};
use fathom_stacks::{Connecting, Connection, Endpoint, ReadOrder};
use parking_lot::Mutex;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::error::{InputError, RequestError, TestError};
use super::facts::{self, Close, FactsLog};
use super::request::Request;
use super::stack_endpoint::{self, OpenEndpoint};
use super::{Outcome, Setup, TestName, hq};

/// Maximum number of concurrent requests.
const MAX_CONCURRENT: usize = 256;
/// Time limit for receiving a session ticket after the first file.
const TICKET_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for closed connections to drain.
const DRAIN: Duration = Duration::from_millis(500);
/// Error code H3_NO_ERROR of HTTP/3 (RFC 9114 §8.1).
const NO_ERROR: u32 = 0x100;

/// Fetches all requests as the test requires.
pub(super) async fn run<E: Endpoint>(
    open: impl FnOnce(&Setup) -> Result<OpenEndpoint<E>, InputError>,
    setup: &Arc<Setup>,
    facts_log: &Arc<FactsLog>,
) -> Outcome {
    let client = match Client::new(open, setup, facts_log) {
        Ok(client) => client,
        Err(error) => return Outcome::InvalidInput(error.to_string()),
    };
    match client.fetch(&setup.requests).await {
        Ok(()) => Outcome::Success,
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

struct Client<E> {
    endpoint: OpenEndpoint<E>,
    setup: Arc<Setup>,
    facts_log: Arc<FactsLog>,
    logs: Option<LogFolder>,
    /// Round-trip time of the previous connection.
    rtt: Mutex<Option<Duration>>,
}

impl<E: Endpoint> Client<E> {
    fn new(
        open: impl FnOnce(&Setup) -> Result<OpenEndpoint<E>, InputError>,
        setup: &Arc<Setup>,
        facts_log: &Arc<FactsLog>,
    ) -> Result<Self, InputError> {
        std::fs::create_dir_all(&setup.downloads).map_err(|why| {
            let path = setup.downloads.clone();
            InputError::Downloads { path, why }
        })?;
        Ok(Self {
            endpoint: open(setup)?,
            setup: Arc::clone(setup),
            facts_log: Arc::clone(facts_log),
            logs: setup.qlog.as_deref().map(LogFolder::open).transpose()?,
            rtt: Mutex::default(),
        })
    }

    /// Fetches all requests, on as many connections as the test requires.
    async fn fetch(&self, all: &[Request]) -> Result<(), TestError> {
        let fetched = match self.setup.test_name {
            TestName::MultiConnect => {
                let mut fetched = Ok(());
                for one in all.chunks(1) {
                    fetched = self.connection(one, false).await;
                    if fetched.is_err() {
                        break;
                    }
                }
                fetched
            }
            test_name if test_name.resumes() => {
                let (first, rest) = all.split_at(1);
                match self.connection(first, false).await {
                    Ok(()) => self.connection(rest, true).await,
                    failed => failed,
                }
            }
            _ => self.connection(all, false).await,
        };
        let _ = tokio::time::timeout(DRAIN, self.endpoint.endpoint.wait_idle()).await;
        if let Some(logs) = &self.logs {
            logs.finish();
        }
        fetched
    }

    /// Fetches `requests` over one connection. `second` is true if the connection resumes the
    /// session of the first one.
    async fn connection(&self, requests: &[Request], second: bool) -> Result<(), TestError> {
        let setup = &*self.setup;
        let number = self.facts_log.add(facts::Connection {
            peer: setup.address.to_string(),
            controller: setup.controller.clone(),
            ..facts::Connection::default()
        });
        let fetched = self.fetch_over(requests, second, number).await;
        let written = self.facts_log.write();
        fetched.and(written.map_err(TestError::from))
    }

    async fn fetch_over(
        &self,
        requests: &[Request],
        second: bool,
        number: usize,
    ) -> Result<(), TestError> {
        let setup = &*self.setup;
        let ended = |close: Close| {
            self.facts_log.update(number, |facts| facts.close = Some(close.clone()));
            TestError::NoHandshake(close)
        };
        let rtt = self.rtt.lock().filter(|_| second);
        let connecting = self
            .endpoint
            .endpoint
            .connect(setup.address, &setup.server_name, rtt, self.observer(number))
            .map_err(|why| TestError::NotStarted(why.to_string()))?;
        let early = second && setup.test_name == TestName::ZeroRtt;
        let (connection, accepted) =
            match if early { connecting.into_0rtt() } else { Err(connecting) } {
                Ok((connection, accepted)) => (connection, Some(accepted)),
                Err(_) if early => return Err(TestError::NoEarlyData),
                Err(connecting) => (connecting.await.map_err(|close| ended(close.into()))?, None),
            };
        let updates = (setup.test_name == TestName::KeyUpdate)
            .then(|| tokio::spawn(update_keys(connection.clone())));
        let (fetched, accepted) = tokio::join!(self.files(&connection, requests, number), async {
            match accepted {
                Some(accepted) => Some(accepted.await),
                None => None,
            }
        });
        if let Some(updates) = updates {
            updates.abort();
        }
        if fetched.is_ok() && setup.test_name.resumes() && !second {
            self.ticket().await?;
        }
        let mut facts = facts::Connection::default();
        self.facts_log.update(number, |noted| {
            noted.complete = fetched.is_ok() || noted.complete;
            noted.early_data_accepted = accepted;
            stack_endpoint::record(&connection, noted);
            facts = noted.clone();
        });
        *self.rtt.lock() = connection.stats().rtt;
        // Read the reason before closing the connection, because the close would replace it.
        let reason = connection.close_reason();
        connection.close(if setup.test_name == TestName::Http3 { NO_ERROR } else { 0 });
        let close = reason.unwrap_or(connection.closed().await).into();
        self.facts_log.update(number, |facts| facts.close = Some(close));
        fetched?;
        check_requirements(setup.test_name, second, &facts)
    }

    fn observer(&self, number: usize) -> Option<Arc<dyn Observer>> {
        let setup = &*self.setup;
        self.logs.as_ref().map(|logs| {
            let title = format!(
                "fathom-endpoint: {} with {}, {}",
                setup.stack.name(),
                setup.controller,
                setup.test_name
            );
            let tap = ConnectionLog::open(
                logs,
                format!("{}-{number}", setup.test_name),
                VantagePoint::Client,
                title,
            );
            Arc::new(tap) as Arc<dyn Observer>
        })
    }

    /// Waits for a session ticket, which the next connection needs.
    async fn ticket(&self) -> Result<(), TestError> {
        let received = async {
            while !(self.endpoint.has_ticket)() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(TICKET_TIMEOUT, received).await.map_err(|_| TestError::NoTicket)
    }

    async fn files(
        &self,
        connection: &E::Connection,
        requests: &[Request],
        number: usize,
    ) -> Result<(), TestError> {
        match self.setup.test_name {
            TestName::Http3 => fetch_http3(connection, requests, &self.facts_log, number).await,
            _ => fetch_hq(connection, requests, &self.facts_log, number).await,
        }
    }
}

/// Starts a key update once the handshake is confirmed.
async fn update_keys<C: Connection>(connection: C) {
    while !connection.handshake_confirmed() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    connection.update_keys();
}

/// Checks the test's requirements that this endpoint can observe.
fn check_requirements(
    test_name: TestName,
    second: bool,
    facts: &facts::Connection,
) -> Result<(), TestError> {
    let not = |what| Err(TestError::Requirement(what));
    match test_name {
        TestName::Resumption | TestName::ZeroRtt if second && facts.resumed == Some(false) => {
            not("the session was not resumed")
        }
        TestName::ZeroRtt if second && facts.early_data_accepted != Some(true) => {
            not("the server did not accept 0-RTT")
        }
        TestName::KeyUpdate if facts.key_updates_sent == Some(0) => {
            not("the keys were not updated")
        }
        TestName::KeyUpdate if facts.key_updates_received == Some(0) => {
            not("the server did not follow the key update")
        }
        _ => Ok(()),
    }
}

/// Waits for all tasks and returns the first error.
async fn all(mut tasks: JoinSet<Result<(), TestError>>) -> Result<(), TestError> {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn fetch_hq<C: Connection>(
    connection: &C,
    requests: &[Request],
    facts_log: &Arc<FactsLog>,
    number: usize,
) -> Result<(), TestError> {
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT));
    let mut tasks = JoinSet::new();
    for one in requests.iter().cloned() {
        // The semaphore is never closed.
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let (connection, facts_log) = (connection.clone(), Arc::clone(facts_log));
        tasks.spawn(async move {
            let fetched = async {
                let (mut send, mut recv, early) = connection.open_bi().await?;
                send.write_all(&hq::request(one.path())).await?;
                send.shutdown().await?;
                if early {
                    facts_log.update(number, |facts| *facts.early_requests.get_or_insert(0) += 1);
                }
                let mut file = File::create(&one.file).await?;
                tokio::io::copy(&mut recv, &mut file).await?;
                file.flush().await
            };
            let fetched: io::Result<()> = fetched.await;
            let fetched = fetched.map_err(|e| TestError::Request(one.path().into(), e.into()));
            facts_log.update(number, |facts| {
                facts.complete |= fetched.is_ok();
                facts.requests += u64::from(fetched.is_ok());
            });
            drop(permit);
            fetched
        });
    }
    all(tasks).await
}

async fn fetch_http3<C: Connection>(
    connection: &C,
    requests: &[Request],
    facts_log: &Arc<FactsLog>,
    number: usize,
) -> Result<(), TestError> {
    let (mut http, sender) =
        client::Connection::new(connection.http(ReadOrder::Ordered), Config::default());
    let mut tasks = JoinSet::new();
    for one in requests.iter().cloned() {
        let (mut sender, facts_log) = (sender.clone(), Arc::clone(facts_log));
        tasks.spawn(async move {
            let fetched = async {
                let mut request = http::Request::new(());
                *request.uri_mut() = one.url.clone();
                let mut stream = sender.send(&request, Bytes::new()).await?;
                stream.head().await?;
                let status = stream.response()?.status();
                if status != http::StatusCode::OK {
                    return Err(RequestError::Status(status));
                }
                let mut file = File::create(&one.file).await?;
                while let Some(data) = stream.data().await? {
                    file.write_all(&data).await?;
                }
                Ok(file.flush().await?)
            };
            let fetched = fetched.await.map_err(|e| TestError::Request(one.path().into(), e));
            facts_log.update(number, |facts| facts.requests += u64::from(fetched.is_ok()));
            fetched
        });
    }
    let mut fetched = pin!(all(tasks));
    let mut open = true;
    let fetched = poll_fn(|cx| {
        open = open && http.poll_close(cx).is_pending();
        fetched.as_mut().poll(cx)
    })
    .await;
    // The caller closes the connection after it has recorded the facts.
    drop(http.into_transport());
    fetched
}
