//! Commands of which a line that works is typed by other tests: here only one that fails.

use super::{Case, not_here};

/// They need nothing of the folder, and come last.
pub(super) const ELSEWHERE: &[Case] = &[
    not_here(
        "outhaul-hub clock",
        "it takes a decision of a time to come, see `audited.rs` of the hub",
        "--by ann --reason test --state nowhere",
    ),
    not_here(
        "outhaul-hub lost",
        "it takes a report whose text is gone from a server, see `postgresql_backup.rs` of the hub",
        "--site edge-1 --epoch e1 --number 1 --reason test --by ann --state nowhere",
    ),
    not_here(
        "outhaul-hub explanation remove",
        "it takes an explanation that is on record, see the hub's tests",
        "sha256:nowhere --by ann --state nowhere",
    ),
    not_here(
        "outhaul-hub import explanation",
        "it takes what `outhaul explain --whole` writes, see the hub's tests",
        "nowhere.json --by ann --state nowhere",
    ),
    not_here(
        "outhaul-hub import kalypso",
        "it takes what a Kalypso hub exports, see the hub's tests",
        "nowhere.yaml --state nowhere",
    ),
    not_here(
        "outhaul-hub move",
        "it takes a PostgreSQL server, see the hub's tests",
        "--to postgres://nobody@localhost/nothing --state nowhere",
    ),
];
