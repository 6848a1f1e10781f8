//! Where the reports of sites are: files, such as those on the stick that came back, or a hub's answers.
//!
//! What comes in: a file, a folder that is looked through, or a function that asks a hub. What goes out: what the lines say, in [`Seen`],
//! and a remark about each thing that is no report or was not looked at. Who signed a line is checked there; nothing is written, and it
//! knows no network: who asks brings the answers.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use outhaul_bundle::name::Name;
use outhaul_bundle::report::{MAX_REPORTS_BYTES, Report};
use outhaul_kit::durable::{self, FileError};
use outhaul_kit::format_count::format_count;
use outhaul_kit::media::{self, Bounds, Media};
use outhaul_signer::Envelope;
use outhaul_signer::envelope::{EnvelopeLine, next_line};

use super::{ReportLine, Seen, SiteError, Sites};

/// How far a stick is looked through.
const BOUNDS: Bounds = Bounds {
    depth: 3,
    entries: 100_000,
    kept: 10_000,
};

/// How often a hub is asked for the reports of one site: it answers a thousand at once.
const MAX_ANSWERS: usize = 20;

impl Sites<'_> {
    /// Adds what the reports in a file say to `seen`, or in all files of reports of a folder. `remark` gets what is to be said of them.
    ///
    /// # Errors
    /// [`SiteError`] when the file, the folder or a record cannot be read.
    pub fn note_reports(
        &self,
        path: &Path,
        seen: &mut Seen,
        remark: &dyn Fn(&str),
    ) -> Result<(), SiteError> {
        if !path.is_dir() {
            let file = media::open_file(path).map_err(SiteError::Named)?;
            return match self.note_file(path, file, seen, remark)? {
                Ok(()) => Ok(()),
                Err(error) => Err(SiteError::Named(error)),
            };
        }
        let folder = Media::open(path).map_err(SiteError::Named)?;
        let found = folder.files(BOUNDS, |name| media::is_named(Path::new(name), "reports"));
        let found = found.map_err(SiteError::Named)?;
        for error in &found.unusable {
            remark(&format!("left out: {error}"));
        }
        if found.incomplete {
            remark(&format!(
                "`{}` has more files than are read: reports may be among the others",
                path.display()
            ));
        }
        for file in &found.files {
            let noted = match folder.open_file(file) {
                Ok(Some(open)) => self.note_file(&path.join(file), open, seen, remark)?,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            // The reports of other sites are in other files.
            if let Err(error) = noted {
                remark(&format!("left out: {error}"));
            }
        }
        Ok(())
    }

    /// Asks a hub for the reports of a site, the newest first, until they say what it runs. `fetch` gets those below a number, or the
    /// newest; `hub` is what the answers are called.
    ///
    /// # Errors
    /// That of `fetch`, or [`SiteError`] when a record cannot be read.
    pub fn note_answers<E: From<SiteError>>(
        &self,
        hub: &str,
        site: &Name,
        seen: &mut Seen,
        remark: &dyn Fn(&str),
        fetch: &mut dyn FnMut(Option<u64>) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let mut before = None;
        for _ in 0..MAX_ANSWERS {
            let lines = fetch(before)?;
            if lines.is_empty() {
                return Ok(());
            }
            let numbers = lines_of(&lines).filter_map(|line| {
                let envelope = Envelope::from_json(line).ok()?;
                let report = Report::from_bytes(envelope.unverified_payload()).ok()?;
                Some(report.number)
            });
            let lowest = numbers.min();
            let failed = self.note_lines(Path::new(hub), &mut lines.as_slice(), seen, remark)?;
            failed.map_err(SiteError::Named)?;
            // Each answer has to go on from the one before.
            if seen.running(site.as_str()).is_ok() || lowest.is_none() || lowest == before {
                return Ok(());
            }
            before = lowest;
        }
        remark(&format!(
            "`{hub}` has more reports of `{site}` than are asked for, and none of the newest ones is of an active bundle"
        ));
        Ok(())
    }

    /// Takes in the lines of one open file. The inner error is of the file, and says that it is too large, too.
    fn note_file(
        &self,
        path: &Path,
        file: File,
        seen: &mut Seen,
        remark: &dyn Fn(&str),
    ) -> Result<Result<(), FileError>, SiteError> {
        match media::bounded(file, MAX_REPORTS_BYTES) {
            Ok(file) => self.note_lines(path, &mut BufReader::new(file), seen, remark),
            Err(error) => Ok(Err(durable::at("read", path)(error))),
        }
    }

    /// Takes in lines, and says what of them is no report. The inner error is that of the reader.
    fn note_lines(
        &self,
        path: &Path,
        lines: &mut dyn BufRead,
        seen: &mut Seen,
        remark: &dyn Fn(&str),
    ) -> Result<Result<(), FileError>, SiteError> {
        let (mut damaged, mut is_empty) = (0usize, true);
        let mut lines = lines;
        let read = loop {
            let is_damaged = match next_line(&mut lines) {
                Ok(None) => break Ok(()),
                Err(error) => break Err(durable::at("read", path)(error)),
                Ok(Some(EnvelopeLine::Whole(line))) if line.is_empty() => false,
                Ok(Some(EnvelopeLine::Whole(line))) => {
                    self.note_running(&line, seen)? == ReportLine::Damaged
                }
                Ok(Some(EnvelopeLine::TooLong)) => true,
            };
            is_empty = false;
            damaged += usize::from(is_damaged);
        };
        if is_empty && read.is_ok() {
            remark(&format!("`{}` is empty: it has no report", path.display()));
        }
        if damaged > 0 {
            remark(&format!(
                "`{}`: {} {} no report; the file was cut or changed, and what a site reported last may be missing",
                path.display(),
                format_count(damaged, "line", "lines"),
                if damaged == 1 { "is" } else { "are" }
            ));
        }
        Ok(read)
    }
}

