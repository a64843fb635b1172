#!/bin/sh
# Runs a study with eight concurrent processes into an object store. One process is killed, and four
# make the same runs as others. The merged result has to equal that of a single machine, byte for byte.
# The store is moto, which implements S3's protocol. Usage: s3.sh PROGRAM FOLDER. Needs Python 3 with
# venv; FATHOM_MOTO may name an installed moto_server.
set -eu

fathom=$(realpath "$1")
mkdir -p "$2"
dir=$(realpath "$2")
plan=$(realpath "$(dirname "$0")/study.toml")
port=$((20000 + $$ % 20000))
cd "$dir"
rm -rf alone logs ./*.json
mkdir logs

say() { printf '%s  %s\n' "$(date +%T)" "$*"; }
moto=${FATHOM_MOTO:-$dir/venv/bin/moto_server}
if [ ! -x "$moto" ]; then
  python3 -m venv venv
  venv/bin/pip install --quiet 'moto[server]>=5.1,<6'
fi
"$moto" -H 127.0.0.1 -p "$port" > moto.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
export AWS_ENDPOINT_URL="http://127.0.0.1:$port" AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_REGION=us-east-1
export NO_PROXY=127.0.0.1
tries=0
until curl --silent --fail --output /dev/null --request PUT "$AWS_ENDPOINT_URL/sweep"; do
  tries=$((tries + 1))
  [ "$tries" -lt 600 ] || { cat moto.log; exit 1; }
  sleep 0.2
done
at=s3://sweep/results
signed() { curl --silent --fail --aws-sigv4 aws:amz:us-east-1:s3 --user any:any "$@"; }
object() { echo "$AWS_ENDPOINT_URL/sweep/results/study/$1"; }

# Runs each of the parts 1 to 4 twice, so that two processes make every run and the second finds the
# first's result.
writers=""
for part in 1 2 3 4; do
  for twin in a b; do
    "$fathom" plan run "$plan" --results "$at" --jobs 1 --part "$part/4" > "logs/$part$twin" 2>&1 &
    writers="$writers $!"
  done
done
victim=${writers##* }
tries=0
until [ "$("$fathom" plan status "$plan" --results "$at" --json 2>/dev/null | sed -n 's/.*"done": \([0-9]*\).*/\1/p')" -ge 20 ]; do
  tries=$((tries + 1)); [ "$tries" -lt 600 ] || { cat logs/*; exit 1; }
  sleep 0.2
done
kill -9 "$victim"
for pid in $writers; do
  [ "$pid" = "$victim" ] || wait "$pid" || { cat logs/*; exit 1; }
done
say "eight writers, one of them killed: $("$fathom" plan status "$plan" --results "$at" | head -n 1)"
made=$(grep -hc '^[0-9]*/[0-9]* ' logs/* | awk '{ sum += $1 } END { print sum }')
refused=$(grep -c 'PUT.*study/[0-9a-f]*[.]json.* 412 -$' moto.log || true)
say "$made runs were made by all together, $refused puts found what was there before them"

"$fathom" plan run "$plan" --results "$at" --json merged.json > /dev/null 2>&1
"$fathom" plan run "$plan" --results alone --json alone.json > /dev/null 2>&1
cmp merged.json alone.json
say "$(wc -c < merged.json) bytes of JSON, equal to a single machine's: $(sha256sum < merged.json | cut -c1-16)"

# Stores another result of the last of fifty runs while the first run is made, as another build would.
# This result has to stay, and the error has to name the run.
last=$("$fathom" plan runs "$plan" --only buffer=20 --only controller=sdc | tail -n 1 | cut -c1-16)
signed "$(object "$last.json")" | sed 's/"seconds":20/"seconds":21/' > other.json
for one in $("$fathom" plan runs "$plan" --only buffer=20 | cut -c1-16); do
  signed --output /dev/null --request DELETE "$(object "$one.json")"
done
"$fathom" plan run "$plan" --results "$at" --jobs 1 --only buffer=20 > logs/differs 2>&1 &
writer=$!
tries=0
until grep -q '^1/50 ' logs/differs; do
  tries=$((tries + 1)); [ "$tries" -lt 600 ] || { cat logs/differs; exit 1; }
  sleep 0.2
done
signed --output /dev/null --upload-file other.json "$(object "$last.json")"
if wait "$writer"; then say "nobody noticed that a result differs"; exit 1; fi
grep "$last" logs/differs
signed "$(object "$last.json")" | cmp - other.json
say "the first result stayed"
