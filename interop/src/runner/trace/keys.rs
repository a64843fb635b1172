//! TLS secrets, packet protection keys and decryption (RFC 9001 §5).

use std::collections::HashMap;

use ring::aead::{self, quic};
use ring::hkdf;

use super::packet::Packet;

/// Salt of Initial secrets in QUIC version 1 (RFC 9001 §5.2).
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];

/// TLS secrets from key logs (SSLKEYLOGFILE), by client random and label.
#[derive(Clone, Debug, Default)]
pub struct Secrets(HashMap<(Vec<u8>, String), Vec<u8>>);

impl Secrets {
    /// Adds the secrets of a key log. Other lines are ignored.
    pub fn add(&mut self, log: &str) {
        for line in log.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(label), Some(random), Some(secret)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if let (Some(random), Some(secret)) = (parse_hex(random), parse_hex(secret)) {
                self.0.insert((random, label.to_owned()), secret);
            }
        }
    }

    pub(super) fn find(&self, random: &[u8], label: &str) -> Option<&[u8]> {
        self.0.get(&(random.to_vec(), label.to_owned())).map(Vec::as_slice)
    }
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// A cipher suite of TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    Aes128,
    Aes256,
    ChaCha20,
}

impl Suite {
    pub(super) const fn from_id(number: u16) -> Option<Self> {
        Some(match number {
            0x1301 => Self::Aes128,
            0x1302 => Self::Aes256,
            0x1303 => Self::ChaCha20,
            _ => return None,
        })
    }

    fn hash(self) -> hkdf::Algorithm {
        if self == Self::Aes256 { hkdf::HKDF_SHA384 } else { hkdf::HKDF_SHA256 }
    }

    fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128 => &aead::AES_128_GCM,
            Self::Aes256 => &aead::AES_256_GCM,
            Self::ChaCha20 => &aead::CHACHA20_POLY1305,
        }
    }

    fn header(self) -> &'static quic::Algorithm {
        match self {
            Self::Aes128 => &quic::AES_128,
            Self::Aes256 => &quic::AES_256,
            Self::ChaCha20 => &quic::CHACHA20,
        }
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Returns the output of HKDF-Expand-Label (RFC 8446 §7.1) without context.
fn expand(prk: &hkdf::Prk, label: &str, length: usize) -> Option<Vec<u8>> {
    let sizes =
        [(length as u16).to_be_bytes()[0], (length as u16).to_be_bytes()[1], 6 + label.len() as u8];
    let info = [&sizes[..], b"tls13 ", label.as_bytes(), &[0]];
    let mut out = vec![0; length];
    prk.expand(&info, Length(length)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

/// Packet protection keys of one encryption level and direction.
pub(super) struct PacketKeys {
    suite: Suite,
    secret: Vec<u8>,
    key: aead::LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    header: quic::HeaderProtectionKey,
    /// Number of key updates so far (RFC 9001 §6).
    updates: u64,
    largest: Option<u64>,
}

impl std::fmt::Debug for PacketKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Level")
            .field("suite", &self.suite)
            .field("updates", &self.updates)
            .finish_non_exhaustive()
    }
}

/// A decrypted packet.
#[derive(Debug)]
pub(super) struct DecryptedPacket {
    pub(super) payload: Vec<u8>,
    /// Packet number.
    pub(super) number: u64,
    /// Number of key updates before this packet's key.
    pub(super) updates: u64,
}

impl PacketKeys {
    pub(super) fn new(suite: Suite, secret: &[u8]) -> Option<Self> {
        let prk = hkdf::Prk::new_less_safe(suite.hash(), secret);
        let header = expand(&prk, "quic hp", suite.header().key_len())?;
        let header = quic::HeaderProtectionKey::new(suite.header(), &header).ok()?;
        let (key, iv) = key_and_iv(suite, secret)?;
        Some(Self { suite, secret: secret.to_vec(), key, iv, header, updates: 0, largest: None })
    }

    /// Returns the client's and the server's Initial keys. `id` is the client's first destination
    /// connection ID.
    pub(super) fn initial(id: &[u8]) -> Option<[Self; 2]> {
        let common = hkdf::Salt::new(hkdf::HKDF_SHA256, &SALT).extract(id);
        let client = expand(&common, "client in", 32)?;
        let server = expand(&common, "server in", 32)?;
        Some([Self::new(Suite::Aes128, &client)?, Self::new(Suite::Aes128, &server)?])
    }

