//! Accounting for trimmed packets. It converts between the bytes that the stack counts and the
//! bytes that are really sent. The stack counts packets that the shaping socket trims with their
//! untrimmed size.

use fathom_cc::Time;

/// Packets that are trimmed by the same number of bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    /// Start of the period in which these packets were sealed.
    from: Time,
    /// Size in bytes of the largest untrimmed datagram.
    mtu: u64,
    /// Number of bytes trimmed off each packet.
    trim: u64,
    /// Bytes in flight of these packets, as the stack counts them. This number is not maintained
    /// for the newest epoch.
    in_flight: u64,
}

impl Epoch {
    /// Converts the counted bytes of any number of full-size packets to the bytes that are really
    /// sent.
    fn real(&self, counted: u64) -> u64 {
        scaled(counted, self.mtu - self.trim, self.mtu)
    }

    /// Converts the bytes of these packets that are really sent to the bytes that the stack counts.
    fn counted(&self, real: u64) -> u64 {
        scaled(real, self.mtu, self.mtu - self.trim)
    }
}

/// History of the number of bytes by which packets were trimmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrimAccounting {
    /// Epochs, newest first. Bytes in flight from before the last epoch are added to the last
    /// epoch. More than seven changes per round trip are therefore imprecise.
    epochs: [Epoch; 8],
    /// Bytes in flight, as the stack counts them.
    in_flight: u64,
}

impl TrimAccounting {
    pub(crate) fn new(mtu: u16) -> Self {
        // With an MTU of at least 1, trimming leaves at least one byte.
        Self { epochs: [Epoch { mtu: u64::from(mtu).max(1), ..Epoch::default() }; 8], in_flight: 0 }
    }

    /// Records that packets sealed from `at` on are trimmed by `trim` of their `mtu` bytes.
    pub(crate) fn change(&mut self, at: Time, mtu: u16, trim: usize) {
        let mtu = u64::from(mtu).max(1);
        let trim = (trim as u64).min(mtu - 1);
        let newest = self.epochs[0];
        if (newest.mtu, newest.trim) == (mtu, trim) {
            return;
        }
        self.epochs[0].in_flight = self.in_flight.saturating_sub(self.older());
        let [.., before, last] = &mut self.epochs;
        before.in_flight += last.in_flight;
        self.epochs.rotate_right(1);
        self.epochs[0] = Epoch { from: at, mtu, trim, in_flight: 0 };
    }

    /// Returns the bytes in flight of all epochs except the newest, as the stack counts them.
    fn older(&self) -> u64 {
        self.epochs[1..].iter().map(|e| e.in_flight).sum()
    }

    /// Records a sent datagram that the stack counts as `bytes`. Returns the size with which the
    /// datagram was sent.
    pub(crate) fn sent(&mut self, bytes: u64) -> u64 {
        self.in_flight = self.in_flight.saturating_add(bytes);
        let newest = self.epochs[0];
        self.size(newest, bytes)
    }

    /// Records the acknowledgement of a packet sent at `sent`. Returns the size with which the
    /// packet was sent.
    pub(crate) fn acked(&mut self, sent: Time, bytes: u64) -> u64 {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        let mut index =
            self.epochs.iter().position(|e| sent >= e.from).unwrap_or(self.epochs.len() - 1);
        // A packet sent at the very instant of a change may belong to either epoch. The older
        // packets come first.
        while let [epoch, older, ..] = self.epochs[index..]
            && sent == epoch.from
            && older.in_flight > 0
        {
            index += 1;
        }
        if index > 0 {
            self.epochs[index].in_flight = self.epochs[index].in_flight.saturating_sub(bytes);
        }
        self.size(self.epochs[index], bytes)
    }

    fn size(&self, epoch: Epoch, bytes: u64) -> u64 {
        // MTU probes are larger than the path's datagrams and are not trimmed.
        if bytes > epoch.mtu { bytes } else { bytes.saturating_sub(epoch.trim).max(1) }
    }

    /// Records lost packets, assuming that the oldest packets were lost. Returns the total size
    /// with which these packets were sent.
    pub(crate) fn lost(&mut self, mut bytes: u64) -> u64 {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        let mut real = 0;
        for epoch in self.epochs[1..].iter_mut().rev() {
            let of_it = bytes.min(epoch.in_flight);
            epoch.in_flight -= of_it;
            bytes -= of_it;
            real += epoch.real(of_it);
        }
        (real + self.epochs[0].real(bytes)).max(1)
    }

    /// Converts the stack's bytes in flight to the bytes that were really sent.
    pub(crate) fn in_flight(&mut self, counted: u64) -> u64 {
        self.in_flight = counted;
        let mut left = counted;
        for epoch in &mut self.epochs[1..] {
            epoch.in_flight = epoch.in_flight.min(left);
            left -= epoch.in_flight;
        }
        self.older_real() + self.epochs[0].real(left)
    }

    fn older_real(&self) -> u64 {
        self.epochs[1..].iter().map(|e| e.real(e.in_flight)).sum()
    }

