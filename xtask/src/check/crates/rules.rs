//! Which crate must not depend on what, and why: a table.
//!
//! What comes in: nothing. What goes out: [`RULES`]. What is looked up with it is in `crates`.

use super::{CENTRE, MANIFESTS, OUTSIDE, PROGRAMS, Rule, SERVERS_AND_STORES, TESTS};

mod outside_the_centre;

pub(super) use outside_the_centre::OUTSIDE_THE_CENTRE;

/// What knows nothing of the product: no format, no key, no connection.
const NO_PRODUCT: &[&[&str]] = &[
    &OUTSIDE,
    &CENTRE,
    MANIFESTS,
    &["outhaul-bundle", "outhaul-signer"],
    PROGRAMS,
];

pub(super) const RULES: &[Rule] = &[
    Rule {
        member: "outhaul-kit",
        never: NO_PRODUCT,
        why: "what all programs share knows no rule of the product",
    },
    Rule {
        member: "outhaul-http",
        never: &[
            &CENTRE,
            MANIFESTS,
            &[
                "axum",
                "hyper",
                "outhaul-bundle",
                "outhaul-signer",
                "postgres",
                "rusqlite",
                "tokio",
            ],
            PROGRAMS,
        ],
        why: "the HTTP client knows no format, no key and no protocol above HTTP",
    },
    Rule {
        member: "outhaul-listen",
        never: &[
            &CENTRE,
            MANIFESTS,
            &[
                "axum",
                "outhaul-bundle",
                "outhaul-signer",
                "postgres",
                "rusqlite",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "how servers listen knows no route, no format and no database",
    },
    Rule {
        member: "outhaul-place",
        never: NO_PRODUCT,
        why: "where programs may write follows from the names that lie there",
    },
    Rule {
        member: "outhaul-bundle",
        never: &[&OUTSIDE, &CENTRE, MANIFESTS, &["outhaul-signer"], PROGRAMS],
        why: "the formats are pure: no network, no database, no keys",
    },
    Rule {
        member: "outhaul-signer",
        never: &[&OUTSIDE, &CENTRE, MANIFESTS, &["outhaul-bundle"], PROGRAMS],
        why: "trust must be small enough to read, and never online",
    },
    Rule {
        member: "outhaul-seal",
        never: NO_PRODUCT,
        why: "who encrypts for a site needs no signature, no format and no connection",
    },
    Rule {
        member: "outhaul-sites",
        never: &[
            &[
                "axum",
                "outhaul-control",
                "outhaul-git",
                "outhaul-load",
                "outhaul-plane",
                "outhaul-promote",
                "outhaul-ship",
                "postgres",
                "rusqlite",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "what is known of a site are its records and its signed reports",
    },
    Rule {
        member: "outhaul-control",
        never: &[
            SERVERS_AND_STORES,
            &[
                "minijinja",
                "jsonschema",
                "outhaul-git",
                "outhaul-gocompat",
                "outhaul-load",
                "outhaul-plane",
                "outhaul-ship",
                "outhaul-signer",
            ],
            PROGRAMS,
        ],
        why: "what people write is read from text alone",
    },
    Rule {
        member: "outhaul-diff",
        never: &[
            &OUTSIDE,
            &[
                "outhaul-git",
                "outhaul-load",
                "outhaul-ship",
                "outhaul-signer",
            ],
            PROGRAMS,
        ],
        why: "what a change does follows from what the stages made",
    },
    Rule {
        member: "outhaul-plane",
        never: &[
            SERVERS_AND_STORES,
            &[
                "outhaul-git",
                "outhaul-load",
                "outhaul-ship",
                "outhaul-signer",
            ],
            PROGRAMS,
        ],
        why: "a control plane becomes files without git, network, clock or signature",
    },
    Rule {
        member: "outhaul-load",
        never: &[
            SERVERS_AND_STORES,
            &["outhaul-promote", "outhaul-remote", "outhaul-ship"],
            PROGRAMS,
        ],
        why: "who loads opens no connection but git's, and knows no destination",
    },
    Rule {
        member: "outhaul-import",
        never: &[
            SERVERS_AND_STORES,
            &[
                "outhaul-promote",
                "outhaul-registry",
                "outhaul-remote",
                "outhaul-ship",
            ],
            PROGRAMS,
        ],
        why: "what compares a Kalypso installation opens no connection but git's, and knows no destination",
    },
    Rule {
        member: "outhaul-needs",
        never: &[
            SERVERS_AND_STORES,
            &[
                "outhaul-load",
                "outhaul-plane",
                "outhaul-promote",
                "outhaul-registry",
                "outhaul-remote",
                "outhaul-ship",
                "outhaul-signer",
            ],
            PROGRAMS,
        ],
        why: "what is needed is found in what is written, whatever is made of it",
    },
    Rule {
        member: "outhaul-ship",
        never: &[
            SERVERS_AND_STORES,
            &["outhaul-promote", "outhaul-registry", "outhaul-remote"],
            PROGRAMS,
        ],
        why: "who ships opens no connection but git's: forges and hubs are asked by the program",
    },
    Rule {
        member: "outhaul-copy",
        never: &[
            SERVERS_AND_STORES,
            &["outhaul-promote", "outhaul-registry", "outhaul-remote"],
            PROGRAMS,
        ],
        why: "who copies what was signed asks nobody: reports of sites are read by the program",
    },
    Rule {
        member: "outhaul-registry",
        never: &[
            &[
                "axum",
                "outhaul-control",
                "outhaul-git",
                "outhaul-plane",
                "outhaul-promote",
                "outhaul-ship",
                "postgres",
                "rusqlite",
                "tokio",
            ],
            PROGRAMS,
        ],
        why: "who pulls images knows neither control planes nor what becomes of them",
    },
    Rule {
        member: "outhaul-publish",
        never: &[
            &[
                "axum",
                "outhaul-control",
                "outhaul-git",
                "outhaul-plane",
                "outhaul-promote",
                "outhaul-ship",
                "outhaul-signer",
                "postgres",
                "rusqlite",
                "tokio",
            ],
            PROGRAMS,
        ],
        why: "who publishes what was signed knows neither control planes nor keys",
    },
    Rule {
        member: "outhaul-remote",
        never: &[
            &["axum", "outhaul-promote", "postgres", "rusqlite", "tokio"],
            PROGRAMS,
        ],
        why: "who asks over HTTPS serves nothing and decides nothing",
    },
    Rule {
        member: "outhaul-attest",
        never: &[
            &OUTSIDE,
            &["outhaul-git", "outhaul-registry", "outhaul-ship"],
            PROGRAMS,
        ],
        why: "what a bundle says of itself follows from its contents: no registry, no repository, no destination",
    },
    Rule {
        member: "outhaul-blame",
        never: &[
            &[
                "axum",
                "hyper",
                "outhaul-promote",
                "outhaul-remote",
                "outhaul-ship",
                "postgres",
                "rusqlite",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "who looks for a cause reads reports and commits: it asks no hub and ships nothing",
    },
    Rule {
        member: "outhaul-check",
        never: &[&["axum", "postgres", "rusqlite", "tokio"], PROGRAMS],
        why: "who checks an environment serves nothing and keeps no database",
    },
    Rule {
        member: "outhaul-promote",
        never: &[&["axum", "postgres", "rusqlite", "tokio"], PROGRAMS],
        why: "a promotion is one commit: it serves nothing and keeps no database",
    },
    Rule {
        member: "outhaul-pins",
        never: &[
            SERVERS_AND_STORES,
            &["outhaul-control", "outhaul-plane", "outhaul-signer"],
            PROGRAMS,
        ],
        why: "what was pinned is a file: no control plane, key or connection",
    },
    Rule {
        member: "outhaul-scaffold",
        never: &[&["axum", "postgres", "rusqlite", "tokio"], PROGRAMS],
        why: "who writes what people begin with serves nothing and keeps no database",
    },
    Rule {
        member: "outhaul-git",
        never: &[
            &CENTRE,
            MANIFESTS,
            SERVERS_AND_STORES,
            &["outhaul-control", "outhaul-plane", "outhaul-signer"],
            PROGRAMS,
        ],
        why: "who speaks git knows no control plane, no key and no forge",
    },
    Rule {
        member: "outhaul-gocompat",
        never: &[SERVERS_AND_STORES, PROGRAMS],
        why: "templates see no network and no database",
    },
    Rule {
        member: "outhaul-algorithms",
        never: &[
            &OUTSIDE,
            &CENTRE,
            MANIFESTS,
            &["outhaul-bundle", "outhaul-kit", "outhaul-signer"],
            PROGRAMS,
        ],
        why: "whether a signature holds follows from bytes alone",
    },
    Rule {
        member: "outhaul-cosign",
        never: &[
            &OUTSIDE,
            MANIFESTS,
            &[
                "outhaul-control",
                "outhaul-git",
                "outhaul-plane",
                "outhaul-registry",
                "outhaul-ship",
                "outhaul-signer",
            ],
            PROGRAMS,
        ],
        why: "whether an image is signed asks nobody: keys, trusted roots and contents come in",
    },
    Rule {
        member: "outhaul-bundler",
        never: &[&["outhaul-agent", "outhaul-hub"], TESTS],
        why: "agent, bundler and hub never import one another, nor what only tests stand on",
    },
    Rule {
        member: "outhaul-test-kit",
        never: &[
            &OUTSIDE,
            &CENTRE,
            MANIFESTS,
            &[
                "outhaul-content",
                "outhaul-desired",
                "outhaul-enrol",
                "outhaul-http",
                "outhaul-listen",
                "outhaul-site",
                "outhaul-sites",
                "outhaul-store",
                "outhaul-tests",
            ],
            PROGRAMS,
        ],
        why: "what tests stand on is used by the unit tests of every crate but the formats and trust",
    },
    Rule {
        member: "outhaul-test-planes",
        never: &[
            &OUTSIDE,
            &[
                "outhaul-git",
                "outhaul-http",
                "outhaul-load",
                "outhaul-plane",
                "outhaul-ship",
                "outhaul-test-kit",
                "outhaul-tests",
            ],
            PROGRAMS,
        ],
        why: "control planes of tests are used by the unit tests of what schedules, renders and ships",
    },
];
