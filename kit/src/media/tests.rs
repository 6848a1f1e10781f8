//! Media as someone who means harm prepares them: nothing outside is touched, nothing waits.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::*;

const BOUNDS: Bounds = Bounds {
    depth: 2,
    entries: 1_000,
    kept: 100,
};

/// A medium, and beside it a folder that must stay as it is.
struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("stick")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/file"), "kept").unwrap();
        Self { folder }
    }

    fn stick(&self, name: &str) -> PathBuf {
        self.folder.path().join("stick").join(name)
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    fn media(&self) -> Media {
        Media::open(&self.stick("")).unwrap()
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let names: Vec<_> = fs::read_dir(self.outside())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["file"]);
        assert_eq!(fs::read(self.outside().join("file")).unwrap(), b"kept");
    }
}

fn fifo(path: &Path) {
    mkfifoat(CWD, path, Mode::from_raw_mode(0o644)).unwrap();
}

#[test]
fn a_folder_that_is_looked_at_by_itself_is_in_no_listing() {
    let fixture = Fixture::new();
    for folder in ["apart/deep", "other"] {
        fs::create_dir_all(fixture.stick(folder)).unwrap();
    }
    for file in ["apart/a", "apart/deep/b", "other/c", "d"] {
        fs::write(fixture.stick(file), "").unwrap();
    }
    let apart = [fixture.stick("apart"), fixture.folder.path().join("stick")];
    let listed = |media: Media| media.files(BOUNDS, |_| true).unwrap().files;
    let media = || Media::open(&fixture.folder.path().join("stick")).unwrap();
    let names = ["d", "other/c"].map(PathBuf::from);
    assert_eq!(listed(media().without(&apart)), names);
    assert_eq!(listed(media()).len(), 4);
}

#[test]
fn a_write_makes_its_folders_and_leaves_nothing_else() {
    let fixture = Fixture::new();
    let media = fixture.media();
    media.write(Path::new("acks/a.acks"), b"1", 0o644).unwrap();
    media.write(Path::new("acks/a.acks"), b"2", 0o644).unwrap();
    assert_eq!(
        media.read(Path::new("acks/a.acks"), 1).unwrap().unwrap(),
        b"2"
    );
    assert_eq!(fs::read_dir(fixture.stick("acks")).unwrap().count(), 1);
    assert_eq!(media.read(Path::new("acks/b.acks"), 1).unwrap(), None);
    assert_eq!(media.read(Path::new("no/b.acks"), 1).unwrap(), None);
}

#[test]
fn a_temporary_name_that_is_a_link_is_removed_and_not_followed() {
    let fixture = Fixture::new();
    symlink(fixture.outside().join("file"), fixture.stick(".a.tmp")).unwrap();
    fixture
        .media()
        .write(Path::new("a"), b"new", 0o644)
        .unwrap();
    assert_eq!(fs::read(fixture.stick("a")).unwrap(), b"new");
    fixture.assert_untouched();
}

#[test]
fn what_stands_where_a_file_or_folder_must_go_is_named_and_left() {
    let fixture = Fixture::new();
    symlink(fixture.outside(), fixture.stick("reports")).unwrap();
    symlink(fixture.outside().join("file"), fixture.stick("link")).unwrap();
    fs::create_dir(fixture.stick("folder")).unwrap();
    fs::create_dir(fixture.stick(".busy.tmp")).unwrap();
    fifo(&fixture.stick("fifo"));
    let media = fixture.media();
    for (name, words) in [
        ("reports/a", ["reports`", "a symbolic link, not a folder"]),
        ("link", ["link`", "a symbolic link, not a regular file"]),
        ("folder", ["folder`", "a folder, not a regular file"]),
        ("fifo", ["fifo`", "a FIFO, not a regular file"]),
        ("fifo/a", ["fifo`", "a FIFO, not a folder"]),
        ("busy", [".busy.tmp`", "cannot remove"]),
    ] {
        let error = media.write(Path::new(name), b"new", 0o644).unwrap_err();
        let printed = error.to_string();
        assert!(words.iter().all(|word| printed.contains(word)), "{printed}");
    }
    fixture.assert_untouched();
}

