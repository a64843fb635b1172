//! Test that the steady state allocates nothing, with a global allocator that counts allocations.

use allocation_counter::measure;
use fathom_cc::catalogue::CATALOGUE;
use fathom_cc::testing::script::{Script, variants};
use fathom_cc::{Cause, PathChange};

#[test]
fn events_and_send_params_allocate_nothing() {
    for spec in CATALOGUE.iter().flat_map(variants) {
        let mut s = Script::new(&spec);
        s.acks(20, 1_000);
        let counted = measure(|| {
            for round in 0..200 {
                s.send();
                s.acks(10, (round * 37) % 9_000);
                s.lose();
                s.congestion_event(Cause::Mark);
                s.next_round();
                s.controller.on_spurious_congestion_event(s.now);
                s.controller.on_path(s.now, PathChange::Datagram(1_200));
                std::hint::black_box((s.controller.send_params(), s.controller.metrics()));
            }
        });
        assert_eq!(counted.count_total, 0, "{spec}");
        assert!(measure(|| drop(s.controller.boxed())).count_total >= 1, "the counter counts");
    }
}
