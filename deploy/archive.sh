#!/bin/sh
# Makes target/dist/fathom-VERSION-TARGET.tar.gz from a built program, with completions, manual pages
# and licences, and a file with its SHA-256. Usage: deploy/archive.sh PROGRAM TARGET
set -eu
program=$1
target=$2
version=$("$program" -V | cut -d' ' -f2)
name=fathom-$version-$target
folder=target/dist/$name
rm -rf "$folder"
mkdir -p "$folder/completions"
cp "$program" LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "$folder/"
for shell in bash zsh fish; do "$program" completions "$shell" > "$folder/completions/fathom.$shell"; done
"$program" man "$folder/man/man1"
# The same commit gives the same bytes.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -C target/dist -cf - "$name" | gzip -n > "$folder.tar.gz"
(cd target/dist && sha256sum "$name.tar.gz" > "$name.tar.gz.sha256")
echo "$folder.tar.gz"
