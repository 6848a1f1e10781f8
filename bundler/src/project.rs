//! The project file, `outhaul.toml`: what people would otherwise type with every command.
//!
//! What comes in: the text of a file that [`find`] found, or the environment. What goes out: a
//! [`Project`] with each value and its place, or every problem at once with its place. Relative paths are
//! relative to the file. It holds no secret and names no program: a key that would is refused by name.
//! It reads nothing itself, and nothing of a repository that was fetched ever comes here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use outhaul_control::diagnostic::{Diagnostic, Diagnostics, Location, SourceFile};
use outhaul_git::address::{Address, AddressError};
use outhaul_kit::suggest::did_you_mean;
use outhaul_kit::url_secrets::{has_secret, without_secrets};

pub mod find;
pub mod trust;

/// What the file is called.
pub const FILE: &str = "outhaul.toml";
/// Largest file, in bytes.
pub const MAX_BYTES: u64 = 256 * 1024;
/// Longest value, in bytes.
const MAX_VALUE_BYTES: usize = 4096;

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// The control plane's repository: a URL or a folder.
    ControlPlane,
    /// Its branch with the environments.
    ControlPlaneBranch,
    /// Local copies of repositories.
    Sources,
    /// Hosts that control planes and workloads may name.
    AllowHosts,
    /// Mirrors that are asked for images before their registries.
    RegistryMirrors,
    /// Authorities of registries.
    RegistryCas,
    /// The fleet's folder.
    Fleet,
    /// The hub whose gates decide.
    Hub,
    /// The certificate of its authority.
    HubCa,
    /// Where `render` writes.
    Rendered,
    /// Where `bundle` writes.
    Bundles,
}

impl Setting {
    /// All of them, in the order in which people read them.
    pub const ALL: [Self; 11] = [
        Self::ControlPlane,
        Self::ControlPlaneBranch,
        Self::Sources,
        Self::AllowHosts,
        Self::RegistryMirrors,
        Self::RegistryCas,
        Self::Fleet,
        Self::Hub,
        Self::HubCa,
        Self::Rendered,
        Self::Bundles,
    ];

    /// Its key in the file.
    pub fn key(self) -> &'static str {
        match self {
            Self::ControlPlane => "control_plane",
            Self::ControlPlaneBranch => "control_plane_branch",
            Self::Sources => "sources",
            Self::AllowHosts => "allow_hosts",
            Self::RegistryMirrors => "registry_mirrors",
            Self::RegistryCas => "registry_cas",
            Self::Fleet => "fleet",
            Self::Hub => "hub",
            Self::HubCa => "hub_ca",
            Self::Rendered => "rendered",
            Self::Bundles => "bundles",
        }
    }

    /// Its environment variable.
    pub fn variable(self) -> String {
        format!("OUTHAUL_{}", self.key().to_uppercase())
    }

    /// Whether it has several values.
    pub fn is_list(self) -> bool {
        matches!(
            self,
            Self::Sources | Self::AllowHosts | Self::RegistryMirrors | Self::RegistryCas
        )
    }

    /// The setting that it belongs to: what says how to reach one control plane or hub is of no use for
    /// another.
    pub fn part_of(self) -> Option<Self> {
        match self {
            Self::ControlPlaneBranch => Some(Self::ControlPlane),
            Self::HubCa => Some(Self::Hub),
            _ => None,
        }
    }

    /// Whether its value is a path, or may be one.
    fn is_path(self) -> bool {
        !matches!(
            self,
            Self::ControlPlaneBranch | Self::AllowHosts | Self::RegistryMirrors | Self::Hub
        )
    }
}

/// Values of one setting and their places; several where [`Setting::is_list`] says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingValue {
    /// As the command line takes them.
    pub texts: Vec<String>,
    /// Where the setting is written.
    pub place: Location,
    /// Where each text of a list of texts is written.
    pub places: Vec<Location>,
}

/// What a project file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Project {
    /// What is set.
    pub values: BTreeMap<Setting, SettingValue>,
}

