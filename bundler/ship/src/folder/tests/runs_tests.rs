//! The law of rendering across runs: whatever changed in between, in the control plane or in the folder,
//! the folder is what a run without a past makes of it.

use std::os::unix::fs::MetadataExt as _;

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::write_rendering::ReusedOutput;
use super::*;
use outhaul_control::ControlPlane;
use outhaul_plane::compose::Mode;
use outhaul_plane::render::{DiskCache, Job, RenderCache, render};
use outhaul_plane::schedule;
use outhaul_test_planes::edits::{
    Edit, add_site, add_target, apply, edit, plane, snapshot as edited,
};

/// What happens between two runs.
#[derive(Debug, Clone)]
enum Between {
    Edit(Edit),
    /// Other bytes, as many of them, and the time set back: only the number or the change time tells.
    SameSize(Index),
    OtherText(Index),
    Deleted(Index),
    Foreign(u8),
    LinkInPlace(Index),
    TornMemory(Index),
    NoMemory,
    OtherRecord,
    Nothing,
}

fn between() -> impl Strategy<Value = Between> {
    let at = any::<Index>;
    prop_oneof![
        8 => edit().prop_map(Between::Edit),
        1 => at().prop_map(Between::SameSize),
        1 => at().prop_map(Between::OtherText),
        1 => at().prop_map(Between::Deleted),
        1 => (0u8..3).prop_map(Between::Foreign),
        1 => at().prop_map(Between::LinkInPlace),
        1 => at().prop_map(Between::TornMemory),
        1 => Just(Between::NoMemory),
        1 => Just(Between::OtherRecord),
        1 => Just(Between::Nothing),
    ]
}

struct FolderFixture {
    parent: tempfile::TempDir,
    plane: ControlPlane,
    mode: Mode,
}

impl FolderFixture {
    fn new(mode: Mode) -> Self {
        let mut plane = plane();
        (0..4).for_each(|number| add_site(&mut plane, number, number));
        Self {
            parent: tempfile::tempdir().unwrap(),
            plane,
            mode,
        }
    }

    fn out(&self, name: &str) -> PathBuf {
        self.parent.path().join(name)
    }

    /// One run, as `outhaul render` does it; how many assignments it took over.
    fn run(&self, name: &str, full: bool) -> Result<usize, String> {
        let out = self.out(name);
        let mut before = remembered(&out, &self.plane.environment, full).unwrap();
        let mut cache = std::mem::take(&mut before.cache);
        let schedule = schedule::schedule(&self.plane, &schedule::SchedulerAnswers::default());
        let job = Job {
            plane: &self.plane,
            schedule: &schedule,
            snapshot: &edited(),
            mode: self.mode,
            progress: &|_, _| (),
        };
        let since = render(job, RenderCache::Disk(&mut cache));
        let rest = ReusedOutput {
            before: &before,
            reused: &since.reused,
            cache,
        };
        let settled = write_rendering(&out, &self.plane, &since.rendering, rest);
        settled.map_err(|error| error.to_string())?;
        Ok(since.reused.len())
    }

