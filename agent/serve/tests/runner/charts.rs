//! Chart repositories as they are served: the index, the archives, and what they are not.

use outhaul_serve::digest::Digest;
use serde_json::json;

use crate::site::{Layout, MANIFEST, Site};

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const ARCHIVE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const INDEX: &str = "/charts.example:8443/Stable/index.yaml";
const FILE: &str = "/charts.example:8443/Stable/charts/app-1.0.0+x.tgz";

/// A chart in a layout, as the centre makes it.
fn chart(layout: &mut Layout, name: &str, version: &str, url: &str, archive: &[u8]) -> Digest {
    let config = json!({ "apiVersion": "v2", "name": "app", "version": version });
    let config = layout.descriptor(CONFIG, config.to_string().as_bytes());
    let content = layout.descriptor(ARCHIVE, archive);
    let manifest = json!({
        "schemaVersion": 2, "config": config, "layers": [content],
        "annotations": {
            "dev.outhaul.chart.repository": url,
            "dev.outhaul.chart.path": format!("charts/app-{version}.tgz"),
        },
    });
    layout.entry(Some(name), MANIFEST, &manifest);
    Digest::of(archive)
}

const URL: &str = "https://charts.example:8443/Stable";
const NAME: &str = "charts.example:8443/stablex0123/index.yaml/app";

#[test]
fn a_repository_is_found_by_its_host_and_behind_the_mirror_s_address_and_lists_what_is_there() {
    let (site, server) = Site::serving(|layout| {
        chart(layout, &format!("{NAME}:2.0.0"), "2.0.0", URL, b"two");
        chart(layout, &format!("{NAME}:1.0.0_x"), "1.0.0+x", URL, b"one");
    });
    let index = server.get(INDEX);
    assert_eq!(index.status, 200);
    assert!(index.is_whole());
    let expected = json!({ "apiVersion": "v1", "entries": { "app": [
        {
            "apiVersion": "v2", "name": "app", "version": "1.0.0+x",
            "digest": Digest::of(b"one").hex(), "urls": ["charts/app-1.0.0+x.tgz"],
        },
        {
            "apiVersion": "v2", "name": "app", "version": "2.0.0",
            "digest": Digest::of(b"two").hex(), "urls": ["charts/app-2.0.0.tgz"],
        },
    ]}});
    assert_eq!(index.json(), expected);
    let host = [("Host", "charts.example:8443")];
    let by_host = server.request("GET", "/Stable/index.yaml", &host);
    assert_eq!((by_host.status, &by_host.body), (200, &index.body));
    assert_eq!(server.get(FILE).body, b"one");
    let by_host = server.request("GET", "/Stable/charts/app-1.0.0%2Bx.tgz", &host);
    assert_eq!((by_host.status, &*by_host.body), (200, &b"one"[..]));
    // The same bytes at another start, and nothing again for whoever has them.
    assert_eq!(site.serve().get(INDEX).body, index.body);
    let known = [("If-None-Match", index.header("etag"))];
    assert_eq!(server.request("GET", INDEX, &known).status, 304);
    let head = server.request("HEAD", INDEX, &[]);
    assert_eq!(head.header("content-length"), index.body.len().to_string());
    assert_eq!(head.body, b"");
    let part = server.request("GET", FILE, &[("Range", "bytes=1-")]);
    assert_eq!((part.status, &*part.body), (206, &b"ne"[..]));
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        assert_eq!(server.request(method, INDEX, &[]).status, 405, "{method}");
        assert_eq!(server.request(method, FILE, &[]).status, 405, "{method}");
    }
    for other in [
        "/charts.example:8443/stable/index.yaml",
        "/charts.example/Stable/index.yaml",
        "/charts.example:8443/Stable/charts/app-3.0.0.tgz",
        "/charts.example:8443/Stable/charts/app-1.0.0+x.tgz/index.yaml",
        "/charts.example:8443/index.yaml",
    ] {
        let answer = server.get(other);
        assert_eq!(answer.status, 404, "{other}");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(
            text.contains("here are charts.example:8443/Stable"),
            "{text}"
        );
    }
}

#[test]
fn what_claims_to_be_of_a_repository_that_it_was_not_fetched_from_is_not_served_as_its_chart() {
    let (_site, server) = Site::serving(|layout| {
        // A team's own registry has an artifact with another repository's address.
        let evil = "registry.evil/index.yaml/app:1.0.0_x";
        chart(layout, evil, "1.0.0+x", URL, b"evil");
        let same_host = "charts.example:8443/team/app:1.0.0_x";
        chart(layout, same_host, "1.0.0+x", URL, b"other");
    });
    assert_eq!(server.get(INDEX).status, 404);
    assert_eq!(server.get(FILE).status, 404);
    let log = std::fs::read_to_string(server.log.path()).unwrap();
    let problem = "it claims to be from `charts.example:8443/Stable`, where it was not fetched";
    assert_eq!(log.matches(problem).count(), 2, "{log}");
}

#[test]
fn an_archive_that_was_damaged_is_given_to_nobody() {
    let mut digest = None;
    let (site, server) = Site::serving(|layout| {
        let name = format!("{NAME}:1.0.0_x");
        digest = Some(chart(layout, &name, "1.0.0+x", URL, b"archive"));
    });
    let path = site.layout("1", "images").path(&digest.unwrap());
    std::fs::write(path, b"changed").unwrap();
    assert_eq!(server.get(FILE).status, 500);
}
