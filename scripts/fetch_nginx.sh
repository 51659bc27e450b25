#!/usr/bin/env bash
# Puts Debian's nginx into the folder that is named, without root: the package is unpacked, not installed.
# Libraries that this system lacks are put beside it, for LD_LIBRARY_PATH.
set -euo pipefail

folder=$1
libraries=(libcrypt1 libpcre2-8-0 libssl3 zlib1g)

for tool in apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || {
        echo "nginx is taken from Debian's packages: no $tool here. Install nginx, so that it is on PATH." >&2
        exit 1
    }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p own/lists/partial own/cache/archives/partial unpacked
own=(-o "Dir::State::Lists=$work/own/lists" -o "Dir::Cache=$work/own/cache" -o APT::Sandbox::User=)

# The system's lists of packages may be empty or out of date, and only root may renew them: then lists of our own.
download() {
    if ! apt-get --quiet=2 -o APT::Sandbox::User= download "$@" 2>/dev/null; then
        apt-get --quiet=2 "${own[@]}" update
        apt-get --quiet=2 "${own[@]}" download "$@"
    fi
    for package in ./*.deb; do
        dpkg-deb --extract "$package" unpacked
        rm "$package"
    done
}

download nginx
if ! unpacked/usr/sbin/nginx -v 2>/dev/null; then
    download "${libraries[@]}"
fi
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mv unpacked "$folder"
