//! Digests of bodies (RFC 9530). A client that requests a digest with `want-content-digest` gets
//! the digest in the trailers. The digest is computed while the body is sent, so no file is read
//! twice. The client can thus detect corruption on the way.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest::{Context, SHA256};

/// Field that holds a digest (RFC 9530 §2).
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// Field that requests a digest (RFC 9530 §4).
pub const WANT_CONTENT_DIGEST: HeaderName = HeaderName::from_static("want-content-digest");
/// Field value with which a client requests a SHA-256 digest and no other.
pub const WANTED: HeaderValue = HeaderValue::from_static("sha-256=10");

const ALGORITHM: &str = "sha-256";

/// Returns whether a request asks for a supported digest: SHA-256 with a preference above 0.
pub fn is_wanted(request: &HeaderMap) -> bool {
    request.get_all(WANT_CONTENT_DIGEST).into_iter().any(|value| is_wanted_by(value.as_bytes()))
}

/// Returns whether one field value asks for a supported digest.
pub fn is_wanted_by(value: &[u8]) -> bool {
    members(value).any(|(name, value)| {
        name == ALGORITHM
            && value.parse::<u8>().is_ok_and(|preference| (1..=10).contains(&preference))
    })
}

/// Returns the members of a dictionary (RFC 8941 §3.2) whose values have neither commas nor
/// parameters. Digest values have none.
fn members(value: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let members = std::str::from_utf8(value).unwrap_or_default().split(',');
    members
        .filter_map(|member| member.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()))
}

/// Reason why a body does not match its digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// The server sent no SHA-256 digest.
    #[error("the server sent no {ALGORITHM} digest")]
    Missing,
    /// The server sent another digest.
    #[error("the digest of the body is {computed}, but the server sent {ALGORITHM}={sent}")]
    Different {
        /// Field value for the received body.
        computed: String,
        /// The server's SHA-256 digest, with control characters escaped.
        sent: String,
    },
}

/// SHA-256 of a body that arrives in pieces.
#[derive(Clone)]
pub struct Digest(Context);

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest")
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Digest {
    /// Adds the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Returns the field value for all pieces.
    pub fn value(self) -> String {
        format!("{ALGORITHM}=:{}:", STANDARD.encode(self.0.finish()))
    }

    /// Compares the digest with the digest in `fields`.
    ///
    /// # Errors
    /// Returns an error if `fields` have no digest or a different one.
    pub fn check(self, fields: &HeaderMap) -> Result<(), DigestError> {
        let found = self.value();
        let values = fields.get_all(CONTENT_DIGEST).into_iter();
        let sent =
            values.flat_map(|value| members(value.as_bytes())).find(|(name, _)| *name == ALGORITHM);
        let sent = sent.ok_or(DigestError::Missing)?;
        if found.split_once('=') == Some(sent) {
            return Ok(());
        }
        Err(DigestError::Different { computed: found, sent: sent.1.escape_debug().to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn content_digest_is_sent_only_on_request() {
        for (values, wanted) in [
            (&["sha-256=10"][..], true),
            (&["sha-512=3, sha-256=1"], true),
            (&["sha-512=3", " sha-256 = 5 "], true),
            (&["sha-256=0"], false),
            (&["sha-256=11"], false),
            (&["sha-512=3"], false),
            (&["sha-256"], false),
            (&[""], false),
            (&[], false),
        ] {
            assert_eq!(is_wanted(&fields(WANT_CONTENT_DIGEST, values)), wanted, "{values:?}");
        }
        assert!(is_wanted(&[(WANT_CONTENT_DIGEST, WANTED)].into_iter().collect()));
    }

    /// The digest of RFC 9530 §D.1. The body is one line of JSON including its line end.
    const DIGEST: &str = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";

    #[test]
    fn content_digest_matches_the_examples_of_rfc_9530() {
        let mut digest = Digest::default();
        for piece in ["{\"hello\": ", "\"world\"}\n"] {
            digest.add(piece.as_bytes());
        }
        assert_eq!(digest.clone().value(), DIGEST);
        digest.clone().check(&fields(CONTENT_DIGEST, &["sha-512=:AAAA:", DIGEST])).unwrap();
        assert_eq!(digest.clone().check(&HeaderMap::new()), Err(DigestError::Missing));
        digest.add(b" ");
        let wrong = digest.check(&fields(CONTENT_DIGEST, &[DIGEST])).unwrap_err().to_string();
        assert!(wrong.contains("RK/0qy18") && !wrong.contains('\n'), "{wrong}");
    }
}
