//! Sends the same paced probes over the same path in virtual time, through the relay, through the
//! netem backend, and through the kernel's own netem with the nearest settings. Two-sample tests
//! compare delays, losses and the other measures.
//!
//! | file | contents |
//! |---|---|
//! | `feature.rs` | effects of paths on packets, as options of the laboratory and of tc |
//! | `sample.rs` | results of the probes, and the tests between two samples |
//! | `simulated.rs` | the simulation: virtual time, and kernel links under its impairments |
//! | `real.rs` | sockets in real time: the relay, and the kernel's netem |
//!
//! In real time, the machine adds to every delay. The addition is measured at the same time on a
//! path that only delays, and is added to the delays of virtual time before the comparison. Delays
//! that are not random are compared to a millisecond. If the addition varies by more than a few
//! milliseconds, the machine was too busy, and the run is repeated. A group of features is left out
//! if all attempts are too noisy.
//!
//! The kernel's columns need `user-mode-linux`, which `make test` installs. Without it, the test
//! leaves these columns out and says so.

mod feature;
mod real;
mod sample;
mod simulated;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::sync::atomic::AtomicBool;

use fathom_netsim::backend::Backend;
use fathom_netsim::backend::netem::{GuestError, run_in_guest};

use feature::{Feature, Measure, PLAIN, features};
use sample::{Comparison, Sample, compare};

/// Environment variable that names the file of results to a guest.
const RESULTS: &str = "FATHOM_PATH_BACKENDS";
/// Number of features that are measured at once, beside the plain path: about 3,000 packets per
/// second, which User-Mode Linux carries easily.
const AT_ONCE: usize = 4;
const TRIES: usize = 3;
/// Probability that the test fails although all distributions are equal, divided among all
/// comparisons (Bonferroni).
const ALPHA: f64 = 0.01;
/// Largest spread, from the first to the 99th percentile, of the delays that the machine adds, in
/// nanoseconds.
const NOISE: u64 = 5_000_000;

/// Carrier of the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    /// Forwarder of `fathom link`, over loopback.
    Relay,
    /// The netem backend: a link of the kernel with the laboratory's impairments.
    Netem,
    /// The kernel's netem by itself.
    Kernel,
}

const COLUMNS: [Column; 3] = [Column::Relay, Column::Netem, Column::Kernel];

impl Column {
    const fn title(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Netem => "netem backend",
            Self::Kernel => "kernel's netem",
        }
    }

    fn carries(self, feature: &Feature) -> bool {
        match self {
            Self::Relay => true,
            Self::Netem => !feature.refused_by_netem,
            Self::Kernel => !feature.tc.is_empty(),
        }
    }

    /// Returns the features that are measured together, the plain path first in each group.
    fn groups(self) -> Vec<Vec<Feature>> {
        let all: Vec<Feature> =
            features().into_iter().filter(|feature| self.carries(feature)).collect();
        let plain = all.iter().find(|feature| feature.name == PLAIN).expect("one is plain");
        let others: Vec<Feature> =
            all.iter().filter(|feature| feature.name != PLAIN).cloned().collect();
        others.chunks(AT_ONCE).map(|some| [std::slice::from_ref(plain), some].concat()).collect()
    }

    /// Sends the probes of one group. Each column has its own random numbers.
    fn measure(self, group: &[Feature]) -> Vec<Sample> {
        match self {
            Self::Relay => real::over_relays(group, 2),
            Self::Netem => simulated::run(group, 3, Backend::Netem),
            Self::Kernel => real::over_netem(group),
        }
    }
}

/// Measures the kernel's columns inside a guest; does nothing elsewhere.
#[test]
fn guest_kernel_measures_its_columns() {
    let Some(file) = std::env::var_os(RESULTS) else { return };
    let mut text = String::new();
    for column in [Column::Netem, Column::Kernel] {
        for group in column.groups() {
            column.measure(&group).iter().for_each(|sample| sample.write(&mut text));
        }
    }
    fs::write(file, text).unwrap();
}

type Groups = BTreeMap<(Column, usize), Vec<Sample>>;

/// Returns the samples of both kernel columns, by column and group; `None` without User-Mode Linux.
fn from_guest() -> Option<Groups> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("samples");
    let test = std::env::current_exe().unwrap().display().to_string();
    let variable = format!("{RESULTS}={}", file.display());
    let command = [
        "env",
        &variable,
        &test,
        "--exact",
        "path_backends::guest_kernel_measures_its_columns",
        "--nocapture",
    ]
    .map(OsStr::new);
    let mut said = Vec::new();
    match run_in_guest(&command, &AtomicBool::new(false), &mut said) {
        Ok(0) => {}
        Err(why @ (GuestError::Missing(_) | GuestError::Shim(_))) => {
            println!("the kernel's columns are left out: {why}");
            return None;
        }
        other => panic!("{other:?}: {}", String::from_utf8_lossy(&said)),
    }
    let text = fs::read_to_string(&file).unwrap();
    let mut lines = text.lines();
    let mut groups = Groups::new();
    for column in [Column::Netem, Column::Kernel] {
        for (number, group) in column.groups().iter().enumerate() {
            groups
                .insert((column, number), group.iter().map(|_| Sample::read(&mut lines)).collect());
        }
    }
    Some(groups)
}