#[test]
fn only_regular_files_are_read_and_nothing_is_waited_for() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.stick("acks")).unwrap();
    fifo(&fixture.stick("acks/fifo"));
    let _socket = UnixListener::bind(fixture.stick("acks/socket")).unwrap();
    symlink("/dev/zero", fixture.stick("acks/zero")).unwrap();
    fs::write(fixture.stick("acks/large"), [0; 11]).unwrap();
    let media = fixture.media();
    for (name, word) in [
        ("fifo", "a FIFO"),
        ("socket", "a socket"),
        ("zero", "a symbolic link"),
        ("large", "larger than the 10 bytes"),
        ("..", "Invalid argument"),
    ] {
        let error = media.read(&Path::new("acks").join(name), 10).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert!(!error.help().contains('\u{1b}'));
    }
}

#[test]
fn what_a_person_names_is_a_regular_file_or_a_folder() {
    let fixture = Fixture::new();
    fifo(&fixture.stick("fifo"));
    symlink(fixture.outside(), fixture.stick("folder")).unwrap();
    symlink(fixture.outside().join("file"), fixture.stick("link")).unwrap();
    symlink("nowhere", fixture.stick("dangling")).unwrap();
    let opened =
        |name: &str| FileOrFolder::open(&fixture.stick(name)).map_err(|error| error.to_string());
    assert!(matches!(opened("folder"), Ok(FileOrFolder::Folder(_))));
    assert!(matches!(
        FileOrFolder::open(&fixture.outside().join("file")),
        Ok(FileOrFolder::File(_))
    ));
    assert!(opened("fifo").unwrap_err().contains("a FIFO"));
    assert!(opened("link").unwrap_err().contains("a symbolic link"));
    assert!(opened("dangling").unwrap_err().contains("a symbolic link"));
    assert!(opened("gone").unwrap_err().contains("No such file"));
    assert!(
        matches!(FileOrFolder::open(Path::new("/dev/null")), Err(error) if error.to_string().contains("a device"))
    );
}

#[test]
fn a_listing_follows_nothing_and_names_what_it_cannot_use() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.stick("a/b/c")).unwrap();
    for name in [
        "1.slip",
        "a/2.slip",
        "a/b/3.slip",
        "a/b/c/4.slip",
        ".5.slip",
        "photo",
    ] {
        fs::write(fixture.stick(name), "").unwrap();
    }
    fs::write(fixture.outside().join("file"), "kept").unwrap();
    symlink(fixture.outside(), fixture.stick("a/out")).unwrap();
    symlink("/nowhere", fixture.stick("a/b/gone")).unwrap();
    symlink(fixture.outside().join("file"), fixture.stick("6.slip")).unwrap();
    fifo(&fixture.stick("a/7.slip"));
    let slips = |name: &OsStr| name.as_bytes().ends_with(b".slip");
    let found = fixture.media().files(BOUNDS, slips).unwrap();
    let files: Vec<_> = found
        .files
        .iter()
        .map(|path| path.to_str().unwrap())
        .collect();
    assert_eq!(files, ["1.slip", "a/2.slip", "a/b/3.slip"]);
    assert_eq!(found.unusable.len(), 2);
    assert_eq!((found.ignored, found.incomplete), (1, false));
    assert_eq!(found.links, [Path::new("a/out"), Path::new("a/b/gone")]);
}

#[test]
fn folders_that_are_too_deep_to_be_listed_are_named_and_counted() {
    let fixture = Fixture::new();
    let all = |_: &OsStr| true;
    fs::create_dir_all(fixture.stick("a/b")).unwrap();
    let found = fixture.media().files(BOUNDS, all).unwrap();
    assert_eq!((found.deeper.len(), found.too_deep), (0, 0));
    for name in ["a/b/z", "a/b/y", "a/b/.hidden", "a/c/x", "a/b/w"] {
        fs::create_dir_all(fixture.stick(name)).unwrap();
    }
    let found = fixture.media().files(BOUNDS, all).unwrap();
    let first: Vec<PathBuf> = ["a/b/w", "a/b/y", "a/b/z"].map(PathBuf::from).to_vec();
    assert_eq!((found.deeper, found.too_deep), (first, 4));
    let wanted = |name: &OsStr| name.to_string_lossy().contains('z');
    let found = fixture.media().files(BOUNDS, wanted).unwrap();
    assert_eq!(found.folder_wanted, Some(PathBuf::from("a/b/z")));
}

