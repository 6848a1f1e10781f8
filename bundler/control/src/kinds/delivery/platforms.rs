//! `platforms` of a `DeliveryPolicy`: for which platforms images travel.
//!
//! What comes in: the field. What goes out: its platforms, each as registries write it. Which of them an image has is found where
//! images are collected.

use std::collections::BTreeSet;

use crate::diagnostic::Diagnostic;
use crate::kinds::fields::{FieldReader, Fields};
use crate::kinds::shape::{Shape, pattern, some};
use crate::model::Spanned;
use crate::yaml::YamlValue;
use outhaul_kit::suggest::did_you_mean;

const FIELD: &str = "platforms";
/// Go's names of systems, which the OCI image specification takes.
const SYSTEMS: [&str; 15] = [
    "aix",
    "android",
    "darwin",
    "dragonfly",
    "freebsd",
    "illumos",
    "ios",
    "js",
    "linux",
    "netbsd",
    "openbsd",
    "plan9",
    "solaris",
    "wasip1",
    "windows",
];
/// Go's names of architectures, likewise.
const ARCHITECTURES: [&str; 14] = [
    "386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64",
    "ppc64le", "riscv64", "s390x", "wasm",
];
/// What the kernel and distributions call some of them.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("x86_64", "amd64"),
    ("x64", "amd64"),
    ("aarch64", "arm64"),
    ("armhf", "arm/v7"),
    ("armv7l", "arm/v7"),
    ("i386", "386"),
];

pub(super) fn shape() -> Shape {
    let (systems, architectures) = (SYSTEMS.join("|"), ARCHITECTURES.join("|"));
    let written = format!("^({systems})/({architectures})(/v[0-9])?$");
    some(pattern(&written, "linux/amd64"))
}

/// The platforms; `None` when they are not there, or unsound, which was reported then.
pub(super) fn read(
    reader: &mut FieldReader<'_>,
    spec: &Fields<'_>,
) -> Option<Spanned<BTreeSet<String>>> {
    let node = spec.field(FIELD)?;
    let location = reader.location(node);
    let texts = reader.texts(spec, FIELD);
    let written = match &node.value {
        YamlValue::Sequence(items) => items.len(),
        // Reported as no list.
        _ => return None,
    };
    if written == 0 {
        let message = format!("`{}.{FIELD}` names no platform", spec.what);
        let finding = Diagnostic::error("bad-value", message).at(&location);
        reader.report(
            finding
                .help("name some, such as `linux/amd64`, or leave the field out: then all travel"),
        );
        return None;
    }
    let mut sound = texts.len() == written;
    let mut value = BTreeSet::new();
    for text in texts {
        if let Some(help) = problem(&text.value) {
            let message = format!("`{}` is not a platform", text.value);
            let finding = Diagnostic::error("bad-value", message).at(&text.location);
            reader.report(finding.help(help));
            sound = false;
        }
        value.insert(text.value);
    }
    sound.then_some(Spanned { value, location })
}

/// What to write in the place of a text that is no platform.
fn problem(text: &str) -> Option<String> {
    let mut parts = text.split('/');
    let (os, architecture) = (parts.next().unwrap_or_default(), parts.next());
    let variant = parts.next();
    let is_variant =
        |text: &str| matches!(text.as_bytes(), [b'v', digit] if digit.is_ascii_digit());
    let known = architecture.is_some_and(|name| ARCHITECTURES.contains(&name));
    let rest_is_sound = known && variant.is_none_or(is_variant) && parts.next().is_none();
    match (SYSTEMS.contains(&os), rest_is_sound) {
        (true, true) => return None,
        (false, true) => {
            let system = did_you_mean(os, &SYSTEMS);
            return Some(format!("`{os}` is not an operating system; {system}"));
        }
        _ => {}
    }
    let named = architecture.unwrap_or(os);
    let meant = OTHER_NAMES.iter().find(|(other, _)| *other == named);
    Some(match meant {
        Some((_, name)) => format!("did you mean `linux/{name}`?"),
        None => format!(
            "write system and architecture as registries do, such as `linux/amd64` or `linux/arm/v7`; architectures are {}",
            ARCHITECTURES.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn a_platform_is_written_as_registries_write_it() {
        for text in ["linux/amd64", "linux/arm/v7", "windows/amd64", "linux/386"] {
            assert_eq!(problem(text), None, "{text}");
        }
        for (text, help) in [
            ("amd64", "such as `linux/amd64`"),
            ("linux/x86_64", "did you mean `linux/amd64`?"),
            ("aarch64", "did you mean `linux/arm64`?"),
            ("linux/arm/7", "`linux/arm/v7`"),
            ("linux/arm/v7/x", "`linux/arm/v7`"),
            ("/amd64", "is not an operating system"),
            ("", "such as"),
            ("Linux/amd64", "did you mean `linux`?"),
            ("linus/amd64", "did you mean `linux`?"),
            ("window/amd64", "did you mean `windows`?"),
            ("macos/arm64", "known: `aix`"),
        ] {
            let found = problem(text).unwrap_or_default();
            assert!(found.contains(help), "{text}: {found}");
        }
    }
}
