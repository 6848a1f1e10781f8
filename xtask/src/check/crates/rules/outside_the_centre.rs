//! The same table for the crates of sites and hubs.
//!
//! What comes in: nothing. What goes out: [`OUTSIDE_THE_CENTRE`].

use crate::check::crates::{CENTRE, MANIFESTS, PROGRAMS, Rule, SERVERS_AND_STORES, TESTS};

pub(in crate::check::crates) const OUTSIDE_THE_CENTRE: &[Rule] = &[
    Rule {
        member: "outhaul-kubernetes",
        never: &[
            &CENTRE,
            &["outhaul-bundle", "outhaul-signer", "rusqlite", "tokio"],
            PROGRAMS,
        ],
        why: "a client of the Kubernetes API knows nothing of bundles, trust or the site",
    },
    Rule {
        member: "outhaul-kalypso",
        never: &[
            SERVERS_AND_STORES,
            &["outhaul-http", "outhaul-signer", "outhaul-store"],
            PROGRAMS,
        ],
        why: "who reads Kalypso's objects knows no network, no database and no key",
    },
    Rule {
        member: "outhaul-serve",
        never: &[
            &CENTRE,
            MANIFESTS,
            &[
                "axum",
                "outhaul-bundle",
                "outhaul-signer",
                "rusqlite",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "what serves a site knows no bundle, no key, no state, and opens no connection",
    },
    Rule {
        member: "outhaul-reconcilers",
        never: &[
            &CENTRE,
            &["axum", "outhaul-signer", "postgres", "rusqlite", "tokio"],
            PROGRAMS,
        ],
        why: "who applies an assignment knows no key, no database and no machine",
    },
    Rule {
        member: "outhaul-asking",
        never: &[
            &CENTRE,
            &[
                "axum",
                "outhaul-signer",
                "outhaul-site",
                "postgres",
                "rusqlite",
            ],
            PROGRAMS,
        ],
        why: "who asks knows no key, no database and no machine",
    },
    Rule {
        member: "outhaul-apply-helper",
        never: &[&CENTRE, &["axum", "postgres"], PROGRAMS],
        why: "who may change a host is asked by the agent, and asks nobody",
    },
    Rule {
        member: "outhaul-containerd",
        never: &[
            &CENTRE,
            &[
                "axum",
                "outhaul-http",
                "outhaul-signer",
                "outhaul-site",
                "postgres",
                "rusqlite",
            ],
            PROGRAMS,
        ],
        why: "who brings images into containerd knows no key, no database and no machine",
    },
    Rule {
        member: "outhaul-content",
        never: &[&CENTRE, &["axum", "outhaul-http", "postgres"], PROGRAMS],
        why: "what a site keeps of bundles is kept without a network",
    },
    Rule {
        member: "outhaul-update",
        never: &[
            &CENTRE,
            &[
                "axum",
                "outhaul-http",
                "outhaul-reconcilers",
                "outhaul-signer",
                "outhaul-site",
                "postgres",
            ],
            PROGRAMS,
        ],
        why: "what starts another agent knows nothing that could keep it from starting",
    },
    Rule {
        member: "outhaul-values",
        never: &[
            &CENTRE,
            &[
                "axum",
                "outhaul-http",
                "outhaul-signer",
                "outhaul-site",
                "postgres",
                "rusqlite",
            ],
            PROGRAMS,
        ],
        why: "which values are used is decided from the signed index alone",
    },
    Rule {
        member: "outhaul-host",
        never: &[&CENTRE, &["axum", "postgres"], PROGRAMS],
        why: "what a machine says decides nothing by itself",
    },
    Rule {
        member: "outhaul-settings",
        never: &[&CENTRE, &["axum", "postgres"], PROGRAMS],
        why: "what a site's owner sets decides nothing by itself",
    },
    Rule {
        member: "outhaul-site",
        never: &[&CENTRE, &["axum", "postgres", "ureq"], PROGRAMS],
        why: "what a site remembers is decided without a network",
    },
    Rule {
        member: "outhaul-agent",
        never: &[
            &CENTRE,
            &["axum", "postgres", "outhaul-bundler", "outhaul-hub"],
            TESTS,
        ],
        why: "a site carries nothing that only the centre or a test needs",
    },
    Rule {
        member: "outhaul-gate",
        never: &[
            &CENTRE,
            &[
                "axum",
                "outhaul-kit",
                "outhaul-signer",
                "postgres",
                "rusqlite",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "the gate's decision is a function of what it is given",
    },
    Rule {
        member: "outhaul-access",
        never: &[
            &CENTRE,
            &[
                "axum",
                "outhaul-kit",
                "outhaul-signer",
                "postgres",
                "rusqlite",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "what a token allows is a function of what it is given",
    },
    Rule {
        member: "outhaul-affected",
        never: &[
            &CENTRE,
            &[
                "axum",
                "outhaul-kit",
                "outhaul-signer",
                "postgres",
                "rusqlite",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "which bundles an advisory is about is a function of what is on record",
    },
    Rule {
        member: "outhaul-oidc",
        never: &[
            &[
                "axum",
                "hyper",
                "minijinja",
                "outhaul-signer",
                "outhaul-store",
                "postgres",
                "rusqlite",
                "tokio",
            ],
            PROGRAMS,
        ],
        why: "who logs in is a function of settings, times and the provider's answers",
    },
    Rule {
        member: "outhaul-store",
        never: &[
            &CENTRE,
            &["axum", "hyper", "outhaul-listen", "ureq"],
            PROGRAMS,
        ],
        why: "the hub's database knows no network but that of its server",
    },
    Rule {
        member: "outhaul-desired",
        never: &[
            &CENTRE,
            &["axum", "hyper", "outhaul-listen", "ureq"],
            PROGRAMS,
        ],
        why: "what should run follows from what was signed",
    },
    Rule {
        member: "outhaul-enrol",
        never: &[
            &CENTRE,
            &["axum", "hyper", "outhaul-listen", "ureq"],
            PROGRAMS,
        ],
        why: "which sites belong to a fleet follows from what was signed and what is on record",
    },
    Rule {
        member: "outhaul-hub-state",
        never: &[
            &CENTRE,
            &["axum", "hyper", "outhaul-listen", "ureq"],
            PROGRAMS,
        ],
        why: "a folder is opened by what is in it, and its key signs what the hub gives it",
    },
    Rule {
        member: "outhaul-ingest",
        never: &[
            &CENTRE,
            &["axum", "hyper", "outhaul-listen", "ureq"],
            PROGRAMS,
        ],
        why: "what a site reported follows from what it signed and what is on record",
    },
    Rule {
        member: "outhaul-webhooks",
        never: &[&CENTRE, &["axum", "hyper", "outhaul-listen"], PROGRAMS],
        why: "what a site without an agent shows follows from its events and what is on record",
    },
    Rule {
        member: "outhaul-published",
        never: &[
            &CENTRE,
            &["outhaul-store", "postgres", "rusqlite", "ureq"],
            PROGRAMS,
        ],
        why: "what is published is files and nothing else",
    },
    Rule {
        member: "outhaul-view",
        never: &[
            &CENTRE,
            &["axum", "hyper", "outhaul-listen", "ureq"],
            PROGRAMS,
        ],
        why: "what is shown is a function of one reading of the store",
    },
    Rule {
        member: "outhaul-pages",
        never: &[
            &["axum", "hyper", "outhaul-listen", "outhaul-plane", "ureq"],
            PROGRAMS,
        ],
        why: "a page is a function of its view",
    },
    Rule {
        member: "outhaul-telemetry",
        never: &[&CENTRE, &["axum", "hyper", "outhaul-listen"], PROGRAMS],
        why: "the metrics are a function of the fleet in numbers, and a push is a request",
    },
    Rule {
        member: "outhaul-audit",
        never: &[
            &CENTRE,
            &["axum", "postgres", "rusqlite", "tokio", "ureq"],
            PROGRAMS,
        ],
        why: "what a hub decided is recomputed without the hub",
    },
    Rule {
        member: "outhaul-hub",
        never: &[&["outhaul-agent", "outhaul-bundler"], TESTS],
        why: "agent, bundler and hub never import one another, nor what only tests stand on",
    },
];
