//! Priorities of responses (RFC 9218).

use std::fmt;

/// Priority of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Priority {
    /// Urgency from 0, the most urgent, to 7.
    pub urgency: u8,
    /// Whether the response may be processed while it arrives, so that it may share bandwidth.
    pub incremental: bool,
}

impl Default for Priority {
    /// Returns the priority of a request without a `priority` field (RFC 9218 §4).
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl fmt::Display for Priority {
    /// Writes the value of a `priority` field, without parameters that have their default value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.urgency, self.incremental) {
            (3, false) => Ok(()),
            (3, true) => f.write_str("i"),
            (urgency, false) => write!(f, "u={urgency}"),
            (urgency, true) => write!(f, "u={urgency}, i"),
        }
    }
}

impl Priority {
    /// Parses the value of a `priority` field: a dictionary of structured fields (RFC 8941
    /// §4.2.2). Parameters other than `u` and `i` are ignored, and so are values of `u` and `i` of
    /// a wrong type or range. Returns `None` if the value is not a dictionary; its priority is then
    /// the default.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut parser = Parser { rest: value };
        let mut priority = Self::default();
        parser.skip_spaces();
        while !parser.rest.is_empty() {
            let key = parser.key()?;
            let item = if parser.eat(b'=') { parser.item_or_list()? } else { Item::Boolean(true) };
            parser.parameters()?;
            match (key, item) {
                // The last one of several members with a key is valid (RFC 8941 §4.2.2).
                (b"u", Item::Integer(urgency @ 0..=7)) => priority.urgency = urgency as u8,
                (b"u", _) => priority.urgency = Self::default().urgency,
                (b"i", Item::Boolean(incremental)) => priority.incremental = incremental,
                (b"i", _) => priority.incremental = false,
                _ => {}
            }
            parser.skip_whitespace();
            if parser.rest.is_empty() {
                break;
            }
            if !parser.eat(b',') {
                return None;
            }
            parser.skip_whitespace();
            if parser.rest.is_empty() {
                // A comma must be followed by a member.
                return None;
            }
        }
        Some(priority)
    }
}

/// A bare item, as far as its contents matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Integer(i64),
    Boolean(bool),
    Other,
}

/// Parser of structured fields (RFC 8941 §4.2). Every method consumes at least one byte or fails,
/// and none calls itself.
struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn take_while(&mut self, matches: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !matches(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip_spaces(&mut self) {
        self.take_while(|byte| byte == b' ');
    }

    fn skip_whitespace(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        if !matches!(self.rest.first()?, b'a'..=b'z' | b'*') {
            return None;
        }
        Some(self.take_while(
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
        ))
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eat(b';') {
            self.skip_spaces();
            self.key()?;
            if self.eat(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn item_or_list(&mut self) -> Option<Item> {
        if !self.eat(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip_spaces();
            if self.eat(b')') {
                return Some(Item::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.rest.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn bare_item(&mut self) -> Option<Item> {
        match self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'?' => {
                let (item, rest) = match self.rest {
                    [_, digit @ (b'0' | b'1'), rest @ ..] => (Item::Boolean(*digit == b'1'), rest),
                    _ => return None,
                };
                self.rest = rest;
                Some(item)
            }
            b'"' => self.string(),
            b':' => {
                self.eat(b':');
                self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
                });
                self.eat(b':').then_some(Item::Other)
            }
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
                });
                Some(Item::Other)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Item> {
        let negative = self.eat(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if self.eat(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let valid = (1..=12).contains(&digits.len()) && (1..=3).contains(&fraction.len());
            return valid.then_some(Item::Other);
        }
        if !(1..=15).contains(&digits.len()) {
            return None;
        }
        let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        Some(Item::Integer(if negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<Item> {
        self.eat(b'"');
        loop {
            self.take_while(|byte| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\'));
            match self.rest {
                [b'"', rest @ ..] => {
                    self.rest = rest;
                    return Some(Item::Other);
                }
                [b'\\', b'"' | b'\\', rest @ ..] => self.rest = rest,
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    const fn priority(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    #[test]
    fn valid_values_are_parsed() {
        for (value, wanted) in [
            ("", priority(3, false)),
            ("  ", priority(3, false)),
            ("u=0", priority(0, false)),
            ("i", priority(3, true)),
            ("u=5, i", priority(5, true)),
            (" u=5\t,\ti=?1 ", priority(5, true)),
            ("i=?0,u=7", priority(7, false)),
            ("u=1;a;b=2, i;c=\"d\"", priority(1, true)),
            ("u=1, u=2", priority(2, false)),
            // Wrong types and ranges are ignored.
            ("u=8", priority(3, false)),
            ("u=-1, i=1", priority(3, false)),
            ("u=1.5", priority(3, false)),
            ("u=\"1\"", priority(3, false)),
            ("u", priority(3, false)),
            ("u=(1 2);a, i", priority(3, true)),
            // Other keys and all types.
            ("x=:YQ==:, *y=tok/en, z=\"a\\\"b\", w=(\"a\" b;c 1), u=4", priority(4, false)),
        ] {
            assert_eq!(Priority::parse(value.as_bytes()), Some(wanted), "{value}");
        }
    }

    #[test]
    fn invalid_dictionaries_are_refused() {
        for value in [
            "u=",
            "U=1",
            "u=1,",
            "u=1,,i",
            "u=1 i",
            "=1",
            "u=1;",
            "u=?2",
            "u=\"a",
            "u=(1",
            "u=--1",
            "u=1.",
            "u=1.1234",
            "u=1234567890123456",
            "u=:a",
            "u=(1\"a\")",
            "u=\u{e9}",
            "\t",
        ] {
            assert_eq!(Priority::parse(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn written_priorities_are_read_back() {
        for urgency in 0..8 {
            for incremental in [false, true] {
                let priority = Priority { urgency, incremental };
                assert_eq!(Priority::parse(priority.to_string().as_bytes()), Some(priority));
            }
        }
    }

    #[test]
    fn arbitrary_values_give_a_valid_priority_that_is_written_back() {
        const TEXT: &[u8] = b"ui=,;?01()\" \t:a-.\\5*";
        let mut noise = Noise::new(15);
        for case in 0..cases() {
            let value: Vec<u8> = match case % 4 {
                0 => noise.bytes(20),
                _ => (0..noise.below(16)).map(|_| TEXT[noise.below(TEXT.len())]).collect(),
            };
            if let Some(priority) = Priority::parse(&value) {
                assert!(priority.urgency <= 7);
                assert_eq!(Priority::parse(priority.to_string().as_bytes()), Some(priority));
            }
        }
    }
}
