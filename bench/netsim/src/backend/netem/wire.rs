//! One link: a sender's namespace, a router's namespace with the queue, and a receiver's namespace.
//!
//! ```text
//! sender 10.0.0.1 --- 10.0.0.2 router 10.0.1.1 --[delay, queue, rate]-- 10.0.1.2 receiver
//! ```
//!
//! The queue is in the router. Waiting packets have thus left the sender's socket buffer, which
//! would otherwise limit the queue.

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
/// MTU in bytes of the interfaces outside the link. It is larger than any packet of the lab.
const MTU: u32 = 9_216;
/// Number of sender ports on a link whose queue schedules. Such a queue distinguishes flows by
/// port.
pub(super) const PORTS: usize = 64;
/// Number of test datagrams sent over a new link, and time to wait for each of them.
const TRIES: u32 = 5;
const TRY: Duration = Duration::from_millis(400);

/// A link emulated by the kernel.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Socket through which packets enter.
    pub(crate) from: Udp,
    /// Additional sockets through which packets enter, for a queue that distinguishes flows.
    pub(crate) others: Vec<Udp>,
    /// Socket through which packets leave.
    pub(crate) to: Udp,
    /// Namespaces of sender, router and receiver.
    pub(crate) keep: [Namespace; 3],
}

impl Wire {
    /// Builds the link and checks that it carries a datagram.
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

/// Checks that a datagram arrives. On its way, the neighbours' addresses are resolved.
fn carries(from: &UdpSocket, to: &UdpSocket) -> Result<(), NetemError> {
    to.set_read_timeout(Some(TRY))?;
    for _ in 0..TRIES {
        from.send(b"fathom")?;
        if to.recv(&mut [0; 16]).is_ok() {
            // A late test datagram must not be mistaken for a datagram of the experiment.
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

/// Makes the namespace a router. Turns off IPv6, because IPv6's own traffic would disturb the link.
fn forward() -> Result<(), NetemError> {
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").map_err(NetemError::Namespace)?;
    for which in ["all", "default"] {
        // A kernel without IPv6 needs no such setting.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
    }
    Ok(())
}

fn ip(commands: &[&str]) -> Result<(), NetemError> {
    commands.iter().try_for_each(|words| {
        tool("ip", words, "check whether the kernel supports veth interfaces")
    })
}

fn tc(words: &str) -> Result<(), NetemError> {
    tool("tc", words, "this kernel lacks the queue; use --kernel uml, whose kernel has it")
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
