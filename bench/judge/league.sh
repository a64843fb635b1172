#!/bin/sh
# Judges controllers of every stack and writes docs/league.md. `bench/judge/league.sh PROGRAM [--full]`
set -eu
program=$1
depth=${2:---quick}
cards=target/league
mkdir -p "$cards"

# A controller that fails criteria makes `judge` exit with 1: that is a result.
judge() {
  card="$cards/$1-$(echo "$2" | tr ':/' '--').json"
  "$program" judge "$2" --stack "$1" "$depth" --json "$card" >/dev/null || [ $? = 1 ]
}

for own in reno cubic sync dca vegas dual sdc highspeed gentle ledbat ledbat-pp copa dctcp packet-size; do judge quinn "$own"; done
for native in cubic new-reno bbr; do judge quinn "native:$native"; done
for native in cubic new-reno bbr3; do judge noq "native:$native"; done
for native in cubic reno bbr2; do judge quiche "native:$native"; done

{
  cat <<HEAD
# League of controllers

This page compares scorecards of \`fathom judge\` ([judge.md](judge.md)) for Fathom's controllers on
quinn and for the unmodified controllers of each stack. Every controller is compared with Fathom's
CUBIC and Reno on the same stack. A controller fails a criterion if, in at least one test, its whole
95 % interval is outside our threshold. The results are from simulated links in virtual time, and do
not show how a controller performs on the Internet.

If you maintain one of these controllers and find a test unfair, please tell us. The command under
each controller reproduces its numbers. \`make league\` wrote this page on
$(date -u +%Y-%m-%d).

HEAD
  "$program" league "$cards"/*.json
} > docs/league.md
