//! Tests of studies, from their text to their results. The runner returns invented results instead
//! of simulating.

mod stored;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::executor::{Event, RunOptions, StudyError, run_study_with};
use super::study_run::StudyRunResult;
use super::table::by_key;
use super::{
    Location, Part, RunFilter, RunState, Study, StudyRun, explain, only, part, status, table,
};
use crate::scenario::{Cost, GroupOutcome, LinkOutcome, Outcome, Progress, ScenarioError, Stop};
use crate::stack::Stack;

const STUDY: &str = r#"question = "Does it?"
source = "a test"
seeds = 2
[sweep]
flows = [10, 20]
size = [1000, 500]
[[sweep.system]]
name = "plain"
controller = "reno"
kept = []
[[sweep.system]]
name = "SDC"
controller = "sdc"
kept = ["left-right"]
[[skip]]
flows = 20
system = "SDC"
[scenario]
stop = "100s"
warm-up = "20s"
[scenario.network]
topology = "dumbbell"
[scenario.keep]
queue = "$system.kept"
[[scenario.traffic]]
name = "flows"
from = "left"
to = "right"
workload = "flows:$flows@2s"
controller = "$system.controller"
packet = "$size"
"#;

fn study() -> Study {
    Study::from_toml("test", STUDY).unwrap()
}

fn key(run: &StudyRun) -> String {
    super::key_text(&run.key)
}

#[test]
fn study_expands_into_its_runs() {
    let runs = study().runs(1.0).unwrap();
    // There are 2 x 2 x 2 combinations, minus two combinations of 20 flows with SDC. Each
    // combination has two seeds.
    assert_eq!(runs.len(), 12);
    assert_eq!((key(&runs[0]).as_str(), runs[0].seed), ("flows=10, size=1000, system=plain", 1));
    assert_eq!((key(&runs[3]).as_str(), runs[3].seed), ("flows=10, size=1000, system=SDC", 2));
    assert!(!runs.iter().any(|c| c.key["flows"] == "20" && c.key["system"] == "SDC"));
    for run in &runs {
        let traffic = &run.scenario.traffic[0];
        // The template has a variable inside text, a number as a whole value, and a list as a whole
        // value. IP and UDP headers take 28 bytes of a packet.
        assert_eq!(traffic.workload.flows().unwrap().to_string(), run.key["flows"]);
        assert_eq!((traffic.datagram + 28).to_string(), run.key["size"]);
        let (sdc, controller) = (run.key["system"] == "SDC", traffic.mix[0].1.spec());
        assert!(controller.starts_with(if sdc { "sdc" } else { "reno" }), "{controller}");
        assert_eq!(run.scenario.keep.queue.len(), usize::from(sdc));
    }
}

#[test]
fn seeds_begin_with_the_first_seed_of_the_study() {
    let seeds = |study: Study| study.runs(1.0).unwrap().iter().map(|run| run.seed).max();
    let from_seven = format!("seed = 7\n{STUDY}");
    let study = |text: &str| Study::from_toml("test", text);
    assert_eq!(seeds(study(&from_seven).unwrap()), Some(8));
    assert_eq!(seeds(study(STUDY).unwrap().with_seed(3).unwrap()), Some(4));
    // A seed means the same run, whatever the first seed is.
    let run = |study: Study| study.runs(1.0).unwrap().remove(1).fingerprint;
    let second = study(STUDY).unwrap().with_seed(1).unwrap();
    let first = study(&format!("seed = 0\n{STUDY}")).unwrap().with_seeds(2).unwrap();
    assert_ne!(run(second.clone()), run(first));
    assert_eq!(run(second.with_seed(2).unwrap().with_seed(1).unwrap()), run(study(STUDY).unwrap()));
    for wrong in ["seed = -1", "seed = 1.5", "seed = '1'", "seed = 9223372036854775807"] {
        let error = study(&format!("{wrong}\n{STUDY}")).unwrap_err().to_string();
        assert!(error.starts_with("line 1: seed: ") && error.contains("write"), "{error}");
    }
}

