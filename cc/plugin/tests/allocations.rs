//! Tests that sending packets and processing ACK frames allocates no memory.

#![cfg(feature = "rustls")]

#[path = "../benches/ack/connection.rs"]
mod connection;

use connection::{Connection, ROUND_TRIP};
use fathom_plugin::Offer;

#[test]
fn sending_packets_and_processing_acks_allocates_nothing() {
    for (offer, shaping_socket) in
        [(None, false), (Some(Offer::Lean), false), (Some(Offer::Lean), true)]
    {
        let mut connection = Connection::new(offer, shaping_socket);
        // During the first round trips, logs grow until they hold the packets of a round trip.
        connection.run(5 * ROUND_TRIP);
        let allocations = allocation_counter::measure(|| {
            connection.run(1_000);
        });
        assert_eq!(allocations.count_total, 0, "{offer:?}, shaping socket: {shaping_socket}");
    }
}