    fn apply(&mut self, what: Between) {
        let record = record(&self.out("again"))
            .unwrap()
            .unwrap_or_else(|| Record::new("dev", &edited(), None, BTreeMap::new()));
        let file = |at: Index| {
            let paths: Vec<&String> = record.files.keys().collect();
            (!paths.is_empty()).then(|| (*at.get(&paths)).clone())
        };
        let both = [self.out("again"), self.out("full")];
        let in_both = |path: Option<String>, change: &dyn Fn(&Path)| {
            let paths = path
                .into_iter()
                .flat_map(|path| both.clone().map(|out| out.join(&path)));
            // What was taken away before is not there to be changed.
            paths
                .filter(|path| path.exists())
                .for_each(|path| change(&path));
        };
        match what {
            Between::Edit(edit) => apply(&mut self.plane, edit),
            Between::SameSize(at) => in_both(file(at), &|path| {
                let metadata = fs::metadata(path).unwrap();
                let bytes = vec![b'x'; usize::try_from(metadata.size()).unwrap()];
                fs::write(path, bytes).unwrap();
                let opened = fs::File::options().write(true).open(path).unwrap();
                opened.set_modified(metadata.modified().unwrap()).unwrap();
            }),
            Between::OtherText(at) => {
                in_both(file(at), &|path| fs::write(path, "by hand").unwrap());
            }
            Between::Deleted(at) => in_both(file(at), &|path| fs::remove_file(path).unwrap()),
            Between::LinkInPlace(at) => in_both(file(at), &|path| {
                fs::remove_file(path).unwrap();
                let elsewhere = self.parent.path().join("elsewhere");
                fs::write(&elsewhere, "").unwrap();
                std::os::unix::fs::symlink(elsewhere, path).unwrap();
            }),
            Between::Foreign(number) => {
                for out in both.iter().filter(|out| out.join("line-1").exists()) {
                    fs::write(out.join(format!("line-1/notes-{number}")), "mine").unwrap();
                }
            }
            Between::TornMemory(at) => {
                let path = self.out("again.outhaul.memory.json");
                if let Ok(bytes) = fs::read(&path) {
                    // One that was torn before may have nothing left.
                    fs::write(&path, &bytes[..at.index(bytes.len() + 1)]).unwrap();
                }
            }
            Between::NoMemory => {
                drop(fs::remove_file(self.out("again.outhaul.memory.json")));
            }
            Between::OtherRecord => {
                let path = record_path(&self.out("again"));
                if let Ok(mut bytes) = fs::read(&path) {
                    bytes.push(b'\n');
                    fs::write(&path, bytes).unwrap();
                }
            }
            Between::Nothing => {}
        }
    }

