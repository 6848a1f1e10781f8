//! The in-toto statement of a bundle: these contents were rendered from these commits by this tool.
//!
//! What comes in: an index and the bills of materials. What goes out: a statement (in-toto v1) with
//! SLSA's provenance predicate (v1). The statement travels inside the bundle whose index lists it, so
//! its subject cannot be that index; it is the [`contents_list`], which anyone can make again from the
//! index or from an unpacked bundle with `sha256sum`.

use std::fmt::Write as _;

use outhaul_bundle::index::{File, Source};
use outhaul_bundle::{Digest, Index};
/// The envelope's payload type.
pub use outhaul_kit::carried::STATEMENT as PAYLOAD_TYPE;
use serde_json::{Value, json};

use crate::verified::VerifiedImage;

/// The kind of predicate.
pub const PREDICATE_TYPE: &str = "https://slsa.dev/provenance/v1";
/// What kind of build the predicate speaks of; its parameters are explained in the documentation.
pub const BUILD_TYPE: &str = "https://outhaul.dev/render/v1";

/// What the statement is about, in the form of `sha256sum`: a digest, two spaces, a name. The first
/// line is the snapshot; then, sorted, for each assignment its config's version and every file:
/// `<assignment>/config`, `<assignment>/files/<path>`, `<assignment>/payload/<path>`; and the same
/// below `<assignment>/sites/<site>` for each site that has its own values. `<assignment>/sites` is
/// the digest of the names, one a line, where an assignment is for some sites only.
pub fn contents_list(index: &Index) -> String {
    let mut lines = Vec::new();
    for assignment in &index.assignments {
        let name = &assignment.name;
        lines.push(format!(
            "{}  {name}/config",
            assignment.config_version.hex()
        ));
        if let Some(sites) = &assignment.sites {
            let names: Vec<&str> = sites.iter().map(AsRef::as_ref).collect();
            let digest = Digest::of(names.join("\n").as_bytes());
            lines.push(format!("{}  {name}/sites", digest.hex()));
        }
        for overlay in &assignment.overlays {
            for site in &overlay.sites {
                let version = overlay.config_version.hex();
                lines.push(format!("{version}  {name}/sites/{site}/config"));
                let file =
                    |f: &File| format!("{}  {name}/sites/{site}/files/{}", f.content.hex(), f.path);
                lines.extend(overlay.files.iter().map(file));
            }
        }
        for (folder, files) in [
            ("files", &assignment.files),
            ("payload", &assignment.payload),
        ] {
            for file in files {
                lines.push(format!(
                    "{}  {name}/{folder}/{}",
                    file.content.hex(),
                    file.path
                ));
            }
        }
    }
    for image in &index.served.images {
        let digest = image.manifest.digest.hex();
        lines.push(format!("{digest}  served/images/{}", image.name));
    }
    for one in &index.served.repositories {
        let digest = one.pack.digest.hex();
        lines.push(format!("{digest}  served/repositories/{}", one.url));
        let refs = one.refs.iter();
        lines.extend(
            refs.map(|(name, commit)| format!("{commit}  served/repositories/{} {name}", one.url)),
        );
    }
    lines.sort_unstable();
    let mut text = format!("{}  snapshot\n", index.snapshot.digest.hex());
    for line in lines {
        // Writing to a text does not fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The statement's bytes. `verified`: images whose signatures were verified.
pub fn statement(
    index: &Index,
    materials: &[(String, Vec<u8>)],
    verified: &[VerifiedImage],
) -> Vec<u8> {
    let stream = &index.stream;
    let snapshot = &index.snapshot;
    let sources = [&snapshot.environment, &snapshot.base]
        .into_iter()
        .chain(&snapshot.workloads);
    let images = verified.iter().map(VerifiedImage::dependency);
    let dependencies = sources.map(dependency).chain(images);
    let version = env!("CARGO_PKG_VERSION");
    let subject =
        |name: String, digest: Digest| json!({"name": name, "digest": {"sha256": digest.hex()}});
    let contents = Digest::of(contents_list(index).as_bytes());
    let mut subjects = vec![subject(
        format!("{}/{}/contents", stream.role, index.number),
        contents,
    )];
    let materials = materials.iter();
    subjects.extend(materials.map(|(name, bytes)| subject(name.clone(), Digest::of(bytes))));
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "fleet": index.fleet,
                    "environment": stream.environment,
                    "clusterType": stream.cluster_type,
                    "number": index.number,
                    "recipients": index.recipients,
                },
                "internalParameters": {"snapshot": snapshot.digest},
                "resolvedDependencies": dependencies.collect::<Vec<_>>(),
            },
            "runDetails": {
                "builder": {"id": format!("https://outhaul.dev/outhaul@{version}"), "version": {"outhaul": version}},
                "metadata": {"invocationId": format!("{}/{}/{}", index.fleet, stream.role, index.number)},
            },
        },
    })
    .to_string()
    .into_bytes()
}

