//! TLS as the other stacks have it: 1.3, HTTP/3 only.

use crate::identity::{ALPN, Identity, IdentityError};
use crate::server::SetupError;

/// A server's configuration with this identity.
pub(super) fn config(identity: &Identity) -> Result<quiche::Config, SetupError> {
    let server = identity.boring()?;
    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, server).map_err(|e| boring_error(&e))?;
    config.set_application_protos(&[ALPN]).map_err(|e| boring_error(&e))?;
    Ok(config)
}

/// quiche's words in ours.
pub(super) fn boring_error(why: &dyn std::fmt::Display) -> SetupError {
    IdentityError::boring_error(why).into()
}
