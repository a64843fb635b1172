//! Values of data files as JSON.

use fathom_report::Value;

/// Returns a value of a row as JSON; a missing value is `null`.
pub(crate) fn as_json(value: Value) -> serde_json::Value {
    match value {
        Value::Text(text) => text.into(),
        Value::Whole(n) => n.into(),
        Value::Number(x) => x.into(),
        Value::Missing => serde_json::Value::Null,
    }
}
