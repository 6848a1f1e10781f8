//! A registry that lies, breaks off, asks for a token, or has nothing: a server of a few lines stands in, since no
//! real one does any of it on request.
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use super::*;
use crate::credentials::Credentials;

/// What it does to the layer.
#[derive(Clone, Copy, PartialEq)]
enum Lie {
    None,
    Digest,
    Short,
    Long,
    BreaksOff,
    WantsToken,
    Denies,
    RedirectsToFile,
    /// After two bytes.
    Stops,
    /// What authenticates is at this URL.
    TokensAt,
    /// The layer is at this URL.
    LayerAt,
    /// A page for whatever is asked, as of a network that wants a login.
    Page,
}

struct Registry {
    layer: Vec<u8>,
    manifest: Vec<u8>,
    lie: Lie,
    /// Where it leads, when it lies about that.
    leads: String,
    log: Mutex<Vec<String>>,
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

impl Registry {
    /// Starts it; ends with the test.
    fn start(lie: Lie) -> (Arc<Self>, ImageReference) {
        Self::leading(lie, String::new())
    }

    fn leading(lie: Lie, leads: String) -> (Arc<Self>, ImageReference) {
        let layer: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let descriptor = |bytes: &[u8]| serde_json::json!({ "digest": Digest::of(bytes).to_string(), "size": bytes.len() });
        let manifest = serde_json::json!({
            "mediaType": MANIFEST, "config": descriptor(b"{}"), "layers": [descriptor(&layer)],
        });
        let registry = Arc::new(Self {
            layer,
            manifest: manifest.to_string().into_bytes(),
            lie,
            leads,
            log: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = Arc::clone(&registry);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serving.answer(stream);
            }
        });
        let image = format!("127.0.0.1:{port}/team/app:1").parse().unwrap();
        (registry, image)
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut path = String::new();
        let mut range = None;
        let mut is_known = false;
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            let line = line.unwrap_or_default();
            if let Some(rest) = line.strip_prefix("GET ") {
                rest.split(' ').next().unwrap().clone_into(&mut path);
            }
            let lower = line.to_ascii_lowercase();
            if let Some(from) = lower.strip_prefix("range: bytes=") {
                range = from.trim_end_matches('-').parse::<usize>().ok();
            }
            is_known |= line.ends_with("Bearer secret");
            if line.is_empty() {
                break;
            }
        }
        let shown = range.map_or(path.clone(), |from| format!("{path} from {from}"));
        self.log.lock().unwrap().push(shown);
        let port = stream.local_addr().unwrap().port();
        let mut say = |head: &str, body: &[u8], announced: usize| {
            let head = format!(
                "HTTP/1.1 {head}\r\nContent-Length: {announced}\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body);
        };
        if path.starts_with("/token") {
            let token = br#"{"token":"secret"}"#;
            return say("200 OK", token, token.len());
        }
        if self.lie == Lie::Page {
            let page = b"<html>Sign in</html>";
            return say(
                "200 OK\r\nContent-Type: text/html; charset=utf-8",
                page,
                page.len(),
            );
        }
        if self.lie == Lie::TokensAt {
            let realm = &self.leads;
            let ask = format!("401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"{realm}\"");
            return say(&ask, b"", 0);
        }
        if self.lie == Lie::Denies || (self.lie == Lie::WantsToken && !is_known) {
            let ask = format!(
                "401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"http://127.0.0.1:{port}/token\",service=\"x\""
            );
            return say(&ask, b"", 0);
        }
        let layer = &self.layer;
        let is_layer = path.ends_with(&Digest::of(layer).to_string());
        match (path.as_str(), self.lie) {
            ("/v2/team/app/manifests/1", _) => {
                say("200 OK", &self.manifest, self.manifest.len());
            }
            (_, _) if path.ends_with(&Digest::of(b"{}").to_string()) => say("200 OK", b"{}", 2),
            (_, Lie::Digest) if is_layer => {
                let other = vec![b'x'; layer.len()];
                say("200 OK", &other, other.len());
            }
            (_, Lie::Short) if is_layer => say("200 OK", &layer[..1000], 1000),
            (_, Lie::Long) if is_layer => {
                let long = [&layer[..], b"more"].concat();
                say("200 OK", &long, long.len());
            }
            (_, Lie::BreaksOff) if is_layer => match range {
                None => say("200 OK", &layer[..80_000], layer.len()),
                Some(from) => {
                    let rest = &layer[from..];
                    say("206 Partial Content", rest, rest.len());
                }
            },
            (_, Lie::LayerAt) if is_layer => {
                let to = format!("307 Temporary Redirect\r\nLocation: {}", self.leads);
                say(&to, b"", 0);
            }
            (_, Lie::Stops) if is_layer => {
                let from = range.unwrap_or_default();
                let status = if range.is_some() {
                    "206 Partial Content"
                } else {
                    "200 OK"
                };
                say(status, &layer[from..from + 2], layer.len() - from);
                // Until the client is gone; the next one is answered meanwhile.
                std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
            }
            (_, Lie::RedirectsToFile) if is_layer => {
                say(
                    "307 Temporary Redirect\r\nLocation: file:///etc/passwd",
                    b"",
                    0,
                );
            }
            _ if is_layer => say("200 OK", layer, layer.len()),
            _ => say("404 Not Found", b"", 0),
        }
    }
}

