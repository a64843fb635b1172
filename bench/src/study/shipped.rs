//! The studies that come with this crate: `bench/plans/studies`.

/// Name and text of each, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("dca-alone", include_str!("../../plans/studies/dca-alone.toml")),
    ("dca-altered", include_str!("../../plans/studies/dca-altered.toml")),
    ("dca-figure-4-7", include_str!("../../plans/studies/dca-figure-4-7.toml")),
    ("dca-measured-altered", include_str!("../../plans/studies/dca-measured-altered.toml")),
    ("dca-measured-asu", include_str!("../../plans/studies/dca-measured-asu.toml")),
    ("dca-measured-emory", include_str!("../../plans/studies/dca-measured-emory.toml")),
    ("dca-paired", include_str!("../../plans/studies/dca-paired.toml")),
    ("ghstcp-droptail", include_str!("../../plans/studies/ghstcp-droptail.toml")),
    ("ghstcp-red", include_str!("../../plans/studies/ghstcp-red.toml")),
    ("packet-size-4.3.1", include_str!("../../plans/studies/packet-size-4.3.1.toml")),
    ("packet-size-4.3.2", include_str!("../../plans/studies/packet-size-4.3.2.toml")),
    ("packet-size-adaptive", include_str!("../../plans/studies/packet-size-adaptive.toml")),
    ("packet-size-adaptive-mixed", include_str!("../../plans/studies/packet-size-adaptive-mixed.toml")),
    ("sdc-alone", include_str!("../../plans/studies/sdc-alone.toml")),
    ("sdc-figure-10", include_str!("../../plans/studies/sdc-figure-10.toml")),
    ("sdc-figure-11", include_str!("../../plans/studies/sdc-figure-11.toml")),
    ("sdc-figure-12", include_str!("../../plans/studies/sdc-figure-12.toml")),
    ("sdc-figure-4", include_str!("../../plans/studies/sdc-figure-4.toml")),
    ("sdc-figure-9", include_str!("../../plans/studies/sdc-figure-9.toml")),
    ("sdc-latency", include_str!("../../plans/studies/sdc-latency.toml")),
    ("sdc-windows", include_str!("../../plans/studies/sdc-windows.toml")),
    ("sync-tcp-bottlenecks", include_str!("../../plans/studies/sync-tcp-bottlenecks.toml")),
    ("sync-tcp-detection", include_str!("../../plans/studies/sync-tcp-detection.toml")),
    ("sync-tcp-drift", include_str!("../../plans/studies/sync-tcp-drift.toml")),
    ("sync-tcp-largest", include_str!("../../plans/studies/sync-tcp-largest.toml")),
    ("sync-tcp-mix", include_str!("../../plans/studies/sync-tcp-mix.toml")),
    ("sync-tcp-one-bottleneck", include_str!("../../plans/studies/sync-tcp-one-bottleneck.toml")),
];

/// The text of the study of this name.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::stack::Stack;
    use crate::study::Study;

    #[test]
    fn every_file_ships_under_its_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/studies");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        assert_eq!(files, SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    }

    #[test]
    fn every_one_is_sound() {
        for (name, text) in SHIPPED {
            let mut study = Study::from_toml(name, text).unwrap_or_else(|e| panic!("{name}: {e}"));
            if study.lacks.is_some() {
                study = study.with_stack(Stack::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
            for scale in [1.0, 0.01] {
                assert!(!study.runs(scale).unwrap().is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn figure_4_has_the_points_of_the_paper() {
        let study = Study::from_toml("sdc-figure-4", shipped("sdc-figure-4").unwrap()).unwrap();
        let flows: Vec<u32> = study.axes[0].values.iter().map(|v| v.parse().unwrap()).collect();
        // SDC §3.1: a measurement every 10 flows below 100.
        assert_eq!(flows[..10], [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!((flows.last(), study.axes[1].values.len()), (Some(&500), 2));
        // Table 1: an access link has 10 x (10/n) Mbps.
        for point in &study.points {
            let flows: u64 = point.key["flows"].parse().unwrap();
            assert_eq!(point.scenario.traffic[0].access.rate.bits_per_sec(), 100_000_000 / flows);
        }
    }
}
