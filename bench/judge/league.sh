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

for own in reno cubic sync dca vegas dual sdc highspeed gentle packet-size; do judge quinn "$own"; done
for native in cubic new-reno bbr; do judge quinn "native:$native"; done
for native in cubic new-reno bbr3; do judge noq "native:$native"; done
for native in cubic reno bbr2; do judge quiche "native:$native"; done

{
  echo '# League of controllers'
  echo
  echo "Scorecards of \`fathom judge\` ([judge.md](judge.md)) beside each other, made $(date -u +%Y-%m-%d) by \`make league\`: Fathom's controllers on quinn, and those that"
  echo 'each stack brings, as it comes. Every controller is set against Fathom'"'"'s CUBIC and Reno on the same stack. A laboratory of clean links in virtual time'
  echo 'says what a controller does there, not how it does on the Internet; a controller fails a criterion where the whole 95 % interval is outside our'
  echo 'threshold in one test. Whoever maintains one of these: the command under each shows the same numbers; tell us where the test is unfair.'
  echo
  "$program" league "$cards"/*.json
} > docs/league.md
