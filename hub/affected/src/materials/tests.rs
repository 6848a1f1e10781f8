//! Documents as the centre writes them.

use super::*;

const IMAGE: &str = r#"{"bomFormat":"CycloneDX","specVersion":"1.6","metadata":{"component":{"type":"container","name":"app:1",
    "version":"sha256:ab","properties":[{"name":"outhaul:not-listed","value":"x"},{"name":"outhaul:no-packages","value":"linux/arm64"},
    {"name":"outhaul:unread-packages","value":"linux/amd64: rpm"},{"name":"outhaul:unread","value":"linux/s390x: damaged"}]}},
  "components":[{"type":"operating-system","name":"debian","version":"12"},
    {"type":"library","name":"libssl3","version":"3.0.11-1","purl":"pkg:deb/debian/libssl3@3.0.11-1?arch=amd64&distro=debian-12",
     "properties":[{"name":"outhaul:source","value":"openssl 3.0.11-1"}]},
    {"type":"library","name":"odd","version":"1"},
    {"type":"library","name":"left-pad","version":"1","purl":"pkg:npm/left-pad@1"}]}"#;

#[test]
fn packages_of_an_image_and_what_is_not_known_of_it_are_read() {
    let materials = Materials::read(IMAGE.as_bytes()).unwrap();
    let names: Vec<_> = materials
        .components
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["libssl3", "odd"]);
    let ssl = &materials.components[0];
    assert_eq!(
        (ssl.advised_name(), ssl.advised_version()),
        ("openssl", "3.0.11-1")
    );
    assert_eq!(ssl.distribution.release, "12");
    assert_eq!(materials.unknown.len(), 3, "{:?}", materials.unknown);
}

#[test]
fn images_of_a_bundle_name_their_documents() {
    let text = r#"{"bomFormat":"CycloneDX","components":[
        {"type":"container","name":"docker.io/library/nginx","version":"1.27","purl":"pkg:oci/nginx?tag=1.27","properties":[
            {"name":"outhaul:assignment","value":"shop"},{"name":"outhaul:sbom","value":"image-ab.cdx.json"}]},
        {"type":"container","name":"docker.io/library/redis","version":"sha256:cd"},
        {"type":"file","name":"a/b.deb","properties":[{"name":"outhaul:unreadable","value":"it is cut off"}]}]}"#;
    let materials = Materials::read(text.as_bytes()).unwrap();
    let [nginx, redis] = &materials.images[..] else {
        panic!("{materials:?}")
    };
    assert_eq!(nginx.name, "docker.io/library/nginx:1.27");
    assert_eq!(nginx.document.as_deref(), Some("image-ab.cdx.json"));
    assert_eq!(
        (redis.name.as_str(), &redis.document),
        ("docker.io/library/redis@sha256:cd", &None)
    );
    assert_eq!(materials.components.len(), 2);
    assert!(materials.unknown.iter().any(|why| why.contains("a/b.deb")));
}

#[test]
fn what_is_no_document_is_refused() {
    for (text, problem) in [("[", "not JSON"), (r#"{"bomFormat":"SPDX"}"#, "CycloneDX")] {
        let error = Materials::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}
