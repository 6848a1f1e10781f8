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

#[path = "runner/afterwards.rs"]
mod afterwards;
#[path = "runner/agent_update.rs"]
mod agent_update;
#[path = "runner/ansible.rs"]
mod ansible;
#[path = "runner/argocd.rs"]
mod argocd;
#[path = "runner/backups.rs"]
mod backups;
#[path = "runner/centre.rs"]
mod centre;
#[path = "runner/clocks.rs"]
mod clocks;
#[path = "runner/conditions.rs"]
mod conditions;
#[path = "runner/conformance.rs"]
mod conformance;
#[path = "runner/draft.rs"]
mod draft;
#[path = "runner/flux.rs"]
mod flux;
#[path = "runner/hook_page.rs"]
mod hook_page;
#[path = "runner/hooks.rs"]
mod hooks;
#[path = "runner/hostile_media.rs"]
mod hostile_media;
#[path = "runner/import.rs"]
mod import;
#[path = "runner/lost_memory.rs"]
mod lost_memory;
#[path = "runner/media.rs"]
mod media;
#[path = "runner/network.rs"]
mod network;
#[path = "runner/not_now.rs"]
mod not_now;
#[path = "runner/one_assignment.rs"]
mod one_assignment;
#[path = "runner/order_trust.rs"]
mod order_trust;
#[path = "runner/orders.rs"]
mod orders;
#[path = "runner/overlays.rs"]
mod overlays;
#[path = "runner/people.rs"]
mod people;
#[path = "runner/plans.rs"]
mod plans;
#[path = "runner/plugged_in.rs"]
mod plugged_in;
#[path = "runner/power_cut.rs"]
mod power_cut;
#[path = "runner/reconciler_argocd.rs"]
mod reconciler_argocd;
#[path = "runner/reconciler_flux.rs"]
mod reconciler_flux;
#[path = "runner/reconciler_kubernetes.rs"]
mod reconciler_kubernetes;
#[path = "runner/reconcilers.rs"]
mod reconcilers;
#[path = "runner/refusals.rs"]
mod refusals;
#[path = "runner/refused_site.rs"]
mod refused_site;
#[path = "runner/rekey.rs"]
mod rekey;
#[path = "runner/reports.rs"]
mod reports;
#[path = "runner/served.rs"]
mod served;
#[path = "runner/server.rs"]
mod server;
#[path = "runner/service.rs"]
mod service;
#[path = "runner/since.rs"]
mod since;
#[path = "runner/site.rs"]
mod site;
#[path = "runner/site_values.rs"]
mod site_values;
#[path = "runner/situations.rs"]
mod situations;
#[path = "runner/slips.rs"]
mod slips;
#[path = "runner/split.rs"]
mod split;
#[path = "runner/split_attacks.rs"]
mod split_attacks;
#[path = "runner/split_cuts.rs"]
mod split_cuts;
#[path = "runner/split_kubernetes.rs"]
mod split_kubernetes;
#[path = "runner/status_tells.rs"]
mod status_tells;
#[path = "runner/stuck.rs"]
mod stuck;
#[path = "runner/tls.rs"]
mod tls;
#[path = "runner/trusted_clock.rs"]
mod trusted_clock;
#[path = "runner/volumes.rs"]
mod volumes;
#[path = "runner/waits.rs"]
mod waits;
#[path = "runner/waves.rs"]
mod waves;
#[path = "runner/wrong_stick.rs"]
mod wrong_stick;

/// A file that nobody declares would silently test nothing.
#[test]
fn no_test_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/runner");
    let declared = include_str!("runner.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(declared.contains(&format!("\"runner/{name}\"")), "{name}");
    }
}
