#!/bin/sh
echo carrier > "$REFRAIN_OUT"
cat data/missing.csv | sort >> "$REFRAIN_OUT"
