//! The stacks on rustls. quinn and noq have the same shape under other names.

/// What a file may have on the way, per stream and per connection: flow control is not what is tested.
const STREAM_WINDOW: u32 = 16 << 20;
const WINDOW: u32 = 64 << 20;
/// Requests at once on a connection.
const STREAMS: u32 = 256;
/// A connection on which nothing happens for so long ends, in milliseconds. Where handshakes lose every third packet, the first round-trip
/// time that is measured may be a second, and the probe timeout doubles from three: most stacks' 30 s are over too soon.
const IDLE: u32 = 90_000;

macro_rules! stack {
    ($module:ident, $stack:ident, $plugs:ident, $h3:ident, $rtt:expr) => {
        pub(super) mod $module {
            use std::io;
            use std::net::SocketAddr;
            use std::sync::Arc;
            use std::time::Duration;

            use fathom_cc::catalogue;
            use fathom_net::load::wildcard_address;
            use fathom_net::native_controllers::$stack as natives;
            use fathom_plugin::with_shaping_socket;
            use $plugs::{ClientPlugin, ConnectionMonitor, PROVIDED, Plugin, ServerPlugin, ShapingSocket};
            use $stack::congestion::ControllerFactory;
            use $stack::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
            use $stack::{
                self as stack, ClientConfig, ConnectionError, EndpointConfig, Incoming, TokioRuntime, TransportConfig,
            };

            use super::super::facts::{self, Close};
            use super::super::stack::{self as seam, Ear, Early};
            use super::super::{Setup, tls};
            use super::{IDLE, STREAM_WINDOW, STREAMS, WINDOW};

            /// Where connections' crypto and controllers come from.
            enum Kind {
                PluggedClient(ClientPlugin),
                PluggedServer(ServerPlugin),
                NativeClient(Arc<QuicClientConfig>, Arc<dyn ControllerFactory + Send + Sync>),
                NativeServer(stack::ServerConfig, Arc<dyn ControllerFactory + Send + Sync>),
            }

            pub(crate) struct Endpoint {
                endpoint: stack::Endpoint,
                kind: Kind,
                /// Packets go through an outlet, which cuts them to size: their size must not change by itself.
                outlet: bool,
            }

            pub(crate) struct Connecting {
                connecting: stack::Connecting,
                probe: Option<ConnectionMonitor>,
            }

            #[derive(Clone)]
            pub(crate) struct Connection {
                connection: stack::Connection,
                probe: Option<ConnectionMonitor>,
            }

            enum Tls {
                Client(Arc<rustls::ClientConfig>),
                Server(Arc<rustls::ServerConfig>),
            }

            impl Endpoint {
                fn made(at: SocketAddr, controller: &str, tls: Tls) -> Result<Self, String> {
                    let wrong = |why: &dyn std::fmt::Display| format!("controller '{controller}': {why}");
                    let cannot = |e: io::Error| format!("cannot listen at {at}: {e}; choose another port");
                    let initial = tls::initial().ok_or("no suite for Initial packets")?;
                    let controller_config = match controller.strip_prefix("native:") {
                        Some(_) => None,
                        None => Some(catalogue::parse(controller).map_err(|e| wrong(&e))?),
                    };
                    let runtime: Arc<dyn stack::Runtime> = Arc::new(TokioRuntime);
                    let cut = controller_config
                        .as_ref()
                        .is_some_and(|r| r.check(PROVIDED).is_err() && r.check(with_shaping_socket(PROVIDED)).is_ok());
                    let outlet = cut.then(|| ShapingSocket::bind(at, &runtime)).transpose().map_err(cannot)?;
                    let plug = controller_config.map(|controller_config| match &outlet {
                        Some(outlet) => Plugin::new_with_shaping(outlet.registry(), controller_config),
                        None => Plugin::new(controller_config),
                    });
                    let plug = plug.transpose().map_err(|e| wrong(&e))?;
                    let native = || natives::named(controller.trim_start_matches("native:")).map_err(|e| wrong(&e));
                    let (kind, base) = match (plug, tls) {
                        (Some(plug), Tls::Client(tls)) => {
                            let plug = plug.client_with_initial(tls, initial).map_err(|e| wrong(&e))?;
                            (Kind::PluggedClient(plug), None)
                        }
                        (Some(plug), Tls::Server(tls)) => {
                            let plug = plug.server_with_initial(tls, initial).map_err(|e| wrong(&e))?;
                            let base = plug.config();
                            (Kind::PluggedServer(plug), Some(base))
                        }
                        (None, Tls::Client(tls)) => {
                            let crypto = QuicClientConfig::with_initial(tls, initial).map_err(|e| e.to_string())?;
                            (Kind::NativeClient(Arc::new(crypto), native()?), None)
                        }
                        (None, Tls::Server(tls)) => {
                            let crypto = QuicServerConfig::with_initial(tls, initial).map_err(|e| e.to_string())?;
                            let base = stack::ServerConfig::with_crypto(Arc::new(crypto));
                            (Kind::NativeServer(base.clone(), native()?), Some(base))
                        }
                    };
                    let cuts = outlet.is_some();
                    let config = EndpointConfig::default();
                    let endpoint = match outlet {
                        Some(outlet) => {
                            stack::Endpoint::new_with_abstract_socket(config, base, outlet.socket(), runtime)
                        }
                        None => std::net::UdpSocket::bind(at)
                            .and_then(|socket| stack::Endpoint::new(config, base, socket, runtime)),
                    };
                    Ok(Self { endpoint: endpoint.map_err(cannot)?, kind, outlet: cuts })
                }

                fn transport(&self) -> TransportConfig {
                    let mut transport = TransportConfig::default();
                    transport.max_concurrent_bidi_streams(STREAMS.into());
                    transport.max_concurrent_uni_streams(8u32.into());
                    transport.max_idle_timeout(Some(stack::VarInt::from_u32(IDLE).into()));
                    transport.stream_receive_window(STREAM_WINDOW.into());
                    transport.receive_window(WINDOW.into());
                    transport.datagram_receive_buffer_size(None);
                    if self.outlet {
                        transport.mtu_discovery_config(None);
                    }
                    transport
                }
            }

            impl seam::Stack for Endpoint {
                type Incoming = Incoming;
                type Connecting = Connecting;
                type Connection = Connection;

                fn client(setup: &Setup, tls: Arc<rustls::ClientConfig>) -> Result<Self, String> {
                    Self::made(wildcard_address(setup.address), &setup.controller, Tls::Client(tls))
                }

                fn server(setup: &Setup, tls: Arc<rustls::ServerConfig>) -> Result<Self, String> {
                    Self::made(setup.address, &setup.controller, Tls::Server(tls))
                }

                fn dial(
                    &self,
                    to: SocketAddr,
                    name: &str,
                    rtt: Option<Duration>,
                    ear: Ear,
                ) -> Result<Connecting, String> {
                    let mut transport = self.transport();
                    if let Some(rtt) = rtt {
                        // RFC 9002 §6.2.2. noq paces by it, 0-RTT too.
                        transport.initial_rtt(rtt);
                    }
                    let (config, probe) = match &self.kind {
                        Kind::PluggedClient(plug) => {
                            let (config, probe) = plug.config(transport, ear);
                            (config, Some(probe))
                        }
                        Kind::NativeClient(crypto, factory) => {
                            transport.congestion_controller_factory(Arc::clone(factory));
                            let mut config =
                                ClientConfig::new(Arc::clone(crypto) as Arc<dyn stack::crypto::ClientConfig>);
                            config.transport_config(Arc::new(transport));
                            (config, None)
                        }
                        _ => return Err("servers do not connect".into()),
                    };
                    let connecting = self.endpoint.connect_with(config, to, name).map_err(|e| e.to_string())?;
                    Ok(Connecting { connecting, probe })
                }

                async fn accept(&self) -> Option<Incoming> {
                    self.endpoint.accept().await
                }

                fn of(incoming: &Incoming) -> (SocketAddr, String, bool) {
                    (incoming.remote_address(), incoming.orig_dst_cid().to_string(), incoming.may_retry())
                }

                fn retry(incoming: Incoming) {
                    // One that may not be asked has proved its address.
                    let _ = incoming.retry();
                }

                fn take(&self, incoming: Incoming, ear: Ear) -> Result<Connecting, Close> {
                    let mut transport = self.transport();
                    let taken = match &self.kind {
                        Kind::PluggedServer(plug) => plug
                            .accept_observed(incoming, transport, ear)
                            .map(|(connecting, probe)| (connecting, Some(probe))),
                        Kind::NativeServer(config, factory) => {
                            transport.congestion_controller_factory(Arc::clone(factory));
                            let mut config = config.clone();
                            config.transport = Arc::new(transport);
                            incoming.accept_with(Arc::new(config)).map(|connecting| (connecting, None))
                        }
                        _ => return Err(Close::plain("us", "refused", "clients do not accept")),
                    };
                    taken.map(|(connecting, probe)| Connecting { connecting, probe }).map_err(|e| {
                        // The first packet was none, so there is no connection that could have ended.
                        Close::plain("us", "refused", &e.to_string())
                    })
                }

                fn early(connecting: Connecting) -> Result<(Connection, Early), Connecting> {
                    let Connecting { connecting, probe } = connecting;
                    match connecting.into_0rtt() {
                        Ok((connection, accepted)) => Ok((Connection { connection, probe }, Box::pin(accepted))),
                        Err(connecting) => Err(Connecting { connecting, probe }),
                    }
                }

                async fn complete(connecting: Connecting) -> Result<Connection, Close> {
                    let Connecting { connecting, probe } = connecting;
                    match connecting.await {
                        Ok(connection) => Ok(Connection { connection, probe }),
                        Err(e) => Err(close(&e)),
                    }
                }

                fn close(&self) {
                    self.endpoint.close(0u32.into(), b"");
                }

                async fn idle(&self) {
                    self.endpoint.wait_idle().await;
                }
            }

            impl seam::Connection for Connection {
                type Send = stack::SendStream;
                type Recv = stack::RecvStream;
                type Transport = $h3::Connection;

                async fn open(&self) -> io::Result<(stack::SendStream, stack::RecvStream, bool)> {
                    let (send, recv) = self.connection.open_bi().await?;
                    let early = recv.is_0rtt();
                    Ok((send, recv, early))
                }

                async fn next(&self) -> Option<(stack::SendStream, stack::RecvStream, bool)> {
                    let (send, recv) = self.connection.accept_bi().await.ok()?;
                    let early = recv.is_0rtt();
                    Some((send, recv, early))
                }

                fn reset(stream: &mut stack::SendStream, code: u32) {
                    // One that is over already needs none.
                    let _ = stream.reset(code.into());
                }

                fn transport(&self) -> $h3::Connection {
                    $h3::Connection::new(self.connection.clone())
                }

                fn close(&self, code: u32) {
                    self.connection.close(code.into(), b"");
                }

                fn over(&self) -> Option<Close> {
                    self.connection.close_reason().map(|e| close(&e))
                }

                async fn closed(&self) -> Close {
                    close(&self.connection.closed().await)
                }

                fn update_keys(&self) {
                    self.connection.force_key_update();
                }

                fn confirmed(&self) -> bool {
                    self.connection.stats().frame_rx.handshake_done > 0
                }

                fn rtt(&self) -> Option<Duration> {
                    ($rtt)(&self.connection)
                }

                fn tell(&self, facts: &mut facts::Connection) {
                    let stats = self.connection.stats();
                    facts.bytes_sent = Some(stats.udp_tx.bytes);
                    facts.bytes_received = Some(stats.udp_rx.bytes);
                    let data = self.connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
                    let protocol = data.and_then(|data| data.protocol);
                    facts.protocol =
                        protocol.map(|name| String::from_utf8_lossy(&name).into_owned()).or(facts.protocol.take());
                    if let Some(probe) = &self.probe {
                        facts.take_report(&probe.report());
                    }
                }
            }

            fn close(e: &ConnectionError) -> Close {
                match e {
                    ConnectionError::TransportError(e) => {
                        let code = u64::from(e.code);
                        Close::coded("us", true, code, e.reason.as_bytes())
                    }
                    ConnectionError::ConnectionClosed(c) => Close::coded("peer", true, c.error_code.into(), &c.reason),
                    ConnectionError::ApplicationClosed(c) => {
                        Close::coded("peer", false, c.error_code.into_inner(), &c.reason)
                    }
                    ConnectionError::LocallyClosed => Close::coded("us", false, 0, b""),
                    ConnectionError::TimedOut => Close::plain("nobody", "timeout", ""),
                    ConnectionError::Reset => Close::plain("peer", "reset", ""),
                    other => Close::plain("us", "other", &other.to_string()),
                }
            }
        }
    };
}

stack!(quinn, quinn, fathom_quinn, h3_quinn, |c: &quinn::Connection| Some(c.rtt()));
stack!(noq, noq, fathom_noq, h3_noq, |c: &noq::Connection| c.path_stats(noq::PathId::ZERO).map(|path| path.rtt));