#[test]
fn study_options_that_affect_no_combination_are_refused() {
    let of = |controllers: &str, scenario: &str, network: &str| {
        let text = format!(
            "question = 'Does it?'\n[sweep]\ncontroller = [{controllers}]\n[scenario]\nstop = '10s'\n{scenario}\n\
             [scenario.network]\n{network}\n[[scenario.traffic]]\nname = 'flows'\nfrom = 'left'\nto = 'right'\n\
             workload = 'flows:2'\ncontroller = '$controller'"
        );
        Study::from_toml("test", &text).map_err(|e| e.to_string())
    };
    let dumbbell = "topology = 'dumbbell'";
    let path =
        |line: &str| format!("topology = 'path'\npath.rate = '10Mbps'\npath.rtt = '0ms'\n{line}");
    let native = "'native:cubic', 'native:new-reno'";
    for (controllers, scenario, network, says) in [
        (native, "timestamps = 'paper'", dumbbell, "timestamps: native controllers"),
        (native, "", &*path("path.reorder = '1%'"), "scenario.network.path.reorder: "),
        (native, "", &*path("path.events = ['blackout:0s@1s']"), "lasts no time"),
        (native, "", &*path("path.events = ['mtu:1392@1s']"), "write a smaller MTU"),
        ("'reno'", "stack = 'tcp'\ngso = 8", dumbbell, "gso: none of"),
        ("'reno'", "stack = 'tcp'\nmtu-discovery = true", dumbbell, "mtu-discovery: none of"),
    ] {
        let error = of(controllers, scenario, network).unwrap_err();
        assert!(error.contains(says) && !error.contains('\n'), "{says}: {error}");
    }
    // An option is valid if one combination uses it.
    of("'native:cubic', 'sync'", "timestamps = 'paper'", dumbbell).unwrap();
    of("'reno'", "gso = 8", dumbbell).unwrap();
    let swept = |axis: &str, path: &str, traffic: &str| {
        let text = format!(
            "question = 'Does it?'\n[sweep]\nof = {axis}\n[scenario]\nstop = '10s'\n[scenario.network]\n\
             topology = 'path'\npath.rate = '10Mbps'\n{path}\n[[scenario.traffic]]\nname = 'flows'\n\
             controller = 'reno'\n{traffic}"
        );
        Study::from_toml("test", &text).map_err(|e| e.to_string())
    };
    let flows = "from = 'left'\nto = 'right'\nworkload = 'flows:2'";
    swept("['0ms', '30ms']", "path.rtt = '$of'\npath.reorder = '1%'", flows).unwrap();
    let media =
        |ends: &str| format!("{ends}\nworkload = 'media:1 at 1Mbps 30fps deadline ${{of}} for 5s'");
    let down = media("from = 'left'\nto = 'right'");
    swept("['5ms', '100ms']", "path.rtt = '30ms'", &down).unwrap();
    assert!(swept("['5ms', '9ms']", "path.rtt = '30ms'", &down).is_err());
    // Frames of upstream media have the delay of the upstream direction.
    let up = media("from = 'right'\nto = 'left'");
    let delays = "path.delay = '100ms'\npath.up-delay = '5ms'";
    swept("['50ms']", delays, &up).unwrap();
    assert!(swept("['50ms']", delays, &down).is_err());
    // Packets of background traffic are larger, so the MTU event affects them.
    let background = "\n[[scenario.background]]\nname = 'b'\nfrom = 'left'\nto = 'right'\nworkload = 'udp:1 at 1Mbps on 1s off 1s'";
    let mtu = "path.rtt = '30ms'\npath.events = ['mtu:$of@1s']";
    swept("[1450]", mtu, &format!("{flows}{background}")).unwrap();
    assert!(swept("[1450]", mtu, flows).is_err());
}

#[test]
fn study_parameters_are_substituted_in_every_string() {
    let text = STUDY
        .replace("name = \"flows\"", "name = \"$$$flows\"")
        .replace("flows:$flows@2s", "flows:${flows}@${size}ms");
    let runs = Study::from_toml("test", &text).unwrap().runs(1.0).unwrap();
    assert_eq!(runs[0].scenario.traffic[0].name, "$10");
    let crate::scenario::Workload::Bulk(bulk) = runs[0].scenario.traffic[0].workload else {
        panic!("bulk")
    };
    assert_eq!(bulk.spread, Duration::from_secs(1));
}

