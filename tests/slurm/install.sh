#!/bin/sh
# Install what the Slurm tests need (Debian, root). Called by .ci/run; does nothing where it is all there.
set -eu
missing=
for package in slurmctld slurmd slurm-client munge slurmdbd mariadb-server-core mariadb-client-core; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get -o DPkg::Lock::Timeout=300 update -qq
# Unquoted on purpose: a list of package names.
apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $missing >/dev/null
