//! Which certificate authorities a client trusts.
//!
//! What comes in: an [`Authority`]. What goes out: the certificates. A file that holds none is an error: a client never
//! falls back to other authorities than those that were named.

use std::path::Path;

use outhaul_kit::durable;
use ureq::tls::{Certificate, PemItem};

use crate::error::HttpError;

/// The system's certificate authorities, where the usual distributions keep them.
const SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Where the trusted certificate authorities are from.
#[derive(Debug, Clone, Copy)]
pub enum Authority<'a> {
    /// The system's.
    System,
    /// A PEM file.
    File(&'a Path),
    /// PEM text.
    Pem {
        /// Where it is from, for messages.
        origin: &'a str,
        /// The text.
        pem: &'a [u8],
    },
    /// None: every `https://` server is refused.
    Nobody,
}

impl<'a> Authority<'a> {
    /// For one server: none where it is not asked over TLS, `ca` where a file was given, else the system's.
    pub fn of(is_tls: bool, ca: Option<&'a Path>) -> Self {
        match (is_tls, ca) {
            (false, _) => Self::Nobody,
            (true, Some(path)) => Self::File(path),
            (true, None) => Self::System,
        }
    }
}

impl Authority<'_> {
    /// The certificates, each as DER, for a client of another protocol.
    ///
    /// # Errors
    /// [`HttpError`] when they cannot be read, or there are none.
    pub fn der(self) -> Result<Vec<Vec<u8>>, HttpError> {
        let all = self.certificates()?.into_iter();
        Ok(all.map(|one| one.der().to_vec()).collect())
    }

    /// The PEM text, of which at least one certificate could be read: for [`Authority::Pem`], when who names a file is to hear of a mistake
    /// before a client is needed.
    ///
    /// # Errors
    /// [`HttpError`] when it cannot be read, or holds no certificate.
    pub fn pem(self) -> Result<Vec<u8>, HttpError> {
        self.read().map(|(pem, _)| pem)
    }

    pub(crate) fn certificates(self) -> Result<Vec<Certificate<'static>>, HttpError> {
        self.read().map(|(_, certificates)| certificates)
    }

    fn read(self) -> Result<(Vec<u8>, Vec<Certificate<'static>>), HttpError> {
        let (origin, pem) = match self {
            Self::Nobody => return Ok((Vec::new(), Vec::new())),
            Self::Pem { origin, pem } => (Path::new(origin), pem.to_vec()),
            Self::File(path) => (path, durable::read(path, MAX_BYTES)?),
            Self::System => {
                let mut usual = SYSTEM.into_iter().map(Path::new);
                let path = usual.find(|path| path.is_file());
                let path = path.unwrap_or(Path::new(SYSTEM[0]));
                (path, durable::read(path, MAX_BYTES)?)
            }
        };
        let found = certificates(&pem);
        if found.is_empty() {
            let path = origin.to_owned();
            return Err(HttpError::NoCertificate { path });
        }
        Ok((pem, found))
    }
}

/// The certificates in `pem`; whatever else is in it is skipped.
pub(crate) fn certificates(pem: &[u8]) -> Vec<Certificate<'static>> {
    let items = ureq::tls::parse_pem(pem);
    items
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect()
}
