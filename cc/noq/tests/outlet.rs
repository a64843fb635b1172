//! Packets of the controller's size over real sockets, between all stacks, plugged and stock.

mod common;

use std::sync::Arc;

use common::outlets::Sizes;
use common::{Ask, EVERY, On, run};
use fathom_plug::{Extension, Offer};

const LEAN: Extension = Extension { offer: Some(Offer::Lean), datagrams: false };
const SHRINKING: &str = "packet-size:packets=64,patience=1";

fn shrinking(bytes: usize) -> (Ask, Sizes) {
    let sizes = Sizes::default();
    (Ask { outlet: Some(sizes.clone()), discovery: false, bytes, ..Ask::plugged(SHRINKING, LEAN) }, sizes)
}

#[tokio::test]
async fn packets_shrink_and_grow_back_on_every_pair_of_stacks() {
    for on in EVERY {
        let ((client, up), (server, down)) = (shrinking(300_000), shrinking(300_000));
        run(on, client, server).await;
        println!("{on:?} {:?} {:?}", up.one_rtt(), down.one_rtt());
    }
}