fn dependency(source: &Source) -> Value {
    let digest = match source.commit.strip_prefix("sha256:") {
        Some(content) => json!({"sha256": content}),
        None => json!({"gitCommit": source.commit}),
    };
    let mut dependency = json!({"name": source.name, "digest": digest});
    if !source.repo.is_empty() {
        dependency["uri"] = format!("git+{}", source.repo).into();
    }
    dependency
}

#[cfg(test)]
mod tests {
    use outhaul_bundle::fake::FakeBundle;

    use super::*;

    fn index() -> Index {
        FakeBundle::new(7, &[("b.yaml", b"b"), ("a.yaml", b"a")])
            .unwrap()
            .index
    }

    #[test]
    fn the_list_of_contents_is_one_that_sha256sum_makes() {
        let hex = |bytes: &[u8]| Digest::of(bytes).hex();
        let index = index();
        let mut lines: Vec<_> = contents_list(&index).lines().map(str::to_owned).collect();
        assert_eq!(lines.remove(0), format!("{}  snapshot", hex(b"snapshot")));
        let mut expected = [
            format!("{}  hello-world-test/files/a.yaml", hex(b"a")),
            format!("{}  hello-world-test/files/b.yaml", hex(b"b")),
            format!("{}  hello-world-test/config", hex(b"config")),
        ];
        expected.sort();
        assert_eq!(lines, expected);
    }

    #[test]
    fn every_change_of_content_path_or_snapshot_changes_the_subject() {
        let before = contents_list(&index());
        let all: [fn(&mut Index); 5] = [
            |index| index.assignments[0].files[0].content = Digest::of(b"other"),
            |index| index.assignments[0].files[0].path = "c.yaml".parse().unwrap(),
            |index| index.assignments[0].config_version = Digest::of(b"other"),
            |index| index.snapshot.digest = Digest::of(b"other"),
            |index| {
                let files = index.assignments[0].files.clone();
                index.assignments[0]
                    .overlays
                    .push(outhaul_bundle::index::Overlay {
                        sites: ["drone-1".parse().unwrap()].into(),
                        config_version: Digest::of(b"own"),
                        files,
                    });
            },
        ];
        for change in all {
            let mut changed = index();
            change(&mut changed);
            assert_ne!(contents_list(&changed), before);
        }
    }

    #[test]
    fn it_names_every_commit_and_no_time() {
        let materials = [(super::super::SBOM.to_owned(), b"sbom".to_vec())];
        let bytes = statement(&index(), &materials, &[]);
        assert_eq!(bytes, statement(&index(), &materials, &[]));
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["_type"], "https://in-toto.io/Statement/v1");
        assert_eq!(
            value["subject"][1]["digest"]["sha256"],
            Digest::of(b"sbom").hex()
        );
        let dependencies = &value["predicate"]["buildDefinition"]["resolvedDependencies"];
        assert_eq!(dependencies.as_array().unwrap().len(), 3);
        assert_eq!(
            dependencies[2]["uri"],
            "git+https://example.org/hello-world"
        );
        assert_eq!(
            dependencies[2]["digest"]["gitCommit"],
            "0123456789abcdef0123456789abcdef01234567"
        );
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("startedOn") && !text.contains("2026"));
    }

    #[test]
    fn a_folder_without_a_commit_is_named_by_its_content() {
        let source = Source {
            name: "dev".into(),
            repo: String::new(),
            commit: Digest::of(b"x").to_string(),
        };
        let value = dependency(&source);
        assert_eq!(value["digest"]["sha256"], Digest::of(b"x").hex());
        assert!(value.get("uri").is_none());
    }
}
