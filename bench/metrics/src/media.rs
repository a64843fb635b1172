//! Live media: frames that met their deadline, and freezes of the picture.

use std::time::Duration;

use fathom_cc::Time;
use serde::{Deserialize, Serialize};

use super::latency::{Distribution, Latencies, round};

/// Additional time after which a picture is frozen. A picture is frozen if it stands for at least
/// three intervals, and for this time longer than one interval. Source: W3C, Identifiers for
/// WebRTC's Statistics API, `freezeCount`: max(3 δ, δ + 150 ms), where δ is the mean duration of a
/// frame. Here, δ is the nominal duration.
const FREEZE: Duration = Duration::from_millis(150);

/// The frames of one live stream.
#[derive(Clone, Debug)]
pub struct LiveStream {
    fps: u32,
    deadline: Duration,
    /// Capture time of the first frame.
    first: Time,
    /// Number of frames; `None` if the stream does not end.
    most: Option<u64>,
    /// Start and end of a pause, in which no frames are captured.
    pause: Option<(Time, Time)>,
    /// Frames that the client has asked for, in order.
    frames: Vec<FrameTimes>,
}

#[derive(Clone, Copy, Debug)]
struct FrameTimes {
    captured: Time,
    /// Time at which the frame was complete, and its bytes.
    arrived: Option<(Time, u64)>,
    intra: bool,
}

impl LiveStream {
    /// Creates a stream of `fps` frames per second, the first of which is captured at `first`. Each
    /// frame is due `deadline` after its capture. The stream has `most` frames, or does not end.
    pub const fn new(fps: u32, deadline: Duration, first: Time, most: Option<u64>) -> Self {
        Self { fps, deadline, first, most, pause: None, frames: Vec::new() }
    }

    /// Adds a pause from and to these times.
    #[must_use]
    pub fn with_pause(self, pause: Option<(Time, Time)>) -> Self {
        Self { pause, ..self }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.fps
    }

    /// Returns the number of frames captured before this time.
    fn captured_before(&self, at: Time) -> u64 {
        let paused = self.pause.map_or(0, |(from, to)| {
            self.numbers_before(at.min(to)).saturating_sub(self.numbers_before(from))
        });
        self.numbers_before(at).saturating_sub(paused)
    }

    /// Returns the number of frames before this time if there were no pause.
    fn numbers_before(&self, at: Time) -> u64 {
        let nanos = u128::from(at.as_nanos().saturating_sub(self.first.as_nanos()));
        let frames = (nanos * u128::from(self.fps)).div_ceil(1_000_000_000);
        let frames = u64::try_from(frames).unwrap_or(u64::MAX);
        self.most.map_or(frames, |most| frames.min(most))
    }

    /// Returns the number of frames captured at or after `since` and due by `now`.
    fn due(&self, since: Time, now: Time) -> u64 {
        // A frame that is due at `now` counts.
        let last = now.as_nanos().saturating_sub(self.deadline.as_nanos() as u64);
        let by_now = self.captured_before(Time::from_nanos(last.saturating_add(1)));
        by_now.saturating_sub(self.captured_before(since))
    }

    /// Adds a frame captured at this time. Returns the number of the frame.
    pub fn add(&mut self, captured: Time, intra: bool) -> usize {
        self.frames.push(FrameTimes { captured, arrived: None, intra });
        self.frames.len() - 1
    }

    /// Records that the frame with this number has arrived completely, with this many bytes.
    pub fn arrived(&mut self, number: usize, at: Time, bytes: u64) {
        if let Some(frame) = self.frames.get_mut(number) {
            frame.arrived = Some((at, bytes));
        }
    }

    /// Adds the outcome of the frames captured at or after `since` and due by `now`.
    fn count(&self, since: Time, now: Time, delays: &mut Latencies, sum: &mut MediaOutcome) {
        let interval = self.interval();
        let limit = (interval * 3).max(interval + FREEZE);
        // The picture that is shown when the counted frames begin stands until the next one.
        let mut shown: Option<Time> = None;
        // Time at which all frames that the next frame depends on have arrived.
        let mut decodable = None;
        let mut last_due = since;
        let (mut met_bytes, frames_before) = (0, sum.frames);
        let freeze = |gap: Duration, sum: &mut MediaOutcome| {
            if gap >= limit {
                sum.freezes += 1;
                sum.frozen_ms += gap.as_secs_f64() * 1e3;
            }
        };
        for frame in self.frames.iter().filter(|frame| frame.captured + self.deadline <= now) {
            let before = if frame.intra { Some(Time::ZERO) } else { decodable };
            decodable = before.zip(frame.arrived).map(|(before, (at, _))| before.max(at));
            if frame.captured < since {
                continue;
            }
            let due = frame.captured + self.deadline;
            let resumes = self
                .pause
                .is_some_and(|(from, to)| frame.captured >= to && last_due <= from + self.deadline);
            if let Some(before) = shown.filter(|_| resumes) {
                freeze(last_due.since(before), sum);
                shown = None;
            }
            last_due = due;
            shown = shown.or(Some(due));
            sum.frames += 1;
            match frame.arrived {
                Some((at, bytes)) => {
                    delays.record(at.since(frame.captured));
                    sum.late += u64::from(at > due);
                    met_bytes += if at > due { 0 } else { bytes };
                }
                None => sum.never += 1,
            }
            if let Some(at) = decodable.map(|at| at.max(due)).filter(|at| *at <= now) {
                let at = shown.map_or(at, |shown| shown.max(at));
                freeze(shown.map_or(Duration::ZERO, |shown| at.since(shown)), sum);
                shown = Some(at);
            }
        }
        // The picture may stay frozen until the end.
        if let Some(shown) = shown {
            freeze(last_due.since(shown), sum);
        }
        // Without a connection, a client does not ask for frames.
        let never_asked = self.due(since, now).saturating_sub(sum.frames - frames_before);
        sum.frames += never_asked;
        sum.never += never_asked;
        let seconds = (sum.frames - frames_before) as f64 * interval.as_secs_f64();
        let kbps = if seconds > 0.0 { met_bytes as f64 * 8e-3 / seconds } else { 0.0 };
        sum.met_kbps_of_streams.push(round(kbps, 3));
    }
}

