#!/bin/sh
# On the Warewulf server: ./apply-to-image.sh IMAGE RECORD, with the record of a node (`sudo hosttune record RECORD`
# there). Nodes run from memory: what is written on one is gone at its next boot, so it goes into the image.
set -eu
image=$1 record=$2
root=$(wwctl image show "$image")
hosttune apply --root "$root" --hardware "$record" --yes || [ $? -eq 1 ]
wwctl image build "$image"
