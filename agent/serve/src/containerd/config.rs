//! Whether containerd reads its folder of hosts at all.
//!
//! What comes in: the text of containerd's `config.toml`. What goes out: whether it names that folder for the pulls of
//! Kubernetes, and what to add where it does not. It is pure and never writes that file: what starts containers on a
//! machine is changed by people.

use std::path::Path;

use toml::{Table, Value};

/// Whether containerd's configuration names the folder of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigState {
    /// It does.
    Named,
    /// It does not, or names another; these lines are to be added.
    Missing {
        /// What is there instead, for people.
        found: String,
        /// The lines.
        add: String,
    },
    /// It cannot be read.
    Unreadable(String),
}

/// By version of the file: the plugin that pulls images for Kubernetes.
const PLUGINS: [(i64, &str); 2] = [
    (3, "io.containerd.cri.v1.images"),
    (2, "io.containerd.grpc.v1.cri"),
];

/// What `text`, a `config.toml`, says about `folder`; `None` for a machine without such a file.
pub fn config_state(text: Option<&str>, folder: &Path) -> ConfigState {
    let Some(text) = text else {
        return missing("there is no such file", PLUGINS[1], folder, true);
    };
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return ConfigState::Unreadable(toml::de::Error::message(&error).to_owned()),
    };
    let version = table
        .get("version")
        .and_then(Value::as_integer)
        .unwrap_or(1);
    let Some(plugin) = PLUGINS.into_iter().find(|(known, _)| *known == version) else {
        let found = format!("its version is {version}, which has no folder of hosts");
        return missing(&found, PLUGINS[1], folder, true);
    };
    let images = table.get("plugins").and_then(|all| all.get(plugin.1));
    let registry = images.and_then(|images| images.get("registry"));
    let path = registry.and_then(|registry| registry.get("config_path"));
    let path = path.and_then(Value::as_str).unwrap_or_default();
    // Several folders may be named.
    if path.split(':').any(|one| Path::new(one) == folder) {
        return ConfigState::Named;
    }
    let mut found = match path {
        "" => "`config_path` is not set".to_owned(),
        path => format!("`config_path` is `{path}`"),
    };
    let has = |key: &str| registry.and_then(|registry| registry.get(key)).is_some();
    if has("mirrors") {
        found
            .push_str(", and `mirrors` is, which containerd does not accept next to it: remove it");
    }
    let imports = table.get("imports").and_then(Value::as_array);
    if imports.is_some_and(|imports| !imports.is_empty()) {
        found.push_str(
            "; what `imports` names was not read: `containerd config dump` shows what holds in the end",
        );
    }
    missing(&found, plugin, folder, false)
}

fn missing(found: &str, (version, plugin): (i64, &str), folder: &Path, whole: bool) -> ConfigState {
    let head = match whole {
        true => format!("version = {version}\n"),
        false => String::new(),
    };
    ConfigState::Missing {
        found: found.to_owned(),
        add: format!(
            "{head}[plugins.\"{plugin}\".registry]\n  config_path = {}\n",
            Value::String(folder.display().to_string())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> ConfigState {
        config_state(Some(text), Path::new("/etc/containerd/certs.d"))
    }

    #[test]
    fn a_configuration_that_names_the_folder_is_known_in_both_versions() {
        for (version, plugin) in PLUGINS {
            for path in [
                "/etc/containerd/certs.d",
                "/etc/docker/certs.d:/etc/containerd/certs.d/",
            ] {
                let text = format!(
                    "version = {version}\n[plugins.\"{plugin}\".registry]\nconfig_path = \"{path}\"\n"
                );
                assert_eq!(state(&text), ConfigState::Named, "{text}");
            }
        }
    }

    #[test]
    fn what_is_to_be_added_makes_the_configuration_right() {
        for there in [
            "version = 2\n",
            "version = 3\n",
            "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n",
        ] {
            let ConfigState::Missing { found, add } = state(there) else {
                panic!("{there}");
            };
            assert_eq!(found, "`config_path` is not set");
            assert_eq!(
                state(&format!("{there}{add}")),
                ConfigState::Named,
                "{there}{add}"
            );
        }
        let ConfigState::Missing { add, .. } =
            config_state(None, Path::new("/etc/containerd/certs.d"))
        else {
            panic!("a machine without a configuration");
        };
        assert_eq!(state(&add), ConfigState::Named);
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let ConfigState::Missing { found, .. } = state(
            "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n\
             [plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"docker.io\"]\nendpoint = [\"https://a\"]\n",
        ) else {
            panic!("it names no folder");
        };
        assert!(
            found.contains("`mirrors`") && found.contains("`imports`"),
            "{found}"
        );
        let ConfigState::Missing { found, .. } = state("disabled_plugins = [\"cri\"]\n") else {
            panic!("it names no folder");
        };
        assert!(found.contains("version is 1"), "{found}");
        assert!(matches!(state("version = "), ConfigState::Unreadable(_)));
    }
}
