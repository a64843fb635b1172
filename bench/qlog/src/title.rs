//! The title of a server's log, which consists of the connection's stack and controller.

use std::fmt;

/// Stack and controller of a connection of `fathom serve`, used as the title of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTitle<'a> {
    /// QUIC stack.
    pub stack: &'a str,
    /// Controller with its options.
    pub controller: &'a str,
}

const BEFORE_STACK: &str = "fathom serve: ";
const BEFORE_CONTROLLER: &str = " with ";

impl fmt::Display for ServerTitle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEFORE_STACK}{}{BEFORE_CONTROLLER}{}", self.stack, self.controller)
    }
}

impl<'a> ServerTitle<'a> {
    /// Parses a log's title. Returns `None` if the title was not written by `fathom serve`.
    pub fn parse(title: &'a str) -> Option<Self> {
        let (stack, controller) =
            title.strip_prefix(BEFORE_STACK)?.split_once(BEFORE_CONTROLLER)?;
        (!stack.is_empty() && !controller.is_empty()).then_some(Self { stack, controller })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qlog_title_round_trips_through_text() {
        for (stack, controller) in
            [("quinn", "sync:signal=either"), ("noq", "native:cubic"), ("quiche", "a with b")]
        {
            let title = ServerTitle { stack, controller };
            assert_eq!(ServerTitle::parse(&title.to_string()), Some(title));
        }
        for other in [
            "",
            "quinn",
            "fathom serve: ",
            "fathom serve: quinn",
            "fathom serve: quinn with ",
            "a with b",
        ] {
            assert_eq!(ServerTitle::parse(other), None, "{other}");
        }
    }
}
