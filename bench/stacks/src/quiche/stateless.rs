//! Replies that need no state per client: Retry tokens, refusals and version negotiation.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ring::hmac;
use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::Version;

use super::stack;

/// Lifetime of a Retry token.
const LIFETIME: Duration = Duration::from_secs(15);
/// Length of a token's authentication code, in bytes.
const TAG: usize = 32;
/// Length of a token's time field, in bytes.
const TIME: usize = 8;

/// Issuer and checker of Retry tokens (RFC 9000 §8.1.2). A token contains the time, the client's
/// first destination connection ID, and an authentication code. The code covers both, the client's
/// address, and the connection ID that the Retry issued.
pub(super) struct RetryTokens {
    key: hmac::Key,
}

impl RetryTokens {
    /// Returns the issuer and checker with this key.
    pub(super) const fn new(key: hmac::Key) -> Self {
        Self { key }
    }

    /// Returns a token. `now` is the time since any fixed moment.
    pub(super) fn make(
        &self,
        now: Duration,
        client: SocketAddr,
        original: &[u8],
        given: &[u8],
    ) -> Vec<u8> {
        let mut token = now.as_secs().to_be_bytes().to_vec();
        token.extend_from_slice(original);
        let tag = hmac::sign(&self.key, &signed(&token, client, given));
        token.extend_from_slice(tag.as_ref());
        token
    }

    /// Returns the original destination connection ID if the token is valid: this server issued it
    /// to this client, and it has not expired.
    pub(super) fn check<'a>(
        &self,
        now: Duration,
        token: &'a [u8],
        client: SocketAddr,
        given: &[u8],
    ) -> Option<&'a [u8]> {
        let (said, tag) = token.split_at_checked(token.len().checked_sub(TAG)?)?;
        hmac::verify(&self.key, &signed(said, client, given), tag).ok()?;
        let (time, original) = said.split_first_chunk::<TIME>()?;
        let age = now.as_secs().checked_sub(u64::from_be_bytes(*time))?;
        (age <= LIFETIME.as_secs()).then_some(original)
    }
}

/// Returns the bytes that a token's code authenticates. Every part of variable length, except the
/// last one, starts with its length or its type.
fn signed(said: &[u8], client: SocketAddr, given: &[u8]) -> Vec<u8> {
    let mut all = vec![given.len() as u8];
    all.extend_from_slice(given);
    match client.ip() {
        IpAddr::V4(ip) => all.extend([&[4][..], &ip.octets()].concat()),
        IpAddr::V6(ip) => all.extend([&[6][..], &ip.octets()].concat()),
    }
    all.extend(client.port().to_be_bytes());
    all.extend_from_slice(said);
    all
}

/// Returns a Version Negotiation packet for a client's packet with a long header. The connection
/// IDs of such a packet may have any length (RFC 8999 §6).
pub(super) fn version_negotiation(packet: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = packet.get(5..)?.split_first()?;
    let (asked, rest) = rest.split_at_checked(usize::from(*length))?;
    let (length, rest) = rest.split_first()?;
    let client = rest.get(..usize::from(*length))?;
    let mut answer = vec![0x80 | 0x40, 0, 0, 0, 0];
    for id in [client, asked] {
        answer.push(id.len() as u8);
        answer.extend_from_slice(id);
    }
    answer.extend(stack::PROTOCOL_VERSION.to_be_bytes());
    Some(answer)
}

