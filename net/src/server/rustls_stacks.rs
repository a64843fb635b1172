//! [`ServerStack`](super::stack::ServerStack) for quinn and noq, which have the same API under other names.

macro_rules! server_stack {
    ($module:ident, $stack:ident, $adapter:ident, $h3:ident) => {
        pub(super) mod $module {
            use std::io;
            use std::net::SocketAddr;
            use std::sync::Arc;
            use std::task::{Context, Poll};

            use bytes::Bytes;
            use fathom_cc::catalogue;
            use fathom_plugin::{Extension, Observer, with_shaping_socket};
            use h3::quic::StreamErrorIncoming;
            use $adapter::{self as adapter, ConnectionMonitor, Plugin, ServerPlugin, ShapingSocket};
            use $stack::congestion::ControllerFactory;
            use $stack::crypto::rustls::QuicServerConfig;
            use $stack::{self as stack, Endpoint, EndpointConfig, Incoming, TokioRuntime, TransportConfig};

            use super::super::response::Delivery;
            use super::super::response_stream::ResponseStream;
            use super::super::stack::{HandshakeCompletion, with_monitor_report};
            use super::super::{SetupError, WINDOW, stream_window};
            use crate::controller_shares::ControllerShares;
            use crate::limits::Limits;
            use crate::metrics::ConnectionStats;
            use crate::native_controllers::$stack as natives;
            use crate::udp::{self, SocketBuffers};

            /// How connections of one share are accepted.
            enum ShareConfig {
                Fathom(ServerPlugin),
                Native(stack::ServerConfig, Arc<dyn ControllerFactory + Send + Sync>),
            }

            /// An endpoint that listens.
            pub(in super::super) struct ServerEndpoint {
                endpoint: Endpoint,
                share_configs: Vec<ShareConfig>,
                limits: Limits,
                /// Packets go through a shaping socket, which trims them: MTU discovery must be off.
                shaping_socket: bool,
                buffers: SocketBuffers,
            }

            pub(in super::super) struct Connection {
                connection: stack::Connection,
                monitor: Option<ConnectionMonitor>,
            }

            impl ServerEndpoint {
                pub(in super::super) fn open(
                    listen: SocketAddr,
                    shares: &ControllerShares,
                    tls: Arc<rustls::ServerConfig>,
                    limits: &Limits,
                    extension: Extension,
                ) -> Result<Self, SetupError> {
                    let wrong = |controller: &str, why: &dyn std::fmt::Display| {
                        SetupError::Controller(controller.into(), why.to_string())
                    };
                    let mut configs = Vec::new();
                    for controller in shares.controllers() {
                        configs.push(match controller.strip_prefix("native:") {
                            Some(name) => Err(natives::named(name).map_err(|e| wrong(controller, &e))?),
                            None => Ok(catalogue::parse(controller).map_err(|e| wrong(controller, &e))?),
                        });
                    }
                    let needs_shaping_socket = configs.iter().flatten().any(|r| {
                        r.check(adapter::PROVIDED).is_err() && r.check(with_shaping_socket(adapter::PROVIDED)).is_ok()
                    });
                    let listen_error = |e: io::Error| SetupError::Listen(listen, e);
                    let runtime: Arc<dyn stack::Runtime> = Arc::new(TokioRuntime);
                    let (socket, buffers) = udp::bind(listen).map_err(listen_error)?;
                    let socket = runtime.wrap_udp_socket(socket).map_err(listen_error)?;
                    let (trailers, socket) = if needs_shaping_socket {
                        let shaping_socket = ShapingSocket::new(socket, &runtime);
                        (Some(Arc::clone(shaping_socket.registry())), shaping_socket.socket())
                    } else {
                        (None, socket)
                    };
                    let mut share_configs = Vec::new();
                    for (controller, controller_config) in shares.controllers().zip(configs) {
                        share_configs.push(match controller_config {
                            Ok(controller_config) => {
                                let plugin = match &trailers {
                                    Some(trailers) => Plugin::new_with_shaping(trailers, controller_config),
                                    None => Plugin::new(controller_config),
                                };
                                let plugin = plugin
                                    .and_then(|plugin| plugin.with_extension(extension)?.server(Arc::clone(&tls)));
                                ShareConfig::Fathom(plugin.map_err(|e| wrong(controller, &e))?)
                            }
                            Err(factory) => {
                                let crypto =
                                    QuicServerConfig::try_from(Arc::clone(&tls)).map_err(|e| wrong(controller, &e))?;
                                ShareConfig::Native(stack::ServerConfig::with_crypto(Arc::new(crypto)), factory)
                            }
                        });
                    }
                    let base = match share_configs.first() {
                        Some(ShareConfig::Fathom(plugin)) => plugin.config(),
                        Some(ShareConfig::Native(config, _)) => config.clone(),
                        None => return Err(wrong("", &"name one")),
                    };
                    let config = EndpointConfig::default();
                    let endpoint = Endpoint::new_with_abstract_socket(config, Some(base), socket, runtime);
                    let (endpoint, shaping_socket) = (endpoint.map_err(listen_error)?, trailers.is_some());
                    Ok(Self { endpoint, share_configs, limits: *limits, shaping_socket, buffers })
                }

                fn transport_config(&self) -> TransportConfig {
                    let mut transport = TransportConfig::default();
                    transport.max_concurrent_bidi_streams(self.limits.streams.into());
                    // HTTP/3 has three of them: control and QPACK's two (RFC 9114 §6.2).
                    transport.max_concurrent_uni_streams(8u32.into());
                    transport.max_idle_timeout(self.limits.idle.try_into().ok());
                    transport.send_window(self.limits.send_buffer);
                    // Nothing is wanted from clients but requests' headers.
                    transport.receive_window(WINDOW.into());
                    transport.stream_receive_window(stream_window(&self.limits).into());
                    transport.datagram_receive_buffer_size(None);
                    if self.shaping_socket {
                        transport.mtu_discovery_config(None);
                    }
                    transport
                }
            }

            impl ResponseStream for $h3::BidiStream<Bytes> {
                fn delivery(&self) -> Delivery {
                    let acknowledged = self.acknowledged();
                    Box::pin(async move { acknowledged.await.map_err(|e| format!("{e:?}")) })
                }

                fn poll_write_chunks(
                    &mut self,
                    cx: &mut Context<'_>,
                    chunks: &mut [Bytes],
                ) -> Poll<Result<(), StreamErrorIncoming>> {
                    $h3::BidiStream::poll_write_chunks(self, cx, chunks)
                }
            }

            impl super::super::stack::ServerStack for ServerEndpoint {
                type Incoming = Incoming;
                type Connection = Connection;
                type Transport = $h3::Connection;

                fn address(&self) -> io::Result<SocketAddr> {
                    self.endpoint.local_addr()
                }

                fn buffers(&self) -> SocketBuffers {
                    self.buffers
                }

                async fn accept(&self) -> Option<Incoming> {
                    self.endpoint.accept().await
                }

                fn remote_address(incoming: &Incoming) -> SocketAddr {
                    incoming.remote_address()
                }

                fn remote_address_validated(incoming: &Incoming) -> bool {
                    incoming.remote_address_validated()
                }

                fn original_dcid(incoming: &Incoming) -> String {
                    incoming.orig_dst_cid().to_string()
                }

                fn refuse(incoming: Incoming) {
                    incoming.refuse();
                }

                fn retry(incoming: Incoming) {
                    // One that may not be asked has proved its address.
                    let _ = incoming.retry();
                }

                async fn accept_connection(
                    &self,
                    incoming: Incoming,
                    share: usize,
                    observer: Option<Arc<dyn Observer>>,
                ) -> Result<(Connection, Option<HandshakeCompletion>), String> {
                    let mut transport = self.transport_config();
                    let (connecting, monitor) = match &self.share_configs[share] {
                        ShareConfig::Fathom(plugin) => {
                            let accepted = plugin.accept_observed(incoming, transport, observer);
                            let (connecting, monitor) = accepted.map_err(|e| e.to_string())?;
                            (connecting, Some(monitor))
                        }
                        ShareConfig::Native(config, factory) => {
                            transport.congestion_controller_factory(Arc::clone(factory));
                            let mut config = config.clone();
                            config.transport = Arc::new(transport);
                            (incoming.accept_with(Arc::new(config)).map_err(|e| e.to_string())?, None)
                        }
                    };
                    if self.limits.early_data {
                        // Servers can always; what the client sent in 0-RTT is here at once.
                        return match connecting.into_0rtt() {
                            Ok((connection, over)) => {
                                let ours = connection.clone();
                                // What the stack says here means nothing on servers.
                                let completion = async move {
                                    over.await;
                                    ours.close_reason().is_none()
                                };
                                Ok((Connection { connection, monitor }, Some(Box::pin(completion))))
                            }
                            Err(connecting) => {
                                let connection = connecting.await.map_err(|e| e.to_string())?;
                                Ok((Connection { connection, monitor }, None))
                            }
                        };
                    }
                    let connection = connecting.await.map_err(|e| e.to_string())?;
                    Ok((Connection { connection, monitor }, None))
                }

                fn transport(connection: &Connection) -> $h3::Connection {
                    $h3::Connection::new(connection.connection.clone())
                }

                fn close_connection(connection: &Connection, code: u32) {
                    connection.connection.close(code.into(), b"");
                }

                fn stats(connection: &Connection) -> ConnectionStats {
                    let ended: ConnectionStats = crate::stats::$stack(&connection.connection);
                    with_monitor_report(ended, connection.monitor.as_ref().map(ConnectionMonitor::report))
                }

                fn close(&self) {
                    self.endpoint.close(super::super::connection::NO_ERROR.into(), b"");
                }

                async fn wait_idle(&self) {
                    self.endpoint.wait_idle().await;
                }
            }
        }
    };
}

server_stack!(quinn, quinn, fathom_quinn, fathom_h3_quinn);
server_stack!(noq, noq, fathom_noq, h3_noq);
