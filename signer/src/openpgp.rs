//! Signatures that `apt` verifies: `OpenPGP`, with the key that publishes a fleet's bundles.
//!
//! What comes in: a [`StatementSigner`] and a text. What goes out: the text with a signature in clear, and the key as
//! `Signed-By` takes it. Packets are of version 4 (RFC 4880, and `EdDSA` as `GnuPG`, `gpgv` and `sqv` know it), of one form
//! each, and only written: nothing of `OpenPGP` is read here. Times in them are constant, so that the same text has the same
//! bytes; a site whose clock is years off verifies them, too, as `apt` has `gpgv` ignore times.
//!
//! A library was weighed: those that there are bring RSA, DSA, ciphers and a second version of each curve, to write five
//! packets. The key is no other one than the fleet's, so that nobody has one more to keep; what it signs elsewhere are
//! documents that begin with `{` or `DSSEv1`, and here a digest, so that neither is ever taken for the other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::Sha1;
use sha2::{Digest as _, Sha512};

use crate::fleet::StatementSigner;

/// When the key and each signature were made, in seconds since 1970: 2020-09-13.
const TIME: u32 = 1_600_000_000;
/// Packets.
const SIGNATURE: u8 = 2;
const PUBLIC_KEY: u8 = 6;
const USER_ID: u8 = 13;
/// Public key algorithm `EdDSA`, and its curve Ed25519.
const EDDSA: u8 = 22;
const CURVE: [u8; 10] = [9, 0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];
/// Hash algorithm SHA-512.
const SHA512: u8 = 10;
/// Signature of a text, with line ends as they travel.
const OF_TEXT: u8 = 0x01;
/// Signature of a user id by its own key.
const OF_USER_ID: u8 = 0x13;

/// A fleet's publishing key, as `OpenPGP` has it.
#[derive(Debug)]
pub struct PackageSigner<'s> {
    signer: &'s StatementSigner,
    key: Vec<u8>,
    user_id: String,
}

impl<'s> PackageSigner<'s> {
    /// The key of `signer`.
    pub fn of(signer: &'s StatementSigner) -> Self {
        let public = signer.public_bytes();
        let mut key = vec![4];
        key.extend(TIME.to_be_bytes());
        key.push(EDDSA);
        key.extend(CURVE);
        // 0x40 says that the point is in the curve's own form.
        let mut point = vec![0x40];
        point.extend(public);
        number(&mut key, &point);
        let user_id = format!("Outhaul packages {}", hex::encode(&public[..4]));
        Self {
            signer,
            key,
            user_id,
        }
    }

    /// The key, as a file for `Signed-By`.
    pub fn armored_key(&self) -> String {
        let mut bytes = Vec::new();
        packet(&mut bytes, PUBLIC_KEY, &self.key);
        packet(&mut bytes, USER_ID, self.user_id.as_bytes());
        let mut hashed = self.key_as_hashed();
        hashed.push(0xb4);
        hashed.extend(length(self.user_id.len()));
        hashed.extend(self.user_id.as_bytes());
        packet(&mut bytes, SIGNATURE, &self.signature(OF_USER_ID, &hashed));
        armored("PUBLIC KEY BLOCK", &bytes)
    }

    /// `text` with its signature, as `InRelease` has it. Its last line ends.
    pub fn sign_clear(&self, text: &str) -> String {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let hashed = lines.join("\r\n");
        let mut out = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n".to_owned();
        for line in lines {
            if line.starts_with('-') {
                out.push_str("- ");
            }
            out.push_str(line);
            out.push('\n');
        }
        let mut bytes = Vec::new();
        packet(
            &mut bytes,
            SIGNATURE,
            &self.signature(OF_TEXT, hashed.as_bytes()),
        );
        out.push_str(&armored("SIGNATURE", &bytes));
        out
    }

    /// The key's body, as fingerprints and signatures hash it.
    fn key_as_hashed(&self) -> Vec<u8> {
        let mut bytes = vec![0x99];
        bytes.extend(
            u16::try_from(self.key.len())
                .unwrap_or(u16::MAX)
                .to_be_bytes(),
        );
        bytes.extend(&self.key);
        bytes
    }

    /// The body of a signature of `kind` over `content`.
    fn signature(&self, kind: u8, content: &[u8]) -> Vec<u8> {
        let fingerprint = Sha1::digest(self.key_as_hashed());
        let mut about = Vec::new();
        part(&mut about, 2, &TIME.to_be_bytes());
        if kind == OF_USER_ID {
            // It may sign, and nothing else.
            part(&mut about, 27, &[0x02]);
        }
        part(&mut about, 33, &[&[4], &fingerprint[..]].concat());
        let mut body = vec![4, kind, EDDSA, SHA512];
        body.extend(u16::try_from(about.len()).unwrap_or(u16::MAX).to_be_bytes());
        body.extend(about);
        let mut hasher = Sha512::new();
        hasher.update(content);
        hasher.update(&body);
        hasher.update([4, 0xff]);
        hasher.update(length(body.len()));
        let digest = hasher.finalize();
        // What is not signed only helps to find the key.
        let mut unsigned = Vec::new();
        part(&mut unsigned, 16, &fingerprint[12..]);
        body.extend(
            u16::try_from(unsigned.len())
                .unwrap_or(u16::MAX)
                .to_be_bytes(),
        );
        body.extend(unsigned);
        body.extend(&digest[..2]);
        let signed = self.signer.sign_digest(&digest);
        let (r, s) = signed.split_at(32);
        number(&mut body, r);
        number(&mut body, s);
        body
    }
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}

