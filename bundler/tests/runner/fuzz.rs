//! The bodies of the centre's fuzz targets, as property tests.
//!
//! What comes in: any bytes, and files of the example with some of them changed. What must come out: no
//! panic, and what the bodies assert.

use proptest::prelude::*;

#[path = "../../../fuzz/bodies/centre.rs"]
mod bodies;

const FILES: &[&str] = &[
    include_str!("../../../examples/factory/label-printer/source/workload.yaml"),
    super::cli::CLUSTER_TYPE,
    super::cli::POLICY,
];

const PROJECT: &str = "control_plane = \"planes/control\"\ncontrol_plane_branch = \"main\"\nfleet = \"fleet\"\n\
    hub = \"https://hub.example\"\nhub_ca = \"ca.pem\"\nallow_hosts = [\"127.0.0.1:3000\"]\n\
    [sources]\n\"https://git.example/app#dev\" = \"../app\"\n";

fn changed(text: &str, at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let at = at % bytes.len();
    let end = (at + with.len()).min(bytes.len());
    bytes.splice(at..end, with.iter().copied());
    bytes
}

proptest! {
    #[test]
    fn fuzz_control_plane_of_any_bytes(text in ".{0,300}") {
        bodies::control_plane(text.as_bytes());
    }

    #[test]
    fn fuzz_control_plane_with_changed_bytes(
        file in 0..FILES.len(), at in any::<usize>(), with in "[\\[\\]{}&*!|>:,#\"' \na-z\u{1b}-]{0,12}",
    ) {
        bodies::control_plane(&changed(FILES[file], at, with.as_bytes()));
    }

    #[test]
    fn fuzz_service_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        bodies::service(&bytes);
    }

    #[test]
    fn fuzz_project_of_any_bytes(text in ".{0,300}") {
        bodies::project(text.as_bytes());
    }

    #[test]
    fn fuzz_project_with_changed_bytes(
        at in any::<usize>(), with in "[\\[\\]{}=.,#\"'\\\\ \na-z\u{1b}-]{0,12}",
    ) {
        bodies::project(&changed(PROJECT, at, with.as_bytes()));
    }

    #[test]
    fn fuzz_webhook_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        bodies::webhook(&bytes);
    }

    #[test]
    fn fuzz_url_of_any_bytes(text in ".{0,60}") {
        bodies::url(text.as_bytes());
    }
}
