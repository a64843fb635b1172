//! Live media: streams of frames with a deadline. Each frame counts as a response.

use std::time::Duration;

use fathom_cc::units::{parse_duration, parse_whole};
use fathom_cc::{Invalid, Rate, Time};
use fathom_netsim::hash::mix;
use fathom_netsim::path::parse_rate;
use fathom_traffic::media::{GROUP_OF_PICTURES, LEAD};
use fathom_traffic::{MediaStream, RateOutOfRange};

use super::model::{Form, Model, Work, no_option};
use super::syntax::plural;
use super::{Request, Requests, Source, in_text};
use crate::http::send_buffer;
use crate::scenario::{InField, MediaEncoder, MediaTransport, ResponseKind};
use crate::stack::Stack;

pub(super) const FORMS: &[Form<Media>] =
    &[Form { name: "media", read, examples: &["media:4 at 2Mbps 30fps deadline 100ms"] }];

/// Live media.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Media {
    /// Number of streams, each with a client and a connection of its own.
    pub streams: u32,
    /// Bit rate of a stream's frames.
    pub rate: Rate,
    /// Frames per second.
    pub fps: u32,
    /// Time from the capture of a frame to the time at which the client needs it.
    pub deadline: Duration,
    /// Start of the streams.
    pub after: Duration,
    /// Start and end of a pause, relative to the start of a stream.
    pub pause: Option<(Duration, Duration)>,
    /// Duration of a stream; `None` if it lasts as long as the run.
    pub length: Option<Duration>,
    /// Transport of the frames.
    pub transport: MediaTransport,
    /// Encoder of the frames.
    pub encoder: MediaEncoder,
}

/// Parses `4 at 2Mbps 30fps deadline 100ms`, optionally with ` after 20s` if streams start later,
/// and then with ` for 60s` if they end or with ` pausing 20s..40s` if they pause.
fn read(whole: &str, rest: &str) -> Result<Media, Invalid> {
    let help = || {
        Invalid::value(whole, "is not a workload").hint(
            "write media:4 at 2Mbps 30fps deadline 100ms (1 to 240 fps), with ' after 20s' if \
             streams start later, and then with ' for 60s' if they end or ' pausing 20s..40s' if \
             they pause",
        )
    };
    let (rest, length) =
        rest.split_once(" for ").map_or((rest, None), |(rest, length)| (rest, Some(length)));
    let (rest, pause) =
        rest.split_once(" pausing ").map_or((rest, None), |(rest, pause)| (rest, Some(pause)));
    let (rest, after) = rest.split_once(" after ").unwrap_or((rest, "0s"));
    let (streams, rest) = rest.split_once(" at ").ok_or_else(help)?;
    let (rest, deadline) = rest.split_once(" deadline ").ok_or_else(help)?;
    let (rate, fps) = rest.trim().split_once(' ').ok_or_else(help)?;
    let streams =
        parse_whole(streams.trim(), 1..=10_000).in_field("streams").map_err(in_text(whole))? as u32;
    let fps = fps.trim().strip_suffix("fps").and_then(|fps| fps.trim().parse::<u32>().ok());
    let fps = fps.filter(|fps| (1..=240).contains(fps)).ok_or_else(help)?;
    let deadline = parse_duration(deadline.trim())?;
    let after = parse_duration(after.trim())?;
    let pause = match pause {
        None => None,
        Some(_) if length.is_some() => return Err(help()),
        Some(pause) => {
            let (from, to) = pause.split_once("..").ok_or_else(help)?;
            Some((parse_duration(from.trim())?, parse_duration(to.trim())?))
        }
    };
    let length = length.map(|length| parse_duration(length.trim())).transpose()?;
    if deadline.is_zero()
        || pause.is_some_and(|(from, to)| from >= to)
        || length.is_some_and(|length| length.as_secs_f64() * f64::from(fps) < 1.0)
    {
        return Err(help());
    }
    let (rate, transport) = (parse_rate(rate)?, MediaTransport::default());
    Ok(Media {
        streams,
        rate,
        fps,
        deadline,
        after,
        pause,
        length,
        transport,
        encoder: MediaEncoder::default(),
    })
}

impl Media {
    /// Returns the number of frames of a stream, if the stream ends.
    pub fn frames(&self) -> Option<u64> {
        self.length.map(|length| (length.as_secs_f64() * f64::from(self.fps)) as u64)
    }

    fn frames_per_second(&self) -> f64 {
        f64::from(self.streams) * f64::from(self.fps)
    }
}

