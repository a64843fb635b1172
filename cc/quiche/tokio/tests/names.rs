//! A wrong name is reported at once, and the log says what to write instead.

use fathom_quiche_stock as _;
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio_quiche::http3::settings::Http3Settings;
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::quic::connect_with_config;
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::{ClientH3Driver, ConnectionParams, listen};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

impl log::Log for Lines {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() == log::Level::Error
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            LINES.lock().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Returns the errors logged since the last call.
fn logged() -> Vec<String> {
    std::mem::take(&mut *LINES.lock())
}

fn settings(name: &str) -> QuicSettings {
    let mut settings = QuicSettings::default();
    settings.cc_algorithm = name.into();
    settings
}

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.expect("a socket")
}

/// This is one test because all tests of the process share the log.
#[tokio::test]
async fn unknown_controller_names_give_an_error_and_a_log_line() {
    log::set_logger(&Lines).expect("the first logger");
    log::set_max_level(log::LevelFilter::Error);

    let folder = tempfile::tempdir().expect("a folder");
    let signed =
        rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (cert, private_key) = (path("cert.pem"), path("key.pem"));
    std::fs::write(&cert, signed.cert.pem()).expect("written");
    std::fs::write(&private_key, signed.signing_key.serialize_pem()).expect("written");

    for (name, hints) in [
        ("snyc", ["snyc", "sync"]),
        ("sync:signl=either", ["signl", "signal"]),
        ("sync:signal=ether", ["ether", "either"]),
        ("packet-size/snyc", ["snyc", "sync"]),
    ] {
        let tls = TlsCertificatePaths {
            cert: &cert,
            private_key: &private_key,
            kind: CertificateKind::X509,
        };
        let params = ConnectionParams::new_server(settings(name), tls, Hooks::default());
        let error =
            listen([socket().await], params, DefaultMetrics).err().expect("no such controller");
        assert!(error.to_string().contains("CongestionControl"), "{name}: {error}");
        let lines = logged();
        let [line] = &lines[..] else { panic!("{name}: {lines:?}") };
        assert!(
            line.starts_with("congestion control: ") && hints.iter().all(|m| line.contains(m)),
            "{name}: {line}"
        );

        let socket = socket().await;
        socket.connect("127.0.0.1:9").await.expect("connected");
        let params = ConnectionParams::new_client(settings(name), None, Hooks::default());
        let (driver, _controller) = ClientH3Driver::new(Http3Settings::default());
        let connection =
            connect_with_config(socket.try_into().expect("a socket"), None, &params, driver).await;
        let error = connection.err().expect("no such controller").to_string();
        assert!(error.contains("CongestionControl"), "{name}: {error}");
        assert_eq!(logged(), std::slice::from_ref(line), "{name}");

        // An application that wants the reason as an error asks for the algorithm first.
        let error = quiche::fathom::algorithm(name).expect_err("no such controller").to_string();
        assert_eq!(format!("congestion control: {error}"), *line);
        assert!(logged().is_empty());
    }

    let tls =
        TlsCertificatePaths { cert: &cert, private_key: &private_key, kind: CertificateKind::X509 };
    let params = ConnectionParams::new_server(settings("sync"), tls, Hooks::default());
    assert!(listen([socket().await], params, DefaultMetrics).is_ok());
    assert!(logged().is_empty());
}
