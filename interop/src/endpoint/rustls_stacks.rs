//! quinn and noq, which have the same API under different names.

/// Flow-control windows per stream and per connection, large enough never to limit a transfer.
const STREAM_WINDOW: u32 = 16 << 20;
const WINDOW: u32 = 64 << 20;
/// Limit for concurrent streams of a connection.
const STREAMS: u32 = 256;
/// Idle timeout in milliseconds. With 30 % loss, the first round-trip time sample may be 1 s, and the probe timeout doubles from 3 s, so
/// that the usual 30 s are too short.
const IDLE_TIMEOUT: u32 = 90_000;

macro_rules! stack {
    ($module:ident, $stack:ident, $plugin:ident, $h3:ident, $rtt:expr) => {
        pub(super) mod $module {
            use std::io;
            use std::net::SocketAddr;
            use std::sync::Arc;
            use std::time::Duration;

            use fathom_cc::catalogue;
            use fathom_net::load::wildcard_address;
            use fathom_net::native_controllers::$stack as natives;
            use fathom_plugin::with_shaping_socket;
            use $plugin::{ClientPlugin, ConnectionMonitor, PROVIDED, Plugin, ServerPlugin, ShapingSocket};
            use $stack::congestion::ControllerFactory;
            use $stack::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
            use $stack::{
                self as stack, ClientConfig, ConnectionError, EndpointConfig, Incoming, TokioRuntime, TransportConfig,
            };

            use super::super::facts::{self, Close};
            use super::super::stack::{self as traits, ConnectionObserver, ZeroRttAccepted};
            use super::super::{Setup, tls};
            use super::{IDLE_TIMEOUT, STREAM_WINDOW, STREAMS, WINDOW};

            /// Creates connections' crypto and congestion controllers.
            enum Factory {
                PluginClient(ClientPlugin),
                PluginServer(ServerPlugin),
                NativeClient(Arc<QuicClientConfig>, Arc<dyn ControllerFactory + Send + Sync>),
                NativeServer(stack::ServerConfig, Arc<dyn ControllerFactory + Send + Sync>),
            }

            pub(crate) struct Endpoint {
                endpoint: stack::Endpoint,
                factory: Factory,
                /// Packets go through a shaping socket, which sets their size: MTU discovery must be off.
                shaping: bool,
            }

            pub(crate) struct Connecting {
                connecting: stack::Connecting,
                monitor: Option<ConnectionMonitor>,
            }

            #[derive(Clone)]
            pub(crate) struct Connection {
                connection: stack::Connection,
                monitor: Option<ConnectionMonitor>,
            }

            enum Tls {
                Client(Arc<rustls::ClientConfig>),
                Server(Arc<rustls::ServerConfig>),
            }

            impl Endpoint {
                fn new(at: SocketAddr, controller: &str, tls: Tls) -> Result<Self, String> {
                    let wrong = |why: &dyn std::fmt::Display| format!("controller '{controller}': {why}");
                    let cannot = |e: io::Error| format!("cannot listen at {at}: {e}; choose another port");
                    let initial = tls::initial().ok_or("no cipher suite for Initial packets")?;
                    let controller_config = match controller.strip_prefix("native:") {
                        Some(_) => None,
                        None => Some(catalogue::parse(controller).map_err(|e| wrong(&e))?),
                    };
                    let runtime: Arc<dyn stack::Runtime> = Arc::new(TokioRuntime);
                    let needs_shaping = controller_config
                        .as_ref()
                        .is_some_and(|r| r.check(PROVIDED).is_err() && r.check(with_shaping_socket(PROVIDED)).is_ok());
                    let shaping_socket =
                        needs_shaping.then(|| ShapingSocket::bind(at, &runtime)).transpose().map_err(cannot)?;
                    let plugin = controller_config.map(|controller_config| match &shaping_socket {
                        Some(shaping_socket) => Plugin::new_with_shaping(shaping_socket.registry(), controller_config),
                        None => Plugin::new(controller_config),
                    });
                    let plugin = plugin.transpose().map_err(|e| wrong(&e))?;
                    let native = || natives::named(controller.trim_start_matches("native:")).map_err(|e| wrong(&e));
                    let (factory, base) = match (plugin, tls) {
                        (Some(plugin), Tls::Client(tls)) => {
                            let plugin = plugin.client_with_initial(tls, initial).map_err(|e| wrong(&e))?;
                            (Factory::PluginClient(plugin), None)
                        }
                        (Some(plugin), Tls::Server(tls)) => {
                            let plugin = plugin.server_with_initial(tls, initial).map_err(|e| wrong(&e))?;
                            let base = plugin.config();
                            (Factory::PluginServer(plugin), Some(base))
                        }
                        (None, Tls::Client(tls)) => {
                            let crypto = QuicClientConfig::with_initial(tls, initial).map_err(|e| e.to_string())?;
                            (Factory::NativeClient(Arc::new(crypto), native()?), None)
                        }
                        (None, Tls::Server(tls)) => {
                            let crypto = QuicServerConfig::with_initial(tls, initial).map_err(|e| e.to_string())?;
                            let base = stack::ServerConfig::with_crypto(Arc::new(crypto));
                            (Factory::NativeServer(base.clone(), native()?), Some(base))
                        }
                    };
                    let shaping = shaping_socket.is_some();
                    let config = EndpointConfig::default();
                    let endpoint = match shaping_socket {
                        Some(shaping_socket) => {
                            stack::Endpoint::new_with_abstract_socket(config, base, shaping_socket.socket(), runtime)
                        }
                        None => std::net::UdpSocket::bind(at)
                            .and_then(|socket| stack::Endpoint::new(config, base, socket, runtime)),
                    };
                    Ok(Self { endpoint: endpoint.map_err(cannot)?, factory, shaping })
                }

                fn transport(&self) -> TransportConfig {
                    let mut transport = TransportConfig::default();
                    transport.max_concurrent_bidi_streams(STREAMS.into());
                    transport.max_concurrent_uni_streams(8u32.into());
                    transport.max_idle_timeout(Some(stack::VarInt::from_u32(IDLE_TIMEOUT).into()));
                    transport.stream_receive_window(STREAM_WINDOW.into());
                    transport.receive_window(WINDOW.into());
                    transport.datagram_receive_buffer_size(None);
                    if self.shaping {
                        transport.mtu_discovery_config(None);
                    }
                    transport
                }
            }

            impl traits::QuicEndpoint for Endpoint {
                type Incoming = Incoming;
                type Connecting = Connecting;
                type Connection = Connection;

                fn client(setup: &Setup, tls: Arc<rustls::ClientConfig>) -> Result<Self, String> {
                    Self::new(wildcard_address(setup.address), &setup.controller, Tls::Client(tls))
                }

                fn server(setup: &Setup, tls: Arc<rustls::ServerConfig>) -> Result<Self, String> {
                    Self::new(setup.address, &setup.controller, Tls::Server(tls))
                }

                fn connect(
                    &self,
                    to: SocketAddr,
                    name: &str,
                    rtt: Option<Duration>,
                    observer: ConnectionObserver,
                ) -> Result<Connecting, String> {
                    let mut transport = self.transport();
                    if let Some(rtt) = rtt {
                        // RFC 9002 §6.2.2. noq paces by it, also in 0-RTT.
                        transport.initial_rtt(rtt);
                    }
                    let (config, monitor) = match &self.factory {
                        Factory::PluginClient(plugin) => {
                            let (config, monitor) = plugin.config(transport, observer);
                            (config, Some(monitor))
                        }
                        Factory::NativeClient(crypto, factory) => {
                            transport.congestion_controller_factory(Arc::clone(factory));
                            let mut config =
                                ClientConfig::new(Arc::clone(crypto) as Arc<dyn stack::crypto::ClientConfig>);
                            config.transport_config(Arc::new(transport));
                            (config, None)
                        }
                        _ => return Err("a server does not connect".into()),
                    };
                    let connecting = self.endpoint.connect_with(config, to, name).map_err(|e| e.to_string())?;
                    Ok(Connecting { connecting, monitor })
                }

                async fn accept(&self) -> Option<Incoming> {
                    self.endpoint.accept().await
                }

                fn incoming_info(incoming: &Incoming) -> (SocketAddr, String, bool) {
                    (incoming.remote_address(), incoming.orig_dst_cid().to_string(), incoming.may_retry())
                }

                fn retry(incoming: Incoming) {
                    // Fails only if the address is already validated.
                    let _ = incoming.retry();
                }

                fn begin_handshake(
                    &self,
                    incoming: Incoming,
                    observer: ConnectionObserver,
                ) -> Result<Connecting, Close> {
                    let mut transport = self.transport();
                    let accepted = match &self.factory {
                        Factory::PluginServer(plugin) => plugin
                            .accept_observed(incoming, transport, observer)
                            .map(|(connecting, monitor)| (connecting, Some(monitor))),
                        Factory::NativeServer(config, factory) => {
                            transport.congestion_controller_factory(Arc::clone(factory));
                            let mut config = config.clone();
                            config.transport = Arc::new(transport);
                            incoming.accept_with(Arc::new(config)).map(|connecting| (connecting, None))
                        }
                        _ => return Err(Close::without_code("us", "refused", "a client does not accept connections")),
                    };
                    accepted.map(|(connecting, monitor)| Connecting { connecting, monitor }).map_err(|e| {
                        // The first packet was invalid, so there is no connection.
                        Close::without_code("us", "refused", &e.to_string())
                    })
                }

                fn into_0rtt(connecting: Connecting) -> Result<(Connection, ZeroRttAccepted), Connecting> {
                    let Connecting { connecting, monitor } = connecting;
                    match connecting.into_0rtt() {
                        Ok((connection, accepted)) => Ok((Connection { connection, monitor }, Box::pin(accepted))),
                        Err(connecting) => Err(Connecting { connecting, monitor }),
                    }
                }

                async fn handshake(connecting: Connecting) -> Result<Connection, Close> {
                    let Connecting { connecting, monitor } = connecting;
                    match connecting.await {
                        Ok(connection) => Ok(Connection { connection, monitor }),
                        Err(e) => Err(close(&e)),
                    }
                }

                fn close(&self) {
                    self.endpoint.close(0u32.into(), b"");
                }

                async fn wait_idle(&self) {
                    self.endpoint.wait_idle().await;
                }
            }

            impl traits::QuicConnection for Connection {
                type Send = stack::SendStream;
                type Recv = stack::RecvStream;
                type H3Transport = $h3::Connection;

                async fn open_bi(&self) -> io::Result<(stack::SendStream, stack::RecvStream, bool)> {
                    let (send, recv) = self.connection.open_bi().await?;
                    let early = recv.is_0rtt();
                    Ok((send, recv, early))
                }

                async fn accept_bi(&self) -> Option<(stack::SendStream, stack::RecvStream, bool)> {
                    let (send, recv) = self.connection.accept_bi().await.ok()?;
                    let early = recv.is_0rtt();
                    Some((send, recv, early))
                }

                fn reset(stream: &mut stack::SendStream, code: u32) {
                    // A finished stream needs no reset.
                    let _ = stream.reset(code.into());
                }

                fn h3_transport(&self) -> $h3::Connection {
                    $h3::Connection::new(self.connection.clone())
                }

                fn close(&self, code: u32) {
                    self.connection.close(code.into(), b"");
                }

                fn close_reason(&self) -> Option<Close> {
                    self.connection.close_reason().map(|e| close(&e))
                }

                async fn closed(&self) -> Close {
                    close(&self.connection.closed().await)
                }

                fn update_keys(&self) {
                    self.connection.force_key_update();
                }

                fn handshake_confirmed(&self) -> bool {
                    self.connection.stats().frame_rx.handshake_done > 0
                }

                fn rtt(&self) -> Option<Duration> {
                    ($rtt)(&self.connection)
                }

                fn record_facts(&self, facts: &mut facts::Connection) {
                    let stats = self.connection.stats();
                    facts.bytes_sent = Some(stats.udp_tx.bytes);
                    facts.bytes_received = Some(stats.udp_rx.bytes);
                    let data = self.connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
                    let protocol = data.and_then(|data| data.protocol);
                    facts.protocol =
                        protocol.map(|name| String::from_utf8_lossy(&name).into_owned()).or(facts.protocol.take());
                    if let Some(monitor) = &self.monitor {
                        facts.add_monitor_report(&monitor.report());
                    }
                }
            }

            fn close(e: &ConnectionError) -> Close {
                match e {
                    ConnectionError::TransportError(e) => {
                        let code = u64::from(e.code);
                        Close::with_code("us", true, code, e.reason.as_bytes())
                    }
                    ConnectionError::ConnectionClosed(c) => {
                        Close::with_code("peer", true, c.error_code.into(), &c.reason)
                    }
                    ConnectionError::ApplicationClosed(c) => {
                        Close::with_code("peer", false, c.error_code.into_inner(), &c.reason)
                    }
                    ConnectionError::LocallyClosed => Close::with_code("us", false, 0, b""),
                    ConnectionError::TimedOut => Close::without_code("nobody", "timeout", ""),
                    ConnectionError::Reset => Close::without_code("peer", "reset", ""),
                    other => Close::without_code("us", "other", &other.to_string()),
                }
            }
        }
    };
}

stack!(quinn, quinn, fathom_quinn, h3_quinn, |c: &quinn::Connection| Some(c.rtt()));
stack!(noq, noq, fathom_noq, h3_noq, |c: &noq::Connection| c.path_stats(noq::PathId::ZERO).map(|path| path.rtt));