#[test]
fn study_without_axes_has_one_run_per_seed() {
    let scenario = "question = \"?\"\n[scenario]\nstop = \"9s\"\nnetwork = { topology = \"dumbbell\" }\n\
        traffic = [{ name = \"a\", from = \"left\", to = \"right\", workload = \"flows:1\", controller = \"reno\" }]\n";
    let study = Study::from_toml("test", scenario).unwrap();
    assert_eq!(study.runs(1.0).unwrap().len(), 1);
    assert_eq!(study.with_seeds(4).unwrap().runs(1.0).unwrap().len(), 4);
}

#[test]
fn study_errors_name_the_line_and_a_fix() {
    let long: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    let cases: &[(&str, String, &[&str])] = &[
        // Each case has the text to replace, its replacement, and parts of the error message.
        ("question = \"Does it?\"", String::new(), &["question", "question = \"...?\""]),
        ("question = \"Does it?\"", "question = \"\"".into(), &["line 1", "one line"]),
        ("question = ", "qestion = ".into(), &["line 1", "qestion", "question"]),
        ("seeds = 2", "seeds = 0".into(), &["line 3", "1 to 10000"]),
        ("seeds = 2", "seeds = \"two\"".into(), &["line 3", "1 to 10000"]),
        ("seeds = 2", "seeds = ".into(), &["line 3"]),
        ("[10, 20]", "[]".into(), &["line 5", "sweep.flows", "[10, 50]"]),
        ("[10, 20]", "[10, 10]".into(), &["line 5", "twice", "once"]),
        ("[10, 20]", "10".into(), &["line 5", "list"]),
        ("[10, 20]", "[[10], [20]]".into(), &["line 5", "neither a number nor text", "variant"]),
        (
            "[10, 20]",
            format!("[{}]\nsecond = [{}]", long.join(","), long.join(",")),
            &["100000", "fewer"],
        ),
        ("name = \"plain\"", String::new(), &["line 7", "name = \"...\""]),
        ("kept = []", String::new(), &["'plain' has no field 'kept'", "add the field"]),
        (
            "size = [1000, 500]",
            "size = [1000, 500]\nother = [1]".into(),
            &["line 7", "'other'", "$other", "leave"],
        ),
        (
            "kept = []",
            "kept = []\nmore = 1".into(),
            &["line 11", "$system.more", "no field of the study uses", "leave the field out"],
        ),
        ("flows:$flows@2s", "flows:$flow@2s".into(), &["line 29", "$flow", "$flows", "$$"]),
        ("flows:$flows@2s", "flows:$flows@$".into(), &["line 29", "$$ for a dollar"]),
        ("flows:$flows@2s", "flows:$flows.number@2s".into(), &["line 29", "no fields", "$flows"]),
        ("flows:$flows@2s", "flows:$flows@2s$system.kept".into(), &["line 29", "whole value"]),
        ("$system.controller", "$system".into(), &["line 30", "$system.controller"]),
        (
            "$system.controller",
            "$system.contoller".into(),
            &["line 30", "contoller", "add the field"],
        ),
        (
            "packet = \"$size\"",
            "packet = \"$size\"\npaket = 1".into(),
            &["line 32", "paket", "packet"],
        ),
        (
            "packet = \"$size\"",
            "packet = \"$system.controller\"\nname = \"$size\"".into(),
            &["line 32"],
        ),
        ("size = [1000, 500]", "size = [1000, \"big\"]".into(), &["line 31", "u16"]),
        ("size = [1000, 500]", "size = [1000, 10]".into(), &["size=10", "packet", "278"]),
        (
            "controller = \"sdc\"",
            "controller = \"scd\"".into(),
            &["system=SDC", "controller", "sdc"],
        ),
        ("flows = 20\n", "flows = 30\n".into(), &["line 16", "has no value '30'", "10, 20"]),
        ("flows = 20\n", "flow = 20\n".into(), &["line 16", "'flow'", "flows, size, system"]),
        ("[scenario]\n", "[[skip]]\n[scenario]\n".into(), &["line 18", "skip", "flows = 100"]),
        ("flows = 20\nsystem = \"SDC\"", "flows = [10, 20]".into(), &["skip", "fewer"]),
        ("[scenario]\n", "[scenarios]\n".into(), &["scenario"]),
    ];
    for (old, new, says) in cases {
        assert_eq!(STUDY.matches(old).count(), 1, "'{old}' is not in the study once");
        let error = match Study::from_toml("test", &STUDY.replace(old, new)) {
            Ok(_) => panic!("'{old}' -> '{new}' is taken"),
            Err(e) => e.to_string(),
        };
        assert!(!error.contains('\n'), "{error}");
        for said in *says {
            assert!(error.contains(said), "'{old}' -> '{new}': '{said}' is not in: {error}");
        }
    }
    for scale in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(study().runs(scale).unwrap_err().to_string().contains("above 0, at most 1"));
    }
    assert!(study().with_seeds(0).unwrap_err().to_string().contains("1 to"));
}