    /// Decrypts a packet whose packet number begins at `offset`. Returns `None` if these keys do
    /// not match.
    pub(super) fn decrypt(
        &mut self,
        packet: &Packet<'_>,
        offset: usize,
    ) -> Option<DecryptedPacket> {
        let mut bytes = packet.bytes.to_vec();
        let mask = self
            .header
            .new_mask(bytes.get(offset + 4..offset + 4 + self.header.algorithm().sample_len())?)
            .ok()?;
        let short = bytes[0] & 0x80 == 0;
        bytes[0] ^= mask[0] & if short { 0x1f } else { 0x0f };
        let length = usize::from(bytes[0] & 3) + 1;
        let mut truncated = 0;
        for (byte, mask) in bytes[offset..offset + length].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            truncated = truncated << 8 | u64::from(*byte);
        }
        let number = decode_packet_number(self.largest, truncated, length);
        let phase = short && bytes[0] & 4 != 0;
        let payload = offset + length;
        let newer = phase != (self.updates % 2 == 1);
        let decrypted = if short && newer {
            // The packet was protected with the next keys or with the previous keys. Only the next
            // keys are tried, because packets with the previous keys no longer matter.
            let next = next_secret(self.suite, &self.secret)?;
            let (key, iv) = key_and_iv(self.suite, &next)?;
            let decrypted = open_in_place(&key, iv, number, &mut bytes, payload)?;
            (self.secret, self.key, self.iv) = (next, key, iv);
            self.updates += 1;
            decrypted
        } else {
            open_in_place(&self.key, self.iv, number, &mut bytes, payload)?
        };
        self.largest = self.largest.max(Some(number));
        Some(DecryptedPacket { payload: decrypted, number, updates: self.updates })
    }
}

/// Returns the secret after a key update.
fn next_secret(suite: Suite, secret: &[u8]) -> Option<Vec<u8>> {
    expand(&hkdf::Prk::new_less_safe(suite.hash(), secret), "quic ku", secret.len())
}

fn key_and_iv(suite: Suite, secret: &[u8]) -> Option<(aead::LessSafeKey, [u8; aead::NONCE_LEN])> {
    let prk = hkdf::Prk::new_less_safe(suite.hash(), secret);
    let key = expand(&prk, "quic key", suite.aead().key_len())?;
    let iv = expand(&prk, "quic iv", aead::NONCE_LEN)?;
    let key = aead::UnboundKey::new(suite.aead(), &key).ok()?;
    Some((aead::LessSafeKey::new(key), iv.try_into().ok()?))
}

fn open_in_place(
    key: &aead::LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    number: u64,
    bytes: &mut [u8],
    payload: usize,
) -> Option<Vec<u8>> {
    let mut nonce = iv;
    for (byte, number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
        *byte ^= number;
    }
    let (header, rest) = bytes.split_at_mut_checked(payload)?;
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    let decrypted = key.open_in_place(nonce, aead::Aad::from(&*header), rest).ok()?;
    Some(decrypted.to_vec())
}

/// Decodes a truncated packet number (RFC 9000 §A.3).
fn decode_packet_number(largest: Option<u64>, truncated: u64, length: usize) -> u64 {
    let expected = largest.map_or(0, |largest| largest + 1);
    let window = 1u64 << (8 * length);
    let candidate = expected & !(window - 1) | truncated;
    if candidate + window / 2 <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        parse_hex(text).unwrap()
    }

    #[test]
    fn initial_keys_match_rfc_9001_a_1() {
        let [client, server] = PacketKeys::initial(&bytes("8394c8f03e515708")).unwrap();
        assert_eq!(
            client.secret,
            bytes("c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea")
        );
        assert_eq!(client.iv.to_vec(), bytes("fa044b2f42a3fd3b46fb255c"));
        assert_eq!(server.iv.to_vec(), bytes("0ac1493ca1905853b0bba03e"));
    }

    #[test]
    fn packet_of_rfc_9001_a_5_is_decrypted() {
        let secret = bytes("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
        let mut level = PacketKeys::new(Suite::ChaCha20, &secret).unwrap();
        level.largest = Some(654_360_563);
        let packet = bytes("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
        let packets = super::super::packet::split_datagram(&packet);
        let decrypted = level.decrypt(&packets[0], 1).unwrap();
        assert_eq!((decrypted.payload, decrypted.updates), (vec![1], 0));
        let next = next_secret(Suite::ChaCha20, &secret).unwrap();
        assert_eq!(next, bytes("1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9"));
        for bit in 0..packet.len() * 8 {
            let mut corrupted = packet.clone();
            corrupted[bit / 8] ^= 1 << (bit % 8);
            let mut level = PacketKeys::new(Suite::ChaCha20, &secret).unwrap();
            level.largest = Some(654_360_563);
            let read = super::super::packet::split_datagram(&corrupted)
                .first()
                .and_then(|packet| level.decrypt(packet, 1));
            assert!(read.is_none(), "bit {bit}");
        }
    }

    #[test]
    fn decoded_packet_numbers_match_rfc_9000_a_3() {
        assert_eq!(decode_packet_number(Some(0xa82f_30ea), 0x9b32, 2), 0xa82f_9b32);
        assert_eq!(
            (
                decode_packet_number(None, 0, 1),
                decode_packet_number(Some(255), 0, 1),
                decode_packet_number(Some(256), 255, 1)
            ),
            (0, 256, 255)
        );
    }

    #[test]
    fn key_log_parser_ignores_malformed_lines() {
        let mut secrets = Secrets::default();
        secrets.add("# comment\nCLIENT_TRAFFIC_SECRET_0 0aFF 0102\nx\nLABEL zz 01\nLABEL 0 01\n");
        assert_eq!(secrets.find(&[0x0a, 0xff], "CLIENT_TRAFFIC_SECRET_0"), Some(&[1, 2][..]));
        assert_eq!(secrets.0.len(), 1);
    }
}