/// Why a key that someone may well try is not one.
fn refused(key: &str) -> Option<&'static str> {
    Some(match key {
        "passphrase" | "passphrase_file" => {
            "a project file is shared and holds no secret: use `--passphrase-file`, the variable OUTHAUL_PASSPHRASE, or type it when asked"
        }
        "token" | "token_file" | "password" | "secret" | "identity" => {
            "a project file is shared and holds no secret: use the command's own option"
        }
        "scheduler" | "schedulers" => {
            "a project file names no program that is run: use `--scheduler NAME=PROGRAM`"
        }
        "hook" | "hooks" => {
            "a project file names no program that is run: use `--hook NAME=PROGRAM`"
        }
        "cache" => {
            "where to fetch to is your own choice: use `--cache`, or the variable OUTHAUL_CACHE"
        }
        "environment" | "environments" => {
            "an environment is named with each command: use `--environment NAME`"
        }
        "store" => {
            "the fleet's folder keeps what was shipped: use `fleet`; `serve` has its own configuration"
        }
        "compat" | "strict" => {
            "use the option with each command, so that its result is the same in every folder"
        }
        _ => return None,
    })
}

impl Project {
    /// Reads the text of a project file that lies in `folder`. `shown` is its name in messages; paths in it
    /// are put after `folder`.
    ///
    /// # Errors
    /// Every problem, with its place.
    pub fn parse(text: &str, shown: &str, folder: &Path) -> Result<Self, Diagnostics> {
        let file = Arc::new(SourceFile {
            name: shown.to_owned(),
            text: text.to_owned(),
        });
        let mut reader = Reader {
            file,
            folder,
            findings: Diagnostics::new(),
        };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            reader.find(&span, "project-syntax", error.message().to_owned());
        }
        if reader.findings.has_errors() {
            return Err(reader.findings);
        }
        let project = reader.project(table.get_ref());
        match reader.findings.has_errors() {
            true => Err(reader.findings),
            false => Ok(project),
        }
    }

    /// A few lines that show what it says.
    pub fn lines(&self) -> Vec<String> {
        let line = |(setting, value): (&Setting, &SettingValue)| {
            format!("{} = {}", setting.key(), value.texts.join(", "))
        };
        self.values.iter().map(line).collect()
    }
}

/// A project file for the control plane in the folder `control_plane` beside it.
pub fn sample(control_plane: &str) -> String {
    format!(
        "# Defaults of `outhaul` in this folder and below it; an option or a variable overrules it.\n\
         # `outhaul project` shows what applies, `outhaul project --help` every setting. No secrets here.\n\
         control_plane = {}\n\
         # fleet = \"fleet\"\n\
         # hub = \"https://hub.factory.example\"\n\
         # hub_ca = \"hub-ca.pem\"\n\
         # rendered = \"rendered\"\n\
         # bundles = \"bundles\"\n\n\
         # [sources]\n\
         # \"https://git.factory.example/label-printer\" = \"label-printer\"\n",
        toml::Value::from(control_plane)
    )
}

struct Reader<'a> {
    file: Arc<SourceFile>,
    folder: &'a Path,
    findings: Diagnostics,
}

