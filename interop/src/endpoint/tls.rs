//! TLS for a test case, on rustls.

use std::sync::Arc;

use fathom_net::identity::{Identity, with_early_data};
use fathom_net::load::{TicketStore, Trust};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::quic::Suite;

use super::{Case, Setup};

/// The suite of Initial packets, which a configuration of other suites does not name.
pub(crate) fn initial() -> Option<Suite> {
    cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite())
}

fn provider(case: Case) -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    if case == Case::ChaCha20 {
        provider.cipher_suites = vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    }
    Arc::new(provider)
}

/// Whom a client believes: the runner's authority where there is one, or else anyone.
pub(crate) fn trust(setup: &Setup) -> Trust {
    let authority = setup.certs.join("ca.pem");
    if authority.is_file() { Trust::File(authority) } else { Trust::Insecure }
}

pub(crate) fn identity(setup: &Setup) -> Result<Identity, String> {
    Identity::read(&setup.certs.join("cert.pem"), &setup.certs.join("priv.key")).map_err(|e| e.to_string())
}

/// A client's, and where its tickets are.
pub(crate) fn client(setup: &Setup) -> Result<(Arc<rustls::ClientConfig>, Arc<TicketStore>), String> {
    let mut config = trust(setup).tls_config(setup.case.protocol(), provider(setup.case)).map_err(|e| e.to_string())?;
    let tickets = Arc::new(TicketStore::default());
    if setup.case.resumes() {
        config.resumption = Resumption::store(Arc::clone(&tickets) as _);
        config.enable_early_data = setup.case == Case::ZeroRtt;
    } else {
        config.resumption = Resumption::disabled();
    }
    Ok((Arc::new(config), tickets))
}

/// A server's.
pub(crate) fn server(setup: &Setup) -> Result<Arc<rustls::ServerConfig>, String> {
    let config = identity(setup)?.tls_config(setup.case.protocol(), provider(setup.case)).map_err(|e| e.to_string())?;
    Ok(Arc::new(if setup.case == Case::ZeroRtt { with_early_data(config) } else { config }))
}