/// Returns the samples of the groups in which the machine kept up.
fn measure_all(plain: &Sample) -> Groups {
    let quiet = |column: Column, group: usize, samples: &[Sample]| {
        let noise = samples[0].noise(plain);
        let quantile = |q: f64| noise[((noise.len() - 1) as f64 * q) as usize];
        let (low, median, high) = (quantile(0.01), quantile(0.5), quantile(0.99));
        let ms = |nanos: i64| nanos as f64 / 1e6;
        println!(
            "{} {group}: later by {:.2} ms, {:.2} to {:.2} of 98 % ",
            column.title(),
            ms(median),
            ms(low),
            ms(high)
        );
        high - low <= NOISE as i64
    };
    let mut groups = Groups::new();
    for (number, group) in Column::Relay.groups().iter().enumerate() {
        let mut tries = (0..TRIES).map(|_| Column::Relay.measure(group));
        if let Some(samples) = tries.find(|samples| quiet(Column::Relay, number, samples)) {
            groups.insert((Column::Relay, number), samples);
        }
    }
    let wanted = Column::Netem.groups().len() + Column::Kernel.groups().len() + groups.len();
    for _ in 0..TRIES {
        let Some(new) = from_guest() else { break };
        groups.extend(
            new.into_iter().filter(|((column, number), samples)| quiet(*column, *number, samples)),
        );
        if groups.len() >= wanted {
            break;
        }
    }
    groups
}

#[test]
fn probes_see_the_same_path_on_every_backend() {
    let all = features();
    let simulated = simulated::run(&all, 1, Backend::Virtual);
    let virtual_of =
        |feature: &Feature| &simulated[all.iter().position(|f| f.name == feature.name).unwrap()];
    let plain = virtual_of(&all[0]);
    let groups = measure_all(plain);
    let mut cells = BTreeMap::<(usize, Measure, Column), Comparison>::new();
    for ((column, number), samples) in &groups {
        let noise = samples[0].noise(plain);
        for (feature, sample) in column.groups()[*number].iter().zip(samples) {
            let place = all.iter().position(|f| f.name == feature.name).unwrap();
            for measure in &feature.measures {
                let compared = compare(feature, *measure, [virtual_of(feature), sample], &noise);
                cells.insert((place, *measure, *column), compared);
            }
        }
    }
    println!("| path | measure | virtual | {} |", COLUMNS.map(Column::title).join(" | "));
    println!("|---|---|---|---|---|---|");
    for (place, feature) in all.iter().enumerate() {
        for measure in &feature.measures {
            let cell = |column: Column| match cells.get(&(place, *measure, column)) {
                Some(compared) => format!("{}, p {:.2}", compared.value, compared.p_value),
                None if column.carries(feature) => "not measured".to_owned(),
                None => "cannot".to_owned(),
            };
            let value = sample::value(feature, *measure, virtual_of(feature));
            println!(
                "| {} | {} | {value} | {} |",
                feature.name,
                measure.title(),
                COLUMNS.map(cell).join(" | ")
            );
        }
    }
    let alpha = ALPHA / cells.len().max(1) as f64;
    println!("{} comparisons, each at {alpha:.6}", cells.len());
    let differ: Vec<String> = (cells.iter())
        .filter(|(_, compared)| compared.p_value < alpha)
        .map(|((place, measure, column), compared)| {
            format!("{}, {}, {}: {compared:?}", all[*place].name, measure.title(), column.title())
        })
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

/// Checks that the comparison above can fail: it tells slightly different paths apart.
#[test]
fn path_comparison_detects_slightly_different_paths() {
    for (one, other, measure) in [
        (("loss", "5%"), ("loss", "8%"), Measure::Lost),
        (("loss", "9%"), ("loss", "bursts:loss=9%,length=2"), Measure::Bursts),
        (("jitter", "20ms"), ("jitter", "24ms"), Measure::Delay),
        (("jitter", "20ms,reorder"), ("jitter", "normal:12ms,reorder"), Measure::Delay),
        (("reorder", "25%"), ("reorder", "30%"), Measure::Delay),
        (("duplicate", "5%"), ("duplicate", "8%"), Measure::Duplicated),
        (("corrupt", "5%"), ("corrupt", "8%"), Measure::Corrupted),
    ] {
        let pair = [one, other].map(|option| Feature::new("", &[option], &[measure]));
        let samples = simulated::run(&pair, 1, Backend::Virtual);
        let compared = compare(&pair[0], measure, [&samples[0], &samples[1]], &[0]);
        assert!(compared.p_value < ALPHA / 100.0, "{one:?}, {other:?}: {compared:?}");
    }
}
