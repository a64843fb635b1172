//! `fathom plan emit`: writes a study as an array of tasks for a cluster.

use std::num::NonZero;
use std::path::Path;

use fathom_experiments::study::{Estimate, Location, Study, StudyRun, estimate, time_text};

use super::cluster::COMPLETIONS;
use crate::Failure;

/// Cluster software that runs the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Engine {
    /// A script for sbatch: an array job.
    Slurm,
    /// A manifest for kubectl: an indexed job, and the study if it is a file.
    K8s,
}

/// Work of the array, as given on the command line.
pub(super) struct Job<'a> {
    pub(super) study: &'a Study,
    pub(super) runs: &'a [StudyRun],
    /// Name or file of the study, as given.
    pub(super) plan: &'a Path,
    /// Text of the study; `None` unless the study is a file.
    pub(super) file: Option<&'a str>,
    /// Options that select runs, as words of a command line.
    pub(super) words: Vec<String>,
    pub(super) results: &'a Location,
    /// Number of tasks; `None` if it is derived from the estimate.
    pub(super) tasks: Option<NonZero<usize>>,
    /// Cores of each task.
    pub(super) cores: NonZero<usize>,
}

/// Target duration of a task in seconds if `--tasks` is not given.
const TASK_SECONDS: f64 = 600.0;
/// Maximum number of tasks if `--tasks` is not given.
const MOST_TASKS: usize = 100;
/// Maximum size in bytes of a study in a manifest. Kubernetes allows 1 MiB for all data.
const LARGEST_STUDY: usize = 900_000;

/// Estimated resources of a task.
struct Needs {
    tasks: usize,
    /// CPU time of all tasks in seconds.
    cpu_seconds: f64,
    /// Memory of a task in MB. It is twice the estimate, and at least 512.
    memory_mb: u64,
    /// Time limit of a task in minutes. It is four times the estimate, because parts differ in
    /// length, and at least 10.
    minutes: u64,
}

