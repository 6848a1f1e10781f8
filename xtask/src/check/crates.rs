//! Which crate may reach which: the architecture as a table, asked of cargo.
//!
//! What comes in: the normal dependencies of each member, as cargo resolves them for that member alone.
//! What goes out: one line per dependency that must not be there, with the command that shows its way.

use anyhow::Result;

use crate::repository::normal_dependencies;

/// What renders, parses or fetches a control plane: for the centre only. The one YAML reader beside them,
/// `saphyr-parser`, also reads manifests for the Kubernetes API: see [`MANIFESTS`].
const CENTRE: [&str; 19] = [
    "git2",
    "gix",
    "gtmpl",
    "gtmpl-ng",
    "jsonschema",
    "minijinja",
    "outhaul-control",
    "outhaul-git",
    "outhaul-gocompat",
    "outhaul-import",
    "outhaul-load",
    "outhaul-needs",
    "outhaul-plane",
    "outhaul-promote",
    "outhaul-publish",
    "outhaul-registry",
    "outhaul-remote",
    "outhaul-ship",
    "yaml_serde",
];
/// What reads YAML: for the centre, and for who applies manifests.
const MANIFESTS: &[&str] = &["saphyr-parser"];
/// Networks, databases and runtimes: never below the programs.
const OUTSIDE: [&str; 10] = [
    "axum",
    "hyper",
    "postgres",
    "reqwest",
    "rusqlite",
    "rustls",
    "serde_yaml",
    "tokio",
    "ureq",
    "yaml_serde",
];

/// A member, and what it must not reach.
struct Rule {
    member: &'static str,
    never: &'static [&'static [&'static str]],
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        member: "outhaul-kit",
        never: &[
            &OUTSIDE,
            &CENTRE,
            MANIFESTS,
            &["outhaul-bundle", "outhaul-signer"],
            PROGRAMS,
        ],
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
        member: "outhaul-control",
        never: &[
            &[
                "axum",
                "hyper",
                "minijinja",
                "jsonschema",
                "outhaul-git",
                "outhaul-gocompat",
                "outhaul-load",
                "outhaul-plane",
                "outhaul-ship",
                "outhaul-signer",
                "postgres",
                "rusqlite",
                "rustls",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "what people write is read from text alone",
    },
    Rule {
        member: "outhaul-plane",
        never: &[
            &[
                "axum",
                "hyper",
                "outhaul-git",
                "outhaul-load",
                "outhaul-ship",
                "postgres",
                "rusqlite",
                "rustls",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "a control plane becomes files without git, network or clock",
    },
    Rule {
        member: "outhaul-load",
        never: &[
            &[
                "axum",
                "hyper",
                "outhaul-promote",
                "outhaul-remote",
                "outhaul-ship",
                "postgres",
                "rusqlite",
                "rustls",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "who loads opens no connection but git's, and knows no destination",
    },
    Rule {
        member: "outhaul-import",
        never: &[
            &[
                "axum",
                "hyper",
                "outhaul-promote",
                "outhaul-registry",
                "outhaul-remote",
                "outhaul-ship",
                "postgres",
                "rusqlite",
                "rustls",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "what compares a Kalypso installation opens no connection but git's, and knows no destination",
    },
    Rule {
        member: "outhaul-needs",
        never: &[
            &[
                "axum",
                "hyper",
                "outhaul-load",
                "outhaul-plane",
                "outhaul-promote",
                "outhaul-registry",
                "outhaul-remote",
                "outhaul-ship",
                "outhaul-signer",
                "postgres",
                "rusqlite",
                "rustls",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "what is needed is found in what is written, whatever is made of it",
    },
    Rule {
        member: "outhaul-ship",
        never: &[
            &[
                "axum",
                "hyper",
                "outhaul-promote",
                "outhaul-registry",
                "outhaul-remote",
                "postgres",
                "rusqlite",
                "rustls",
                "tokio",
                "ureq",
            ],
            PROGRAMS,
        ],
        why: "who ships opens no connection but git's: forges and hubs are asked by the program",
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
        member: "outhaul-promote",
        never: &[&["axum", "postgres", "rusqlite", "tokio"], PROGRAMS],
        why: "a promotion is one commit: it serves nothing and keeps no database",
    },
    Rule {
        member: "outhaul-git",
        never: &[
            &CENTRE,
            MANIFESTS,
            &[
                "axum",
                "hyper",
                "postgres",
                "rusqlite",
                "rustls",
                "tokio",
                "ureq",
                "outhaul-control",
                "outhaul-plane",
                "outhaul-signer",
            ],
            PROGRAMS,
        ],
        why: "who speaks git knows no control plane, no key and no forge",
    },
    Rule {
        member: "outhaul-gocompat",
        never: &[
            &[
                "axum", "hyper", "postgres", "rusqlite", "rustls", "tokio", "ureq",
            ],
            PROGRAMS,
        ],
        why: "templates see no network and no database",
    },
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
        ],
        why: "a site carries nothing that only the centre needs",
    },
    Rule {
        member: "outhaul-bundler",
        never: &[&["outhaul-agent", "outhaul-hub"]],
        why: "agent, bundler and hub never import one another",
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
        member: "outhaul-store",
        never: &[
            &CENTRE,
            &["axum", "hyper", "outhaul-listen", "ureq"],
            PROGRAMS,
        ],
        why: "the hub's database knows no network but that of its server",
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
        never: &[&["outhaul-agent", "outhaul-bundler"]],
        why: "agent, bundler and hub never import one another",
    },
];

const PROGRAMS: &[&str] = &["outhaul-agent", "outhaul-bundler", "outhaul-hub"];

pub fn findings() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for rule in RULES {
        let reached = normal_dependencies(rule.member)?;
        let others = |name: &&&str| **name != rule.member;
        for never in rule.never.iter().copied().flatten().filter(others) {
            let is_it = |known: &String| known.split(' ').next() == Some(*never);
            if reached.iter().any(is_it) {
                let Rule { member, why, .. } = rule;
                findings.push(format!(
                    "{member} reaches {never}: {why} (cargo tree -p {member} -e normal -i {never})"
                ));
            }
        }
    }
    Ok(findings)
}
