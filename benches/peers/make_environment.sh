#!/usr/bin/env bash
# Builds the peers' Python environment: make_environment.sh [FOLDER], by default target/bench/peers of the repository.
#
# Does nothing if FOLDER was already built from these requirements. pip's output goes to FOLDER/log. Exits with 0 on
# success, with 2 if there is no Python 3.12 or later with venv, and with 3 if packages cannot be installed (no network,
# or no packages for this Python). A failure prints one line on standard error. PYTHON names the Python to use. PyTorch
# comes from its own index (PYTORCH_INDEX), which has builds without GPU libraries, or from PyPI if that index cannot be
# reached.
set -u
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../../target/bench/peers}
usable() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }
python=${PYTHON:-python3}
for newer in python3.14 python3.13 python3.12; do
    usable "$python" || python=$newer
done
torch_index=${PYTORCH_INDEX:-https://download.pytorch.org/whl/cpu}

requirements=$(cat "$here/requirements.txt" "$here/requirements-torch.txt" | cksum)
[ "$(cat "$folder/made_from" 2>/dev/null)" = "$requirements" ] && exit 0

fail() {
    echo "peers: $2" >&2
    exit "$1"
}

usable "$python" || fail 2 "no Python 3.12 or later with venv (PYTHON names another than python3)"
mkdir -p "$folder" && "$python" -m venv "$folder" || fail 2 "$python could not create an environment in $folder"

pip() {
    "$folder/bin/python" -m pip install --disable-pip-version-check "$@" >>"$folder/log" 2>&1
}

: >"$folder/log"
pip --no-deps -r "$here/requirements.txt" ||
    fail 3 "jax, pytensor and their dependencies could not be installed: $(tail -1 "$folder/log")"
pip --no-deps --retries 0 --timeout 15 --index-url "$torch_index" -r "$here/requirements-torch.txt" ||
    pip -r "$here/requirements-torch.txt" ||
    fail 3 "torch could not be installed: $(tail -1 "$folder/log")"
"$folder/bin/python" -c 'import jax, torch, pytensor, safetensors' >>"$folder/log" 2>&1 ||
    fail 3 "the packages cannot be imported: $(tail -1 "$folder/log")"
echo "$requirements" >"$folder/made_from"
