//! The laboratory's TLS in BoringSSL, with the identity, group and kind of signature of the other
//! stacks ([`crate::http::Identity`]).
//!
//! BoringSSL does not let an application choose TLS 1.3 suites. With AES in hardware, it uses
//! AES-128-GCM, as the other stacks do. Other suites have authentication tags of the same size.

use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::ssl::{
    SslAlert, SslContext, SslContextBuilder, SslMethod, SslOptions, SslSignatureAlgorithm,
    SslVerifyError, SslVerifyMode, SslVersion,
};
use boring::x509::X509;

use fathom_stacks::{BoringTls, SetupError};

use super::Side;
use crate::http::{ALPN, Identity};

/// PKCS #8 header (RFC 5958, version 0) in front of the 32 bytes of an Ed25519 key
/// (RFC 8410 §7). Other libraries write the version that includes a public key, which BoringSSL
/// does not read.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Returns the TLS configuration of one side.
pub(super) fn boring(side: Side, identity: &Identity) -> Result<BoringTls, SetupError> {
    let context = match side {
        Side::Client => client(identity),
        Side::Server => server(identity),
    };
    let context = context.map_err(SetupError::tls)?;
    Ok(BoringTls {
        server: side == Side::Server,
        context,
        protocol: ALPN.to_vec(),
        early_data: false,
        sessions: None,
    })
}

fn server(identity: &Identity) -> Result<SslContextBuilder, ErrorStack> {
    let mut context = context()?;
    context.set_certificate(&*X509::from_der(&identity.certificate)?)?;
    context.set_private_key(&*PKey::private_key_from_pkcs8(
        &[&PKCS8[..], &identity.secret].concat(),
    )?)?;
    Ok(context)
}

/// Returns a client context that trusts one certificate, byte for byte. BoringSSL verifies the
/// handshake's signature as usual.
fn client(identity: &Identity) -> Result<SslContextBuilder, ErrorStack> {
    let mut context = context()?;
    context.set_verify_algorithm_prefs(&[SslSignatureAlgorithm::ED25519])?;
    let pinned = identity.certificate.clone();
    context.set_custom_verify_callback(SslVerifyMode::PEER, move |ssl| {
        let shown = ssl.peer_certificate().and_then(|certificate| certificate.to_der().ok());
        if shown.is_some_and(|der| *der == *pinned) {
            Ok(())
        } else {
            Err(SslVerifyError::Invalid(SslAlert::UNKNOWN_CA))
        }
    });
    Ok(context)
}

/// Returns the settings that both sides share: TLS 1.3, X25519, no tickets.
fn context() -> Result<SslContextBuilder, ErrorStack> {
    let mut context = SslContext::builder(SslMethod::tls())?;
    context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    // BoringSSL's default group is post-quantum. It takes three times the work and adds 1 kB in
    // each direction.
    context.set_curves_list("X25519")?;
    context.set_options(SslOptions::NO_TICKET);
    Ok(context)
}
