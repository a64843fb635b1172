//! The stacks on rustls as dialers. quinn and noq have the same shape under other names, as in `server/rustls_doors.rs`.

use super::target::any_port;
use crate::udp;

/// What a response may have on the way: enough for 1 Gbps over 100 ms, so that flow control is not what is measured.
const STREAM_WINDOW: u32 = 16 << 20;

macro_rules! dialer {
    ($module:ident, $stack:ident, $plugs:ident, $h3:ident) => {
        pub(super) mod $module {
            use std::pin::Pin;
            use std::sync::Arc;
            use std::sync::atomic::{AtomicUsize, Ordering};
            use std::task::{Context, Poll};

            use bytes::Bytes;
            use $plugs::{ClientPlugin, ConnectionMonitor, Observer, Plugin};
            use $stack::crypto::rustls::QuicClientConfig;
            use $stack::{self as stack, ClientConfig, Endpoint, EndpointConfig, TokioRuntime, TransportConfig};

            use super::super::dialer::Early;
            use super::super::uplink::Uplink;
            use super::super::{Dialing, LoadError};
            use super::{STREAM_WINDOW, any_port, udp};
            use crate::metrics::Ended;

            enum Kind {
                Plugged(ClientPlugin),
                Stock(Arc<QuicClientConfig>),
            }

            /// Sockets and configuration.
            pub(in super::super) struct Dialer {
                endpoints: Vec<Endpoint>,
                next: AtomicUsize,
                kind: Kind,
                dialing: Dialing,
            }

            pub(in super::super) struct Connection {
                connection: stack::Connection,
                plugged: Option<(ConnectionMonitor, Arc<Uplink>)>,
            }

            pub(in super::super) struct Connecting {
                connecting: stack::Connecting,
                plugged: Option<(ConnectionMonitor, Arc<Uplink>)>,
            }

            impl Future for Connecting {
                type Output = Result<Connection, String>;

                fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                    Pin::new(&mut self.connecting).poll(cx).map(|done| match done {
                        Ok(connection) => Ok(Connection { connection, plugged: self.plugged.take() }),
                        Err(e) => Err(e.to_string()),
                    })
                }
            }

            impl Dialer {
                pub(in super::super) fn open(dialing: Dialing) -> Result<Self, LoadError> {
                    let setup = |e: &dyn std::fmt::Display| LoadError::Setup(e.to_string());
                    let extension = dialing.timestamps.extension();
                    let kind = if extension.is_off() {
                        let crypto = QuicClientConfig::try_from(Arc::clone(&dialing.tls));
                        Kind::Stock(Arc::new(crypto.map_err(|e| setup(&e))?))
                    } else {
                        // What this end sends is a few requests and acknowledgements: any controller does.
                        let plug = Plugin::named("cubic").and_then(|plug| plug.with_extension(extension));
                        let plug = plug.and_then(|plug| plug.client(Arc::clone(&dialing.tls)));
                        Kind::Plugged(plug.map_err(|e| setup(&e))?)
                    };
                    let runtime: Arc<dyn stack::Runtime> = Arc::new(TokioRuntime);
                    let endpoint = |_| {
                        let (socket, _) = udp::bind(any_port(dialing.origin.address()))?;
                        Endpoint::new(EndpointConfig::default(), None, socket, Arc::clone(&runtime))
                    };
                    let endpoints = (0..dialing.sockets.max(1)).map(endpoint).collect::<Result<_, _>>();
                    Ok(Self { endpoints: endpoints.map_err(|e| setup(&e))?, next: AtomicUsize::new(0), kind, dialing })
                }

                fn transport_config(&self) -> TransportConfig {
                    let mut transport = TransportConfig::default();
                    // Servers open three: control and QPACK's two (RFC 9114 §6.2). Nothing else is accepted.
                    transport.max_concurrent_uni_streams(8u32.into());
                    transport.max_concurrent_bidi_streams(0u32.into());
                    transport.max_idle_timeout(self.dialing.idle.try_into().ok());
                    transport.stream_receive_window(STREAM_WINDOW.into());
                    transport.datagram_receive_buffer_size(None);
                    transport
                }
            }

            impl super::super::dialer::Dialer for Dialer {
                type Connecting = Connecting;
                type Connection = Connection;
                type Transport = $h3::Connection;
                type Stream = $h3::BidiStream<Bytes>;
                type Opener = $h3::OpenStreams;

                fn dial(&self) -> Result<Connecting, String> {
                    let transport = self.transport_config();
                    let (config, plugged) = match &self.kind {
                        Kind::Plugged(plug) => {
                            let uplink = Arc::new(Uplink::default());
                            let observer = Arc::clone(&uplink) as Arc<dyn Observer>;
                            let (config, probe) = plug.config(transport, Some(observer));
                            (config, Some((probe, uplink)))
                        }
                        Kind::Stock(crypto) => {
                            let mut config =
                                ClientConfig::new(Arc::clone(crypto) as Arc<dyn stack::crypto::ClientConfig>);
                            config.transport_config(Arc::new(transport));
                            (config, None)
                        }
                    };
                    let endpoint = &self.endpoints[self.next.fetch_add(1, Ordering::Relaxed) % self.endpoints.len()];
                    let origin = &self.dialing.origin;
                    let connecting = endpoint.connect_with(config, origin.address(), origin.server_name());
                    Ok(Connecting { connecting: connecting.map_err(|e| e.to_string())?, plugged })
                }

                fn early(connecting: Connecting) -> Result<(Connection, Early), Connecting> {
                    let Connecting { connecting, plugged } = connecting;
                    match connecting.into_0rtt() {
                        Ok((connection, accepted)) => Ok((Connection { connection, plugged }, Box::pin(accepted))),
                        Err(connecting) => Err(Connecting { connecting, plugged }),
                    }
                }

                fn transport(connection: &Connection) -> $h3::Connection {
                    $h3::Connection::new(connection.connection.clone())
                }

                fn alive(connection: &Connection) -> bool {
                    connection.connection.close_reason().is_none()
                }

                fn end(connection: &Connection, code: u32) {
                    connection.connection.close(code.into(), b"");
                }

                fn report(connection: &Connection) -> Ended {
                    let ended = crate::stats::$stack(&connection.connection);
                    let Some((probe, uplink)) = &connection.plugged else { return ended };
                    let report = probe.report();
                    let (one_way, in_use) = (report.negotiated, report.in_use);
                    Ended { one_way, in_use, queueing: uplink.mean(), ..ended }
                }

                async fn idle(&self) {
                    for endpoint in &self.endpoints {
                        endpoint.wait_idle().await;
                    }
                }
            }
        }
    };
}

dialer!(quinn, quinn, fathom_quinn, h3_quinn);
dialer!(noq, noq, fathom_noq, h3_noq);
