//! What a delivery policy forbids of an assembled bundle: its size, and what a scanner finds. The scanner is a program that the policy names; it
//! reads the bill of materials of the bundle and of all its images in one document, and may forbid the bundle.
//!
//! What comes in: a bundle that is assembled and not signed, its delivery policy, and the programs that whoever runs outhaul named.
//! What goes out: nothing, or a [`PolicyViolation`]; and the scanner's report, kept in the fleet's folder. The report is not put into
//! the bundle: it changes from day to day, and the same content gets the same bytes. A scanner without a program, one that cannot be
//! started and one that takes too long forbid the bundle.

use std::path::{Path, PathBuf};
use std::time::Duration;

use outhaul_kit::durable;
use outhaul_kit::suggest::nearest;
use outhaul_load::program::{ProgramFault, Programs, run};
use outhaul_plane::delivery::Delivery;
use outhaul_signer::fleet::Fleet;

use super::built::Built;
use super::plan::StreamContents;
use super::{BundleRequest, PolicyViolation, ProduceError, delivery_rules};

/// How long a scanner may take.
const TIME_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The folder of reports, in the fleet's.
const SCANS: &str = "scans";

/// Refuses a bundle that its delivery policy forbids.
pub(super) fn permitted(
    fleet: &Fleet,
    request: &BundleRequest<'_>,
    plan: &StreamContents<'_>,
    built: &Built,
) -> Result<(), ProduceError> {
    let index = &built.bundle.index;
    let stream = format!(
        "{}/{}",
        index.stream.environment.as_str(),
        plan.cluster_type
    );
    let compressed = built.bundle.index_compressed()?;
    let index_bytes = compressed.map_or(built.bundle.index_bytes.len(), |bytes| bytes.len());
    delivery_rules::budget(&plan.delivery, &stream, index, index_bytes)?;
    let scan = Scan {
        stream,
        folder: fleet.folder(),
        role: &plan.role,
        number: index.number,
        sbom: &built.sbom,
    };
    scan.run(&plan.delivery, request.scanners)
}

/// A bundle that is scanned before it is signed.
#[derive(Debug)]
struct Scan<'a> {
    /// `<environment>/<cluster type>`.
    stream: String,
    /// The fleet's folder.
    folder: &'a Path,
    /// The stream's role.
    role: &'a str,
    /// The number that it would have.
    number: u64,
    /// The bill of materials.
    sbom: &'a [u8],
}

impl Scan<'_> {
    /// Asks the scanner, when a delivery policy names one.
    fn run(&self, delivery: &Delivery, scanners: &Programs) -> Result<(), ProduceError> {
        let Some(scanner) = &delivery.scan else {
            return Ok(());
        };
        let name = &scanner.value;
        let refused = |what: String, help: String| {
            Err(ProduceError::from(PolicyViolation {
                stream: self.stream.clone(),
                what: format!("{} wants it scanned by `{name}`, and {what}", scanner.by()),
                largest: Vec::new(),
                help,
            }))
        };
        let Some(program) = scanners.get(name) else {
            let given = scanners.names();
            let meant = nearest(name, &given)
                .map_or(String::new(), |near| format!(", where `{near}` was given"));
            return refused(
                format!("no program was named for it{meant}"),
                format!("give `--scanner {name}=PROGRAM`; a control plane cannot name a program"),
            );
        };
        let (report, fault) = match run(program, self.sbom, TIME_LIMIT) {
            Ok(report) => (report, None),
            Err(fault) => match fault {
                ProgramFault::Failed { ref stdout, .. } => (stdout.clone(), Some(fault)),
                other => (Vec::new(), Some(other)),
            },
        };
        let file = self.keep(&report, fault.is_some())?;
        match fault {
            None => Ok(()),
            Some(fault) if fault.is_answer() => refused(
                format!("it forbids it: {}", fault.sentence()),
                format!(
                    "its report is `{}`; correct what it found, or change the policy",
                    file.display()
                ),
            ),
            Some(fault) => refused(
                format!("it gave no verdict: {}", fault.sentence()),
                format!(
                    "run `{}` by hand to see what it does; nothing is signed without its verdict",
                    program.display()
                ),
            ),
        }
    }

    /// Keeps the report: that of a bundle under its number, that of a refusal until the next one.
    fn keep(&self, report: &[u8], is_refused: bool) -> Result<PathBuf, ProduceError> {
        let folder = self.folder.join(SCANS).join(self.role);
        durable::make_folder(&folder).map_err(ProduceError::Keep)?;
        let file = folder.join(match is_refused {
            true => "refused.report".to_owned(),
            false => format!("{}.report", self.number),
        });
        durable::write(&file, report, 0o644).map_err(ProduceError::Keep)?;
        Ok(file)
    }
}
