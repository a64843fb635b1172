//! How both crates do it. Their types differ, their calls do not, but for what the derived one has more.

/// The largest packet sent, as tokio-quiche has it.
const PACKET: usize = 1350;
/// The largest taken.
const LARGEST: usize = 1500;
/// What files may have on the way, per stream and per connection: flow control is not what is tested.
const STREAM_WINDOW: u64 = 16 << 20;
const WINDOW: u64 = 64 << 20;
/// Requests at once on a connection.
const STREAMS: u64 = 256;
/// A connection on which nothing happens for so long ends, in milliseconds; as on the other stacks.
const IDLE: u64 = 90_000;

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

            use super::super::super::{Case, Setup};
            use super::super::seam::{Begun, CID, Event, Letter, Quic, State, Trouble};
            use super::{IDLE, LARGEST, PACKET, STREAM_WINDOW, STREAMS, WINDOW};

            pub(crate) struct Connection {
                quic: quiche::Connection,
                http: Option<quiche::h3::Connection>,
            }

            $($more)*

            fn trouble(e: Error) -> Trouble {
                match e {
                    Error::Done | Error::StreamLimit => Trouble::Done,
                    _ => Trouble::Over,
                }
            }

            fn http_trouble(e: quiche::h3::Error) -> Trouble {
                use quiche::h3::Error::{Done, StreamBlocked, TransportError};
                match e {
                    Done | StreamBlocked | TransportError(Error::StreamLimit | Error::Done) => Trouble::Done,
                    _ => Trouble::Over,
                }
            }

            impl Quic for Connection {
                type Config = quiche::Config;

                fn config(setup: &Setup, context: SslContextBuilder, verifies: bool) -> Result<quiche::Config, String> {
                    let wrong = |e: Error| format!("quiche: {e}");
                    let mut config =
                        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context).map_err(wrong)?;
                    config.set_application_protos(&[setup.case.protocol()]).map_err(wrong)?;
                    config.verify_peer(verifies);
                    choose(&mut config, &setup.controller)?;
                    config.set_max_send_udp_payload_size(PACKET);
                    config.set_max_recv_udp_payload_size(LARGEST);
                    config.set_max_idle_timeout(IDLE);
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
                    if setup.case == Case::ZeroRtt {
                        config.enable_early_data();
                    }
                    Ok(config)
                }

                fn connect(
                    config: &mut quiche::Config,
                    name: &str,
                    id: &[u8],
                    (local, peer): (SocketAddr, SocketAddr),
                    ear: Option<Arc<dyn Observer>>,
                ) -> Result<Self, String> {
                    listen(config, ear);
                    let quic = quiche::connect(Some(name), &ConnectionId::from_ref(id), local, peer, config);
                    Ok(Self { quic: quic.map_err(|e| format!("quiche: {e}"))?, http: None })
                }

                fn accept(config: &mut quiche::Config, begun: &Begun<'_>, ear: Option<Arc<dyn Observer>>) -> Option<Self> {
                    listen(config, ear);
                    let id = ConnectionId::from_ref(begun.id);
                    let quic = match begun.retried {
                        Some((original, given)) => {
                            let ids = quiche::RetryConnectionIds {
                                original_destination_cid: &ConnectionId::from_ref(original),
                                retry_source_cid: &ConnectionId::from_ref(given),
                            };
                            quiche::accept_with_retry(&id, ids, begun.local, begun.peer, config)
                        }
                        None => quiche::accept(&id, None, begun.local, begun.peer, config),
                    };
                    Some(Self { quic: quic.ok()?, http: None })
                }

                fn take(&mut self, bytes: &mut [u8], from: SocketAddr, to: SocketAddr, ecn: u8) {
                    received(&mut self.quic, ecn);
                    let _ = self.quic.recv(bytes, quiche::RecvInfo { from, to });
                }

                fn give(&mut self) -> Option<Letter> {
                    let mut bytes = vec![0; LARGEST];
                    match self.quic.send(&mut bytes) {
                        Ok((len, info)) => {
                            bytes.truncate(len);
                            Some(Letter { bytes, to: info.to, ecn: marking(&self.quic), at: info.at })
                        }
                        Err(Error::Done) => None,
                        Err(_) => {
                            // It cannot go on: INTERNAL_ERROR (RFC 9000 §20.1).
                            let _ = self.quic.close(false, 0x01, b"");
                            None
                        }
                    }
                }

                fn due(&self) -> Option<Instant> {
                    self.quic.timeout_instant()
                }

                fn tick(&mut self) {
                    self.quic.on_timeout();
                }

                fn state(&self) -> State {
                    let quic = &self.quic;
                    let by = |by: &'static str, e: Option<&quiche::ConnectionError>| {
                        e.map(|e| (by, !e.is_app, e.error_code, e.reason.clone()))
                    };
                    let stats = quic.stats();
                    let protocol = quic.application_proto();
                    State {
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

                fn more_ids(&mut self) -> Vec<Vec<u8>> {
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

                fn ticket(&self) -> Option<Vec<u8>> {
                    self.quic.session().map(<[u8]>::to_vec)
                }

                fn resume(&mut self, ticket: &[u8]) -> Result<(), String> {
                    self.quic.set_session(ticket).map_err(|e| format!("the ticket: {e}"))
                }

                fn readable(&mut self) -> Vec<u64> {
                    // A stream that the peer has stopped is kept until somebody has asked for it.
                    while let Some(stream) = self.quic.stream_writable_next() {
                        let _ = self.quic.stream_capacity(stream);
                    }
                    self.quic.readable().collect()
                }

                fn read(&mut self, stream: u64, into: &mut [u8]) -> Result<(usize, bool), Trouble> {
                    self.quic.stream_recv(stream, into).map_err(trouble)
                }

                fn write(&mut self, stream: u64, bytes: &[u8], last: bool) -> Result<usize, Trouble> {
                    self.quic.stream_send(stream, bytes, last).map_err(trouble)
                }

                fn reset(&mut self, stream: u64, code: u64) {
                    // What is over already needs none.
                    let _ = self.quic.stream_shutdown(stream, quiche::Shutdown::Write, code);
                    let _ = self.quic.stream_shutdown(stream, quiche::Shutdown::Read, code);
                }

                fn may_open(&self) -> bool {
                    self.quic.peer_streams_left_bidi() > 0
                }

                fn http(&mut self) -> Result<(), String> {
                    if self.http.is_none() {
                        let config = quiche::h3::Config::new().map_err(|e| e.to_string())?;
                        let http = quiche::h3::Connection::with_transport(&mut self.quic, &config);
                        self.http = Some(http.map_err(|e| format!("HTTP/3: {e}"))?);
                    }
                    Ok(())
                }

                fn event(&mut self) -> Option<(u64, Event)> {
                    use quiche::h3::Event as Said;
                    let http = self.http.as_mut()?;
                    loop {
                        let (stream, event) = http.poll(&mut self.quic).ok()?;
                        let event = match event {
                            Said::Headers { list, .. } => {
                                Event::Head(list.iter().map(|h| (h.name().to_vec(), h.value().to_vec())).collect())
                            }
                            Said::Data => Event::Data,
                            Said::Finished => Event::Finished,
                            Said::Reset(_) => Event::Reset,
                            _ => continue,
                        };
                        return Some((stream, event));
                    }
                }

                fn head(&mut self, stream: Option<u64>, fields: &[(&[u8], &[u8])]) -> Result<u64, Trouble> {
                    let http = self.http.as_mut().ok_or(Trouble::Over)?;
                    let fields: Vec<_> = fields.iter().map(|(name, value)| quiche::h3::Header::new(name, value)).collect();
                    match stream {
                        Some(stream) => {
                            http.send_response(&mut self.quic, stream, &fields, false).map(|()| stream)
                        }
                        None => http.send_request(&mut self.quic, &fields, true),
                    }
                    .map_err(http_trouble)
                }

                fn body(&mut self, stream: u64, bytes: &[u8], last: bool) -> Result<usize, Trouble> {
                    let http = self.http.as_mut().ok_or(Trouble::Over)?;
                    http.send_body(&mut self.quic, stream, bytes, last).map_err(http_trouble)
                }

                fn read_body(&mut self, stream: u64, into: &mut [u8]) -> Result<usize, Trouble> {
                    let http = self.http.as_mut().ok_or(Trouble::Over)?;
                    http.recv_body(&mut self.quic, stream, into).map_err(http_trouble)
                }
            }
        }
    };
}

