//! The `priority` header (RFC 9218 §4, §5).

use fathom_http3::priority::Priority;

/// Header values, by urgency and `incremental`.
const HEADERS: [[&str; 2]; 8] = [
    ["u=0", "u=0, i"],
    ["u=1", "u=1, i"],
    ["u=2", "u=2, i"],
    ["u=3", "u=3, i"],
    ["u=4", "u=4, i"],
    ["u=5", "u=5, i"],
    ["u=6", "u=6, i"],
    ["u=7", "u=7, i"],
];

/// Returns the value of the header. An urgency above 7 counts as 7. Unlike the text of
/// [`Priority`], the value always has the urgency.
pub(super) fn header(priority: Priority) -> &'static str {
    HEADERS[usize::from(priority.urgency.min(7))][usize::from(priority.incremental)]
}

/// Parses the header as this laboratory's clients write it. Returns `None` for any other value.
pub(super) fn read(value: &[u8]) -> Option<Priority> {
    let text = std::str::from_utf8(value).ok()?;
    let (urgency, rest) = text.strip_prefix("u=")?.split_at_checked(1)?;
    let urgency = urgency.parse().ok().filter(|urgency| *urgency <= 7)?;
    match rest {
        "" => Some(Priority { urgency, incremental: false }),
        ", i" => Some(Priority { urgency, incremental: true }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_header_round_trips_through_text() {
        for urgency in 0..=7 {
            for incremental in [false, true] {
                let priority = Priority { urgency, incremental };
                assert_eq!(read(header(priority).as_bytes()), Some(priority));
            }
        }
        for other in ["", "u=8", "u=", "i", "u=1;i", "u=12"] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
    }
}
