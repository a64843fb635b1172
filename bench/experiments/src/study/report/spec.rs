//! The table `[report]` of a study: the compared axes, and the axis over which measures are drawn.

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeValue, Deserializer};

use crate::measures::{MEASURES, Measure};
use crate::study::substitute::SpannedError;

/// Settings of a study's report. They change no run, so no fingerprint includes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReportSpec {
    /// Axis over which measures are drawn; by default, the last axis with at least three values,
    /// all of them numbers.
    pub x: Option<String>,
    /// Scale of the axis over which measures are drawn; by default, logarithmic if its values span
    /// a decade or more and none is negative.
    pub x_scale: Option<AxisScale>,
    /// Axes whose values are compared; by default, the axes that change controllers, stacks or TCP
    /// options or, if no axis does, all axes except the swept one.
    pub compare: Option<Vec<String>>,
    /// Key of the measure that ranks systems; by default, the measure that suits the workload.
    pub rank_by: Option<String>,
}

/// Scale of an axis: linear or logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisScale {
    /// A linear scale: equal differences are equally far apart.
    Linear,
    /// A logarithmic scale: equal ratios are equally far apart.
    Log,
}

impl AxisScale {
    /// Returns whether the scale is logarithmic.
    pub(super) fn is_log(self) -> bool {
        self == Self::Log
    }
}

impl ReportSpec {
    /// Reads the table and checks it against the axes of the study.
    ///
    /// # Errors
    /// Returns an error if a field is unknown, or if its value is not the name of an axis or a
    /// measure.
    pub(in crate::study) fn read(
        value: &Spanned<DeValue<'_>>,
        axes: &[&str],
    ) -> Result<Self, SpannedError> {
        let error = |message: String| SpannedError::new(value.span(), message);
        let table = value.get_ref().as_table().ok_or_else(|| {
            error(
                "report: write a [report] table with lines such as x = \"loss\" and x-scale = \"log\""
                    .into(),
            )
        })?;
        let read = Self::deserialize(Deserializer::from(Spanned::new(value.span(), table.clone())))
            .map_err(|e| {
                SpannedError::new(
                    e.span().unwrap_or(value.span()),
                    format!("report: {}", e.message()),
                )
            })?;
        for name in read.x.iter().chain(read.compare.iter().flatten()) {
            if !axes.contains(&name.as_str()) {
                let known = if axes.is_empty() {
                    "leave it out".into()
                } else {
                    format!("write one of {}", axes.join(", "))
                };
                return Err(error(format!(
                    "report: '{}' is not an axis of [sweep]; {known}",
                    name.escape_debug()
                )));
            }
        }
        if let Some(key) = read.rank_by.as_ref().filter(|key| Measure::named(key).is_none()) {
            let known: Vec<&str> = MEASURES.iter().map(|measure| measure.key).collect();
            return Err(error(format!(
                "report: rank-by: '{}' is not a measure; write one of {}",
                key.escape_debug(),
                known.join(", ")
            )));
        }
        Ok(read)
    }
}
