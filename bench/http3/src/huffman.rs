//! The Huffman code of HPACK and QPACK (RFC 7541 Appendix B).
//!
//! The code is canonical: codes of equal length are consecutive in the order of their symbols.
//! Therefore the lengths determine the code, and all tables are computed from the lengths when the
//! crate is compiled.
//!
//! The decoder looks up 12 bits at a time, which are up to two symbols. All printable ASCII
//! characters except 8 have codes of at most 12 bits. The table takes 16 KiB, so it fits a
//! first-level cache; a table for whole bytes by state would take 256 KiB.

/// Length of each symbol's code in bits. The last symbol is the end of a string (EOS), which must
/// not occur.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// Index of EOS. The symbols before it are bytes.
const EOS: usize = 256;
const LONGEST: usize = 30;
/// Number of bits that one lookup decodes.
const LOOKUP: usize = 12;

/// Code of each symbol, in the lower bits.
#[cfg(test)]
static CODES: [u32; 257] = codes();

const fn codes() -> [u32; 257] {
    let mut codes = [0; 257];
    let (mut bits, mut code) = (1, 0);
    while bits <= LONGEST {
        code <<= 1;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == bits {
                codes[symbol] = code;
                code += 1;
            }
            symbol += 1;
        }
        bits += 1;
    }
    codes
}

/// Code and length of each byte, in one word: the length is in the lower 8 bits.
static ENCODER: [u64; 256] = {
    let (codes, mut table) = (codes(), [0; 256]);
    let mut symbol = 0;
    while symbol < table.len() {
        table[symbol] = (codes[symbol] as u64) << 8 | LENGTHS[symbol] as u64;
        symbol += 1;
    }
    table
};

/// Symbols that [`LOOKUP`] bits begin with.
#[derive(Clone, Copy)]
struct Entry {
    symbols: [u8; 2],
    /// Length of the first code in bits; 0 if the first code is longer than the lookup.
    first: u8,
    /// Length of both codes in bits; equal to `first` if the bits contain only one code.
    both: u8,
}

static DECODER: [Entry; 1 << LOOKUP] = decoder();

const fn decoder() -> [Entry; 1 << LOOKUP] {
    let codes = codes();
    let mut table = [Entry { symbols: [0; 2], first: 0, both: 0 }; 1 << LOOKUP];
    let mut symbol = 0;
    while symbol < EOS {
        let length = LENGTHS[symbol] as usize;
        if length <= LOOKUP {
            let free = LOOKUP - length;
            let begin = (codes[symbol] as usize) << free;
            let mut at = begin;
            while at < begin + (1 << free) {
                table[at].symbols[0] = symbol as u8;
                table[at].first = length as u8;
                table[at].both = length as u8;
                at += 1;
            }
        }
        symbol += 1;
    }
    let mut at = 0;
    while at < table.len() {
        let first = table[at].first as usize;
        if first > 0 {
            let next = table[(at << first) & ((1 << LOOKUP) - 1)];
            if next.first > 0 && first + next.first as usize <= LOOKUP {
                table[at].symbols[1] = next.symbols[0];
                table[at].both = first as u8 + next.first;
            }
        }
        at += 1;
    }
    table
}

/// Codes of one length, for codes that are longer than a lookup.
#[derive(Clone, Copy)]
struct Length {
    /// First code of this length, in the upper bits of 32.
    first: u32,
    /// Code after the last one, in the upper bits. The type is wider because this code may not fit
    /// into 32 bits.
    end: u64,
    /// Index of the first symbol in [`SYMBOLS`].
    symbols: usize,
}

/// Symbols sorted by code length, then by value.
static SYMBOLS: [u16; 257] = long_codes().1;
static LONG_CODES: [Length; LONGEST + 1] = long_codes().0;

const fn long_codes() -> ([Length; LONGEST + 1], [u16; 257]) {
    let mut lengths = [Length { first: 0, end: 0, symbols: 0 }; LONGEST + 1];
    let mut symbols = [0; 257];
    let (mut bits, mut code, mut known) = (1, 0_u64, 0);
    while bits <= LONGEST {
        code <<= 1;
        let (first, begun) = (code, known);
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == bits {
                symbols[known] = symbol as u16;
                known += 1;
                code += 1;
            }
            symbol += 1;
        }
        let shift = 32 - bits;
        lengths[bits] =
            Length { first: (first << shift) as u32, end: code << shift, symbols: begun };
        bits += 1;
    }
    (lengths, symbols)
}

