//! The sweep of a study as written in TOML: its axes, combinations, and skipped combinations.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::substitute::{AxisValue, SpannedError, is_name, scalar_text};

/// Largest number of combinations; a larger number is taken for a mistake.
const MOST_POINTS: usize = 100_000;

/// An axis as read: its values as text and as TOML, and its position in the text.
pub(super) struct Values<'i> {
    pub(super) name: String,
    at: std::ops::Range<usize>,
    pub(super) values: Vec<(String, AxisValue<'i>)>,
}

/// Returns the axes in the order of the text.
pub(super) fn axes<'i>(root: &DeTable<'i>) -> Result<Vec<Values<'i>>, SpannedError> {
    let Some(sweep) = root.get("sweep") else { return Ok(Vec::new()) };
    let table = sweep.get_ref().as_table().ok_or_else(|| {
        SpannedError::new(
            sweep.span(),
            "sweep: write a [sweep] table with a line per axis, such as flows = [10, 50]",
        )
    })?;
    let mut axes = Vec::new();
    for (key, value) in table {
        let name = key.get_ref().to_string();
        if !is_name(&name) {
            return Err(SpannedError::new(
                key.span(),
                format!(
                    "sweep: '{}' is not a valid name of an axis; use letters, digits, '_' and '-'",
                    name.escape_debug()
                ),
            ));
        }
        let values = axis(&name, value)?;
        axes.push(Values { name, at: key.span(), values });
    }
    axes.sort_by_key(|axis| axis.at.start);
    Ok(axes)
}

