//! What fuzzing does with foreign bytes that claim to be a file of a control plane, the service's
//! configuration, a project file, a webhook, a URL in one of them, an index of charts, or the archive of one.
//!
//! What comes in: any bytes. What goes out: nothing; no body may panic, and what is printed of a finding
//! may steer no terminal. cargo-fuzz runs them from `fuzz/targets`, proptest from `bundler/tests`.

use std::path::Path;
use std::sync::Arc;

use outhaul_bundler::project::Project;
use outhaul_bundler::serve::{ServeConfig, knows_secret};
use outhaul_control::Diagnostics;
use outhaul_control::diagnostic::SourceFile;
use outhaul_control::kinds;
use outhaul_git::source::{Cache, GitReference, SourceMap, open};
use outhaul_git::terminal;
use outhaul_needs::chart::{self, Chart};

/// A YAML file of a control plane or of a team.
pub fn control_plane(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let file = Arc::new(SourceFile {
        name: "fuzz.yaml".to_owned(),
        text: text.to_owned(),
    });
    let mut findings = Diagnostics::new();
    for object in kinds::read_file(&file, &mut findings) {
        assert!(!object.name().is_empty());
    }
    let printed = findings.render(false);
    let printed = terminal::plain(&printed);
    assert!(!printed.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
}

/// `serve.toml`.
pub fn service(bytes: &[u8]) {
    ServeConfig::parse(&String::from_utf8_lossy(bytes), "serve.toml").ok();
}

/// `outhaul.toml`: what is accepted fits the command line, and what is not has its place.
pub fn project(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Project::parse(text, "outhaul.toml", Path::new("/plant")) {
        Ok(project) => {
            for value in project.values.values().flat_map(|value| &value.texts) {
                assert!(!value.is_empty() && !value.contains(char::is_control));
            }
        }
        Err(findings) => {
            assert!(findings.iter().all(|one| one.location.is_some()));
            let printed = findings.render(false);
            let printed = terminal::plain(&printed);
            assert!(!printed.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}

/// A webhook: half of it is a header's value, half the body. Nobody guesses the secret.
pub fn webhook(bytes: &[u8]) {
    let (header, body) = bytes.split_at(bytes.len() / 2);
    for name in ["x-hub-signature-256", "x-gitea-signature", "x-gitlab-token"] {
        assert!(!knows_secret(
            b"It's a Secret to Everybody",
            name,
            header,
            body
        ));
    }
}

/// A URL that a team wrote: it never opens what lies here. Names are not resolved.
pub fn url(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let url = format!("file://{text}");
    let cache = Cache::at("/nonexistent/outhaul-fuzz");
    for url in [url.as_str(), &format!("/{text}"), &format!("ext::{text}")] {
        assert!(open(url, &GitReference::Head, &SourceMap::default(), &cache).is_err());
    }
}

/// `index.yaml` of a chart repository: what is read of it is bounded, and can be shown.
pub fn chart_index(bytes: &[u8]) {
    const MAX: u64 = 1 << 20;
    if let Ok(index) = outhaul_registry::chart_index::read(bytes, MAX) {
        for (name, versions) in &index.charts {
            assert!(!name.contains(char::is_control));
            for version in versions {
                assert!(!version.version.is_empty());
                assert!(!version.version.contains(char::is_control));
            }
        }
    }
}

/// The archive of a chart, packed and as the tar in it.
pub fn chart_archive(bytes: &[u8]) {
    use std::io::Write as _;
    let level = flate2::Compression::fast();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), level);
    packed.write_all(bytes).ok();
    let packed = packed.finish().unwrap_or_default();
    for archive in [bytes, &packed] {
        match Chart::read(archive) {
            Ok(chart) => {
                assert!(!chart.name.is_empty() && !chart.version.is_empty());
                let found = chart::images(&chart, None);
                assert!(found.images.iter().all(|image| !image.is_empty()));
            }
            Err(problem) => assert!(!problem.is_empty()),
        }
    }
}
