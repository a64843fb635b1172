#!/bin/sh
# Judges controllers of every stack, and stores their scorecards in bench/results/league.
# `bench/judge/league.sh PROGRAM`
set -eu
program=$1
cards=bench/results/league
mkdir -p "$cards"

# A stored scorecard is not made again: remove it first. A controller that fails criteria makes
# `judge` exit with 1: that is a result.
judge() {
  card="$cards/$1-$(echo "$2" | tr ':/' '--').json"
  [ -e "$card" ] || "$program" judge "$2" --stack "$1" --json "$card" >/dev/null || [ $? = 1 ]
}

for own in reno cubic sync dca vegas dual sdc highspeed gentle ledbat ledbat-pp copa dctcp plumb scream gcc packet-size; do judge quinn "$own"; done
for native in cubic new-reno bbr; do judge quinn "native:$native"; done
for native in cubic new-reno bbr3; do judge noq "native:$native"; done
for native in cubic reno bbr2; do judge quiche "native:$native"; done