    fn same(&self) -> Result<(), TestCaseError> {
        let (again, full) = (self.out("again"), self.out("full"));
        prop_assert_eq!(read_tree(&again).unwrap(), read_tree(&full).unwrap());
        prop_assert_eq!(record(&again).unwrap(), record(&full).unwrap());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_sequence_of_runs_leaves_what_runs_without_a_past_leave(
        steps in proptest::collection::vec(between(), 1..10),
        compat in any::<bool>(),
    ) {
        let mut fixture = FolderFixture::new(Mode { compat });
        prop_assert_eq!(fixture.run("again", false), fixture.run("full", true));
        for step in steps {
            fixture.apply(step.clone());
            let again = fixture.run("again", false);
            let full = fixture.run("full", true);
            prop_assert_eq!(again.as_ref().err(), full.as_ref().err(), "{:?}", step);
            prop_assert!(full.is_err() || full == Ok(0));
            fixture.same()?;
        }
    }
}

/// The past of the files is older than a tick of the clock, so that their times are a proof.
fn inodes(out: &Path) -> BTreeMap<String, u64> {
    let paths = read_tree(out).unwrap().into_keys();
    paths
        .map(|path| {
            let inode = fs::metadata(out.join(&path)).unwrap().ino();
            (path, inode)
        })
        .collect()
}

#[test]
fn what_did_not_change_is_neither_rendered_nor_written() {
    let mut fixture = FolderFixture::new(Mode::default());
    assert_eq!(fixture.run("again", false), Ok(0));
    let out = fixture.out("again");
    let first = inodes(&out);
    assert_eq!(fixture.run("again", false), Ok(16), "nothing changed");
    assert_eq!(inodes(&out), first);
    // `config-0` is of one cluster type.
    let one = fixture.plane.configs.get_mut("config-0").unwrap();
    one.data
        .values_mut()
        .for_each(|spanned| spanned.value = "second".into());
    assert_eq!(fixture.run("again", false), Ok(12));
    let second = inodes(&out);
    let other: BTreeSet<&String> = first
        .iter()
        .filter(|(path, inode)| second.get(*path) != Some(inode))
        .map(|(path, _)| path)
        .collect();
    // A stronger container has the key of two of the four.
    assert_eq!(other.len(), 2, "{other:?}");
    assert!(
        other
            .iter()
            .all(|path| path.starts_with("line-0/") && path.ends_with("config.yaml"))
    );
    fixture.run("full", true).unwrap();
    fixture.same().unwrap();
    assert_eq!(
        fixture.run("again", true),
        Ok(0),
        "when everything is asked for"
    );
    assert_eq!(inodes(&out), second, "the bytes are those that lie there");
}

#[test]
fn a_file_that_was_edited_by_hand_is_set_right_and_counted() {
    let fixture = FolderFixture::new(Mode::default());
    fixture.run("again", false).unwrap();
    let out = fixture.out("again");
    let before = read_tree(&out).unwrap();
    fs::write(out.join("line-2/app-1-live/namespace.yaml"), "by hand").unwrap();
    fs::remove_file(out.join("line-3/README.md")).unwrap();
    assert_eq!(fixture.run("again", false), Ok(15));
    assert_eq!(read_tree(&out).unwrap(), before);
}

#[test]
fn the_memory_of_another_program_or_of_nothing_is_no_past() {
    let fixture = FolderFixture::new(Mode::default());
    fixture.run("again", false).unwrap();
    let path = fixture.out("again.outhaul.memory.json");
    let whole = fs::read_to_string(&path).unwrap();
    for torn in [
        "",
        "{",
        "[]",
        &whole[..whole.len() - 1],
        &whole.replacen("/v1", "/v2", 1),
        &whole.replacen("\"program\":[", "\"program\":[1", 1),
    ] {
        fs::write(&path, torn).unwrap();
        assert_eq!(fixture.run("again", false), Ok(0), "{torn:.80}");
        assert_eq!(fs::read_to_string(&path).unwrap().len(), whole.len());
        assert_eq!(fixture.run("again", false), Ok(16), "it is whole again");
    }
    assert_ne!(
        remembered(&fixture.out("again"), &fixture.plane.environment, false)
            .unwrap()
            .cache,
        DiskCache::default()
    );
}

#[test]
fn changes_that_lie_far_apart_leave_the_other_folders_in_place() {
    let mut fixture = FolderFixture::new(Mode::default());
    for number in 4..24 {
        add_target(&mut fixture.plane, number, 0);
    }
    fixture.run("again", false).unwrap();
    let out = fixture.out("again");
    let folder = |name: &str| fs::metadata(out.join(name)).unwrap().ino();
    let before = (
        folder("line-1"),
        folder("line-1/app-1-live"),
        folder("line-1/app-2-live"),
    );
    // `config-2` is of one workload.
    let one = fixture.plane.configs.get_mut("config-2").unwrap();
    one.data
        .values_mut()
        .for_each(|spanned| spanned.value = "second".into());
    assert_eq!(fixture.run("again", false), Ok(4 * 23));
    let after = (
        folder("line-1"),
        folder("line-1/app-1-live"),
        folder("line-1/app-2-live"),
    );
    assert_eq!((before.0, before.1), (after.0, after.1));
    assert_ne!(before.2, after.2);
    fixture.run("full", true).unwrap();
    fixture.same().unwrap();
    assert_eq!(fixture.run("again", false), Ok(4 * 24));
}

#[test]
fn what_a_power_cut_interrupted_is_finished_before_anything_else() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let staged = parent.path().join(".outhaul-cut");
    for (folder, text) in [("a/x", "old"), ("b/x", "old"), ("c", "old")] {
        fs::create_dir_all(out.join(folder)).unwrap();
        fs::write(out.join(folder).join("file"), text).unwrap();
    }
    let mut folders = Vec::new();
    for (number, below) in ["a/x", "b/x"].into_iter().enumerate() {
        let fresh = staged.join(number.to_string());
        fs::create_dir_all(&fresh).unwrap();
        fs::write(fresh.join("file"), "new").unwrap();
        folders.push((below, fs::metadata(&fresh).unwrap().ino()));
    }
    let intent = serde_json::json!({"staged": ".outhaul-cut", "folders": folders});
    let path = parent.path().join("out.outhaul.exchange.json");
    // The first had been done.
    let aside = parent.path().join("aside");
    fs::rename(out.join("a/x"), &aside).unwrap();
    fs::rename(staged.join("0"), out.join("a/x")).unwrap();
    fs::rename(&aside, staged.join("0")).unwrap();
    fs::write(&path, intent.to_string()).unwrap();
    remembered(&out, "dev", false).unwrap();
    let texts = tree(&[("a/x/file", "new"), ("b/x/file", "new"), ("c/file", "old")]);
    assert_eq!(read_tree(&out).unwrap(), texts);
    assert!(!path.exists() && !staged.exists());
}