impl Reader<'_> {
    fn finding(
        &self,
        span: &std::ops::Range<usize>,
        code: &'static str,
        message: String,
    ) -> Diagnostic {
        Diagnostic::error(code, message).at(&Location::new(&self.file, span.clone()))
    }

    fn find(&mut self, span: &std::ops::Range<usize>, code: &'static str, message: String) {
        let finding = self.finding(span, code, message);
        self.findings.push(finding);
    }

    fn project(&mut self, table: &DeTable<'_>) -> Project {
        let mut project = Project::default();
        for (key, value) in table {
            let name: &str = key.get_ref();
            let Some(setting) = Setting::ALL.into_iter().find(|one| one.key() == name) else {
                self.unknown(key.span(), name);
                continue;
            };
            let mut places = Vec::new();
            let texts = match setting {
                Setting::Sources => self.sources(value, &mut places),
                Setting::AllowHosts | Setting::RegistryMirrors => {
                    self.list(value, setting, &mut places)
                }
                Setting::RegistryCas => {
                    let texts = self.list(value, setting, &mut places).into_iter();
                    texts.map(|text| self.file_of(text)).collect()
                }
                _ => self.text(value, setting).into_iter().collect(),
            };
            let place = Location::new(&self.file, key.span());
            let value = SettingValue {
                texts,
                place,
                places,
            };
            project.values.insert(setting, value);
        }
        let whole = |part: Setting| part.part_of().map(|whole| (part, whole));
        for (part, whole) in Setting::ALL.into_iter().filter_map(whole) {
            if let Some(value) = project.values.get(&part)
                && !project.values.contains_key(&whole)
            {
                let message = format!("`{}` needs `{}`", part.key(), whole.key());
                let finding = Diagnostic::error("project-value", message).at(&value.place);
                self.findings.push(finding);
            }
        }
        project
    }

    fn unknown(&mut self, span: std::ops::Range<usize>, name: &str) {
        let known: Vec<&str> = Setting::ALL.iter().map(|one| one.key()).collect();
        let finding = match refused(name) {
            Some(why) => {
                let message = format!("`{name}` is not a setting of a project file");
                self.finding(&span, "project-refused", message).help(why)
            }
            None => self
                .finding(
                    &span,
                    "unknown-setting",
                    format!("unknown setting `{name}`"),
                )
                .help(did_you_mean(name, &known)),
        };
        self.findings.push(finding);
    }

    /// One text, as the command line takes it.
    fn text(&mut self, value: &Spanned<DeValue<'_>>, setting: Setting) -> Option<String> {
        let text = self.checked(value, setting.key())?;
        Some(match setting.is_path() {
            true => self.path(&text),
            false => text,
        })
    }

    /// One text that is neither empty nor holds what no value holds.
    fn checked(&mut self, value: &Spanned<DeValue<'_>>, what: &str) -> Option<String> {
        let Some(text) = value.get_ref().as_str() else {
            let found = value.get_ref().type_str();
            let message = format!("`{what}` is text in quotes, and this is of type {found}");
            self.find(&value.span(), "project-value", message);
            return None;
        };
        let problem = if text.is_empty() {
            "is empty"
        } else if text.len() > MAX_VALUE_BYTES {
            "is longer than 4096 bytes"
        } else if text.chars().any(char::is_control) {
            "holds a control character"
        } else if has_secret(text) {
            "holds a password: give it to git's credential helper"
        } else {
            return Some(text.to_owned());
        };
        self.find(
            &value.span(),
            "project-value",
            format!("`{what}` {problem}"),
        );
        None
    }

    /// A path after the file's folder; what is a URL stays.
    fn path(&self, text: &str) -> String {
        let is_path = match Address::parse(text) {
            Ok(_) => false,
            Err(AddressError::Local { .. }) => true,
            Err(_) => !text.contains("://"),
        };
        match is_path {
            true => below(self.folder, text).display().to_string(),
            false => text.to_owned(),
        }
    }

    fn list(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        setting: Setting,
        places: &mut Vec<Location>,
    ) -> Vec<String> {
        let Some(items) = value.get_ref().as_array() else {
            let message = format!("`{}` is a list: [\"…\"]", setting.key());
            self.find(&value.span(), "project-value", message);
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items {
            if let Some(text) = self.checked(item, setting.key()) {
                texts.push(text);
                places.push(Location::new(&self.file, item.span()));
            }
        }
        texts
    }

    /// `HOST=FILE`, with the file after this one's folder.
    fn file_of(&self, text: String) -> String {
        match text.split_once('=') {
            Some((host, file)) => format!("{host}={}", below(self.folder, file).display()),
            None => text,
        }
    }

    fn sources(&mut self, value: &Spanned<DeValue<'_>>, places: &mut Vec<Location>) -> Vec<String> {
        let Some(table) = value.get_ref().as_table() else {
            let message = "`sources` is a table: `\"URL\" = \"DIR\"` below `[sources]`".to_owned();
            self.find(&value.span(), "project-value", message);
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (url, dir) in table {
            let name: &str = url.get_ref();
            if name.is_empty() || name.chars().any(char::is_control) {
                let message = "a source is named by the URL of its repository".to_owned();
                self.find(&url.span(), "project-value", message);
            }
            if has_secret(name) {
                let message = format!(
                    "`{}` holds a password, which a project file must not",
                    without_secrets(name)
                );
                self.find(&url.span(), "project-refused", message);
            }
            if let Some(dir) = self.checked(dir, name) {
                let dir = below(self.folder, &dir);
                // A source travels as `URL=DIR`, and is parted at the last `=`.
                if dir.display().to_string().contains('=') {
                    let message = format!(
                        "`{}` has a `=`, which the path of a source cannot have",
                        dir.display()
                    );
                    self.find(&url.span(), "project-value", message);
                    continue;
                }
                texts.push(format!("{name}={}", dir.display()));
                places.push(Location::new(&self.file, url.span()));
            }
        }
        texts
    }
}

/// `path` as seen from `folder`, without `./` before it.
fn below(folder: &Path, path: &str) -> PathBuf {
    let path = Path::new(path);
    let found = folder.join(path);
    let found = found.strip_prefix("./").unwrap_or(&found);
    match found.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => found.to_owned(),
    }
}

#[cfg(test)]
mod tests;
