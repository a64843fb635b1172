//! Live streams in QUIC DATAGRAM frames (RFC 9221). A client requests all frames of a stream with
//! one request. The server sends each frame in datagrams of its own.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use fathom_cc::{Rate, Time};
use fathom_netsim::sim::SimHandle;
use fathom_stacks::{Connection, ConnectionStats};
use fathom_traffic::MediaStream;
use fathom_traffic::media::{LEAD, adapted};

/// A client's request for the frames of a stream as datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRequest {
    /// The stream.
    pub stream: MediaStream,
    /// Number of the first frame that the client wants.
    pub first: u64,
}

impl LiveRequest {
    /// Returns the path and query of the request's URI, from which a server makes the frames.
    pub(super) fn path(&self) -> String {
        let MediaStream { start, rate, fps, frames, seed, adaptive, pause } = self.stream;
        let frames = frames.map_or(String::new(), |frames| format!("&frames={frames}"));
        let adaptive = if adaptive { "&adaptive=1" } else { "" };
        let pause = pause.map_or(String::new(), |(from, to)| {
            format!("&pause={}&resume={}", from.as_nanos(), to.as_nanos())
        });
        let (start, rate, first) = (start.as_nanos(), rate.bits_per_sec(), self.first);
        let options = [frames, adaptive.to_owned(), pause].concat();
        format!("/live?start={start}&rate={rate}&fps={fps}&seed={seed}&first={first}{options}")
    }

    /// Parses a path and query written by [`LiveRequest::path`]. Returns `None` for others.
    pub(super) fn read(path: &str) -> Option<Self> {
        let query = path.strip_prefix("/live?")?;
        let number = |name: &str| query_number(query, name);
        let stream = MediaStream {
            start: Time::from_nanos(number("start")?),
            rate: Rate::from_bits_per_sec(number("rate")?),
            fps: u32::try_from(number("fps")?).ok().filter(|fps| *fps > 0)?,
            frames: number("frames"),
            seed: number("seed")?,
            adaptive: number("adaptive") == Some(1),
            pause: number("pause")
                .zip(number("resume"))
                .map(|(from, to)| (Duration::from_nanos(from), Duration::from_nanos(to))),
        };
        Some(Self { stream, first: number("first")? })
    }
}

/// Returns the number in a field of a query.
pub(super) fn query_number(query: &str, name: &str) -> Option<u64> {
    let field = |field: &str| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    query.split('&').find_map(field)
}

/// Header of a datagram, which carries one piece of a frame. On the wire, the header is the number
/// of the frame (4 bytes), the number of the piece and the number of pieces in the frame (2 bytes
/// each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the frame in its stream.
    pub frame: u32,
    /// Number of the piece in its frame.
    pub piece: u16,
    /// Number of pieces in the frame.
    pub pieces: u16,
}

impl Piece {
    /// Bytes of the header.
    pub const HEADER: usize = 8;

    fn write(self, bytes: usize) -> Bytes {
        let mut datagram = BytesMut::with_capacity(Self::HEADER + bytes);
        datagram.put_u32(self.frame);
        datagram.put_u16(self.piece);
        datagram.put_u16(self.pieces);
        datagram.put_bytes(0, bytes);
        datagram.freeze()
    }

    /// Parses the header of a datagram. Returns `None` if the header is missing or invalid.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let (header, _) = datagram.split_first_chunk::<{ Self::HEADER }>()?;
        let [a, b, c, d, e, f, g, h] = *header;
        let (frame, piece, pieces) = (
            u32::from_be_bytes([a, b, c, d]),
            u16::from_be_bytes([e, f]),
            u16::from_be_bytes([g, h]),
        );
        (piece < pieces).then_some(Self { frame, piece, pieces })
    }
}

/// Time in which the data that wait at a sender leave, beyond which an adaptive encoder produces its
/// smallest rate (our choice: three frames at 30 frames per second).
const BACKLOG: f64 = 0.1;

/// Returns the rate of an adaptive encoder whose sender has `room` while `waiting` bytes wait: less,
/// the longer these need. Without this rule, frames that are already late would delay all others.
fn beside_backlog(room: Rate, waiting: usize) -> Rate {
    let rate = room.bits_per_sec() as f64;
    let seconds = waiting as f64 * 8.0 / rate.max(1.0);
    Rate::from_bits_per_sec((rate * (1.0 - seconds / BACKLOG).max(0.0)) as u64)
}

