#!/usr/bin/env bash
# Puts a package of Debian's, and what it needs that this system lacks, into the folder that is named. Without
# root: packages are unpacked, not installed. Libraries are found there with LD_LIBRARY_PATH.
set -euo pipefail

folder=$1
package=$2

for tool in apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || {
        echo "$package is taken from Debian's packages: no $tool here. Install it, so that it is on PATH." >&2
        exit 1
    }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p unpacked

# What an installation would add, downloaded; the arguments are options of apt-get.
download() {
    local wanted
    wanted=$(apt-get --quiet=2 "$@" --simulate --no-install-recommends install "$package" \
        | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
    [ -n "$wanted" ] || return 1
    # shellcheck disable=SC2086 # one argument for each package
    apt-get --quiet=2 "$@" download $wanted
}

# The system's lists of packages may be empty or out of date, and only root may renew them: then lists of our own.
# They stay beside the folder, for the next package.
lists=$(dirname "$folder")/apt
mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
own=(-o "Dir::State::Lists=$lists/lists" -o "Dir::Cache=$lists/cache" -o APT::Sandbox::User=)
exec 9>"$lists/lock" # packages are fetched side by side
flock 9
if ! download -o APT::Sandbox::User= 2>/dev/null && ! download "${own[@]}" 2>/dev/null; then
    apt-get --quiet=2 "${own[@]}" update
    download "${own[@]}"
fi
flock -u 9
for archive in ./*.deb; do
    dpkg-deb --extract "$archive" unpacked
done
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mv unpacked "$folder"