fn pulled(lie: Lie) -> (Arc<Registry>, tempfile::TempDir, Result<Pulled, String>) {
    let (registry, image) = Registry::start(lie);
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("none.pem");
    // No authority is needed for this machine, and none may be here.
    std::fs::write(&pem, include_str!("../../testdata/authority.pem")).unwrap();
    let client = RegistryClient::new(Credentials::default(), Some(&pem)).unwrap();
    let cache = ImageCache::at(folder.path());
    let pulled = pull(&client, &cache, &image, None, &Platforms::default())
        .map_err(|error| error.to_string());
    (registry, folder, pulled)
}

#[test]
fn an_image_comes_whole_and_a_second_time_nothing_is_asked_for_but_the_tag() {
    let (registry, folder, found) = pulled(Lie::None);
    let found = found.unwrap();
    assert_eq!(found.manifest.digest, Digest::of(&registry.manifest));
    assert_eq!(
        (found.media_type.as_str(), found.blobs.len()),
        (MANIFEST, 2)
    );
    let cache = ImageCache::at(folder.path());
    let layer = std::fs::read(cache.path(&Digest::of(&registry.layer))).unwrap();
    assert!(layer == registry.layer);
    assert_eq!(registry.log.lock().unwrap().len(), 3);
}

#[test]
fn attack_a_registry_that_lies_about_a_layer_is_named_and_nothing_of_it_stays() {
    for (lie, expected) in [
        (Lie::Digest, "has the digest sha256:"),
        (Lie::Short, "ends after 1000 of its 200000 bytes"),
        (Lie::Long, "is longer than its 200000 bytes"),
        (Lie::RedirectsToFile, "has an address that is not https"),
    ] {
        let (registry, folder, found) = pulled(lie);
        let error = found.unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("127.0.0.1"), "{error}");
        let cache = ImageCache::at(folder.path());
        let path = cache.path(&Digest::of(&registry.layer));
        assert!(!path.exists(), "{error}");
    }
}

#[test]
fn a_layer_that_broke_off_goes_on_where_it_was() {
    let (registry, _folder, found) = pulled(Lie::BreaksOff);
    found.unwrap();
    let log = registry.log.lock().unwrap();
    assert!(
        log.iter().any(|line| line.ends_with(" from 80000")),
        "{log:?}"
    );
}

/// A client that asks `mirror` for the images of the registry of `image` first; no authority is needed for this machine.
fn mirrored(
    folder: &std::path::Path,
    image: &ImageReference,
    mirror: &ImageReference,
) -> RegistryClient {
    let pem = folder.join("none.pem");
    std::fs::write(&pem, include_str!("../../testdata/authority.pem")).unwrap();
    let text = format!("{}={}", image.registry, mirror.registry);
    let hosts = crate::RegistryHosts::read(&[text], &[]).unwrap();
    let client = RegistryClient::new(Credentials::default(), Some(&pem)).unwrap();
    client.with_hosts(hosts).unwrap()
}

/// An image of a registry where nobody answers.
fn unreachable() -> ImageReference {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    format!("127.0.0.1:{port}/team/app:1").parse().unwrap()
}

