//! Workloads: the requests of the clients of a group. Users write a workload as text, such as
//! `web:90% of 10Mbps`.
//!
//! To add a workload, add a file to this folder and a line to the list below. The options that take
//! a workload, the errors that list workloads, scenarios, estimates, reports and the ranking then
//! know the new workload.
//!
//! | file | contents |
//! |---|---|
//! | `model.rs` | the trait of a workload ([`Model`]), and the types that its methods return |
//! | `request.rs` | the tasks of clients, and sequences of tasks |
//! | `syntax.rs` | syntax that several workloads share: sizes, periods, transfers, options |
//! | all others | one workload each |

mod model;
mod request;
mod syntax;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fathom_cc::{Invalid, Rate};

pub(crate) use model::{Model, OwnFields};
pub(super) use request::largest;
pub(crate) use request::{Browsing, Request, Requests, Source, note};
pub(crate) use syntax::split_options;

use super::{Resume, Resumption};
use crate::stack::Stack;

/// Declares the workloads from their files: the modules, [`Workload`], and its parser.
macro_rules! workloads {
    ($($(#[$about:meta])* $variant:ident = $file:ident,)+) => {
        $(mod $file;)+
        $(pub use $file::$variant;)+

        /// Requests of the clients of a group.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Workload {
            $($(#[$about])* $variant($variant),)+
        }

        impl Workload {
            /// Returns the workload's own file.
            pub(crate) fn model(&self) -> &dyn Model {
                match self {
                    $(Self::$variant(model) => model,)+
                }
            }

            pub(crate) fn model_mut(&mut self) -> &mut dyn Model {
                match self {
                    $(Self::$variant(model) => model,)+
                }
            }

            /// Parses a workload without options.
            fn read(whole: &str) -> Result<Self, Invalid> {
                let (name, rest) = whole.split_once(':').unwrap_or((whole, ""));
                $(if let Some(form) = $file::FORMS.iter().find(|form| form.name == name) {
                    return (form.read)(whole, rest).map(Self::$variant);
                })+
                let examples: Vec<&str> =
                    [$($file::FORMS.iter().map(|form| form.examples).collect::<Vec<_>>()),+]
                        .concat()
                        .concat();
                Err(not_a_workload(whole, &examples))
            }
        }
    };
}

workloads! {
    /// Web traffic (PackMime).
    Web = web,
    /// Downloads, either of a fixed size or longer than the run.
    Bulk = bulk,
    /// Web pages, as browsers load them.
    Pages = pages,
    /// Uploads, each on a connection of its own.
    Uploads = uploads,
    /// Live media: streams of frames with a deadline.
    Media = media,
}

/// Part of a run in which requests are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Start of the period.
    pub from: Duration,
    /// End of the period; `None` for the end of the run.
    pub until: Option<Duration>,
}

impl Period {
    /// Returns the period of a run whose times are multiplied by `scale`.
    fn scaled(self, scale: f64) -> Self {
        Self { from: self.from.mul_f64(scale), until: self.until.map(|until| until.mul_f64(scale)) }
    }
}

/// Formats the period for the explanation of a study.
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.from.is_zero() {
            write!(f, ", from {:?} on", self.from)?;
        }
        self.until.map_or(Ok(()), |until| write!(f, ", up to {until:?}"))
    }
}

/// Amount of web traffic or of pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WebLoad {
    /// Number of connections that offers this fraction of a link's rate. The number is computed
    /// from two costs on a network without queues: bytes on the wire per connection, and bytes on
    /// the wire per byte of a body.
    Computed {
        /// Fraction of `of` that the group's packets fill on average, including both directions,
        /// headers and acknowledgements.
        part: f64,
        /// Rate that `part` refers to.
        of: Rate,
    },
    /// New connections per second; for pages, page views per second.
    Connections(f64),
}

impl WebLoad {
    /// Returns the load in bits per second, if a connection or page view has this many bytes.
    fn bits_per_second(self, bytes: f64) -> f64 {
        match self {
            Self::Computed { part, of } => part * of.bits_per_sec() as f64,
            Self::Connections(rate) => rate * bytes * 8.0,
        }
    }

    /// Returns the load in words. `counted` names the arriving items, such as connections.
    fn words(self, counted: &str) -> String {
        match self {
            Self::Computed { part, of } => format!("{}% of {of}", part * 100.0),
            Self::Connections(rate) => format!("{rate} {counted}/s"),
        }
    }
}

impl Workload {
    /// Returns the number of flows, if the workload fixes it.
    pub fn flows(&self) -> Option<u32> {
        self.model().flows()
    }

    /// Returns the maximum number of responses, if the workload fixes it.
    pub fn requests(&self) -> Option<u64> {
        self.model().requests()
    }

    /// Returns whether the number of requests is computed from a fraction of a link's rate.
    pub fn has_computed_load(&self) -> bool {
        matches!(self.model().load(), Some(WebLoad::Computed { .. }))
    }

    /// Returns how the connections resume TLS sessions.
    pub fn resumption(&self) -> Resumption {
        self.model().resumption()
    }

    /// Returns whether bodies travel from clients to servers.
    pub fn goes_up(&self) -> bool {
        self.model().goes_up()
    }

    /// Returns whether responses complete while the run goes on.
    pub fn ends(&self) -> bool {
        self.model().ends()
    }

    /// Checks whether this stack can run the workload.
    ///
    /// # Errors
    /// Returns an error that says what to write instead if the stack cannot run the workload.
    pub(crate) fn check_stack(&self, stack: Stack) -> Result<(), Invalid> {
        if stack == Stack::Tcp && !self.model().runs_on_tcp() {
            return Err(Invalid::because(
                "TCP in the laboratory has one request at a time and no uploads",
            )
            .hint("use a QUIC stack"));
        }
        let resume = self.resumption().resume;
        if resume != Resume::None && !stack.on_rustls() {
            return Err(Invalid::because(format!(
                "{stack} cannot resume sessions in the laboratory"
            ))
            .hint("use quinn or noq")
            .in_field(format!("resume={resume}")));
        }
        self.model().check_stack(stack)
    }
}

impl FromStr for Workload {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let (words, options) = split_options(s);
        let mut workload = Self::read(words)?;
        for option in options {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            workload.model_mut().set(name, value).map_err(in_text(s))?;
        }
        match workload.resumption() {
            Resumption { resume: Resume::None, tickets }
                if tickets != Resumption::default().tickets =>
            {
                Err(in_text(s)(
                    Invalid::because("tickets have no effect unless sessions are resumed")
                        .hint("add resume=1rtt or resume=0rtt")
                        .in_field("tickets"),
                ))
            }
            _ => Ok(workload),
        }
    }
}

/// Returns a function that adds the workload `text` to an error.
fn in_text(text: &str) -> impl Fn(Invalid) -> Invalid {
    |error| error.in_field(text.escape_debug().to_string())
}

/// Returns the error of a text that is not a workload.
fn not_a_workload(text: &str, examples: &[&str]) -> Invalid {
    let (last, others) = examples.split_last().unwrap_or((&"", &[]));
    let examples = match others {
        [] => (*last).to_owned(),
        others => format!("{} or {last}", others.join(", ")),
    };
    Invalid::value(text, "is not a workload").hint(format!("write {examples}"))
}
