//! Where a server's answer leads.
//!
//! What comes in: an answer, and the URL that was asked. What goes out: the URL that it names, when that is a place that may be asked. It asks
//! nothing.

use outhaul_http::Response;
use outhaul_kit::url::UrlParts;

/// Where an answer leads, when that is a place that may be asked.
pub(crate) fn location(answer: &Response, from: &str) -> Option<String> {
    let to = answer.header("location")?;
    let to = resolved(from, to)?;
    let (there, here) = (UrlParts::of(&to)?, UrlParts::of(from)?);
    let is_same = there.is(here.scheme) && there.authority == here.authority;
    (is_same || there.is("https")).then_some(to)
}

/// The URL that a server at `from` means with `to`: a whole one, one without its scheme, a path from the root, or one from the folder of
/// `from`.
pub(crate) fn resolved(from: &str, to: &str) -> Option<String> {
    let here = UrlParts::of(from)?;
    if UrlParts::of(to).is_some() {
        return Some(to.to_owned());
    }
    if to.starts_with("//") {
        return Some(format!("{}:{to}", here.scheme));
    }
    let root = from.strip_suffix(here.rest)?;
    match to.starts_with('/') {
        true => Some(format!("{root}{to}")),
        false => {
            let folder = here
                .path()
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder);
            Some(format!("{root}{folder}/{to}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::resolved;
    use crate::client::RegistryClient;
    use crate::{Credentials, RegistryHosts};

    #[test]
    fn a_registry_on_this_machine_is_asked_over_tls_where_an_authority_is_named_for_it() {
        let pem = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/authority.pem");
        let client = || RegistryClient::new(Credentials::default(), Some(pem.as_ref())).unwrap();
        let image = "127.0.0.1:5000/team/app:1".parse().unwrap();
        assert!(client().url(&image, "tags/list").starts_with("http://127"));
        let named = [format!("127.0.0.1:5000={pem}")];
        let hosts = RegistryHosts::read(&[], &named).unwrap();
        let client = client().with_hosts(hosts).unwrap();
        let url = client.url(&image, "tags/list");
        assert_eq!(url, "https://127.0.0.1:5000/v2/team/app/tags/list");
    }

    #[test]
    fn what_a_server_answers_is_a_url_seen_from_where_it_was_asked() {
        let from = "https://a.example:5000/charts/index.yaml?x=/y";
        for (to, expected) in [
            ("https://b.example/z", "https://b.example/z"),
            ("HTTP://b.example", "HTTP://b.example"),
            ("//b.example/z", "https://b.example/z"),
            ("/z?q", "https://a.example:5000/z?q"),
            ("z.tgz", "https://a.example:5000/charts/z.tgz"),
            (
                "z.tgz?at=http://c",
                "https://a.example:5000/charts/z.tgz?at=http://c",
            ),
        ] {
            assert_eq!(resolved(from, to).as_deref(), Some(expected), "{to}");
        }
        let root = resolved("https://a.example", "z");
        assert_eq!(root.as_deref(), Some("https://a.example/z"));
        assert_eq!(resolved("a.example", "/z"), None);
    }
}