    /// Returns the number of bytes that the stack may count as in flight so that the bytes really
    /// sent fill `window`. This number includes older packets as the stack counts them, plus as
    /// many new packets as fit into the remaining window. It is at least two packets as the stack
    /// counts them, which is the minimum window (RFC 9002 §7.2). While packets cannot shrink yet,
    /// a window for smaller packets would stop the stack permanently.
    pub(crate) fn window(&self, window: u64) -> u64 {
        let rest = window.saturating_sub(self.older_real());
        let newest = &self.epochs[0];
        newest.counted(rest).saturating_add(self.older()).max(2 * newest.mtu)
    }
}

/// Returns `amount * num / den`, or the maximum on overflow.
fn scaled(amount: u64, num: u64, den: u64) -> u64 {
    if num == den {
        return amount;
    }
    u64::try_from(u128::from(amount) * u128::from(num) / u128::from(den.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: fn(u64) -> Time = Time::from_millis;

    #[test]
    fn trim_accounting_leaves_untrimmed_bytes_unchanged() {
        let mut trim = TrimAccounting::new(1_200);
        assert_eq!(trim.sent(700), 700);
        assert_eq!(trim.acked(T(0), 700), 700);
        assert_eq!(trim.window(50_000), 50_000);
        assert_eq!(trim.window(u64::MAX), u64::MAX);
        assert_eq!(trim.in_flight(9_999), 9_999);
        assert_eq!(trim.lost(777), 777);
    }

    #[test]
    fn window_counts_real_bytes_of_trimmed_packets() {
        let mut trim = TrimAccounting::new(1_200);
        trim.change(T(1), 1_200, 950);
        // 1200 bytes as the stack counts are 250 real bytes.
        assert_eq!(trim.window(2_500), 12_000);
        assert_eq!(trim.window(u64::MAX), u64::MAX);
        assert_eq!(trim.sent(1_200), 250);
        assert_eq!(trim.acked(T(1), 1_200), 250);
        assert_eq!(trim.acked(T(1), 960), 10, "a packet that was not full");
        assert_eq!(trim.acked(T(0), 1_200), 1_200, "sent before");
        assert_eq!(trim.acked(T(2), 1_452), 1_452, "an MTU probe");
        assert_eq!(trim.in_flight(12_000), 2_500);
        assert_eq!(trim.lost(2_400), 500);
        // Two packets as the stack counts them may always be sent, whatever the window.
        assert_eq!(trim.window(100), 2_400);
    }

    /// Sender with 8 packets of 1200 bytes and 6 of 250 bytes in flight, and a window of
    /// 12000 bytes.
    #[test]
    fn packets_sent_before_a_size_change_count_at_their_own_size() {
        let mut trim = TrimAccounting::new(1_200);
        for _ in 0..8 {
            trim.sent(1_200);
        }
        assert_eq!(trim.in_flight(9_600), 9_600);
        trim.change(T(10), 1_200, 950);
        // 2400 bytes are left: 9 packets of 250 bytes, and 150 bytes.
        assert_eq!(trim.window(12_000), 9_600 + 2_400 * 1_200 / 250);
        for _ in 0..6 {
            assert_eq!(trim.sent(1_200), 250);
        }
        // Two old packets are acknowledged: 6 * 1200 + 6 * 250 real bytes.
        assert_eq!(trim.acked(T(0), 1_200) + trim.acked(T(9), 1_200), 2_400);
        assert_eq!(trim.in_flight(12 * 1_200), 8_700);
        // Three old packets are lost.
        assert_eq!(trim.lost(3_600), 3_600);
        assert_eq!(trim.in_flight(9 * 1_200), 5_100);
        assert_eq!(trim.window(12_000), 3_600 + 8_400 * 1_200 / 250);
        // No old packet is in flight, so new packets may use the whole window.
        assert_eq!(trim.in_flight(0), 0);
        assert_eq!(trim.window(12_000), 57_600);
    }

    #[test]
    fn packets_sent_when_size_changes_are_counted_in_sending_order() {
        let mut trim = TrimAccounting::new(1_200);
        trim.sent(1_200);
        trim.sent(1_200);
        trim.change(T(5), 1_200, 950);
        trim.sent(1_200);
        assert_eq!([0; 3].map(|_| trim.acked(T(5), 1_200)), [1_200, 1_200, 250]);
    }

    #[test]
    fn window_below_bytes_in_flight_sends_nothing() {
        let mut trim = TrimAccounting::new(1_200);
        trim.in_flight(12_000);
        trim.change(T(10), 1_200, 950);
        assert_eq!(trim.window(6_000), 12_000);
        // Packets grow again while small ones are in flight: 24000 counted bytes are 5000 real
        // bytes.
        trim.in_flight(24_000);
        assert_eq!(trim.in_flight(24_000), 12_000 + 2_500);
    }

    #[test]
    fn merging_old_size_changes_keeps_the_sum_of_bytes() {
        let mut trim = TrimAccounting::new(1_200);
        for n in 0..20 {
            trim.sent(1_200);
            trim.change(T(n + 1), 1_200, if n % 2 == 0 { 600 } else { 200 });
        }
        assert_eq!(trim.older(), 20 * 1_200);
        trim.in_flight(2_400);
        assert_eq!(trim.older(), 2_400);
    }
}
