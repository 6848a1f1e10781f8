//! The distribution specification, pull side and content discovery, requirement by requirement: `spec.md` at
//! 967efdc (1.1.1 and later). Each test names the sentence that it holds.

use serde_json::json;

use crate::site::{INDEX, MANIFEST, Server, Site};
use outhaul_serve::digest::Digest;

const LAYER: &[u8] = b"0123456789";

struct Fixture {
    _site: Site,
    server: Server,
    manifest: Digest,
    manifest_bytes: Vec<u8>,
    layer: Digest,
    referrer: Digest,
    second_referrer: Digest,
}

/// `docker.io/library/hello:1` with tags, a signature with an artifact type and one without.
fn fixture() -> Fixture {
    let mut found = Vec::new();
    let mut bytes = Vec::new();
    let (site, server) = Site::serving(|layout| {
        let manifest = layout.image("docker.io/library/hello:1", LAYER);
        bytes = std::fs::read(layout.path(&manifest)).unwrap();
        for tag in ["10", "B", "a", "2"] {
            layout.image(&format!("docker.io/library/hello:{tag}"), LAYER);
        }
        let empty = layout.descriptor("application/vnd.oci.empty.v1+json", b"{}");
        let subject =
            json!({ "mediaType": MANIFEST, "digest": manifest.to_string(), "size": bytes.len() });
        let signature = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/vnd.example.signature.v1+json",
            "config": empty, "layers": [], "subject": subject, "annotations": { "by": "me" },
        });
        let sbom = layout.descriptor("application/vnd.example.sbom", b"{}");
        let second = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": sbom, "layers": [], "subject": subject,
        });
        found = vec![
            manifest,
            layout.entry(None, MANIFEST, &signature),
            layout.entry(None, MANIFEST, &second),
        ];
    });
    Fixture {
        _site: site,
        server,
        manifest: found[0],
        manifest_bytes: bytes,
        layer: Digest::of(LAYER),
        referrer: found[1],
        second_referrer: found[2],
    }
}

/// Below the repository, by its path-prefixed name.
fn of(rest: &str) -> String {
    format!("/v2/docker.io/library/hello/{rest}")
}

#[test]
fn end_1_says_that_this_is_a_registry() {
    let fixture = fixture();
    for path in ["/v2/", "/v2"] {
        let answer = fixture.server.get(path);
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.header("docker-distribution-api-version"),
            "registry/2.0"
        );
    }
    assert_eq!(fixture.server.head("/v2/").status, 200);
}

/// "A GET request to an existing manifest URL MUST provide the expected manifest, with a response code that
/// MUST be 200 OK. A successful response MUST contain the digest"; "the Content-Type header will indicate the
/// type"; "SHOULD NOT include parameters".
#[test]
fn end_3_gives_a_manifest_by_tag_and_by_digest_with_its_stored_bytes() {
    let fixture = fixture();
    for reference in ["1".to_owned(), fixture.manifest.to_string()] {
        let answer = fixture.server.get(&of(&format!("manifests/{reference}")));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body, fixture.manifest_bytes);
        assert_eq!(answer.header("content-type"), MANIFEST);
        assert_eq!(
            answer.header("docker-content-digest"),
            fixture.manifest.to_string()
        );
        assert_eq!(answer.header("etag"), format!("\"{}\"", fixture.manifest));
        assert!(answer.is_whole() && !answer.headers.contains_key("content-encoding"));
    }
    // Types that it is not do not matter: the bytes are what the digest says.
    let accept = [(
        "Accept",
        "application/vnd.docker.distribution.manifest.v2+json",
    )];
    let answer = fixture.server.request("GET", &of("manifests/1"), &accept);
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, MANIFEST)
    );
}

