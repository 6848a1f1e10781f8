#!/bin/sh
# Prints one label with the platform config beside it. Run from the folder above.
set -eu
. ./platform-config.sh
new="$LABEL_TEXT ($ENVIRONMENT, $LABEL_WIDTH_MM mm)"
if [ -f label.txt ] && [ "$(cat label.txt)" = "$new" ]; then
    echo "unchanged: $new"
else
    printf '%s\n' "$new" > label.txt
    echo "printed: $new"
fi
