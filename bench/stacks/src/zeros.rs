//! Zero bytes of synthetic bodies, which prioritised streams send without a copy.

/// A piece of any synthetic body. Its 64 KiB are as many bytes as stacks buffer for a fresh stream
/// anyway.
pub static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Returns `bytes` as a part of [`ZEROS`], if `bytes` is located there.
pub(crate) fn as_static(bytes: &[u8]) -> Option<&'static [u8]> {
    let start = bytes.as_ptr().addr().checked_sub(ZEROS.as_ptr().addr())?;
    ZEROS.get(start..start.checked_add(bytes.len())?)
}

#[cfg(test)]
mod tests {
    use super::{ZEROS, as_static};

    #[test]
    fn only_parts_of_the_zero_buffer_are_treated_as_static() {
        for part in [&ZEROS[..], &ZEROS[1..9], &ZEROS[ZEROS.len() - 1..]] {
            assert_eq!(
                as_static(part).map(|found| found.as_ptr_range()),
                Some(part.as_ptr_range())
            );
        }
        let others = vec![0; 3 * ZEROS.len()];
        assert!(others.chunks(1_000).all(|other| as_static(other).is_none()));
    }
}
