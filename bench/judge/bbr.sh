#!/bin/sh
# Judges the BBRs of all stacks by the test cases of the BBR draft, and stores their scorecards in
# bench/results/bbr. `bench/judge/bbr.sh PROGRAM`
set -eu
program=$1
cards=bench/results/bbr
mkdir -p "$cards"

# A controller that fails cases makes `judge` exit with 1: that is a result.
judge() {
  card="$cards/$1-${2#native:}.json"
  "$program" judge "$2" --stack "$1" --profile bbr --seeds 10 --json "$card" >/dev/null || [ $? = 1 ]
}

judge quinn native:bbr
judge noq native:bbr3
judge quiche native:bbr2
# Not BBRs: which cases can be passed by any sender?
judge quinn native:cubic
judge quinn vegas
