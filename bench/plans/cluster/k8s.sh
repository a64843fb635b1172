#!/bin/sh
# Checks manifests of `fathom plan emit k8s` against Kubernetes' own schemas, and runs the program as
# one of the pods would, with the settings in the manifest. Usage: k8s.sh PROGRAM FOLDER. Needs
# Python 3 with venv; FATHOM_PYTHON may name a Python that has kubernetes-validate.
set -eu

fathom=$(realpath "$1")
mkdir -p "$2"
dir=$(realpath "$2")
plan=$(realpath "$(dirname "$0")/study.toml")
cd "$dir"
python=${FATHOM_PYTHON:-$dir/venv/bin/python}
if ! "$python" -c 'import kubernetes_validate' 2>/dev/null; then
  python3 -m venv venv
  venv/bin/pip install --quiet kubernetes-validate
fi

"$fathom" plan emit k8s "$plan" --tasks 8 --cores 2 > folder.yaml
"$fathom" plan emit k8s "$plan" --tasks 8 --only buffer=20 --results s3://bucket/some/prefix > objects.yaml
"$fathom" plan emit k8s sdc-figure-4 --seeds 3 --results gs://bucket > shipped.yaml
"$python" - "$plan" folder.yaml objects.yaml shipped.yaml <<'PYTHON'
import sys, yaml, kubernetes_validate
study = open(sys.argv[1]).read()
for name in sys.argv[2:]:
    documents = list(yaml.safe_load_all(open(name)))
    for document in documents:
        for version in ("1.33", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(document, version, strict=True)
    job = documents[-1]["spec"]
    pod = job["template"]["spec"]["containers"][0]
    env = {of["name"]: of["value"] for of in pod["env"]}
    assert env["JOB_COMPLETIONS"] == str(job["completions"]) and job["completionMode"] == "Indexed", env
    if len(documents) == 2:
        assert documents[0]["data"] == {"study.toml": study}, "the study is not as it was"
    print(f"{name}: {', '.join(d['kind'] for d in documents)} valid (1.33, {kubernetes_validate.latest_version()}); {' '.join(pod['args'])}")
# Checks that an invalid manifest is refused; otherwise these checks prove nothing.
documents[-1]["spec"]["completion"] = 8
try:
    kubernetes_validate.validate(documents[-1], kubernetes_validate.latest_version(), strict=True)
except kubernetes_validate.ValidationError:
    pass
else:
    sys.exit("a field that is not there was taken")
PYTHON

# Runs the part of every pod: each index once, all runs together.
rm -rf results
for index in 0 1 2 3 4 5 6 7; do
  JOB_COMPLETION_INDEX=$index JOB_COMPLETIONS=8 "$fathom" plan run "$plan" --only buffer=20 --results results 2>&1 | grep 'as a task'
done
"$fathom" plan status "$plan" --only buffer=20 --results results
