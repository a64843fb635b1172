//! Substitution of parameters in the strings of a scenario template: `$axis`, `$axis.field`,
//! `${axis}` and `${axis.field}`. `$$` stands for a dollar sign.
//!
//! A string that consists of a single variable takes the type of its value, so numbers and lists
//! work. Substituted values are not searched for variables, so a dollar sign in a value stays.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An error and its position in the text.
#[derive(Debug)]
pub(super) struct SpannedError {
    /// Text of one line that names the error and the correction.
    pub(super) message: String,
    /// Range of bytes in the text of the study.
    pub(super) span: Range<usize>,
}

impl SpannedError {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { message: message.into(), span }
    }
}

/// Value of an axis in one run.
#[derive(Clone, Debug)]
pub(super) enum AxisValue<'i> {
    /// Value of `$axis`.
    Scalar(DeValue<'i>),
    /// Name and fields of a variant, for `$axis.field`.
    Variant(String, DeTable<'i>),
}

/// Variables of one run, and the variables that the template has used.
#[derive(Debug)]
pub(super) struct Variables<'i> {
    /// Values by axis.
    pub(super) axes: BTreeMap<String, AxisValue<'i>>,
    /// Variables used so far: `axis` or `axis.field`.
    pub(super) used: BTreeSet<String>,
}

/// A part of a string: plain text, or a variable with its axis and field.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str, Option<&'a str>),
}

impl<'i> Variables<'i> {
    /// Returns the value with the parameters in all its strings substituted.
    pub(super) fn substitute(
        &mut self,
        value: &Spanned<DeValue<'i>>,
    ) -> Result<Spanned<DeValue<'i>>, SpannedError> {
        let span = value.span();
        let filled = match value.get_ref() {
            DeValue::String(text) => self.substitute_text(text, &span)?,
            DeValue::Array(items) => DeValue::Array(
                items.iter().map(|item| self.substitute(item)).collect::<Result<_, _>>()?,
            ),
            DeValue::Table(table) => DeValue::Table(self.substitute_table(table)?),
            other => other.clone(),
        };
        Ok(Spanned::new(span, filled))
    }

    /// Returns the table with the parameters in all its values substituted.
    pub(super) fn substitute_table(
        &mut self,
        table: &DeTable<'i>,
    ) -> Result<DeTable<'i>, SpannedError> {
        table.iter().map(|(key, value)| Ok((key.clone(), self.substitute(value)?))).collect()
    }

    fn substitute_text(
        &mut self,
        text: &str,
        span: &Range<usize>,
    ) -> Result<DeValue<'i>, SpannedError> {
        let pieces = pieces(text).map_err(|message| SpannedError::new(span.clone(), message))?;
        if let [Piece::Variable(axis, field)] = pieces[..] {
            return self.value(axis, field, span);
        }
        let mut filled = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Variable(axis, field) => {
                    let value = self.value(axis, field, span)?;
                    filled += &scalar_text(&value).ok_or_else(|| {
                        let name = field.map_or(axis.to_owned(), |field| format!("{axis}.{field}"));
                        SpannedError::new(
                            span.clone(),
                            format!(
                                "'${name}' is neither text nor a number; use it only as a \
                                whole value: \"${name}\""
                            ),
                        )
                    })?;
                }
            }
        }
        Ok(DeValue::String(filled.into()))
    }

    fn value(
        &mut self,
        axis: &str,
        field: Option<&str>,
        span: &Range<usize>,
    ) -> Result<DeValue<'i>, SpannedError> {
        let error = |message: String| Err(SpannedError::new(span.clone(), message));
        let Some(filling) = self.axes.get(axis) else {
            let known: Vec<String> = self.axes.keys().map(|name| format!("${name}")).collect();
            let known = if known.is_empty() {
                "[sweep] has no axis yet".to_owned()
            } else {
                known.join(", ")
            };
            return error(format!(
                "'${axis}' is not an axis of [sweep] ({known}); add the axis, or write $$ for a \
                 dollar sign"
            ));
        };
        match (filling, field) {
            (AxisValue::Scalar(value), None) => {
                self.used.insert(axis.to_owned());
                Ok(value.clone())
            }
            (AxisValue::Scalar(_), Some(field)) => error(format!(
                "'${axis}.{field}': the axis '{axis}' has no fields; write ${axis}, or ${{{axis}}}.{field}"
            )),
            (AxisValue::Variant(_, fields), None) => {
                let known: Vec<String> =
                    fields.keys().map(|key| format!("${axis}.{}", key.get_ref())).collect();
                error(format!("'${axis}' has fields; write one of {}", known.join(", ")))
            }
            (AxisValue::Variant(name, fields), Some(field)) => match fields.get(field) {
                Some(value) => {
                    self.used.insert(format!("{axis}.{field}"));
                    Ok(value.get_ref().clone())
                }
                None => error(format!(
                    "'${axis}.{field}': the variant '{name}' has no field '{field}'; add the field \
                     to the variant"
                )),
            },
        }
    }
}

