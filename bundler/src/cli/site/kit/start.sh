#!/bin/sh
# Makes this machine the site that is named below, or brings a site up to date. As root:  sh start.sh
#
# `outhaul site kit` wrote it and printed its digest (sha256sum), which you got by another way than this stick. Below
# are the digests of everything that it installs: they are compared before anything is installed. What is in the
# bundle the agent verifies by itself. It needs no network, and may be run again as often as you like.
#
# Exit codes: 0 done; 1 something was refused or failed, and the lines above say what runs; 2 this machine is another
# site; 3 the machine or the stick: full, read-only, something missing; 4 something on the stick was changed.

site=SITE
kit=$site.kit
files='FILES'

work=/var/lib/outhaul-start
state=${OUTHAUL_STATE:-/var/lib/outhaul-agent}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 3
stick=$(dirname -- "$here")

# fail CODE MESSAGE HELP: says what happened and what to do, and ends.
fail() {
    printf 'error: %s\nhelp: %s\n' "$2" "$3" >&2
    exit "$1"
}

# agent COMMAND…: as the user that the state belongs to.
agent() {
    user=$(stat -c %u "$state" 2>/dev/null || echo 0)
    if [ "$user" = 0 ]; then
        outhaul-agent --state "$state" "$@"
    else
        setpriv --reuid "$user" --regid "$(stat -c %g "$state")" --clear-groups outhaul-agent --state "$state" "$@"
    fi
}

# The files onto this machine, and their digests there: what a stick gives back twice may differ.
fetch() {
    changed='' unread=''
    while read -r digest size name; do
        from=$here/$name
        if [ -e "$from" ] && { [ -L "$from" ] || [ ! -f "$from" ] || [ "$(stat -c %s "$from")" != "$size" ]; }; then
            changed="$changed
  $from"
        elif ! reason=$(cp -- "$from" "$work/$name" 2>&1); then
            unread="$unread
  $reason"
        elif [ "$(sha256sum <"$work/$name" | cut -d ' ' -f 1)" != "$digest" ]; then
            changed="$changed
  $from"
        fi
    done <<END
$files
END
    [ -z "$changed" ] || fail 4 "nothing was installed: this is not what the centre put on the stick:$changed" \
        "do not use this stick; keep it, and ask the centre for another one"
    [ -z "$unread" ] || fail 3 "nothing was installed, because files of the stick could not be copied to $work:$unread" \
        "with files missing, start the script where it lies on the stick; with no space left, free some (df -h /var/lib); else the stick is damaged: ask for another one"
}

# What dpkg has of the agent's package.
status() { dpkg-query -W -f '${db:Status-Status}' outhaul-agent 2>/dev/null; }

# The packages for this machine's processor.
install_packages() {
    processor=$(dpkg --print-architecture)
    set --
    there=''
    while read -r _ _ name; do
        case $name in
        *_"$processor".deb | *_all.deb) set -- "$@" "$work/$name" ;;
        *.deb) there="$there $name" ;;
        esac
    done <<END
$files
END
    [ $# -gt 0 ] || fail 3 "nothing was installed: this machine is $processor, and the stick has no package for it, only:$there" \
        "ask the centre for a stick with the package for $processor (outhaul site kit --package)"
    # What an interrupted installation left is installed again.
    if [ "$(status)" = installed ]; then set -- --skip-same-version "$@"; fi
    DEBIAN_FRONTEND=noninteractive dpkg --refuse-downgrade --install "$@" >"$work/dpkg.log" 2>&1 || {
        code=$?
        cat "$work/dpkg.log" >&2
        fail 3 "dpkg ended with exit code $code and the lines above; nothing of Outhaul was started, and what ran before still runs" \
            "do what dpkg's lines say (a lock: wait until the other program has ended), and run this again"
    }
    [ "$(status)" = installed ] || {
        cat "$work/dpkg.log" >&2
        fail 3 "the package is not installed, but '$(status)'; what ran before still runs" "do what dpkg's lines say, and run this again"
    }
    dpkg-query -W -f 'package: ${Package} ${Version}, ${db:Status-Status}\n' outhaul-agent
}

