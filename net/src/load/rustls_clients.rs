//! [`ClientStack`](super::client_stack::ClientStack) for quinn and noq. Both have the same API under other names, as in
//! `server/rustls_stacks.rs`.

use super::target::wildcard_address;
use crate::udp;

/// What a response may have on the way: enough for 1 Gbps over 100 ms, so that flow control is not what is measured.
const STREAM_WINDOW: u32 = 16 << 20;

macro_rules! client_stack {
    ($module:ident, $stack:ident, $adapter:ident, $h3:ident) => {
        pub(super) mod $module {
            use std::pin::Pin;
            use std::sync::Arc;
            use std::sync::atomic::{AtomicUsize, Ordering};
            use std::task::{Context, Poll};

            use bytes::Bytes;
            use $adapter::{ClientPlugin, ConnectionMonitor, Observer, Plugin};
            use $stack::crypto::rustls::QuicClientConfig;
            use $stack::{self as stack, ClientConfig, Endpoint, EndpointConfig, TokioRuntime, TransportConfig};

            use super::super::client_stack::EarlyDataAccepted;
            use super::super::uplink_delay::UplinkDelay;
            use super::super::{ClientStackConfig, LoadError};
            use super::{STREAM_WINDOW, udp, wildcard_address};
            use crate::metrics::ConnectionStats;

            enum ClientKind {
                Fathom(ClientPlugin),
                Stock(Arc<QuicClientConfig>),
            }

            /// Sockets and configuration.
            pub(in super::super) struct Client {
                endpoints: Vec<Endpoint>,
                next: AtomicUsize,
                kind: ClientKind,
                stack_config: ClientStackConfig,
            }

            pub(in super::super) struct Connection {
                connection: stack::Connection,
                fathom: Option<(ConnectionMonitor, Arc<UplinkDelay>)>,
            }

            pub(in super::super) struct Connecting {
                connecting: stack::Connecting,
                fathom: Option<(ConnectionMonitor, Arc<UplinkDelay>)>,
            }

            impl Future for Connecting {
                type Output = Result<Connection, String>;

                fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                    Pin::new(&mut self.connecting).poll(cx).map(|done| match done {
                        Ok(connection) => Ok(Connection { connection, fathom: self.fathom.take() }),
                        Err(e) => Err(e.to_string()),
                    })
                }
            }

            impl Client {
                pub(in super::super) fn open(stack_config: ClientStackConfig) -> Result<Self, LoadError> {
                    let setup = |e: &dyn std::fmt::Display| LoadError::Setup(e.to_string());
                    let extension = stack_config.timestamps.extension();
                    let kind = if extension.is_off() {
                        let crypto = QuicClientConfig::try_from(Arc::clone(&stack_config.tls));
                        ClientKind::Stock(Arc::new(crypto.map_err(|e| setup(&e))?))
                    } else {
                        // What this end sends is a few requests and acknowledgements: any controller does.
                        let plugin = Plugin::named("cubic").and_then(|plugin| plugin.with_extension(extension));
                        let plugin = plugin.and_then(|plugin| plugin.client(Arc::clone(&stack_config.tls)));
                        ClientKind::Fathom(plugin.map_err(|e| setup(&e))?)
                    };
                    let runtime: Arc<dyn stack::Runtime> = Arc::new(TokioRuntime);
                    let endpoint = |_| {
                        let (socket, _) = udp::bind(wildcard_address(stack_config.origin.address()))?;
                        Endpoint::new(EndpointConfig::default(), None, socket, Arc::clone(&runtime))
                    };
                    let endpoints = (0..stack_config.sockets.max(1)).map(endpoint).collect::<Result<_, _>>();
                    Ok(Self {
                        endpoints: endpoints.map_err(|e| setup(&e))?,
                        next: AtomicUsize::new(0),
                        kind,
                        stack_config,
                    })
                }

                fn transport_config(&self) -> TransportConfig {
                    let mut transport = TransportConfig::default();
                    // Servers open three: control and QPACK's two (RFC 9114 §6.2). Nothing else is accepted.
                    transport.max_concurrent_uni_streams(8u32.into());
                    transport.max_concurrent_bidi_streams(0u32.into());
                    transport.max_idle_timeout(self.stack_config.idle.try_into().ok());
                    transport.stream_receive_window(STREAM_WINDOW.into());
                    transport.datagram_receive_buffer_size(None);
                    transport
                }
            }

            impl super::super::client_stack::ClientStack for Client {
                type Connecting = Connecting;
                type Connection = Connection;
                type Transport = $h3::Connection;
                type Stream = $h3::BidiStream<Bytes>;
                type Opener = $h3::OpenStreams;

                fn connect(&self) -> Result<Connecting, String> {
                    let transport = self.transport_config();
                    let (config, fathom) = match &self.kind {
                        ClientKind::Fathom(plugin) => {
                            let uplink_delay = Arc::new(UplinkDelay::default());
                            let observer = Arc::clone(&uplink_delay) as Arc<dyn Observer>;
                            let (config, monitor) = plugin.config(transport, Some(observer));
                            (config, Some((monitor, uplink_delay)))
                        }
                        ClientKind::Stock(crypto) => {
                            let mut config =
                                ClientConfig::new(Arc::clone(crypto) as Arc<dyn stack::crypto::ClientConfig>);
                            config.transport_config(Arc::new(transport));
                            (config, None)
                        }
                    };
                    let endpoint = &self.endpoints[self.next.fetch_add(1, Ordering::Relaxed) % self.endpoints.len()];
                    let origin = &self.stack_config.origin;
                    let connecting = endpoint.connect_with(config, origin.address(), origin.server_name());
                    Ok(Connecting { connecting: connecting.map_err(|e| e.to_string())?, fathom })
                }

                fn into_0rtt(connecting: Connecting) -> Result<(Connection, EarlyDataAccepted), Connecting> {
                    let Connecting { connecting, fathom } = connecting;
                    match connecting.into_0rtt() {
                        Ok((connection, accepted)) => Ok((Connection { connection, fathom }, Box::pin(accepted))),
                        Err(connecting) => Err(Connecting { connecting, fathom }),
                    }
                }

                fn transport(connection: &Connection) -> $h3::Connection {
                    $h3::Connection::new(connection.connection.clone())
                }

                fn is_open(connection: &Connection) -> bool {
                    connection.connection.close_reason().is_none()
                }

                fn close_connection(connection: &Connection, code: u32) {
                    connection.connection.close(code.into(), b"");
                }

                fn stats(connection: &Connection) -> ConnectionStats {
                    let ended = crate::stats::$stack(&connection.connection);
                    let Some((monitor, uplink_delay)) = &connection.fathom else { return ended };
                    let report = monitor.report();
                    let (one_way, in_use) = (report.negotiated, report.in_use);
                    ConnectionStats { one_way, in_use, queueing: uplink_delay.mean(), ..ended }
                }

                async fn wait_idle(&self) {
                    for endpoint in &self.endpoints {
                        endpoint.wait_idle().await;
                    }
                }
            }
        }
    };
}

client_stack!(quinn, quinn, fathom_quinn, h3_quinn);
client_stack!(noq, noq, fathom_noq, h3_noq);
