// Number of probes per probe timeout (RFC 9002 §6.2.4). `stacks.py` copies this file into the sources of quinn-proto,
// noq-proto and quiche; no released crate contains it.
//
// The environment variable `PROBES` names a rule:
// - `stock`: as the stack ships;
// - `1` or `2`: one or two packets at each timeout;
// - `padding`: one packet, and a datagram of 1200 bytes that carries nothing (quinn only);
// - `servers`: servers send one packet, clients as the stack ships (quinn and noq only);
// - `N%`: N percent of the ends of connections send one packet, all other ends as the stack ships.
use std::sync::OnceLock;

#[derive(Clone, Copy)]
enum Rule {
    Stock,
    Always(u32),
    Padding,
    Servers,
    Share(u64),
}

fn rule() -> Rule {
    static RULE: OnceLock<Rule> = OnceLock::new();
    *RULE.get_or_init(|| {
        let name = std::env::var("PROBES").expect("PROBES names a rule");
        match name.as_str() {
            "stock" => Rule::Stock,
            "1" => Rule::Always(1),
            "2" => Rule::Always(2),
            "padding" => Rule::Padding,
            "servers" => Rule::Servers,
            share => match share.strip_suffix('%').and_then(|number| number.parse().ok()) {
                Some(percent) if percent <= 100 => Rule::Share(percent),
                _ => panic!("PROBES={name} is not a rule"),
            },
        }
    })
}

// Returns the number of packets to send at a timeout. `stock` is the stack's own number; `id` is random and stays the same
// for this end of the connection.
pub(crate) fn count(stock: u32, client: bool, id: &[u8]) -> u32 {
    match rule() {
        Rule::Stock => stock,
        Rule::Always(count) => count,
        Rule::Padding => 1,
        Rule::Servers => if client { stock } else { 1 },
        // FNV-1a, so that the share does not depend on which bytes of the identifier are random.
        Rule::Share(percent) => {
            let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            let hash = id.iter().fold(0xcbf2_9ce4_8422_2325, mix);
            if (hash >> 32) % 100 < percent { 1 } else { stock }
        }
    }
}

// Whether each timeout also sends a datagram of padding.
#[allow(dead_code)]
pub(crate) fn padding() -> bool {
    matches!(rule(), Rule::Padding)
}
