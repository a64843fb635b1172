//! The same client and server on either crate.

use std::sync::OnceLock;
use std::time::Duration;

use boring::asn1::Asn1Time;
use boring::hash::MessageDigest;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::{X509, X509Name};

/// A request and its response.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) start: Duration,
    /// Bytes from the client, and bytes from the server.
    pub(crate) up: usize,
    pub(crate) down: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Application {
    /// Streams, and a DATAGRAM frame each way when an exchange begins.
    Raw,
    /// HTTP/3.
    H3,
}

/// Settings of both ends.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) application: Application,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) controller: &'static str,
    pub(crate) hystart: bool,
    pub(crate) pacing: bool,
    /// Whether to discover the path's MTU.
    pub(crate) pmtud: bool,
    pub(crate) mtu: usize,
}

/// Returns the TLS settings of either end. All keys are of one kind and there is one certificate,
/// so that every handshake has the same sizes. An RSA signature always has the same size.
pub(crate) fn tls(server: bool) -> SslContextBuilder {
    static IDENTITY: OnceLock<(X509, PKey<Private>)> = OnceLock::new();
    let mut tls = SslContextBuilder::new(SslMethod::tls()).expect("memory");
    if server {
        let (certificate, key) = IDENTITY.get_or_init(identity);
        tls.set_certificate(certificate)
            .and_then(|()| tls.set_private_key(key))
            .expect("they belong together");
    }
    tls
}

fn identity() -> (X509, PKey<Private>) {
    let make = || {
        let key = PKey::from_rsa(Rsa::generate(2048)?)?;
        let mut name = X509Name::builder()?;
        name.append_entry_by_text("CN", "quic.test")?;
        let name = name.build();
        let mut certificate = X509::builder()?;
        certificate.set_version(2)?;
        certificate.set_subject_name(&name)?;
        certificate.set_issuer_name(&name)?;
        certificate.set_pubkey(&key)?;
        certificate.set_not_before(&*Asn1Time::from_unix(0)?)?;
        certificate.set_not_after(&*Asn1Time::from_unix(4_000_000_000)?)?;
        certificate.sign(&key, MessageDigest::sha256())?;
        Ok::<_, boring::error::ErrorStack>((certificate.build(), key))
    };
    make().expect("BoringSSL makes a certificate")
}

