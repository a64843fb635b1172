#!/usr/bin/env bash
# Lays the patch files out as commits, and writes commits back as patch files.
set -euo pipefail
export LC_ALL=C

usage() {
  cat <<'USAGE'
Usage: edit.sh open FOLDER    make FOLDER a git repository of stock quiche's src/ with one commit per patch file
       edit.sh save FOLDER    write each of its commits to the patch file that the commit's first line names

In between, change what you like with git: amend a commit (git commit --fixup, git rebase -i --autosquash --root), add one, drop one.
A commit's first line is the file's name, NN-what.patch, in ascending order; the rest of its message is the file's leading text.

The sources are those that FATHOM_QUICHE_SOURCE names, or Cargo's copy (run `cargo fetch` if there is none).
USAGE
}

die() {
  echo "edit.sh: $*" >&2
  exit 1
}

readonly version=0.30.0
readonly root="stock quiche $version"
patches=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly patches
# The repository of FOLDER and no other, whatever the caller's git settings.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

in_folder() {
  git -C "$folder" -c core.autocrlf=false -c core.hooksPath=/dev/null -c commit.gpgSign=false \
    -c user.name=edit.sh -c user.email=edit.sh@localhost "$@"
}

sources() {
  local found
  if [ -n "${FATHOM_QUICHE_SOURCE:-}" ]; then
    found=$FATHOM_QUICHE_SOURCE
  else
    for found in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/quiche-"$version"; do
      [ -d "$found" ] && break
    done
  fi
  grep -qsx "version = \"$version\"" "$found/Cargo.toml" && [ -d "$found/src" ] ||
    die "no sources of quiche $version at $found; run \`cargo fetch\`, or set FATHOM_QUICHE_SOURCE to them"
  printf '%s\n' "$found"
}

open() {
  local stock patch name
  stock=$(sources)
  [ ! -e "$folder" ] || [ -z "$(ls -A "$folder")" ] || die "$folder is not empty"
  mkdir -p "$folder"
  cp -R "$stock/src" "$folder/src"
  chmod -R u+w "$folder/src"
  git init --quiet "$folder"
  in_folder add --all --force src
  in_folder commit --quiet --message "$root"
  for patch in "$patches"/*.patch; do
    name=$(basename "$patch")
    in_folder apply --index "$patch" || die "$name does not fit; $folder has the commits before it"
    # The leading text ends where the first diff begins.
    { printf '%s\n\n' "$name"; sed -n '/^diff --git \|^--- a\//q;p' "$patch"; } |
      in_folder commit --quiet --cleanup=whitespace --file=-
  done
  echo "$folder: $(in_folder rev-list --count HEAD) commits; change them, then: $0 save $folder"
}

save() {
  local base commit name before="" new text
  [ -d "$folder/.git" ] || die "$folder is not what \`edit.sh open\` made"
  [ -z "$(in_folder status --porcelain)" ] || die "$folder has changes that are in no commit; commit or drop them"
  base=$(in_folder rev-list --max-parents=0 HEAD)
  [ "$(in_folder log -1 --format=%s "$base")" = "$root" ] || die "$folder does not begin with '$root'"
  [ -z "$(in_folder rev-list --merges HEAD)" ] || die "$folder has merges; patches are applied one after the other"
  new=$(mktemp -d)
  # shellcheck disable=SC2064 # The folder is known now and not later.
  trap "rm -rf '$new'" EXIT
  for commit in $(in_folder rev-list --reverse "$base..HEAD"); do
    name=$(in_folder log -1 --format=%s "$commit")
    [[ $name =~ ^[0-9][0-9]-[a-z0-9-]+\.patch$ ]] || die "'$name' (${commit:0:7}) is not a patch file's name, NN-what.patch"
    [[ $name > $before ]] || die "$name comes after $before: patches are applied in the order of their names"
    before=$name
    [ -z "$(in_folder diff --name-only "$commit^" "$commit" -- ':!src')" ] || die "$name changes more than src/"
    [ -z "$(in_folder diff --name-only --no-renames --diff-filter=AD "$commit^" "$commit")" ] ||
      die "$name adds or deletes a file; new code belongs in cc/quiche/src/fathom"
    text=$(in_folder log -1 --format=%b "$commit")
    {
      [ -z "$text" ] || printf '%s\n\n' "$text"
      in_folder diff --no-color --no-ext-diff --no-renames --unified=3 --abbrev=7 --diff-algorithm=myers \
        --src-prefix=a/ --dst-prefix=b/ "$commit^" "$commit"
    } >"$new/$name"
    grep -q '^--- a/src/' "$new/$name" || die "$name changes nothing"
  done
  [ -n "$before" ] || die "$folder has no commit after '$root'"
  for name in "$new"/*.patch; do
    if ! cmp -s "$name" "$patches/$(basename "$name")"; then
      cp "$name" "$patches/"
      echo "wrote $(basename "$name")"
    fi
  done
  for name in "$patches"/*.patch; do
    [ -e "$new/$(basename "$name")" ] || echo "no commit is called $(basename "$name"): delete the file if it is to go" >&2
  done
}

case "${1:-}" in
  -h | --help) usage ;;
  open | save)
    [ $# = 2 ] && [ -n "$2" ] || { usage >&2; exit 2; }
    folder=$2
    "$1"
    ;;
  *) usage >&2; exit 2 ;;
esac
