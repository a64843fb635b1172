//! Queue disciplines. Users write a queue as text, such as `red:min=5p,max=50p`.
//!
//! To add a queue, add a file to this folder and a line to the list below. Every option that takes
//! a queue, every error that lists queues, the relay and, if tc has an equivalent, the netem
//! backend then know the new queue.
//!
//! | file | contents |
//! |---|---|
//! | `discipline.rs` | FIFO queues ([`Queue`]), any queue ([`AnyQueue`]), its kind ([`Discipline`]) |
//! | `scheduler.rs` | queues that choose which packet goes next ([`Scheduler`]) |
//! | `options.rs` | parser of `name=value,...` |
//! | `automatic_red.rs` | RED with automatic parameters, shared by two kinds |
//! | `tc.rs` | queues as tc qdiscs |
//! | all others | one kind of queue each |

mod automatic_red;
mod discipline;
pub(crate) mod options;
mod scheduler;
#[cfg(test)]
mod scheduler_tests;
mod tc;
#[cfg(test)]
mod testing;

use std::fmt;
use std::str::FromStr;

use fathom_units::{Invalid, Rate};

pub use automatic_red::AutomaticRed;
pub use discipline::{Admission, AnyQueue, Arrival, Discipline, Kind, Queue};
pub use drop_tail::DropTail;
pub use red::{Marking, Red};
pub use scheduler::{Queued, Scheduler};
pub use tc::Qdisc;

/// Declares the kinds of queues from their files: the modules, [`QueueSpec`], and the list of
/// kinds.
macro_rules! queues {
    ($($(#[$about:meta])* $variant:ident = $file:ident::$spec:ident,)+) => {
        $(pub mod $file;)+

        /// A queue as users write it: `droptail:136p`, `droptail:190kB`, `red:min=5p,max=50p`,
        /// `adaptive-red:target=5ms`, `gentle-ared`, `avq`, `codel`, `fq-codel`, `pie`, `cobalt`,
        /// `dualpi2`. `ared` and `gared` are short for `adaptive-red` and `gentle-ared`.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum QueueSpec {
            $($(#[$about])* $variant($file::$spec),)+
        }

        /// Every kind of queue.
        pub const KINDS: &[Kind] = &[$($file::$spec::KIND),+];

        impl FromStr for QueueSpec {
            type Err = Invalid;

            fn from_str(s: &str) -> Result<Self, Invalid> {
                let (name, options) = s.split_at(s.find(':').unwrap_or(s.len()));
                $(if $file::$spec::KIND.is_called(name) {
                    return $file::$spec::read(options).map(Self::$variant);
                })+
                Err(no_queue(s))
            }
        }

        impl QueueSpec {
            /// Returns an empty queue for a link of this rate. `seed` is the seed of the queue's
            /// random drops and marks.
            pub fn build(&self, rate: Rate, seed: u64) -> AnyQueue {
                match self {
                    $(Self::$variant(spec) => spec.build(rate, seed),)+
                }
            }

            /// Returns the limit in bytes; `None` if the limit is in packets.
            pub fn byte_limit(&self) -> Option<u64> {
                match self {
                    $(Self::$variant(spec) => spec.byte_limit(),)+
                }
            }

            /// Returns the limit in packets for a link of this rate; `None` if the limit is in
            /// bytes.
            pub fn packet_limit(&self, rate: Rate) -> Option<usize> {
                match self {
                    $(Self::$variant(spec) => spec.packet_limit(rate),)+
                }
            }

            /// Returns the equivalent tc qdisc; `None` if tc has none.
            pub fn qdisc(&self, rate: Rate) -> Option<Qdisc> {
                match self {
                    $(Self::$variant(spec) => spec.qdisc(rate),)+
                }
            }
        }

        impl fmt::Display for QueueSpec {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant(spec) => spec.fmt(f),)+
                }
            }
        }
    };
}

queues! {
    /// Drop-tail.
    DropTail = drop_tail::DropTail,
    /// Random Early Detection.
    Red = red::RedSpec,
    /// Adaptive RED.
    AdaptiveRed = adaptive_red::AdaptiveRedSpec,
    /// gARED.
    GentleAred = gentle_ared::GentleAredSpec,
    /// Adaptive Virtual Queue.
    Avq = avq::AvqSpec,
    /// Controlled Delay.
    Codel = codel::CodelSpec,
    /// Controlled Delay with fair queueing between flows.
    FqCodel = fq_codel::FqCodelSpec,
    /// Proportional Integral controller Enhanced.
    Pie = pie::PieSpec,
    /// Controlled Delay with BLUE.
    Cobalt = cobalt::CobaltSpec,
    /// DualPI2: coupled queues for scalable and classic congestion control.
    DualPi2 = dual_pi2::DualPi2Spec,
}

impl QueueSpec {
    /// Returns drop-tail with a limit in packets.
    pub const fn droptail_packets(limit: usize) -> Self {
        Self::DropTail(DropTail::packets(limit))
    }
}

/// Returns the names of the kinds for which `choose` returns true, comma-separated.
pub fn names(choose: impl Fn(&Kind) -> bool) -> String {
    KINDS.iter().filter(|kind| choose(kind)).map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}

