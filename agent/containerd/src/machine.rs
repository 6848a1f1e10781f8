//! The architecture of this machine, by the name that images have for it.
//!
//! What comes in: what this program was compiled for. What goes out: the name in an image's config. It asks nobody.

/// This machine's.
pub(crate) const OWN: &str = named(
    std::env::consts::ARCH.as_bytes(),
    cfg!(target_endian = "little"),
);

/// The name that Go, and so an image's config, has for an architecture of Rust's; empty for one that no image has.
const fn named(rust: &[u8], is_little: bool) -> &'static str {
    match (rust, is_little) {
        (b"x86_64", _) => "amd64",
        (b"x86", _) => "386",
        (b"aarch64", _) => "arm64",
        (b"arm", _) => "arm",
        (b"powerpc64", true) => "ppc64le",
        (b"powerpc64", false) => "ppc64",
        (b"riscv64", _) => "riscv64",
        (b"s390x", _) => "s390x",
        (b"loongarch64", _) => "loong64",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_has_the_name_that_images_have_for_it() {
        assert_eq!(named(b"x86", true), "386");
        assert_eq!(named(b"powerpc64", true), "ppc64le");
        assert_eq!(named(b"powerpc64", false), "ppc64");
        assert_ne!(OWN, "", "{}", std::env::consts::ARCH);
    }
}