/// A subpacket; all of ours are short.
fn part(to: &mut Vec<u8>, kind: u8, content: &[u8]) {
    to.push(u8::try_from(content.len() + 1).unwrap_or(u8::MAX));
    to.push(kind);
    to.extend(content);
}

/// A packet with a length of four bytes.
fn packet(to: &mut Vec<u8>, tag: u8, body: &[u8]) {
    to.push(0xc0 | tag);
    to.push(0xff);
    to.extend(length(body.len()));
    to.extend(body);
}

/// A number: its length in bits, and its bytes without zeros before them.
fn number(to: &mut Vec<u8>, bytes: &[u8]) {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[zeros..];
    let first = bytes.first().map_or(0, |byte| byte.leading_zeros());
    let bits = bytes.len() * 8 - usize::try_from(first).unwrap_or_default();
    to.extend(u16::try_from(bits).unwrap_or(u16::MAX).to_be_bytes());
    to.extend(bytes);
}

fn armored(kind: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let mut out = format!("-----BEGIN PGP {kind}-----\n\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    let check = crc24(bytes).to_be_bytes();
    out.push_str(&format!(
        "={}\n-----END PGP {kind}-----\n",
        STANDARD.encode(&check[1..])
    ));
    out
}

/// The checksum of an armor.
fn crc24(bytes: &[u8]) -> u32 {
    let mut crc: u32 = 0x00b7_04ce;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    crc & 0x00ff_ffff
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::fleet::{Fleet, InitOptions};
    use crate::key::Secret;

    fn signer(folder: &std::path::Path) -> StatementSigner {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let secret = Secret::new("a passphrase for tests".to_owned());
        let fleet = Fleet::init(folder, InitOptions::new(secret.clone(), now)).unwrap();
        fleet.statement_signer(&secret).unwrap()
    }

    #[test]
    fn the_same_text_has_the_same_signature_and_lines_that_begin_with_a_dash_are_marked() {
        let folder = tempfile::tempdir().unwrap();
        let signer = signer(folder.path());
        let signer = PackageSigner::of(&signer);
        let signed = signer.sign_clear("a: b \n-c\n");
        assert_eq!(signed, signer.sign_clear("a: b\n-c\n"));
        assert!(
            signed.contains("\n\na: b\n- -c\n-----BEGIN PGP SIGNATURE-----\n"),
            "{signed}"
        );
        assert_eq!(
            signer.armored_key(),
            PackageSigner::of(signer.signer).armored_key()
        );
    }

    #[test]
    fn numbers_have_no_zeros_before_them_and_the_checksum_is_openpgp_s() {
        let mut out = Vec::new();
        number(&mut out, &[0, 0, 1, 255]);
        assert_eq!(out, [0, 9, 1, 255]);
        assert_eq!(crc24(b"123456789"), 0x0021_cf02);
    }

    /// `GnuPG`'s own verifier, which `apt` asks.
    #[test]
    fn gpgv_verifies_what_is_signed_and_refuses_what_was_changed() {
        if !outhaul_tests::available_or_skip("gpgv") || !outhaul_tests::available_or_skip("gpg") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // Signatures differ in their zeros: several keys, several texts.
        for round in 0..8 {
            let fleet = path(&format!("fleet{round}"));
            let signer = signer(&fleet);
            let signer = PackageSigner::of(&signer);
            std::fs::write(path("key.asc"), signer.armored_key()).unwrap();
            let mut dearmor = Command::new("gpg");
            dearmor.args(["--homedir"]).arg(folder.path()).args([
                "--batch",
                "--yes",
                "--dearmor",
                "-o",
            ]);
            dearmor.arg(path("key.gpg")).arg(path("key.asc"));
            assert!(dearmor.output().unwrap().status.success());
            let verified = |text: &str| {
                std::fs::write(path("InRelease"), text).unwrap();
                let mut gpgv = Command::new("gpgv");
                gpgv.arg("--homedir")
                    .arg(folder.path())
                    .arg("--keyring")
                    .arg(path("key.gpg"));
                gpgv.arg(path("InRelease")).output().unwrap()
            };
            for text in ["Origin: Outhaul\n", "a\n- b\n\n  c  \n", "\n"] {
                let signed = signer.sign_clear(text);
                let done = verified(&signed);
                assert!(
                    done.status.success(),
                    "{signed}{}",
                    String::from_utf8_lossy(&done.stderr)
                );
            }
            let changed = signer
                .sign_clear("Origin: Outhaul\n")
                .replace("Outhaul\n", "Outhaul!\n");
            assert!(!verified(&changed).status.success());
        }
    }
}