/// Sends the frames of a stream as they are captured, each in as few datagrams as possible, until
/// the stream or the connection ends.
pub(crate) async fn push(sim: &SimHandle, connection: &impl Connection, request: LiveRequest) {
    let LiveRequest { stream, first } = request;
    let empty = connection.datagram_room();
    let frames = stream.sizes().enumerate().skip(usize::try_from(first).unwrap_or(usize::MAX));
    for (number, frame) in frames {
        sim.sleep_until(stream.start + LEAD + frame.at).await;
        let Some(most) =
            connection.max_datagram_size().and_then(|most| most.checked_sub(Piece::HEADER))
        else {
            return;
        };
        let most = most.max(1) as u64;
        let room = if stream.adaptive { available(&connection.stats()) } else { None };
        let bytes = room.map_or(frame.bytes, |room| {
            let waiting = empty.saturating_sub(connection.datagram_room());
            adapted(frame.bytes, stream.rate, beside_backlog(room, waiting))
        });
        // A frame is truncated after 65,535 pieces, which are about 85 MB.
        let (frame_number, pieces) =
            (number as u32, u16::try_from(bytes.div_ceil(most)).unwrap_or(u16::MAX));
        let mut left = bytes;
        for piece in 0..pieces {
            let bytes = left.min(most);
            left -= bytes;
            let datagram = Piece { frame: frame_number, piece, pieces }.write(bytes as usize);
            if connection.send_datagram(datagram).is_err() {
                return;
            }
        }
    }
}

/// Share of a window per round trip that a live source produces, so that it has room for frames of
/// different sizes. The divisor is that of SCReAMv2 §4.4, whose window is a smaller one.
const ROOM: (u128, u128) = (5, 6);

/// Returns the rate at which a live source may produce data now: the controller's own rate for
/// media, or [`ROOM`] of a window per round trip. Returns `None` before the first round trip.
pub(crate) fn available(stats: &ConnectionStats) -> Option<Rate> {
    let of_window = |rtt: Duration| {
        let bytes =
            u128::from(stats.window) * 1_000_000_000 / rtt.as_nanos().max(1) * ROOM.0 / ROOM.1;
        Rate::from_bytes_per_sec(u64::try_from(bytes).unwrap_or(u64::MAX))
    };
    stats.media_rate.or_else(|| stats.rtt.map(of_window))
}

/// Returns the maximum number of datagram bytes that a sender of this stream buffers. The buffer
/// has room for the data that the stream produces within the deadline at its (largest) rate,
/// because data that wait longer are late. It has room for at least two of the largest I-frames (up
/// to three mean frames each), so that no frame drops its own pieces.
pub(crate) fn send_buffer(rate: Rate, fps: u32, deadline: Duration) -> usize {
    let bytes_per_second = rate.bits_per_sec() as f64 / 8.0;
    let until_due = bytes_per_second * deadline.as_secs_f64();
    let two_largest = 2.0 * 2.0 * 1.5 * bytes_per_second / f64::from(fps);
    // Adds 10% because each datagram has a header of its own.
    (until_due.max(two_largest) * 1.1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_source_follows_the_controller_or_its_window() {
        let rate = |bits| Some(Rate::from_bits_per_sec(bits));
        let window = ConnectionStats {
            window: 12_000,
            rtt: Some(Duration::from_millis(100)),
            ..ConnectionStats::default()
        };
        assert_eq!(available(&window), rate(800_000), "5/6 of 960 kbps");
        assert_eq!(available(&ConnectionStats { media_rate: rate(7), ..window }), rate(7));
        assert_eq!(available(&ConnectionStats { rtt: None, ..window }), None);
    }

    #[test]
    fn adaptive_encoder_slows_down_while_data_wait() {
        let of =
            |waiting| beside_backlog(Rate::from_bits_per_sec(1_000_000), waiting).bits_per_sec();
        assert_eq!([of(0), of(6_250), of(12_500), of(1_000_000)], [1_000_000, 500_000, 0, 0]);
    }

    #[test]
    fn live_media_request_round_trips_through_text() {
        let stream = MediaStream {
            start: Time::from_millis(250),
            rate: Rate::from_bits_per_sec(2_000_000),
            fps: 30,
            frames: Some(90),
            seed: u64::MAX,
            adaptive: false,
            pause: None,
        };
        let pause = Some((Duration::from_secs(1), Duration::from_millis(1_500)));
        for (frames, adaptive, pause) in [(Some(90), false, None), (None, true, pause)] {
            let stream = MediaStream { frames, adaptive, pause, ..stream };
            let request = LiveRequest { stream, first: 7 };
            assert_eq!(LiveRequest::read(&request.path()), Some(request));
        }
        for other in [
            "/live",
            "/live?start=1",
            "/bytes/5?start=1&rate=1&fps=1&seed=1&first=0",
            "/live?start=1&rate=1&fps=0&seed=1&first=0",
        ] {
            assert_eq!(LiveRequest::read(other), None, "{other}");
        }
        let piece = Piece { frame: 70_000, piece: 2, pieces: 300 };
        let datagram = piece.write(100);
        assert_eq!((datagram.len(), Piece::read(&datagram)), (108, Some(piece)));
        assert_eq!(Piece::read(&Piece { piece: 300, ..piece }.write(0)), None);
        assert_eq!(Piece::read(&datagram[..7]), None);
    }
}
