//! The bodies of the centre's fuzz targets, as property tests.
//!
//! What comes in: any bytes, and files of the example with some of them changed. What must come out: no
//! panic, and what the bodies assert.

use proptest::prelude::*;

// The bodies pack charts with it.
use flate2 as _;

#[path = "../../../fuzz/bodies/centre.rs"]
mod bodies;

const FILES: &[&str] = &[
    include_str!("../../../examples/factory/label-printer/source/workload.yaml"),
    super::cli::CLUSTER_TYPE,
    super::cli::POLICY,
];

const INDEX: &str = "apiVersion: v1\nentries:\n  app:\n  - apiVersion: v2\n    digest: \
    ababababababababababababababababababababababababababababababababab\n    name: app\n    urls:\n    - charts/app-1.2.3.tgz\n    \
    version: 1.2.3\ngenerated: \"2026-01-02T03:04:05Z\"\n";

/// The tar of a chart: a header of 512 bytes before each file.
fn chart() -> Vec<u8> {
    let files = [
        (
            "app/Chart.yaml",
            "apiVersion: v2\nname: app\nversion: 1.2.3\nappVersion: '1'\ndependencies: [{name: sub}]\n",
        ),
        (
            "app/values.yaml",
            "image: {repository: team/app, tag: ''}\nsub: {image: a:1}\n",
        ),
        (
            "app/templates/a.yaml",
            "image: {{ include \"x\" . }}\n{{ define \"x\" }}{{ .Values.image.tag }}{{ end }}\n",
        ),
        ("app/charts/sub/Chart.yaml", "name: sub\nversion: 1.0.0\n"),
    ];
    let mut all = Vec::new();
    for (path, text) in files {
        let mut header = [0_u8; 512];
        header[..path.len()].copy_from_slice(path.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
        header[148..156].copy_from_slice(b"        ");
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        all.extend_from_slice(&header);
        all.extend_from_slice(text.as_bytes());
        all.resize(all.len().next_multiple_of(512), 0);
    }
    all
}

#[test]
fn the_chart_that_is_changed_below_is_one() {
    let chart = outhaul_needs::chart::Chart::read(&chart());
    assert!(chart.is_err_and(|problem| problem.contains("does not unpack")));
    bodies::chart_archive(&self::chart());
}

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
    fn fuzz_chart_index_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        bodies::chart_index(&bytes);
    }

    #[test]
    fn fuzz_chart_index_with_changed_bytes(
        at in any::<usize>(), with in "[\\[\\]{}&*!|>:,#\"' \na-z\u{1b}-]{0,12}",
    ) {
        bodies::chart_index(&changed(INDEX, at, with.as_bytes()));
    }

    #[test]
    fn fuzz_chart_archive_with_changed_bytes(
        at in any::<usize>(), with in prop::collection::vec(any::<u8>(), 0..12),
    ) {
        let mut bytes = chart();
        let at = at % bytes.len();
        let end = (at + with.len()).min(bytes.len());
        bytes.splice(at..end, with);
        bodies::chart_archive(&bytes);
    }

    #[test]
    fn fuzz_url_of_any_bytes(text in ".{0,60}") {
        bodies::url(text.as_bytes());
    }
}
