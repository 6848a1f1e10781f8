//! With what git reaches a platform repository.
//!
//! What comes in: the repository's URL, the forge it is on, and a token. What goes out: the credential
//! that git gives the server, and only to that server. A token never goes over plain HTTP, except to
//! this host.

use zeroize::Zeroizing;

use super::ForgeKind;
use outhaul_git::address::{Address, Scheme};
use outhaul_git::program::Credential;

/// What git gives the server: the token, when the repository is reached over HTTPS.
pub fn credential(
    url: &str,
    kind: Option<ForgeKind>,
    token: Option<&Zeroizing<String>>,
) -> Option<Credential> {
    let address = Address::parse(url).ok()?;
    // Over plain HTTP anyone on the way could read it.
    if address.scheme() != Scheme::Https && !crate::http::is_loopback(url) {
        return None;
    }
    Some(Credential {
        url: format!("{}://{}/", address.scheme().as_str(), address.authority()),
        user: kind.unwrap_or(ForgeKind::Gitea).git_user().to_owned(),
        token: token?.clone(),
    })
}
