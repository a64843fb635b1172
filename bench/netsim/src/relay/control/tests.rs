use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::path::Impairments;
use crate::relay::passage::Passage;
use crate::relay::{Incoming, RelaySpec};

/// Returns a relay of a path. No loop drives the relay.
fn relay(options: &[(&str, &str)]) -> Relay {
    let mut spec = PathSpec::default();
    for (name, value) in options {
        *spec.field(name).unwrap() = Some((*value).to_owned());
    }
    let path = spec.check().unwrap();
    // Bound until the relay has its own port, which would otherwise sometimes be the same.
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bound = Relay::bind(
        "127.0.0.1:0".parse().unwrap(),
        server.local_addr().unwrap(),
        RelaySpec { down: path.down, up: path.up, events: Vec::new(), seed: 1 },
    );
    bound.unwrap().controlled(&spec, mpsc::channel().1)
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the arrival, in milliseconds, of a datagram of 972 bytes that comes in at `ms`; `None`
/// if it is dropped.
fn arrives(line: &mut Line, ms: u64) -> Option<u64> {
    let incoming = Incoming { number: 0, payload: 972, flow: 0, ecn: None };
    let copies = line.arrive(Time::from_millis(ms), incoming).unwrap();
    copies[0].map(|copy| copy.at.as_nanos() / 1_000_000)
}

fn done(relay: &mut Relay, command: &str, ms: u64) {
    let answer = relay.command(command, at(ms));
    assert!(matches!(answer, Ok(Reply::Done)), "{command}: {answer:?}");
}

#[test]
fn relay_commands_apply_to_later_datagrams() {
    let mut relay = relay(&[("rate", "8Mbps"), ("rtt", "20ms")]);
    assert_eq!(arrives(&mut relay.down, 0), Some(11));
    done(&mut relay, "rate 4Mbps", 100);
    assert_eq!(
        (arrives(&mut relay.down, 100), arrives(&mut relay.up, 100)),
        (Some(112), Some(112))
    );
    done(&mut relay, "  up-rate   1Mbps ", 200);
    assert_eq!(
        (arrives(&mut relay.down, 200), arrives(&mut relay.up, 200)),
        (Some(212), Some(218))
    );
    // The direction to the server has its own rate now.
    done(&mut relay, "rate 8Mbps", 300);
    assert_eq!(
        (arrives(&mut relay.down, 300), arrives(&mut relay.up, 300)),
        (Some(311), Some(318))
    );
    done(&mut relay, "rtt 80ms", 400);
    assert_eq!(
        (arrives(&mut relay.down, 400), arrives(&mut relay.up, 400)),
        (Some(441), Some(448))
    );
    done(&mut relay, "blackout 1s", 500);
    assert_eq!(
        [600, 1_499, 1_500].map(|ms| arrives(&mut relay.down, ms)),
        [None, None, Some(1_541)]
    );
    done(&mut relay, "hold 200ms", 1_600);
    assert_eq!(
        [1_600, 1_759, 1_800].map(|ms| arrives(&mut relay.up, ms)),
        [Some(1_800), Some(1_807), Some(1_848)]
    );
    done(&mut relay, "mtu 900", 2_000);
    assert_eq!(arrives(&mut relay.down, 2_000), None);
    done(&mut relay, "mtu 9000", 2_100);
    assert_eq!(arrives(&mut relay.down, 2_100), Some(2_141));
    done(&mut relay, "loss 100%", 3_000);
    assert_eq!((arrives(&mut relay.down, 3_000), arrives(&mut relay.up, 3_000)), (None, None));
    done(&mut relay, "loss none", 3_100);
    assert_eq!(arrives(&mut relay.down, 3_100), Some(3_141));
    for command in [
        "jitter 5ms,reorder",
        "reorder 5%,distance=3",
        "duplicate 1%",
        "corrupt 1%",
        "policer 1Mbps,burst=9kB",
        "ecn ce",
    ] {
        done(&mut relay, command, 4_000);
        done(&mut relay, &format!("up-{} none", command.split(' ').next().unwrap()), 4_000);
    }
    let mut spec = Impairments::default();
    relay.down.impairer.change(|now, _| spec = now.clone());
    let Impairments { jitter, reorder, duplicate, corrupt, policer, ecn, .. } = spec;
    let said = (jitter.to_string(), reorder.part, duplicate, corrupt, policer.is_some(), ecn);
    assert_eq!(said, ("5ms,reorder".into(), 0.05, 0.01, 0.01, true, crate::path::EcnField::Ce));
    relay
        .up
        .impairer
        .change(|now, _| assert!(Impairments { events: Vec::new(), ..now.clone() }.is_none()));
}

#[test]
fn new_rate_moves_datagrams_already_in_transit() {
    let mut relay = relay(&[("rate", "8Mbps"), ("rtt", "20ms")]);
    let client = (0, "127.0.0.1:9".parse().unwrap());
    for number in 0..3 {
        let passage = Passage { towards: Towards::Client, client, ecn: None, at: at(0) };
        let incoming = Incoming { number, payload: 972, flow: 0, ecn: None };
        let copies = relay.down.arrive(Time::ZERO, incoming).unwrap();
        relay.go_on(passage, copies, &[0; 972]);
    }
    let arrivals = |relay: &Relay| {
        let mut at: Vec<u64> =
            relay.waiting.iter().map(|waiting| waiting.0.at.as_nanos() / 1_000).collect();
        at.sort_unstable();
        at
    };
    assert_eq!(arrivals(&relay), [11_000, 12_000, 13_000]);
    relay.command("rate 800kbps", Duration::from_micros(1_500)).unwrap();
    // The first datagram has left the link; half of the second is sent.
    assert_eq!(arrivals(&relay), [11_000, 16_500, 26_500]);
    relay.command("rate 8Mbps", Duration::from_micros(6_500)).unwrap();
    assert_eq!(arrivals(&relay), [11_000, 16_500, 17_500]);
    assert_eq!(arrives(&mut relay.down, 7), Some(18), "in order, behind them");
}

#[test]
fn invalid_relay_commands_are_refused_with_a_hint() {
    let mut relay = relay(&[("rate", "8Mbps"), ("rtt", "20ms")]);
    for (command, says) in [
        ("", "'' is not a command; write rate 5Mbps"),
        ("flood 5", "'flood' is not a command"),
        ("up-rtt 5ms", "'up-rtt' is not a command"),
        ("up-blackout 5ms", "is not a command"),
        ("rate", "rate: the command needs a value; write a command such as rate 5Mbps"),
        ("rate none", "the command needs a value"),
        ("rate 5", "rate: "),
        ("up-loss two", "up-loss: "),
        ("loss 101%", "loss: "),
        ("rtt 20ms..80ms", "rtt: the relay gives all clients the same RTT"),
        ("blackout", "write a command such as blackout 3s"),
        ("blackout 0s", "blackout: "),
        ("hold 9000h", "hold: "),
        ("mtu", "write a command such as mtu 1250"),
        ("mtu 12", "500 to 9000"),
        ("mtu 1250@9s every 3s", "500 to 9000"),
        ("status now", "the command takes no value"),
        ("rebind 5s", "rebind: the command takes no value"),
        ("queue fq-codel", "cannot be changed while the link runs"),
        ("up-trace model:lte", "cannot be changed while the link runs"),
        ("preset lte", "cannot be changed while the link runs"),
        ("\u{1b}[2J 5", "is not a command"),
        (&"x".repeat(4_000), "is not a command"),
    ] {
        let error = relay.command(command, at(5)).unwrap_err().to_string();
        assert!(
            error.contains(says) && !error.contains(['\n', '\u{1b}']) && error.len() < 800,
            "{command}: {error}"
        );
    }
    assert!(matches!(relay.command("status", at(5)), Ok(Reply::Status(_))));
    assert!(matches!(relay.command("help", at(5)), Ok(Reply::Help)));
    // None of the refused commands had an effect.
    assert_eq!((arrives(&mut relay.down, 10), arrives(&mut relay.up, 10)), (Some(21), Some(21)));
}

#[test]
fn relay_link_without_a_rate_refuses_a_rate_command() {
    assert!(
        relay(&[("rtt", "20ms")])
            .command("rate 5Mbps", at(0))
            .unwrap_err()
            .to_string()
            .contains("started without a rate")
    );
    let mut traced = relay(&[("trace", "model:lte"), ("up-rate", "8Mbps")]);
    assert!(
        traced.command("rate 5Mbps", at(0)).unwrap_err().to_string().contains("follows a trace")
    );
    done(&mut traced, "up-rate 4Mbps", 0);
}

#[test]
fn events_created_by_relay_commands_are_bounded() {
    let mut relay = relay(&[]);
    for second in 0..1_000 {
        done(&mut relay, "blackout 500ms", 1_000 * second);
        done(&mut relay, "mtu 1300", 1_000 * second);
    }
    assert!(relay.down.impairer.events() < 5);
    let refused = (0..100).find_map(|_| relay.command("hold 60min", at(2_000_000)).err());
    assert_eq!(refused, Some(CommandError::TooMany(MOST_EVENTS)));
}

proptest::proptest! {
    #[test]
    fn relay_commands_never_panic(line in "\\PC{0,80}", name in 0usize..12, value in "[0-9a-z.%,=:@ -]{0,20}", ms in 0u64..10_000) {
        let names = ["rate", "up-rate", "rtt", "delay", "loss", "jitter", "reorder", "policer", "ecn", "blackout", "hold", "mtu"];
        let mut relay = relay(&[("rate", "8Mbps"), ("rtt", "20ms")]);
        let _ = relay.command(&line, at(ms));
        let _ = relay.command(&format!("{} {value}", names[name]), at(ms));
        arrives(&mut relay.down, ms + 1);
    }
}
