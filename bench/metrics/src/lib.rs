//! Measures, and consistency checks for every run.

mod bounds;
mod confidence;
mod dca_prediction;
mod delivery;
mod fairness;
mod latency;
mod loss_delay;
mod media;
mod outliers;
mod pages;
pub mod percentile;
mod pftk;
mod responses;
mod rtt_series;
mod two_sample;
mod verify;
mod window_trace;

pub use bounds::Bounds;
pub use confidence::{Estimate, significant_text};
pub use dca_prediction::{Counts, Prediction, Replay, predict, replay};
pub use delivery::{Delivery, Sealed, pieces};
pub use fairness::{
    Fairness, GroupBytes, GroupShares, ShareDistribution, WINDOWS, WindowFairness, fair_by_packets,
};
pub use latency::{Distribution, Latencies};
pub use loss_delay::{
    DelayEvent, Indication, LAGS, LagDelay, LossDelay, events, indication, lagged,
};
pub use media::{LiveStream, MediaOutcome};
pub use outliers::{median, outliers};
pub use pages::{PageOutcome, PageStats};
pub use pftk::{SendRate, Timeouts};
pub use responses::Responses;
pub use rtt_series::{AckFrame, RttSample, RttSampler, RttSeries};
pub use two_sample::{TwoSample, homogeneity, kolmogorov_smirnov, two_proportions};
pub use verify::verify;
pub use window_trace::{WindowPoint, WindowTrace};

pub use latency::{round, significant};
pub use responses::Completed;
