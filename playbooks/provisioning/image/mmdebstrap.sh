#!/bin/sh
# An image by mmdebstrap: ./mmdebstrap.sh SUITE IMAGE.tar HOSTTUNE.pyz TARGET.json
# TARGET.json is a record of the hardware that it is for: `sudo hosttune record TARGET.json` there.
set -eu
suite=$1 image=$2 pyz=$(realpath "$3") record=$(realpath "$4")
HOSTTUNE_PYZ=$pyz HOSTTUNE_RECORD=$record mmdebstrap --include=systemd-sysv,python3 \
    --customize-hook='python3 "$HOSTTUNE_PYZ" apply --root "$1" --hardware "$HOSTTUNE_RECORD" --yes || [ $? -eq 1 ]' \
    "$suite" "$image"
