//! `outhaul schema`: the kinds of a control plane, as a list, as a reference, and as JSON Schemas.

use outhaul_kit::text::json_path;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use outhaul_kit::{console, text};
use outhaul_signer::durable;
use serde_json::json;

use super::failure::{self, Failure};
use super::schedule::table;
use super::{Exit, data, print_json, say};
use outhaul_control::schema::{self, KindSchema, print};
use outhaul_kit::suggest::did_you_mean;

/// Show the kinds of a control plane, or write their JSON Schemas for editors
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outhaul schema                                  # every kind\n  \
    outhaul schema DeliveryPolicy                   # its fields\n  \
    outhaul schema --output schema > control-plane/outhaul.schema.json\n  \
    outhaul schema --out control-plane/.schemas     # one file for any object, and one for each kind"
)]
pub struct Args {
    /// The kind; `outhaul.Template` and `kalypso.Template` tell two of one name apart
    kind: Option<String>,
    /// Write `outhaul.schema.json`, and one schema for each kind, into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    out: Option<PathBuf>,
    /// How data is printed: `schema` is the JSON Schema alone, as editors read it
    #[arg(long, value_enum, default_value_t)]
    output: SchemaFormat,
}

/// How kinds are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SchemaFormat {
    /// One JSON document: the JSON Schema as its result.
    Json,
    /// The JSON Schema itself, for a file.
    Schema,
    /// For people.
    #[default]
    Text,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        if let Some(folder) = &self.out {
            return self.write(folder);
        }
        let kinds = self.kinds()?;
        if self.output != SchemaFormat::Text {
            let document = match kinds.as_slice() {
                [one] => one.document(),
                several => schema::combined(several),
            };
            if self.output == SchemaFormat::Json {
                return print_json(&document);
            }
            let text = serde_json::to_string_pretty(&document)
                .map_err(|error| Failure::new(failure::INTERNAL, &error))?;
            console::document(&text::json(&text));
            return Ok(Exit::SUCCESS);
        }
        if self.kind.is_none() {
            let mut rows = vec![["APIVERSION", "KIND", "WHAT IT IS"].map(str::to_owned)];
            let row =
                |kind: &KindSchema| [kind.api_version, kind.name, kind.about].map(str::to_owned);
            rows.extend(kinds.iter().map(row));
            for line in table(&rows) {
                data(&line);
            }
            say(
                "help: `outhaul schema KIND` shows the fields; `--out DIR` writes schemas for editors",
            );
            return Ok(Exit::SUCCESS);
        }
        for kind in &kinds {
            data(&format!(
                "{} ({}): {}",
                kind.name, kind.api_version, kind.about
            ));
            let rows: Vec<[String; 3]> = print::lines(kind)
                .into_iter()
                .map(|line| [format!("  {}", line.path), line.takes, line.about])
                .collect();
            for line in table(&rows) {
                data(&line);
            }
        }
        Ok(Exit::SUCCESS)
    }

    /// Those that were asked for.
    fn kinds(&self) -> Result<Vec<KindSchema>, Failure> {
        let mut kinds = schema::kinds();
        let Some(wanted) = &self.kind else {
            return Ok(kinds);
        };
        let mut known: Vec<String> = kinds.iter().map(|kind| kind.name.to_owned()).collect();
        known.dedup();
        kinds.retain(|kind| {
            kind.name.eq_ignore_ascii_case(wanted) || kind.id().eq_ignore_ascii_case(wanted)
        });
        if kinds.is_empty() {
            return Err(
                Failure::say(failure::USAGE, format!("there is no kind `{wanted}`"))
                    .help(did_you_mean(wanted, &known)),
            );
        }
        Ok(kinds)
    }

    fn write(&self, folder: &Path) -> Result<Exit, Failure> {
        let refused = |error| Failure::of(&error);
        outhaul_load::refuse_folder_of_others(folder).map_err(refused)?;
        let files = schema::files();
        let is_schema = |there: &[u8]| {
            let there = serde_json::from_slice::<serde_json::Value>(there);
            there.is_ok_and(|there| there.get("$schema").is_some())
        };
        for name in files.keys() {
            let path = folder.join(name);
            outhaul_load::refuse_other_kind(&path, "a JSON Schema", is_schema).map_err(refused)?;
        }
        let failed = |path: &Path, error: &std::io::Error| {
            Failure::say(
                failure::ENVIRONMENT,
                format!("cannot write `{}`: {error}", path.display()),
            )
        };
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        for (name, value) in &files {
            let path = folder.join(name);
            let mut text = serde_json::to_string_pretty(value)
                .map_err(|error| Failure::new(failure::INTERNAL, &error))?;
            text.push('\n');
            durable::write(&path, text.as_bytes(), durable::PUBLIC_MODE)
                .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
        }
        if self.output == SchemaFormat::Json {
            let names: Vec<&String> = files.keys().collect();
            return print_json(&json!({"folder": json_path(folder), "files": names}));
        }
        say(&format!(
            "{} schemas in `{}`",
            files.len(),
            folder.display()
        ));
        say(&format!(
            "help: in VS Code, with the YAML extension of Red Hat:\n  \"yaml.schemas\": {{\"{}\": \"**/*.yaml\"}}",
            folder.join(schema::ALL_FILE).display()
        ));
        Ok(Exit::SUCCESS)
    }
}
