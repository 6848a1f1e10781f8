//! The agent's integration tests: the real program, driven as people, systemd and power cuts drive it.
//!
//! What comes in: fleets with real keys and the bundles that they sign, made per test. What goes out:
//! exit codes, messages, files on disk, signed reports. Nothing here looks into the agent.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

mod afterwards;
mod agent_update;
mod ansible;
mod ansible_content;
mod argocd;
mod argocd_sets;
mod backups;
mod bootstrap;
mod clocks;
mod cluster_logins;
mod conditions;
mod conformance;
mod cut_batches;
mod damaged_database;
mod definitions;
mod failed_returns;
mod fleet;
mod flux;
mod flux_charts;
mod foreign_folders;
mod held_content;
mod hook_page;
mod hooks;
mod hostile_media;
mod identity_pieces;
mod import;
mod in_one_call;
mod kept_roots;
mod lost_memory;
mod lost_settings;
mod media;
mod network;
mod not_now;
mod on_site;
mod one_assignment;
mod order_trust;
mod orders;
mod other_targets;
mod overlays;
mod owners;
mod parity;
mod parity_attacks;
mod parity_set;
mod patches;
mod people;
mod plans;
mod plugged_in;
mod power_cut;
mod probes;
mod put_back;
mod reconciler_argocd;
mod reconciler_fleet;
mod reconciler_flux;
mod reconciler_kubernetes;
mod reconciler_symphony;
mod reconciler_zarf;
mod reconcilers;
mod refusals;
mod refused_site;
mod rekey;
mod reports;
mod rescued_reports;
mod restored_floors;
mod restores;
mod same_stick;
mod saved_databases;
mod saved_holds;
mod served;
mod server;
mod service;
mod settings;
mod since;
mod site;
mod site_values;
mod situations;
mod slips;
mod split;
mod split_attacks;
mod split_cuts;
mod split_kubernetes;
mod status_tells;
mod stuck;
mod taken_away;
mod tls;
mod told;
mod trusted_clock;
mod twins;
mod volumes;
mod waits;
mod waves;
mod web;
mod what_lacks;
mod wrong_kit;
mod wrong_stick;

/// A file that nobody declares would silently test nothing.
#[test]
fn no_test_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/runner");
    let declared = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(
            ["main", "snapshots"].contains(&module) || declared.contains(&format!("mod {module};")),
            "{name}"
        );
    }
}
mod zarf;