quiche_crate! {
    derived,
    ::quiche,
    fn choose(config: &mut quiche::Config, controller: &str) -> Result<(), String> {
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

    /// Whatever the controller, our extension is offered.
    fn listen(config: &mut quiche::Config, observer: Option<Arc<dyn Observer>>) {
        config.set_fathom(quiche::fathom::ConnectionConfig { observer, ..Default::default() });
    }

    fn received(quic: &mut quiche::Connection, ecn: u8) {
        quic.set_received_ecn(ecn);
    }

    fn marking(quic: &quiche::Connection) -> u8 {
        quic.ecn_to_send()
    }

    fn report(quic: &quiche::Connection) -> Option<fathom_plugin::Report> {
        quic.fathom().map(|probe| probe.report())
    }
}

quiche_crate! {
    stock,
    ::fathom_quiche_stock::quiche,
    fn choose(config: &mut quiche::Config, controller: &str) -> Result<(), String> {
        let wrong = |why: &dyn std::fmt::Display| format!("controller '{controller}': {why}");
        let name = controller.strip_prefix("native:").ok_or("stock quiche takes only its own, such as native:cubic");
        config.set_cc_algorithm_name(name.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))
    }

    fn listen(_: &mut quiche::Config, _: Option<Arc<dyn Observer>>) {}

    fn received(_: &mut quiche::Connection, _: u8) {}

    fn marking(_: &quiche::Connection) -> u8 {
        0
    }

    fn report(_: &quiche::Connection) -> Option<fathom_plugin::Report> {
        None
    }
}
