#!/bin/sh
# Builds the documentation site into target/site/book: the pages of docs/ and the API documentation of the crates. `make site`
set -eu
site=target/site
rm -rf "$site/src" "$site/book"
mkdir -p "$site/src"
cp docs/site/book.toml docs/site/site.css "$site/"
cp docs/site/SUMMARY.md "$site/src/"
# The same places as in the repository: relative links lead to the same pages.
cp --parents -t "$site/src" README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE* docs/*.md docs/papers/*.md docs/figures/* \
  bench/results/figures/* interop/peers/README.md deploy/README.md cc/quiche/patch/README.md
# The API documentation is rustdoc's; a page here leads to it.
{
  echo "# API documentation"
  echo
  echo "Of the crates that one can depend on."
  echo
  echo "| crate | |"
  echo "|---|---|"
  for manifest in cc cc/units frames bench/netsim cc/plugin cc/quinn cc/noq cc/noq/h3; do
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest/Cargo.toml" | head -n 1)
    about=$(sed -n 's/^description = "\(.*\)"/\1/p' "$manifest/Cargo.toml")
    printf '| [`%s`](api/%s/index.html) | %s |\n' "$name" "$(echo "$name" | tr - _)" "$about"
  done
} >"$site/src/api.md"
printf '%s\n' '- [API documentation](api.md)' >>"$site/src/SUMMARY.md"
mdbook build "$site"
cp -r target/doc "$site/book/api"
echo "$site/book/index.html"
