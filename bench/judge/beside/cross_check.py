#!/usr/bin/env python3
"""Holds verdicts and values of `fathom judge` in virtual time against the same tests with the kernel's queues (--backend netem).

Bounds, set before the first run: no check passes on one backend and fails on the other, and the means differ by no more than BOUND
points, or by no more than their two 95 % intervals together. Runs whose events were late by more than LATE_MS at the 99th percentile
say more about the machine than about the controllers: they are made again, twice at most, and counted where that did not help.

Usage: cross_check.py [--fathom target/release/fathom] [--results target/cross-check] [--seeds 4] [--scale 0.4] [--stack quinn]
Prints a table in Markdown; exits with 1 where a bound is missed. It takes as long as its runs last: half an hour with the defaults.
"""
import argparse
import json
import pathlib
import subprocess
import sys

TESTS = ["5.1.2/four-flows", "5.2.1/one-to-one", "7.1/beside-a-rival"]
# Each beside another, so that nothing is compared with itself.
PAIRS = [("cubic", "reno"), ("reno", "cubic"), ("vegas", "cubic")]
BOUND = 10.0
LATE_MS = 3.0
ATTEMPTS = 3
WORST_LAST = ["not-applicable", "pass", "not-decided", "fail"]


def judge(args, controller, against, backend):
    """The scorecard of a controller on a backend."""
    file = args.results / f"{controller}-{backend}.json"
    command = [args.fathom, "judge", controller, "--against", against, "--stack", args.stack, "--backend", backend]
    command += ["--seeds", str(args.seeds), "--scale", str(args.scale), "--results", args.results / backend, "--json", file]
    for test in TESTS:
        command += ["--only", test]
    file.unlink(missing_ok=True)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1) or not file.exists():
        sys.exit(f"fathom judge {controller} --backend {backend} ended with {done.returncode}")
    return json.loads(file.read_text())


def values(card):
    """Value and worst verdict by test, place in its sweep and measure: two thresholds of one value are one row."""
    found = {}
    for criterion in card["criteria"]:
        for test in criterion["tests"]:
            for check in test["checks"]:
                at = ", ".join(f"{axis}={value}" for axis, value in check["at"].items() if axis not in ("rival", "reference"))
                relation = "" if check["relation"] == "absolute" else " of the reference's"
                key = (f"{criterion['section']}/{test['name']}", at, check["measure"] + relation)
                before = found.get(key, (None, "not-applicable"))[1]
                found[key] = (check["value"], max(before, check["verdict"], key=WORST_LAST.index))
    return found


def late(args):
    """Stored runs of the netem backend that were late."""
    files = (args.results / "netem" / "judge").glob("*.json")
    return {file for file in files if json.loads(file.read_text())["outcome"]["punctuality"]["p99_ms"] > LATE_MS}


def half_width(value):
    return (value["high"] - value["low"]) / 2


def cell(value, verdict):
    return f"{value['mean']:.1f} ± {half_width(value):.1f}, {verdict.replace('-', ' ')}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--fathom", default="target/release/fathom", type=pathlib.Path)
    options.add_argument("--results", default="target/cross-check", type=pathlib.Path)
    options.add_argument("--seeds", type=int, default=4)
    options.add_argument("--scale", type=float, default=0.4)
    options.add_argument("--stack", default="quinn")
    args = options.parse_args()
    if args.seeds < 2:
        sys.exit("--seeds: an interval needs two at least")
    args.results.mkdir(parents=True, exist_ok=True)
    print("| test | at | controller | measure | virtual | netem | apart |\n|---|---|---|---|---|---|---|")
    missed, kept = 0, set()
    for controller, against in PAIRS:
        virtual = values(judge(args, controller, against, "virtual"))
        for _ in range(ATTEMPTS):
            for file in late(args) - kept:
                file.unlink()
            netem = values(judge(args, controller, against, "netem"))
            if late(args) <= kept:
                break
        kept |= late(args)
        # The kernel lacks some queues of the lab's.
        for key, ours in virtual.items():
            if key not in netem:
                continue
            kernels = netem[key]
            if ours[0] is None or kernels[0] is None:
                sys.exit(f"{controller}: {' '.join(key)} has no value")
            apart = kernels[0]["mean"] - ours[0]["mean"]
            within = abs(apart) <= max(BOUND, half_width(ours[0]) + half_width(kernels[0]))
            within &= {ours[1], kernels[1]} != {"pass", "fail"}
            missed += not within
            test, at, measure = key
            verdict = "" if within else " MISSED"
            print(f"| {test} | {at} | {controller} beside {against} | {measure} | {cell(*ours)} | {cell(*kernels)} "
                  f"| {apart:+.1f}{verdict} |", flush=True)
    print(f"\n{missed} beyond the bounds; {len(kept)} runs stayed late")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