/// Defines a module with an [`End`](crate::network::End) on that crate.
macro_rules! ends {
    ($name:ident, $quiche:ident) => {
        pub(crate) mod $name {
            use std::time::{Duration, Instant};

            use $quiche::h3::{self, NameValue};
            use $quiche::{Config, Connection, ConnectionId, RecvInfo};

            use super::{Application, Exchange, Setup, tls};
            use crate::network::{ConnectionStats, End};

            const PAYLOAD: [u8; 1 << 16] = [7; 1 << 16];

            /// Remaining work of one exchange at one end.
            struct Job {
                exchange: Exchange,
                opened: bool,
                to_send: usize,
                sent_all: bool,
                received_all: bool,
            }

            struct Endpoint {
                conn: Connection,
                /// Value of the clock at time 0.
                start: Instant,
                server: bool,
                application: Application,
                h3: Option<h3::Connection>,
                /// Jobs of the exchanges; exchange `i` uses stream `4 * i`.
                jobs: Vec<Job>,
                wake: Option<Duration>,
                read: u64,
            }

            /// Creates an end. Must be called at time 0.
            pub(crate) fn make(setup: &Setup, server: bool) -> Box<dyn End> {
                let mut config =
                    Config::with_boring_ssl_ctx_builder($quiche::PROTOCOL_VERSION, tls(server))
                        .expect("1");
                let protocols: &[&[u8]] = match setup.application {
                    Application::Raw => &[b"raw"],
                    Application::H3 => h3::APPLICATION_PROTOCOL,
                };
                config.set_application_protos(protocols).expect("short names");
                config.set_cc_algorithm_name(setup.controller).expect("stock has it");
                config.enable_hystart(setup.hystart);
                config.enable_pacing(setup.pacing);
                config.discover_pmtu(setup.pmtud);
                config.set_max_send_udp_payload_size(setup.mtu);
                config.set_max_recv_udp_payload_size(1500);
                config.set_max_idle_timeout(30_000);
                config.set_initial_max_data(1_000_000);
                config.set_initial_max_stream_data_bidi_local(300_000);
                config.set_initial_max_stream_data_bidi_remote(300_000);
                config.set_initial_max_stream_data_uni(100_000);
                config.set_initial_max_streams_bidi(100);
                config.set_initial_max_streams_uni(10);
                config.enable_dgram(true, 100, 100);
                config.verify_peer(false);
                let mut scid = [0; 16];
                scid[0] = server.into();
                let scid = ConnectionId::from_ref(&scid);
                let (here, there) = addresses(server);
                let conn = if server {
                    $quiche::accept(&scid, None, here, there, &mut config)
                } else {
                    $quiche::connect(Some("quic.test"), &scid, here, there, &mut config)
                };
                let job = |&exchange: &Exchange| Job {
                    exchange,
                    opened: false,
                    to_send: if server { exchange.down } else { exchange.up },
                    sent_all: false,
                    received_all: false,
                };
                Box::new(Endpoint {
                    conn: conn.expect("a valid configuration"),
                    start: now(),
                    server,
                    application: setup.application,
                    h3: None,
                    jobs: setup.exchanges.iter().map(job).collect(),
                    wake: None,
                    read: 0,
                })
            }

            #[allow(clippy::disallowed_methods)] // The host's clock is the simulation's here.
            fn now() -> Instant {
                Instant::now()
            }

            fn addresses(server: bool) -> (std::net::SocketAddr, std::net::SocketAddr) {
                let [a, b] = [1, 2].map(|n| std::net::SocketAddr::from(([10, 0, 0, n], 443)));
                if server { (b, a) } else { (a, b) }
            }

            impl Endpoint {
                fn read_streams(&mut self) {
                    let mut buf = [0; 1 << 14];
                    for id in self.conn.readable().collect::<Vec<_>>() {
                        while let Ok((n, fin)) = self.conn.stream_recv(id, &mut buf) {
                            self.read += n as u64;
                            self.jobs[(id / 4) as usize].received_all |= fin;
                        }
                    }
                    while let Ok(n) = self.conn.dgram_recv(&mut buf) {
                        self.read += n as u64;
                    }
                }

                fn write_streams(&mut self, now: Duration) {
                    for (id, job) in (0u64..).step_by(4).zip(&mut self.jobs) {
                        if job.sent_all || !ready(job, self.server, now) {
                            continue;
                        }
                        if !job.opened {
                            job.opened = true;
                            self.conn.dgram_send(&PAYLOAD[..200]).expect("both ends take them");
                        }
                        while !job.sent_all {
                            let part = job.to_send.min(PAYLOAD.len());
                            let fin = part == job.to_send;
                            let Ok(n) = self.conn.stream_send(id, &PAYLOAD[..part], fin) else {
                                break;
                            };
                            job.to_send -= n;
                            job.sent_all = fin && n == part;
                            if n < part {
                                break;
                            }
                        }
                    }
                }

                fn read_h3(&mut self) {
                    let Some(h3) = &mut self.h3 else { return };
                    let mut buf = [0; 1 << 14];
                    loop {
                        match h3.poll(&mut self.conn) {
                            Ok((_, h3::Event::Headers { list, .. })) => {
                                self.read += list
                                    .iter()
                                    .map(|h| (h.name().len() + h.value().len()) as u64)
                                    .sum::<u64>();
                            }
                            Ok((id, h3::Event::Data)) => {
                                while let Ok(n) = h3.recv_body(&mut self.conn, id, &mut buf) {
                                    self.read += n as u64;
                                }
                            }
                            Ok((id, h3::Event::Finished)) => {
                                self.jobs[(id / 4) as usize].received_all = true
                            }
                            Ok(other) => panic!("nobody sends that: {other:?}"),
                            Err(h3::Error::Done) => return,
                            Err(e) => panic!("{e}"),
                        }
                    }
                }

                fn write_h3(&mut self, now: Duration) {
                    let Some(h3) = &mut self.h3 else { return };
                    for (id, job) in (0u64..).step_by(4).zip(&mut self.jobs) {
                        if job.sent_all || !ready(job, self.server, now) {
                            continue;
                        }
                        let fin = job.to_send == 0;
                        if !job.opened {
                            let header = |name: &str, value: &str| {
                                h3::Header::new(name.as_bytes(), value.as_bytes())
                            };
                            job.opened = if self.server {
                                let headers = [
                                    header(":status", "200"),
                                    header("content-length", &job.to_send.to_string()),
                                ];
                                h3.send_response(&mut self.conn, id, &headers, fin).is_ok()
                            } else {
                                let headers = [
                                    header(":method", if fin { "GET" } else { "POST" }),
                                    header(":scheme", "https"),
                                    header(":authority", "quic.test"),
                                    header(":path", &format!("/{id}")),
                                ];
                                h3.send_request(&mut self.conn, &headers, fin)
                                    .is_ok_and(|stream| stream == id)
                            };
                            // Streams open in order.
                            if !job.opened {
                                return;
                            }
                            job.sent_all = fin;
                        }
                        while !job.sent_all {
                            let part = job.to_send.min(PAYLOAD.len());
                            let fin = part == job.to_send;
                            let Ok(n) = h3.send_body(&mut self.conn, id, &PAYLOAD[..part], fin)
                            else {
                                break;
                            };
                            job.to_send -= n;
                            job.sent_all = fin && n == part;
                            if n < part {
                                break;
                            }
                        }
                    }
                }
            }

            /// Returns whether to begin: a client at the exchange's start, a server after the whole
            /// request.
            fn ready(job: &Job, server: bool, now: Duration) -> bool {
                if server { job.received_all } else { job.exchange.start <= now }
            }

            impl End for Endpoint {
                fn work(&mut self, now: Duration) {
                    if !self.conn.is_established()
                        || self.conn.is_closed()
                        || self.conn.is_draining()
                    {
                        return;
                    }
                    if self.application == Application::H3 && self.h3.is_none() {
                        let config = h3::Config::new().expect("memory");
                        self.h3 = Some(
                            h3::Connection::with_transport(&mut self.conn, &config)
                                .expect("established"),
                        );
                    }
                    match self.application {
                        Application::Raw => {
                            self.read_streams();
                            self.write_streams(now);
                        }
                        Application::H3 => {
                            self.read_h3();
                            self.write_h3(now);
                        }
                    }
                    let starts = self.jobs.iter().map(|job| job.exchange.start);
                    self.wake = starts.filter(|start| !self.server && *start > now).min();
                    if !self.server && self.jobs.iter().all(|job| job.sent_all && job.received_all)
                    {
                        // An error means that the connection is closed already.
                        let _ = self.conn.close(true, 0, b"done");
                    }
                }

                fn send(&mut self, to: &mut [u8]) -> Option<(usize, Duration)> {
                    match self.conn.send(to) {
                        Ok((size, info)) => {
                            Some((size, info.at.saturating_duration_since(self.start)))
                        }
                        Err($quiche::Error::Done) => None,
                        Err(e) => panic!("{e}"),
                    }
                }

                fn receive(&mut self, datagram: &mut [u8]) {
                    let (to, from) = addresses(self.server);
                    // A closed connection does not accept the datagram.
                    let _ = self.conn.recv(datagram, RecvInfo { from, to });
                }

                fn timeout(&mut self) -> Option<Duration> {
                    self.conn.timeout()
                }

                fn time_out(&mut self) {
                    self.conn.on_timeout();
                }

                fn wake(&self) -> Option<Duration> {
                    self.wake
                }

                fn closed(&self) -> bool {
                    self.conn.is_closed()
                }

                fn stats(&self) -> ConnectionStats {
                    let all = self.conn.stats();
                    let path = self.conn.path_stats().next().expect("one path");
                    ConnectionStats {
                        sent: all.sent,
                        received: all.recv,
                        lost: all.lost,
                        spurious: all.spurious_lost,
                        retransmitted: all.stream_retrans_bytes,
                        ptos: path.total_pto_count,
                        cwnd: path.cwnd,
                        mtu: path.pmtu,
                        rtt: path.rtt,
                        variation: path.rttvar,
                        read: self.read,
                    }
                }
            }
        }
    };
}

ends!(on_stock, quiche);
ends!(on_derived, derived);
