//! Studies that are built into the program, from `bench/plans/studies`.

use include_dir::{Dir, File, include_dir};

static FOLDER: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../plans/studies");

/// Returns the name and text of each study, ordered by name.
pub fn shipped_studies() -> impl Iterator<Item = (&'static str, &'static str)> {
    let study =
        |file: &'static File<'_>| Some((file.path().file_stem()?.to_str()?, file.contents_utf8()?));
    let mut studies: Vec<_> = FOLDER.files().filter_map(study).collect();
    studies.sort_unstable();
    studies.into_iter()
}

/// Returns the text of the study with this name.
pub fn shipped(name: &str) -> Option<&'static str> {
    shipped_studies().find(|(known, _)| *known == name).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::stack::Stack;
    use crate::study::Study;

    #[test]
    fn every_study_file_is_shipped_under_its_file_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plans/studies");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        // A missing study was added after the last build, because cargo does not detect new files
        // in the folder. To rebuild, run `touch bench/experiments/src/study/shipped.rs`.
        assert_eq!(files, shipped_studies().map(|(name, _)| name.to_owned()).collect::<Vec<_>>());
    }

    #[test]
    fn every_shipped_study_is_valid() {
        for (name, text) in shipped_studies() {
            let mut study = Study::from_toml(name, text).unwrap_or_else(|e| panic!("{name}: {e}"));
            if study.lacks.is_some() {
                study =
                    study.with_stack(Stack::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
            for scale in [1.0, 0.01] {
                assert!(!study.runs(scale).unwrap().is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn sdc_figure_4_study_has_the_same_points_as_the_paper() {
        let study = Study::from_toml("sdc-figure-4", shipped("sdc-figure-4").unwrap()).unwrap();
        let flows: Vec<u32> = study.axes[0].values.iter().map(|v| v.parse().unwrap()).collect();
        // SDC §3.1: one measurement every 10 flows up to 100.
        assert_eq!(flows[..10], [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!((flows.last(), study.axes[1].values.len()), (Some(&500), 2));
        // SDC table 1: an access link has 10 x (10/n) Mbps for n flows.
        for point in &study.points {
            let flows: u64 = point.key["flows"].parse().unwrap();
            assert_eq!(point.scenario.traffic[0].access.rate.bits_per_sec(), 100_000_000 / flows);
        }
    }
}
