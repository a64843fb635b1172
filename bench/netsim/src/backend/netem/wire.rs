//! One link: a sender's namespace, a router's with the queue, a receiver's.
//!
//! ```text
//! sender 10.0.0.1 --- 10.0.0.2 router 10.0.1.1 --[delay, queue, rate]-- 10.0.1.2 receiver
//! ```
//!
//! The queue is the router's: packets that wait there are no longer in their sender's socket buffer, which would limit it.

use std::net::UdpSocket;
use std::process::{Command, Output};
use std::time::Duration;

use fathom_units::Rate;

use super::error::NetemError;
use super::namespace::Namespace;
use super::qdisc::{mtu, qdiscs};
use crate::queue::QueueSpec;
use crate::udp::Udp;

const SENDER: &str = "10.0.0.1";
const RECEIVER: &str = "10.0.1.2";
/// MTU of what is not the link: larger than any packet of the lab.
const MTU: u32 = 9_216;
/// Ports of the sender on a link whose queue schedules, which tells flows apart by them.
pub(super) const PORTS: usize = 64;
/// How often and how long a first datagram is waited for.
const TRIES: u32 = 5;
const TRY: Duration = Duration::from_millis(400);

/// A link of the kernel's.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Where packets enter.
    pub(crate) from: Udp,
    /// More such places, for a queue that tells flows apart.
    pub(crate) others: Vec<Udp>,
    /// Where they leave.
    pub(crate) to: Udp,
    /// The namespaces.
    pub(crate) keep: [Namespace; 3],
}

impl Wire {
    /// Builds the link and sees that it carries a datagram.
    pub(crate) fn new(rate: Rate, queue: &QueueSpec, delay: Duration) -> Result<Self, NetemError> {
        let (qdiscs, out_mtu) = (qdiscs(rate, queue, delay)?, mtu(queue));
        let ports = if matches!(queue, QueueSpec::FqCodel(_)) { PORTS } else { 1 };
        let new = || Namespace::new().map_err(NetemError::Namespace);
        let (sender, router, receiver) = (new()?, new()?, new()?);
        inside(&router, || {
            forward()?;
            ip(&[&format!(
                "link add in0 mtu {MTU} type veth peer name eth0 mtu {MTU} netns {}",
                sender.path()
            )])?;
            ip(&[&format!(
                "link add out0 mtu {out_mtu} type veth peer name eth0 mtu {MTU} netns {}",
                receiver.path()
            )])?;
            ip(&[
                "addr add 10.0.0.2/30 dev in0",
                "addr add 10.0.1.1/30 dev out0",
                "link set in0 up",
                "link set out0 up",
            ])
        })?;
        let end = |address: &str, gateway: &str| {
            ip(&[
                &format!("addr add {address}/30 dev eth0"),
                "link set eth0 up",
                &format!("route add default via {gateway}"),
            ])
        };
        inside(&sender, || end(SENDER, "10.0.0.2"))?;
        inside(&receiver, || end(RECEIVER, "10.0.1.1"))?;
        inside(&router, || {
            qdiscs.iter().try_for_each(|words| tc(&format!("qdisc add dev out0 {words}")))
        })?;
        let from = sender.enter(|| UdpSocket::bind((SENDER, 0)))??;
        let to = receiver.enter(|| UdpSocket::bind((RECEIVER, 0)))??;
        from.connect(to.local_addr()?)?;
        let others =
            (1..ports).map(|_| sender.enter(|| UdpSocket::bind((SENDER, 0)))?.and_then(Udp::new));
        let others = others.collect::<std::io::Result<Vec<Udp>>>()?;
        carries(&from, &to)?;
        if others.is_empty() {
            to.connect(from.local_addr()?)?;
        }
        Ok(Self {
            from: Udp::new(from)?,
            others,
            to: Udp::new(to)?,
            keep: [sender, router, receiver],
        })
    }
}

/// Sees that a datagram comes through; neighbours find each other on the way.
fn carries(from: &UdpSocket, to: &UdpSocket) -> Result<(), NetemError> {
    to.set_read_timeout(Some(TRY))?;
    for _ in 0..TRIES {
        from.send(b"fathom")?;
        if to.recv(&mut [0; 16]).is_ok() {
            // One that came late must not be taken for the experiment's.
            to.set_read_timeout(Some(Duration::from_millis(50)))?;
            while to.recv(&mut [0; 16]).is_ok() {}
            return Ok(());
        }
    }
    Err(NetemError::Silent)
}

fn inside(
    namespace: &Namespace,
    work: impl FnOnce() -> Result<(), NetemError> + Send,
) -> Result<(), NetemError> {
    namespace.enter(work).map_err(NetemError::Namespace)?
}

/// Makes the namespace a router, and spares it the chatter of IPv6.
fn forward() -> Result<(), NetemError> {
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").map_err(NetemError::Namespace)?;
    for which in ["all", "default"] {
        // A kernel without IPv6 has nothing to switch off.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
    }
    Ok(())
}

fn ip(commands: &[&str]) -> Result<(), NetemError> {
    commands
        .iter()
        .try_for_each(|words| tool("ip", words, "see whether the kernel has veth interfaces"))
}

fn tc(words: &str) -> Result<(), NetemError> {
    tool("tc", words, "this kernel lacks the queue; use --kernel uml, which brings one that has it")
}

fn tool(tool: &'static str, words: &str, hint: &'static str) -> Result<(), NetemError> {
    let failed = |why: String, hint| NetemError::Tool { tool, what: words.to_owned(), why, hint };
    let Output { status, stderr, .. } = Command::new(tool)
        .args(words.split(' '))
        .output()
        .map_err(|e| failed(e.to_string(), "install iproute2: apt-get install iproute2"))?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&stderr);
    let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(failed(first.trim().to_owned(), hint))
}