/// The string is not a valid Huffman string (RFC 7541 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// Returns the largest number of bytes that a Huffman string of `length` bytes may decode to.
pub const fn longest_decoded(length: usize) -> usize {
    // The shortest codes have 5 bits.
    length.saturating_mul(8) / 5
}

/// Decodes `encoded` and appends the result to `to`, which grows by at most
/// [`longest_decoded`] bytes. The contents of `to` are undefined after an error.
///
/// # Errors
/// Returns an error if the end-of-string symbol occurs, or if the padding is longer than seven bits
/// or does not consist of ones.
pub fn decode(encoded: &[u8], to: &mut Vec<u8>) -> Result<(), Invalid> {
    let begin = to.len();
    // Each lookup writes two bytes, even if the second one is not part of the string.
    to.resize(begin + longest_decoded(encoded.len()) + 2, 0);
    let written = decode_into(encoded, &mut to[begin..])?;
    to.truncate(begin + written);
    Ok(())
}

fn decode_into(mut rest: &[u8], out: &mut [u8]) -> Result<usize, Invalid> {
    // Bits that were read and not decoded, at the upper end.
    let (mut window, mut bits, mut written) = (0_u64, 0_usize, 0);
    loop {
        if let Some((word, _)) = rest.split_first_chunk::<8>() {
            // The bits of the last, incomplete byte are read again by the next fill, which does not
            // change them.
            window |= u64::from_be_bytes(*word) >> bits;
            let bytes = (63 - bits) / 8;
            rest = &rest[bytes..];
            bits += bytes * 8;
        } else {
            while bits <= 56
                && let Some((byte, after)) = rest.split_first()
            {
                window |= u64::from(*byte) << (56 - bits);
                bits += 8;
                rest = after;
            }
        }
        loop {
            let entry = DECODER[(window >> (64 - LOOKUP)) as usize];
            let both = usize::from(entry.both);
            if both > bits || both == 0 {
                break;
            }
            out[written..written + 2].copy_from_slice(&entry.symbols);
            written += 1 + usize::from(entry.both > entry.first);
            window <<= both;
            bits -= both;
        }
        if bits < LONGEST && !rest.is_empty() {
            continue;
        }
        // The rest is padding: the beginning of EOS, which is all ones (RFC 7541 §5.2).
        if bits < 8 && rest.is_empty() && window >= !(u64::MAX >> bits) {
            return Ok(written);
        }
        let entry = DECODER[(window >> (64 - LOOKUP)) as usize];
        let (symbol, length) = match entry.first {
            0 => long_code((window >> 32) as u32).ok_or(Invalid)?,
            first => (entry.symbols[0], usize::from(first)),
        };
        if length > bits {
            return Err(Invalid);
        }
        out[written] = symbol;
        written += 1;
        window <<= length;
        bits -= length;
    }
}

/// Returns the symbol whose code `next` begins with and the length of the code in bits, or `None`
/// for EOS. The code is longer than a lookup.
#[cold]
fn long_code(next: u32) -> Option<(u8, usize)> {
    for (bits, length) in LONG_CODES.iter().enumerate().skip(LOOKUP + 1) {
        if u64::from(next) < length.end {
            let number = (next - length.first) >> (32 - bits);
            let symbol = *SYMBOLS.get(length.symbols + number as usize)?;
            return u8::try_from(symbol).ok().map(|symbol| (symbol, bits));
        }
    }
    None
}

