//! A key that a program holds: a smart card, a hardware module, a colleague's script.
//!
//! What comes in: the program and the public half of its key. What goes out: signatures, each checked
//! against that public half before it is used. The program reads the bytes to sign on stdin and writes
//! the 64 bytes of an Ed25519 signature, raw or in hexadecimal, on stdout. It gets no shell, no
//! argument and no secret, and ten minutes, in which it may ask a person.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outhaul_kit::program::{self, Limits};

use crate::key::{KeyError, PublicKey};
use crate::metadata::Signs;

/// What a program may take. It may ask for a PIN or a touch; its answer is 64 bytes in hexadecimal and a line end.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(600),
    output: 256,
    asks: true,
};

/// A key that a program holds.
#[derive(Debug, Clone)]
pub struct CommandKey {
    program: PathBuf,
    public: PublicKey,
}

impl CommandKey {
    /// The key `public`, held by `program`.
    pub fn new(program: &Path, public: PublicKey) -> Self {
        Self {
            program: program.to_owned(),
            public,
        }
    }
}

impl Signs for CommandKey {
    fn public(&self) -> PublicKey {
        self.public.clone()
    }

    fn signature(&self, bytes: &[u8]) -> Result<[u8; 64], KeyError> {
        let failed = |reason: String| KeyError::Program {
            program: self.program.clone(),
            reason,
        };
        let answer = program::run(&mut Command::new(&self.program), bytes, &LIMITS)
            .map_err(|fault| failed(fault.sentence()))?;
        let mut raw = [0u8; 64];
        if answer.len() == raw.len() {
            raw.copy_from_slice(&answer);
        } else {
            hex::decode_to_slice(answer.trim_ascii(), &mut raw)
                .map_err(|_| failed("it wrote no signature of 64 bytes".to_owned()))?;
        }
        self.public.verify(bytes, &raw)?;
        Ok(raw)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::key::SigningKey;

    fn program(folder: &Path, script: &str) -> PathBuf {
        let path = folder.join("signer");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_program_signs_raw_or_in_hexadecimal_and_nothing_else_passes() {
        let dir = tempfile::tempdir().unwrap();
        let key = SigningKey::generate().unwrap();
        let signature = key.sign(b"message");
        fs::write(dir.path().join("raw"), signature).unwrap();
        let raw = format!("cat > /dev/null; cat {}", dir.path().join("raw").display());
        let hex = format!("cat > /dev/null; echo {}", hex::encode(signature));
        for script in [&raw, &hex] {
            let held = CommandKey::new(&program(dir.path(), script), key.public());
            assert_eq!(held.signature(b"message").unwrap(), signature);
            let refusal = held.signature(b"another message").unwrap_err();
            assert!(
                matches!(refusal, KeyError::BadSignature { .. }),
                "{refusal}"
            );
        }
        for script in ["exit 1", "cat > /dev/null", "cat > /dev/null; echo short"] {
            let held = CommandKey::new(&program(dir.path(), script), key.public());
            let refusal = held.signature(b"message").unwrap_err();
            assert!(
                matches!(refusal, KeyError::Program { .. }),
                "{script}: {refusal}"
            );
        }
        let missing = CommandKey::new(&dir.path().join("none"), key.public());
        assert!(matches!(
            missing.signature(b"m").unwrap_err(),
            KeyError::Program { .. }
        ));
    }
}