impl Model for Media {
    fn source(&self, _rate: f64, seed: u64) -> Result<Source, RateOutOfRange> {
        let (rate, fps, frames) = (self.rate, self.fps, self.frames());
        let adaptive = self.encoder == MediaEncoder::Adaptive;
        let start = Time::ZERO + self.after;
        let stream = MediaStream { start, rate, fps, frames, seed, adaptive, pause: self.pause };
        Ok(Box::new(Streams { next: 0, stream, media: *self }))
    }

    fn response_kind(&self) -> ResponseKind {
        ResponseKind::Frame
    }

    fn words(&self) -> String {
        let Self { streams, rate, fps, deadline, after, pause, length, transport, encoder } = *self;
        let length = length.map_or(String::new(), |length| format!(", for {length:?}"));
        let after = if after.is_zero() { String::new() } else { format!(", from {after:?} on") };
        let pause =
            pause.map_or(String::new(), |(from, to)| format!(", paused {from:?} to {to:?}"));
        let datagrams = if transport == MediaTransport::Datagram { ", as datagrams" } else { "" };
        let most = if encoder == MediaEncoder::Adaptive { "up to " } else { "" };
        format!(
            "{streams} live stream{} of {most}{rate}, {fps} fps, due after {deadline:?}{after}{pause}{length}\
             {datagrams}",
            plural(streams)
        )
    }

    fn question(&self) -> &'static str {
        "Which controller misses the fewest deadlines?"
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        match name {
            "transport" => self.transport = value.parse().in_field("transport")?,
            "encoder" => self.encoder = value.parse().in_field("encoder")?,
            _ => return Err(no_option(name, "write transport or encoder")),
        }
        Ok(())
    }

    fn flows(&self) -> Option<u32> {
        Some(self.streams)
    }

    fn requests(&self) -> Option<u64> {
        Some(u64::from(self.streams) * self.frames()?)
    }

    fn check_stack(&self, stack: Stack) -> Result<(), Invalid> {
        if self.transport == MediaTransport::Datagram && !stack.is_everywhere() {
            let others = Stack::names(Stack::is_everywhere);
            let refused =
                Invalid::because(format!("{stack} cannot send datagrams in the laboratory"));
            return Err(refused.hint(format!("use {others}")).in_field("transport=datagram"));
        }
        Ok(())
    }

    fn datagram_buffer(&self) -> Option<usize> {
        (self.transport == MediaTransport::Datagram)
            .then(|| send_buffer(self.rate, self.fps, self.deadline))
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.deadline)
    }

    /// Returns the share of missed deadlines, because viewers notice nothing else.
    fn measure(&self) -> &'static str {
        "deadline_misses_percent"
    }

    fn span(&self, responses: u64, _: f64, _: &dyn Fn(u64) -> Duration) -> Duration {
        Duration::from_secs_f64(responses as f64 / self.frames_per_second())
    }

    fn starts(&self, scale: f64) -> Duration {
        LEAD + self.after.mul_f64(scale)
    }

    fn begins(&self) -> Duration {
        self.after
    }

    fn scale(&mut self, scale: f64) {
        self.after = self.after.mul_f64(scale);
        self.pause = self.pause.map(|(from, to)| (from.mul_f64(scale), to.mul_f64(scale)));
    }

    fn bits_per_second(&self) -> Option<f64> {
        Some(f64::from(self.streams) * self.rate.bits_per_sec() as f64)
    }

    fn responses_per_second(&self, _rate: f64) -> f64 {
        self.frames_per_second()
    }

    fn work(&self, rate: f64, seconds: f64) -> Work {
        let streams = f64::from(self.streams);
        let bytes = rate / 8.0 * seconds;
        Work { connections: streams, at_once: streams.min(10_000.0), bytes, few_packets: false }
    }
}

#[derive(Clone)]
struct Streams {
    next: u32,
    stream: MediaStream,
    media: Media,
}

impl Iterator for Streams {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let Media { streams, deadline, transport, .. } = self.media;
        let number = self.next;
        self.next = number.saturating_add(1);
        // Spreads the I-frames of the streams evenly over the interval between I-frames.
        let start = self.stream.start + GROUP_OF_PICTURES * number / streams.max(1);
        let seed = mix(&[self.stream.seed, u64::from(number)]);
        let stream = MediaStream { start, seed, ..self.stream };
        (number < streams).then_some(Request::Media(stream, deadline, transport))
    }
}

impl Requests for Streams {
    /// Counts a response for each frame. The first stream begins at the start of the run.
    fn hashed(&self, _responses: u64) -> u64 {
        1
    }

    fn again(&self) -> Source {
        Box::new(self.clone())
    }
}