/// Returns the length of `text` as a Huffman string, in bytes.
#[inline]
pub fn encoded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends `text` as a Huffman string.
pub fn encode(text: &[u8], to: &mut Vec<u8>) {
    // At most 31 bits are left over after each symbol, and a code has at most 30 bits.
    let (mut window, mut bits) = (0_u64, 0_u32);
    for byte in text {
        let entry = ENCODER[usize::from(*byte)];
        let length = (entry & 0xff) as u32;
        window = window << length | entry >> 8;
        bits += length;
        if bits >= 32 {
            bits -= 32;
            to.extend_from_slice(&((window >> bits) as u32).to_be_bytes());
        }
    }
    while bits >= 8 {
        bits -= 8;
        to.push((window >> bits) as u8);
    }
    if bits > 0 {
        // Padding with ones.
        to.push((window << (8 - bits)) as u8 | (0xff >> bits));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::LazyLock;

    use super::*;
    use crate::noise::{Noise, cases};

    fn decoded(encoded: &[u8]) -> Result<Vec<u8>, Invalid> {
        let mut to = b"before".to_vec();
        decode(encoded, &mut to).map(|()| to.split_off(6))
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut to = Vec::new();
        encode(text, &mut to);
        assert_eq!(to.len(), encoded_length(text));
        to
    }

    /// Symbols by the length of their code and the code.
    static SYMBOLS: LazyLock<HashMap<(usize, u32), usize>> = LazyLock::new(|| {
        (0..=EOS).map(|symbol| ((LENGTHS[symbol].into(), CODES[symbol]), symbol)).collect()
    });

    /// Decodes bit by bit.
    fn reference(encoded: &[u8]) -> Result<Vec<u8>, Invalid> {
        let (mut text, mut code, mut length) = (Vec::new(), 0_u32, 0_usize);
        for bit in 0..encoded.len() * 8 {
            code = code << 1 | u32::from(encoded[bit / 8] >> (7 - bit % 8) & 1);
            length += 1;
            if let Some(symbol) = SYMBOLS.get(&(length, code)) {
                text.push(u8::try_from(*symbol).map_err(|_| Invalid)?);
                (code, length) = (0, 0);
            }
        }
        let padding = length < 8 && code == (1 << length) - 1;
        if padding { Ok(text) } else { Err(Invalid) }
    }

    #[test]
    fn examples_of_rfc_7541_appendix_c_are_coded_both_ways() {
        let bytes = |hex: &str| -> Vec<u8> {
            let hex = hex.replace(' ', "");
            (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect()
        };
        for (hex, text) in [
            ("f1e3 c2e5 f23a 6ba0 ab90 f4ff", "www.example.com"),
            ("a8eb 1064 9cbf", "no-cache"),
            ("25a8 49e9 5ba9 7d7f", "custom-key"),
            ("25a8 49e9 5bb8 e8b4 bf", "custom-value"),
            ("6402", "302"),
            ("aec3 771a 4b", "private"),
            (
                "d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (
                "d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff",
                "Mon, 21 Oct 2013 20:13:22 GMT",
            ),
            ("9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3", "https://www.example.com"),
            ("640e ff", "307"),
            ("9bd9 ab", "gzip"),
            (
                "94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
                 3d50 07",
                "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            ),
        ] {
            assert_eq!(decoded(&bytes(hex)).as_deref(), Ok(text.as_bytes()), "{text}");
            assert_eq!(encoded(text.as_bytes()), bytes(hex), "{text}");
        }
    }

    #[test]
    fn padding_and_end_of_string_are_checked() {
        // 'a' is 00011, followed by padding.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        assert_eq!(decoded(&[]), Ok(Vec::new()));
        for wrong in [
            // Padding of zeros, a byte of ones too many, only eight ones.
            &[0b0001_1000][..],
            &[0b0001_1111, 0xff],
            &[0xff],
            // A whole EOS, alone, after a symbol, and before symbols.
            &[0xff, 0xff, 0xff, 0xff],
            &[0b0001_1111, 0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xff, 0x18, 0xc6, 0x31, 0x8c, 0x63, 0x18, 0xc6, 0x31],
        ] {
            assert_eq!(decoded(wrong), Err(Invalid), "{wrong:?}");
            assert_eq!(reference(wrong), Err(Invalid), "{wrong:?}");
        }
    }

    #[test]
    fn every_string_round_trips() {
        let mut noise = Noise::new(5);
        for case in 0..cases() {
            let text = if case % 2 == 0 { noise.bytes(300) } else { noise.text(300) };
            assert_eq!(decoded(&encoded(&text)), Ok(text));
        }
        for byte in 0..=255 {
            for length in 0..20 {
                let text = vec![byte; length];
                assert_eq!(decoded(&encoded(&text)), Ok(text));
            }
        }
    }

    #[test]
    fn lookups_decode_like_single_bits() {
        let mut noise = Noise::new(6);
        for case in 0..cases() {
            let mut input = noise.bytes(40);
            if case % 2 == 0 {
                // Mostly valid, with one wrong byte and more ones than arbitrary input.
                input = encoded(&noise.text(60));
                if !input.is_empty() {
                    let at = noise.below(input.len());
                    input[at] = noise.next() as u8;
                    input.extend_from_slice(&[0xff; 3][..noise.below(4)]);
                }
            }
            let wanted = reference(&input);
            if let Ok(text) = &wanted {
                assert!(text.len() <= longest_decoded(input.len()));
            }
            assert_eq!(decoded(&input), wanted, "{input:?}");
        }
    }
}
