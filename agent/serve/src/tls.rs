//! The site's own certificate authority.
//!
//! What comes in: a folder, and the names by which this server is reached. What goes out: `ca.pem`, which
//! clients are given once, and a server certificate, a new one at each start, whose key is never
//! written. Both are valid for as long as certificates can be: a site's clock may be years off in either
//! direction, and the key never leaves the machine.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use outhaul_kit::durable;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType, date_time_ymd,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use crate::digest::Digest;
use crate::error::ServeError;

const MAX_PEM: u64 = 64 * 1024;

/// The authority of one site.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The authority in `folder`, made there when there is none.
    ///
    /// # Errors
    /// [`ServeError`] when the folder cannot be written, or holds a part of an authority.
    pub fn open_or_create(folder: &Path) -> Result<Self, ServeError> {
        let (key_path, certificate_path) = (folder.join("ca.key"), folder.join("ca.pem"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: rcgen::Error| ServeError::Tls {
                path,
                problem: error.to_string(),
            }
        };
        let key = match durable::read_if_present(&key_path, MAX_PEM)? {
            Some(pem) => {
                KeyPair::from_pem(&String::from_utf8_lossy(&pem)).map_err(failed(&key_path))?
            }
            None if certificate_path.exists() => {
                return Err(ServeError::Tls {
                    path: key_path,
                    problem: "the key of `ca.pem` is missing".to_owned(),
                });
            }
            None => {
                let key = KeyPair::generate().map_err(failed(&key_path))?;
                durable::create_private_folder(folder)?;
                durable::write(&key_path, key.serialize_pem().as_bytes(), 0o600)?;
                key
            }
        };
        let parameters = authority(&key);
        // The key comes first: a start that was cut off between the two goes on here.
        if !certificate_path.exists() {
            let certificate = parameters.self_signed(&key).map_err(failed(folder))?;
            durable::write(&certificate_path, certificate.pem().as_bytes(), 0o644)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            issuer: Issuer::new(parameters, key),
        })
    }

    /// The certificate that clients are given.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// TLS with a certificate for this machine, and for `names` and `addresses`.
    ///
    /// # Errors
    /// [`ServeError`] for what cannot be a name.
    pub fn acceptor(
        &self,
        names: &[String],
        addresses: &[IpAddr],
    ) -> Result<TlsAcceptor, ServeError> {
        let failed = |problem: String| ServeError::Tls {
            path: self.folder.clone(),
            problem,
        };
        let mut all = vec!["localhost".to_owned()];
        all.extend(names.iter().cloned());
        let mut parameters =
            CertificateParams::new(all).map_err(|error| failed(error.to_string()))?;
        let loopback = [
            IpAddr::from([127, 0, 0, 1]),
            IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ];
        for address in loopback.iter().chain(addresses) {
            let name = SanType::IpAddress(*address);
            if !address.is_unspecified() && !parameters.subject_alt_names.contains(&name) {
                parameters.subject_alt_names.push(name);
            }
        }
        valid_always(&mut parameters);
        let subject = &mut parameters.distinguished_name;
        subject.push(DnType::CommonName, "outhaul-mirror");
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(|error| failed(error.to_string()))?;
        let certificate = parameters
            .signed_by(&key, &self.issuer)
            .map_err(|error| failed(error.to_string()))?;
        let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        outhaul_listen::acceptor(vec![certificate.der().clone()], secret)
            .map_err(|error| failed(error.to_string()))
    }
}

/// What the authority's certificate says: the same for the same key.
fn authority(key: &KeyPair) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let fingerprint = Digest::of(key.der_bytes()).hex();
    parameters.distinguished_name.push(
        DnType::CommonName,
        format!("Outhaul site {}", &fingerprint[..16]),
    );
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    valid_always(&mut parameters);
    parameters
}

fn valid_always(parameters: &mut CertificateParams) {
    parameters.not_before = date_time_ymd(1975, 1, 1);
    parameters.not_after = date_time_ymd(2974, 1, 1);
}
