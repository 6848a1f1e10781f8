//! Secrets: values that are to be kept secret, by their keys or by how they begin, and that everyone can read.
//!
//! What comes in: a control plane. What goes out: a warning for each such value of a config container that is not sealed: it is in git,
//! in what is rendered and in every bundle as it is written. What only names a secret, such as a file or an object of the cluster, is
//! left alone, and private keys, which have a finding of their own. The value is never printed.

use outhaul_control::ControlPlane;
use outhaul_control::diagnostic::{Diagnostic, Diagnostics};
use outhaul_kit::{private_keys, secrets};
use outhaul_seal::marker;

/// The code of the finding.
pub const CODE: &str = "secret-in-clear";

/// What to do about one.
pub const HELP: &str = "`outhaul secret seal` makes a text that only the sites open: put it in the place of the value; a secret that was \
                        published already is to be replaced by another one";

/// What is said of one.
pub fn message(key: &str) -> String {
    format!(
        "`{key}` looks like a secret, and everyone who has this repository, what is rendered or a bundle can read it"
    )
}

pub(super) fn in_clear(plane: &ControlPlane, findings: &mut Diagnostics) {
    for container in plane.configs.values() {
        for (key, text) in &container.data {
            let is_key = private_keys::in_text(&text.value).is_some();
            if is_key || !is_in_clear(key, &text.value) {
                continue;
            }
            findings.push(
                Diagnostic::warning(CODE, message(key))
                    .at(&text.location)
                    .concealed()
                    .help(HELP),
            );
        }
    }
}

/// Whether the value of `key` is to be kept secret, and is not; or, where the value is a list, a map or settings of another program, one
/// in it.
pub fn is_in_clear(key: &str, value: &str) -> bool {
    // Beside a sealed text another one may stand in clear.
    secrets::is_in_clear(key, &marker::replace_markers(value, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_text_is_none_in_clear_and_one_beside_it_is() {
        let sealed = format!("{}AAAA]", marker::OPENING);
        for (key, value, expected) in [
            ("PASSWORD", "SEALED", false),
            ("USERS", "[{password: SEALED}, {password: SEALED}]", false),
            ("USERS", "[{password: SEALED}, {password: hunter2}]", true),
            ("PASSWORD", "hunter2", true),
        ] {
            let value = value.replace("SEALED", &sealed);
            assert_eq!(is_in_clear(key, &value), expected, "{key}: {value}");
        }
    }
}
