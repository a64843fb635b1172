#!/bin/sh
# Makes target/dist/fathom-VERSION-TARGET.tar.gz of a built program: the program, completions, manual pages, licences, and its SHA-256.
# `deploy/archive.sh PROGRAM TARGET`
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
# The same bytes whenever the same commit is packed.
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -C target/dist -cf - "$name" | gzip -n > "$folder.tar.gz"
(cd target/dist && sha256sum "$name.tar.gz" > "$name.tar.gz.sha256")
echo "$folder.tar.gz"
