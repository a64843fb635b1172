//! Certificate and key in BoringSSL, and TLS as the other stacks have it: 1.3, HTTP/3 only.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::ssl::{SslContext, SslContextBuilder, SslMethod, SslVersion};
use boring::x509::X509;

use super::SetupError;
use crate::identity::{ALPN, Identity, IdentityError};

/// A server's configuration with this identity.
pub(super) fn config(identity: &Identity) -> Result<quiche::Config, SetupError> {
    let context = context(identity).map_err(|e| foreign(&e))?;
    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context).map_err(|e| foreign(&e))?;
    config.set_application_protos(&[ALPN]).map_err(|e| foreign(&e))?;
    Ok(config)
}

/// BoringSSL's words in ours.
pub(super) fn foreign(why: &dyn std::fmt::Display) -> SetupError {
    // An error stack has a line for each error.
    IdentityError::Foreign(why.to_string().trim().replace('\n', "; ")).into()
}

fn context(identity: &Identity) -> Result<SslContextBuilder, ErrorStack> {
    let mut context = SslContext::builder(SslMethod::tls())?;
    context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    let mut chain = identity.chain().iter();
    if let Some(leaf) = chain.next() {
        context.set_certificate(&*X509::from_der(leaf)?)?;
    }
    for above in chain {
        context.add_extra_chain_cert(X509::from_der(above)?)?;
    }
    context.set_private_key(&*PKey::private_key_from_der(identity.key().secret_der())?)?;
    context.check_private_key()?;
    if let Some(path) = std::env::var_os("SSLKEYLOGFILE")
        && let Ok(file) = File::options().append(true).create(true).open(path)
    {
        let file = Mutex::new(file);
        context.set_keylog_callback(move |_, line| {
            let _ = writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
        });
    }
    Ok(context)
}