fn lines_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use outhaul_test_kit::{Centre, Site};

    use super::*;

    /// A centre that approved the key of its one site.
    fn approved() -> (Centre, Site) {
        let centre = Centre::new();
        let stream = centre.stream("dev", "drone");
        let site = centre.site("drone-7", &stream);
        let sites = Sites::of(&centre.fleet);
        let name = "drone-7".parse().unwrap();
        sites
            .enrolled(&name, stream, site.enrolment(outhaul_test_kit::TOKEN))
            .unwrap();
        let candidate = sites.candidate(&site.request()).unwrap();
        sites.approve(candidate).unwrap();
        (centre, site)
    }

    /// Asks for reports with `fetch`; what they say, the remarks, and what was asked for.
    fn asked(
        centre: &Centre,
        fetch: &mut dyn FnMut(Option<u64>) -> Vec<u8>,
    ) -> (Seen, Vec<String>, Vec<Option<u64>>) {
        let (mut seen, mut below) = (Seen::default(), Vec::new());
        let said: RefCell<Vec<String>> = RefCell::default();
        let remark = |text: &str| said.borrow_mut().push(text.to_owned());
        let mut fetch = |before| {
            below.push(before);
            Ok::<_, SiteError>(fetch(before))
        };
        let name = "drone-7".parse().unwrap();
        Sites::of(&centre.fleet)
            .note_answers("hub", &name, &mut seen, &remark, &mut fetch)
            .unwrap();
        (seen, said.into_inner(), below)
    }

    #[test]
    fn a_hub_is_asked_until_a_report_says_what_the_site_runs() {
        let (centre, mut site) = approved();
        let older = site.active(3, "c0ffee");
        let newer = site.started();
        let (seen, said, below) = asked(&centre, &mut |before| match before {
            None => newer.clone(),
            Some(_) => older.clone(),
        });
        assert_eq!(seen.running("drone-7").unwrap().number, 3);
        assert_eq!(below, [None, Some(2)], "below the lowest it has");
        assert_eq!(said, [""; 0]);
    }

    #[test]
    fn a_hub_that_answers_the_same_or_without_end_is_asked_no_more() {
        let (centre, mut site) = approved();
        let same = site.started();
        let (seen, _, below) = asked(&centre, &mut |_| same.clone());
        assert!(seen.running("drone-7").is_err());
        assert_eq!(below, [None, Some(1)]);
        let (_, said, below) = asked(&centre, &mut |_| site.started());
        assert_eq!(below.len(), MAX_ANSWERS);
        assert!(said[0].contains("more reports of `drone-7`"), "{said:?}");
        let (_, said, below) = asked(&centre, &mut |_| b"no report\n".to_vec());
        assert_eq!(below, [None]);
        assert!(said[0].contains("1 line is no report"), "{said:?}");
    }

    #[test]
    fn a_folder_is_looked_through_and_what_is_no_report_is_said() {
        let (centre, mut site) = approved();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("reports")).unwrap();
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join("reports").join(name), bytes).unwrap();
        };
        write("drone-7.reports", &site.active(3, "c0ffee"));
        write("cut.reports", b"{");
        write("empty.reports", b"");
        write("other.txt", b"{");
        let read = |path: &Path| {
            let mut seen = Seen::default();
            let said: RefCell<Vec<String>> = RefCell::default();
            let remark = |text: &str| said.borrow_mut().push(text.to_owned());
            let done = Sites::of(&centre.fleet).note_reports(path, &mut seen, &remark);
            (done.map(|()| seen), said.into_inner().join("; "))
        };
        let (seen, said) = read(folder.path());
        assert_eq!(seen.unwrap().running("drone-7").unwrap().number, 3);
        assert!(said.contains("cut.reports`: 1 line is no report"), "{said}");
        assert!(said.contains("empty.reports` is empty"), "{said}");
        assert!(!said.contains("other.txt"), "{said}");
        let large = folder.path().join("reports/large.reports");
        let file = File::create(&large).unwrap();
        file.set_len(MAX_REPORTS_BYTES + 1).unwrap();
        let (alone, _) = read(&large);
        let Err(SiteError::Named(error)) = alone else {
            panic!("{alone:?}")
        };
        assert!(
            error
                .to_string()
                .contains("larger than the 1073741824 bytes")
        );
        let (seen, said) = read(folder.path());
        assert_eq!(seen.unwrap().running("drone-7").unwrap().number, 3);
        assert!(said.contains("large.reports`: it is larger than"), "{said}");
        let (missing, _) = read(&folder.path().join("gone.reports"));
        assert!(matches!(missing, Err(SiteError::Named(_))));
    }
}