/// Returns an Initial packet that refuses the connection (RFC 9000 §5.2.2, CONNECTION_REFUSED),
/// because quiche cannot create one without a connection. `asked` and `client` are the destination
/// and source connection IDs of the client's packet.
pub(super) fn refusal(asked: &[u8], client: &[u8]) -> Option<Vec<u8>> {
    // The CONNECTION_CLOSE frame consists of a code, a frame type and the length of the reason. The
    // rest is padding, because header protection samples 16 bytes.
    const PAYLOAD: [u8; 20] = {
        let mut payload = [0; 20];
        (payload[0], payload[1]) = (0x1c, 0x02);
        payload
    };
    let keys = TLS13_AES_128_GCM_SHA256
        .tls13()?
        .quic_suite()?
        .keys(asked, Side::Server, Version::V1)
        .local;
    // This is an Initial packet whose packet number is 0 and takes one byte.
    let mut packet = vec![0xc0, 0, 0, 0, 1];
    for id in [client, asked] {
        packet.push(u8::try_from(id.len()).ok()?);
        packet.extend_from_slice(id);
    }
    let tag = keys.packet.tag_len();
    // There is no token. The length of the rest and the packet number follow.
    packet.extend([
        0,
        u8::try_from(1 + PAYLOAD.len() + tag).ok().filter(|length| *length < 64)?,
        0,
    ]);
    let mut payload = PAYLOAD;
    let tag = keys.packet.encrypt_in_place(0, &packet, &mut payload).ok()?;
    let number = packet.len() - 1;
    packet.extend_from_slice(&payload);
    packet.extend_from_slice(tag.as_ref());
    let (head, rest) = packet.split_at_mut(number + 4);
    let (first, head) = head.split_first_mut()?;
    let sample = rest.get(..keys.header.sample_len())?;
    keys.header.encrypt_in_place(sample, first, &mut head[number - 1..number]).ok()?;
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_token_is_valid_only_for_its_client_and_lifetime() {
        let tokens_of = |key: [u8; 32]| RetryTokens::new(hmac::Key::new(hmac::HMAC_SHA256, &key));
        let (tokens, now) = (tokens_of([1; 32]), Duration::from_secs(100));
        let client: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let token = tokens.make(now, client, b"original", b"given");
        assert_eq!(tokens.check(now, &token, client, b"given"), Some(&b"original"[..]));
        for other in ["192.0.2.1:4001", "192.0.2.2:4000", "[2001:db8::1]:4000"] {
            assert_eq!(
                tokens.check(now, &token, other.parse().unwrap(), b"given"),
                None,
                "{other}"
            );
        }
        assert_eq!(tokens.check(now, &token, client, b"taken"), None);
        assert_eq!(
            tokens_of([2; 32]).check(now, &token, client, b"given"),
            None,
            "another server's"
        );
        for bit in 0..token.len() * 8 {
            let mut bent = token.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(tokens.check(now, &bent, client, b"given"), None, "bit {bit}");
        }
        for length in 0..token.len() {
            assert_eq!(
                tokens.check(now, &token[..length], client, b"given"),
                None,
                "{length} bytes"
            );
        }
        for (at, good) in [
            (now + LIFETIME, true),
            (now + LIFETIME + Duration::from_secs(1), false),
            (Duration::ZERO, false),
        ] {
            assert_eq!(tokens.check(at, &token, client, b"given").is_some(), good, "{at:?}");
        }
    }

    #[test]
    fn version_negotiation_accepts_connection_ids_of_any_length() {
        for (asked, client) in [(0, 0), (8, 0), (20, 20), (255, 255)] {
            let (asked, client) = (vec![1; asked], vec![2; client]);
            let with = |begin: &[u8], first: &[u8], second: &[u8]| {
                [begin, &[first.len() as u8], first, &[second.len() as u8], second].concat()
            };
            let packet = with(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a], &asked, &client);
            let answer = [with(&[0xc0, 0, 0, 0, 0], &client, &asked), vec![0, 0, 0, 1]].concat();
            assert_eq!(version_negotiation(&packet), Some(answer));
            for length in 0..packet.len() {
                assert_eq!(version_negotiation(&packet[..length]), None, "{length} bytes");
            }
        }
    }

    #[test]
    fn refusal_packet_is_smaller_than_the_initial_packet() {
        let longest = refusal(&[7; 20], &[9; 20]).unwrap();
        assert!(longest.len() < 100, "{}", longest.len());
    }
}
