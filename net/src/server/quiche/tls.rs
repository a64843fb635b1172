//! TLS as the other stacks have it: 1.3, HTTP/3 only.

use super::SetupError;
use crate::identity::{ALPN, Identity, IdentityError};

/// A server's configuration with this identity.
pub(super) fn config(identity: &Identity) -> Result<quiche::Config, SetupError> {
    let context = identity.boring()?;
    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context).map_err(|e| foreign(&e))?;
    config.set_application_protos(&[ALPN]).map_err(|e| foreign(&e))?;
    Ok(config)
}

/// quiche's words in ours.
pub(super) fn foreign(why: &dyn std::fmt::Display) -> SetupError {
    IdentityError::foreign(why).into()
}