/// Outcome of the frames of live streams that were due before the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MediaOutcome {
    /// Number of streams.
    pub streams: u64,
    /// Frames that were due.
    pub frames: u64,
    /// Frames that were complete at the client by their deadline.
    pub met: u64,
    /// Frames that were not complete by their deadline: late frames and frames that never became
    /// complete.
    pub missed: u64,
    /// Missed frames that arrived late.
    pub late: u64,
    /// Missed frames that never arrived completely. Either there was no connection, the request
    /// failed, the request was not sent because 100 requests were open, or a datagram of the frame
    /// was lost.
    pub never: u64,
    /// Number of missed frames as a fraction of all frames that were due.
    pub missed_fraction: f64,
    /// Bit rate of the frames that met their deadline, in kbit/s, as a mean over the streams.
    #[serde(default)]
    pub met_kbps: f64,
    /// This bit rate of each stream.
    #[serde(default)]
    pub met_kbps_of_streams: Vec<f64>,
    /// Number of times that the picture froze for max(3 intervals, interval + 150 ms) or longer.
    pub freezes: u64,
    /// Total duration of the freezes in milliseconds.
    pub frozen_ms: f64,
    /// Time from the capture of a frame to its last byte at the client, for frames that arrived.
    pub frame_delay: Option<Distribution>,
}

