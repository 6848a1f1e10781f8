//! Addresses that a server may lead to: none of this machine, and none that only it can reach.
//!
//! What comes in: the address of a request that who runs the program did not name, such as one that a redirect names. What goes out: the socket addresses that its name has, all
//! of them checked, to which the connection then goes: a name that resolves to something else a moment later changes nothing. It opens no
//! connection.

use std::fmt;

use outhaul_kit::inside::{inside_address, is_this_machine};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Where a request would go that may not go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inside {
    /// The host, with its address where the name does not say it.
    pub(crate) host: String,
    /// What the address is.
    pub(crate) what: &'static str,
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it leads to {}, {}", self.host, self.what)
    }
}

impl std::error::Error for Inside {}

/// Resolves names, and refuses those that [`OutsideOnly`] does, except of the server that who runs the program named, and of a proxy. A proxy
/// resolves the names that it is asked for by itself.
#[derive(Debug)]
pub(crate) struct RedirectsOutside {
    /// The host, and where no usual port is meant, the port, as in a URL.
    own: String,
    named: DefaultResolver,
    others: OutsideOnly,
}

impl RedirectsOutside {
    /// For what who runs the program named, as in a URL.
    pub(crate) fn of(authority: &str) -> Self {
        Self {
            own: without_usual_port(authority).to_owned(),
            named: DefaultResolver::default(),
            others: OutsideOnly::default(),
        }
    }
}

impl Resolver for RedirectsOutside {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let is_own = uri.authority().is_some_and(|found| {
            without_usual_port(found.as_str()).eq_ignore_ascii_case(&self.own)
        });
        let is_proxy = config.proxy().is_some_and(|proxy| proxy.uri() == uri);
        match is_own || is_proxy {
            true => self.named.resolve(uri, config, timeout),
            false => self.others.resolve(uri, config, timeout),
        }
    }
}

/// Redirects are followed by `https://` only.
fn without_usual_port(authority: &str) -> &str {
    authority.strip_suffix(":443").unwrap_or(authority)
}

/// Resolves names, and refuses those with an address of this machine or its link.
#[derive(Debug, Default)]
pub(crate) struct OutsideOnly(DefaultResolver);

impl Resolver for OutsideOnly {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let name = uri.host().unwrap_or_default();
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let refused = |host: String, what| ureq::Error::Other(Box::new(Inside { host, what }));
        if is_this_machine(name) {
            return Err(refused(name.to_owned(), "this machine"));
        }
        let found = self.0.resolve(uri, config, timeout)?;
        for address in &found {
            if let Some(what) = inside_address(address.ip()) {
                let ip = address.ip().to_string();
                let host = match ip == name {
                    true => ip,
                    false => format!("{name} ({ip})"),
                };
                return Err(refused(host, what));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use ureq::unversioned::transport::DefaultConnector;

    use super::*;

    #[test]
    fn attack_a_redirect_of_the_server_that_was_named_leads_to_no_other_service_of_this_machine() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        other.set_nonblocking(true).unwrap();
        let elsewhere = other.local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let redirects = thread::spawn(move || {
            for to in ["/other", &format!("http://{elsewhere}/")] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]).unwrap();
                let answer = format!(
                    "HTTP/1.1 302 Found\r\nLocation: {to}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let config = ureq::Agent::config_builder().max_redirects(3).proxy(None);
        let resolver = RedirectsOutside::of(&own);
        let agent = ureq::Agent::with_parts(config.build(), DefaultConnector::default(), resolver);
        let error = agent.get(format!("http://{own}/")).call().unwrap_err();
        assert!(
            error
                .to_string()
                .contains("it leads to 127.0.0.1, this machine"),
            "{error}"
        );
        redirects.join().unwrap();
        let error = other.accept().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}
