//! The address of a hub, as people write it down.
//!
//! What comes in: a text. What goes out: the same, or what to write in its place when it is the address of one of the hub's pages or of its
//! login, since what programs ask for is added to it, or no address that agents and programs take. Whether something answers there is not
//! asked.

use outhaul_kit::url::{UrlParts, check_base};
use outhaul_kit::url_secrets::without_secrets;

/// Parts of paths that are the hub's own, or an identity provider's.
const OF_PAGES: [&str; 4] = [".well-known", "login", "logout", "oauth2"];

/// The address `text` of a hub.
///
/// # Errors
/// What is wrong, with what to write.
pub fn hub_url(text: &str) -> Result<String, String> {
    let (address, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let scheme = UrlParts::of(address).map_or("", |url| url.scheme);
    let behind = address.strip_prefix(scheme).unwrap_or(address);
    let behind = behind.strip_prefix("://").unwrap_or(behind);
    let mut parts: Vec<&str> = behind.split('/').collect();
    let is_page =
        |at: &usize| OF_PAGES.contains(&parts[*at]) || parts[*at..].starts_with(&["api", "v1"]);
    let page = (1..parts.len()).find(is_page);
    if page.is_none() && rest.is_empty() {
        if text.is_empty() {
            return Err(
                "it is empty: write where the hub is, such as `https://hub.example`".to_owned(),
            );
        }
        return match check_base(text) {
            Ok(()) => Ok(text.to_owned()),
            Err(expected) => Err(format!("`{}` is not {expected}", without_user(text))),
        };
    }
    parts.truncate(page.unwrap_or(parts.len()));
    let right = format!("{scheme}://{}", parts.join("/").trim_end_matches('/'));
    // What is behind may hold a token.
    Err(format!(
        "`{address}` is the address of a page, and not of a hub: write `{right}`"
    ))
}

/// `text` as it may be shown: a user alone may be a token.
fn without_user(text: &str) -> String {
    match UrlParts::of(text).filter(|url| url.user.is_some()) {
        Some(url) => format!("{}://…@{}{}", url.scheme, url.authority, url.rest),
        None => without_secrets(text),
    }
}

#[cfg(test)]
mod tests {
    use super::hub_url;

    #[test]
    fn what_no_agent_takes_is_refused_and_no_secret_is_shown() {
        for text in [
            "http://hub.example",
            "hub.example",
            "hub.example:8443",
            "ftp://hub.example",
            "https://me:s3cret@hub.example",
            "https://s3cret@hub.example/hub",
            "https://",
            "https://hub example",
        ] {
            let refused = hub_url(text).unwrap_err();
            assert!(
                refused.contains("a URL that starts with https://"),
                "{refused}"
            );
            assert!(!refused.contains("s3cret"), "{refused}");
        }
        assert!(hub_url("").unwrap_err().starts_with("it is empty"));
        for port in ["0", "99999", "x"] {
            let refused = hub_url(&format!("https://hub.example:{port}")).unwrap_err();
            assert!(
                refused.ends_with("a URL with a port from 1 to 65535"),
                "{refused}"
            );
        }
        for text in [
            "https://[2001:db8::1]",
            "https://[::1]:8443/hub",
            "http://[::1]:8480",
        ] {
            assert_eq!(hub_url(text), Ok(text.to_owned()));
        }
    }

    #[test]
    fn the_address_of_a_page_is_refused_with_that_of_the_hub() {
        for (text, right) in [
            ("https://hub.example/login/oidc", "https://hub.example"),
            (
                "https://hub.example/login/oidc/callback?code=s3cret",
                "https://hub.example",
            ),
            ("https://x.example/hub/api/v1/gate", "https://x.example/hub"),
            (
                "https://id.example/.well-known/openid-configuration",
                "https://id.example",
            ),
            ("https://hub.example/?next=/", "https://hub.example"),
            ("https://hub.example/#top", "https://hub.example"),
        ] {
            let refused = hub_url(text).unwrap_err();
            assert!(refused.ends_with(&format!("write `{right}`")), "{refused}");
            assert!(!refused.contains("s3cret"), "{refused}");
        }
        for text in [
            "https://hub.example",
            "https://hub.example/",
            "https://x.example/api/hub",
            "http://127.0.0.1:8080",
        ] {
            assert_eq!(hub_url(text), Ok(text.to_owned()));
        }
    }
}
