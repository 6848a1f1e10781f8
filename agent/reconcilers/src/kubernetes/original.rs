//! Where this site's mirror has what another address names.
//!
//! What comes in: the address that an object fetches from, and that of `outhaul-mirror`. What goes out: the
//! mirror's address with the original name behind it, so that people see what it stands for; and whether anybody
//! answers there; and the authority that is to be trusted there. It fetches nothing.

use outhaul_kit::url::UrlParts;

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use outhaul_kit::bounds::MAX_PRIVATE_AUTHORITY_BYTES;
use outhaul_kit::durable;

use crate::error::ApplyError;

/// How long the mirror may take to take a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// That nobody answers at `mirror`. A name that only the cluster knows says nothing about it.
pub fn silent_mirror(mirror: &str) -> Option<ApplyError> {
    let parts = UrlParts::of(mirror)?;
    let place = parts.authority;
    let port = match parts.is("http") {
        true => ":80",
        false => ":443",
    };
    let with_port = match place.to_socket_addrs() {
        Ok(all) => all,
        Err(_) => format!("{place}{port}").to_socket_addrs().ok()?,
    };
    let mut why = None;
    for address in with_port {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return None,
            Err(error) => why = Some(error),
        }
    }
    let why = why?;
    Some(ApplyError::Cluster {
        problem: format!("`outhaul-mirror`, from which the cluster fetches, does not answer at {mirror}: {why}"),
        help: "see that `outhaul-mirror run` runs on this site, and listens at the address that `mirror` in agent.toml has; the \
               agent tries again automatically"
            .into(),
    })
}

/// The certificate authority at `path` that the controller of `[section]` is to trust; none for a mirror without TLS.
pub fn authority(path: Option<&Path>, section: &str) -> Result<Option<String>, ApplyError> {
    let Some(path) = path else {
        return Ok(None);
    };
    let who = match section {
        "fleet" => "Fleet",
        _ => "Flux",
    };
    let unusable = |problem: String| ApplyError::Cluster {
        problem: format!(
            "the certificate authority that {who} is to trust cannot be used: {problem}"
        ),
        help: format!(
            "set `ca` under `[{section}]` in agent.toml to the `ca.pem` that `outhaul-mirror` made at its first start"
        ),
    };
    let bytes = durable::read(path, MAX_PRIVATE_AUTHORITY_BYTES)
        .map_err(|error| unusable(error.to_string()))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match text.contains("BEGIN CERTIFICATE") && !text.contains("PRIVATE KEY") {
        true => Ok(Some(text)),
        false => Err(unusable(format!(
            "`{}` is not a certificate",
            path.display()
        ))),
    }
}

/// Where the mirror serves the git repository or OCI artifact at `url`; `None` for what it does not serve.
///
/// Names of artifacts begin with `oci://`; names of repositories are of `https`, `http` and `ssh`, or as ssh
/// itself takes them (`git@host:path`). What ssh calls a port is none of the name.
pub fn address(url: &str, mirror: &str) -> Option<String> {
    let mirror = mirror.trim_end_matches('/');
    let Some(parts) = UrlParts::of(url) else {
        let (host, path) = url.split_once(':')?;
        let host = host.rsplit_once('@').map(|(_, host)| host)?;
        return Some(format!("{mirror}/{host}/{path}"));
    };
    // `ssh://git@host/path` and `https://user@host/path`.
    let (host, path) = (parts.authority, parts.rest.strip_prefix('/')?);
    match parts.scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => Some(format!("{mirror}/{host}/{path}")),
        "ssh" => {
            let host = host.split(':').next().unwrap_or(host);
            Some(format!("{mirror}/{host}/{path}"))
        }
        "oci" => {
            let place = UrlParts::of(mirror)?.authority;
            // Within the name of an artifact nobody takes a colon.
            let host = host.replace(':', "_");
            Some(format!("oci://{place}/{host}/{path}"))
        }
        _ => None,
    }
}

/// Where the mirror serves the chart repository at `url`: it may lie at the root of its host.
pub fn charts(url: &str, mirror: &str) -> Option<String> {
    let parts = UrlParts::of(url)?;
    match parts.rest.trim_end_matches('/').is_empty() {
        false => address(url, mirror),
        true => Some(format!(
            "{}/{}",
            mirror.trim_end_matches('/'),
            parts.authority
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIRROR: &str = "https://mirror.site.example:5443";

    #[test]
    fn the_original_name_stays_in_the_address() {
        let at = |rest: &str| Some(format!("{MIRROR}/{rest}"));
        for (url, expected) in [
            ("https://github.com/org/repo", at("github.com/org/repo")),
            (
                "ssh://git@git.example:22/org/repo.git",
                at("git.example/org/repo.git"),
            ),
            (
                "git@git.example:org/repo.git",
                at("git.example/org/repo.git"),
            ),
            (
                "https://token@git.example:8443/org/repo",
                at("git.example:8443/org/repo"),
            ),
            (
                "oci://ghcr.io/org/app",
                Some("oci://mirror.site.example:5443/ghcr.io/org/app".to_owned()),
            ),
            (
                "oci://registry.example:5000/org/app",
                Some("oci://mirror.site.example:5443/registry.example_5000/org/app".to_owned()),
            ),
            ("file:///srv/repo", None),
            ("/srv/repo", None),
        ] {
            assert_eq!(address(url, MIRROR), expected, "{url}");
            assert_eq!(address(url, &format!("{MIRROR}/")), expected, "{url}");
        }
    }
    #[test]
    fn a_chart_repository_may_lie_at_the_root_of_its_host() {
        for (url, expected) in [
            ("https://charts.example", "charts.example"),
            ("https://charts.example/", "charts.example"),
            (
                "https://me@charts.example:8443/a/b",
                "charts.example:8443/a/b",
            ),
        ] {
            assert_eq!(charts(url, MIRROR), Some(format!("{MIRROR}/{expected}")));
        }
    }
}