/// "If the manifest is not found in the repository, the response code MUST be 404 Not Found."
#[test]
fn end_3_answers_404_for_a_manifest_that_is_not_there() {
    let fixture = fixture();
    let other = Digest::of(b"other");
    for (path, code) in [
        (of("manifests/none"), "MANIFEST_UNKNOWN"),
        (of(&format!("manifests/{other}")), "MANIFEST_UNKNOWN"),
        (
            "/v2/docker.io/library/none/manifests/1".to_owned(),
            "NAME_UNKNOWN",
        ),
        // "MUST NOT be in any other format"
        (of("manifests/-"), "MANIFEST_UNKNOWN"),
        (
            of(&format!("manifests/{}", "a".repeat(129))),
            "MANIFEST_UNKNOWN",
        ),
        ("/v2/docker.io/UPPER/manifests/1".to_owned(), "NAME_INVALID"),
        (
            format!("/v2/docker.io/{}/manifests/1", "a".repeat(256)),
            "NAME_INVALID",
        ),
    ] {
        let answer = fixture.server.get(&path);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, code),
            "{path}"
        );
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(fixture.server.head(&path).status, 404, "{path}");
    }
}

/// "A GET request to an existing blob URL MUST provide the expected blob, with a response code that MUST be
/// 200 OK", with its digest.
#[test]
fn end_2_gives_a_blob() {
    let fixture = fixture();
    let answer = fixture.server.get(&of(&format!("blobs/{}", fixture.layer)));
    assert_eq!((answer.status, answer.body.as_slice()), (200, LAYER));
    assert_eq!(
        answer.header("docker-content-digest"),
        fixture.layer.to_string()
    );
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(answer.header("accept-ranges"), "bytes");
    // containerd offers encodings for blobs; one that was encoded would not match its digest.
    let accept = [("Accept-Encoding", "zstd;q=1.0, gzip;q=0.8, deflate;q=0.5")];
    let path = of(&format!("blobs/{}", fixture.layer));
    let answer = fixture.server.request("GET", &path, &accept);
    assert_eq!(answer.body, LAYER);
    assert!(!answer.headers.contains_key("content-encoding"));
}

/// "If the blob is not found in the repository, the response code MUST be 404 Not Found."
#[test]
fn end_2_answers_404_for_a_blob_that_is_not_there_and_400_for_no_digest() {
    let fixture = fixture();
    let path = of(&format!("blobs/{}", Digest::of(b"other")));
    let answer = fixture.server.get(&path);
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (404, "BLOB_UNKNOWN")
    );
    assert_eq!(fixture.server.head(&path).status, 404);
    for bad in ["sha256:00", "latest", "sha512:00"] {
        let answer = fixture.server.get(&of(&format!("blobs/{bad}")));
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "DIGEST_INVALID")
        );
    }
}

/// "A HEAD request to an existing blob or manifest URL MUST return 200 OK. A successful response MUST contain
/// the digest … [and] the size in bytes … in the header Content-Length."
#[test]
fn head_says_the_digest_and_the_size_and_sends_nothing() {
    let fixture = fixture();
    let manifest = fixture.manifest_bytes.len();
    for (path, digest, size) in [
        (of("manifests/1"), fixture.manifest, manifest),
        (
            of(&format!("manifests/{}", fixture.manifest)),
            fixture.manifest,
            manifest,
        ),
        (
            of(&format!("blobs/{}", fixture.layer)),
            fixture.layer,
            LAYER.len(),
        ),
    ] {
        let answer = fixture.server.head(&path);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("docker-content-digest"), digest.to_string());
        assert_eq!(answer.header("content-length"), size.to_string());
        assert!(answer.body.is_empty());
    }
}

/// "A registry SHOULD support the Range request header in accordance with RFC 9110": the six cases of the
/// conformance suite, which its read-only mode leaves out, and what RFC 9110 says besides.
#[test]
fn a_part_of_a_blob_is_given_as_rfc_9110_says() {
    let fixture = fixture();
    let path = of(&format!("blobs/{}", fixture.layer));
    for (range, expected, content_range) in [
        ("bytes=0-3", &b"0123"[..], "bytes 0-3/10"),
        ("bytes=4-", b"456789", "bytes 4-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=8-99", b"89", "bytes 8-9/10"),
        ("bytes=-99", LAYER, "bytes 0-9/10"),
        ("bytes=0-9", LAYER, "bytes 0-9/10"),
    ] {
        let answer = fixture.server.request("GET", &path, &[("Range", range)]);
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (206, expected),
            "{range}"
        );
        assert_eq!(answer.header("content-range"), content_range);
        assert_eq!(
            answer.header("docker-content-digest"),
            fixture.layer.to_string()
        );
        assert!(answer.is_whole());
    }
    for range in ["bytes=10-", "bytes=99-100", "bytes=-0"] {
        let answer = fixture.server.request("GET", &path, &[("Range", range)]);
        assert_eq!(
            (answer.status, answer.header("content-range")),
            (416, "bytes */10")
        );
    }
    let etag = format!("\"{}\"", fixture.layer);
    let conditions = [(etag.as_str(), 206), ("\"other\"", 200)];
    for (condition, status) in conditions {
        let headers = [("Range", "bytes=0-0"), ("If-Range", condition)];
        assert_eq!(
            fixture.server.request("GET", &path, &headers).status,
            status
        );
    }
}

