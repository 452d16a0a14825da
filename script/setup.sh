# Creates .venv and installs the checkout into it, once for each state of pyproject.toml and of the
# sources of kernels, which are compiled with it.
# Source it, then call `set_up <extra>`.

set_up() {
    local extra=$1 python=${PYTHON:-python3} stamp loudness
    stamp=".venv/.installed-$extra-$(
        cat pyproject.toml src/drumlin/records/kernels/{,code/,toolchain/}*.py | sha256sum | cut -c1-16
    )"
    if [ ! -e "$stamp" ]; then
        if ! "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "Drumlin needs Python 3.11 or later with venv; '$python' is not. Set PYTHON." >&2
            exit 1
        fi
        [ -x .venv/bin/python ] || { echo "Creating .venv ..."; "$python" -m venv .venv; }
        echo "Installing drumlin[$extra] into .venv (a few minutes the first time) ..."
        # A person wants to see that it goes on; a log need not hold every download.
        [ -t 1 ] && loudness= || loudness=--quiet
        .venv/bin/python -m pip install $loudness --disable-pip-version-check --no-compile -e ".[$extra]"
        touch "$stamp"
    fi
    # Nothing was compiled above: each module is at its first import. Where bytecode may not be
    # written, every worker and server that is started would compile all its imports again.
    unset PYTHONDONTWRITEBYTECODE
    export PATH="$PWD/.venv/bin:$PATH" VIRTUAL_ENV="$PWD/.venv"
}