#[test]
fn stack_can_be_overridden_unless_the_study_compares_stacks() {
    let noq = study().with_stack(Stack::Noq).unwrap().runs(1.0).unwrap();
    assert!(noq.iter().all(|c| c.scenario.stacks() == [Stack::Noq]));
    let text = STUDY
        .replace("[10, 20]", "[10, 20]\nstack = [\"quinn\", \"noq\"]")
        .replace("stop = ", "stack = \"$stack\"\nstop = ");
    let error =
        Study::from_toml("test", &text).unwrap().with_stack(Stack::Noq).unwrap_err().to_string();
    assert!(error.contains("leave --stack out"), "{error}");
}

#[test]
fn study_file_may_set_its_stack() {
    let of = |stack: &str| Study::from_toml("test", &format!("stack = \"{stack}\"\n{STUDY}"));
    assert!(
        of("noq").unwrap().runs(1.0).unwrap().iter().all(|c| c.scenario.stacks() == [Stack::Noq])
    );
    assert!(of("nginx").unwrap_err().to_string().starts_with("stack: 'nginx'"));
    // A build without quiche checks the study, its runs report the missing stack, and another stack
    // can be set.
    let quiche = of("quiche").unwrap();
    assert_eq!(quiche.runs(1.0).is_err(), !cfg!(feature = "quiche"));
    if let Err(e) = quiche.runs(1.0) {
        assert!(e.to_string().starts_with("stack: this build has no quiche"), "{e}");
    }
    assert!(!quiche.with_stack(Stack::Quinn).unwrap().runs(1.0).unwrap().is_empty());
}

#[test]
fn combinations_on_a_stack_missing_from_the_build_are_omitted() {
    let of = |stacks: &str| {
        let text = STUDY.replace("[10, 20]", &format!("[10, 20]\nstack = {stacks}"));
        Study::from_toml("test", &text.replace("stop = ", "stack = \"$stack\"\nstop = "))
    };
    let one = of("[\"quinn\"]").unwrap();
    let two = of("[\"quinn\", \"quiche\"]").unwrap();
    let (mine, absent) = if cfg!(feature = "quiche") { (2, 0) } else { (1, one.points.len()) };
    assert_eq!((two.points.len(), two.absent), (mine * one.points.len(), absent));
    if let Err(e) = of("[\"quiche\"]") {
        assert!(
            !cfg!(feature = "quiche") && e.to_string().contains("this build has no quiche"),
            "{e}"
        );
    }
    assert!(of("[\"quinn\", \"nginx\"]").unwrap_err().to_string().contains("nginx"));
}

#[test]
fn scale_shortens_study_runs_down_to_a_minimum() {
    let stop = |text: &str, scale: f64| {
        let run = &Study::from_toml("test", text).unwrap().runs(scale).unwrap()[0];
        (run.scenario.stop, run.scenario.warm_up)
    };
    let s = |seconds: f64| Duration::from_secs_f64(seconds);
    assert_eq!(stop(STUDY, 1.0), (Stop::At(s(100.0)), s(20.0)));
    assert_eq!(stop(STUDY, 0.5), (Stop::At(s(50.0)), s(10.0)));
    // The run lasts one second longer than the warm-up. The scale also shortens the two seconds
    // over which flows start.
    let long = STUDY.replace("20s", "99.5s");
    assert_eq!(stop(&long, 0.1), (Stop::At(s(10.95)), s(9.95)));
    assert_eq!(stop(STUDY, 0.001), (Stop::At(s(1.02)), s(0.02)));
    assert_eq!(stop(&STUDY.replace("20s", "0s"), 0.0005).0, Stop::At(s(1.001)));
    // A run never becomes longer than without a scale.
    assert_eq!(stop(&STUDY.replace("100s", "1.5s").replace("20s", "0s"), 0.5).0, Stop::At(s(1.5)));
    let web = STUDY
        .replace("\"100s\"", "\"1234 responses\"")
        .replace("flows:$flows@2s", "flows:${flows}x1MB");
    assert_eq!(stop(&web, 0.5).0, Stop::Responses(617));
    assert_eq!(stop(&web, 0.001).0, Stop::Responses(50));
    assert_eq!(stop(&web.replace("1234", "20"), 0.5).0, Stop::Responses(20));
}

