//! The interface for both quiche crates. Their types differ; the patched crate has additional calls.

/// The largest UDP payload sent, as in tokio-quiche.
const MAX_SEND_PAYLOAD: usize = 1350;
/// The largest UDP payload received.
const MAX_RECV_PAYLOAD: usize = 1500;
/// Flow-control windows per stream and per connection, large enough never to limit a transfer.
const STREAM_WINDOW: u64 = 16 << 20;
const WINDOW: u64 = 64 << 20;
/// Limit for concurrent streams of a connection.
const STREAMS: u64 = 256;
/// Idle timeout in milliseconds, as on the other stacks.
const IDLE_TIMEOUT: u64 = 90_000;

macro_rules! quiche_crate {
    ($module:ident, $quiche:path, $($more:tt)*) => {
        pub(super) mod $module {
            use std::net::SocketAddr;
            use std::sync::Arc;
            use std::time::Instant;

            use boring::ssl::SslContextBuilder;
            use fathom_plugin::Observer;
            use $quiche as quiche;
            use quiche::h3::NameValue;
            use quiche::{ConnectionId, Error};

            use super::super::super::{TestName, Setup};
            use super::super::api::{NewConnection, CID, Http3Event, Datagram, QuicheConnection, ConnectionStatus, StreamError};
            use super::{IDLE_TIMEOUT, MAX_RECV_PAYLOAD, MAX_SEND_PAYLOAD, STREAM_WINDOW, STREAMS, WINDOW};

            pub(crate) struct Connection {
                quic: quiche::Connection,
                http: Option<quiche::h3::Connection>,
            }

            $($more)*

            fn stream_error(e: Error) -> StreamError {
                match e {
                    Error::Done | Error::StreamLimit => StreamError::Blocked,
                    _ => StreamError::Closed,
                }
            }

            fn http3_stream_error(e: quiche::h3::Error) -> StreamError {
                use quiche::h3::Error::{Done, StreamBlocked, TransportError};
                match e {
                    Done | StreamBlocked | TransportError(Error::StreamLimit | Error::Done) => StreamError::Blocked,
                    _ => StreamError::Closed,
                }
            }

            impl QuicheConnection for Connection {
                type Config = quiche::Config;

                fn config(setup: &Setup, context: SslContextBuilder, verifies: bool) -> Result<quiche::Config, String> {
                    let wrong = |e: Error| format!("quiche: {e}");
                    let mut config =
                        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context).map_err(wrong)?;
                    config.set_application_protos(&[setup.test_name.protocol()]).map_err(wrong)?;
                    config.verify_peer(verifies);
                    set_controller(&mut config, &setup.controller)?;
                    config.set_max_send_udp_payload_size(MAX_SEND_PAYLOAD);
                    config.set_max_recv_udp_payload_size(MAX_RECV_PAYLOAD);
                    config.set_max_idle_timeout(IDLE_TIMEOUT);
                    config.set_initial_max_data(WINDOW);
                    config.set_max_connection_window(WINDOW);
                    config.set_initial_max_stream_data_bidi_local(STREAM_WINDOW);
                    config.set_initial_max_stream_data_bidi_remote(STREAM_WINDOW);
                    config.set_initial_max_stream_data_uni(STREAM_WINDOW);
                    config.set_max_stream_window(STREAM_WINDOW);
                    config.set_initial_max_streams_bidi(STREAMS);
                    config.set_initial_max_streams_uni(8);
                    config.set_active_connection_id_limit(4);
                    config.grease(false);
                    if setup.test_name == TestName::ZeroRtt {
                        config.enable_early_data();
                    }
                    Ok(config)
                }

                fn connect(
                    config: &mut quiche::Config,
                    name: &str,
                    id: &[u8],
                    (local, peer): (SocketAddr, SocketAddr),
                    observer: Option<Arc<dyn Observer>>,
                ) -> Result<Self, String> {
                    set_observer(config, observer);
                    let quic = quiche::connect(Some(name), &ConnectionId::from_ref(id), local, peer, config);
                    Ok(Self { quic: quic.map_err(|e| format!("quiche: {e}"))?, http: None })
                }

                fn accept(config: &mut quiche::Config, new: &NewConnection<'_>, observer: Option<Arc<dyn Observer>>) -> Option<Self> {
                    set_observer(config, observer);
                    let id = ConnectionId::from_ref(new.id);
                    let quic = match new.retried {
                        Some((original, given)) => {
                            let ids = quiche::RetryConnectionIds {
                                original_destination_cid: &ConnectionId::from_ref(original),
                                retry_source_cid: &ConnectionId::from_ref(given),
                            };
                            quiche::accept_with_retry(&id, ids, new.local, new.peer, config)
                        }
                        None => quiche::accept(&id, None, new.local, new.peer, config),
                    };
                    Some(Self { quic: quic.ok()?, http: None })
                }

                fn on_datagram(&mut self, bytes: &mut [u8], from: SocketAddr, to: SocketAddr, ecn: u8) {
                    set_received_ecn(&mut self.quic, ecn);
                    let _ = self.quic.recv(bytes, quiche::RecvInfo { from, to });
                }

                fn poll_transmit(&mut self) -> Option<Datagram> {
                    let mut bytes = vec![0; MAX_RECV_PAYLOAD];
                    match self.quic.send(&mut bytes) {
                        Ok((len, info)) => {
                            bytes.truncate(len);
                            Some(Datagram { bytes, to: info.to, ecn: ecn_to_send(&self.quic), at: info.at })
                        }
                        Err(Error::Done) => None,
                        Err(_) => {
                            // INTERNAL_ERROR (RFC 9000 §20.1).
                            let _ = self.quic.close(false, 0x01, b"");
                            None
                        }
                    }
                }

                fn next_timeout(&self) -> Option<Instant> {
                    self.quic.timeout_instant()
                }

                fn on_timeout(&mut self) {
                    self.quic.on_timeout();
                }

                fn status(&self) -> ConnectionStatus {
                    let quic = &self.quic;
                    let by = |by: &'static str, e: Option<&quiche::ConnectionError>| {
                        e.map(|e| (by, !e.is_app, e.error_code, e.reason.clone()))
                    };
                    let stats = quic.stats();
                    let protocol = quic.application_proto();
                    ConnectionStatus {
                        established: quic.is_established(),
                        early: quic.is_in_early_data(),
                        closed: quic.is_closed() || quic.is_draining(),
                        timed_out: quic.is_timed_out(),
                        resumed: quic.is_resumed(),
                        protocol: (!protocol.is_empty()).then(|| String::from_utf8_lossy(protocol).into_owned()),
                        error: by("peer", quic.peer_error()).or_else(|| by("us", quic.local_error())),
                        sent: stats.sent_bytes,
                        received: stats.recv_bytes,
                        report: report(quic),
                    }
                }

                fn close(&mut self, code: u64) {
                    // It may be closed already.
                    let _ = self.quic.close(true, code, b"");
                }

                fn issue_connection_ids(&mut self) -> Vec<Vec<u8>> {
                    let mut given = Vec::new();
                    while self.quic.is_established() && self.quic.scids_left() > 0 {
                        let id: [u8; CID] = rand::random();
                        if self.quic.new_scid(&ConnectionId::from_ref(&id), rand::random(), false).is_err() {
                            break;
                        }
                        given.push(id.to_vec());
                    }
                    given
                }

                fn session_ticket(&self) -> Option<Vec<u8>> {
                    self.quic.session().map(<[u8]>::to_vec)
                }

                fn resume(&mut self, session_ticket: &[u8]) -> Result<(), String> {
                    self.quic.set_session(session_ticket).map_err(|e| format!("the ticket: {e}"))
                }

                fn readable(&mut self) -> Vec<u64> {
                    // quiche keeps a stream that the peer has stopped until its capacity is queried.
                    while let Some(stream) = self.quic.stream_writable_next() {
                        let _ = self.quic.stream_capacity(stream);
                    }
                    self.quic.readable().collect()
                }

                fn read(&mut self, stream: u64, into: &mut [u8]) -> Result<(usize, bool), StreamError> {
                    self.quic.stream_recv(stream, into).map_err(stream_error)
                }

                fn write(&mut self, stream: u64, bytes: &[u8], last: bool) -> Result<usize, StreamError> {
                    self.quic.stream_send(stream, bytes, last).map_err(stream_error)
                }

                fn reset(&mut self, stream: u64, code: u64) {
                    // A finished stream needs no reset.
                    let _ = self.quic.stream_shutdown(stream, quiche::Shutdown::Write, code);
                    let _ = self.quic.stream_shutdown(stream, quiche::Shutdown::Read, code);
                }

                fn can_open_stream(&self) -> bool {
                    self.quic.peer_streams_left_bidi() > 0
                }

                fn start_http3(&mut self) -> Result<(), String> {
                    if self.http.is_none() {
                        let config = quiche::h3::Config::new().map_err(|e| e.to_string())?;
                        let http = quiche::h3::Connection::with_transport(&mut self.quic, &config);
                        self.http = Some(http.map_err(|e| format!("HTTP/3: {e}"))?);
                    }
                    Ok(())
                }

                fn poll_http3(&mut self) -> Option<(u64, Http3Event)> {
                    use quiche::h3::Event as QuicheEvent;
                    let http = self.http.as_mut()?;
                    loop {
                        let (stream, event) = http.poll(&mut self.quic).ok()?;
                        let event = match event {
                            QuicheEvent::Headers { list, .. } => {
                                Http3Event::Headers(list.iter().map(|h| (h.name().to_vec(), h.value().to_vec())).collect())
                            }
                            QuicheEvent::Data => Http3Event::Data,
                            QuicheEvent::Finished => Http3Event::Finished,
                            QuicheEvent::Reset(_) => Http3Event::Reset,
                            _ => continue,
                        };
                        return Some((stream, event));
                    }
                }

                fn send_headers(&mut self, stream: Option<u64>, fields: &[(&[u8], &[u8])]) -> Result<u64, StreamError> {
                    let http = self.http.as_mut().ok_or(StreamError::Closed)?;
                    let fields: Vec<_> = fields.iter().map(|(name, value)| quiche::h3::Header::new(name, value)).collect();
                    match stream {
                        Some(stream) => {
                            http.send_response(&mut self.quic, stream, &fields, false).map(|()| stream)
                        }
                        None => http.send_request(&mut self.quic, &fields, true),
                    }
                    .map_err(http3_stream_error)
                }

                fn send_body(&mut self, stream: u64, bytes: &[u8], last: bool) -> Result<usize, StreamError> {
                    let http = self.http.as_mut().ok_or(StreamError::Closed)?;
                    http.send_body(&mut self.quic, stream, bytes, last).map_err(http3_stream_error)
                }

                fn recv_body(&mut self, stream: u64, into: &mut [u8]) -> Result<usize, StreamError> {
                    let http = self.http.as_mut().ok_or(StreamError::Closed)?;
                    http.recv_body(&mut self.quic, stream, into).map_err(http3_stream_error)
                }
            }
        }
    };
}

