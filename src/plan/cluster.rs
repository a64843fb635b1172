//! Reads the part and the number of cores of a task from the environment variables of a cluster.

use std::num::NonZero;

use fathom_experiments::study::Part;

use crate::Failure;

/// Environment variable with the number of tasks of a Kubernetes job. Kubernetes gives a pod only
/// its own index, so the manifest of `fathom plan emit k8s` sets this variable.
pub(super) const COMPLETIONS: &str = "JOB_COMPLETIONS";

/// Alternative that every error message suggests.
const INSTEAD: &str = "or name the part, such as --part 2/5 (--part 1/1 is all runs)";

/// Task of an array.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) part: Part,
    /// Kind of the array, for use in messages.
    pub(super) of: &'static str,
}

/// Returns the array task of this process, according to the environment. Returns `None` if the
/// process is not part of an array.
///
/// # Errors
/// Returns an error if the environment does not determine the part.
pub(super) fn task(env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Task>, Failure> {
    if env("SLURM_ARRAY_TASK_ID").is_some() {
        return slurm(env).map(|part| Some(Task { part, of: "of a Slurm array" }));
    }
    if env("JOB_COMPLETION_INDEX").is_some() {
        return kubernetes(env).map(|part| Some(Task { part, of: "of a Kubernetes job" }));
    }
    Ok(None)
}

fn number(env: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<usize, Failure> {
    let Some(text) = env(name) else {
        return Err(Failure::input(format!("{name} is not set; set the variable, {INSTEAD}")));
    };
    let number = text.trim().parse().ok().filter(|number| *number <= 1_000_000_000);
    number.ok_or_else(|| {
        Failure::input(format!(
            "{name} is '{text}', which is not a task number; correct the variable, {INSTEAD}"
        ))
    })
}

/// Returns the part of a task of `--array=MIN-MAX:STEP`, whose tasks are counted from MIN.
fn slurm(env: &dyn Fn(&str) -> Option<String>) -> Result<Part, Failure> {
    let [id, count, min, max] =
        ["ID", "COUNT", "MIN", "MAX"].map(|of| number(env, &format!("SLURM_ARRAY_TASK_{of}")));
    let (id, count, min, max) = (id?, count?, min?, max?);
    let step = match env("SLURM_ARRAY_TASK_STEP") {
        Some(_) => number(env, "SLURM_ARRAY_TASK_STEP")?.max(1),
        None => 1,
    };
    let index = id.checked_sub(min).filter(|off| off % step == 0).map(|off| off / step);
    // If the list has gaps, the number of tasks before this one is unknown.
    let even =
        max.checked_sub(min).is_some_and(|span| span % step == 0 && span / step + 1 == count);
    index.filter(|_| even).and_then(|index| Part::new(index + 1, count)).ok_or_else(|| {
        Failure::input(format!(
            "task {id} of a Slurm array of {count} tasks from {min} to {max} by {step}: a study \
             cannot be divided among tasks whose numbers have gaps; submit an array such as \
             --array=0-7, {INSTEAD}"
        ))
    })
}

/// Returns the part of a pod of an indexed job, whose pods are counted from 0.
fn kubernetes(env: &dyn Fn(&str) -> Option<String>) -> Result<Part, Failure> {
    let index = number(env, "JOB_COMPLETION_INDEX")?;
    if env(COMPLETIONS).is_none() {
        return Err(Failure::input(format!(
            "JOB_COMPLETION_INDEX is set but {COMPLETIONS} is not, and Kubernetes does not tell a \
             pod how many pods a job has; set {COMPLETIONS} to the job's completions, as 'fathom \
             plan emit k8s' does, {INSTEAD}"
        )));
    }
    let count = number(env, COMPLETIONS)?;
    Part::new(index + 1, count).ok_or_else(|| {
        Failure::input(format!(
            "JOB_COMPLETION_INDEX is {index}, but {COMPLETIONS} is {count}; set {COMPLETIONS} to \
             the job's completions, {INSTEAD}"
        ))
    })
}

/// Returns the number of cores that Slurm gave this task. Returns `None` outside Slurm, where the
/// standard library's count respects cgroup limits and affinity.
pub(super) fn cores(env: &dyn Fn(&str) -> Option<String>) -> Option<NonZero<usize>> {
    env("SLURM_JOB_ID")?;
    // Slurm sets the first variable only on request. The second one is the number of cores of the
    // batch step.
    ["SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"]
        .iter()
        .find_map(|name| env(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + use<> {
        let vars: Vec<(String, String)> =
            vars.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        move |name| vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }

    fn array(
        id: &str,
        count: &str,
        min: &str,
        max: &str,
        step: &str,
    ) -> Result<Option<String>, String> {
        let env = with(&[
            ("SLURM_ARRAY_TASK_ID", id),
            ("SLURM_ARRAY_TASK_COUNT", count),
            ("SLURM_ARRAY_TASK_MIN", min),
            ("SLURM_ARRAY_TASK_MAX", max),
            ("SLURM_ARRAY_TASK_STEP", step),
        ]);
        task(&env).map(|task| task.map(|task| task.part.to_string())).map_err(|e| e.line)
    }

    #[test]
    fn slurm_task_id_determines_the_part() {
        for (id, count, min, max, step, part) in [
            ("0", "8", "0", "7", "1", "1/8"),
            ("7", "8", "0", "7", "1", "8/8"),
            ("3", "5", "1", "5", "1", "3/5"),
            ("14", "4", "8", "17", "3", "3/4"),
            ("5", "1", "5", "5", "1", "1/1"),
        ] {
            assert_eq!(
                array(id, count, min, max, step),
                Ok(Some(part.into())),
                "{id} of {min}-{max}:{step}"
            );
        }
    }

    #[test]
    fn invalid_slurm_arrays_are_errors_with_a_hint() {
        for (id, count, min, max, step) in [
            ("7", "3", "1", "7", "1"),
            ("3", "3", "1", "7", "1"),
            ("9", "8", "0", "7", "1"),
            ("0", "8", "1", "8", "1"),
            ("x", "8", "0", "7", "1"),
            ("99999999999999999999", "8", "0", "7", "1"),
            ("0", "0", "0", "0", "0"),
        ] {
            let error = array(id, count, min, max, step).unwrap_err();
            assert!(error.contains("--part 2/5") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn kubernetes_part_needs_the_number_of_completions() {
        let of = |vars: &[(&str, &str)]| {
            task(&with(vars)).map(|t| t.map(|t| t.part.to_string())).map_err(|e| e.line)
        };
        assert_eq!(
            of(&[("JOB_COMPLETION_INDEX", "2"), (COMPLETIONS, "5")]),
            Ok(Some("3/5".into()))
        );
        for wrong in [
            &[("JOB_COMPLETION_INDEX", "2")][..],
            &[("JOB_COMPLETION_INDEX", "5"), (COMPLETIONS, "5")],
        ] {
            let error = of(wrong).unwrap_err();
            assert!(error.contains(COMPLETIONS) && error.contains("--part"), "{error}");
        }
        assert_eq!(of(&[]), Ok(None));
    }

    #[test]
    fn number_of_cores_is_that_of_the_slurm_task() {
        let of = |vars: &[(&str, &str)]| cores(&with(vars)).map(NonZero::get);
        assert_eq!(of(&[("SLURM_CPUS_PER_TASK", "4")]), None, "no job");
        assert_eq!(
            of(&[("SLURM_JOB_ID", "1"), ("SLURM_CPUS_PER_TASK", "4"), ("SLURM_CPUS_ON_NODE", "8")]),
            Some(4)
        );
        assert_eq!(of(&[("SLURM_JOB_ID", "1"), ("SLURM_CPUS_ON_NODE", "1")]), Some(1));
        assert_eq!(of(&[("SLURM_JOB_ID", "1")]), None);
    }
}
