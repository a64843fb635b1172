//! Timeouts of incomplete request headers. quiche's HTTP/3 reports a request when its header is complete, so streams are tracked here from
//! their first bytes.

use std::collections::VecDeque;

use tokio::time::Instant;

/// Streams whose header is not there, and when it must be. They come in this order, and are no more than a client may have open.
#[derive(Default)]
pub(super) struct HeaderTimeouts {
    awaited: VecDeque<(u64, Instant)>,
    /// Streams below this one were awaited.
    next: u64,
}

impl HeaderTimeouts {
    /// Looks at streams that have something to read; where a header begins to come, it must be there at `end`.
    pub(super) fn on_readable(&mut self, readable: impl Iterator<Item = u64>, end: Instant) {
        // Of a client's that go both ways (RFC 9000 §2.1). One opens all before it.
        for stream in readable.filter(|stream| stream % 4 == 0) {
            while self.next <= stream {
                self.awaited.push_back((self.next, end));
                self.next += 4;
            }
        }
    }

    /// It is there, or will not come.
    pub(super) fn on_header(&mut self, stream: u64) {
        if let Some(at) = self.awaited.iter().position(|(awaited, _)| *awaited == stream) {
            self.awaited.remove(at);
        }
    }

    /// A stream whose header is late at `now`. It is not awaited any more.
    pub(super) fn expired(&mut self, now: Instant) -> Option<u64> {
        let (_, end) = self.awaited.front()?;
        if *end > now {
            return None;
        }
        self.awaited.pop_front().map(|(stream, _)| stream)
    }

    /// A stream that was opened by one after it and has brought nothing has time until then.
    pub(super) fn restart(&mut self, stream: u64, end: Instant) {
        self.awaited.push_back((stream, end));
    }

    /// When the next header will be late.
    pub(super) fn due(&self) -> Option<Instant> {
        self.awaited.front().map(|(_, end)| *end)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn headers_expire_in_order_of_arrival() {
        let (mut headers, start) = (HeaderTimeouts::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        // Streams 0 and 4 were opened by 8; 2 is the client's control stream.
        headers.on_readable([2, 8].into_iter(), at(10));
        headers.on_readable([12, 8].into_iter(), at(11));
        headers.on_header(8);
        assert_eq!((headers.due(), headers.expired(at(9))), (Some(at(10)), None));
        assert_eq!([0; 3].map(|_| headers.expired(at(10))), [Some(0), Some(4), None]);
        headers.restart(0, at(20));
        assert_eq!((headers.expired(at(19)), headers.expired(at(19)), headers.due()), (Some(12), None, Some(at(20))));
    }
}