#[test]
fn fingerprints_differ_exactly_when_runs_differ() {
    let prints = |text: &str, scale: f64| -> Vec<String> {
        Study::from_toml("test", text)
            .unwrap()
            .runs(scale)
            .unwrap()
            .into_iter()
            .map(|c| c.fingerprint)
            .collect()
    };
    let base = prints(STUDY, 1.0);
    assert_eq!(
        base.iter().collect::<BTreeSet<_>>().len(),
        base.len(),
        "two runs have one fingerprint"
    );
    assert!(base.iter().all(|f| f.len() == 16 && f.chars().all(|c| c.is_ascii_hexdigit())));
    // These changes have no influence: comments, order, the use of variables, names of axes, and
    // defaults that are written out.
    let same = [
        STUDY.replace("[sweep]", "# why\n[sweep]  # not"),
        STUDY.replace(
            "stop = \"100s\"\nwarm-up = \"20s\"",
            "warm-up = \"20s\"\nstop = \"100s\"\nstack = \"quinn\"",
        ),
        STUDY.replace("flows = ", "n = ").replace("$flows", "$n"),
        STUDY
            .replace("\"100s\"", "\"${size}s\"")
            .replace("[1000, 500]", "[100]")
            .replace("\"$size\"", "1000"),
    ];
    for text in &same[..3] {
        assert_eq!(prints(text, 1.0), base, "{text}");
    }
    // The last study has only the runs with packets of 1000 bytes.
    assert_eq!(prints(&same[3], 1.0)[..2], base[..2]);
    let other = [
        prints(&STUDY.replace("100s", "101s"), 1.0),
        prints(&STUDY.replace("20s", "21s"), 1.0),
        prints(&STUDY.replace("@2s", "@3s"), 1.0),
        prints(&STUDY.replace("\"right\"", "\"right\"\ndrift = 1"), 1.0),
        prints(STUDY, 0.999),
    ];
    for prints in other {
        assert!(prints.iter().all(|f| !base.contains(f)));
    }
}

#[test]
fn every_run_of_a_study_is_in_exactly_one_part() {
    let all: Vec<String> = study().runs(1.0).unwrap().into_iter().map(|c| c.fingerprint).collect();
    for n in [1, 2, 5, 12, 20] {
        let mut seen: Vec<String> = Vec::new();
        for i in 1..=n {
            let runs = part(study().runs(1.0).unwrap(), format!("{i}/{n}").parse().unwrap());
            seen.extend(runs.into_iter().map(|c| c.fingerprint));
        }
        seen.sort();
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(seen, sorted, "parts of {n}");
    }
    for text in ["0/5", "6/5", "2", "a/b", "1/0", ""] {
        assert!(text.parse::<Part>().unwrap_err().hint.contains("2/5"), "{text}");
    }
}

