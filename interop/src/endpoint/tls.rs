//! rustls configurations for the tests.

use std::sync::Arc;

use fathom_http::identity::{Identity, with_early_data};
use fathom_http::load::{TicketStore, Trust};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::quic::Suite;

use super::{Setup, TestName};

/// The cipher suite of Initial packets, which a configuration with other suites lacks.
pub(crate) fn initial() -> Option<Suite> {
    cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite())
}

fn provider(test_name: TestName) -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    if test_name == TestName::ChaCha20 {
        provider.cipher_suites = vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    }
    Arc::new(provider)
}

/// The client's trust anchor: the runner's CA if there is one, else any certificate is accepted.
pub(crate) fn trust(setup: &Setup) -> Trust {
    let authority = setup.certs.join("ca.pem");
    if authority.is_file() { Trust::File(authority) } else { Trust::Insecure }
}

pub(crate) fn identity(setup: &Setup) -> Result<Identity, String> {
    Identity::read(&setup.certs.join("cert.pem"), &setup.certs.join("priv.key")).map_err(|e| e.to_string())
}

/// The client's configuration and its session tickets.
pub(crate) fn client(setup: &Setup) -> Result<(Arc<rustls::ClientConfig>, Arc<TicketStore>), String> {
    let mut config =
        trust(setup).tls_config(setup.test_name.protocol(), provider(setup.test_name)).map_err(|e| e.to_string())?;
    let tickets = Arc::new(TicketStore::default());
    if setup.test_name.resumes() {
        config.resumption = Resumption::store(Arc::clone(&tickets) as _);
        config.enable_early_data = setup.test_name == TestName::ZeroRtt;
    } else {
        config.resumption = Resumption::disabled();
    }
    Ok((Arc::new(config), tickets))
}

/// The server's configuration.
pub(crate) fn server(setup: &Setup) -> Result<Arc<rustls::ServerConfig>, String> {
    let config = identity(setup)?
        .tls_config(setup.test_name.protocol(), provider(setup.test_name))
        .map_err(|e| e.to_string())?;
    Ok(Arc::new(if setup.test_name == TestName::ZeroRtt { with_early_data(config) } else { config }))
}