quiche_crate! {
    derived,
    ::quiche,
    fn set_controller(config: &mut quiche::Config, controller: &str) -> Result<(), String> {
        let wrong = |why: &dyn std::fmt::Display| format!("controller '{controller}': {why}");
        match controller.strip_prefix("native:") {
            Some(name) => config.set_cc_algorithm_name(name).map_err(|e| wrong(&e)),
            None => {
                let controller_config = fathom_cc::catalogue::parse(controller).map_err(|e| wrong(&e))?;
                config.set_cc_algorithm(quiche::fathom::algorithm_of(controller_config).map_err(|e| wrong(&e))?);
                config.enable_pacing(false);
                Ok(())
            }
        }
    }

    /// Our extension is offered with every controller.
    fn set_observer(config: &mut quiche::Config, observer: Option<Arc<dyn Observer>>) {
        config.set_fathom(quiche::fathom::ConnectionConfig { observer, ..Default::default() });
    }

    fn set_received_ecn(quic: &mut quiche::Connection, ecn: u8) {
        quic.set_received_ecn(ecn);
    }

    fn ecn_to_send(quic: &quiche::Connection) -> u8 {
        quic.ecn_to_send()
    }

    fn report(quic: &quiche::Connection) -> Option<fathom_plugin::Report> {
        quic.fathom().map(|probe| probe.report())
    }
}

quiche_crate! {
    stock,
    ::fathom_quiche_stock::quiche,
    fn set_controller(config: &mut quiche::Config, controller: &str) -> Result<(), String> {
        let wrong = |why: &dyn std::fmt::Display| format!("controller '{controller}': {why}");
        let name = controller.strip_prefix("native:").ok_or("stock quiche takes only its own, such as native:cubic");
        config.set_cc_algorithm_name(name.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))
    }

    fn set_observer(_: &mut quiche::Config, _: Option<Arc<dyn Observer>>) {}

    fn set_received_ecn(_: &mut quiche::Connection, _: u8) {}

    fn ecn_to_send(_: &quiche::Connection) -> u8 {
        0
    }

    fn report(_: &quiche::Connection) -> Option<fathom_plugin::Report> {
        None
    }
}
