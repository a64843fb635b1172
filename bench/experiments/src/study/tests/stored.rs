//! Tests of stored results, written by one process or many, and of the state of runs.

use fathom_cc::Invalid;

use super::*;

/// A folder for one test, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fathom-study-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn stopped_study_resumes_and_its_parts_merge() {
    let folder = Folder::new("resume");
    let runs = study().runs(1.0).unwrap();
    let (fresh, _, _) = run_fake(&runs, None, 2);
    let first = part(runs.clone(), "1/3".parse().unwrap());
    assert!(!first.is_empty() && first.len() < runs.len());
    assert_eq!(run_fake(&first, Some(&folder.0), 2).1, first.len());
    let (merged, ran, broken) = run_fake(&runs, Some(&folder.0), 2);
    assert_eq!((ran, broken.len()), (runs.len() - first.len(), 0));
    // Results that were stored and read again are equal to the last bit.
    assert_eq!(merged, fresh);
    let (again, ran, _) = run_fake(&runs, Some(&folder.0), 2);
    assert_eq!((&again, ran), (&fresh, 0));
    let mut names: Vec<String> = runs.iter().map(|c| format!("{}.json", c.fingerprint)).collect();
    names.sort();
    assert_eq!(folder.files(), names, "something else is left in the folder");
}

#[test]
fn corrupt_stored_results_are_reported_and_run_again() {
    let folder = Folder::new("broken");
    let runs = study().runs(1.0).unwrap();
    let (fresh, _, _) = run_fake(&runs, Some(&folder.0), 2);
    let file = |i: usize| folder.0.join(format!("{}.json", runs[i].fingerprint));
    // One file is cut off, one has the result of another run, and one has no result.
    let text = std::fs::read_to_string(file(0)).unwrap();
    std::fs::write(file(0), &text[..text.len() / 2]).unwrap();
    std::fs::copy(file(2), file(1)).unwrap();
    std::fs::write(file(3), "{}").unwrap();
    let (results, ran, mut broken) = run_fake(&runs, Some(&folder.0), 2);
    let mut expected: Vec<String> =
        [0, 1, 3].map(|i| file(i).file_name().unwrap().to_str().unwrap().to_owned()).into();
    expected.sort();
    broken.sort();
    assert_eq!((results, ran, broken), (fresh, 3, expected));
    assert_eq!(folder.files().len(), runs.len());
}

#[test]
fn only_stale_temporary_files_of_the_study_are_removed() {
    let folder = Folder::new("swept");
    let runs = study().runs(1.0).unwrap();
    let of = |what: &str| format!(".{what}-host-with-dashes-17-0123456789abcdef.tmp");
    let mine = &runs[5].fingerprint;
    let left = |name: &str, hours: u64| {
        let path = folder.0.join(name);
        std::fs::write(&path, "{").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - Duration::from_secs(hours * 3600)).unwrap();
        name.to_owned()
    };
    std::fs::create_dir_all(&folder.0).unwrap();
    for gone in [of(mine), of("probe")] {
        left(&gone, 7);
    }
    let mut stays = vec![
        // Another process may still be writing this file.
        left(&of(mine).replace("17", "18"), 5),
        // These files belong to another study and to other programs.
        left(&of("00112233445566ff"), 7),
        left(&format!(".{mine}.swp.tmp"), 7),
        left(&format!(".{mine}-1.tmp"), 7),
    ];
    run_fake(&runs, Some(&folder.0), 2);
    stays.extend(runs.iter().map(|c| format!("{}.json", c.fingerprint)));
    stays.sort();
    assert_eq!(folder.files(), stays);
}

#[test]
fn failed_study_run_does_not_stop_other_runs() {
    let folder = Folder::new("failed");
    let runs = study().runs(1.0).unwrap();
    let options = RunOptions {
        jobs: NonZero::new(2),
        results: Some(Location::Folder(folder.0.clone())),
        ..RunOptions::default()
    };
    let error = run_study_with(&runs, &options, &|_| {}, &|run: &StudyRun, _: &Progress| {
        if run.key["flows"] == "20" {
            return Err(ScenarioError::Plan(Invalid::because("no")));
        }
        Ok((fake(run), Cost::default()))
    });
    let error = error.unwrap_err();
    assert!(matches!(&error, StudyError::Runs { failed, of: 12 } if failed.len() == 4));
    let text = error.to_string();
    assert!(
        text.contains("4 of 12")
            && text.contains("flows=20, size=1000, system=plain, seed 1")
            && !text.contains('\n'),
        "{text}"
    );
    let states = status(&runs, &Location::Folder(folder.0.clone())).unwrap();
    let (done, failed): (Vec<_>, Vec<_>) =
        runs.iter().zip(&states).partition(|(run, _)| run.key["flows"] == "10");
    assert!(done.iter().all(|(_, state)| **state == RunState::Done));
    assert!(failed.iter().all(|(_, state)| **state == RunState::Failed("no".into())), "{failed:?}");
    // There are eight results and four failures. Failed runs are executed again, and a result takes
    // precedence over a failure.
    assert_eq!((folder.files().len(), run_fake(&runs, Some(&folder.0), 1).1), (12, 4));
    let states = status(&runs, &Location::Folder(folder.0.clone())).unwrap();
    assert!(states.iter().all(|state| *state == RunState::Done));
}

