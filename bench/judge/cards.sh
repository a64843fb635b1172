#!/bin/sh
# Judges the controllers of a list, and stores their scorecards in bench/results/LIST.
# `bench/judge/cards.sh PROGRAM LIST`. The lists are at the end of this file. Scorecards of `league`
# and `sensitivity`, which take hours, are not made again: remove those to be replaced.
set -eu
program=$1
list=$2
cards=bench/results/$list
mkdir -p "$cards"

# Judges controller $2 on stack $1 with the options that follow. A controller that fails criteria
# makes `judge` exit with 1: that is a result.
judge() {
  stack=$1
  controller=$2
  shift 2
  card="$cards/$stack-$(echo "$controller" | tr ':=,/' '----').json"
  [ "$kept" = yes ] && [ -e "$card" ] && return
  "$program" judge "$controller" --stack "$stack" --json "$card" "$@" >/dev/null || [ $? = 1 ]
}

kept=no
case $list in
league)
  kept=yes
  for own in plumb reno cubic sync dca vegas dual sdc highspeed gentle ledbat ledbat-pp copa dctcp \
    packet-size; do judge quinn "$own"; done
  for native in cubic new-reno bbr; do judge quinn "native:$native"; done
  for native in cubic new-reno bbr3; do judge noq "native:$native"; done
  for native in cubic reno bbr2; do judge quiche "native:$native"; done
  ;;
sensitivity) # PROGRAM is examples/broken.rs, which has the broken controllers.
  kept=yes
  for controller in cubic reno ignores-loss never-grows halves-on-every-ack starves-others \
    believes-a-liar leaks-window leaves-slow-start-late keeps-its-first-share greedy-beside-others; do
    judge quinn "$controller"
  done
  ;;
bbr)
  judge quinn native:bbr --profile bbr --seeds 10
  judge noq native:bbr3 --profile bbr --seeds 10
  judge quiche native:bbr2 --profile bbr --seeds 10
  # Not BBRs: which cases can be passed by any sender?
  judge quinn native:cubic --profile bbr --seeds 10
  judge quinn vegas --profile bbr --seeds 10
  ;;
rmcat)
  for media in scream scream:signal=rtt scream:steady=off gcc gcc:signal=rtt; do
    judge quinn "$media" --profile rmcat --seeds 10
  done
  # Not for media: which cases can be passed by any sender?
  for other in cubic copa sync:cut=round; do judge quinn "$other" --profile rmcat --seeds 10; done
  judge noq scream --profile rmcat --seeds 10
  judge quiche scream --profile rmcat --seeds 10
  ;;
*)
  echo "cards.sh: unknown list '$list'" >&2
  exit 2
  ;;
esac
