//! Named paths.

use fathom_units::Invalid;

/// A named path: `--path NAME`.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name of the path.
    pub name: &'static str,
    /// Type of access that the path represents, in one line.
    pub about: &'static str,
    /// Options of the path, as a user would write them.
    pub options: &'static [(&'static str, &'static str)],
    /// Source of the numbers.
    pub source: &'static str,
}

/// All presets. If the source is "ours", the numbers are round values of common products, and users
/// should replace them by their own.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "dsl",
        about: "VDSL at home",
        options: &[
            ("rate", "50Mbps"),
            ("up-rate", "10Mbps"),
            ("rtt", "25ms"),
            ("queue", "droptail:300p"),
            ("up-queue", "droptail:150p"),
        ],
        source: "our choices: round numbers of a common product; the queues hold 70 and 175 ms",
    },
    Preset {
        name: "cable",
        about: "DOCSIS at home",
        options: &[
            ("rate", "200Mbps"),
            ("up-rate", "20Mbps"),
            ("rtt", "20ms"),
            ("queue", "droptail:500p"),
            ("up-queue", "pie:target=15ms"),
        ],
        source: "PIE at the modem: RFC 8034; rates and RTT: our choices",
    },
    Preset {
        name: "fibre",
        about: "fibre to the home",
        options: &[
            ("rate", "500Mbps"),
            ("up-rate", "500Mbps"),
            ("rtt", "10ms"),
            ("queue", "droptail:500p"),
        ],
        source: "our choices",
    },
    Preset {
        name: "wifi",
        about: "802.11n behind a fast line: bursts, pauses for other stations, an adaptive rate",
        options: &[
            ("trace", "model:wifi"),
            ("up-trace", "model:wifi"),
            ("rtt", "20ms"),
            ("queue", "droptail:300p"),
            ("up-queue", "droptail:300p"),
        ],
        source: "model: see the model wifi; RTT and queue: our choices",
    },
    Preset {
        name: "lte",
        about: "cellular: a deep queue, and a varying rate with outages",
        options: &[
            ("trace", "model:lte"),
            ("up-rate", "5Mbps"),
            ("rtt", "50ms"),
            ("queue", "droptail:600p"),
            ("up-queue", "droptail:200p"),
        ],
        source: "model: see the model lte; deep queues: Sprout (NSDI 2013) section 2; other \
            numbers: our choices",
    },
    Preset {
        name: "leo",
        about: "LEO satellite: a new rate every 15 s, short outages, little loss",
        options: &[
            ("trace", "model:leo"),
            ("up-rate", "15Mbps"),
            ("rtt", "45ms"),
            ("jitter", "normal:2ms"),
            ("up-jitter", "normal:3ms"),
            ("loss", "bursts:loss=0.3%,length=3"),
            ("queue", "droptail:600p"),
            ("up-queue", "droptail:150p"),
        ],
        source: "model: see the model leo; RTT and loss: within the range of Mohan et al. (WWW \
            2024); queues: our choices",
    },
    Preset {
        name: "geo",
        about: "geostationary satellite",
        options: &[
            ("rate", "25Mbps"),
            ("up-rate", "3Mbps"),
            ("rtt", "600ms"),
            ("loss", "0.1%"),
            ("queue", "droptail:1200p"),
            ("up-queue", "droptail:150p"),
        ],
        source: "RTT: RFC 2488 section 2 (at least 558 ms); rates and loss: our choices",
    },
    Preset {
        name: "datacenter",
        about: "hosts in one data centre: a shallow queue with ECN marks",
        options: &[
            ("rate", "1Gbps"),
            ("rtt", "200us"),
            ("queue", "red:min=20p,max=60p,limit=250p,w=1,maxp=1,ecn=on"),
        ],
        source: "marking by the instantaneous queue length: RFC 8257 section 4.1; numbers: our \
            choices",
    },
];

impl Preset {
    /// Returns the preset with this name.
    ///
    /// # Errors
    /// Returns an error that lists all presets.
    pub fn named(name: &str) -> Result<&'static Self, Invalid> {
        PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
            let known = PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
            Invalid::value(name, "is not a named path")
                .hint(format!("write one of {known} ('fathom paths' lists them)"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_valid_path() {
        for preset in PRESETS {
            if preset.name == "cable" && "pie".parse::<crate::queue::QueueSpec>().is_err() {
                continue;
            }
            preset.spec().check().unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        }
        assert!(Preset::named("5g").unwrap_err().hint.contains("dsl, cable"));
    }
}
