//! The error of all code that reads values written by people.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Error for a value that was refused. It names the field, the problem, and what to write instead.
///
/// The error is displayed as one line, `field: 'value' problem; hint`, without empty parts. It is
/// only as large as a pointer, so that results that contain it stay small. Its parts are the fields
/// of [`InvalidParts`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invalid(Box<InvalidParts>);

/// The parts of an [`Invalid`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidParts {
    /// Names of the fields around the value, the outermost first.
    pub fields: Vec<Cow<'static, str>>,
    /// The value as written, on one line and shortened to 60 characters; `None` if the problem does
    /// not concern a single value.
    pub value: Option<String>,
    /// The problem, in words that continue a sentence about the value or that form a sentence by
    /// themselves.
    pub problem: Cow<'static, str>,
    /// Advice on a valid value; empty if the problem already contains the advice.
    pub hint: Cow<'static, str>,
}

impl Invalid {
    /// Refuses `value`. `problem` continues a sentence about the value, such as `is not a rate`.
    pub fn value(value: &str, problem: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Some(shown(value)), problem.into())
    }

    /// Refuses input other than a single value, such as two options together. `problem` is a whole
    /// sentence.
    pub fn because(problem: impl Into<Cow<'static, str>>) -> Self {
        Self::of(None, problem.into())
    }

    fn of(value: Option<String>, problem: Cow<'static, str>) -> Self {
        Self(Box::new(InvalidParts { value, problem, ..InvalidParts::default() }))
    }

    /// Adds a hint that says what to write instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds the name of the enclosing field.
    #[must_use]
    pub fn in_field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.fields.insert(0, field.into());
        self
    }

    /// Adds the name of the table around the outermost field: `rate` becomes `path.rate`. If there
    /// is no field, the table becomes the field.
    #[must_use]
    pub fn in_table(mut self, table: &str) -> Self {
        match self.fields.first_mut() {
            Some(field) => *field = format!("{table}.{field}").into(),
            None => self.fields.push(table.to_owned().into()),
        }
        self
    }

    /// Removes the name of the table around the outermost field: `path.rate` becomes `rate`.
    ///
    /// # Errors
    /// Returns the error unchanged if its outermost field is not in this table.
    pub fn out_of_table(mut self, table: &str) -> Result<Self, Self> {
        let field = self.fields.first().and_then(|field| field.strip_prefix(table));
        let Some(field) = field.and_then(|field| field.strip_prefix('.')) else {
            return Err(self);
        };
        self.fields[0] = field.to_owned().into();
        Ok(self)
    }
}

impl Deref for Invalid {
    type Target = InvalidParts;

    fn deref(&self) -> &InvalidParts {
        &self.0
    }
}

impl DerefMut for Invalid {
    fn deref_mut(&mut self) -> &mut InvalidParts {
        &mut self.0
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for field in &self.fields {
            write!(f, "{field}: ")?;
        }
        if let Some(value) = &self.value {
            write!(f, "'{value}' ")?;
        }
        f.write_str(&self.problem)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}

/// Escapes text so that it stays on one line, and shortens it to 60 characters.
fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", text[..end].escape_debug()),
        None => text.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Invalid;

    #[test]
    fn error_text_has_fields_value_problem_and_hint() {
        let error = Invalid::value("fast", "is not a rate").hint("write 10Mbps");
        assert_eq!(error.to_string(), "'fast' is not a rate; write 10Mbps");
        let error = error.in_field("rate").in_field("path");
        assert_eq!(error.to_string(), "path: rate: 'fast' is not a rate; write 10Mbps");
        let error = error.in_table("network");
        assert_eq!(error.to_string(), "network.path: rate: 'fast' is not a rate; write 10Mbps");
        let error = error.out_of_table("network").unwrap();
        assert_eq!(error.fields, ["path", "rate"]);
        assert_eq!(error.clone().out_of_table("path"), Err(error));
        assert_eq!(Invalid::because("is missing").in_table("path").to_string(), "path: is missing");
        assert_eq!(Invalid::because("two of one kind").to_string(), "two of one kind");
    }

    #[test]
    fn long_value_in_an_error_is_shortened_to_one_line() {
        let error = Invalid::value(&"a\nb".repeat(40), "is long");
        assert!(error.value.as_ref().is_some_and(|v| v.ends_with("...")), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