#[test]
fn lengthening_an_axis_keeps_existing_runs_in_their_parts() {
    let longer = STUDY
        .replace("flows = [10, 20]", "flows = [5, 10, 15, 20]")
        .replace("seeds = 2", "seeds = 40");
    let longer = Study::from_toml("test", &longer).unwrap().runs(1.0).unwrap();
    let before = study().runs(1.0).unwrap();
    for n in [2, 3, 8] {
        let prints = |runs: &[StudyRun], i: usize| -> BTreeSet<String> {
            part(runs.to_vec(), Part::new(i, n).unwrap())
                .into_iter()
                .map(|run| run.fingerprint)
                .collect()
        };
        for i in 1..=n {
            let (was, is) = (prints(&before, i), prints(&longer, i));
            assert!(was.is_subset(&is), "{i}/{n}");
            // Consecutive seeds change the low bits of fingerprints; parts are of about equal size
            // nevertheless.
            let mean = longer.len() as f64 / n as f64;
            assert!(
                (is.len() as f64 - mean).abs() < 4.0 * mean.sqrt(),
                "{i}/{n} has {} of {}",
                is.len(),
                longer.len()
            );
        }
    }
}

#[test]
fn study_runs_are_selected_by_fingerprint() {
    let all = study().runs(1.0).unwrap();
    let chosen = |wanted: &[&str]| {
        let wanted: Vec<RunFilter> = wanted.iter().map(|w| w.parse().unwrap()).collect();
        only(all.clone(), &wanted)
            .map(|runs| runs.into_iter().map(|run| run.fingerprint).collect::<Vec<_>>())
    };
    let (first, last) = (&*all[0].fingerprint, &*all[11].fingerprint);
    // A run needs one of the fingerprints; the result keeps the order of the runs.
    assert_eq!(chosen(&[last, &first.to_uppercase()]).unwrap(), [first, last]);
    // With a value of an axis, a run needs both the value and one of the fingerprints.
    assert_eq!(chosen(&[last, first, "flows=10"]).unwrap(), [first]);
    let error = chosen(&["0123456789abcdef"]).unwrap_err().to_string();
    assert!(error.contains("0123456789abcdef") && error.contains("fathom plan runs"), "{error}");
    assert!("0123456789abcde".parse::<RunFilter>().unwrap_err().hint.contains("16 digits"));
}

