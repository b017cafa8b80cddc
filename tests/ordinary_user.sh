#!/usr/bin/env bash
# Run the tests that permissions decide as an ordinary user: root, whom CI runs as, may read and write everything.
# Checkout and environment are copied into a folder of that user, since the folders above them may be closed to others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
user=datacomp-tester
tests=(
    tests/tasks/test_files.py tests/tasks/test_fingerprints.py tests/tasks/test_one_writer.py
    tests/tasks/test_receipts.py tests/tasks/convert/test_output_folder.py tests/tasks/audit/test_findings.py
    tests/flows/test_two_at_once.py tests/ordinary_user.py
)
if [ "$(id -u)" != 0 ]; then
    echo "ordinary_user.sh: not root, so every test has run as an ordinary user already"
    exit 0
fi
python="$(pwd)/.venv/bin/python"
created=
if ! id "$user" >/dev/null 2>&1; then
    useradd --system --user-group --no-create-home --shell /bin/sh "$user"
    created=yes
fi
home="$(mktemp -d /tmp/ordinary-user.XXXXXX)"
trap 'rm -rf "$home"; [ -z "$created" ] || userdel "$user" || true' EXIT
chmod 755 "$home"

# Files of a checkout without Git's own folder and without the environment.
mkdir "$home/checkout"
tar --exclude=./.git --exclude=./.venv --exclude=./build --exclude=./.mypy_cache -cf - . | tar -xf - -C "$home/checkout"
chown -R "$user:" "$home"

as_user() {
    setpriv --reuid="$user" --regid="$user" --clear-groups --reset-env \
        env HOME="$home" TMPDIR="$home/tmp" PYTHONPATH="$home/checkout" PYTHONDONTWRITEBYTECODE=1 "$@"
}
as_user mkdir "$home/tmp"

# The interpreter: the one the environment was made from, or a copy where that is closed to the user.
base="$("$python" -c 'import sys; print(sys.base_prefix)')"
version="$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')"
if ! as_user "$base/bin/$version" -c 'import ssl, sqlite3' 2>/dev/null; then
    mkdir "$home/interpreter"
    tar --exclude=site-packages --exclude="lib/$version/test" -C "$base" -cf - bin lib | tar -xf - -C "$home/interpreter"
    base="$home/interpreter"
fi
as_user env LD_LIBRARY_PATH="$base/lib" "$base/bin/$version" -m venv --without-pip "$home/environment"

# Hard links where the file system allows them: the environment is large. The user cannot write to them.
packages="$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
rm -r "$home/environment/lib/$version/site-packages"
cp -al "$packages" "$home/environment/lib/$version/" 2>/dev/null ||
    { rm -rf "$home/environment/lib/$version/site-packages"; cp -a "$packages" "$home/environment/lib/$version/"; }
rm -f "$home/environment/lib/$version/site-packages"/__editable__*datacomp_energon*

cd "$home/checkout"
as_user env LD_LIBRARY_PATH="$base/lib" "$home/environment/bin/python" -m pytest -q -p no:cacheprovider "${tests[@]}"