/// Returns the values of one axis: scalars, or tables that each have a name.
fn axis<'i>(
    name: &str,
    value: &Spanned<DeValue<'i>>,
) -> Result<Vec<(String, AxisValue<'i>)>, SpannedError> {
    let items = value.get_ref().as_array().filter(|items| !items.is_empty()).ok_or_else(|| {
        SpannedError::new(
            value.span(),
            format!("sweep.{name}: write a list such as [10, 50], or [[sweep.{name}]] tables with a name each"),
        )
    })?;
    let mut values: Vec<(String, AxisValue<'i>)> = Vec::new();
    for item in items {
        let error =
            |message: String| SpannedError::new(item.span(), format!("sweep.{name}: {message}"));
        let (text, filling) = match item.get_ref() {
            DeValue::Table(fields) => {
                let text =
                    fields.get("name").and_then(|v| v.get_ref().as_str()).ok_or_else(|| {
                        error("a variant has no name; add name = \"...\" to the variant".into())
                    })?;
                if let Some(key) = fields.keys().find(|key| !is_name(key.get_ref())) {
                    return Err(error(format!(
                        "'{}' is not a valid name of a field; use letters, digits, '_' and '-'",
                        key.get_ref().escape_debug()
                    )));
                }
                (text.to_owned(), AxisValue::Variant(text.to_owned(), fields.clone()))
            }
            other => {
                let text = scalar_text(other).ok_or_else(|| {
                    error(
                        "a value is neither a number nor text; to sweep over lists, put each list \
                         into a field of a named variant"
                            .into(),
                    )
                })?;
                (text, AxisValue::Scalar(other.clone()))
            }
        };
        if text.is_empty() || text.contains('\n') {
            return Err(error(
                "a value is empty or has several lines; write one line of text".into(),
            ));
        }
        if values.iter().any(|(known, _)| *known == text) {
            return Err(error(format!("'{text}' is written twice; write it once")));
        }
        if values.iter().any(|(_, known)| {
            matches!(known, AxisValue::Scalar(_)) != matches!(filling, AxisValue::Scalar(_))
        }) {
            return Err(error(
                "an axis mixes plain values and named variants; write all values as [[sweep]] \
                 tables, or none"
                    .into(),
            ));
        }
        values.push((text, filling));
    }
    Ok(values)
}

/// Returns the combinations to leave out. `flows = 100, system = "SDC"` leaves out the combinations
/// with both values. A list of values matches each value in the list.
pub(super) fn skips(
    root: &DeTable<'_>,
    axes: &[Values<'_>],
) -> Result<Vec<BTreeMap<String, Vec<String>>>, SpannedError> {
    let Some(skip) = root.get("skip") else { return Ok(Vec::new()) };
    let wrong = |span| {
        SpannedError::new(
            span,
            "skip: write [[skip]] tables with axes and values, such as flows = 100",
        )
    };
    let mut skips = Vec::new();
    for item in skip.get_ref().as_array().ok_or_else(|| wrong(skip.span()))? {
        let table = item
            .get_ref()
            .as_table()
            .filter(|t| !t.is_empty())
            .ok_or_else(|| wrong(item.span()))?;
        let mut entry = BTreeMap::new();
        for (key, value) in table {
            let name = key.get_ref().to_string();
            let Some(axis) = axes.iter().find(|axis| axis.name == name) else {
                let known = axes.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() {
                    "leave it out".to_owned()
                } else {
                    format!("write one of {known}")
                };
                return Err(SpannedError::new(
                    key.span(),
                    format!("skip: '{}' is not an axis; {known}", name.escape_debug()),
                ));
            };
            let wanted: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
                DeValue::Array(items) => items.iter().collect(),
                _ => vec![value],
            };
            let mut texts = Vec::new();
            for value in wanted {
                let text = scalar_text(value.get_ref()).ok_or_else(|| wrong(value.span()))?;
                if !axis.values.iter().any(|(known, _)| *known == text) {
                    let known =
                        axis.values.iter().map(|(v, _)| v.as_str()).collect::<Vec<_>>().join(", ");
                    return Err(SpannedError::new(
                        value.span(),
                        format!(
                            "skip: the axis '{name}' has no value '{}'; write one of {known}",
                            text.escape_debug()
                        ),
                    ));
                }
                texts.push(text);
            }
            entry.insert(name, texts);
        }
        skips.push(entry);
    }
    Ok(skips)
}

/// One value of each axis: name of the axis, value as text, and value as TOML.
type Combination<'a, 'i> = Vec<(&'a str, &'a str, &'a AxisValue<'i>)>;

/// Returns all combinations; the last axis varies fastest.
pub(super) fn combinations<'a, 'i>(
    axes: &'a [Values<'i>],
) -> Result<Vec<Combination<'a, 'i>>, SpannedError> {
    let count = axes
        .iter()
        .try_fold(1usize, |n, axis| n.checked_mul(axis.values.len()))
        .unwrap_or(usize::MAX);
    if count > MOST_POINTS {
        let at = axes.last().map_or(0..0, |axis| axis.at.clone());
        return Err(SpannedError::new(
            at,
            format!(
                "sweep: more than {MOST_POINTS} combinations; write fewer values, or several studies"
            ),
        ));
    }
    let mut all: Vec<Combination<'a, 'i>> = vec![Vec::new()];
    for axis in axes {
        all = all
            .into_iter()
            .flat_map(|head| {
                axis.values.iter().map(move |(text, filling)| {
                    let mut combination = head.clone();
                    combination.push((axis.name.as_str(), text.as_str(), filling));
                    combination
                })
            })
            .collect();
    }
    Ok(all)
}

/// Returns an error if an axis, or a field of a variant other than `name`, is not used in the
/// template.
pub(super) fn all_used(axes: &[Values<'_>], used: &BTreeSet<String>) -> Result<(), SpannedError> {
    for axis in axes {
        let name = &axis.name;
        if !used.contains(name) && !used.iter().any(|u| u.starts_with(&format!("{name}."))) {
            return Err(SpannedError::new(
                axis.at.clone(),
                format!(
                    "sweep: no field of the study uses the axis '{name}'; write ${name} in \
                     [scenario], or leave the axis out"
                ),
            ));
        }
        for (variant, filling) in &axis.values {
            let AxisValue::Variant(_, fields) = filling else { continue };
            for key in fields.keys().filter(|key| key.get_ref() != "name") {
                let field = format!("{name}.{}", key.get_ref());
                if !used.contains(&field) {
                    return Err(SpannedError::new(
                        key.span(),
                        format!(
                            "sweep: no field of the study uses ${field} of '{variant}'; write \
                             ${field} in [scenario], or leave the field out"
                        ),
                    ));
                }
            }
        }
    }
    Ok(())
}