fn no_queue(s: &str) -> Invalid {
    let with_options = names(|kind| kind.name != DropTail::KIND.name);
    Invalid::value(s, "is not a queue").hint(format!(
        "write {}, or one of {with_options}, each with options such as red:min=5p,max=50p",
        DropTail::KIND.example
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &[&str] = &[
        "droptail:136p",
        "droptail:190000B",
        "red:min=5p,max=50p,limit=100p,w=0.002,maxp=0.1,gentle=on,ecn=on",
        "red:min=5p,max=50p,limit=100p,w=0.002,maxp=0.1,gentle=on,ecn=on,wait=on,mark=p",
        "adaptive-red:target=5ms,packet=1420B,maxp=0.1,ecn=on,wait=on,mark=avg",
        "adaptive-red:target=2.5ms,packet=500B,min=6.25p,max=20p,w=0.001,limit=340p,maxp=0.02,ecn=off,wait=off,mark=p,slope=initial,pass=2p",
        "gentle-ared:target=5ms,packet=1500B,min=2500p,maxp=0.001,ecn=on,wait=on,mark=avg",
        "avq:a=0.12,g=0.98,buffer=142000B,limit=100p,ecn=on",
        "codel:target=5ms,interval=100ms,limit=1000p,ecn=on",
        "fq-codel:flows=1024,target=5ms,interval=100ms,limit=10240p,quantum=1514B,ecn=on",
        "pie:target=15ms,tupdate=15ms,limit=1000p,alpha=0.125,beta=1.25,ecn=on",
        "dualpi2:target=15ms,rtt=100ms,k=2,min=800us,range=400us,classic=0.1,limit=10000p,ecn=on",
        "cobalt:target=5ms,interval=100ms,limit=1000p,ecn=on",
    ];

    #[test]
    fn queue_options_round_trip_through_text() {
        for text in WRITTEN {
            assert_eq!(text.parse::<QueueSpec>().unwrap().to_string(), *text);
        }
        for (short, text) in [
            ("droptail:190kB", WRITTEN[1]),
            ("red", WRITTEN[2]),
            ("red:wait=off,mark=avg", WRITTEN[2]),
            ("adaptive-red", WRITTEN[4]),
            ("ared", WRITTEN[4]),
            ("gared:packet=1500B,min=2500p,maxp=0.001", WRITTEN[6]),
            ("avq:buffer=142kB", WRITTEN[7]),
            ("codel", WRITTEN[8]),
            ("fq-codel", WRITTEN[9]),
            ("fq_codel:ecn=on", WRITTEN[9]),
            ("pie", WRITTEN[10]),
            ("dualpi2", WRITTEN[11]),
            ("cobalt", WRITTEN[12]),
        ] {
            assert_eq!(short.parse::<QueueSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn packet_limits_are_computed_for_every_queue() {
        let rate = Rate::from_bits_per_sec(10_000_000);
        let limits = [136, 0, 100, 100, 441, 340, 15_000, 100, 1_000, 10_240, 1_000, 10_000, 1_000];
        let limits = limits.map(|limit| (limit > 0).then_some(limit));
        assert_eq!(limits.len(), WRITTEN.len());
        for (text, limit) in WRITTEN.iter().zip(limits) {
            assert_eq!(text.parse::<QueueSpec>().unwrap().packet_limit(rate), limit, "{text}");
        }
    }

    #[test]
    fn invalid_queue_errors_suggest_a_fix() {
        for text in [
            "droptail",
            "droptail:",
            "droptail:0p",
            "droptail:136",
            "blue:5p",
            "redx",
            "droptail:99999999999999999999p",
        ] {
            let error = text.parse::<QueueSpec>().unwrap_err().to_string();
            assert!(error.contains("droptail:") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn invalid_adaptive_red_option_errors_suggest_a_fix() {
        for kind in ["adaptive-red", "gentle-ared"] {
            for options in [
                ":target=0ms",
                ":target=5",
                ":packet=10B",
                ":packet=5p",
                ":min=15p,max=5p",
                ":min=0p",
                ":min=NaNp",
                ":w=0",
                ":w=2",
                ":limit=1p",
                ":limit=5",
                ":maxp=0.6",
                ":maxp=0",
                ":wait=maybe",
                ":mark=max",
                ":gentle=off",
                ":",
                ":ecn=on,ecn=on",
            ] {
                let error =
                    format!("{kind}{options}").parse::<QueueSpec>().unwrap_err().to_string();
                assert!(
                    error.contains("any of the options target=5ms") && !error.contains('\n'),
                    "{error}"
                );
            }
        }
        // Only gARED may start with a maxp below 0.01.
        assert!(
            "ared:maxp=0.001".parse::<QueueSpec>().unwrap_err().to_string().contains("0.01 to 0.5")
        );
    }

    #[test]
    fn queues_with_a_kernel_module_have_a_qdisc() {
        let rate = Rate::from_bits_per_sec(10_000_000);
        for text in WRITTEN {
            let kind =
                KINDS.iter().find(|kind| text.starts_with(&format!("{}:", kind.name))).unwrap();
            assert_eq!(
                text.parse::<QueueSpec>().unwrap().qdisc(rate).is_some(),
                kind.module.is_some(),
                "{text}"
            );
        }
        assert!(
            KINDS.iter().all(|kind| WRITTEN.iter().any(|text| text.starts_with(kind.name))),
            "each is written above"
        );
    }
}