#[test]
fn a_client_that_has_it_already_gets_no_body() {
    let fixture = fixture();
    for path in [of("manifests/1"), of(&format!("blobs/{}", fixture.layer))] {
        let etag = fixture.server.head(&path).header("etag").to_owned();
        let answer = fixture
            .server
            .request("GET", &path, &[("If-None-Match", &etag)]);
        assert_eq!((answer.status, answer.body.len()), (304, 0));
        let answer = fixture
            .server
            .request("GET", &path, &[("If-None-Match", "\"x\"")]);
        assert_eq!(answer.status, 200);
    }
}

/// "the tags MUST be in lexical … or `ASCIIbetical` order"; n, last, Link; "When n is zero, this endpoint MUST
/// return an empty list, and MUST NOT include a Link header".
#[test]
fn end_8_lists_tags_in_order_and_in_parts() {
    let fixture = fixture();
    let tags = |query: &str| {
        let answer = fixture.server.get(&of(&format!("tags/list{query}")));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), "application/json");
        let body = answer.json();
        assert_eq!(body["name"], "docker.io/library/hello");
        let link = answer.headers.get("link").cloned();
        (body["tags"].clone(), link)
    };
    assert_eq!(tags(""), (json!(["1", "10", "2", "B", "a"]), None));
    assert_eq!(tags("?n=0"), (json!([]), None));
    let (first, link) = tags("?n=2");
    assert_eq!(first, json!(["1", "10"]));
    let link = link.unwrap();
    assert_eq!(
        link,
        "</v2/docker.io/library/hello/tags/list?n=2&last=10>; rel=\"next\""
    );
    let next = link[1..].split_once('>').unwrap().0;
    assert_eq!(fixture.server.get(next).json()["tags"], json!(["2", "B"]));
    assert_eq!(tags("?last=2"), (json!(["B", "a"]), None));
    // "MUST NOT be a numerical index": it is a tag, there or not.
    assert_eq!(tags("?n=9&last=3"), (json!(["B", "a"]), None));
    assert_eq!(tags("?n=5"), (json!(["1", "10", "2", "B", "a"]), None));
    let unknown = fixture.server.get("/v2/docker.io/library/none/tags/list");
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "NAME_UNKNOWN")
    );
    assert_eq!(fixture.server.get(&of("tags/list?n=-1")).status, 400);
    assert_eq!(fixture.server.get(&of("tags/list?n=x")).status, 400);
}