#[test]
fn attack_a_layer_that_a_mirror_damages_comes_from_the_registry_and_the_mirror_is_named() {
    let (_mirror, mirror) = Registry::start(Lie::Digest);
    let all = Platforms::default();
    for lie in [Lie::None, Lie::BreaksOff] {
        let (registry, image) = Registry::start(lie);
        let folder = tempfile::tempdir().unwrap();
        let client = mirrored(folder.path(), &image, &mirror);
        let cache = ImageCache::at(folder.path());
        pull(&client, &cache, &image, None, &all).unwrap();
        let layer = std::fs::read(cache.path(&Digest::of(&registry.layer))).unwrap();
        assert!(layer == registry.layer);
        assert_eq!(client.skipped.reported(), [mirror.registry.as_str()]);
    }
    let image = unreachable();
    let folder = tempfile::tempdir().unwrap();
    let client = mirrored(folder.path(), &image, &mirror);
    let cache = ImageCache::at(folder.path());
    let error = pull(&client, &cache, &image, None, &all).unwrap_err();
    let error = error.to_string();
    let wrong = format!(
        "its mirrors were asked before: `{}`: `sha256:",
        mirror.registry
    );
    assert!(error.contains(&wrong), "{error}");
    let last = format!("cannot reach `{}`", image.registry);
    assert!(error.starts_with(&last), "{error}");
}

#[test]
fn attack_a_page_with_status_200_in_the_place_of_a_mirror_does_not_end_the_chain() {
    let (_portal, portal) = Registry::start(Lie::Page);
    let all = Platforms::default();
    let folder = tempfile::tempdir().unwrap();
    let cache = ImageCache::at(folder.path());
    let (registry, image) = Registry::start(Lie::None);
    let client = mirrored(folder.path(), &image, &portal);
    let found = pull(&client, &cache, &image, None, &all).unwrap();
    assert_eq!(found.manifest.digest, Digest::of(&registry.manifest));
    assert_eq!(client.skipped.reported(), [portal.registry.as_str()]);
    // The list of what refers to it, too: nobody knows from a page that an image has no signature.
    let digest = Digest::of(&registry.manifest);
    let ask = |image: &ImageReference| {
        let client = mirrored(folder.path(), image, &portal);
        crate::signatures::signatures(&client, image, &digest, "x/y", ("none", "none.sig"))
    };
    assert_eq!(ask(&image).unwrap(), []);
    let nobody = unreachable();
    assert!(ask(&nobody).unwrap_err().is_environment());
    let client = mirrored(folder.path(), &nobody, &portal);
    let error = pull(&client, &cache, &nobody, None, &all).unwrap_err();
    let says = format!(
        "`{}`: `team/app:1` is not a manifest, but an answer of type `text/html`",
        portal.registry
    );
    let error = error.to_string();
    assert!(error.contains(&says), "{error}");
}

#[test]
fn what_is_wrong_with_a_part_of_before_is_not_blamed_on_the_registry() {
    let (registry, image) = Registry::start(Lie::BreaksOff);
    let folder = tempfile::tempdir().unwrap();
    let client = mirrored(folder.path(), &unreachable(), &image);
    let cache = ImageCache::at(folder.path());
    let path = cache.path(&Digest::of(&registry.layer));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path.with_extension("part"), vec![b'x'; 80_000]).unwrap();
    pull(&client, &cache, &image, None, &Platforms::default()).unwrap();
    assert!(std::fs::read(&path).unwrap() == registry.layer);
}

#[test]
fn a_mirror_without_signatures_has_none_where_the_registry_is_not_reached() {
    let (registry, mirror) = Registry::start(Lie::None);
    let image = unreachable();
    let folder = tempfile::tempdir().unwrap();
    let client = mirrored(folder.path(), &image, &mirror);
    let digest = Digest::of(&registry.manifest);
    let ask = |tags| crate::signatures::signatures(&client, &image, &digest, "x/y", tags);
    assert_eq!(ask(("none", "none.sig")).unwrap(), []);
    let log = registry.log.lock().unwrap().clone();
    for end in ["/manifests/none", "/manifests/none.sig"] {
        assert!(log.iter().any(|line| line.ends_with(end)), "{log:?}");
    }
    let found = ask(("none", "1")).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    // Nobody who answers: that is no answer.
    let nobody = mirrored(folder.path(), &image, &unreachable());
    let error = crate::signatures::signatures(&nobody, &image, &digest, "x/y", ("a", "b"));
    assert!(error.unwrap_err().is_environment());
}

#[test]
fn a_token_is_fetched_where_it_is_asked_for_and_a_refusal_is_named() {
    let (registry, _folder, found) = pulled(Lie::WantsToken);
    found.unwrap();
    let log = registry.log.lock().unwrap().clone();
    let tokens = log
        .iter()
        .filter(|line| line.starts_with("/token?scope=repository%3Ateam%2Fapp%3Apull"));
    assert_eq!(tokens.count(), 1, "{log:?}");
    let (_registry, _folder, found) = pulled(Lie::Denies);
    let error = found.unwrap_err();
    assert!(
        error.contains("does not serve `team/app:1`: no credentials for it"),
        "{error}"
    );
}

