//! TLS configurations for the tests.

use std::sync::Arc;

#[cfg(feature = "quiche")]
use boring::ssl::{SslContext, SslContextBuilder, SslMethod, SslVerifyMode, SslVersion};
#[cfg(feature = "quiche")]
use fathom_http::identity::log_secrets;
use fathom_http::identity::{Identity, IdentityError, with_early_data};
use fathom_http::trust::{TicketStore, Trust, TrustError};
#[cfg(feature = "quiche")]
use fathom_stacks::BoringTls;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::quic::Suite;

#[cfg(feature = "quiche")]
use super::Role;
#[cfg(feature = "quiche")]
use super::error::InputError;
use super::{Setup, TestName};

/// Returns the cipher suite of Initial packets, for a configuration that lacks this suite.
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

/// Returns the client's trust anchor, which is the runner's CA if there is one. Otherwise, the
/// client accepts any certificate.
pub(crate) fn trust(setup: &Setup) -> Trust {
    let authority = setup.certs.join("ca.pem");
    if authority.is_file() { Trust::File(authority) } else { Trust::Insecure }
}

pub(super) fn identity(setup: &Setup) -> Result<Identity, IdentityError> {
    Identity::read(&setup.certs.join("cert.pem"), &setup.certs.join("priv.key"))
}

/// Returns the client's configuration and its session tickets.
pub(super) fn client(
    setup: &Setup,
) -> Result<(Arc<rustls::ClientConfig>, Arc<TicketStore>), TrustError> {
    let mut config =
        trust(setup).tls_config(setup.test_name.protocol(), provider(setup.test_name))?;
    let tickets = Arc::new(TicketStore::default());
    if setup.test_name.resumes() {
        config.resumption = Resumption::store(Arc::clone(&tickets) as _);
        config.enable_early_data = setup.test_name == TestName::ZeroRtt;
    } else {
        config.resumption = Resumption::disabled();
    }
    Ok((Arc::new(config), tickets))
}

/// Returns the server's configuration.
pub(super) fn server(setup: &Setup) -> Result<Arc<rustls::ServerConfig>, IdentityError> {
    let config =
        identity(setup)?.tls_config(setup.test_name.protocol(), provider(setup.test_name))?;
    Ok(Arc::new(if setup.test_name == TestName::ZeroRtt {
        with_early_data(config)
    } else {
        config
    }))
}

/// Returns the configuration of either role on BoringSSL.
#[cfg(feature = "quiche")]
pub(super) fn boring(setup: &Setup) -> Result<BoringTls, InputError> {
    let resumes = setup.role == Role::Client && setup.test_name.resumes();
    Ok(BoringTls {
        server: setup.role == Role::Server,
        context: match setup.role {
            Role::Client => boring_client(setup)?,
            Role::Server => identity(setup)?.boring()?,
        },
        protocol: setup.test_name.protocol().to_vec(),
        early_data: setup.test_name == TestName::ZeroRtt,
        sessions: resumes.then(Default::default),
    })
}

#[cfg(feature = "quiche")]
fn boring_client(setup: &Setup) -> Result<SslContextBuilder, InputError> {
    let mut context = SslContext::builder(SslMethod::tls())?;
    context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    log_secrets(&mut context);
    let path = setup.certs.join("ca.pem");
    if path.is_file() {
        context.set_ca_file(&path).map_err(|why| InputError::BoringRoots { path, why })?;
        context.set_verify(SslVerifyMode::PEER);
    }
    Ok(context)
}