/// "this request MUST return a 200 OK"; the index's media type; `artifactType` of the manifest or of its
/// config; "MUST include annotations"; "an empty manifest list MUST be returned"; `OCI-Filters-Applied`.
#[test]
fn end_12_lists_referrers() {
    let fixture = fixture();
    let path = of(&format!("referrers/{}", fixture.manifest));
    let answer = fixture.server.get(&path);
    assert_eq!((answer.status, answer.header("content-type")), (200, INDEX));
    let body = answer.json();
    assert_eq!(
        (&body["schemaVersion"], &body["mediaType"]),
        (&json!(2), &json!(INDEX))
    );
    let found = |digest: &Digest| {
        let digest = json!(digest.to_string());
        let all = body["manifests"].as_array().unwrap();
        assert_eq!(all.len(), 2);
        all.iter().find(|one| one["digest"] == digest).unwrap()
    };
    let signature = found(&fixture.referrer);
    assert_eq!(
        signature["artifactType"],
        "application/vnd.example.signature.v1+json"
    );
    assert_eq!(signature["annotations"], json!({ "by": "me" }));
    assert_eq!(signature["mediaType"], MANIFEST);
    let second = found(&fixture.second_referrer);
    assert_eq!(second["artifactType"], "application/vnd.example.sbom");
    // What is listed can be pulled, and has the size that is listed.
    let pulled = fixture
        .server
        .get(&of(&format!("manifests/{}", fixture.referrer)));
    assert_eq!(json!(pulled.body.len()), signature["size"]);

    let filtered = format!("{path}?artifactType=application/vnd.example.signature.v1%2Bjson");
    let answer = fixture.server.get(&filtered);
    assert_eq!(answer.header("oci-filters-applied"), "artifactType");
    assert_eq!(answer.json()["manifests"].as_array().unwrap().len(), 1);
    let none = fixture
        .server
        .get(&format!("{path}?artifactType=none/none"));
    assert_eq!((none.status, &none.json()["manifests"]), (200, &json!([])));
    // "MUST NOT return a 404": also for what is not there.
    let other = fixture
        .server
        .get(&of(&format!("referrers/{}", Digest::of(b"x"))));
    assert_eq!(
        (other.status, &other.json()["manifests"]),
        (200, &json!([]))
    );
    // "such as a <digest> with an invalid syntax, a 400 Bad Request MUST be returned"
    let bad = fixture.server.get(&of("referrers/nodigest"));
    assert_eq!((bad.status, bad.code().as_str()), (400, "DIGEST_INVALID"));
}

/// "If … deletion is disabled, the registry MUST respond with either a 400 Bad Request or a 405 Method Not
/// Allowed"; nothing can be pushed either.
#[test]
fn nothing_can_be_changed() {
    let fixture = fixture();
    for (method, path) in [
        ("POST", of("blobs/uploads/")),
        (
            "POST",
            of(&format!("blobs/uploads/?mount={}&from=a", fixture.layer)),
        ),
        ("PATCH", of("blobs/uploads/1")),
        (
            "PUT",
            of(&format!("blobs/uploads/1?digest={}", fixture.layer)),
        ),
        ("PUT", of("manifests/1")),
        ("DELETE", of("manifests/1")),
        ("DELETE", of(&format!("manifests/{}", fixture.manifest))),
        ("DELETE", of(&format!("blobs/{}", fixture.layer))),
        ("OPTIONS", "/v2/".to_owned()),
    ] {
        let answer = fixture
            .server
            .request(method, &path, &[("Content-Length", "0")]);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (405, "UNSUPPORTED"),
            "{method}"
        );
        assert_eq!(answer.header("allow"), "GET, HEAD");
    }
    assert_eq!(fixture.server.get(&of("manifests/1")).status, 200);
}

/// "A registry that uses the ns query parameter to scope the request SHOULD return the ns query parameter
/// value in the OCI-Namespace header."
#[test]
fn an_image_is_found_by_its_original_name_in_each_way_that_clients_ask() {
    let fixture = fixture();
    let by_ns = fixture
        .server
        .get("/v2/library/hello/manifests/1?ns=docker.io");
    assert_eq!(
        (by_ns.status, by_ns.header("oci-namespace")),
        (200, "docker.io")
    );
    for host in ["docker.io", "index.docker.io", "registry-1.docker.io:443"] {
        let headers = [("Host", host)];
        let answer = fixture
            .server
            .request("GET", "/v2/library/hello/manifests/1", &headers);
        assert_eq!(
            (answer.status, &answer.body),
            (200, &fixture.manifest_bytes),
            "{host}"
        );
    }
    for path in [
        "/v2/docker.io/hello/manifests/1",
        "/v2/hello/manifests/1?ns=docker.io",
    ] {
        assert_eq!(
            fixture.server.get(path).body,
            fixture.manifest_bytes,
            "{path}"
        );
    }
    // Another registry's image of the same name is another image, and no registry is guessed.
    let other = fixture
        .server
        .get("/v2/library/hello/manifests/1?ns=ghcr.io");
    assert_eq!((other.status, other.code().as_str()), (404, "NAME_UNKNOWN"));
    let without = fixture.server.get("/v2/library/hello/manifests/1");
    assert_eq!(
        (without.status, without.code().as_str()),
        (404, "NAME_UNKNOWN")
    );
    let message = without.json()["errors"][0]["message"].clone();
    assert_eq!(
        message,
        "the name has no registry; here are docker.io/library/hello"
    );
}
