//! What stands in for options that were not typed, and what overrules what.
//!
//! What comes in: command lines, variables and project files. What must come out: the command line that a person
//! would have typed, or a refusal; nothing of a file that nobody agreed to.
use super::*;

/// A folder with a project file, and what surrounds a program that runs in it.
struct SettingsFixture {
    _folder: tempfile::TempDir,
    cwd: PathBuf,
    records: Records,
    variables: Vec<(&'static str, &'static str)>,
}

impl SettingsFixture {
    fn with(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cwd = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::write(cwd.join(FILE), text).unwrap();
        for authority in ["ca.pem", "file.pem", "typed.pem"] {
            std::fs::write(cwd.join(authority), AUTHORITY).unwrap();
        }
        for folder in ["a", "b", "c"] {
            std::fs::create_dir(cwd.join(folder)).unwrap();
        }
        let records = Records::at(&cwd.join("state"));
        records.add(&cwd.join(FILE), text).unwrap();
        Self {
            _folder: folder,
            cwd,
            records,
            variables: Vec::new(),
        }
    }

    fn complete(&self, line: &str) -> Result<(String, Vec<String>), Failure> {
        let variable = |name: &str| {
            let found = self.variables.iter().find(|(one, _)| *one == name);
            found.map(|(_, text)| (*text).to_owned())
        };
        let around = SettingsContext {
            cwd: &self.cwd,
            home: None,
            user: rustix::process::geteuid().as_raw(),
            variable: &variable,
            records: Some(self.records.clone()),
        };
        let (args, lines) = completed(&words(line), &around)?;
        let args: Vec<_> = args.iter().map(|arg| arg.to_str().unwrap()).collect();
        Ok((args.join(" "), lines))
    }

    fn line(&self, line: &str) -> String {
        self.complete(line).unwrap().0
    }
}

const AUTHORITY: &str = include_str!("../../../registry/testdata/authority.pem");

const WHOLE: &str = "control_plane = \"plane\"\ncontrol_plane_branch = \"trunk\"\nfleet = \"fleet\"\n\
    hub = \"https://hub.example\"\nhub_ca = \"ca.pem\"\nrendered = \"out\"\nbundles = \"sticks\"\n\
    [sources]\n\"https://git.example/a\" = \"a\"\n";

#[test]
fn what_is_not_typed_comes_from_the_file() {
    let place = SettingsFixture::with(WHOLE);
    assert_eq!(
        place.line("outhaul schedule --environment dev"),
        "outhaul schedule --environment dev --control-plane=plane --control-plane-branch=trunk \
         --source=https://git.example/a=a"
    );
    let (_, lines) = place.complete("outhaul key status").unwrap();
    assert_eq!(lines, ["from `outhaul.toml`: fleet (line 3)"]);
    let promote = place.line("outhaul promote --to stage");
    assert!(
        promote.contains("--hub=https://hub.example --hub-ca=ca.pem"),
        "{promote}"
    );
    assert!(!promote.contains("branch"), "{promote}");
    assert!(
        place
            .line("outhaul render --environment dev")
            .contains(" --out=out")
    );
    assert!(
        place
            .line("outhaul bundle --environment dev")
            .contains(" --out=sticks")
    );
    assert_eq!(place.line("outhaul schema"), "outhaul schema");
    assert_eq!(place.line("outhaul render --help"), "outhaul render --help");
}