#[test]
fn study_runs_are_selected_by_axis_values() {
    let all = study().runs(1.0).unwrap();
    let chosen = |wanted: &[&str]| {
        let wanted: Vec<RunFilter> = wanted.iter().map(|w| w.parse().unwrap()).collect();
        only(all.clone(), &wanted)
    };
    let (axis, value) = all[0].key.iter().next().unwrap();
    let one = format!("{axis}={value}");
    let expected = all.iter().filter(|run| run.key[axis] == *value).count();
    assert!(0 < expected && expected < all.len());
    assert_eq!(chosen(&[&one]).unwrap().len(), expected);
    assert!(chosen(&[&one]).unwrap().iter().all(|run| run.key[axis] == *value));
    // A run needs one of the values given for an axis, for every axis that is given. Without
    // filters, all runs are selected.
    let every: Vec<String> = all.iter().map(|run| format!("{axis}={}", run.key[axis])).collect();
    assert_eq!(
        chosen(&every.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().len(),
        all.len()
    );
    assert_eq!(chosen(&[]).unwrap().len(), all.len());
    let last = all.last().unwrap();
    let exactly: Vec<String> =
        last.key.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    let exact = chosen(&exactly.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    assert!(!exact.is_empty() && exact.iter().all(|run| run.key == last.key));
    for (text, names) in
        [("nothing=1", axis.as_str()), (&format!("{axis}=nothing"), value.as_str())]
    {
        let error = chosen(&[text]).unwrap_err().to_string();
        assert!(error.contains("nothing") && error.contains(names), "{error}");
    }
    for text in ["", "stack", "=quinn", "stack="] {
        assert!(text.parse::<RunFilter>().unwrap_err().hint.contains("stack=quinn"), "{text}");
    }
}

/// Returns an outcome that is unique to this run, with numbers that have no short decimal form.
fn fake(run: &StudyRun) -> Outcome {
    let number = u64::from_str_radix(&run.fingerprint[..12], 16).unwrap() as f64 / 3.0;
    let link = LinkOutcome {
        arrived: 100,
        utilisation_percent: 90.0,
        drops_percent: number,
        ..LinkOutcome::default()
    };
    let group = GroupOutcome { throughput_bps: run.seed as f64 * 1e6, ..GroupOutcome::default() };
    Outcome {
        punctuality: None,
        seconds: number,
        counted_seconds: 0.0,
        links: [("left-right".to_owned(), link)].into(),
        groups: [("flows".to_owned(), group)].into(),
        background: std::collections::BTreeMap::new(),
        fairness: None,
        trace_hash: run.fingerprint.clone(),
    }
}

/// Executes runs with [`fake`]. Returns the results, the number of executed runs, and the names of
/// the files that were reported as broken.
fn run_fake(
    runs: &[StudyRun],
    folder: Option<&Path>,
    jobs: usize,
) -> (Vec<StudyRunResult>, usize, Vec<String>) {
    let ran = AtomicUsize::new(0);
    let broken = Mutex::new(Vec::new());
    let options = RunOptions {
        jobs: NonZero::new(jobs),
        results: folder.map(Location::from),
        ..RunOptions::default()
    };
    let watch = |event: Event<'_>| {
        if let Event::Broken { place, .. } = event {
            broken.lock().push(Path::new(place).file_name().unwrap().to_str().unwrap().to_owned());
        }
    };
    let results = run_study_with(runs, &options, &watch, &|run: &StudyRun, _: &Progress| {
        ran.fetch_add(1, Ordering::Relaxed);
        Ok((fake(run), Cost::default()))
    });
    (results.unwrap(), ran.into_inner(), broken.into_inner())
}

#[test]
fn study_results_keep_the_order_of_the_runs() {
    let runs = study().runs(1.0).unwrap();
    for jobs in [1, 3, 40] {
        let (results, ran, _) = run_fake(&runs, None, jobs);
        assert_eq!(ran, runs.len());
        let order = |r: &StudyRunResult| (r.key.clone(), r.seed, r.outcome.trace_hash.clone());
        let expected: Vec<_> =
            runs.iter().map(|c| (c.key.clone(), c.seed, c.fingerprint.clone())).collect();
        assert_eq!(results.iter().map(order).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn longest_study_runs_start_first() {
    let runs = study().runs(1.0).unwrap();
    let order = Mutex::new(Vec::new());
    let options = RunOptions { jobs: NonZero::new(1), results: None, ..RunOptions::default() };
    let run = run_study_with(&runs, &options, &|_| {}, &|run: &StudyRun, _: &Progress| {
        order.lock().push(run.key["size"].clone());
        Ok((fake(run), Cost::default()))
    });
    run.unwrap();
    // Runs with half the packet size have twice as many packets and therefore take longest.
    let order = order.into_inner();
    assert!(
        order[..6].iter().all(|size| size == "500") && order[6..].iter().all(|size| size == "1000"),
        "{order:?}"
    );
}

#[test]
fn fingerprint_version_changes_only_runs_with_responses() {
    // Fingerprint of version 1, in which failed requests counted as responses.
    let old = |run: &StudyRun, text: &str| {
        let mut hash = fathom_netsim::hash::StableHash::default();
        hash.add_bytes(text);
        for word in [256, run.seed, 1f64.to_bits(), 1] {
            hash.add(word);
        }
        format!("{:016x}", hash.value())
    };
    for (stop, same) in [("20 responses", false), ("20s", true)] {
        let text = format!(
            "question = 'q'\n[scenario]\nstop = '{stop}'\n[scenario.network]\ntopology = 'dumbbell'\n[[scenario.traffic]]\nname = 'web'\n\
             from = 'left'\nto = 'right'\nworkload = 'web:50% of 10Mbps'\ncontroller = 'reno'"
        );
        let study = Study::from_toml("test", &text).unwrap();
        let run = &study.runs(1.0).unwrap()[0];
        let text = toml::to_string(&study.points[0].spec).unwrap();
        assert_eq!(run.fingerprint == old(run, &text), same, "{stop}");
    }
}

#[test]
fn identical_study_runs_are_executed_once() {
    // Both systems are Reno, under different names.
    let text = STUDY
        .replace("controller = \"sdc\"", "controller = \"reno\"")
        .replace("[\"left-right\"]", "[]");
    let study = Study::from_toml("test", &text).unwrap();
    let (results, ran, _) = run_fake(&study.runs(1.0).unwrap(), None, 2);
    // 4 of the 12 runs, those of SDC, equal those of plain with ten flows.
    assert_eq!((results.len(), ran), (12, 8));
    assert_eq!(results.iter().filter(|r| r.key["system"] == "SDC").count(), 4);
}

#[test]
fn study_table_has_a_row_of_means_per_combination() {
    let study = study();
    let (mut results, _, _) = run_fake(&study.runs(1.0).unwrap(), None, 2);
    let keyed = by_key(&results);
    assert_eq!(keyed.len(), 6);
    assert!(
        keyed
            .iter()
            .all(|(key, of)| of.iter().map(|r| r.seed).eq([1, 2])
                && of.iter().all(|r| r.key == **key))
    );
    let text = table(&study.axes, &results);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + 6, "{text}");
    assert!(lines[0].contains("flows") && lines[0].contains("bottleneck"), "{text}");
    for heading in
        ["flows", "size", "system", "seeds", "Mbps", "link", "drops %", "queue p", "busy %"]
    {
        assert!(lines[1].contains(heading), "{text}");
    }
    // No response was timed, so there is no column of response times.
    assert!(!text.contains("median"), "{text}");
    for line in &lines[2..] {
        // Seeds 1 and 2 have 1 and 2 Mbps: the mean is 1.5, the half-width 12.706 x 0.7071 /
        // 1.4142, and the lower end is cut at zero.
        assert!(
            line.contains("1.5 (0.0 to 7.9)")
                && line.contains("left-right")
                && line.contains("90.0"),
            "{line}"
        );
    }
    assert!(!text.contains("failed"), "{text}");
    results[0].outcome.groups.values_mut().for_each(|group| group.failed = 5);
    let text = table(&study.axes, &results);
    assert!(text.contains("failed") && text.contains("2.5 (0.0 to 34.3)"), "{text}");
}

#[test]
fn scenario_fields_at_top_level_of_a_study_get_a_hint() {
    let spec = toml::Table::try_from(&study().points[0].spec).unwrap();
    for field in spec.keys().filter(|field| *field != "stack") {
        assert!(super::read::OF_SCENARIO.contains(&field.as_str()), "{field}");
    }
    for (beside, hint) in [
        (
            "[keep]\nwindow = [\"all\"]",
            "line 1: 'keep' is a field of the scenario; write [scenario.keep]",
        ),
        ("[[traffic]]\nname = \"a\"", "write [[scenario.traffic]]"),
        ("stop = \"30s\"", "write this field below [scenario]"),
    ] {
        let e = Study::from_toml("test", &format!("{beside}\n{}", "question = \"Does it?\""))
            .unwrap_err();
        assert!(e.to_string().contains(hint), "{e}");
    }
}

#[test]
fn plan_explain_describes_study_run_and_cost() {
    let study = study();
    let text = explain(&study, &study.runs(1.0).unwrap(), 1.0, 2);
    for said in [
        "test: Does it?",
        "source: a test",
        "axis flows: 10, 20 (2)",
        "axis system: plain, SDC (2)",
        // There are eight combinations, minus two that are skipped.
        "runs: 6 combinations (2 left out) with 2 seeds each: 12",
        "10Mbps, 20ms, droptail:100p",
        "10 flows that outlast the run, starts over 2s; reno; packets of 1000 bytes",
        "base round trip 40ms",
        "a run takes 100 s of virtual time",
        "ends at 100s; measurement starts at 20s",
        // 10 Mbps for 100 s in packets of 1000 and 500 bytes.
        "125 thousand to 250 thousand packets",
        // The two largest runs are executed at once. Each takes 20 MB, plus 0.5 MB for each of its
        // 20 flows.
        "on 2 cores, up to 60 MB of memory",
    ] {
        assert!(text.contains(said), "'{said}' is not in:\n{text}");
    }
}

#[test]
fn changed_trace_file_changes_the_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.trace");
    let fingerprint = |trace: &str| {
        std::fs::write(&file, trace).unwrap();
        let network = format!("topology = \"path\"\npath = {{ trace = \"{}\" }}", file.display());
        let text = STUDY.replace("topology = \"dumbbell\"", &network);
        Study::from_toml("test", &text).unwrap().runs(1.0).unwrap()[0].fingerprint.clone()
    };
    assert_eq!(fingerprint("1\n2\n"), fingerprint("1\n2\n"));
    assert_ne!(fingerprint("1\n2\n"), fingerprint("1\n3\n"));
}