#[test]
fn first_stored_result_of_a_run_is_kept() {
    let folder = Folder::new("first");
    let runs = &study().runs(1.0).unwrap()[..1];
    let options = RunOptions {
        jobs: NonZero::new(1),
        results: Some(Location::Folder(folder.0.clone())),
        ..RunOptions::default()
    };
    // Another process stores the result of a run while this process executes the run.
    let beside = |other: Outcome, own: Outcome| {
        let _ = std::fs::remove_dir_all(&folder.0);
        let results = run_study_with(runs, &options, &|_| {}, &|run: &StudyRun, _: &Progress| {
            let nested = run_study_with(runs, &options, &|_| {}, &|_: &StudyRun, _: &Progress| {
                Ok((other.clone(), Cost::default()))
            });
            assert_eq!(nested.unwrap()[0].outcome, other, "{}", run.fingerprint);
            Ok((own.clone(), Cost::default()))
        });
        let [file] = &folder.files()[..] else { panic!("one result") };
        let stored = std::fs::read_to_string(folder.0.join(file)).unwrap();
        assert_eq!(serde_json::from_str::<StudyRunResult>(&stored).unwrap().outcome, other);
        results
    };
    let same = fake(&runs[0]);
    assert_eq!(beside(same.clone(), same.clone()).unwrap()[0].outcome, same);
    let error = beside(Outcome { seconds: 1.0, ..same.clone() }, same).unwrap_err().to_string();
    assert!(
        !error.contains('\n')
            && error.contains(&runs[0].label())
            && error.contains(&runs[0].fingerprint),
        "{error}"
    );
}

#[test]
fn study_status_reports_running_broken_and_missing_runs() {
    let folder = Folder::new("status");
    let runs = study().runs(1.0).unwrap();
    let at = Location::Folder(folder.0.clone());
    let words = || status(&runs, &at).unwrap().iter().map(RunState::word).collect::<Vec<_>>();
    assert!(
        words().iter().all(|word| *word == "missing") && !folder.0.exists(),
        "asking writes nothing"
    );
    let options =
        RunOptions { jobs: NonZero::new(1), results: Some(at.clone()), ..RunOptions::default() };
    run_study_with(&runs[..2], &options, &|_| {}, &|run: &StudyRun, _: &Progress| {
        // The second run waits until its state is visible to other processes.
        let mut tries = 0;
        while run.fingerprint == runs[1].fingerprint
            && status(&runs, &at).unwrap()[1].word() != "running"
        {
            tries += 1;
            assert!(tries < 1200, "nobody says that it runs: {:?}", folder.files());
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok((fake(run), Cost::default()))
    })
    .unwrap();
    std::fs::write(folder.0.join(format!("{}.json", runs[2].fingerprint)), "{}").unwrap();
    assert_eq!(words()[..4], ["done", "done", "broken", "missing"]);
    // A process whose last report is an hour old counts as ended.
    let said = folder.0.join("host-17-0123456789abcdef.running");
    std::fs::write(
        &said,
        format!(r#"{{"process":"host-17","fingerprints":["{}"]}}"#, runs[3].fingerprint),
    )
    .unwrap();
    assert_eq!(words()[3], "running");
    let file = std::fs::File::options().write(true).open(&said).unwrap();
    let now = file.metadata().unwrap().modified().unwrap();
    file.set_modified(now - Duration::from_secs(3600)).unwrap();
    assert_eq!(words()[3], "missing");
    file.set_modified(now - Duration::from_secs(7 * 3600)).unwrap();
    run_fake(&runs, Some(&folder.0), 2);
    assert_eq!(folder.files().len(), runs.len(), "what it left is gone");
}

#[test]
fn result_locations_are_parsed_as_folders_or_object_stores() {
    for (text, is) in [
        ("results", Location::Folder("results".into())),
        ("file:///a/b", Location::Folder("/a/b".into())),
        ("s3://bucket/prefix/", Location::Objects("s3://bucket/prefix".into())),
        ("gs://bucket", Location::Objects("gs://bucket".into())),
    ] {
        assert_eq!(text.parse::<Location>(), Ok(is), "{text}");
    }
    assert_eq!("az://c/p".parse::<Location>().unwrap().join("study").to_string(), "az://c/p/study");
    for text in ["http://host/bucket", "s3://", "s3:///", "file://host/folder"] {
        assert!(
            text.parse::<Location>().unwrap_err().hint.contains("s3://bucket/prefix"),
            "{text}"
        );
    }
}

#[test]
fn study_stops_if_results_cannot_be_stored() {
    let folder = Folder::new("unstored");
    let runs = study().runs(1.0).unwrap();
    // A file takes the place of the folder.
    std::fs::write(&folder.0, "").unwrap();
    let options = RunOptions {
        jobs: NonZero::new(1),
        results: Some(Location::Folder(folder.0.clone())),
        ..RunOptions::default()
    };
    let runner = |run: &StudyRun, _: &Progress| Ok((fake(run), Cost::default()));
    let error = run_study_with(&runs, &options, &|_| {}, &runner).unwrap_err();
    assert!(error.to_string().contains("name a folder you can write to"), "{error}");
    std::fs::remove_file(&folder.0).unwrap();
    // A number that JSON cannot express is reported at once, so that the run is not repeated in
    // vain.
    let ran = AtomicUsize::new(0);
    let error = run_study_with(&runs, &options, &|_| {}, &|run: &StudyRun, _: &Progress| {
        ran.fetch_add(1, Ordering::Relaxed);
        Ok((Outcome { seconds: f64::NAN, ..fake(run) }, Cost::default()))
    });
    assert!(matches!(error, Err(StudyError::Store { .. })));
    assert_eq!((ran.into_inner(), folder.files().len()), (1, 0));
}
