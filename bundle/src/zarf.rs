//! Zarf packages, as far as the centre and the sites must agree on them.
//!
//! What comes in: names and paths. What goes out: whether a package may be called so, whether a file is a package, and what a file's name
//! says of the package in it. It reads no package and no definition.

/// The kind of a package's definition.
pub const DEFINITION: &str = "ZarfPackageConfig";
/// How the files of packages begin, as `zarf package create` names them.
const PREFIX: &str = "zarf-package-";
/// How they end.
const ENDS: [&str; 2] = [".tar.zst", ".tar"];
/// The architectures that packages are for, which a file's name has behind the package's.
const ARCHITECTURES: [&str; 3] = ["amd64", "arm64", "multi"];

/// Whether a package may have this name: it becomes a part of the API's paths, and an argument of the command.
pub fn is_package_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.bytes().all(|byte| letter(byte) || byte == b'-') && name.bytes().next().is_some_and(letter)
}

/// Whether a file of an assignment's manifests is a package, by its path.
pub fn is_package_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with(PREFIX) && ENDS.iter().any(|end| name.ends_with(end))
}

/// The name of the package in a file, by the file's path: `zarf-package-NAME-ARCHITECTURE-VERSION.tar.zst`.
pub fn name_in_file(path: &str) -> Option<&str> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let rest = file.strip_prefix(PREFIX)?;
    let rest = ENDS.iter().find_map(|end| rest.strip_suffix(end))?;
    let found = ARCHITECTURES.iter().filter_map(|architecture| {
        let at = rest.rfind(&format!("-{architecture}"))?;
        let behind = &rest[at + 1 + architecture.len()..];
        (behind.is_empty() || behind.starts_with('-')).then(|| &rest[..at])
    });
    found
        .max_by_key(|name| name.len())
        .filter(|name| is_package_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_by_its_name_and_its_file() {
        for (name, expected) in [
            ("lamp", true),
            ("9-lamp", true),
            ("Lamp", false),
            ("-lamp", false),
            ("lamp/../x", false),
            ("lamp.x", false),
            ("", false),
        ] {
            assert_eq!(is_package_name(name), expected, "{name}");
        }
        for (path, expected) in [
            ("a/zarf-package-lamp-amd64-1.0.0.tar.zst", Some("lamp")),
            ("zarf-package-big-lamp-arm64.tar", Some("big-lamp")),
            ("zarf-package-amd64-amd64-1.tar.zst", Some("amd64")),
            ("zarf-package-lamp.tar.zst", None),
            ("zarf-package-Lamp-amd64.tar.zst", None),
            ("lamp.tar.zst", None),
        ] {
            assert_eq!(name_in_file(path), expected, "{path}");
        }
        assert!(is_package_file("a/zarf-package-lamp.tar.zst"));
        assert!(!is_package_file("zarf-package-lamp/x.tar.zst"));
    }
}