impl MediaOutcome {
    /// Computes the outcome of these streams from `since` up to `now`; `None` without streams.
    pub fn of<'a>(
        streams: impl Iterator<Item = &'a LiveStream>,
        since: Time,
        now: Time,
    ) -> Option<Self> {
        let (mut sum, mut delays) = (Self::default(), Latencies::default());
        for stream in streams {
            sum.streams += 1;
            stream.count(since, now, &mut delays, &mut sum);
        }
        sum.missed = sum.late + sum.never;
        sum.met = sum.frames - sum.missed;
        sum.missed_fraction = round(sum.missed as f64 / sum.frames.max(1) as f64, 6);
        sum.frozen_ms = round(sum.frozen_ms, 3);
        let kbps = sum.met_kbps_of_streams.iter().sum::<f64>();
        sum.met_kbps = round(kbps / sum.streams.max(1) as f64, 3);
        sum.frame_delay = (delays.count() > 0).then(|| delays.distribution());
        (sum.streams > 0).then_some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    /// Returns the outcome of frames every 20 ms, due after 50 ms, with these delays in
    /// milliseconds. The first and every tenth frame is an I-frame; `None` never arrives.
    fn outcome(delays: &[Option<u64>], now: u64) -> MediaOutcome {
        let frames = Some(delays.len() as u64);
        let mut stream = LiveStream::new(50, Duration::from_millis(50), Time::ZERO, frames);
        for (number, delay) in delays.iter().enumerate() {
            let captured = number as u64 * 20;
            let frame = stream.add(ms(captured), number % 10 == 0);
            if let Some(delay) = delay {
                stream.arrived(frame, ms(captured + delay), 2_500);
            }
        }
        MediaOutcome::of([&stream].into_iter(), Time::ZERO, ms(now)).unwrap()
    }

    #[test]
    fn media_frames_in_time_meet_the_deadline_without_freezes() {
        let outcome = outcome(&[Some(50); 40], 10_000);
        assert_eq!(
            (outcome.frames, outcome.met, outcome.freezes, outcome.frozen_ms),
            (40, 40, 0, 0.0)
        );
        assert_eq!(outcome.frame_delay.unwrap().count, 40);
    }

    #[test]
    fn late_media_frame_delays_dependent_frames() {
        let mut delays = [Some(10); 40];
        delays[12] = Some(300);
        let outcome = outcome(&delays, 10_000);
        assert_eq!((outcome.missed, outcome.late, outcome.never), (1, 1, 0));
        // Frame 11 was shown at 270 ms, and frame 12 arrives at 540 ms.
        assert_eq!((outcome.freezes, outcome.frozen_ms), (1, 270.0));
    }

    #[test]
    fn lost_media_frame_freezes_the_picture_until_next_i_frame() {
        let mut delays = [Some(10); 40];
        delays[2] = None;
        let outcome = outcome(&delays, 10_000);
        // Shown at 70 ms (frame 1) and 250 ms (frame 10): 180 ms, more than 170.
        assert_eq!(
            (outcome.missed, outcome.never, outcome.freezes, outcome.frozen_ms),
            (1, 1, 1, 180.0)
        );
        assert_eq!(outcome.missed_fraction, 0.025);
        // 39 of 40 frames of 20 kbit met their deadlines, and one comes every 20 ms.
        assert_eq!(outcome.met_kbps, 975.0);
    }

    #[test]
    fn media_stream_without_frames_is_frozen_all_the_time() {
        let outcome = outcome(&[None; 40], 10_000);
        // Frames were due from 50 to 830 ms.
        assert_eq!((outcome.never, outcome.freezes, outcome.frozen_ms), (40, 1, 780.0));
        assert_eq!((outcome.met_kbps, outcome.frame_delay), (0.0, None));
    }

    #[test]
    fn media_frames_that_a_client_never_asked_for_are_missed() {
        for (fps, most, frames) in [(50, None, 498), (30, None, 299), (50, Some(3), 3)] {
            let stream = LiveStream::new(fps, Duration::from_millis(50), Time::ZERO, most);
            let outcome = MediaOutcome::of([&stream].into_iter(), Time::ZERO, ms(10_000)).unwrap();
            assert_eq!(
                (outcome.frames, outcome.never, outcome.missed_fraction),
                (frames, frames, 1.0)
            );
        }
        let paused = LiveStream::new(50, Duration::from_millis(50), Time::ZERO, None)
            .with_pause(Some((ms(1_000), ms(3_000))));
        assert_eq!(paused.due(ms(0), ms(10_000)), 398);
        let late = LiveStream::new(50, Duration::from_millis(50), ms(1_000), None);
        assert_eq!((late.due(ms(0), ms(1_050)), late.due(ms(1_001), ms(1_070))), (1, 1));
    }

    #[test]
    fn pause_of_a_media_stream_is_no_freeze() {
        let mut stream = LiveStream::new(50, Duration::from_millis(50), Time::ZERO, Some(200))
            .with_pause(Some((ms(1_000), ms(3_000))));
        for captured in (0..1_000).chain(3_000..4_000).step_by(20) {
            let frame = stream.add(ms(captured), true);
            // The last 300 ms before the pause are frozen.
            if !(700..1_000).contains(&captured) {
                stream.arrived(frame, ms(captured + 10), 1);
            }
        }
        let outcome = MediaOutcome::of([&stream].into_iter(), Time::ZERO, ms(9_000)).unwrap();
        assert_eq!((outcome.frames, outcome.met, outcome.freezes), (100, 85, 1));
        assert_eq!(outcome.frozen_ms, 300.0);
    }

    #[test]
    fn media_rate_is_that_of_frames_in_time_and_a_mean_over_streams() {
        let stream = |delay| {
            let mut stream = LiveStream::new(50, Duration::from_millis(50), Time::ZERO, Some(10));
            for number in 0..10 {
                let frame = stream.add(ms(number * 20), true);
                stream.arrived(frame, ms(number * 20 + delay), 2_500);
            }
            stream
        };
        let streams = [stream(10), stream(51)];
        let outcome = MediaOutcome::of(streams.iter(), Time::ZERO, ms(1_000)).unwrap();
        assert_eq!((outcome.met, outcome.late, outcome.met_kbps), (10, 10, 500.0));
        assert_eq!(outcome.met_kbps_of_streams, [1_000.0, 0.0]);
    }

    #[test]
    fn picture_is_shown_if_its_i_frame_came_before_the_counted_time() {
        let mut stream = LiveStream::new(50, Duration::from_millis(50), Time::ZERO, Some(100));
        for number in 0..100 {
            let frame = stream.add(ms(number * 20), number == 0);
            stream.arrived(frame, ms(number * 20 + 10), 1);
        }
        let outcome = MediaOutcome::of([&stream].into_iter(), ms(1_000), ms(9_000)).unwrap();
        assert_eq!((outcome.frames, outcome.met, outcome.freezes), (50, 50, 0));
    }

    #[test]
    fn media_frames_not_yet_due_are_not_counted() {
        let mut delays = [Some(10); 40];
        delays[5..].fill(None);
        let outcome = outcome(&delays, 600);
        assert_eq!((outcome.frames, outcome.met), (28, 5));
        // Frame 4 was shown at 130 ms; frame 27 was due at 590 ms.
        assert_eq!((outcome.freezes, outcome.frozen_ms), (1, 460.0));
    }
}
