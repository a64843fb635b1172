//! Labels of the metrics.

use prometheus_client::encoding::EncodeLabelSet;

/// Labels of per-controller metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabels {
    /// QUIC stack.
    pub stack: &'static str,
    /// Controller with its options.
    pub controller: String,
}

/// Labels of response counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StatusLabels {
    pub(super) stack: &'static str,
    pub(super) controller: String,
    pub(super) status: u16,
}

/// Labels of connection counts by timestamp extension.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ExtensionLabels {
    pub(super) stack: &'static str,
    pub(super) controller: String,
    pub(super) extension: &'static str,
}

/// Label with the reason why a slow reader was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabels {
    pub(super) reason: &'static str,
}

/// Label with the outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabels {
    pub(super) outcome: &'static str,
}