#[test]
fn a_tag_that_is_not_there_is_named() {
    let (_registry, image) = Registry::start(Lie::None);
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("none.pem");
    std::fs::write(&pem, include_str!("../../testdata/authority.pem")).unwrap();
    let client = RegistryClient::new(Credentials::default(), Some(&pem)).unwrap();
    let missing = ImageReference {
        tag: Some("9".into()),
        ..image
    };
    let error = pull(
        &client,
        &ImageCache::at(folder.path()),
        &missing,
        None,
        &Platforms::default(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("has no `team/app:9`"), "{error}");
    assert!(!error.is_environment());
}

#[test]
fn attack_a_registry_that_stops_inside_a_layer_is_asked_again_and_then_given_up() {
    let (registry, image) = Registry::start(Lie::Stops);
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("none.pem");
    std::fs::write(&pem, include_str!("../../testdata/authority.pem")).unwrap();
    let pause = std::time::Duration::from_millis(200);
    let client = RegistryClient::patient(Credentials::default(), Some(&pem), pause).unwrap();
    let cache = ImageCache::at(folder.path());
    let error = pull(&client, &cache, &image, None, &Platforms::default()).unwrap_err();
    let text = error.to_string();
    let layer = Digest::of(&registry.layer);
    for part in [
        format!(
            "`{}` sent 10 bytes of the 200000 of `{layer}`",
            image.registry
        ),
        "no byte came for".to_owned(),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    assert!(error.is_environment() && error.help().unwrap().contains("run it again"));
    let log = registry.log.lock().unwrap();
    let asked: Vec<_> = log
        .iter()
        .filter(|line| line.contains(&layer.to_string()))
        .collect();
    assert_eq!(asked.len(), ATTEMPTS, "{log:?}");
    assert!(asked[ATTEMPTS - 1].ends_with(" from 8"), "{log:?}");
    let part = cache.path(&layer).with_extension("part");
    assert_eq!(std::fs::read(part).unwrap(), registry.layer[..10]);
}

/// What pulling says, of a registry that leads to `leads` in its way; `--allow-host` has these hosts.
fn led(lie: Lie, leads: &str, allowed: &[(&str, Option<u16>)]) -> (String, String) {
    let (_registry, image) = Registry::leading(lie, leads.to_owned());
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("none.pem");
    std::fs::write(&pem, include_str!("../../testdata/authority.pem")).unwrap();
    let hosts = crate::RegistryHosts::default().allowing(allowed.iter().copied());
    let client = RegistryClient::new(Credentials::default(), Some(&pem)).unwrap();
    let client = client.with_hosts(hosts).unwrap();
    let cache = ImageCache::at(folder.path());
    let error = pull(&client, &cache, &image, None, &Platforms::default()).unwrap_err();
    (error.to_string(), image.registry)
}

#[test]
fn attack_a_registry_that_leads_to_this_machine_or_its_link_is_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for (lie, how, host, scheme) in [
        (Lie::LayerAt, "redirects there", "127.0.0.1", "https"),
        (
            Lie::LayerAt,
            "redirects there",
            "[::ffff:127.0.0.1]",
            "https",
        ),
        (Lie::LayerAt, "redirects there", "localhost", "https"),
        (Lie::LayerAt, "redirects there", "169.254.169.254", "https"),
        (Lie::TokensAt, "has its tokens there", "127.0.0.1", "https"),
        (Lie::TokensAt, "has its tokens there", "127.0.0.1", "http"),
        (
            Lie::TokensAt,
            "has its tokens there",
            "169.254.169.254",
            "https",
        ),
    ] {
        let (text, registry) = led(lie, &format!("{scheme}://{host}:{port}/x"), &[]);
        assert!(
            text.starts_with(&format!("`{host}:{port}` leads to ")),
            "{text}"
        );
        let by = format!("which is not asked; `{registry}` {how}");
        assert!(text.ends_with(&by), "{text}");
    }
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_host_that_does_not_answer_is_named_with_who_led_there() {
    let closed = unreachable().registry;
    let port = closed.rsplit(':').next().unwrap().parse().ok();
    for (lie, how) in [
        (Lie::LayerAt, "redirects there"),
        (Lie::TokensAt, "has its tokens there"),
    ] {
        let allowed = [("127.0.0.1", port)];
        let (text, registry) = led(lie, &format!("https://{closed}/x"), &allowed);
        assert!(
            text.starts_with(&format!("cannot reach `{closed}`: ")),
            "{text}"
        );
        assert!(text.ends_with(&format!("; `{registry}` {how}")), "{text}");
    }
}