#[test]
fn options_win_over_the_environment_and_that_over_the_file() {
    let mut place = SettingsFixture::with(WHOLE);
    place.variables = vec![
        ("OUTHAUL_CONTROL_PLANE", "of-env"),
        (
            "OUTHAUL_SOURCES",
            "https://git.example/b=b https://git.example/c=c",
        ),
        ("OUTHAUL_CACHE", "/tmp/cache"),
    ];
    let line = place.line("outhaul check");
    assert!(line.contains("--control-plane=of-env"), "{line}");
    // The branch is the other control plane's.
    assert!(!line.contains("branch"), "{line}");
    assert!(line.contains("--cache=/tmp/cache"), "{line}");
    for source in ["a=a", "b=b", "c=c"] {
        assert!(line.contains(&format!("git.example/{source}")), "{line}");
    }
    let line = place.line(
        "outhaul check --control-plane typed --source https://git.example/a=mine --source https://git.example/b=mine",
    );
    assert!(
        !line.contains("of-env") && !line.contains("=plane"),
        "{line}"
    );
    assert!(!line.contains("a=a") && !line.contains("b=b"), "{line}");
    assert!(line.contains("c=c"), "{line}");
    let line = place.line("outhaul promote --to stage --hub https://other.example");
    assert!(!line.contains("hub-ca"), "{line}");
}

#[test]
fn the_authority_of_a_host_is_that_of_the_first_level_that_names_one() {
    let file = "registry_cas = [\"docker.io=file.pem\", \"r.example=file.pem\"]\n";
    let place = SettingsFixture::with(file);
    let typed = place.cwd.join("typed.pem");
    let line = place.line(&format!(
        "outhaul bundle --registry-ca index.docker.io={}",
        typed.display()
    ));
    assert!(!line.contains("docker.io=file.pem"), "{line}");
    assert!(line.contains("--registry-ca=r.example=file.pem"), "{line}");
}