/// Returns a scalar as text, as it appears in keys and inside strings; `None` for other values.
pub(super) fn scalar_text(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(x) => x.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        _ => return None,
    })
}

/// Splits a string into text and variables.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let after = &rest[at + 1..];
        if let Some(more) = after.strip_prefix('$') {
            pieces.push(Piece::Text("$"));
            rest = more;
            continue;
        }
        let help = || {
            format!(
                "'{}': a '$' begins a variable; write $axis, $axis.field, ${{axis}}, or $$ for a \
                 dollar sign",
                text.escape_debug()
            )
        };
        let (inside, more) = match after.strip_prefix('{') {
            Some(braced) => {
                let (inside, more) = braced.split_once('}').ok_or_else(help)?;
                (inside, Some(more))
            }
            None => (after, None),
        };
        let (variable, left) = variable(inside).ok_or_else(help)?;
        if more.is_some() && !left.is_empty() {
            return Err(help());
        }
        pieces.push(variable);
        rest = more.unwrap_or(left);
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

/// Reads `axis` or `axis.field` at the start of `text`. Returns the variable and the rest of the
/// text.
fn variable(text: &str) -> Option<(Piece<'_>, &str)> {
    let (axis, left) = name(text)?;
    match left.strip_prefix('.').and_then(name) {
        Some((field, left)) => Some((Piece::Variable(axis, Some(field)), left)),
        None => Some((Piece::Variable(axis, None), left)),
    }
}

/// Splits a name off the start of `text`: a letter or `_`, then letters, digits, `_` and `-`. A `-`
/// at the end does not belong to the name. Returns `None` if `text` does not start with a name.
fn name(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .unwrap_or(text.len());
    let end = text[..end].trim_end_matches('-').len();
    Some(text.split_at(end))
}

/// Returns whether the whole text is a valid name after a `$`.
pub(super) fn is_name(text: &str) -> bool {
    matches!(name(text), Some((_, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_strings_split_at_their_variables() {
        use Piece::{Text, Variable};
        let cases = [
            ("plain", vec![Text("plain")]),
            ("$x", vec![Variable("x", None)]),
            ("flows:$flows@2s", vec![Text("flows:"), Variable("flows", None), Text("@2s")]),
            ("$a.b.", vec![Variable("a", Some("b")), Text(".")]),
            ("${rate}Mbps", vec![Variable("rate", None), Text("Mbps")]),
            ("${a.b}c", vec![Variable("a", Some("b")), Text("c")]),
            ("$max-window-", vec![Variable("max-window", None), Text("-")]),
            ("$a$b", vec![Variable("a", None), Variable("b", None)]),
            ("5$$ of $$x", vec![Text("5"), Text("$"), Text(" of "), Text("$"), Text("x")]),
            ("$x.5", vec![Variable("x", None), Text(".5")]),
        ];
        for (text, expected) in cases {
            assert_eq!(pieces(text).unwrap(), expected, "{text}");
        }
        for text in ["$", "$5", "a $ b", "${x", "${}", "${x y}"] {
            let error = pieces(text).unwrap_err();
            assert!(error.contains("$$ for a dollar") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn variable_names_allow_letters_digits_underscores_and_dashes() {
        for (text, is) in [
            ("flows", true),
            ("max-window", true),
            ("_x1", true),
            ("1x", false),
            ("a b", false),
            ("", false),
            ("x-", false),
        ] {
            assert_eq!(is_name(text), is, "{text}");
        }
    }
}
