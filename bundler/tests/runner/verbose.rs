//! What `--verbose` says: sources with their commits, what each policy chose, streams, and times.

use super::kept::Fleet;

#[test]
fn verbose_names_sources_policies_streams_and_how_long_stages_took() {
    let fleet = Fleet::new();
    let quiet = fleet.bundle(&["--renew"]);
    let seen = fleet.bundle(&["--renew", "--verbose"]);
    for part in [
        "read the control plane: 0.",
        "  environment `dev` from ",
        "  workload `app` from https://git.example.org/app at ",
        "  policy `everywhere` (",
        "scheduled: 0.",
        "composed and rendered: 0.",
        "stream `dev/drone` (",
    ] {
        assert!(seen.contains(part), "{part}: {seen}");
        assert!(!quiet.contains(part), "{part}: {quiet}");
    }
}
