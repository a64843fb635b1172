//! Live media: frames at a fixed rate, with sizes that add up to a bit rate.
//!
//! The model follows 3GPP TR 38.838 §5.1: the size of a frame is the mean size times a random
//! factor, which has a deviation of 10.5% and is truncated at 50% and 150%. If I-frames and
//! P-frames differ, an I-frame is on average α times as large as a P-frame, where α is 1.5 or 2.
//! Here, α is 2, and an I-frame comes every two seconds, as Apple's HLS Authoring Specification
//! requires for key frames.
//!
//! # Departures
//! - The factor is lognormal instead of normal, so that sizes are positive without truncation.
//! - Capture times have no jitter.

use std::time::Duration;

use fathom_cc::{Rate, Time};
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;

/// Time between I-frames.
pub const GROUP_OF_PICTURES: Duration = Duration::from_secs(2);
/// Ratio of the mean sizes of I-frames and P-frames (TR 38.838: 1.5 or 2).
const I_TO_P: f64 = 2.0;
/// Deviation of the factor (TR 38.838: 10.5%), and the bounds at which it is truncated.
const DEVIATION: f64 = 0.105;
const CUT: (f64, f64) = (0.5, 1.5);
/// Smallest rate of an adaptive encoder in bits per second (our choice), unless the stream's rate is
/// smaller.
const LEAST_RATE: f64 = 100e3;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Time at which the frame is ready to send, relative to the start of the stream.
    pub at: Duration,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the frame is an I-frame, which does not depend on earlier frames.
    pub intra: bool,
}

/// Returns the size of a frame from an adaptive encoder. The frame has `bytes` bytes at the largest
/// rate of the encoder, and the sender has room for the rate `available`.
pub fn adapted(bytes: u64, largest: Rate, available: Rate) -> u64 {
    let largest = largest.bits_per_sec().max(1) as f64;
    let rate = (available.bits_per_sec() as f64).max(LEAST_RATE).min(largest);
    ((bytes as f64 * (rate / largest)) as u64).max(1)
}

/// One live stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaStream {
    /// Time at which the client connects. The first frame is captured [`LEAD`] later.
    pub start: Time,
    /// Bit rate of the frames.
    pub rate: Rate,
    /// Frames per second.
    pub fps: u32,
    /// Number of frames; `None` for an endless stream.
    pub frames: Option<u64>,
    /// Seed of the frame sizes.
    pub seed: u64,
    /// Whether the encoder adapts to the sender's rate. `rate` is then its largest rate.
    pub adaptive: bool,
    /// Start and end of a pause, relative to the start of the stream.
    pub pause: Option<(Duration, Duration)>,
}

/// Time between a client's request for a frame and the capture of the frame, so that the request
/// can arrive.
pub const LEAD: Duration = Duration::from_secs(1);

impl MediaStream {
    /// Returns the number of frames from one I-frame to the next, including the first I-frame.
    pub const fn group(&self) -> u64 {
        self.fps as u64 * GROUP_OF_PICTURES.as_secs()
    }

    /// Returns the frames in order.
    pub fn sizes(&self) -> Frames {
        let group = self.group() as f64;
        // One I-frame and `group - 1` P-frames add up to the bit rate.
        let of_group = self.rate.bits_per_sec() as f64 / 8.0 * GROUP_OF_PICTURES.as_secs_f64();
        let p = of_group / (group - 1.0 + I_TO_P);
        Frames { stream: *self, next: 0, rng: Pcg64::seed_from_u64(self.seed), p }
    }
}

/// The frames of a stream, in order.
#[derive(Clone, Debug)]
pub struct Frames {
    stream: MediaStream,
    next: u64,
    rng: Pcg64,
    /// Mean bytes of a P-frame.
    p: f64,
}

impl Iterator for Frames {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        let at = |number: u64| {
            let nanos = u128::from(number) * 1_000_000_000 / u128::from(self.stream.fps);
            Duration::from_nanos(nanos as u64)
        };
        let before = self.next;
        while self.stream.pause.is_some_and(|(from, to)| (from..to).contains(&at(self.next))) {
            self.next += 1;
        }
        let number = self.next;
        if self.stream.frames.is_some_and(|frames| number >= frames) {
            return None;
        }
        self.next += 1;
        // The first frame after a pause does not depend on those before it.
        let intra = number.is_multiple_of(self.stream.group()) || number > before;
        let normal: f64 = StandardNormal.sample(&mut self.rng);
        let sigma = (1.0 + DEVIATION * DEVIATION).ln().sqrt();
        let factor = (sigma * normal - sigma * sigma / 2.0).exp().clamp(CUT.0, CUT.1);
        let bytes = (self.p * if intra { I_TO_P } else { 1.0 } * factor) as u64;
        Some(Frame { at: at(number), bytes: bytes.max(1), intra })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(fps: u32) -> MediaStream {
        MediaStream {
            start: Time::ZERO,
            rate: Rate::from_bits_per_sec(2_000_000),
            fps,
            frames: Some(u64::from(fps) * 100),
            seed: 5,
            adaptive: false,
            pause: None,
        }
    }

    #[test]
    fn paused_stream_has_no_frames_and_resumes_with_an_i_frame() {
        let seconds = Duration::from_secs;
        let paused = MediaStream { pause: Some((seconds(3), seconds(5))), ..stream(30) };
        let frames: Vec<Frame> = paused.sizes().take(100).collect();
        assert!(frames.iter().all(|frame| !(seconds(3)..seconds(5)).contains(&frame.at)));
        assert_eq!((frames[90].at, frames[90].intra, frames[91].intra), (seconds(5), true, false));
    }

    #[test]
    fn adaptive_encoder_follows_the_sender_within_limits() {
        let kbps = |kbps: u64| Rate::from_bits_per_sec(kbps * 1_000);
        let bytes = |available| adapted(10_000, kbps(2_000), kbps(available));
        assert_eq!([bytes(500), bytes(5_000), bytes(1)], [2_500, 10_000, 500]);
    }

    #[test]
    fn media_frame_sizes_add_up_to_the_bit_rate() {
        for fps in [30, 60] {
            let frames: Vec<Frame> = stream(fps).sizes().collect();
            assert_eq!(frames.len() as u32, fps * 100);
            let bits: u64 = frames.iter().map(|frame| frame.bytes * 8).sum();
            assert!((bits as f64 / 200e6 - 1.0).abs() < 0.01, "{bits}");
            assert_eq!(frames[fps as usize].at, Duration::from_secs(1));
            assert_eq!(frames.iter().filter(|frame| frame.intra).count(), 50);
        }
    }

    #[test]
    fn media_frame_sizes_match_deviation_and_ratio_of_the_source() {
        let frames: Vec<Frame> = stream(30).sizes().collect();
        let mean = |intra: bool| {
            let of: Vec<f64> =
                frames.iter().filter(|f| f.intra == intra).map(|f| f.bytes as f64).collect();
            let mean = of.iter().sum::<f64>() / of.len() as f64;
            (
                mean,
                (of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / of.len() as f64).sqrt()
                    / mean,
            )
        };
        let ((i, _), (p, deviation)) = (mean(true), mean(false));
        assert!(
            (i / p - 2.0).abs() < 0.1 && (deviation - 0.105).abs() < 0.01,
            "{i} {p} {deviation}"
        );
        assert!(frames.iter().filter(|f| !f.intra).all(|f| (f.bytes as f64) < p * 1.51));
    }
}