impl Job<'_> {
    pub(super) fn write(&self, engine: Engine) -> Result<String, Failure> {
        if self.runs.is_empty() {
            return Err(Failure::input("no runs are left, so there is no job to write"));
        }
        match engine {
            Engine::Slurm => Ok(self.slurm()),
            Engine::K8s => self.kubernetes(),
        }
    }

    fn needs(&self) -> Needs {
        let costs: Vec<(&StudyRun, Estimate)> =
            self.runs.iter().map(|run| (run, estimate(&run.scenario))).collect();
        // A run in real time takes its full duration and needs the whole machine.
        let seconds = |(run, cost): &(&StudyRun, Estimate)| {
            if run.scenario.backend.is_virtual() {
                cost.cpu_seconds / self.cores.get() as f64
            } else {
                cost.seconds
            }
        };
        let all: f64 = costs.iter().map(seconds).sum();
        let cpu_seconds: f64 = costs.iter().map(|(_, cost)| cost.cpu_seconds).sum();
        let alone = |(run, cost): &(&StudyRun, Estimate)| {
            if run.scenario.backend.is_virtual() { cost.cpu_seconds } else { cost.seconds }
        };
        let longest = costs.iter().map(alone).fold(0.0, f64::max);
        let largest = costs.iter().map(|(_, cost)| cost.memory).fold(0.0, f64::max);
        let few = ((all / TASK_SECONDS).ceil() as usize).clamp(1, MOST_TASKS.min(self.runs.len()));
        let tasks = self.tasks.map_or(few, NonZero::get);
        let minutes = 4.0 * (all / tasks as f64 + longest) / 60.0;
        let memory = 2.0 * largest * self.cores.get() as f64 / 1e6;
        Needs {
            tasks,
            cpu_seconds,
            memory_mb: (memory.ceil() as u64).max(512),
            minutes: (minutes.ceil() as u64).max(10),
        }
    }

    /// Returns the words of `plan VERB STUDY ...`, where VERB is for example `run`.
    fn command(&self, verb: &str, plan: &str, results: &str) -> Vec<String> {
        let words = ["plan", verb, plan].map(str::to_owned).into_iter();
        words
            .chain(self.words.iter().cloned())
            .chain(["--results".to_owned(), results.to_owned()])
            .collect()
    }

    fn shell(&self, verb: &str) -> String {
        let words = self.command(verb, &self.plan.to_string_lossy(), &self.results.to_string());
        words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
    }

    fn title(&self, needs: &Needs) -> String {
        format!(
            "Study {}: {} run{} in {} task{}, about {} of CPU time. Written by 'fathom plan emit'.",
            self.study.name.escape_debug(),
            self.runs.len(),
            if self.runs.len() == 1 { "" } else { "s" },
            needs.tasks,
            if needs.tasks == 1 { "" } else { "s" },
            time_text(needs.cpu_seconds),
        )
    }

    fn slurm(&self) -> String {
        let needs = self.needs();
        let name = dns_label(&self.study.name);
        let shared = match self.results {
            Location::Folder(_) => {
                "\n# Results go to a folder that all nodes share; paths are relative to the directory in which sbatch is called."
            }
            Location::Objects(_) => {
                "\n# Keys of the object store come from the environment of sbatch (--export=ALL is its default)."
            }
        };
        format!(
            "#!/bin/sh
# {title}
# Submit: sbatch THIS-FILE. A repeated submission, with any number of tasks, executes only missing runs.
# State of the study: fathom {status}
# Table and JSON of the complete study: fathom {run} --json {name}.json

# Name in squeue.
#SBATCH --job-name={name}
# Tasks, without gaps; append %4 to run at most four at once. Each task selects its part of the runs itself.
#SBATCH --array=0-{last}
#SBATCH --ntasks=1
# Cores of a task, which executes one run per core.
#SBATCH --cpus-per-task={cores}
# Memory of a task: twice the estimate, at least 512 MB.
#SBATCH --mem={memory}M
# Time limit of a task, hours:minutes:seconds: four times the estimate, at least ten minutes. Finished runs are kept.
#SBATCH --time={hours:02}:{minutes:02}:00
# A task whose node fails starts again; stored runs are not repeated.
#SBATCH --requeue
# Log file: %A is the number of the array, %a that of the task.
#SBATCH --output={name}-%A_%a.log
# Partition and account, if your site requires them: remove one #.
##SBATCH --partition=PARTITION
##SBATCH --account=ACCOUNT

# The program: the same build on all nodes.
FATHOM=\"${{FATHOM:-fathom}}\"{shared}
# A separate step gets SIGTERM at the time limit. Slurm passes the cores on only if they are named.
exec srun --ntasks=1 --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" \"$FATHOM\" {run}
",
            title = self.title(&needs),
            status = self.shell("status"),
            run = self.shell("run"),
            last = needs.tasks - 1,
            cores = self.cores,
            memory = needs.memory_mb,
            hours = needs.minutes / 60,
            minutes = needs.minutes % 60,
        )
    }

    fn kubernetes(&self) -> Result<String, Failure> {
        let needs = self.needs();
        let name = dns_label(&self.study.name);
        let map = self.file.map(|text| config_map(&name, &self.study.name, text)).transpose()?;
        let plan = if map.is_some() {
            format!("/study/{}.toml", self.study.name)
        } else {
            self.study.name.clone()
        };
        let (results, folder) = match self.results {
            Location::Folder(_) => ("/results".to_owned(), true),
            Location::Objects(url) => (url.clone(), false),
        };
        let mut mounts = Vec::new();
        let mut volumes = Vec::new();
        if map.is_some() {
            mounts.push(
                "            - { name: study, mountPath: /study, readOnly: true }\n".to_owned(),
            );
            volumes
                .push(format!("        - name: study\n          configMap: {{ name: {name} }}\n"));
        }
        let keys = if folder {
            mounts.push("            - { name: results, mountPath: /results }\n".to_owned());
            volumes.push(
                "        # A claim that pods on all nodes can write to (ReadWriteMany). An object store needs none: --results s3://BUCKET/PREFIX.\n        \
                 - name: results\n          persistentVolumeClaim: { claimName: fathom-results }\n"
                    .to_owned(),
            );
            String::new()
        } else {
            "          # Keys of the object store: kubectl create secret generic fathom-results --from-literal=AWS_ACCESS_KEY_ID=... \\\n          \
             #   --from-literal=AWS_SECRET_ACCESS_KEY=... --from-literal=AWS_REGION=... (docs/sweeps.md has those of gs:// and az://)\n          \
             envFrom:\n            - secretRef: { name: fathom-results }\n"
                .to_owned()
        };
        let list = |head: &str, of: Vec<String>| {
            if of.is_empty() { String::new() } else { format!("{head}\n{}", of.concat()) }
        };
        Ok(format!(
            "# {title}
# Start: kubectl apply -f THIS-FILE. A repeated start after 'kubectl delete job {name}' executes only missing runs.
# State of the study, on a machine that can read the results: fathom plan status
{map}apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  # Tasks: change this and {COMPLETIONS} below together, because Kubernetes tells a pod only its index, not the number of pods.
  completions: {tasks}
  # Pods at once.
  parallelism: {tasks}
  # A failed pod is started again this many times; stored runs are not repeated.
  backoffLimitPerIndex: 3
  podFailurePolicy:
    rules:
      # An evicted pod is not a failure.
      - action: Ignore
        onPodConditions:
          - {{ type: DisruptionTarget, status: \"True\" }}
      # Invalid input stays invalid.
      - action: FailJob
        onExitCodes: {{ containerName: fathom, operator: In, values: [2] }}
  template:
    spec:
      restartPolicy: Never
      securityContext:
        runAsNonRoot: true
        # User that writes results, and the group of a volume of results.
        runAsUser: 1000
        runAsGroup: 1000
        fsGroup: 1000
        seccompProfile: {{ type: RuntimeDefault }}
      containers:
        - name: fathom
          # Your image, with the program in its PATH.
          image: fathom:{version}
          command: [fathom]
          args: {args}
          env:
            - {{ name: {COMPLETIONS}, value: \"{tasks}\" }}
{keys}          resources:
            # Cores: one run executes on each. Memory: twice the estimate, at least 512 MB.
            requests: {{ cpu: \"{cores}\", memory: {memory}M }}
            limits: {{ cpu: \"{cores}\", memory: {memory}M }}
          securityContext:
            allowPrivilegeEscalation: false
            capabilities: {{ drop: [ALL] }}
{mounts}{volumes}",
            title = self.title(&needs),
            map = map.unwrap_or_default(),
            tasks = needs.tasks,
            version = env!("CARGO_PKG_VERSION"),
            args = yaml(&self.command("run", &plan, &results)),
            cores = self.cores,
            memory = needs.memory_mb,
            mounts = list("          volumeMounts:", mounts),
            volumes = list("      volumes:", volumes),
        ))
    }
}

/// Returns the study as a `ConfigMap`, for the manifest.
fn config_map(name: &str, study: &str, text: &str) -> Result<String, Failure> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if study.is_empty() || study.len() > 200 || !study.chars().all(sound) {
        return Err(Failure::input(format!(
            "'{}.toml' is not a valid file name in Kubernetes; rename the file so that its name \
             has only letters, digits, '-', '_' and '.'",
            study.escape_debug()
        )));
    }
    if text.len() > LARGEST_STUDY {
        return Err(Failure::input(format!(
            "the study has {} bytes, but a manifest for Kubernetes may have at most \
             {LARGEST_STUDY}; put the study into the image and name its path there",
            text.len()
        )));
    }
    let lines: String = text
        .lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect();
    Ok(format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  # The study. Files that it names (traces) are not included: put them into the image.\n  {}: |2\n{lines}---\n",
        yaml(&format!("{study}.toml"))
    ))
}

/// Returns a value as YAML, in the syntax of JSON.
fn yaml(of: &(impl serde::Serialize + ?Sized)) -> String {
    serde_json::to_string(of).unwrap_or_default()
}

/// Quotes a word for a shell if necessary.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns `fathom-STUDY` as a Kubernetes name. It has lower case letters, digits and dashes, and
/// at most 52 characters, so that pod names derived from it also fit.
fn dns_label(study: &str) -> String {
    let label: String = study
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(45)
        .collect();
    format!("fathom-{label}").trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_are_quoted_if_necessary() {
        for (word, is) in [
            ("a/b.toml", "a/b.toml"),
            ("my study", "'my study'"),
            ("it's", r"'it'\''s'"),
            ("$x", "'$x'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), is);
        }
    }

    #[test]
    fn study_names_become_dns_labels() {
        assert_eq!(dns_label("Web_90 %"), "fathom-web-90");
        assert!(dns_label(&"x".repeat(300)).len() <= 52);
        assert_eq!(dns_label("ä"), "fathom");
    }

    #[test]
    fn config_map_keeps_the_lines_of_the_study() {
        let text = "question = 'a: #b'\n\n  [sweep]\n\tx = [1]\n";
        let map = config_map("fathom-a", "a", text).map_err(|e| e.line).unwrap();
        assert!(
            map.contains(
                "  \"a.toml\": |2\n    question = 'a: #b'\n\n      [sweep]\n    \tx = [1]\n---\n"
            ),
            "{map}"
        );
        assert!(
            config_map("n", "a b", "").is_err()
                && config_map("n", "a", &"#".repeat(1 << 20)).is_err()
        );
    }
}
