#!/usr/bin/env bash
# Makes the peers' Python environment: make_environment.sh [FOLDER], by default target/bench/peers of the repository.
#
# Does nothing where it is already made from these requirements. What pip says is in FOLDER/log. Exit codes: 0 it is there,
# 2 no Python 3.12 or later with venv, 3 packages could not be had (no network, or none for this Python), each with one line
# on standard error. PYTHON names the Python to use. PyTorch is taken from its own index (PYTORCH_INDEX), which has it
# without GPU libraries, and from PyPI where that cannot be reached.
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
mkdir -p "$folder" && "$python" -m venv "$folder" || fail 2 "$python could not make an environment at $folder"

pip() {
    "$folder/bin/python" -m pip install --disable-pip-version-check "$@" >>"$folder/log" 2>&1
}

: >"$folder/log"
pip --no-deps -r "$here/requirements.txt" ||
    fail 3 "jax, pytensor and what they stand on could not be installed: $(tail -1 "$folder/log")"
pip --no-deps --retries 0 --timeout 15 --index-url "$torch_index" -r "$here/requirements-torch.txt" ||
    pip -r "$here/requirements-torch.txt" ||
    fail 3 "torch could not be installed: $(tail -1 "$folder/log")"
"$folder/bin/python" -c 'import jax, torch, pytensor, safetensors' >>"$folder/log" 2>&1 ||
    fail 3 "the packages do not start: $(tail -1 "$folder/log")"
echo "$requirements" >"$folder/made_from"
