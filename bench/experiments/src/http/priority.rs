//! The `priority` header (RFC 9218 §4, §5).

/// Urgency of a response, and whether the client can use parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Urgency from 0 (most urgent) to 7.
    pub urgency: u8,
    /// Whether the client can use parts of the response. Incremental responses of the same urgency
    /// share the bandwidth; non-incremental responses are sent one after another (RFC 9218 §10).
    pub incremental: bool,
}

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

impl Priority {
    /// Returns the value of the header. An urgency above 7 counts as 7.
    pub fn header(self) -> &'static str {
        HEADERS[usize::from(self.urgency.min(7))][usize::from(self.incremental)]
    }

    /// Parses the header as this laboratory's clients write it. Returns `None` for any other value.
    pub fn read(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (urgency, rest) = text.strip_prefix("u=")?.split_at_checked(1)?;
        let urgency = urgency.parse().ok().filter(|urgency| *urgency <= 7)?;
        match rest {
            "" => Some(Self { urgency, incremental: false }),
            ", i" => Some(Self { urgency, incremental: true }),
            _ => None,
        }
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
                assert_eq!(Priority::read(priority.header().as_bytes()), Some(priority));
            }
        }
        for other in ["", "u=8", "u=", "i", "u=1;i", "u=12"] {
            assert_eq!(Priority::read(other.as_bytes()), None, "{other}");
        }
    }
}
