//! Changes to each stack's own server example.

/// A stack's own server example, and the changes to it.
#[derive(Clone, Copy)]
pub(crate) struct Adoption {
    /// Name of the stack's crate.
    pub stack: &'static str,
    /// Lines that occur exactly once in the example, and their replacements.
    pub changes: &'static [(&'static str, &'static str)],
}

pub(crate) const QUINN: Adoption = Adoption {
    stack: "quinn",
    changes: &[
        ("use proto::crypto::rustls::QuicServerConfig;\n", ""),
        (
            "        quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server_crypto)?));\n",
            "        fathom_quinn::Plugin::named(\"sync:signal=either\")?.server(Arc::new(server_crypto))?.config();\n",
        ),
    ],
};

pub(crate) const NOQ: Adoption = Adoption {
    stack: "noq",
    changes: &[
        ("use proto::crypto::rustls::QuicServerConfig;\n", ""),
        (
            "        noq::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server_crypto)?));\n",
            "        fathom_noq::Plugin::named(\"sync:signal=either\")?.server(Arc::new(server_crypto))?.config();\n",
        ),
    ],
};

impl Adoption {
    /// Returns the changed source, and the number of lines removed or added. A changed line counts
    /// once.
    pub(crate) fn apply(&self, source: &str) -> (String, usize) {
        let (mut changed, mut lines) = (source.to_owned(), 0);
        for (old, new) in self.changes {
            assert_eq!(
                changed.matches(old).count(),
                1,
                "{}'s example has not once: {old}",
                self.stack
            );
            changed = changed.replacen(old, new, 1);
            lines += old.lines().count().max(new.lines().count());
        }
        (changed, lines)
    }
}
