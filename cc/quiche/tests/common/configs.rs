//! Configurations for tests.

use std::sync::{Arc, OnceLock};

use fathom_cc::testing::{Event, Log, RecordingConfig};
use fathom_cc::ControllerConfig;
use quiche::{Config, CongestionControlAlgorithm};

fn certificate() -> &'static (tempfile::TempDir, String, String) {
    static MADE: OnceLock<(tempfile::TempDir, String, String)> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let signed =
            rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
        let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
        let (cert, key) = (path("cert.pem"), path("key.pem"));
        std::fs::write(&cert, signed.cert.pem()).expect("written");
        std::fs::write(&key, signed.signing_key.serialize_pem()).expect("written");
        (folder, cert, key)
    })
}

/// Returns a configuration for both sides: large flow-control windows, no GREASE.
pub fn config(algorithm: CongestionControlAlgorithm) -> Config {
    let (_, cert, key) = certificate();
    let mut config = Config::new(quiche::PROTOCOL_VERSION).expect("a configuration");
    config.load_cert_chain_from_pem_file(cert).expect("a certificate");
    config.load_priv_key_from_pem_file(key).expect("its key");
    config.set_application_protos(&[b"lab"]).expect("a protocol");
    config.verify_peer(false);
    config.grease(false);
    config.set_max_idle_timeout(60_000);
    config.set_initial_max_data(1 << 30);
    config.set_initial_max_stream_data_bidi_local(1 << 30);
    config.set_initial_max_stream_data_bidi_remote(1 << 30);
    config.set_initial_max_streams_bidi(100);
    config.set_active_connection_id_limit(4);
    config.set_cc_algorithm(algorithm);
    config
}

pub fn named(name: &str) -> CongestionControlAlgorithm {
    quiche::fathom::algorithm(name).expect("a controller")
}

/// Returns one of the catalogue's controllers, and the log of its events.
pub fn recorded(name: &str) -> (CongestionControlAlgorithm, Log) {
    record(fathom_cc::catalogue::parse(name).expect("a controller"))
}

pub fn record(config: Arc<dyn ControllerConfig>) -> (CongestionControlAlgorithm, Log) {
    let log = Log::new(1 << 20);
    let algorithm =
        quiche::fathom::algorithm_of(Arc::new(RecordingConfig::new(config, log.clone())));
    (algorithm.expect("quiche offers everything"), log)
}

pub fn events(log: &Log) -> Vec<Event> {
    log.records().into_iter().map(|r| r.event).collect()
}
