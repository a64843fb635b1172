//! What changes in each stack's own server example.

/// A stack's own server example, and what changes in it.
#[derive(Clone, Copy)]
pub(crate) struct Adoption {
    /// The stack's crate.
    pub stack: &'static str,
    /// Lines that stand there once, and what takes their place.
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
    /// The changed source, and how many lines were taken out or came in: a line that changed counts once.
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
