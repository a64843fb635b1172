//! The Huffman code of HPACK and QPACK (RFC 7541 Appendix B).
//!
//! The code is canonical: codes of equal length are consecutive in the order of their symbols.
//! Therefore the lengths determine the code.

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
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// Decoding data for the codes of one length.
#[derive(Clone, Copy)]
struct Length {
    /// First code of this length, in the upper bits of a 32-bit number.
    first: u32,
    /// Code after the last one of this length, in the upper bits. The type is wider than 32 bits
    /// because this code may not fit into 32 bits.
    end: u64,
    /// Index of the first symbol in [`Table::symbols`].
    symbols: usize,
}

struct Table {
    lengths: [Length; LONGEST + 1],
    /// Symbols sorted by code length, then by value.
    symbols: [u16; 257],
}

static TABLE: Table = table();

const fn table() -> Table {
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
    Table { lengths, symbols }
}

/// The string is not a valid Huffman string (RFC 7541 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// Decodes `encoded` and appends the result to `to`. The result has at most 8/5 as many bytes as
/// `encoded`.
///
/// # Errors
/// Returns an error if the end-of-string symbol occurs, or if the padding is longer than seven bits
/// or does not consist of ones.
pub(super) fn decode(encoded: &[u8], to: &mut Vec<u8>) -> Result<(), Invalid> {
    // Bits that were read but not yet decoded, at the upper end.
    let (mut window, mut bits, mut rest) = (0_u64, 0_usize, encoded.iter());
    loop {
        while bits <= 56
            && let Some(byte) = rest.next()
        {
            window |= u64::from(*byte) << (56 - bits);
            bits += 8;
        }
        let next = (window >> 32) as u32;
        let Some((symbol, length)) = symbol(next) else { return Err(Invalid) };
        if length > bits {
            // The remaining bits are padding: the beginning of EOS, which consists of ones
            // (RFC 7541 §5.2).
            let padding = bits < 8 && window.leading_ones() as usize >= bits;
            return if padding { Ok(()) } else { Err(Invalid) };
        }
        if symbol as usize == EOS {
            return Err(Invalid);
        }
        to.push(symbol as u8);
        window <<= length;
        bits -= length;
    }
}

/// Returns the symbol whose code is at the beginning of `next`, and the length of this code in
/// bits.
fn symbol(next: u32) -> Option<(u16, usize)> {
    for bits in SHORTEST..=LONGEST {
        let length = &TABLE.lengths[bits];
        if u64::from(next) < length.end {
            let number = (next - length.first) >> (32 - bits);
            return Some((*TABLE.symbols.get(length.symbols + number as usize)?, bits));
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Returns the encoded string, padded with ones.
    pub(in super::super) fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for byte in text {
            let length = LENGTHS[*byte as usize] as usize;
            let of = &TABLE.lengths[length];
            let number = TABLE.symbols[of.symbols..]
                .iter()
                .position(|symbol| *symbol == u16::from(*byte))
                .unwrap();
            let code = (of.first >> (32 - length)) + number as u32;
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        bits.resize(bits.len().next_multiple_of(8), true);
        bits.chunks(8)
            .map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit)))
            .collect()
    }

    fn decoded(encoded: &[u8]) -> Result<Vec<u8>, Invalid> {
        let mut to = Vec::new();
        decode(encoded, &mut to).map(|()| to)
    }

    #[test]
    fn huffman_examples_of_rfc_7541_appendix_c_are_decoded() {
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
            assert_eq!(encode(text.as_bytes()), bytes(hex), "{text}");
        }
    }

    #[test]
    fn huffman_padding_and_end_of_string_are_checked() {
        // 'a' is 00011, followed by padding.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        assert_eq!(decoded(&[]), Ok(Vec::new()));
        for wrong in [
            // Padding of zeros, a byte of ones too many, only eight ones.
            &[0b0001_1000][..],
            &[0b0001_1111, 0xff],
            &[0xff],
            // A whole EOS, alone and after a symbol.
            &[0xff, 0xff, 0xff, 0xff],
            &[0b0001_1111, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(decoded(wrong), Err(Invalid), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn huffman_strings_round_trip(text in vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(decoded(&encode(&text)), Ok(text));
        }

        #[test]
        fn huffman_decoding_never_panics_and_bounds_its_output(encoded in vec(any::<u8>(), 0..300)) {
            let mut to = Vec::new();
            let valid = decode(&encoded, &mut to);
            prop_assert!(to.len() * 5 <= encoded.len() * 8);
            if valid.is_ok() {
                prop_assert_eq!(encode(&to), encoded);
            }
        }
    }
}
