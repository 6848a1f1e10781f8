//! The hub's integration tests: the real program, driven as people and sites drive it.
#![expect(
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test ends where it cannot go on, and is read from top to bottom"
)]

mod access;
mod access_pages;
mod advisories;
mod alerts;
mod asked;
mod audited;
mod bad_input;
mod carried;
mod checks;
mod clocks;
mod damaged;
mod explanations;
mod gate_loop;
mod gate_rules;
mod hostile;
mod hostile_media;
mod http;
mod kalypso;
mod logins;
mod lost;
mod lost_text;
mod monitoring;
mod people;
mod people_settings;
mod postgresql;
mod postgresql_backup;
mod program;
mod provider;
mod pushed;
mod recorded_rules;
mod records;
mod reported;
mod retention;
mod secrecy;
mod sites_on_record;
mod turned_away;
mod webhook_attacks;
mod webhooks;

/// A file that nobody declares would silently test nothing.
#[test]
fn no_test_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let declared = include_str!("runner.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(
            name == "runner.rs" || declared.contains(&format!("mod {module};")),
            "{name}"
        );
    }
}
