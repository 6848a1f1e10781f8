//! `[containerd]` in `agent.toml`: whether images that came as twins are brought into this machine's containerd, and where that is.
//!
//! What comes in: the table. What goes out: [`Settings`] with every value in range. Without the table nothing is brought, and no twin is taken.

use std::path::PathBuf;

use serde::Deserialize;

/// `[containerd]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether this site takes twins, and brings their images into containerd.
    pub twins: bool,
    /// containerd's socket.
    pub address: PathBuf,
    /// The namespace of the images.
    pub namespace: String,
    /// The snapshotter that containers use; containerd's default where none is named.
    pub snapshotter: Option<String>,
    /// The program `ctr`; by name, it is looked for in `PATH`.
    pub ctr: PathBuf,
    /// Seconds for one image, 10 to 86,400.
    pub timeout_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            twins: false,
            address: "/run/containerd/containerd.sock".into(),
            namespace: "k8s.io".to_owned(),
            snapshotter: None,
            ctr: "ctr".into(),
            timeout_s: 1800,
        }
    }
}

impl Settings {
    /// The first value that is out of its range: its key, the value, and what is allowed.
    pub fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        if !self.address.is_absolute() {
            let expected = "an absolute path, such as \"/run/k3s/containerd/containerd.sock\"";
            let found = format!("`{}`", self.address.display());
            return Some(("containerd.address", found, expected));
        }
        let expected = "a name of letters, digits, `.`, `_` and `-`";
        if !is_name(&self.namespace) {
            let found = format!("`{}`", self.namespace);
            return Some(("containerd.namespace", found, expected));
        }
        if let Some(wrong) = self.snapshotter.as_ref().filter(|name| !is_name(name)) {
            return Some(("containerd.snapshotter", format!("`{wrong}`"), expected));
        }
        if !(10..=86_400).contains(&self.timeout_s) {
            let found = self.timeout_s.to_string();
            return Some(("containerd.timeout_s", found, "10 to 86400"));
        }
        None
    }
}

/// containerd's own rule for names; none begins like an option of `ctr`.
fn is_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=76).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_an_option_of_ctr_is_not_a_name() {
        let settings = |namespace: &str| Settings {
            namespace: namespace.to_owned(),
            ..Settings::default()
        };
        assert_eq!(settings("k8s.io").out_of_range(), None);
        for wrong in ["", "--debug", "a b", "a/b"] {
            let found = settings(wrong).out_of_range().map(|found| found.0);
            assert_eq!(found, Some("containerd.namespace"), "{wrong}");
        }
    }
}
