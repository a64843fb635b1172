//! The lab's TLS in BoringSSL: the same identity, group and signature as the other stacks have ([`crate::http::Identity`]).
//!
//! BoringSSL does not let TLS 1.3 suites be chosen. With hardware AES it takes AES-128-GCM as the others do; the other suites' tags are of
//! the same size.

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

/// Everything of PKCS #8 (RFC 5958, version 0) around the 32 bytes of an Ed25519 key (RFC 8410 §7). BoringSSL does not read the version
/// with a public key, which other libraries write.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// One side's.
pub(super) fn boring(side: Side, identity: &Identity) -> Result<BoringTls, SetupError> {
    let context = match side {
        Side::Client => client(identity),
        Side::Server => server(identity),
    };
    let context = context.map_err(|e| SetupError::Tls(e.to_string()))?;
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

/// Trusts one certificate, byte for byte; the handshake's signature is verified as always.
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

/// What both sides have: TLS 1.3, X25519, no tickets.
fn context() -> Result<SslContextBuilder, ErrorStack> {
    let mut context = SslContext::builder(SslMethod::tls())?;
    context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    // Boring's default group is post-quantum, three times the work and a kilobyte more each way.
    context.set_curves_list("X25519")?;
    context.set_options(SslOptions::NO_TICKET);
    Ok(context)
}