#[test]
fn a_file_that_is_no_authority_is_refused_where_it_is_written() {
    let file =
        "fleet = \"f\"\nregistry_cas = [\n  \"a.example=ca.pem\",\n  \"r.example=empty.pem\",\n]\n";
    let mut place = SettingsFixture::with(file);
    std::fs::write(place.cwd.join("empty.pem"), "").unwrap();
    let failure = place.complete("outhaul bundle --out o").unwrap_err();
    assert_eq!(failure.code(), failure::USAGE);
    let said = format!("{failure:?}");
    for part in ["outhaul.toml:4:3", "empty.pem` holds no certificate"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Another level overrules it, or has a mistake of its own.
    let sound = place.cwd.join("ca.pem");
    let line = place.line(&format!(
        "outhaul bundle --out o --registry-ca r.example={}",
        sound.display()
    ));
    assert!(!line.contains("empty.pem"), "{line}");
    place.variables = vec![("OUTHAUL_REGISTRY_CAS", "r.example=none.pem")];
    let said = format!("{:?}", place.complete("outhaul bundle").unwrap_err());
    assert!(said.contains("OUTHAUL_REGISTRY_CAS"), "{said}");
}

#[test]
fn a_value_that_an_option_would_refuse_is_refused_where_it_is_written() {
    let promote = "outhaul promote --to stage";
    let bundle = "outhaul bundle --environment dev --out o";
    // Of a list, what is typed overrules only the same entry.
    for (text, place, why, command, typed, is_overruled) in [
        (
            "hub = \"ftp://hub.example\"\n",
            "outhaul.toml:1:1",
            "ftp://hub.example",
            promote,
            "--hub https://hub.example",
            true,
        ),
        (
            "registry_mirrors = [\"docker.io=docker.io\"]\n",
            "outhaul.toml:1:21",
            "a mirror of itself",
            bundle,
            "--registry-mirror docker.io=mirror.example",
            false,
        ),
        (
            "allow_hosts = [\"git.example\", \"https://x/y\"]\n",
            "outhaul.toml:1:31",
            "https://x/y",
            bundle,
            "--allow-host git.example",
            false,
        ),
        (
            "[sources]\n\"https://git.example/a\" = \"nowhere\"\n",
            "outhaul.toml:2:1",
            "nowhere",
            bundle,
            "--source https://git.example/a=a",
            true,
        ),
    ] {
        let settings = SettingsFixture::with(text);
        let refused = |command: &str| {
            let failure = settings.complete(command).err()?;
            assert_eq!(failure.code(), failure::USAGE);
            Some(format!("{failure:?}"))
        };
        let said = refused(command).unwrap();
        assert!(said.contains(place) && said.contains(why), "{said}");
        let said = refused(&format!("{command} {typed}"));
        assert_eq!(said.is_none(), is_overruled, "{typed}: {said:?}");
        // What has no use for it runs.
        assert_eq!(refused("outhaul schema"), None);
    }
}

#[test]
fn a_variable_that_cannot_be_used_is_named_with_the_way_out() {
    let mut place = SettingsFixture::with("");
    place.variables = vec![("OUTHAUL_HUB", "hub.example:x")];
    let failure = place.complete("outhaul promote --to a").unwrap_err();
    let said = format!("{failure:?}");
    for part in ["the variable OUTHAUL_HUB: ", "correct or unset OUTHAUL_HUB"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let typed = "outhaul promote --to a --hub https://hub.example";
    assert_eq!(place.line(typed), typed);
}

#[test]
fn a_copy_that_asks_no_hub_is_not_refused_for_one() {
    let copy = "outhaul copy --to stick --for press-1";
    let file = "fleet = \"fleet\"\nhub = \"ftp://hub.example\"\nhub_ca = \"none.pem\"\n";
    let mut place = SettingsFixture::with(file);
    let asked = format!("{copy} --ask-hub");
    for variables in [vec![], vec![("OUTHAUL_HUB", "hub.example:x")]] {
        place.variables = variables;
        assert_eq!(place.line(copy), format!("{copy} --fleet=fleet"));
        let failure = place.complete(&asked).unwrap_err();
        assert_eq!(failure.code(), failure::USAGE);
    }
    let sound = SettingsFixture::with(WHOLE);
    let line = sound.line(&asked);
    assert!(
        line.ends_with(" --hub=https://hub.example --hub-ca=ca.pem"),
        "{line}"
    );
}

#[test]
fn what_contradicts_an_option_is_left_out() {
    let place = SettingsFixture::with(WHOLE);
    let line = place.line("outhaul render --environment dev --env-dir e --verify out");
    assert!(
        !line.contains("--control-plane") && !line.contains("--out"),
        "{line}"
    );
    let line = place.line("outhaul inspect f.outhaul --root 1.root.json");
    assert!(!line.contains("--fleet"), "{line}");
    let line = place.line("outhaul verify f.outhaul");
    assert!(
        line.contains("--fleet=fleet") && !line.contains("control"),
        "{line}"
    );
    let line = place.line("outhaul verify f.outhaul --snapshot --environment dev");
    assert!(line.contains("--control-plane=plane"), "{line}");
    // Two folders are two folders.
    let folder = place.cwd.display();
    let line = place.line(&format!("outhaul diff {folder} {folder}"));
    assert!(!line.contains("--control-plane"), "{line}");
    assert!(
        place
            .line("outhaul diff dev my-change")
            .contains("--control-plane=plane")
    );
}

#[test]
fn a_file_that_nobody_agreed_to_gives_nothing() {
    let place = SettingsFixture::with("fleet = \"theirs\"\n");
    std::fs::write(place.cwd.join(FILE), "fleet = \"other\"\n").unwrap();
    let failure = place.complete("outhaul key status").unwrap_err();
    assert_eq!(failure.code(), failure::TRUST);
    // What needs nothing of it runs.
    assert!(place.complete("outhaul key status --fleet mine").is_ok());
    assert!(
        place
            .complete("outhaul promote --control-plane p --to dev")
            .is_ok()
    );
    let mut named = place;
    named.variables = vec![(VARIABLE, "none")];
    assert_eq!(named.line("outhaul key status"), "outhaul key status");
}

#[test]
fn every_setting_is_an_option_of_some_command() {
    fn walk<'a>(command: &'a Command, all: &mut Vec<&'a Command>) {
        all.push(command);
        command.get_subcommands().for_each(|one| walk(one, all));
    }
    let mut root = Cli::command();
    root.build();
    let mut all = Vec::new();
    walk(&root, &mut all);
    for setting in Setting::ALL {
        assert!(
            all.iter()
                .any(|command| argument(command, setting).is_some()),
            "{setting:?}"
        );
    }
}
