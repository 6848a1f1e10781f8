//! `outhaul project`: the settings that need not be typed here, and whether their file is trusted.

use clap::Subcommand;
use outhaul_kit::text::json_path;
use serde_json::{Value, json};

use super::failure::{self, Failure};
use super::settings::{self, Located, SettingsContext, VARIABLE};
use super::{Exit, Output, data, print_json, say};
use crate::project::{FILE, Setting};
use outhaul_kit::url_secrets::without_secrets;

/// Show the settings that need not be typed in this folder, or agree to their file
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Options that many commands share may stand in an `outhaul.toml` of this folder or one above it:\n  \
    control_plane = \"control-plane\"          # or a URL; folders are relative to the file\n  \
    fleet = \"fleet\"\n  \
    hub = \"https://hub.factory.example\"\n  \
    hub_ca = \"hub-ca.pem\"\n  \
    rendered = \"rendered\"                    # --out of `outhaul render`\n  \
    bundles = \"bundles\"                      # --out of `outhaul bundle`\n  \
    registry_mirrors = [\"docker.io=registry.factory.example/dockerhub\"]\n  \
    registry_cas = [\"registry.factory.example=ca.pem\"]\n\n  \
    [sources]\n  \
    \"https://git.factory.example/label-printer\" = \"label-printer\"\n\n\
    The same in the environment: OUTHAUL_CONTROL_PLANE, OUTHAUL_FLEET, OUTHAUL_SOURCES='URL=DIR URL=DIR'.\n\
    An option wins over the environment, the environment over the file. OUTHAUL_PROJECT names the file, or \
    is `none`.\n\n\
    Example:\n  outhaul project\n  outhaul project trust"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<What>,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Agree to the project file of this folder as it is now; a change of it asks again
    #[command(after_help = "Example:\n  outhaul project trust")]
    Trust {
        /// How data is printed
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        settings::with_surroundings(|around| {
            let located = settings::locate(around)?;
            match self.command {
                Some(What::Trust { output }) => trust(located, around, output),
                None => self.show(located.as_ref(), around),
            }
        })
    }

    fn show(
        &self,
        located: Option<&Located>,
        around: &SettingsContext<'_>,
    ) -> Result<Exit, Failure> {
        let variables: Vec<(Setting, String)> = Setting::ALL
            .into_iter()
            .filter_map(|one| (around.variable)(&one.variable()).map(|text| (one, text)))
            .collect();
        if self.output == Output::Json {
            let file = located.map(|located| {
                let values = located.project.values.iter();
                let values: Vec<Value> = values
                    .map(|(setting, value)| {
                        json!({
                            "setting": setting.key(), "values": value.texts.iter().map(|text| without_secrets(text)).collect::<Vec<_>>(),
                            "line": value.place.line(), "column": value.place.column(),
                        })
                    })
                    .collect();
                json!({"path": json_path(&located.found.path), "trusted": located.trusted, "settings": values})
            });
            let variables: Vec<Value> = variables
                .iter()
                .map(|(setting, text)| json!({"setting": setting.key(), "variable": setting.variable(), "value": without_secrets(text)}))
                .collect();
            return print_json(&json!({"file": file, "environment": variables}));
        }
        for (setting, text) in &variables {
            data(&format!(
                "{} = {text} ({})",
                setting.key(),
                setting.variable()
            ));
        }
        let Some(located) = located else {
            say(&format!(
                "no `{FILE}` applies to `{}`\nhelp: `outhaul project --help` shows one; `outhaul init` writes one",
                around.cwd.display()
            ));
            return Ok(Exit::SUCCESS);
        };
        for (setting, value) in &located.project.values {
            let set = |(one, _): &(Setting, String)| one == setting;
            let note = match variables.iter().any(set) && *setting != Setting::Sources {
                true => ", which the environment overrules",
                false => "",
            };
            for text in &value.texts {
                data(&format!(
                    "{} = {text} ({}{note})",
                    setting.key(),
                    value.place
                ));
            }
        }
        if !located.trusted {
            say(&format!(
                "`{}` is not used yet\nhelp: if it is yours, `outhaul project trust`",
                settings::shown(&located.found, around.cwd)
            ));
        }
        Ok(Exit::SUCCESS)
    }
}

fn trust(
    located: Option<Located>,
    around: &SettingsContext<'_>,
    output: Output,
) -> Result<Exit, Failure> {
    let Some(located) = located else {
        let message = format!(
            "no `{FILE}` applies to `{}`, so there is nothing to trust",
            around.cwd.display()
        );
        return Err(Failure::say(failure::USAGE, message));
    };
    let Some(records) = &around.records else {
        return Err(
            Failure::say(failure::ENVIRONMENT, "no home folder to record it in").help(format!(
                "set HOME or XDG_STATE_HOME, or name the file in {VARIABLE}"
            )),
        );
    };
    records
        .add(&located.found.path, &located.found.text)
        .map_err(|error| Failure::new(failure::ENVIRONMENT, &error))?;
    let lines: Vec<String> = located
        .project
        .lines()
        .iter()
        .map(|line| without_secrets(line))
        .collect();
    if output == Output::Json {
        print_json(&json!({"trusted": json_path(&located.found.path), "settings": lines}))?;
    } else {
        for line in &lines {
            data(line);
        }
    }
    say(&format!(
        "`{}` is trusted as it is now; a change of it asks again",
        settings::shown(&located.found, around.cwd)
    ));
    Ok(Exit::SUCCESS)
}