#[test]
fn a_listing_ends_at_its_bounds_and_says_so() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.stick("many")).unwrap();
    fs::write(fixture.stick("z.slip"), "").unwrap();
    for n in 0..200 {
        fs::write(fixture.stick(&format!("many/{n}.slip")), "").unwrap();
    }
    let slips = |name: &OsStr| name.as_bytes().ends_with(b".slip");
    for (entries, kept) in [(50, 1_000), (1_000, 50)] {
        let bounds = Bounds {
            entries,
            kept,
            ..BOUNDS
        };
        let found = fixture.media().files(bounds, slips).unwrap();
        assert!(found.incomplete && found.files.len() <= 50);
        // What lies at the top is found whatever lies below it.
        assert!(found.files.contains(&PathBuf::from("z.slip")));
    }
}

#[test]
fn of_more_files_than_are_kept_those_with_the_highest_rank_are_found_wherever_they_lie() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.stick("below")).unwrap();
    for n in 0..50 {
        fs::write(fixture.stick(&format!("junk-{n}.slip")), "").unwrap();
    }
    for name in ["ours-7.slip", "below/ours-8.slip", "ours-9.slip"] {
        fs::write(fixture.stick(name), "").unwrap();
    }
    let slips = |name: &OsStr| name.as_bytes().ends_with(b".slip");
    let rank = |name: &OsStr| match name.as_bytes() {
        [b'o', b'u', b'r', b's', b'-', digit, ..] => u64::from(*digit),
        _ => 0,
    };
    let listed = |kept| {
        let bounds = Bounds { kept, ..BOUNDS };
        let found = fixture.media().files_by_rank(bounds, slips, rank).unwrap();
        (found.files, found.incomplete)
    };
    let (two, incomplete) = listed(2);
    assert_eq!(two, ["below/ours-8.slip", "ours-9.slip"].map(PathBuf::from));
    assert!(incomplete);
    let (five, _) = listed(5);
    assert_eq!(five.len(), 5);
    assert!(five.contains(&PathBuf::from("ours-7.slip")));
    let (all, incomplete) = listed(53);
    assert_eq!((all.len(), incomplete), (53, false));
}

#[test]
fn a_folder_that_was_opened_stays_itself_and_a_link_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let (inner, secret) = (folder.path().join("inner"), folder.path().join("secret"));
    fs::create_dir(&inner).unwrap();
    fs::create_dir(&secret).unwrap();
    fs::write(inner.join("a"), "ours").unwrap();
    fs::write(secret.join("a"), "theirs").unwrap();
    let media = Media::open(folder.path()).unwrap();
    let opened = media.subfolder("inner").unwrap().unwrap();

    fs::rename(&inner, folder.path().join("aside")).unwrap();
    std::os::unix::fs::symlink(&secret, &inner).unwrap();
    assert_eq!(opened.read(Path::new("a"), 9).unwrap().unwrap(), b"ours");
    assert!(media.subfolder("inner").is_err());
    assert!(media.subfolder("none").unwrap().is_none());
}

#[test]
fn a_file_that_cannot_be_written_leaves_no_folder_that_was_made_for_it() {
    let fixture = Fixture::new();
    let long = "x".repeat(300);
    let write = |folder: &str| {
        let to = Path::new(folder).join(&long);
        fixture.media().write(&to, b"new", 0o644).unwrap_err();
    };
    write("made/for/it");
    assert!(!fixture.stick("made").exists());
    // Someone's own folder stays, empty or not.
    fs::create_dir(fixture.stick("theirs")).unwrap();
    write("theirs/for/it");
    assert_eq!(fs::read_dir(fixture.stick("theirs")).unwrap().count(), 0);
}
