//! Project files, well written and not, and the places in which they are found.
//!
//! What comes in: texts and temporary folders. What must come out: values that the command line takes, or every
//! problem with its place.
use std::path::{Path, PathBuf};

use outhaul_kit::failure::{Classified as _, FailureClass};

use super::find::{FindError, find, read};
use super::trust::Records;
use super::*;

fn parse(text: &str) -> Result<Project, Vec<String>> {
    Project::parse(text, "outhaul.toml", Path::new("/plant")).map_err(|findings| {
        let line = |one: &Diagnostic| {
            let help = one.help.clone().unwrap_or_default();
            format!(
                "{}: {} ({help})",
                one.location.as_ref().unwrap(),
                one.message
            )
        };
        findings.iter().map(line).collect()
    })
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn paths_are_after_the_file_and_urls_stay() {
    let project = parse(
        "control_plane = \"planes/control\"\nfleet = \"/srv/fleet\"\nhub = \"https://hub.example\"\nhub_ca = \"ca.pem\"\n\
         registry_mirrors = [\"docker.io=mirror.example/hub\"]\nregistry_cas = [\"mirror.example=certs/ca.pem\"]\n\
         [sources]\n\"https://git.example/app#dev\" = \"../app\"\n",
    )
    .unwrap();
    let text = |setting| project.values[&setting].texts.join(" ");
    assert_eq!(text(Setting::ControlPlane), "/plant/planes/control");
    assert_eq!(text(Setting::Fleet), "/srv/fleet");
    assert_eq!(text(Setting::Hub), "https://hub.example");
    assert_eq!(text(Setting::HubCa), "/plant/ca.pem");
    assert_eq!(
        text(Setting::RegistryMirrors),
        "docker.io=mirror.example/hub"
    );
    assert_eq!(
        text(Setting::RegistryCas),
        "mirror.example=/plant/certs/ca.pem"
    );
    assert_eq!(
        text(Setting::Sources),
        "https://git.example/app#dev=/plant/../app"
    );
    for url in [
        "https://git.example/plane",
        "git@git.example:plane",
        "file:///srv/plane",
    ] {
        let project = parse(&format!("control_plane = \"{url}\"")).unwrap();
        assert_eq!(project.values[&Setting::ControlPlane].texts, [url]);
    }
}

#[test]
fn every_problem_is_reported_with_its_place() {
    let problems = parse(
        "controlplane = \"c\"\nfleet = 3\npassphrase = \"p\"\nscheduler = \"x=/bin/sh\"\nhub_ca = \"ca.pem\"\n\
         hub = \"https://u:p@hub.example\"\n[sources]\nx = \"a\\u0007b\"\n",
    )
    .unwrap_err();
    for expected in [
        "outhaul.toml:1:1: unknown setting `controlplane` (did you mean `control_plane`?)",
        "outhaul.toml:2:9: `fleet` is text in quotes, and this is of type integer",
        "outhaul.toml:3:1: `passphrase` is not a setting of a project file (a project file is shared and holds no secret",
        "outhaul.toml:4:1: `scheduler` is not a setting of a project file (a project file names no program",
        "outhaul.toml:6:7: `hub` holds a password",
        "outhaul.toml:8:5: `x` holds a control character",
    ] {
        assert!(
            problems.iter().any(|line| line.starts_with(expected)),
            "{expected}: {problems:#?}"
        );
    }
    let syntax = parse("fleet = \n").unwrap_err();
    assert!(syntax[0].starts_with("outhaul.toml:1:"), "{syntax:?}");
    let alone = parse("hub_ca = \"ca.pem\"").unwrap_err();
    assert!(alone[0].contains("`hub_ca` needs `hub`"), "{alone:?}");
}

#[test]
fn the_file_that_init_writes_is_sound() {
    let text = sample("my \"plane\"");
    let project = parse(&text).unwrap();
    assert_eq!(
        project.values[&Setting::ControlPlane].texts,
        ["/plant/my \"plane\""]
    );
    let uncommented: String = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(line) if line.starts_with(['"', '[']) || line.contains(" = ") => {
                format!("{line}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    assert_eq!(
        parse(&uncommented).unwrap().values.len(),
        7,
        "{uncommented}"
    );
}

#[test]
fn the_nearest_file_counts_up_to_the_home_folder() {
    let place = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(place.path()).unwrap();
    let (home, inside) = (root.join("home"), root.join("home/plant/press"));
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(root.join(FILE), "fleet = \"above\"").unwrap();
    assert_eq!(find(&inside, Some(&home), user()).unwrap(), None);
    let above = find(&inside, None, user()).unwrap().unwrap();
    assert_eq!((above.path, above.folder), (root.join(FILE), root.clone()));
    std::fs::write(home.join("plant").join(FILE), "fleet = \"near\"").unwrap();
    let near = find(&inside, Some(&home), user()).unwrap().unwrap();
    assert_eq!(near.text, "fleet = \"near\"");
    let here = find(&home.join("plant"), Some(&home), user())
        .unwrap()
        .unwrap();
    assert_eq!(here.folder, PathBuf::new());
}

#[test]
fn a_file_that_others_decide_about_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    std::fs::write(&path, "fleet = \"f\"").unwrap();
    let read = |user| read(&path, PathBuf::new(), user);
    if user() != 0 {
        let foreign = read(user() + 1).unwrap_err();
        assert!(matches!(foreign, FindError::Foreign { .. }), "{foreign}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let writable = read(user()).unwrap_err();
    assert!(matches!(writable, FindError::Writable { .. }), "{writable}");
    assert_eq!(writable.class(), FailureClass::Trust);
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let fifo = read(user()).unwrap_err();
    assert!(matches!(fifo, FindError::Unreadable { .. }), "{fifo}");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, vec![b'#'; 300 * 1024]).unwrap();
    assert!(read(user()).is_err());
}

#[test]
fn one_text_at_one_place_is_agreed_to() {
    let place = tempfile::tempdir().unwrap();
    let records = Records::at(&place.path().join("state"));
    let (one, other) = (Path::new("/a/outhaul.toml"), Path::new("/b/outhaul.toml"));
    assert!(!records.has(one, "x"));
    records.add(one, "x").unwrap();
    assert!(records.has(one, "x"));
    assert!(!records.has(one, "y"));
    assert!(!records.has(other, "x"));
}

#[test]
fn a_source_holds_no_password_and_its_folder_no_equals_sign() {
    let found = parse(
        "[sources]\n\"https://user:s3cr3t@git.example/x\" = \"x\"\n\"https://git.example/y\" = \"a=b\"\n",
    )
    .unwrap_err()
    .join("\n");
    assert!(found.contains("holds a password"), "{found}");
    assert!(!found.contains("s3cr3t"), "{found}");
    assert!(found.contains("has a `=`"), "{found}");
}
