//! Scenarios that the laboratory and a reference both run, and the known differences between them
//! above the tolerances.

/// A scenario.
pub(crate) struct Scenario {
    /// Name of its files.
    pub(crate) name: &'static str,
    /// Heading on the page.
    pub(crate) title: &'static str,
    /// Description in Markdown.
    pub(crate) describes: &'static str,
    /// Scripts that run it, in the reference's folder.
    pub(crate) scripts: &'static [&'static str],
    /// Names of the bottleneck and of the counted group in the laboratory.
    pub(crate) link: &'static str,
    pub(crate) group: &'static str,
    /// Measures that are compared, as `tolerances.json` names them.
    pub(crate) measures: &'static [&'static str],
    /// Axes in the order of the tables, with their headings.
    pub(crate) axes: &'static [(&'static str, &'static str)],
    /// Measure and curves of the figure.
    pub(crate) figure: Curves,
    /// All differences above the tolerances.
    pub(crate) differences: &'static [Difference],
}

/// Curves of a figure.
pub(crate) struct Curves {
    pub(crate) x: X,
    /// Settings that all curves share, in Markdown.
    pub(crate) caption: &'static str,
    /// Name of each curve, and the values of its axes; of all axes except the last if this is the x
    /// axis.
    pub(crate) curves: &'static [(&'static str, &'static [&'static str])],
}

/// The x axis of a figure.
pub(crate) enum X {
    /// The scenario's last axis. The y axis is this measure.
    LastAxis(&'static str),
    /// Response times in ms. The y axis is the fraction of responses up to this time.
    ResponseTimes(&'static [u32]),
}

impl X {
    /// Returns the points of a distribution of response times, in ms.
    pub(crate) const fn times(&self) -> &'static [u32] {
        match self {
            Self::LastAxis(_) => &[],
            Self::ResponseTimes(times) => times,
        }
    }
}

impl Scenario {
    /// Returns the heading of the last axis.
    pub(crate) fn last_axis(&self) -> &'static str {
        self.axes.last().expect("an axis").1
    }
}

/// Differences above the tolerances with a common cause.
pub(crate) struct Difference {
    /// Cause, as far as it is known, in Markdown.
    pub(crate) cause: &'static str,
    /// Measure and values of the axes.
    pub(crate) cells: &'static [(&'static str, &'static [&'static str])],
}