# Settings that came along; those of the machine are someone's work and stay.
install_settings() {
    [ -e "$work/agent.toml" ] || return 0
    new=$state/.agent.toml.new
    if [ ! -e "$state/agent.toml" ]; then
        if ! { cp "$work/agent.toml" "$new" && chown --reference="$state" "$new" && sync "$new" && mv "$new" "$state/agent.toml"; }; then
            fail 3 "the settings could not be written into $state; the package is installed, nothing was applied" "free space, and run this again"
        fi
        echo "settings: $state/agent.toml"
    elif ! cmp -s "$work/agent.toml" "$state/agent.toml"; then
        echo "settings: $state/agent.toml is not what is on the stick, and stays as it is"
    fi
}

enrol() {
    said=$(agent enrol "$work/$kit" 2>&1) || {
        code=$?
        printf '%s\n' "$said" >&2
        [ "$code" -ne 2 ] || fail 2 "this machine is another site than $site; $1" "take the stick to $site, or run the script of this machine's own folder on the stick"
        fail "$code" "this machine could not be made the site $site; $1" "do what the lines above say, and run this again"
    }
}

main() {
    [ "$(id -u)" = 0 ] || fail 3 "this has to be run by root; nothing was changed" "sudo sh $here/start.sh"
    for program in dpkg sha256sum flock setpriv; do
        command -v "$program" >/dev/null || fail 3 "there is no program '$program' on this machine; nothing was changed" \
            "this script is for Debian and its relatives; elsewhere install the agent by hand and type: outhaul-agent enrol $here/$kit"
    done
    umask 077
    # Root's own folder; what a killed run left in it goes.
    mkdir -p "$work" || fail 3 "no folder could be made in /var/lib; nothing was changed" "free space (df -h /var/lib), and run this again"
    exec 9>"$work.lock"
    flock -n 9 || fail 3 "this script runs on this machine already; nothing was changed" "wait until it has ended, and run this again"
    trap 'rm -rf "$work" "$work.lock"' EXIT
    trap 'exit 130' HUP INT TERM
    rm -f "$work"/*
    fetch
    # The agent's user reads the kit, and only the kit; the packages stay root's.
    if [ -e "$state" ]; then
        chmod 0711 "$work"
        chown --reference="$state" "$work/$kit"
    fi
    # Before anything is installed: whether this is the machine.
    if [ -e "$state/site.key" ] && command -v outhaul-agent >/dev/null; then
        enrol "nothing was changed"
    fi
    install_packages
    install_settings
    enrol "the package is installed, nothing was applied"
    printf '%s\n' "$said"

    worst=0
    set -- "$stick"/*.outhaul
    if [ -e "$1" ]; then
        echo "bundles of $stick:"
        agent import "$stick" || worst=$?
    else
        echo "no bundle found in $stick: nothing is applied until one comes"
    fi
    echo "reports to $stick:"
    agent export "$stick" || {
        code=$?
        [ "$worst" -ne 0 ] || worst=$code
        echo "they stay on this machine, too, and are written when you run this again" >&2
    }
    if [ -d /run/systemd/system ] && ! systemctl is-active --quiet outhaul-agent.service; then
        systemctl start outhaul-agent.service && echo "service: outhaul-agent.service runs"
    fi
    sync -f "$stick"
    echo
    agent status || true
    echo
    if [ "$worst" -eq 0 ]; then
        echo "done: unmount the stick (umount $stick) and carry it back to the centre; when it comes again, run this again"
    else
        echo "not all was done (exit code $worst): do what the lines above say; the stick goes back to the centre in any case" >&2
    fi
    exit "$worst"
}

# Read to its end before it begins: the stick may be pulled out.
main
