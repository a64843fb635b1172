#!/bin/sh
# Judges the standards and the broken controllers, and stores their scorecards in
# bench/results/sensitivity. `bench/judge/sensitivity.sh PROGRAM`, where PROGRAM is
# examples/broken.rs.
set -eu
program=$1
cards=bench/results/sensitivity
mkdir -p "$cards"

# A stored scorecard is not made again: remove it first. A controller that fails criteria makes
# `judge` exit with 1: that is a result.
for controller in cubic reno ignores-loss never-grows halves-on-every-ack starves-others \
  believes-a-liar leaks-window leaves-slow-start-late multiplies greedy-beside-others; do
  [ -e "$cards/$controller.json" ] ||
    "$program" judge "$controller" --json "$cards/$controller.json" >/dev/null || [ $? = 1 ]
done
